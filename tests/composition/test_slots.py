"""A kernel that is grown inside a combinator makes the chain of one that never had to grow."""

import functools
import importlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Dist, Kernel, SlotInfo, Vmap, cycle, gibbs, sample, thin
from sgmc_jax.bnp import hybrid_mixture, split_merge
from sgmc_jax.runner.programs import programs
from tests.composition.slots import (
    BY_NAME,
    CASES,
    NUM,
    WRAPS,
    BirthAndDeath,
    X,
    features,
    hdp,
    mixture,
    position_of,
    start_of,
    wraps_of,
)

KEY = jax.random.key(11)
ROOM = 64


def run(case, wrap, capacity, **kwargs):
    kernel = WRAPS[wrap](lambda: case.make(capacity))
    args = {"num_steps": 16} | kwargs
    return sample(KEY, kernel, start_of(wrap, None), case.data, **args)


@functools.cache
def roomy(name, wrap):
    """The chain of a kernel that never has to grow, on one device."""
    return run(BY_NAME[name], wrap, BY_NAME[name].room)


def assert_same_chain(grown, other, wrap):
    """Discrete parts are equal, floats to rounding, and slots beyond the smaller number empty."""
    pair = (position_of(wrap, run.trace) for run in (grown, other))
    for a, b in zip(*map(jax.tree.leaves, pair), strict=True):
        common = tuple(slice(n) for n in a.shape)
        beyond = b.copy()
        beyond[common] = 0
        assert not beyond.any() and a.dtype == b.dtype
        if np.issubdtype(a.dtype, np.floating):
            np.testing.assert_allclose(a, b[common], rtol=1e-9, atol=1e-9)
        else:
            assert np.array_equal(a, b[common])


def pairs():
    fast = {("walkers", wrap) for wrap in WRAPS if wrap != "plain"}
    fast |= {("hybrid", "plain"), ("slice", "plain")}
    for case in CASES:
        for wrap in wraps_of(case.name):
            marks = [] if (case.name, wrap) in fast else pytest.mark.full
            yield pytest.param(case, wrap, marks=marks, id=f"{case.name}-{wrap}")


@pytest.mark.parametrize("case,wrap", list(pairs()))
def test_growth_inside_a_combinator(case, wrap, x64):
    few = 1 if case.name == "walkers" else 4  # every doubling is compiled for seconds
    grown, other = run(case, wrap, few), roomy(case.name, wrap)
    assert few < grown.capacity < other.capacity == case.room
    assert_same_chain(grown, other, wrap)


def sharded():
    fast = {("walkers", 2, wrap) for wrap in ("thin", "gibbs", "cycle")}
    for name in ("walkers", "hybrid", "slice", "with split-merge", "features", "hdp"):
        for size in (2, 8):
            for wrap in wraps_of(name):
                row = (name, size, wrap)
                yield pytest.param(*row, marks=[] if row in fast else pytest.mark.full)


@pytest.mark.parametrize("name,size,wrap", list(sharded()))
def test_the_same_chain_on_shards(name, size, wrap, x64):
    """Of eight shards one is short of items, or all are: blocks of one item, and empty ones."""
    case = BY_NAME[name]
    if name == "features" and size == 2:
        case = case._replace(make=lambda capacity: features(capacity, 4))
    elif size == 8 and name != "slice":
        case = case._replace(make=in_eight_blocks(name))
    alone = roomy(name, wrap) if case is BY_NAME[name] else run(case, wrap, case.room)
    assert_same_chain(run(case, wrap, case.room, engine=Vmap(size)), alone, wrap)


@pytest.mark.parametrize(
    "wrap",
    [pytest.param(wrap, marks=[] if wrap == "gibbs" else pytest.mark.full) for wrap in WRAPS],
)
def test_growth_on_shards(wrap, x64):
    case = BY_NAME["walkers"]
    grown = run(case, wrap, 2, engine=Vmap(2), num_chains=2, chunk=4)
    assert_same_chain(grown, run(case, wrap, ROOM, num_chains=2), wrap)


