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
# # Random measures without truncation
#
# Features, topics and factorisations have infinitely many atoms of which data show a few. Here
# slice samplers look at as many as a step needs: on images made of features, next to a hybrid
# sampler of the same posterior; with a measure of one's own; and on bags of words.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import Dist, cycle, sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    DirichletCategorical,
    Groups,
    LinearGaussian,
    hybrid_features,
    slice_bnb,
    slice_crm,
    slice_features,
)
from sgmc_jax.processes import Bernoulli, StableBetaProcess, rejection

KEY, RNG = jax.random.key(0), np.random.default_rng(0)

# %% [markdown]
# ## Images of a few features
#
# Two hundred images of 36 pixels, sums of four features and noise.

# %%
planted = np.kron(np.eye(4).reshape(4, 2, 2), np.ones((3, 3))).reshape(4, 36)  # one corner each
entries = RNG.integers(0, 2, (200, 4))
images = (entries @ planted + 0.5 * RNG.normal(size=(200, 36))).astype(np.float32)

PARTS = (BetaBernoulli(1.0), LinearGaussian(36, 0.5, 1.0))
slices = slice_features(*PARTS, capacity=32)
hybrid = hybrid_features(*PARTS, blocks=20, capacity=32)
kernels = {"slices": slices, "hybrid": hybrid, "both in turn": cycle(slices, hybrid)}


def record(state, info):
    return state.position.shared["parameters"], jnp.sum(state.position.local["features"], axis=0)


def number(state, info):
    return jnp.sum(jnp.any(state.position.local["features"], axis=0))


# %% [markdown]
# All three have one posterior of the number of features. These chains begin with the entries that
# made the images.

# %%
truth = Dist({}, {"features": entries.astype(bool)})
runs = {
    name: sample(KEY, kernel, truth, images, num_steps=400, num_chains=4, record=number)
    for name, kernel in kernels.items()
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for name, run in runs.items():
    found = np.asarray(run.trace)
    axes[0].plot(found[0], label=name, lw=0.8)
    axes[1].plot(np.bincount(found[:, 50:].ravel(), minlength=9)[:9] / found[:, 50:].size, "o-")
axes[0].set(xlabel="step", ylabel="features")
axes[1].set(xlabel="features", ylabel="posterior probability")
axes[0].legend(frameon=False)
plt.show()

# %% [markdown]
# From one feature, hybrid steps find the others; slices alone hardly would, since a feature is born
# by an image that takes one drawn from the prior.

# %%
run = sample(KEY, kernels["both in turn"], None, images, num_steps=400, record=record)
values, counts = (np.asarray(part[-1]) for part in run.trace)
largest = np.argsort(-counts)[:4]
figure, axes = plt.subplots(2, 4, figsize=(6, 3))
for ax, picture in zip(axes.ravel(), [*planted, *values[largest]]):
    ax.imshow(picture.reshape(6, 6), cmap="gray")
    ax.axis("off")
axes[0, 0].set_title("planted", loc="left")
axes[1, 0].set_title("found", loc="left")
plt.show()

# %% [markdown]
# ## Another measure
#
# Under a stable beta process the number of features grows as a power of the number of items. No
# sampler with the weights integrated out is at hand for it: `slice_crm` takes its series as it is.

# %%
power = slice_crm(rejection(StableBetaProcess(1.0, 1.0, 0.5)), Bernoulli(), PARTS[1], capacity=64)
run = sample(KEY, power, truth, images, num_steps=400, num_chains=4, record=number)
print("features", np.asarray(run.trace)[:, 50:].mean().round(2), "in", run.capacity, "slots")

# %% [markdown]
# ## Topics
#
# Beta-negative-binomial clustering: documents of a small square of words, each topic a row or a
# column of it.

# %%
square = np.eye(5)[:, None, :].repeat(5, 1).reshape(5, 25)  # columns
topics = np.concatenate([square, square.reshape(5, 5, 5).swapaxes(1, 2).reshape(5, 25)]) / 5
shares = RNG.dirichlet(np.full(10, 0.2), 60)
words = [RNG.choice(25, size=80, p=share @ topics).astype(np.int32) for share in shares]
documents = Groups.from_list(words)
kernel = slice_bnb(BetaProcess(1.0, 2.0), DirichletCategorical(0.1, size=25), capacity=64)
start = jax.random.randint(KEY, documents.items.shape, 0, 20)
run = sample(KEY, kernel, start, documents, num_steps=300)
stats = run.state.sums.statistics
largest = np.argsort(-np.asarray(stats.count))[:10]
figure, axes = plt.subplots(1, 10, figsize=(10, 1.2))
for ax, total in zip(axes, np.asarray(stats.total)[largest]):
    ax.imshow(total.reshape(5, 5), cmap="gray")
    ax.axis("off")
plt.show()
print(int(np.sum(np.asarray(stats.count) > 0)), "topics in the last step")
