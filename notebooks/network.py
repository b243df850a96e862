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
# # A network that says what it is sure of
#
# An Equinox network with a prior on its weights, fitted to a curve with a gap in the data. The
# draws agree where there are data and part where there are none. How wide they are where there are
# none is an illustration: it is the prior's saying, of one data set, by chains that mix slowly.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import Minibatch, Uniform, gibbs, repeat, rhat, sample, sghmc
from sgmc_jax.models import BayesianNetwork

KEYS = jax.random.split(jax.random.key(0), 4)
NOISE = 0.2
x = jax.random.uniform(KEYS[0], (300,), minval=-2.0, maxval=2.0)
x = jnp.where((x > -0.2) & (x < 1.0), x - 1.2, x)[:, None]  # none between -.2 and 1
curve = lambda x: jnp.sin(3 * x)
y = curve(x[:, 0]) + NOISE * jax.random.normal(KEYS[1], (300,))

# %% [markdown]
# ## The model
#
# Any module of Equinox will do; its floating arrays are the position. The weights of each array
# are $\mathcal N(0, 1 / \lambda_g)$ with a precision $\lambda_g \sim \mathrm{Gamma}(1, 1)$ of their
# own, and here $y \sim \mathcal N(f(x), .2^2)$.

# %%
mlp = eqx.nn.MLP(1, 1, width_size=16, depth=2, activation=jnp.tanh, key=KEYS[2])
model = BayesianNetwork(mlp, loglik=lambda out, y: -0.5 * ((y - out[0]) / NOISE) ** 2)
number = sum(w.size for w in jax.tree.leaves(model.start(mlp)["weights"]))
print(number, "weights in", model.num_groups, "groups")

# %% [markdown]
# ## The sampler
#
# `gibbs` draws the precisions exactly given the weights, and the weights take ten steps of `sghmc`
# with batches of 100 of the 300 items in between. There is no mode to centre a control variate on:
# the posterior has many. Friction and a small step keep the noise of the batches down.


# %%
def weights(rest):
    grad = Minibatch(model.given(rest["log_precision"]), Uniform(100))
    return repeat(sghmc(grad, step_size=3e-3, friction=20.0), 10)


kernel = gibbs(log_precision=model.precisions, weights=weights)


def begin(key):
    return model.start(eqx.nn.MLP(1, 1, 16, 2, jnp.tanh, key=key))


args = {"num_steps": 3_000, "burn_in": 1_000, "thin": 20, "num_chains": 16}
run = sample(KEYS[3], kernel, begin, (x, y), **args)
print(f"excess temperature {run.summary().excess_temperature:.3f}")

# %% [markdown]
# ## What the draws say of the curve
#
# Weights are of no interest by themselves: hidden units may change places and signs, so that
# chains need not agree on them. They should agree on the function, whose values on a grid are told
# of every draw. The widths are the mean standard deviation of $f$, and in brackets the least and
# the largest by one chain alone: how rough they are.

# %%
grid = jnp.linspace(-2.8, 2.8, 141)
at = jax.jit(lambda position: model.response(position, grid[:, None])[:, 0])
f = np.asarray(jax.vmap(jax.vmap(at))(run.trace))
print("chains, draws, points:", f.shape)
seen = np.abs(np.asarray(grid)[:, None] - np.asarray(x)[:, 0]).min(1) < 0.1
places = {
    "near data": seen,
    "in the gap": ~seen & (np.abs(grid) < 1.5),
    "outside": np.abs(grid) > 2.1,
}
mean, spread = f.mean((0, 1)), f.std((0, 1))
low, high = np.quantile(f.reshape(-1, len(grid)), [0.05, 0.95], axis=0)
within = (low < curve(grid)) & (curve(grid) < high)
by_chain, agreement = f.std(1), rhat(f)
for name, where in places.items():
    each = by_chain[:, where].mean(1)
    print(
        f"{name:11s} sd of f {spread[where].mean():.2f} ({each.min():.2f} to {each.max():.2f}), "
        f"R-hat at most {agreement[where].max():.2f}, "
        f"the truth within 90 % bands at {within[where].mean():.0%} of the points"
    )

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for ax in axes:
    ax.plot(x[:, 0], y, ".", color="0.5", markersize=3, label="data")
    ax.plot(grid, curve(grid), "k--", linewidth=1, label="truth")
    ax.set(ylim=(-3, 3), xlabel="x", ylabel="y")
lines = axes[0].plot(grid, f[:, ::50].reshape(-1, len(grid)).T, color="#0072b2", linewidth=0.5)
lines[0].set_label("draws")
axes[0].legend(fontsize=7, loc="lower left", ncols=3)
axes[0].set_title("draws of the network")
noisy = f + NOISE * np.random.default_rng(0).normal(size=f.shape)
bands = np.quantile(noisy.reshape(-1, len(grid)), [0.05, 0.95], axis=0)
axes[1].fill_between(grid, *bands, color="#56b4e9", alpha=0.35, label="90 % of new items")
axes[1].fill_between(grid, low, high, color="#0072b2", alpha=0.35, label="90 % of the curve")
axes[1].plot(grid, mean, color="#d55e00", linewidth=1, label="mean")
axes[1].legend(fontsize=7, loc="lower left", ncols=3)
axes[1].set_title("what is known")
plt.show()

# %% [markdown]
# ## What was seen
#
# - **Near the data** the draws differ by less than half of the noise of an item. In the gap and
#   outside of all data, where the prior speaks, they differ by several times as much.
# - **How rough that is.** R-hat is far above the 1.01 that is asked for at some points of every
#   region: chains move slowly among the modes. In the gap one chain alone may be twice as wide as
#   another. Near the data they agree on the width to about a tenth.
# - **Too hot.** The excess temperature is about a tenth: the noise of the batches widens the draws
#   besides, by a few per cent. A smaller step or larger batches would take it away.
# - **The truth** is within the bands near the data and in the gap, and in part outside. One curve
#   and one data set say little of how often that is so.
#
# [Regression and networks](../docs/guide/regression_and_networks.md) of the guide has larger
# networks, classification and predictions. [Tuning](tuning.ipynb) has step sizes, and
# [control variates](control_variates.ipynb) what the noise of batches does.
