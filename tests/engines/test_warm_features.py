"""The warm start of features: many blocks give birth, each in slots of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import ShardMap, Vmap, sample
from sgmc_jax._types import Keys
from sgmc_jax.bnp import (
    BetaBernoulli,
    GammaPoisson,
    LinearGaussian,
    hybrid_features,
    warm_features,
)
from tests.engines.test_features import MODELS, X, features

KEY = jax.random.key(5)
BLOCKS = 5  # of nine rows of 45
FLAT = LinearGaussian(1, 1e4, 1.0)  # rows say nothing


def warm(model="linear", **kwargs):
    """With a mass at which a few rows have births."""
    process = GammaPoisson(6.0, 2.0) if model == "counts" else BetaBernoulli(6.0)
    family = MODELS[model]()[1]
    return warm_features(process, family, **({"blocks": BLOCKS, "capacity": 160} | kwargs))


def newborn(data, family, make=warm_features):
    """The features that rows have after one step from one that all have, and their blocks."""
    kernel = make(BetaBernoulli(20.0), family, blocks=BLOCKS, capacity=160)
    all_have = np.ones((len(data), 1), bool)
    z = features(sample(KEY, kernel, all_have, data, num_steps=1))[-1].astype(int)
    blocks = z.reshape(BLOCKS, -1, 160).sum(1).T  # of each slot the rows of each block
    return z, {k: blocks[k] for k in range(1, 160) if blocks[k].any()}


def test_features_are_born_in_all_blocks_and_in_slots_of_their_own():
    _, born = newborn(X, LinearGaussian(6, 0.5, 2.0))
    assert {int(np.argmax(rows)) for rows in born.values()} == set(range(BLOCKS))
    for k, rows in born.items():
        assert set(np.flatnonzero(rows)) == {k % BLOCKS}
    _, cold = newborn(X, LinearGaussian(6, 0.5, 2.0), hybrid_features)
    assert len(cold) < len(born)


def test_blocks_draw_numbers_of_their_own():
    """Of rows that say nothing all births are taken: one key would give all blocks as many."""
    z, _ = newborn(np.zeros((45, 1)), FLAT)
    z[:, 0] = 0  # the one that all began with
    each = [z[9 * b : 9 * (b + 1), b::BLOCKS].any(0).sum() for b in range(BLOCKS)]
    assert sum(each) > 0 and len(set(each)) > 1, each


@pytest.mark.full
@pytest.mark.parametrize("count, num", [(0, BLOCKS), (3, 3), (9, 1), (10**6, 1)])
def test_it_cools_to_one_block(count, num):
    """Half as many every three steps."""
    kernel = warm_features(BetaBernoulli(20.0), FLAT, blocks=BLOCKS, capacity=160)
    data = jnp.zeros((45, 1))
    keys = Keys(KEY, KEY, jnp.asarray(count, jnp.int32))
    after, _ = jax.jit(kernel.step)(keys, kernel.init(KEY, None, data), data)
    born = np.flatnonzero(np.asarray(after.position.local["features"])[:, 1:].any(0)) + 1
    assert len(np.unique(born % BLOCKS)) == num


@pytest.mark.full
@pytest.mark.parametrize("model", MODELS)
def test_the_same_chain_on_any_engine(model, x64):
    kernel, data = warm(model, blocks=4, capacity=40, cooling=1e9), jnp.asarray(X)
    num_steps = 40 if model == "explicit" else 6  # births of drawn parameters are seldom taken
    alone = sample(KEY, kernel, None, data, num_steps=num_steps)
    assert len(np.unique(alone.info.active)) > 1
    for engine in (Vmap(4), ShardMap(2)):
        shared = sample(KEY, kernel, None, data, num_steps=num_steps, engine=engine)
        assert np.array_equal(features(alone), features(shared))
        mine, other = (run.trace.shared["parameters"] for run in (alone, shared))
        np.testing.assert_allclose(mine, other, atol=1e-9)


def test_parameters_of_a_feature_are_those_that_its_block_has_drawn(x64):
    """Explicit ones, which its block alone knows until all meet: zeros would be nobody's draw."""
    kernel = warm("explicit", cooling=1e9)
    run = sample(KEY, kernel, None, jnp.asarray(X), num_steps=40)
    z, params = features(run)[-1], np.asarray(run.trace.shared["parameters"])[-1]
    used = z.any(0)
    assert used.sum() >= 3 and np.all(np.linalg.norm(params[used], axis=1) > 1e-3)
    assert len(np.unique(params[used], axis=0)) == used.sum()


def test_bad_input():
    for arguments, message in [({"blocks": 0}, "blocks"), ({"cooling": 0.0}, "cooling")]:
        with pytest.raises(ValueError, match=message):
            warm(**arguments)
    with pytest.raises(TypeError, match="process must be"):
        warm_features(1.0, MODELS["linear"]()[1], blocks=2)
