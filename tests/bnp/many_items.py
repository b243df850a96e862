"""Problems of many items whose clusters, topics and features are known."""

import jax.numpy as jnp
import numpy as np

from sgmc_jax.bnp import (
    BetaBernoulli,
    DirichletCategorical,
    DirichletProcess,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalKnownCovariance,
)

MIXTURE = DirichletProcess(1.0), NormalKnownCovariance(jnp.zeros(2), 1.0, 25.0)
WORDS = DirichletCategorical(0.1, size=40)
TOPICS = HierarchicalDirichletProcess(1.0, 1.0), WORDS
FEATURES = BetaBernoulli(1.0), LinearGaussian(6, 0.5, 3.0)


def points(num):
    """Five clusters, far from each other."""
    rng = np.random.default_rng(0)
    centres = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 2]])
    return jnp.asarray(centres[np.arange(num) % 5] + rng.normal(size=(num, 2)), jnp.float32)


def documents(num, length=40):
    """Each of one of four topics of ten words of its own."""
    rng = np.random.default_rng(1)
    return Groups.from_list([10 * (i % 4) + rng.integers(0, 10, length) for i in range(num)])


def images(num):
    """Each with some of three features."""
    rng = np.random.default_rng(2)
    made = rng.integers(0, 2, (num, 3)) @ (4.0 * np.eye(3, 6)) + 0.5 * rng.normal(size=(num, 6))
    return jnp.asarray(made, jnp.float32)


def table(labels, truth):
    """The items by their cluster and their truth."""
    counts = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(counts, (labels.ravel(), truth.ravel()), 1)
    return counts


def purity(labels, truth):
    """The share of items that are of the commonest truth in their cluster."""
    return table(labels, truth).max(1).sum() / labels.size
