"""Slice samplers of mixtures against all fifteen partitions of four points."""

from types import SimpleNamespace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import ShardMap, Vmap, sample
from sgmc_jax._types import as_keys
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalInverseWishart,
    PitmanYor,
    _scans,
    _slice,
    slice_mixture,
)
from sgmc_jax.collective import Collective, as_shard
from sgmc_jax.processes import pitman_yor
from tests.enumeration.partitions import (
    KEY,
    check_partitions,
    exact,
    normal_marginal,
    random_concentration,
)
from tests.enumeration.test_mixture import NORMAL, X
from tests.laws.moments import fault_is_seen

pytestmark = pytest.mark.runs_long

DATA = X[:, None]


PROCESSES = {"dp": DirichletProcess(1.2), "py": PitmanYor(0.4, 0.35), "far": PitmanYor(0.2, 0.7)}


def make(process="dp", batch_size=None, **kwargs):
    return slice_mixture(PROCESSES[process], NORMAL, batch_size, capacity=32, **kwargs)


def check(kernel, process="dp", **kwargs):
    law = exact(PROCESSES[process], normal_marginal, X)
    args = {"num_chains": 256, "num_steps": 1_500, "tolerance": 0.06} | kwargs
    check_partitions(kernel, law, DATA, **args)


FULL = [("dp", None), ("dp", 2), ("dp", 1), ("py", 2), ("far", None), ("far", 3)]


@pytest.mark.optimised
@pytest.mark.parametrize(
    "process,batch_size",
    [("py", None), *(pytest.param(*row, marks=pytest.mark.full) for row in FULL)],
)
def test_all_partitions(process, batch_size):
    num_steps = {None: 1_500, 3: 3_000, 2: 3_000, 1: 4_500}[batch_size]
    check(make(process, batch_size), process, num_steps=num_steps)


def test_sticks_are_enough_once_their_rest_is_below_every_slice():
    """As printed, until u* < 1 - sum w_j, they end before an atom that a point might move to."""
    rng = np.random.default_rng(0)
    sticks = rng.beta(1, 1.2, (5_000, 200))
    rest = np.cumprod(1 - sticks, axis=1)
    weights = sticks * rest / (1 - sticks)
    least = rng.uniform(0, 0.3, (5_000, 1))
    beyond = lambda enough: [np.any(w[k + 1 :] > u) for w, k, u in zip(weights, enough, least)]
    assert not np.any(beyond(np.argmax(least > rest, axis=1)))
    assert np.mean(beyond(np.argmax(least < rest, axis=1))) > 0.5


@pytest.mark.full
def test_a_random_concentration():
    """Gamma(2, 2), by quadrature."""
    law = random_concentration(2.0, 2.0, normal_marginal, X)
    kernel = slice_mixture(DirichletProcess(1.0, prior=(2.0, 2.0)), NORMAL, capacity=64)
    args = {"num_chains": 512, "num_steps": 1_500, "tolerance": 0.06}
    check_partitions(kernel, law, DATA, **args)


@pytest.mark.at_length
@pytest.mark.full
def test_the_law_holds_on_shards_after_a_warm_start():
    check(make(batch_size=2, warm_start=25), engine=Vmap(2), num_steps=3_000)


GROUPS = np.random.default_rng(0).normal(np.repeat([-4.0, 0.0, 4.0], 20)[:, None], 0.5)


def after(num_steps, engine=None):
    """A run from batches of 12 of 60 items, with a warm start of 30 steps; and its sums anew."""
    kernel = make(batch_size=12, warm_start=30)
    run = sample(KEY, kernel, None, GROUPS, num_steps=num_steps, engine=engine)
    labels = jnp.asarray(run.state.position.local["assignment"])[: len(GROUPS)]
    counts = np.bincount(labels, minlength=run.capacity)
    family = NORMAL.about(run.state.centre)
    return run, counts, family.label_statistics(GROUPS, labels, run.capacity)


@pytest.mark.full
@pytest.mark.parametrize("engine", [pytest.param(None, marks=pytest.mark.full), Vmap(3)])
def test_all_labels_are_counted_at_the_end_of_a_warm_start(engine, x64):
    for num_steps in (30, 41):
        run, counts, stats = after(num_steps, engine)
        assert np.array_equal(run.state.sums.counts, counts)
        for ours, counted in zip(
            jax.tree.leaves(run.state.sums.statistics), jax.tree.leaves(stats)
        ):
            np.testing.assert_allclose(ours, counted, atol=1e-9)


