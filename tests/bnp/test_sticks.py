"""The order of sticks given the sizes of clusters, and the points that shards move."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import beta, chisquare

from sgmc_jax import Vmap, cycle, sample
from sgmc_jax.bnp import (
    DirichletCategorical,
    DirichletProcess,
    NormalKnownCovariance,
    PitmanYor,
    _scans,
    collapsed_mixture,
    slice_mixture,
    split_merge,
    stochastic_slice,
)
from sgmc_jax.collective import Collective, Shard
from tests.laws.moments import at_length, check_law, check_mean, fault_is_seen, fewer

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(8)
NORMAL = NormalKnownCovariance(np.zeros(1), np.eye(1), 4.0 * np.eye(1))
SIZES = np.array([3, 1, 2])
SLOTS = np.array([4, 0, 2])  # those of the three clusters


def orders(keys, process, capacity):
    counts = jnp.zeros(capacity, jnp.int32).at[SLOTS].set(SIZES)
    draw = lambda key: process.draw_order(key, process.start(), counts)
    return np.asarray(jax.jit(jax.vmap(draw))(keys))


# ------------------------------------------------------------------------------- its law


def log_probability(a, d, places):
    """That of the clusters' sticks, numbers from 0, given the partition.

    prod_j B(1 - d + m_j, a + j d + sum_{l>j} m_l) / B(1 - d, a + j d) is that of the labels by
    sticks, as each v_j is a beta variate; by the partition's it is divided.
    """
    sizes = np.zeros(max(places) + 1)
    sizes[list(places)] = SIZES
    later = sizes.sum() - np.cumsum(sizes)
    shape = a + d * np.arange(1, len(sizes) + 1)
    labels = np.sum(betaln(1 - d + sizes, shape + later) - betaln(1 - d, shape))
    births = np.log([a + j * d for j in range(1, len(SIZES))]).sum()
    joins = np.sum(gammaln(SIZES - d) - gammaln(1 - d))
    return labels - births - joins + gammaln(a + SIZES.sum()) - gammaln(a + 1)


def p_value(process):
    """That of Pearson's test of the places of the three clusters' sticks."""
    num = fewer(40_000)
    keys = jax.random.split(KEY, num)
    drawn = orders(keys, process, capacity=48)
    places = np.argsort(drawn, axis=1)[:, SLOTS]
    a, d = float(process.concentration), float(process.discount)
    found, expected = [], []
    for each in itertools.permutations(range(12), 3):
        found.append(np.sum(np.all(places == each, axis=1)))
        expected.append(num * np.exp(log_probability(a, d, each)))
    found, expected = np.array(found), np.array(expected)
    some = expected > 20
    found, expected = (np.append(x[some], num - x[some].sum()) for x in (found, expected))
    assert len(found) > (20 if at_length() else 10) and expected.min() > 10
    return chisquare(found, expected).pvalue


PROCESSES = [DirichletProcess(0.8), PitmanYor(0.8, 0.4), PitmanYor(-0.2, 0.7)]


@pytest.mark.parametrize("process", PROCESSES)
def test_the_order_has_its_law(process):
    """A false alarm has probability 1e-6."""
    assert p_value(process) > 1e-6


@pytest.mark.parametrize(
    "fault",
    [pytest.param("index", marks=[pytest.mark.full, pytest.mark.at_length]), "rest", "discount"],
)
def test_an_order_of_another_law(fault, monkeypatch):
    """Planted: an empty stick with the shape of one before it, the first or undiscounted ones."""
    honest = PitmanYor._left_shapes

    def wrong(self, hyper, used):
        a, d = hyper["concentration"], hyper["discount"]
        other = {
            "index": {"concentration": a - 2 * d, "discount": d},
            "rest": {"concentration": a + 1e6, "discount": d},
            "discount": {"concentration": a, "discount": 0 * d},
        }
        return honest(self, other[fault], used)

    monkeypatch.setattr(PitmanYor, "_left_shapes", wrong)
    assert p_value(PitmanYor(0.8, 0.4)) < 1e-6


def test_empty_sticks_have_the_free_slots_in_turn():
    drawn = orders(jax.random.split(KEY, 100), PROCESSES[1], 16)
    for order in drawn:
        assert sorted(order) == list(range(16))
        free = order[~np.isin(order, SLOTS)]
        assert np.array_equal(free, np.sort(free))


def test_no_slot_more_changes_the_order():
    """Of few slots it is that of many, less those; a cluster is the last where they mattered."""
    keys, some = jax.random.split(KEY, 100), 0
    both = [orders(keys, PROCESSES[1], n) for n in (7, 64)]
    for few, many in zip(*both):
        assert np.array_equal(few, many[many < 7])
        if not np.array_equal(few, many[:7]):
            assert few[-1] in SLOTS
            some += 1
    assert some > 10


@pytest.mark.parametrize("process", [DirichletProcess(1e-3), PitmanYor(0.0001, 0.97)])
def test_an_order_where_hardly_anything_is_left(process):
    """The weights of later sticks underflow in float32, but not their order."""
    drawn = orders(jax.random.split(KEY, 20), process, 256)
    for order in drawn:
        assert sorted(order) == list(range(256))
        free = order[~np.isin(order, SLOTS)]
        assert np.array_equal(free, np.sort(free))


# ------------------------------------------------------------------------- in a cycle, growing


@pytest.mark.full
@pytest.mark.parametrize("other", ["collapsed", "split_merge"])
def test_a_cycle_that_grows_is_one_with_many_slots(other, x64):
    rng = np.random.default_rng(0)
    data = np.concatenate([rng.normal(c, 0.5, size=(6, 1)) for c in (-4.0, 0.0, 4.0)])
    process = PitmanYor(1.0, 0.1)

    def run(slots):
        kernels = {"collapsed": collapsed_mixture, "split_merge": split_merge}
        second = kernels[other](process, NORMAL, capacity=slots)
        kernel = cycle(slice_mixture(process, NORMAL, capacity=slots), second)
        return sample(KEY, kernel, None, data, num_steps=20)

    few, many = run(4), run(64)
    assert few.capacity > 4 and not any(np.any(i.overflow) for i in few.info.kernel.kernels)
    labels = [run.trace.local["assignment"] for run in (few, many)]
    assert len(np.unique(labels[1][-1])) > 2
    assert np.array_equal(*labels)


# ------------------------------------------------------------------ sticks by Langevin steps


def check_sticks_by_langevin():
    """Of fixed sizes: a stick's share of what is left is a beta variate, all but for the step."""
    words = DirichletCategorical(1.0, size=2)
    steps = {"step_size": 1e-3, "stick_step_size": 1e-3}
    kernel = slice_mixture(DirichletProcess(1.5), words, 2, "sgrld", capacity=4, **steps)
    prior = jnp.tile(jnp.array([1.0, 1.5]), (4_000, 1))
    shapes, used = prior + jnp.array([5.0, 2.0]), jnp.ones(4_000, bool)
    start_key, key = jax.random.split(KEY)

    def step(sticks, key):
        return kernel._moved(key, sticks, shapes, prior, used, jnp.float32(2e-3)), None

    start = stochastic_slice._start(start_key, shapes, prior)
    sticks = jax.jit(lambda keys: jax.lax.scan(step, start, keys)[0])(jax.random.split(key, 2_000))
    share, law = np.asarray(jax.nn.softmax(sticks), float)[:, 0], beta(6.0, 3.5)
    check_mean(share, law.mean(), 0.05)
    check_mean((share - law.mean()) ** 2, law.var(), 0.15)


