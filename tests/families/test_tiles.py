"""Tiles of items by label, and the statistics that are sums over them."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sgmc_jax.arrays import Tiles
from sgmc_jax.arrays import tiles as tiles_module
from sgmc_jax.families import (
    DirichletCategorical,
    DirichletMultinomial,
    NormalGamma,
    NormalInverseWishart,
    NormalKnownCovariance,
    PoissonGamma,
)

FAMILIES = {
    "known": NormalKnownCovariance(np.zeros(3), np.eye(3), np.eye(3)),
    "wishart": NormalInverseWishart(3),
    "diagonal": NormalGamma(3),
    "counts": DirichletMultinomial(1.0, size=3),
    "poisson": PoissonGamma(np.ones(3), 1.0),
}
SIZES = [(0, 2), (1, 1), (5, 4), (16, 3), (300, 7), (5_000, 3)]


def some(num_items, num_labels, seed=0):
    """Labels of which some name nothing, and none is in use for the last but one."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, num_labels + 1, num_items)
    return np.where(labels == num_labels - 2, 0, labels)


@pytest.mark.parametrize("num_items,num_labels", SIZES)
def test_every_labelled_item_is_in_one_tile_of_its_label(num_items, num_labels):
    labels = some(num_items, num_labels)
    tiles = jax.jit(Tiles.of, static_argnums=1)(jnp.asarray(labels), num_labels)
    index, real, label, _ = (np.asarray(x) for x in tiles)
    named = (labels >= 0) & (labels < num_labels)
    np.testing.assert_array_equal(np.sort(index[real]), np.flatnonzero(named))
    np.testing.assert_array_equal(
        labels[index][real], np.broadcast_to(label[:, None], index.shape)[real]
    )
    assert np.all(np.diff(index, axis=1)[np.asarray(real)[:, 1:]] > 0)  # in their order


@pytest.mark.parametrize("num_items,num_labels", SIZES[1:])
def test_untile_undoes_take(num_items, num_labels):
    labels = jnp.asarray(some(num_items, num_labels))
    tiles, x = Tiles.of(labels, num_labels), jnp.arange(num_items)
    back = tiles.untile(tiles.take(x) + 1, -x)
    named = (labels >= 0) & (labels < num_labels)
    np.testing.assert_array_equal(back, np.where(named, x + 1, -x))


def test_the_order_where_label_and_index_do_not_fit_one_word(monkeypatch):
    labels = jnp.asarray(some(50, 4) % 4)
    words = tiles_module._stable_order(labels, 4)
    np.testing.assert_array_equal(words, jnp.argsort(labels))
    many = tiles_module._stable_order(labels, 2**30)
    np.testing.assert_array_equal(many, words)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("num_items", [0, 1, 700])
def test_label_statistics_are_those_of_the_one_hot_weights(name, num_items, x64):
    family, labels = FAMILIES[name], some(num_items, 6)
    items = np.random.default_rng(1).poisson(3.0, (num_items, 3)).astype(float)
    one_hot = jnp.asarray(labels == np.arange(6)[:, None], float)
    expected = jax.jit(lambda f, x, w: f.statistics(x, w))(family, items, one_hot)
    by_label = jax.jit(lambda f, x, z: f.label_statistics(x, z, 6))
    found = by_label(family, items, jnp.asarray(labels))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-12, 1e-12), found, expected)
    chains = jnp.stack([jnp.asarray(labels)] * 2)
    mapped = jax.vmap(by_label, (None, None, 0))(family, items, chains)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1], b, 1e-12, 1e-12), mapped, expected)


def test_counts_of_symbols_go_on_beyond_those_that_float32_counts_by_ones():
    """2^24 + 1 is 2^24 there, and so would all that come after be."""
    num = 2**24 + 1_000
    items = jnp.zeros(num, jnp.int8)
    found = DirichletCategorical(0.5, size=2).label_statistics(items, items, 1)
    np.testing.assert_array_equal(found.total, [[num, 0]])


@pytest.mark.parametrize("family", [*FAMILIES.values(), DirichletCategorical(1.0, size=9)])
def test_moved_statistics_are_gains_less_losses(family, x64):
    old, new = (jnp.asarray(x) for x in (some(50, 6), some(50, 6)[::-1].copy()))
    shape = (50,) if isinstance(family, DirichletCategorical) else (50, 3)
    items = np.random.default_rng(1).integers(0, 9, shape)
    by_label = jax.jit(lambda f, x, z: f.label_statistics(x, z, 6))
    gain, loss = (by_label(family, items, labels) for labels in (new, old))
    moved = jax.jit(lambda f, *args: f.moved_statistics(*args, 6))(family, items, old, new)
    chex.assert_trees_all_close(moved, optax.tree.sub(gain, loss), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dim", [1, 16, 17, 40])
def test_bands_leave_out_nothing_but_zeros(dim, x64):
    family = NormalInverseWishart(dim)
    x = np.random.default_rng(0).normal(size=(50, dim))
    drawn = lambda f, x: f.draw(jax.random.key(0), f.statistics(x, jnp.ones((2, 50))))
    params = jax.jit(drawn)(family, x)
    y = np.einsum("kij,knj->kni", params.whitener, x - params.mean[:, None])
    scale = np.linalg.slogdet(params.whitener)[1][:, None] - 0.5 * dim * np.log(2 * np.pi)
    scores = jax.jit(lambda f, params, x: f.scores(params, x))(family, params, x)
    np.testing.assert_allclose(scores, scale - 0.5 * (y**2).sum(2), rtol=1e-10)
