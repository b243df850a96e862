"""Chains group after group are the chains that they are all together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    AllReduce,
    FunctionModel,
    Given,
    Minibatch,
    ShardMap,
    Uniform,
    Vmap,
    sample,
    sgld,
)
from tests.composition.slots import BirthAndDeath
from tests.composition.slots import X as ITEMS

KEY = jax.random.key(4)
MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
GRAD = Minibatch(MODEL, Uniform(10))


def run(grad=GRAD, position=None, data=X, **kwargs):
    position = np.zeros(2, np.float32) if position is None else position
    args = {"num_steps": 12, "burn_in": 2, "thin": 2, "num_chains": 6, "share_batch": True}
    return sample(KEY, sgld(grad, 1e-2), position, data, **args | kwargs)


CASES = {
    "plain": {},
    "own starts": {"position": np.ones((6, 2), np.float32), "position_axis": 0},
    "dispersed": {"position": lambda key: jax.random.normal(key, (2,))},
    "moments": {"reduce": True},
    "chains on shards": {"engine": Vmap(2)},
    "chains on devices": {"engine": ShardMap(2)},
    "data on shards": {"grad": AllReduce(Minibatch(MODEL, Uniform(3))), "engine": Vmap(3)},
    "data on devices": {"grad": AllReduce(Minibatch(MODEL, Uniform(3))), "engine": ShardMap(3)},
    "a stream": {"grad": Minibatch(MODEL, Given(40)), "data": lambda i: X[i : i + 5]},
}


FAST = [("plain", 4), ("data on shards", 1)]
FULL = [("plain", 1), ("plain", 7), ("chains on devices", 1), *((case, 2) for case in CASES)]


@pytest.mark.parametrize(
    "case, size", [*FAST, *(pytest.param(*pair, marks=pytest.mark.full) for pair in FULL)]
)
def test_groups_are_all(case, size):
    every, groups = run(**CASES[case]), run(**CASES[case], chains_at_once=size)
    for x, y in zip(jax.tree.leaves(every), jax.tree.leaves(groups), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    starts = np.unique(np.asarray(groups.state.position), axis=0)
    assert len(starts) == 6


def test_one_alone_is_one_chain():
    alone = run(num_chains=1)
    np.testing.assert_array_equal(run(chains_at_once=1).trace[0], alone.trace[0])


@pytest.mark.full
def test_groups_of_a_stack_of_kernels():
    kernels = jax.vmap(lambda h: sgld(GRAD, h))(jnp.array([1e-2, 2e-2]))
    args = {"num_steps": 5, "num_chains": 3, "kernel_axis": 0}
    every, groups = (
        sample(KEY, kernels, np.zeros(2, np.float32), X, **args, chains_at_once=size)
        for size in (None, 2)
    )
    assert groups.trace.shape == (2, 3, 5, 2)
    np.testing.assert_allclose(every.trace, groups.trace, rtol=1e-6)


@pytest.mark.full
def test_groups_grow_together():
    args = {"num_chains": 3, "chains_at_once": 2}
    few, many = (sample(KEY, BirthAndDeath(k), None, ITEMS, num_steps=60, **args) for k in (2, 64))
    assert 2 < few.capacity < 64
    grown = few.trace.shared["alive"]
    np.testing.assert_array_equal(grown, many.trace.shared["alive"][..., : few.capacity])


@pytest.mark.full
def test_groups_go_on_and_are_resumed(tmp_path):
    """How many are at once is no part of what a run is."""
    whole = run(num_steps=20)
    first = run(num_steps=12, chains_at_once=4)
    args = {"num_steps": 8, "burn_in": 0, "chains_at_once": 1}
    np.testing.assert_allclose(first.extend(run(position=first, **args)).trace, whole.trace, 1e-5)
    run(num_steps=12, chains_at_once=4, checkpoint=tmp_path)
    resumed = run(num_steps=20, chains_at_once=5, checkpoint=tmp_path)
    np.testing.assert_allclose(resumed.trace, whole.trace, 1e-5)


def test_of_one_chain_there_are_no_groups():
    with pytest.raises(ValueError, match="chains_at_once needs num_chains, got 2"):
        run(num_chains=None, chains_at_once=2)
    with pytest.raises(ValueError, match="chains_at_once must be"):
        run(chains_at_once=0)