def in_eight_blocks(name):
    if name == "walkers":
        return lambda capacity: BirthAndDeath(capacity, 8)
    if name == "features":
        return lambda capacity: features(capacity, 8)
    if name == "hdp":
        return lambda capacity: hdp(capacity, 8)
    hybrid = mixture(hybrid_mixture, blocks=8)
    if name == "hybrid":
        return hybrid
    return lambda capacity: cycle(hybrid(capacity), mixture(split_merge, proposals=4)(capacity))


# ------------------------------------------------------------------------ where contracts meet


def refused(kernel, message, error=ValueError, position=None, **kwargs):
    with pytest.raises(error, match=message):
        sample(KEY, kernel, position, X, num_steps=1, **kwargs)


def test_blocks_that_shards_cannot_hold_whole():
    kernel = mixture(hybrid_mixture, blocks=3)
    for wrap in WRAPS:
        start, message = start_of(wrap, None), "blocks must be a multiple of the engine's 2 shards"
        refused(WRAPS[wrap](lambda: kernel(4)), message, position=start, engine=Vmap(2))
    of_two = gibbs(a=lambda rest: BirthAndDeath(2, 2), b=lambda rest: BirthAndDeath(2, 4))
    refused(
        of_two,
        r"blocks must be of one number, for shards to hold them whole, got \[2, 4\]",
        position={"a": None, "b": None},
        engine=Vmap(2),
    )


def test_blocks_of_a_gibbs_kernel_grow_together(x64):
    kernel = gibbs(a=lambda rest: BirthAndDeath(1), b=lambda rest: BirthAndDeath(2))
    grown = sample(KEY, kernel, {"a": None, "b": None}, X, num_steps=15)
    kernel = gibbs(a=lambda rest: BirthAndDeath(ROOM), b=lambda rest: BirthAndDeath(ROOM))
    roomy = sample(KEY, kernel, {"a": None, "b": None}, X, num_steps=15)
    assert grown.capacity > 2
    assert_same_chain(grown, roomy, "plain")


def test_a_kernel_that_reports_slots_must_declare_them():
    class Undeclared(BirthAndDeath):
        def contract(self, position):
            return super().contract(position)._replace(capacity=None)

    refused(Undeclared(4), "Undeclared reports SlotInfo, but declares no capacity", TypeError)


@pytest.mark.parametrize("wrap", ["plain", "thin", "gibbs", "cycle"])
@pytest.mark.parametrize("name", ["hybrid", "slice", "features", "hdp"])
def test_streams_are_refused(name, wrap):
    case = BY_NAME[name]
    kernel = WRAPS[wrap](lambda: case.make(8))
    with pytest.raises(TypeError, match="data is streamed, .* would take each batch for all"):
        sample(KEY, kernel, start_of(wrap, None), lambda i: case.data, num_steps=1)


def test_a_grown_run_is_continued_inside_gibbs(x64, tmp_path):
    case, wrap = BY_NAME["walkers"], "gibbs"
    whole = run(case, wrap, ROOM, num_steps=20)
    first = run(case, wrap, 2, num_steps=12, checkpoint=tmp_path, chunk=5)
    resumed = run(case, wrap, 2, num_steps=20, checkpoint=tmp_path, chunk=5)
    assert_same_chain(resumed, whole, wrap)
    kernel = gibbs(z=lambda rest: case.make(2))
    rest = sample(KEY, kernel, first, X, num_steps=8)
    later = whole.trace["z"].local["seen"][12:]
    assert np.array_equal(rest.trace["z"].local["seen"], later)
    assert first.capacity < whole.capacity
    assert_same_chain(first.extend(rest), whole, wrap)


class Still(NamedTuple):
    position: Any


def idle():
    """What leaves any position as it is, and begins with it as it is given."""
    init, step = lambda key, x, data: Still(x), lambda key, state, data: (state, None)
    return Kernel.from_functions(init, step)