def test_sticks_by_langevin_steps_are_beta_variates():
    check_sticks_by_langevin()


def test_sticks_that_miss_those_of_later_points_are_seen(monkeypatch):
    honest = stochastic_slice.ExpandedMeanLangevin.__call__

    def wrong(self, key, phase, h, shapes):
        return honest(self, key, phase, h, shapes - jnp.array([0.0, 2.0]))

    monkeypatch.setattr(stochastic_slice.ExpandedMeanLangevin, "__call__", wrong)
    fault_is_seen(check_sticks_by_langevin)


# ----------------------------------------------------------------------- batches on shards

ITEMS = np.array([1.0, -2.0, 4.0, 0.5, 3.0])
UNEVEN = [(2, 1), (5, 1), (1, 2), (3, 2), (5, 2), (1, 3), (2, 3), (4, 3)]


def batches(batch_size, shards):
    """Of many batches the rows' indices, which of them are real, and estimates of a sum."""
    kernel = slice_mixture(DirichletProcess(1.0), NORMAL, batch_size, capacity=2)
    comm = Collective("shard", shards) if shards > 1 else Collective()
    object.__setattr__(kernel, "comm", comm)
    per_shard = -(-5 // shards)
    items = jnp.asarray(np.append(ITEMS, np.full(shards * per_shard - 5, 100.0)))
    keys = jax.random.split(KEY, fewer(20_000))

    def one(items, key):
        start = comm.index() * per_shard
        shard = Shard(items, jnp.clip(5 - start, 0, per_shard), start, 5)
        batch = kernel.scan.batch(key, shard, comm)
        own = jnp.sum(jnp.where(batch.real, batch.items, 0))
        return start + batch.rows, batch.real, _scans.scaled_up(comm, shard, batch, own)

    each = jax.vmap(one, (None, 0))
    every = jax.vmap(each, (0, None), axis_name=comm.axis)
    return jax.jit(every)(items.reshape(shards, -1), keys)


@pytest.mark.parametrize("batch_size,shards", UNEVEN)
def test_batches_of_shards_have_their_size_and_an_unbiased_sum(batch_size, shards):
    """By `check_law` on many batches: a false alarm has probability 1e-6."""
    index, real, sums = (np.asarray(x) for x in batches(batch_size, shards))
    per_shard = -(-5 // shards)
    sizes = np.clip(5 - per_shard * np.arange(shards), 0, per_shard)
    drawn = real.sum((0, 2))
    assert drawn.max() == batch_size or batch_size // shards + 1 > sizes.min()
    assert np.all(drawn >= np.minimum(batch_size // shards, sizes).sum())
    assert np.all(drawn <= batch_size)
    for i in range(5):
        assert np.any((index == i) & real)
    assert np.all(index[real] < 5)
    if batch_size == 5 and shards == 1:
        np.testing.assert_allclose(sums[0], ITEMS.sum(), rtol=1e-5)
    else:
        check_law(sums[0], ITEMS.sum(), 0.15)


def test_shares_that_forget_how_rarely_they_are_drawn(monkeypatch):
    """Planted: with one point on two shards, each point stands for its own shard."""
    honest = _scans.scaled_up

    def unweighted(comm, shard, batch, own):
        return honest(comm, shard, batch._replace(chance=1), own)

    monkeypatch.setattr(_scans, "scaled_up", unweighted)
    fault_is_seen(test_batches_of_shards_have_their_size_and_an_unbiased_sum, 1, 2)


def test_an_empty_cluster_has_no_sums():
    """What rounding leaves of its last point is no part of the next cluster in its slot."""
    kernel = slice_mixture(DirichletProcess(2.0), NORMAL, 1, capacity=32)
    sums = lambda state, info: (state.sums.counts, state.sums.statistics.total)
    data = np.random.default_rng(0).normal(size=(20, 1)).astype(np.float32)
    counts, total = sample(KEY, kernel, None, data, num_steps=300, record=sums).trace
    assert np.all(total[counts == 0] == 0) and np.any(np.diff(counts == 0, axis=0))


@pytest.mark.full
def test_a_batch_of_one_moves_on_two_shards():
    kernel = slice_mixture(DirichletProcess(2.0), NORMAL, 1, capacity=32)
    run = sample(KEY, kernel, None, 0.1 * ITEMS[:, None], num_steps=200, engine=Vmap(2))
    moved = np.any(np.diff(run.trace.local["assignment"], axis=0) != 0, axis=0)
    assert moved.all()


def test_the_shapes_of_empty_sticks():
    """a + (K + e) d of the e-th empty one, after K = 2 clusters."""
    process = PitmanYor(0.5, 0.3)
    shapes = process._left_shapes(process.start(), jnp.array([True, False, True, False]))
    np.testing.assert_allclose(shapes[jnp.array([1, 3])], [1.4, 1.7], rtol=1e-6)
