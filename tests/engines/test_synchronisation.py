"""A step of a distributed sampler meets once, with messages that do not grow with the data."""

import re

import equinox as eqx
import jax
import numpy as np
import pytest

from sgmc_jax import ShardMap
from sgmc_jax.bnp import (
    BetaBernoulli,
    DirichletCategorical,
    DirichletProcess,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalInverseWishart,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
)
from sgmc_jax.collective import Shard, with_collective
from sgmc_jax.engines import split_items

pytestmark = pytest.mark.runs_long  # what is asked is of the optimised program

SHARDS = 8
_rng = np.random.default_rng(0)


def mixture(num_items):
    data = _rng.normal(size=(num_items, 2)).astype(np.float32)
    return hybrid_mixture(
        DirichletProcess(1.0, prior=(1.0, 1.0)), NormalInverseWishart(dim=2), blocks=SHARDS
    ), data


def hdp(num_items):
    process = HierarchicalDirichletProcess(1.0, 1.0, prior=(1.0, 1.0), group_prior=(1.0, 1.0))
    words = Groups(_rng.integers(0, 5, (num_items, 4)), np.full(num_items, 4))
    return hybrid_hdp(process, DirichletCategorical(0.5, size=5), blocks=SHARDS), words


def features(num_items):
    data = _rng.normal(size=(num_items, 3)).astype(np.float32)
    return hybrid_features(BetaBernoulli(1.0), LinearGaussian(dim=3), blocks=SHARDS), data


def messages(kernel, data, num_items):
    """The collectives of one compiled step, with the shapes of their operands."""
    engine = ShardMap(SHARDS)
    kernel = with_collective(kernel, engine.comm)
    params, static = eqx.partition(kernel, eqx.is_array)
    shards = engine.put(split_items(data, SHARDS, num_items // SHARDS))

    def shard(items):
        rows = num_items // SHARDS
        return Shard(items, rows, engine.comm.index() * rows, num_items)

    def init(params, items):
        return eqx.combine(params, static).init(jax.random.key(0), None, shard(items))

    def step(params, state, items):
        return eqx.combine(params, static).step(jax.random.key(1), state, shard(items))

    state = engine.map(init, (None, 0))(params, shards)
    text = engine.map(step, (None, 0, 0)).lower(params, state, shards).compile().as_text()
    kinds = r"(all-[a-z]+|collective-[a-z]+|reduce-scatter)"
    return sorted(re.findall(rf"= (\([^)]*\)|\S+) {kinds}\(", text))  # several arrays may go as one


@pytest.mark.full
@pytest.mark.parametrize("make", [mixture, features, hdp])
def test_one_reduction_of_a_size_that_does_not_depend_on_the_data(make):
    """All integers in one sum, all floats in one gather."""
    few, many = (messages(*make(num), num) for num in (64, 640))
    assert sorted(kind for _, kind in few) == ["all-gather", "all-reduce"]
    assert few == many
