"""Cycles of split-merge moves and sweeps: any engine, any capacity, from a single cluster."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Pmap, ShardMap, Vmap, cycle, sample
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalInverseWishart,
    NormalKnownCovariance,
    hybrid_mixture,
    split_merge,
)

KEY = jax.random.key(4)
PROCESS = DirichletProcess(1.0, prior=(2.0, 1.0))


def planted(num_items, dim, num_clusters, distance):
    """Items around random centres, and the labels they came from."""
    rng = np.random.default_rng(0)
    centres = distance * rng.normal(size=(num_clusters, dim))
    truth = rng.integers(0, num_clusters, num_items)
    return centres[truth] + rng.normal(size=(num_items, dim)), truth


def both(family, capacity, blocks=8, **kwargs):
    hybrid = hybrid_mixture(PROCESS, family, blocks=blocks, capacity=capacity)
    return cycle(hybrid, split_merge(PROCESS, family, capacity=capacity, **kwargs))


def labels(run):
    return run.trace.local["assignment"]


def moves(run):
    return run.info.kernel.kernels[1]


def known(dim):
    return NormalKnownCovariance(np.zeros(dim), np.eye(dim), 25.0 * np.eye(dim))


def check_engines(family, engines, num_items=45):
    data, kernel = jnp.asarray(planted(num_items, 2, 4, 4.0)[0]), both(family, 32)
    alone = sample(KEY, kernel, None, data, num_steps=40)
    assert moves(alone).splits.sum() > 1
    for engine in engines:
        shared = sample(KEY, kernel, None, data, num_steps=40, engine=engine)
        assert np.array_equal(labels(alone), labels(shared)), engine
        np.testing.assert_array_equal(moves(alone).merges, moves(shared).merges)


@pytest.mark.full
def test_the_same_chain_on_eight_devices(x64):
    check_engines(known(2), [ShardMap(8)])


@pytest.mark.full
@pytest.mark.parametrize("num_items", [45, 9])
def test_the_same_chain_on_any_engine(num_items, x64):
    """With nine items on eight shards, three are empty."""
    check_engines(NormalInverseWishart(2), [Vmap(8), Pmap(8), Vmap(2)], num_items)


@pytest.mark.full
def test_the_chain_does_not_depend_on_the_capacity(x64):
    data, family = planted(60, 2, 6, 5.0)[0], known(2)
    runs = [
        sample(KEY, split_merge(PROCESS, family, capacity=slots), None, data, num_steps=40)
        for slots in (4, 64)
    ]
    assert runs[0].capacity > 4 and not runs[0].info.overflow.any()
    assert np.array_equal(labels(runs[0]), labels(runs[1]))


@pytest.mark.full
def test_a_cycle_does_not_depend_on_the_capacity(x64):
    data = planted(60, 2, 6, 5.0)[0]
    runs = [sample(KEY, both(known(2), k, 3), None, data, num_steps=40) for k in (4, 64)]
    assert runs[0].capacity > 4 and not runs[0].info.overflow.any()
    assert np.array_equal(labels(runs[0]), labels(runs[1]))


def test_other_data_have_another_centre():
    data = jnp.asarray(planted(20, 2, 2, 5.0)[0], jnp.float32)
    kernel = split_merge(PROCESS, NormalInverseWishart(2))
    state = kernel.init(KEY, np.arange(20) % 3, data)
    moved = kernel.retarget(KEY, state, data + 1e4)
    np.testing.assert_allclose(moved.centre, state.centre + 1e4, rtol=1e-6)
    assert np.array_equal(moved.position.local["assignment"], np.arange(20) % 3)


@pytest.mark.full
def test_one_cluster_is_split_into_many():
    """Ten clusters in 16 dimensions, from one, the default start: sweeps never leave it."""
    data, truth = planted(1_000, 16, 10, 2.0)
    data = (data - data.mean(0)).astype(np.float32)
    family = NormalInverseWishart(16, 0.0, 0.1, 32.0, 15.0)
    run = sample(KEY, both(family, 16), None, data, num_steps=30)
    found = labels(run)[-1]
    assert np.mean((found[:, None] == found) == (truth[:, None] == truth)) > 0.999
    assert run.info.kernel.active[-1] == 10


@pytest.mark.full
def test_scattered_clusters_are_merged():
    """Labels at random: blind divisions undo what no division by the data would propose."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 4)).astype(np.float32)
    start = rng.integers(0, 6, 300)
    run = sample(KEY, both(NormalInverseWishart(4), 16), start, data, num_steps=60)
    assert np.bincount(labels(run)[-1]).max() > 280


def test_a_cycle_needs_equal_capacities():
    family = NormalInverseWishart(2)
    with pytest.raises(ValueError, match=r"capacity of kernels in a cycle must agree, got \[16, 8"):
        cycle(hybrid_mixture(PROCESS, family), split_merge(PROCESS, family, capacity=8))


def test_bad_input():
    family = NormalInverseWishart(2)
    for name in ("proposals", "scans", "capacity"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            split_merge(PROCESS, family, **{name: 0})
    with pytest.raises(TypeError, match="process must be"):
        split_merge(1.0, family)
    with pytest.raises(TypeError, match="family must be"):
        split_merge(PROCESS, "normal")
    with pytest.raises(ValueError, match="data"):
        sample(KEY, split_merge(PROCESS, family), None, np.zeros((5, 3)), num_steps=1)
