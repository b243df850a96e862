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
# be summed up. Here samplers that take turns on the partition are held against them: a hybrid
# sampler in blocks that do not divide the points, slice sampling, slice sampling with weights that
# move by themselves, and a kernel of our own that does nothing but rename the clusters.

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
len(ALL), law.max().round(3)

# %% [markdown]
# ## Samplers that take turns
#
# `reduce` keeps the mean of a function of the state: here of the partition, one-hot.

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


def total_variation(kernel):
    run = sample(
        jax.random.key(0),
        kernel,
        None,
        X,
        num_steps=1_500,
        num_chains=128,
        burn_in=100,
        reduce=which,
    )
    means = np.asarray(run.trace.mean, np.float64)
    error = means.std(0, ddof=1) / np.sqrt(len(means))
    return np.abs(means.mean(0) - law).sum() / 2, np.sqrt(2 / np.pi) * error.sum() / 2


found = {name: total_variation(kernel) for name, kernel in kernels.items()}
for name, (distance, chance) in found.items():
    print(f"{name:30s} total variation {distance:.4f}, by chance about {chance:.4f}")

# %% [markdown]
# ## An order that stays behind
#
# Where the weights of a slice sampler move by themselves, its chain lives on the partition *and*
# the order of its sticks. `refresh` draws the order anew from its law given the partition, once
# another kernel has moved the labels. Without it the cycle is biased, though each of the two
# kernels is exact:


# %%
class Forgetful(type(moving)):
    def refresh(self, key, state, data):
        order = state.order
        return super().refresh(key, state, data)._replace(order=order)


fields = {field.name: getattr(moving, field.name) for field in dataclasses.fields(moving)}
forgetful = total_variation(cycle(Forgetful(**fields), renaming))
found["... with the order as it was"] = forgetful
print("with the order as it was: {:.4f}, by chance about {:.4f}".format(*forgetful))

# %%
figure, axis = plt.subplots(figsize=(7, 3))
names = list(found)[::-1]
axis.barh(names, [found[name][0] for name in names], label="measured")
axis.plot([found[name][1] for name in names], names, "k|", ms=14, label="by chance")
axis.set_xlabel("total variation from the exact law")
axis.legend()
figure.tight_layout()
