"""What estimators do besides a gradient of rows, on any engine."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    AllReduce,
    ControlVariate,
    Full,
    FunctionModel,
    Minibatch,
    Pmap,
    ShardMap,
    Vmap,
    Window,
    psgld,
    sample,
    sghmc,
    sgld,
)
from sgmc_jax.gradients.curvature import Curvature

KEY = jax.random.key(5)
MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -jnp.logaddexp(0.0, -z @ x))
POINTS = np.random.default_rng(0).normal(size=(20, 2)) * np.array([3.0, 0.5])
EXACT = Minibatch(MODEL, Full())
DATA = [Vmap(3), Pmap(8), ShardMap(8)]  # of eight shards the last has no item
CHAINS = [Vmap(4), Pmap(8), ShardMap(8)]
full = pytest.mark.full


def engines(first, *others):
    """The first of them in the fast tier."""
    rows = [first, *(pytest.param(engine, marks=full) for engine in others)]
    return pytest.mark.parametrize("engine", rows, ids=lambda engine: type(engine).__name__)


def close(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def slopes_over_shards(engine):
    """Chains of the sampler whose drift has the derivatives of the gradient."""
    args = {"num_steps": 50, "num_chains": 2}
    chain = lambda grad, **kwargs: sample(
        KEY, psgld(grad, 0.05, gamma=True, epsilon=0.5), np.zeros(2), POINTS, **args, **kwargs
    )
    close(chain(EXACT).trace, chain(AllReduce(EXACT), engine=engine).trace)


@engines(*DATA)
def test_derivatives_of_a_sum_over_shards(engine, x64):
    slopes_over_shards(engine)


@full
def test_signs_that_shards_do_not_share_are_seen(x64, monkeypatch):
    """Planted: each shard differentiates along signs of its own."""
    honest = Curvature.estimate

    def own(self, key, estate, position, data):
        axis = self.inner.comm.axis if isinstance(self.inner, AllReduce) else None
        index = 0 if axis is None else jax.lax.axis_index(axis)
        turned = key._replace(noise=jax.random.fold_in(key.noise, index))
        return honest(self, turned, estate, position, data)

    monkeypatch.setattr(Curvature, "estimate", own)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        slopes_over_shards(DATA[0])


LAG = FunctionModel(
    lambda x: -0.5 * x @ x,
    lambda x, w: -0.5 * jnp.sum(w.share * (w.rows - jnp.roll(w.rows, 1) * x[0] - x[1]) ** 2),
)
SERIES = np.cumsum(np.random.default_rng(1).normal(size=50)).astype(np.float32)
WINDOWS = {
    "plain": lambda: sgld(Minibatch(LAG, Window(6, 2)), 1e-4),
    "overlapping": lambda: sghmc(Minibatch(LAG, Window(6, 2, overlapping=True)), 1e-2),
    "centred": lambda: sgld(
        ControlVariate(Minibatch(LAG, Window(7, 3)), np.zeros(2, np.float32)), 1e-4
    ),
}


@engines(*CHAINS)
@pytest.mark.parametrize(
    "name", [n if n == "centred" else pytest.param(n, marks=full) for n in WINDOWS]
)
def test_chains_of_windows_on_devices(name, engine):
    """A series is not divided among shards, but its chains are spread over them."""
    args = {"num_steps": 30, "num_chains": 8, "thin": 3}
    start = np.zeros(2, np.float32)
    alone = sample(KEY, WINDOWS[name](), start, SERIES, **args)
    spread = sample(KEY, WINDOWS[name](), start, SERIES, engine=engine, **args)
    assert np.ptp(alone.trace[:, -1, 0]) > 0
    chex.assert_trees_all_equal(tuple(alone), tuple(spread))
