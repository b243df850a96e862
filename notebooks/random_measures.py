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
# slice samplers look at as many as a step needs: next to a hybrid sampler of the same posterior;
# with a measure of one's own; and on bags of words. In between, images that want a good start.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax import Dist, cycle, ess, rhat, sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    DirichletCategorical,
    Groups,
    LinearGaussian,
    default_sampler,
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

KEYS, RNG = jax.random.split(jax.random.key(0), 12), np.random.default_rng(0)


def corners(side):
    """Four features, each a corner of an image of so many times two pixels a side."""
    return np.kron(np.eye(4).reshape(4, 2, 2), np.ones((side, side))).reshape(4, 4 * side**2)


def simulate(number, features, noise):
    """Images, sums of features and noise, and which of them each has."""
    entries = RNG.integers(0, 2, (number, 4))
    images = entries @ features + noise * RNG.normal(size=(number, features.shape[1]))
    return images.astype(np.float32), entries.astype(bool)


# %% [markdown]
# ## One posterior, three samplers
#
# Thirty images of 16 pixels in so much noise that they do not tell how many features there are. Two
# chains of each sampler begin with the entries that made the images, two with one feature that all
# have; if all four agree, they have forgotten it.

# %%
images, entries = simulate(30, corners(2), 1.0)
PARTS = (BetaBernoulli(1.0), LinearGaussian(16, 1.0, 1.0))
slices = slice_features(*PARTS, capacity=32)
hybrid = hybrid_features(*PARTS, blocks=3, capacity=32)
kernels = {"slices": slices, "hybrid": hybrid, "both in turn": cycle(slices, hybrid)}
one = np.arange(4) == 0
starts = Dist({}, {"features": np.stack([entries, entries, *[np.tile(one, (30, 1))] * 2])})


def number(state, info):
    """Of features in use, and of entries."""
    features = state.position.local["features"]
    return jnp.stack([jnp.sum(jnp.any(features, axis=0)), jnp.sum(features)])


def report(name, trace):
    """Means with Monte-Carlo errors, and R-hat."""
    trace = np.asarray(trace, float)
    mean, error = trace.mean((0, 1)), trace.std((0, 1)) / np.sqrt(ess(trace))
    shown = ", ".join(f"{m:.2f} +- {e:.2f} {what}" for m, e, what in zip(mean, error, WHAT))
    print(f"{name:12s} {shown}; R-hat at most {rhat(trace).max():.2f}")


WHAT = ("features", "entries")
args = {"num_steps": 1_000, "burn_in": 100, "num_chains": 4, "position_axis": 0}
figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
for i, (name, kernel) in enumerate(kernels.items()):
    run = sample(KEYS[i], kernel, starts, images, record=number, **args)
    report(name, run.trace)
    found = np.asarray(run.trace)[..., 0].astype(int)
    axes[0].plot(found[0] + 0.1 * i, label=name, lw=0.6)
    share = np.stack([np.bincount(chain, minlength=9)[:9] / len(chain) for chain in found])
    error = share.std(0, ddof=1) / 2  # of the mean of four chains
    axes[1].errorbar(np.arange(9) + 0.1 * i, share.mean(0), error, fmt="o", ms=4, label=name)
axes[0].set(xlabel="step", ylabel="features, first chain")
axes[1].set(xlabel="features", ylabel="posterior probability")
axes[1].legend(frameon=False)
plt.show()

# %% [markdown]
# They agree within their errors.
#
# ## Images that tell their features, and a start
#
# With more and larger images in less noise a feature is hardly ever born or dies: an image would
# have to want one drawn from its prior. A chain from one feature may end with others that say the
# same, a sum of two corners and either of them less, and all chains alike, so that no diagnostic
# tells. `default_sampler` begins with features found in some of the images by several short chains.


# %%
def record(state, info):
    shared, local = state.position
    counts = jnp.sum(local["features"], axis=0)
    return counts, NewItems.of(CLEAR[0], shared, counts, len(many))


many, theirs = simulate(200, corners(3), 0.5)
others, _ = simulate(100, corners(3), 0.5)
CLEAR = (BetaBernoulli(1.0), LinearGaussian(36, 0.5, 1.0))
kernel, start, choices = default_sampler(KEYS[4], *CLEAR, many)
print(choices)
run = sample(KEYS[5], kernel, start, many, num_steps=200, record=record)
counts, laws = jax.tree.map(jnp.asarray, run.trace)
plot_features(laws.parameters[-1], (6, 6), counts=counts[-1])[0].figure

