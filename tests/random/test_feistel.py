"""Permutations of ranges whose sizes are traced, and may lie far below their bounds."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax import Stratified
from sgmc_jax.random import feistel
from sgmc_jax.random.feistel import permute, random_subset, round_words

KEY, NUM = jax.random.key(5), 20_000
FALSE_ALARM = 1e-7
FAR_BELOW = [(3, 1000, 1), (100, 1000, 5), (257, 1000, 2), (300, 65_536, 1)]


def check_uniform(values, size):
    counts = np.bincount(values, minlength=size)
    assert FALSE_ALARM < stats.chisquare(counts).pvalue


@pytest.mark.parametrize("size", [257, 1000, 4097, 100_000, 524_289])
def test_the_permutation_does_not_depend_on_the_bound(size):
    values = permute(round_words(KEY), jnp.arange(size), size)
    assert np.array_equal(np.sort(values), np.arange(size))
    for bound, least in ((size, 0), (3 * size, 0), (2**24, 257)):
        traced = partial(permute, round_words(KEY), jnp.arange(size), bound=bound, least=least)
        assert np.array_equal(jax.jit(traced)(size=jnp.int32(size)), values), bound


@pytest.mark.parametrize("size", [1, 2, 60, 256])
def test_small_ranges_below_large_bounds_are_bijections(size):
    traced = jax.jit(lambda size: permute(round_words(KEY), jnp.arange(256), size, 5000))
    values = np.asarray(traced(jnp.int32(size)))[:size]
    assert np.array_equal(np.sort(values), np.arange(size))


def first_drawn(size, bound, num):
    """The first of each of many subsets."""
    subset = lambda key, size: random_subset(key, num, size, bound)[0]
    return np.asarray(
        jax.jit(jax.vmap(subset, (0, None)))(jax.random.split(KEY, NUM), jnp.int32(size))
    )


@pytest.mark.parametrize("size,bound,num", FAR_BELOW)
def test_a_range_far_below_its_bound_is_shuffled_too(size, bound, num):
    check_uniform(first_drawn(size, bound, num), size)


@pytest.mark.full
@pytest.mark.parametrize("size,bound,num", [FAR_BELOW[3], (257, 65_536, 1), (700, 1 << 20, 1)])
def test_a_domain_for_the_bound_is_seen(size, bound, num, monkeypatch):
    """Where half of the bits are always zero the walk undoes what the network did."""
    wide = jnp.uint32(feistel._low_bits(bound))
    monkeypatch.setattr(feistel, "_traced_low_bits", lambda size: wide)
    with pytest.raises(AssertionError):
        check_uniform(first_drawn(size, bound, num), size)


@pytest.mark.parametrize("counts,sizes", [((3, 1000), (1, 4)), ((300, 40, 2000), (2, 3, 1))])
def test_strata_of_very_different_sizes(counts, sizes):
    """Each item of a stratum is drawn equally often, and no other."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    data, batcher = jnp.arange(len(labels)), Stratified(sizes, labels)
    draw = jax.jit(jax.vmap(lambda key: batcher.draw(key, (), data)[0]))
    batch = draw(jax.random.split(KEY, NUM))
    drawn = np.asarray(batch.index)
    assert np.array_equal(drawn, batch.items)
    for s, of in enumerate(np.split(drawn, np.cumsum(sizes)[:-1], axis=1)):
        assert np.all(labels[of] == s)
        check_uniform(np.searchsorted(np.flatnonzero(labels == s), of[:, 0]), counts[s])
    np.testing.assert_allclose(batch.weight[0], np.repeat(np.divide(counts, sizes), sizes))