BEFORE = {
    "alone": lambda kernel: cycle(idle(), kernel),
    "in a cycle": lambda kernel: cycle(cycle(idle(), idle()), kernel),
    "thinned": lambda kernel: thin(cycle(thin(idle(), 2), kernel), 2),
    "in gibbs": lambda kernel: gibbs(z=lambda rest: cycle(idle(), kernel)),
}


@pytest.mark.parametrize("before", BEFORE)
def test_a_kernel_without_slots_before_one_that_has_some(before, x64):
    """It begins in the form that the others give the position, and grows with them."""
    wrap = "gibbs" if before == "in gibbs" else "plain"
    shared = {"x": np.zeros(1), "alive": np.zeros(1, bool)}
    start = start_of(wrap, Dist(shared, {"seen": np.zeros(NUM, np.int32)}))
    go = lambda capacity: sample(
        KEY, BEFORE[before](BirthAndDeath(capacity)), start, X, num_steps=16
    )
    grown = go(2)
    assert 2 < grown.capacity < ROOM
    assert_same_chain(grown, go(ROOM), wrap)


def test_labels_before_a_mixture():
    kernel = cycle(idle(), mixture(hybrid_mixture, blocks=2)(4))
    labels = np.arange(NUM) % 2
    starts = labels, Dist({}, {"assignment": labels})
    runs = [sample(KEY, kernel, start, X, num_steps=6).trace.local for start in starts]
    assert np.array_equal(*(run["assignment"] for run in runs))
    assert (np.diff(runs[0]["assignment"], axis=0) != 0).any()


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_a_capacity_of_numpy_is_a_number(tmp_path):
    go = lambda capacity, num_steps: sample(
        KEY, BirthAndDeath(capacity), None, X, num_steps=num_steps, checkpoint=tmp_path
    )
    first = go(np.int64(2), 12)
    assert type(first.capacity) is int and len(go(2, 16).info.kernel.active) == 16


def test_a_capacity_that_is_no_field():
    class Fixed(Kernel):
        capacity = 4

        def init(self, key, position, data):
            return Still(position)

        def step(self, key, state, data):
            return state, SlotInfo(jnp.int32(1), jnp.array(False))

    refused(Fixed(), "Fixed must have its capacity as a field", TypeError, position=np.zeros(2))


# ------------------------------------------------------------------------------ planted faults


def fails(wrap, **kwargs):
    with pytest.raises(AssertionError):
        case = BY_NAME["walkers"]
        grown, roomy = run(case, wrap, 2, **kwargs), run(case, wrap, ROOM)
        assert_same_chain(grown, roomy, wrap)


def test_an_overflow_that_thinning_loses(monkeypatch, x64):
    contract = importlib.import_module("sgmc_jax.contract")
    honest = contract.merge_rules

    def all_true(info):
        return jax.tree.map(lambda rule: "all" if rule == "any" else rule, honest(info))

    monkeypatch.setattr(contract, "merge_rules", all_true)
    fails("thin")


@pytest.mark.parametrize("wrap", ["thin", "gibbs"])
def test_blocks_that_a_combinator_forgets(wrap, monkeypatch, x64):
    """Without them shards hold no whole blocks: rows of 4 and 3 items where a block has two."""
    kernel = type(WRAPS[wrap](lambda: BirthAndDeath(ROOM, 6)))
    honest = kernel.contract
    forgetful = lambda self, position: honest(self, position)._replace(blocks=frozenset())
    case = BY_NAME["walkers"]._replace(make=lambda capacity: BirthAndDeath(capacity, 6))
    assert NUM % 6 and -(-NUM // 6) * 6 // 2 != -(-NUM // 2)
    alone = run(case, wrap, ROOM)
    assert_same_chain(run(case, wrap, ROOM, engine=Vmap(2)), alone, wrap)
    monkeypatch.setattr(kernel, "contract", forgetful)
    programs.cache_clear()
    with pytest.raises(AssertionError):
        assert_same_chain(run(case, wrap, ROOM, engine=Vmap(2)), alone, wrap)
