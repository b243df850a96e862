"""Starts by k-means++, and unions of clusters in two by two-means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Collective
from sgmc_jax.arrays import Tiles
from sgmc_jax.bnp import kmeans_plus_plus
from sgmc_jax.bnp.seeding import nearest, two_means

KEY = jax.random.key(0)


def planted(num_items, num_clusters, dim, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, num_clusters, num_items)
    centres = 20.0 * rng.normal(size=(num_clusters, dim))
    return (centres[truth] + rng.normal(size=(num_items, dim))).astype(np.float32), truth


@pytest.mark.parametrize("num_clusters,dim", [(1, 3), (6, 2), (20, 16)])
def test_planted_clusters_are_found_from_any_seed(num_clusters, dim):
    x, truth = planted(1_000, num_clusters, dim)
    run = jax.jit(jax.vmap(lambda key: kmeans_plus_plus(key, x, num_clusters)))
    for labels in run(jax.random.split(KEY, 10)):
        together = np.asarray(labels)[:, None] == np.asarray(labels)
        assert np.mean(together == (truth[:, None] == truth)) > 0.97


def test_items_that_are_no_numbers_are_refused():
    """Every distance would be NaN, and every label 0."""
    x = planted(20, 2, 2)[0]
    x[3, 0] = np.nan
    with pytest.raises(ValueError, match="data must be finite, got NaN"):
        kmeans_plus_plus(KEY, x, 2)


def test_a_round_does_not_raise_the_cost():
    x = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)

    def cost(rounds):
        labels = np.asarray(kmeans_plus_plus(KEY, x, 8, rounds=rounds))
        means = np.stack([x[labels == k].mean(0) for k in np.unique(labels)])
        return np.sum((x - means[np.unique(labels, return_inverse=True)[1]]) ** 2)

    costs = [cost(rounds) for rounds in (0, 1, 3, 10)]
    assert all(np.diff(costs) < 0)


def test_seeds_of_few_and_of_equal_items():
    assert kmeans_plus_plus(KEY, jnp.zeros((5, 2)), 3).shape == (5,)
    assert len(np.unique(kmeans_plus_plus(KEY, jnp.arange(3.0), 3))) == 3
    assert int(kmeans_plus_plus(KEY, jnp.ones((1, 2)), 4)[0]) < 4


def test_nearest_centre_by_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    x, centres = rng.normal(size=(200, 3)), rng.normal(size=(5, 3))
    squares = ((x[:, None] - centres) ** 2).sum(2)
    monkeypatch.setattr("sgmc_jax.arrays.chunks._CHUNK", 64)
    found = nearest(jnp.asarray(x), jnp.asarray(centres))
    np.testing.assert_array_equal(found.label, squares.argmin(1))
    np.testing.assert_allclose(found.distance, squares.min(1), rtol=1e-4)


def test_two_means_divides_each_group_by_itself():
    x, truth = planted(600, 6, 3)
    group = truth // 2
    tiles = Tiles.of(jnp.asarray(np.where(group == 2, 9, group)), 3)  # the third is left out
    seeds = np.stack([[x[truth == 2 * g][0], x[truth == 2 * g + 1][0]] for g in range(3)])
    side = two_means(tiles, tiles.take(jnp.asarray(x)), jnp.asarray(seeds), 4, Collective())
    found = np.asarray(tiles.untile(side, jnp.zeros(600, bool)))
    np.testing.assert_array_equal(found, (truth % 2 == 1) & (group < 2))


def test_bad_input():
    x = np.zeros((5, 2))
    for arguments, message in [
        ({"num_clusters": 0}, "num_clusters must be"),
        ({"num_clusters": 2, "rounds": -1}, "rounds must be"),
        ({"num_clusters": 2, "candidates": 0}, "candidates must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            kmeans_plus_plus(KEY, x, **arguments)
