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
# draws agree where there are data and part where there are none.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import Minibatch, Uniform, gibbs, repeat, rhat, sample, sghmc
from sgmc_jax.models import BayesianNetwork

KEYS = jax.random.split(jax.random.key(0), 6)
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


args = {"num_steps": 3_000, "burn_in": 1_000, "thin": 20, "num_chains": 8}
run = sample(KEYS[3], kernel, begin, (x, y), **args)
print(f"excess temperature {run.info.kernel['weights'].excess_temperature.mean():.3f}")

# %% [markdown]
# ## What the draws say of the curve
#
# Weights are of no interest by themselves: hidden units may change places and signs, so that
# chains need not agree on them. They should agree on the function, whose values on a grid are told
# of every draw.

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
for name, where in places.items():
    print(
        f"{name:11s} sd of f {spread[where].mean():.2f}, R-hat at most {rhat(f)[where].max():.2f}, "
        f"the truth within 90 % bands at {within[where].mean():.0%} of the points"
    )

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for ax in axes:
    ax.plot(x[:, 0], y, ".", color="0.7", markersize=3)
    ax.plot(grid, curve(grid), "k--", linewidth=1, label="truth")
    ax.set(ylim=(-3, 3), xlabel="x")
axes[0].plot(grid, f[:, ::25].reshape(-1, len(grid)).T, color="#0072b2", linewidth=0.5, alpha=0.6)
axes[0].set_title("draws of the network")
noisy = f + NOISE * np.random.default_rng(0).normal(size=f.shape)
bands = np.quantile(noisy.reshape(-1, len(grid)), [0.05, 0.95], axis=0)
axes[1].fill_between(grid, *bands, color="#56b4e9", alpha=0.35, label="90 % of new items")
axes[1].fill_between(grid, low, high, color="#0072b2", alpha=0.35, label="90 % of the curve")
axes[1].plot(grid, mean, color="#d55e00", linewidth=1, label="mean")
axes[1].legend(fontsize=7, loc="upper left")
axes[1].set_title("what is known")
plt.show()

# %% [markdown]
# Near the data the draws differ by .09, less than half of the noise of an item; in the gap and
# outside of all data, where the prior speaks, by five times as much, with the truth inside at
# nearly all points. R-hat is from 1.06 to 1.15: chains move slowly among the modes, and the widths
# are rough. The excess temperature says that they are a few hundredths too large besides.