def test_before_that_the_sums_are_averages_over_batches():
    """Of sixty items, but for rounding; and of the means of the three groups."""
    run, _, stats = after(29)
    sums = run.state.sums
    assert abs(int(sums.counts.sum()) - 60) <= 2
    assert not np.allclose(sums.statistics.total, stats.total)
    large = np.argsort(-np.asarray(sums.counts))[:3]
    means = (sums.statistics.total[:, 0] / np.maximum(sums.statistics.count, 1))[large]
    means = means + run.state.centre
    np.testing.assert_allclose(np.sort(means), [-4, 0, 4], atol=0.5)


def one_step(kernel, keys):
    """The states before and after a step, and its info."""

    @jax.jit
    def both(items):
        before = kernel.init(KEY, None, items)
        return before, *kernel.step(keys, before, items)

    return both(GROUPS)


def test_a_step_of_a_warm_start_is_one_of_online_em(x64):
    """A batch of all items at t = 5 of 10: weights .6^(1/2), and expected sums, not drawn ones."""
    kernel = make(batch_size=60, warm_start=10)
    keys = as_keys(KEY)._replace(count=jnp.asarray(5))
    before, after = one_step(kernel, keys)[:2]

    @jax.jit
    def expected_statistics(before, after):
        family = NORMAL.about(before.centre)
        logits = after.log_weights[:, None] + family.scores(after.parameters, GROUPS)
        return family.statistics(GROUPS, jax.nn.softmax(logits, axis=0))

    expected = expected_statistics(before, after)
    share = np.sqrt(0.6)
    mean = jax.tree.map(
        lambda old, new: (1 - share) * old + share * new, before.sums.statistics, expected
    )
    chex.assert_trees_all_close(after.sums.statistics, mean, rtol=1e-9)
    gap = after.sums.counts - mean.count  # rounded at random
    assert np.all(np.abs(gap) < 1)
    assert len(np.unique(np.sign(gap))) == 2


@pytest.mark.parametrize("count", [0, 9, 10])
def test_a_warm_start_adds_no_slots_for_sticks_without_points(count):
    """Of a concentration of 500, sixteen sticks leave nearly all."""
    kernel = slice_mixture(DirichletProcess(500.0), NORMAL, 60, warm_start=10)
    keys = as_keys(KEY)._replace(count=jnp.asarray(count))
    info = one_step(kernel, keys)[2]
    assert bool(info.overflow) == (count >= 10)


def test_how_fast_a_warm_start_forgets():
    """r = .6^(1 - t/W) (n/N)^(t/W), here of t/W = 1/4, and N/n times the sums over a batch."""
    scan = _scans.OnlineEM(size=3, steps=8)
    family = SimpleNamespace(statistics=lambda items, weights: weights.sum(axis=1))
    own = SimpleNamespace(family=family, comm=Collective())
    shard, real = as_shard(jnp.zeros((6, 1))), jnp.ones(3, bool)
    batch, key = _scans.Batch(jnp.arange(3), jnp.zeros((3, 1)), real), jax.random.key(1)
    before = _scans.SliceSums(jnp.zeros(2, int), jnp.zeros(2), jnp.zeros((), int))
    move = _scans.Move(None, None, None, jnp.zeros((), int), jnp.zeros((2, 3)), key)
    sums = scan._averaged(own, 2, before, shard, batch, move)
    np.testing.assert_allclose(sums.statistics, 2 * 1.5 * 0.6**0.75 * 0.5**0.25, rtol=1e-5)


def test_atoms_that_are_open_and_have_no_slot_are_told_of():
    """Of a concentration of 500, four sticks leave nearly all."""
    kernel = slice_mixture(DirichletProcess(500.0), NORMAL, capacity=4)
    step = lambda: kernel.step(KEY, kernel.init(KEY, None, DATA), DATA)[1].overflow
    assert jax.jit(step)()


def test_rounding_keeps_the_mean():
    """A million times 3.1, within five standard errors (6e-7)."""
    draws = _scans.round_at_random(KEY, jnp.full(1_000_000, 3.1))
    assert set(np.unique(draws)) == {3, 4}
    assert abs(draws.mean() - 3.1) < 5 * np.sqrt(0.09 / 1e6)


# ------------------------------------------------------------------------------ planted faults


def check_fails(kernel, process="dp", **kwargs):
    fault_is_seen(check, kernel, process, **kwargs)


@pytest.mark.full
@pytest.mark.at_length
def test_points_that_leave_closed_clusters(monkeypatch):
    """They could not come back."""
    honest = _slice.open_to
    leaving = lambda labels, arrived: honest(labels, arrived) | arrived[:, None]
    monkeypatch.setattr(_slice, "open_to", leaving)
    check_fails(make())


