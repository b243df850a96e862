# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart
# Bayesian logistic regression on the breast-cancer data, by stochastic gradient Langevin dynamics
# with and without control variates, against exact Hamiltonian Monte Carlo. The whole comparison,
# with six kernels, is `make demo`.

# %%
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from IPython.display import Image, Markdown

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "experiments").is_dir())
sys.path.insert(0, str(root))

from experiments.quickstart import compare, pictures, problems
from sgmc_jax import ControlVariate, Minibatch, Uniform, sample, sgld

# %% [markdown]
# The posterior is whitened at its mode: w = mode + factor @ z, and z is near standard normal.

# %%
split = problems.breast_cancer()
problem = problems.logistic(split)
split.x.shape, problem.mode.shape

# %% [markdown]
# A sampler is a kernel on a gradient. The data is an argument of `sample`.

# %%
plain = Minibatch(problem.model, Uniform(64))
grad = ControlVariate(plain, centre=jnp.zeros(31))
kernel = sgld(grad, step_size=0.03)
run = sample(
    jax.random.key(0),
    kernel,
    jnp.zeros(31),
    problem.data,
    num_steps=4_000,
    num_chains=64,
    burn_in=500,
    thin=10,
)
run.trace.shape, bool(run.info.finite.all())

# %% [markdown]
# Compared with the exact posterior: errors of the means in posterior sds, ratios of the sds.

# %%
size = compare.SIZES["small"]
settings = {**size.settings, "num_steps": 5_000}
exact = compare.reference(jax.random.key(1), problem, size)
kernels = {"sgld, plain": sgld(plain, 0.03), "sgld, control variate": kernel}
draws = [
    compare.draw(jax.random.key(2), name, kernel, problem, **settings)
    for name, kernel in kernels.items()
]
rows = [compare.measure(one, exact, problem, split) for one in [*draws, exact]]
Markdown(compare.render(rows))

# %%
pictures.draw_moments(draws, exact, problem, split.names, path := Path("quickstart.png"))
picture = Image(path.read_bytes())
path.unlink()
picture