# %% [markdown]
# What the draws say of images that they have not seen: the distance from the nearest sum of
# features, and the log density of an image with all entries summed out, averaged over draws. The
# best that can be known is the density under what made the images; the noise alone has a length of
# $.5 \sqrt{36} = 3$.

# %%
last = jax.tree.map(lambda x: x[100::5], laws)
densities = jax.vmap(lambda law: law.largest(8).log_prob(others))(last)
told = jax.nn.logsumexp(densities, axis=0) - jnp.log(len(densities))
best = NewItems(corners(3), np.full(4, 0.5), 0.5).log_prob(others)
print(f"distance {held_out_error(KEYS[6], laws.parameters[-1], others).mean():.2f}")
print(f"log density {told.mean():.2f}, of at best {best.mean():.2f}")

# %% [markdown]
# And new images, drawn from the last draw's law.

# %%
drawn, _ = jax.tree.map(lambda x: x[-1], laws).draw(KEYS[7], 8)
plot_features(drawn, (6, 6))[0].figure

# %% [markdown]
# ## Another measure
#
# Under a stable beta process the number of features grows, before there are data, as a power of the
# number of items. No sampler with the weights integrated out is at hand for it: `slice_crm` takes
# its series as it is. These images are told by the four features that made them, where chains begin
# here and stay: the other prior does not move them.

# %%
power = slice_crm(rejection(StableBetaProcess(1.0, 1.0, 0.5)), Bernoulli(), CLEAR[1], capacity=64)
made = Dist({}, {"features": theirs})
run = sample(KEYS[3], power, made, many, num_steps=400, num_chains=4, record=number)
print("features", np.asarray(run.trace)[:, 50:, 0].mean().round(2), "in", run.capacity, "slots")

# %% [markdown]
# ## Topics
#
# Beta-negative-binomial clustering: documents of a small square of words, each topic a row or a
# column of it. A fifth of each document's words is kept out.

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
begin = jax.random.randint(KEYS[8], documents.items.shape, 0, 20)


def judged(state, info):
    """The topics, their words, and the proportions of all documents."""
    stats, (shared, local) = state.sums.statistics, state.position
    counts = topic_counts(local["assignment"], documents.size, len(stats.count))
    share = bnb_proportions(process, kernel.log_theta(shared), counts)
    return stats.count, word_distributions(family, stats), share


run = sample(KEYS[9], kernel, begin, documents, num_steps=300, record=judged)
counts, found, share = (jnp.asarray(part) for part in run.trace)
sizes = -np.sort(-np.asarray(counts[-1]))
print(
    f"{np.sum(sizes > 0)} topics in use; the largest ten have {sizes[:10].sum() / sizes.sum():.0%}"
)
plot_features(found[-1], (5, 5), counts=counts[-1], columns=10)[0].figure

# %%
names = [f"{row}{column}" for row in "abcde" for column in "12345"]
for row in top_words(found[-1], names, 5, counts=counts[-1])[:3]:
    print(*row)
frequency = np.bincount(np.concatenate([row[:80] for row in words]), minlength=25) + 0.1
scores = {
    "one law for all": perplexity(frequency[None] / frequency.sum(), np.ones((60, 1)), held_out),
    "one draw": perplexity(found[-1], share[-1], held_out),
    "15 draws": perplexity(found[::10][-15:], share[::10][-15:], held_out),
    "what made them": perplexity(topics, shares, held_out),
}
print("perplexity of held-out words:", {name: round(float(x), 2) for name, x in scores.items()})

# %% [markdown]
# All ten rows and columns are there, a few of them twice; the other topics, of few words, are
# mixtures. The words that were kept out are told nearly as well as by what made the documents.
# Single chains of images and topics show what the samplers do, but not that they are done: for
# results run several, from different starts, and look at their `run.summary()`. Which series for
# which measure, what truncation costs, and slices or hybrid or collapsed samplers are in the
# guide's pages on [random measures](../docs/guide/random_measures.md) and
# [choosing](../docs/guide/choosing.md); clusters in place of features in [a mixture on eight
# devices](mixture_on_devices.ipynb).
