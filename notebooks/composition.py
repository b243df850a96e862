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
# # Kernels that compose
#
# Five points in a Dirichlet process mixture have 52 partitions, whose posterior probabilities can
# be summed up. Here samplers that take turns on the partition are held against them, and one cycle
# that is wrong, though each of its kernels is exact.

# %%
import dataclasses
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln

from sgmc_jax import Dist, Kernel, cycle, sample, thin
from sgmc_jax.bnp import DirichletMultinomial, DirichletProcess, hybrid_mixture, slice_mixture

X = np.array([[3, 0, 1], [2, 1, 0], [0, 2, 0], [0, 3, 1], [1, 1, 1]])
CONCENTRATION, PRIOR = 0.8, np.array([0.5, 0.4, 0.3])
PARTS = (DirichletProcess(CONCENTRATION), DirichletMultinomial(PRIOR))
KEYS = jax.random.split(jax.random.key(0), 7)

# %% [markdown]
# ## The exact law
#
# A partition into clusters $C_1, \dots, C_K$ has probability proportional to
# $a^K \prod_k (|C_k| - 1)! \, p(x_{C_k})$.


# %%
def partitions(n):
    for labels in itertools.product(*(range(i + 1) for i in range(n))):
        if all(labels[i] <= max(labels[:i], default=-1) + 1 for i in range(n)):
            yield labels


def log_probability(labels):
    total = (max(labels) + 1) * math.log(CONCENTRATION)
    for k in range(max(labels) + 1):
        x = X[np.array(labels) == k]
        shape = PRIOR + x.sum(0)
        total += math.lgamma(len(x)) + gammaln(shape).sum() - gammaln(shape.sum())
        total += gammaln(PRIOR.sum()) - gammaln(PRIOR).sum()
    return total


ALL = list(partitions(len(X)))
law = np.exp([log_probability(labels) for labels in ALL])
law /= law.sum()
print(f"{len(ALL)} partitions, the likeliest of probability {law.max():.2f}")

# %% [markdown]
# ## Samplers that take turns
#
# A sampler keeps clusters in numbered **slots**; the **capacity** is how many there are to begin
# with, and more are made when they are needed. The kernels:
#
# - `hybrid_mixture` divides the points into **blocks**. One of them is swept point by point, with
#   new clusters born there, while the points of the others choose among the clusters that there
#   are. Here five points are in two blocks, which do not divide them evenly.
# - `slice_mixture` draws a weight for each cluster, and which clusters are open: finitely many,
#   though there are infinitely many. All points of open ones choose among them at once. With
#   `"scir"` the weights are not drawn anew: they are lengths broken off a stick, one after the
#   other, and each step moves them a little.
# - `renaming` is a kernel of our own, of two functions: it permutes the names of the slots, and
#   leaves the partition alone.
#
# `cycle` lets kernels take turns, `thin` makes one of several steps. `sample(..., reduce=)` keeps
# the mean of a function of the state in place of draws: here of the partition, one-hot.

# %%
SAME = jnp.array([[[a == b for b in labels] for a in labels] for labels in ALL])


def which(state, info):
    labels = state.position.local["assignment"]
    return jnp.all((labels[:, None] == labels) == SAME, axis=(1, 2)).astype(jnp.float32)


class Renamed(NamedTuple):
    position: Dist


def rename(key, state, data):
    shared, local = state.position
    names, labels = jax.random.permutation(key, 32).astype(jnp.int32), local["assignment"]
    renamed = jnp.where(labels < 32, names[labels % 32], labels)  # slots may be added
    return Renamed(Dist(shared, {"assignment": renamed})), None


