"""Starts from which chains find what is there."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Dist, sample
from sgmc_jax.bnp import (
    DirichletCategorical,
    Groups,
    default_sampler,
    hybrid_hdp,
    hybrid_mixture,
)
from tests.bnp.many_items import FEATURES, MIXTURE, TOPICS, documents, images, points, purity

KEY = jax.random.key(0)
BLOCKS = 6 if jax.default_backend() == "cpu" else 24


def run(parts, data, num_steps, start="chosen", **args):
    kernel, position, _ = default_sampler(KEY, *parts, data)
    position = position if start == "chosen" else start
    return sample(KEY, kernel, position, data, num_steps=num_steps, **args).trace.local


def check_topics(start):
    data = documents(120)
    labels = run(TOPICS, data, 30, start)["assignment"][-1]
    assert purity(labels, data.items // 10) > 0.98


@pytest.mark.full
def test_clusters_are_found():
    labels = run(MIXTURE, points(1_200), 60)["assignment"][-1]
    assert np.sum(np.bincount(labels) > 24) == 5
    assert purity(labels, np.arange(1_200) % 5) > 0.99


@pytest.mark.full
def test_topics_are_found():
    check_topics("chosen")


@pytest.mark.full
def test_from_one_topic_they_are_not():
    with pytest.raises(AssertionError, match="> 0.98"):
        check_topics(Dist({}, {"assignment": jnp.zeros((120, 40), jnp.int32)}))


@pytest.mark.full
def test_features_are_found():
    X = images(1_500)
    features = run(FEATURES, X, 20)["features"][-1]
    used = features[:, features.sum(0) > 0.1 * len(X)]
    present = np.asarray(X)[:, :3] > 2.0
    agreement = [max(np.mean(u == present[:, j]) for u in used.T) for j in range(3)]
    assert used.shape[1] == 3 and min(agreement) > 0.99


@pytest.mark.parametrize(
    "parts, data, shards, said",
    [
        (MIXTURE, points(1_200), 1, f"{BLOCKS} blocks, 16 slots, one cluster"),
        (MIXTURE, points(7), 4, "4 blocks, 16 slots, one cluster"),
        (TOPICS, documents(120), 1, "5 blocks, 40 slots, 20 clusters"),
        (TOPICS, documents(3), 8, "8 blocks, 40 slots, 20 clusters"),
        pytest.param(FEATURES, images(1_500), 3, "9 blocks, 16 slots, 3", marks=pytest.mark.full),
    ],
)
def test_what_is_chosen(parts, data, shards, said):
    made = default_sampler(KEY, *parts, data, shards=shards)
    assert made.choices.startswith(said)
    assert f"{next(iter(made.kernel.contract(None).blocks))} blocks" in made.choices
    again = default_sampler(KEY, *parts, data, shards=shards)
    equal = jax.tree.map(np.array_equal, made.position, again.position)
    assert all(jax.tree.leaves(equal))


def test_unfit_arguments_are_told():
    with pytest.raises(TypeError, match="mixture, of groups or of features, got DirichletProcess"):
        default_sampler(KEY, MIXTURE[0], FEATURES[1], points(1_200))
    with pytest.raises(TypeError, match="data must be Groups"):
        default_sampler(KEY, *TOPICS, points(1_200))
    with pytest.raises(ValueError, match="data must be of shape"):
        default_sampler(KEY, *MIXTURE, points(1_200)[:, :1])
    with pytest.raises(ValueError, match="shards must be"):
        default_sampler(KEY, *MIXTURE, points(1_200), shards=0)


def test_many_items_in_one_block_are_told():
    data = np.zeros((120_000, 2), np.float32)
    kernel = lambda blocks: hybrid_mixture(*MIXTURE, blocks=blocks, capacity=4)
    with pytest.warns(UserWarning, match=r"120,000 items in 1 block: .* blocks=120"):
        kernel(1).check(None, data)
    with pytest.warns(UserWarning, match="in 2 blocks"):
        kernel(2).check(None, data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(3).check(None, data)
        kernel(1).check(None, data[:50_000])


def test_of_groups_the_words_are_told():
    """And not the documents: those of a block are visited word by word."""
    words = Groups(np.zeros((30, 4_000), np.int32), np.full(30, 4_000))
    kernel = hybrid_hdp(*TOPICS[:1], DirichletCategorical(1.0, 5), capacity=4)
    with pytest.warns(UserWarning, match=r"120,000 items in 1 block: .* blocks=120"):
        kernel.check(None, words)
