"""Padding is nothing to a sampler: its values and labels, and where it may be longer its length."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sgmc_jax import Dist
from sgmc_jax._types import Keys
from sgmc_jax.bnp import (
    BetaBernoulli,
    Demotion,
    DirichletMultinomial,
    DirichletProcess,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalKnownCovariance,
    PitmanYor,
    Published,
    asynchronous_mixture,
    auxiliary_mixture,
    collapsed_mixture,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_mixture,
    split_merge,
    uncollapsed_mixture,
    warm_features,
    warm_mixture,
)
from sgmc_jax.bnp.hybrid.mixture import Mixture
from sgmc_jax.collective import Shard
from tests.enumeration.test_awkward import unmasked

NUM, SLOTS, STEPS = 6, 8, 6
X = np.array([[-1.3], [-0.4], [0.2], [0.9], [2.1], [-0.8]], np.float32)
START = np.array([0, 1, 1, 2, 0, 2], np.int32)
NORMAL = NormalKnownCovariance(np.zeros(1), np.eye(1), 2.5 * np.eye(1))
PARTS = (PitmanYor(0.8, 0.1), NORMAL)


class Case(NamedTuple):
    """A kernel; whether the number of rows may be any; what its data and its position are called.

    With several blocks the rows tell the size of a block, and so the chain.
    """

    kernel: object
    any_rows: bool = False
    kind: str = "assignment"


def cases():
    one, name = partial(Case, any_rows=True), {"capacity": SLOTS}
    counts = (PARTS[0], DirichletMultinomial(np.array([0.5])))
    return {
        "anchored": Case(hybrid_mixture(*PARTS, blocks=2, local_sweeps=2, **name)),
        "four": Case(hybrid_mixture(*PARTS, blocks=4, **name)),
        "published": Case(hybrid_mixture(*PARTS, schedule=Published(), blocks=2, **name)),
        "warm": Case(warm_mixture(*PARTS, blocks=4, **name)),
        "asynchronous": Case(asynchronous_mixture(*PARTS, blocks=4, **name)),
        "demotion": one(hybrid_mixture(*PARTS, schedule=Demotion(), **name)),
        "collapsed": one(collapsed_mixture(*PARTS, **name)),
        "auxiliary": one(auxiliary_mixture(*PARTS, **name)),
        "uncollapsed": one(uncollapsed_mixture(DirichletProcess(1.0), NORMAL, tail=3, **name)),
        "split_merge": one(split_merge(*PARTS, proposals=2, **name)),
        "slice": one(slice_mixture(*PARTS, **name)),
        "batches": one(slice_mixture(*PARTS, 2, **name)),
        "stochastic": one(slice_mixture(*counts, 2, "scir", step_size=0.5, **name)),
        "warm features": Case(
            warm_features(BetaBernoulli(0.8, 0.7), LinearGaussian(1, 0.6, 1.1), blocks=4, **name),
            kind="features",
        ),
        "features": Case(
            hybrid_features(BetaBernoulli(0.8, 0.7), LinearGaussian(1, 0.6, 1.1), blocks=2, **name),
            kind="features",
        ),
        "hdp": Case(
            hybrid_hdp(HierarchicalDirichletProcess(1.2, 0.9), NORMAL, blocks=2, **name),
            kind="groups",
        ),
    }


@cache
def chain(name, rows):
    """A compiled function of a seed and of what fills the padding: the local part, real rows."""
    kernel, _, kind = cases()[name]

    def data(values):
        if name == "stochastic":
            values = jnp.abs(jnp.round(values))
        if kind == "groups":
            return Groups(values[:, None] + jnp.zeros((1, 2, 1)), jnp.full(rows, 2, jnp.int32))
        return values

    def local(labels):
        if kind == "features":
            return {"features": (labels[:, None] == jnp.arange(SLOTS)).astype(jnp.int32)}
        return {"assignment": jnp.stack([labels, labels], 1) if kind == "groups" else labels}

    @jax.jit
    def run(seed, values, labels):
        key = jax.random.key(seed)
        shard = Shard(data(jnp.concatenate([X, values])), NUM, 0, NUM)
        state = kernel.init(key, None, shard)
        shared = state.position.shared
        start = local(jnp.concatenate([START, labels]))
        state = kernel.init(key, Dist(shared, start), shard)

        def step(state, i):
            keys = Keys(jax.random.fold_in(key, i), jax.random.fold_in(key, i + 1000), i)
            state, _ = kernel.step(keys, state, shard)
            return state, jax.tree.leaves(state.position.local)[0][:NUM]

        return jax.lax.scan(step, state, jnp.arange(STEPS))[1]

    return run


def padding(more):
    values = arrays(np.float32, (more, 1), elements=st.integers(-30, 30))
    return st.tuples(values, arrays(np.int32, (more,), elements=st.integers(0, SLOTS - 1)))


def check(name, rows=8, examples=25):
    @settings(max_examples=examples, derandomize=True, deadline=None, database=None)
    @given(st.integers(0, 2**20), padding(rows - NUM))
    def same_chain(seed, filled):
        usual = np.repeat(X[:1], 8 - NUM, axis=0), np.repeat(START[:1], 8 - NUM)
        expected = chain(name, 8)(seed, *usual)
        np.testing.assert_array_equal(chain(name, rows)(seed, *filled), expected)

    same_chain()


QUICK = ("anchored", "batches")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.full) for n in cases()]
)
def test_what_fills_the_padding(name):
    check(name)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name, case in cases().items() if case.any_rows])
def test_how_long_the_padding_is(name):
    for rows in (6, 11):
        check(name, rows, examples=10)


def test_padding_that_is_an_anchor(monkeypatch):
    """Planted."""
    monkeypatch.setattr(Mixture, "off_star", unmasked(Mixture.off_star))
    chain.cache_clear()
    with pytest.raises(AssertionError, match="not equal"):
        check("anchored")
    chain.cache_clear()
