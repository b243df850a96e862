# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # A model in numpyro, and a million items
#
# A regression with heavy tails, written in numpyro. `from_numpyro` reads priors, supports and the
# items from it; a step of the sampler then looks at 500 of the million items.

# %%
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

warnings.filterwarnings("ignore", message="IProgress")  # of a progress bar, not drawn here
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree

from sgmc_jax import ControlVariate, Minibatch, Uniform, from_numpyro, sample, sghmc
from sgmc_jax.tune import laplace

N = 1_000_000


def regression(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([4]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    tail = numpyro.sample("tail", dist.Gamma(2, 0.1))
    with numpyro.plate("items", len(x)):
        numpyro.sample("y", dist.StudentT(tail, x @ weights, scale), obs=y)


keys = jax.random.split(jax.random.key(0), 7)
truth = {"weights": jnp.array([1.0, -0.5, 0.0, 2.0]), "scale": 0.5, "tail": 4.0}
x = jax.random.normal(keys[0], (N, 4))
y = x @ truth["weights"] + truth["scale"] * jax.random.t(keys[1], truth["tail"], (N,))

# %% [markdown]
# ## From numpyro to a kernel
#
# The sampler moves freely: its position has the logarithms of `scale` and `tail`, with the
# Jacobians that belong to them, and `constrain` tells draws in the model's own terms. The
# posterior is narrow, of a width of order $1 / \sqrt N$ that differs between directions. `laplace`
# finds its mode, and a metric in which its covariance is about $I$, so that one step size suits
# all.

# %%
model = from_numpyro(regression, x, y)
data = model.data(x, y)
fit = laplace(keys[2], model, model.start(keys[5]), data)
for name, value in model.constrain(fit.mode).items():
    print(name, np.array2string(np.asarray(value), precision=3, suppress_small=True))

# %% [markdown]
# ## Minibatches
#
# Their noise alone would be some $N / n = 2000$ times the curvature. Control variates at the mode
# leave of it what is due to the distance from the mode. (`tune.default_kernel` sets step size and
# batches by itself.)

# %%
grad = ControlVariate(Minibatch(model, Uniform(500)), centre=fit.mode)
kernel = sghmc(grad, step_size=0.4, friction=1.0, space=fit.space)
begin = partial(fit.draw, spread=2.0)  # so that R-hat has something to compare
run = sample(keys[3], kernel, begin, data, num_steps=2_000, burn_in=200, num_chains=4)
print(run.summary(model))

# %% [markdown]
# 2,000 steps of 4 chains with two gradients of 500 items each cost what eight passes over the data
# do, besides those that the search for the mode and the sums at it have taken.
#
# ## To ArviZ
#
# Given the model, draws are told in its own coordinates. (Given the data too, `to_arviz` would add
# the log likelihood of every item in every draw, which is not for a million items.)

# %%
tree = run.to_arviz(model, coords={"feature": list("abcd")}, dims={"weights": ["feature"]})
print("groups", list(tree.children), "dims of weights", tree["posterior"]["weights"].dims)
for name in ("weights", "scale", "tail"):
    draws = np.concatenate(tree["posterior"][name].to_numpy())  # of all chains
    draws = draws.reshape(len(draws), -1)
    for mean, sd, true in zip(draws.mean(0), draws.std(0), np.ravel(truth[name])):
        off = (true - mean) / sd
        print(f"{name:8s} mean {mean:.4f}, sd {sd:.5f}, planted {true:.1f}, {off:+.1f} sd off")

# %% [markdown]
# ## Against the normal approximation
#
# A million items leave a posterior that is all but normal, so that there is something to compare
# with: the mode and the curvature there, in the coordinates of the sampler (logarithms of `scale`
# and `tail`).

# %%
flat = jax.vmap(jax.vmap(lambda z: ravel_pytree(z)[0]))(run.trace)
centre = ravel_pytree(fit.mode)[0]
sds = jnp.linalg.norm(fit.space.cholesky, axis=1)
table = run.summary()
fig, axes = plt.subplots(2, 3, figsize=(9, 4.6), layout="constrained")
for j, ax in enumerate(axes.ravel()):
    scaled = np.asarray((flat[..., j] - centre[j]) / sds[j]).ravel()
    ax.hist(scaled, 60, density=True, color="#56b4e9")
    grid = np.linspace(-4, 4, 100)
    ax.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="#333333")
    name, effective = table.names[j], table.columns["ess_bulk"][j]
    ax.set(title=name, xlabel="standard deviations from the mode", yticks=[])
    mean = f"mean {scaled.mean():+.3f} +- {scaled.std() / effective**0.5:.3f}"
    spread = f"sd {scaled.std():.3f} +- {scaled.std() / (2 * effective) ** 0.5:.3f}"
    print(f"{name:12s} {mean}, {spread}")
plt.show()

# %% [markdown]
# Means and standard deviations are those of the approximation within two or three of their errors,
# which are approximate themselves. Of the table's excess temperature, .05, $h^2 / 4 = .04$ belongs
# to the momenta: the noise of the batches widens next to nothing here.
#
# ## New items
#
# `predictive` is numpyro's, from draws of the sampler, here for three rows that the model has not
# seen.

# %%
new_x = jax.random.normal(keys[6], (3, 4))
some = jax.tree.map(lambda z: z[:, ::10], run.trace)
new = model.predictive(keys[4], some, new_x)["y"].reshape(-1, 3)
for item, line in zip(new.T, new_x @ truth["weights"]):
    low, high = np.quantile(item, [0.05, 0.95])
    print(f"90 % of y between {low:.2f} and {high:.2f}, about a planted line of {line:.2f}")

# %% [markdown]
# Where to go next: other supports, and models without numpyro, are in the guide's page on
# [constraints](../docs/guide/constraints.md); data that do not fit in memory in
# [long runs](../docs/guide/long_runs.md); why the noise of a batch can be taken away in
# [control variates](control_variates.ipynb).
