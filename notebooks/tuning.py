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
# # Tuning that works by itself
#
# A step size decides between draws that hardly move and draws that are wrong. Here: a kernel that
# is ready to run, and settings compared by their kernel Stein discrepancy.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import Full, FunctionModel, Minibatch, ess, sample, sghmc, sgld
from sgmc_jax.models import LogisticRegression
from sgmc_jax.tune import default_kernel, grid_search, laplace, successive_halving

keys = jax.random.split(jax.random.key(0), 6)
model = LogisticRegression()
theta, data = model.simulate(keys[0], 50_000, 5)

# %% [markdown]
# `laplace` finds the mode by Newton's method, from a subset of the items first, and the scale of
# the posterior there. `default_kernel` adds control variates at the mode, and batches whose noise
# makes variances too large by about 5 %.

# %%
fit = laplace(keys[1], model, jnp.zeros(5), data)
kernel = default_kernel(keys[1], model, fit.mode, data, fit=fit)
run = sample(keys[2], kernel, fit.mode, data, num_steps=3_000, burn_in=500, num_chains=4)
print("batches:", type(kernel.grad.inner.batcher).__name__, kernel.grad.inner.batcher.batch_size)
print("least effective sample size of 10,000 draws:", int(ess(run.trace).min()))

sd = jnp.linalg.norm(fit.space.cholesky, axis=1)
figure, axes = plt.subplots(1, 5, figsize=(12, 2.4), layout="constrained")
for j, ax in enumerate(axes):
    ax.hist(run.trace[..., j].ravel(), 60, density=True, color="#56b4e9")
    grid = np.linspace(fit.mode[j] - 4 * sd[j], fit.mode[j] + 4 * sd[j], 100)
    ax.plot(grid, jax.scipy.stats.norm.pdf(grid, fit.mode[j], sd[j]), color="#333333")
    ax.axvline(theta[j], color="#d55e00")
    ax.set(title=f"coefficient {j + 1}", yticks=[])

# %% [markdown]
# The lines are the normal approximation, and the coefficients that the data were drawn from.
#
# ## An effective sample size does not see a bias
#
# Twelve step sizes of plain `sgld` on a plane normal law, which the largest ones miss by far. The
# effective sample size likes those best.

# %%
covariance = jnp.array([[1.5, 0.5], [0.5, 1.5]])
precision = jnp.linalg.inv(covariance)


def log_density(x):
    return -0.5 * x @ precision @ x


target = FunctionModel(log_density)
steps = [float(h) for h in np.geomspace(1e-3, 1.9, 12)]
make = lambda step_size: sgld(Minibatch(target, Full()), step_size)
found = grid_search(keys[3], target, make, {"step_size": steps}, jnp.zeros(2), None, budget=6e4)
print(found.table())

figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
found.plot(ax=axes[0])
sizes = []
for step_size in steps:
    chain = sample(keys[4], make(step_size), jnp.zeros(2), None, num_steps=5_000).trace
    sizes.append(ess(chain[None]).min())
axes[1].loglog(steps, sizes, "o-")
axes[1].set(xlabel="step_size", ylabel="least effective sample size")

# %% [markdown]
# ## More settings for the same budget
#
# Successive halving gives all settings a little, and the best third more: the budget that the grid
# above spent on twelve settings is here that of 27. Step size and friction of `sghmc`, whose
# settings run side by side in one compiled program.

# %%
grid = {"step_size": steps[3:], "friction": [0.1, 1.0, 10.0]}
make = lambda step_size, friction: sghmc(Minibatch(target, Full()), step_size, friction)
halved = successive_halving(keys[5], target, make, grid, jnp.zeros(2), None, budget=6e4)
print("\n".join(halved.table().split("\n")[:10]))
axes = halved.plot()
