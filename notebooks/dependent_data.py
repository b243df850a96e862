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
# # Dependent data
#
# A series of rows that depend on one another through hidden states. A minibatch is a window of
# consecutive rows, with a buffer on each side that helps to tell its states and is not counted.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import ControlVariate, Minibatch, Window, find_mode, hmc, sample, sghmc
from sgmc_jax.models import HiddenMarkov, NormalEmission

KEY = jax.random.key(0)

# %% [markdown]
# ## Two states in noise

# %%
model = HiddenMarkov(2, NormalEmission())
emission = {"mean": jnp.array([-0.7, 0.7]), "log_scale": jnp.zeros(2)}
truth = model.position(jnp.array([[0.97, 0.03], [0.06, 0.94]]), emission)
states, series = model.simulate(KEY, truth, 1_000)
mode = find_mode(KEY, model, truth, series, batcher=Window(None))
law = eqx.filter_jit(model.smoothed)(mode, series)

fig, ax = plt.subplots(figsize=(9, 2.5), layout="constrained")
ax.plot(np.asarray(series)[:300], ".", color="0.6", markersize=3)
ax.plot(np.asarray(states)[:300] * 1.4 - 0.7, color="k", linewidth=0.8, label="state")
ax.plot(np.asarray(law)[:300, 1] * 1.4 - 0.7, color="#d55e00", label="smoothed, at the mode")
ax.legend(frameon=False, ncols=2)
plt.show()

# %% [markdown]
# ## The error of a buffer
#
# Over all blocks of ten rows, against the exact gradient. It falls geometrically, until float32
# rounds.

# %%
exact = jax.jit(lambda x: jax.grad(model.log_likelihood)(x, series))(mode)
gaps = {}
for buffer in (0, 2, 4, 8, 12, 16, 24):
    full = eqx.filter_jit(Minibatch(model, Window(10, buffer)).full)(mode, series).value
    gap = jax.tree.map(lambda a, b: jnp.abs(a - b), full, exact)
    gaps[buffer] = [float(gap["transition"].max()), float(gap["emission"]["mean"].max())]

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.semilogy(list(gaps), list(gaps.values()), "o-", label=["transition", "mean"])
ax.set(xlabel="buffer", ylabel="largest error of the gradient")
ax.legend(frameon=False)
plt.show()
{buffer: np.round(gap, 4).tolist() for buffer, gap in gaps.items()}

# %% [markdown]
# ## The posterior from windows, and from all rows
#
# With a buffer, and with none. Ten rows are short for windows, and five of a hundred blocks few:
# the noise of their gradients widens the law of the mean. Without a buffer it is worse: the means
# of the transitions are off, and chains may run away, which `sample` then stops and tells. Longer
# windows, more of them, or a smaller step are the cure.

# %%
chains = {"num_chains": 8}
runs = {
    "all rows (hmc)": sample(
        KEY, hmc(Minibatch(model, Window(None)), 0.03, 10), mode, series, num_steps=150, **chains
    )
}
for buffer in (20, 0):
    windows = Minibatch(model, Window(10, buffer, num_windows=5))
    # the control variate has the same blocks and the same buffers at the mode
    kernel = sghmc(ControlVariate(windows, mode), 0.03, 8.0)
    args = {"num_steps": 3_000, "burn_in": 500, "thin": 10, **chains}
    runs[f"windows, buffer {buffer}"] = sample(KEY, kernel, mode, series, **args)

fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for name, run in runs.items():
    leave = np.asarray(jax.vmap(jax.vmap(model.transition_matrix))(run.trace))
    values = (leave[..., 0, 1], leave[..., 1, 0], np.asarray(run.trace["emission"]["mean"])[..., 1])
    for ax, value in zip(axes, values):
        ax.hist(value.ravel(), 40, density=True, histtype="step", label=name)
    print(f"{name:20s}", [f"{v.mean():.4f} ({v.std():.4f})" for v in values])
for ax, title in zip(axes, ("P(0 to 1)", "P(1 to 0)", "mean of state 1")):
    ax.set_title(title)
axes[2].legend(frameon=False, fontsize=7)
plt.show()
