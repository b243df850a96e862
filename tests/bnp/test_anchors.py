"""The rule of anchors, item by item: which atoms are instantiated, open, and kept by whom."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.bnp.hybrid.anchors import draw_anchors, visited
from sgmc_jax.bnp.hybrid.grouped import openings

BLOCKS, SIZE, ATOMS, WIDTH = 4, 3, 6, 3
BLOCK = np.repeat(np.arange(BLOCKS), SIZE)
REAL = np.arange(BLOCKS * SIZE) < 11  # the last row is padding


def example(seed):
    """The ranks of rows in their blocks, and which atoms each has, one or any number."""
    rng = np.random.default_rng(seed)
    rank = np.concatenate([rng.permutation(SIZE) for _ in range(BLOCKS)]).astype(np.int32)
    labels = rng.integers(0, ATOMS, len(BLOCK)).astype(np.int32)
    return rank, labels, rng.random((ATOMS, len(BLOCK))) < 0.2


def drawn(seed, has):
    """The anchors of atoms that rows have, (K, n)."""
    occupancy = (has & REAL).reshape(ATOMS, BLOCKS, SIZE).sum(2).T
    return draw_anchors(jax.random.key(seed), jnp.asarray(occupancy), anchored=True)


def by_hand(anchors, block, order, has):
    """Which atoms are instantiated, and which each item may take, (K, n), by the rule's words.

    Items come in the order of their blocks, and in these by `order`.
    """
    place = np.asarray(anchors.block_rank)[block] * 1_000 + order
    known = (block != int(anchors.star)) & has
    first = np.min(np.where(known, place, 10**6), axis=1)
    return first < 10**6, first[:, None] < place, first[:, None] == place


def check(anchors, block, order, has, first):
    instantiated, is_open, anchor = by_hand(anchors, block, order, has)
    np.testing.assert_array_equal(anchors.instantiated, instantiated)
    since = np.asarray(anchors.since(jnp.asarray(block), first))
    off = (block != int(anchors.star)) & has.any(0)
    np.testing.assert_array_equal((since < order)[:, off], is_open[:, off])
    # of what an item has, it keeps that of which it is the anchor, and no other
    kept = has & (since >= order)
    np.testing.assert_array_equal(kept[:, off], (has & anchor)[:, off])


@pytest.mark.parametrize("seed", range(20))
def test_items_with_a_label_each(seed):
    rank, labels, _ = example(seed)
    has = (labels == np.arange(ATOMS)[:, None]) & REAL
    anchors = drawn(seed, has)
    arrays = map(jnp.asarray, (BLOCK, rank, labels, REAL))
    check(anchors, BLOCK, rank, has, anchors.by_label(*arrays))


@pytest.mark.parametrize("seed", range(20))
def test_items_with_any_number_of_atoms(seed):
    rank, _, has = example(seed)
    has = has & REAL
    anchors = drawn(seed, has)
    check(anchors, BLOCK, rank, has, anchors.by_entry(*map(jnp.asarray, (BLOCK, rank, has))))


@pytest.mark.parametrize("seed", range(20))
def test_items_of_groups(seed):
    """An anchor is an item: others of its group may come before it."""
    rank, labels, _ = example(seed)
    rng = np.random.default_rng(100 + seed)
    labels = rng.integers(0, ATOMS, (len(BLOCK), WIDTH)).astype(np.int32)
    size = np.where(REAL, rng.integers(0, WIDTH + 1, len(BLOCK)), 0)
    present = (np.arange(WIDTH) < size[:, None]).ravel()
    has = (labels.ravel() == np.arange(ATOMS)[:, None]) & present
    occupancy = has.reshape(ATOMS, BLOCKS, -1).sum(2).T
    anchors = draw_anchors(jax.random.key(seed), jnp.asarray(occupancy), anchored=True)
    first = rank * WIDTH
    since = openings(anchors, *map(jnp.asarray, (BLOCK, first, labels, size)))
    block = np.repeat(BLOCK, WIDTH)
    order = (first[:, None] + np.arange(WIDTH)).ravel()
    instantiated, is_open, anchor = by_hand(anchors, block, order, has)
    np.testing.assert_array_equal(anchors.instantiated, instantiated)
    since = np.repeat(np.asarray(since), WIDTH, axis=0).T
    off = (block != int(anchors.star)) & present
    np.testing.assert_array_equal((since < order)[:, off], is_open[:, off])
    np.testing.assert_array_equal((has & (since >= order))[:, off], (has & anchor)[:, off])


def test_an_atom_is_demoted_with_its_last_item():
    unvisited, instantiated = jnp.array([2, 1, 1, 0]), jnp.array([True, True, True, False])
    left, still = visited(unvisited, instantiated, jnp.array([True, True, False, True]))
    assert left.tolist() == [1, 0, 1, -1]
    assert still.tolist() == [True, False, True, False]