@pytest.mark.full
@pytest.mark.at_length
def test_clusters_in_use_that_are_all_open(monkeypatch):
    """Whether an atom is open must not depend on labels."""
    honest = _slice.open_to
    in_use = lambda labels, arrived: jnp.zeros_like(arrived).at[labels].set(True)
    wrong = lambda labels, arrived: honest(labels, arrived | in_use(labels, arrived))
    monkeypatch.setattr(_slice, "open_to", wrong)
    check_fails(make())


@pytest.mark.full
@pytest.mark.at_length
def test_weights_of_one_point_too_many(monkeypatch):
    honest = pitman_yor.PitmanYor._by_slot
    wrong = lambda self, key, hyper, counts: honest(self, key, hyper, counts + (counts > 0))
    monkeypatch.setattr(pitman_yor.PitmanYor, "_by_slot", wrong)
    check_fails(make())


@pytest.mark.full
@pytest.mark.parametrize("process", ["py", "far"])
@pytest.mark.at_length
def test_a_discount_forgotten_among_empty_atoms(process, monkeypatch):
    wrong = lambda self, hyper, used: jnp.full(used.shape, hyper["concentration"])
    monkeypatch.setattr(pitman_yor.PitmanYor, "_left_shapes", wrong)
    check_fails(make(process), process)


def test_a_warm_start_from_drawn_labels(monkeypatch, x64):
    honest = _scans.OnlineEM._averaged

    def drawn(self, own, count, before, shard, batch, move):
        one_hot = move.new == jnp.arange(own.capacity)[:, None]
        move = move._replace(logits=jnp.where(one_hot, 0.0, -jnp.inf))
        return honest(self, own, count, before, shard, batch, move)

    monkeypatch.setattr(_scans.OnlineEM, "_averaged", drawn)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_a_step_of_a_warm_start_is_one_of_online_em(None)


@pytest.mark.full
@pytest.mark.at_length
def test_a_warm_start_without_an_end():
    check_fails(make(batch_size=2, warm_start=10**6))


# ---------------------------------------------------------------------- capacity and engines


def test_few_slots_for_five_points():
    """Slices down to the smallest weight of a point would ask for thousands."""
    data = np.append(X, 0.9)[:, None]
    assert sample(KEY, make("py"), None, data, num_steps=500, num_chains=4).capacity <= 64


@pytest.mark.full
def test_the_chain_does_not_depend_on_the_capacity(x64):
    rng = np.random.default_rng(0)
    data = np.concatenate([rng.normal(c, 0.5, size=(15, 1)) for c in (-4.0, 0.0, 4.0)])
    for batch_size in (None, 5):
        runs = [
            sample(
                KEY,
                slice_mixture(PitmanYor(2.0, 0.2), NORMAL, batch_size=batch_size, capacity=slots),
                None,
                data,
                num_steps=60,
            )
            for slots in (16, 256)
        ]
        assert runs[0].capacity > 16 and not runs[0].info.overflow.any()
        found = [run.trace.local["assignment"] for run in runs]
        assert np.array_equal(*found)


@pytest.mark.full
def test_the_same_chain_on_eight_devices(x64):
    rng = np.random.default_rng(1)
    data = rng.normal(size=(45, 2)) * 3
    kernel = slice_mixture(
        DirichletProcess(1.0, prior=(2.0, 1.0)), NormalInverseWishart(dim=2), capacity=64
    )
    alone = sample(KEY, kernel, None, data, num_steps=100)
    assert len(np.unique(alone.trace.local["assignment"], axis=0)) > 1
    for engine in (ShardMap(8), Vmap(8)):
        shared = sample(KEY, kernel, None, data, num_steps=100, engine=engine)
        assert np.array_equal(alone.trace.local["assignment"], shared.trace.local["assignment"]), (
            engine
        )


def test_bad_input():
    with pytest.raises(ValueError, match="batch_size must be"):
        slice_mixture(PROCESSES["dp"], NORMAL, batch_size=0)
    with pytest.raises(
        ValueError, match="batch_size must be at most the number of items, 4, got 5"
    ):
        sample(KEY, make(batch_size=5), None, DATA, num_steps=1)
    with pytest.raises(ValueError, match="warm_start must be a whole number of at least 0, got -1"):
        make(batch_size=2, warm_start=-1)
    with pytest.raises(ValueError, match="warm_start goes with batches"):
        make(warm_start=5)
    init, step = make(batch_size=2, warm_start=5)
    with pytest.raises(ValueError, match="needs the step's index"):
        jax.eval_shape(lambda data: step(KEY, init(KEY, None, data), data), jnp.asarray(DATA))
    with pytest.raises(TypeError, match="process must be"):
        slice_mixture(1.0, NORMAL)
    with pytest.raises(TypeError, match="family must be"):
        slice_mixture(PROCESSES["dp"], None)
