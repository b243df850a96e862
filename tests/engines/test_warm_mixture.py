"""The warm start: many blocks give birth, each in slots of its own, and fewer as it cools."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Vmap, sample
from sgmc_jax._types import Keys
from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, hybrid_mixture, warm_mixture

KEY = jax.random.key(5)
PROCESS = DirichletProcess(1.0)
FAMILY = NormalKnownCovariance(np.zeros(2), np.eye(2), 100.0 * np.eye(2))
_rng = np.random.default_rng(1)
X = (10.0 * _rng.normal(size=(12, 2)))[_rng.integers(0, 12, 96)] + _rng.normal(size=(96, 2))


def labels(run):
    return run.trace.local["assignment"]


def warm(**kwargs):
    return warm_mixture(PROCESS, FAMILY, **({"blocks": 8, "capacity": 64} | kwargs))


@pytest.mark.full
def test_births_in_all_blocks_find_clusters_sooner():
    """One sweep of 96 points around 12 centres, from one cluster; the exact sampler has 12."""
    hot = sample(KEY, warm(), None, X, num_steps=1).state.position.local["assignment"]
    exact = hybrid_mixture(PROCESS, FAMILY, blocks=8, capacity=64)
    cold = sample(KEY, exact, None, X, num_steps=1).state.position.local["assignment"]
    assert len(np.unique(hot)) > 12 > len(np.unique(cold))
    block = np.arange(96) // 12
    born = hot != 0
    assert born.sum() > 60 and np.array_equal(hot[born] % 8, block[born])


def blocks_with_births(cooling):
    """How many blocks gave birth in each of steps 4 to 29, with data that say nothing."""
    flat = NormalKnownCovariance(np.zeros(2), 1e8 * np.eye(2), np.eye(2))
    kernel = warm_mixture(DirichletProcess(8.0), flat, blocks=8, capacity=256, cooling=cooling)
    z = labels(sample(KEY, kernel, None, X, num_steps=30))
    return [len(np.unique(np.setdiff1d(z[t + 1], z[t]) % 8)) for t in range(4, 29)]


def test_it_cools_to_one_block():
    assert max(blocks_with_births(1.0)) == 1
    assert max(blocks_with_births(1e6)) > 1


@pytest.mark.full
@pytest.mark.parametrize("count,num", [(0, 8), (9, 1), (400, 1), (10**6, 1), (2**31 - 1, 1)])
def test_one_block_is_left_for_ever(count, num):
    """Half as many every three steps: in float32 that is 0 after some 380 of them."""
    flat = NormalKnownCovariance(np.zeros(2), 1e8 * np.eye(2), np.eye(2))
    kernel = warm_mixture(DirichletProcess(50.0), flat, blocks=8, capacity=128)
    state = kernel.init(KEY, None, jnp.asarray(X, jnp.float32))
    keys = Keys(KEY, KEY, jnp.asarray(count, jnp.int32))
    after, _ = kernel.step(keys, state, jnp.asarray(X, jnp.float32))
    born = np.flatnonzero(after.position.local["assignment"])
    assert len(np.unique(born // 12)) == num


@pytest.mark.full
def test_the_same_chain_on_any_engine(x64):
    data = jnp.asarray(X)
    alone = sample(KEY, warm(), None, data, num_steps=10)
    assert len(np.unique(labels(alone), axis=0)) > 1
    shared = sample(KEY, warm(), None, data, num_steps=10, engine=Vmap(4))
    assert np.array_equal(labels(alone), labels(shared))


def test_bad_input():
    for arguments, message in [({"blocks": 0}, "blocks"), ({"cooling": 0.0}, "cooling")]:
        with pytest.raises(ValueError, match=message):
            warm(**arguments)
    with pytest.raises(TypeError, match="process must be"):
        warm_mixture(1.0, FAMILY, blocks=2)