renaming = Kernel.from_functions(lambda key, position, data: Renamed(position), rename)
hybrid = hybrid_mixture(*PARTS, blocks=2, capacity=32)
slices = slice_mixture(*PARTS, capacity=32)
moving = slice_mixture(*PARTS, None, "scir", step_size=1.0, capacity=32)
kernels = {
    "hybrid, two blocks": hybrid,
    "slices": slices,
    "slices, then other names": cycle(slices, renaming),
    "slices, then hybrid": cycle(slices, hybrid),
    "moving weights, then other names": cycle(moving, renaming),
    "hybrid from 2 slots, thinned": thin(hybrid_mixture(*PARTS, blocks=2, capacity=2), 2),
}


def against_the_law(key, kernel):
    """Total variation from the exact law, and what chance alone would make of it: mean and sd."""
    args = {"num_steps": 1_200, "burn_in": 100, "num_chains": 64}
    run = sample(key, kernel, None, X, **args, reduce=which)
    means = np.asarray(run.trace.mean, np.float64)  # of each chain
    covariance = np.cov(means.T) / len(means)
    noise = np.random.default_rng(0).multivariate_normal(np.zeros(len(law)), covariance, 4_000)
    chance = np.abs(noise).sum(1) / 2
    return np.abs(means.mean(0) - law).sum() / 2, chance.mean(), chance.std()


def told(name):
    distance, mean, sd = found[name]
    z = (distance - mean) / sd
    print(f"{name:32s} {distance:.4f}, by chance {mean:.4f} ± {sd:.4f}: {z:+.1f} sd")


print("total variation from the exact law")
found = {}
for key, (name, kernel) in zip(KEYS, kernels.items()):
    found[name] = against_the_law(key, kernel)
    told(name)

# %% [markdown]
# Chance is told by the chains: 64 independent means have a covariance, and normal errors with that
# covariance have some total variation too.
#
# ## An order that stays behind
#
# Where the weights of a slice sampler move by themselves, its chain lives on the partition *and*
# the order in which the clusters' weights are broken off the stick. Once another kernel has moved
# the labels, that order belongs to clusters that are no more. `refresh`, which `cycle` calls then,
# draws it anew from its law given the partition. Here is a kernel whose `refresh` forgets to: the
# cycle is biased, though each of the two kernels is exact.


# %%
class Forgetful(type(moving)):
    def refresh(self, key, state, data):
        order = state.order
        return super().refresh(key, state, data)._replace(order=order)


fields = {field.name: getattr(moving, field.name) for field in dataclasses.fields(moving)}
name = "moving weights, forgetful"
found[name] = against_the_law(KEYS[6], cycle(Forgetful(**fields), renaming))
told(name)

# %%
fig, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
for i, (distance, mean, sd) in enumerate(found.values()):
    said = {"label": "by chance: mean and two sds"} if i == 0 else {}
    ax.plot([mean - 2 * sd, mean + 2 * sd], [i, i], color="0.7", linewidth=7, **said)
    ax.plot(mean, i, "|", color="k", ms=9)
    ax.plot(distance, i, "o", color="#d55e00", ms=5, label="measured" if i == 0 else None)
ax.set_yticks(range(len(found)), list(found))
ax.invert_yaxis()
ax.set(xscale="log", xlim=(1e-3, 1), xlabel="total variation from the exact law")
ax.legend(loc="upper right")
plt.show()

# %% [markdown]
# ## What was seen
#
# - **Six samplers.** All are as far from the exact law as chance alone would make them, to within
#   two of its standard deviations. These runs would have seen a total variation of some two
#   hundredths, hardly less.
# - **An order that stays behind.** The cycle with the forgetful kernel is elsewhere altogether,
#   though its two kernels are exact and its chains agree: chance among them is the smallest of all.
#   A kernel whose state holds more than its position needs `refresh` before it takes turns.
#
# [Parts of one's own](../docs/guide/own_parts.md) has kernels and `refresh`, and
# [concepts](../docs/guide/concepts.md) letters. [Random measures](random_measures.ipynb) has the
# same processes on larger data, [network](network.ipynb) a `gibbs` of two kernels.
