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
from sgmc_jax.evaluation import (
    NewItems,
    bnb_proportions,
    held_out_error,
    perplexity,
    top_words,
    topic_counts,
    word_distributions,
)
from sgmc_jax.pictures import plot_features
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
others = (RNG.integers(0, 2, (100, 4)) @ planted + 0.5 * RNG.normal(size=(100, 36))).astype(
    np.float32
)

PARTS = (BetaBernoulli(1.0), LinearGaussian(36, 0.5, 1.0))
slices = slice_features(*PARTS, capacity=32)
hybrid = hybrid_features(*PARTS, blocks=20, capacity=32)
kernels = {"slices": slices, "hybrid": hybrid, "both in turn": cycle(slices, hybrid)}


def record(state, info):
    shared, local = state.position
    counts = jnp.sum(local["features"], axis=0)
    return counts, NewItems.of(PARTS[0], shared, counts, len(images))


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
# From one feature, hybrid steps find more until the images are explained, if not always the four: a
# sum of two corners, with either of them less, says the same. Slices alone hardly would, since a
# feature is born by an image that takes one drawn from the prior.

# %%
run = sample(KEY, kernels["both in turn"], None, images, num_steps=400, record=record)
counts, laws = jax.tree.map(jnp.asarray, run.trace)
plot_features(laws.parameters[-1], (6, 6), counts=counts[-1])[0].figure

# %% [markdown]
# What the draws say of images that they have not seen: the distance from the nearest sum of
# features, and the log density of an image with all entries summed out, averaged over draws. The
# best that can be known is the density under what made the images.

# %%
last = jax.tree.map(lambda x: x[200::10], laws)
densities = jax.vmap(lambda law: law.largest(8).log_prob(others))(last)
told = jax.nn.logsumexp(densities, axis=0) - jnp.log(len(densities))
best = NewItems(planted, np.full(4, 0.5), 0.5).log_prob(others)
print("distance", held_out_error(KEY, laws.parameters[-1], others).mean().round(3))
print("log density", told.mean().round(2), "of at best", best.mean().round(2))

# %% [markdown]
# And new images, drawn from the last draw's law.

# %%
drawn, _ = jax.tree.map(lambda x: x[-1], laws).draw(KEY, 8)
plot_features(drawn, (6, 6))[0].figure

# %% [markdown]
# ## Another measure
#
# Under a stable beta process the number of features grows, before there are data, as a power of the
# number of items. No sampler with the weights integrated out is at hand for it: `slice_crm` takes
# its series as it is. These images are told by the four features that made them, where chains begin
# here and stay: the other prior does not move them.

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
words = [RNG.choice(25, size=100, p=share @ topics).astype(np.int32) for share in shares]
documents, held_out = (
    Groups.from_list([row[part] for row in words]) for part in (slice(80), slice(80, None))
)
process, family = BetaProcess(1.0, 2.0), DirichletCategorical(0.1, size=25)
kernel = slice_bnb(process, family, capacity=64)
start = jax.random.randint(KEY, documents.items.shape, 0, 20)


def judged(state, info):
    """The topics, their words, and the proportions of all documents."""
    stats, (shared, local) = state.sums.statistics, state.position
    counts = topic_counts(local["assignment"], documents.size, len(stats.count))
    share = bnb_proportions(process, kernel.log_theta(shared), counts)
    return stats.count, word_distributions(family, stats), share


run = sample(KEY, kernel, start, documents, num_steps=300, record=judged)
counts, found, share = (jnp.asarray(part) for part in run.trace)
plot_features(found[-1], (5, 5), counts=counts[-1], num=10, columns=10)[0].figure

# %%
names = [f"{row}{column}" for row in "abcde" for column in "12345"]
for row in top_words(found[-1], names, 5, counts=counts[-1])[:3]:
    print(*row)
print("perplexity of held-out words:", end=" ")
print("of one draw", perplexity(found[-1], share[-1], held_out).round(2), end=", ")
print("of 15 draws", perplexity(found[::10][-15:], share[::10][-15:], held_out).round(2))
