"""Latent counts: their estimators, and SCIR on a two-topic example that can be summed up."""

from contextlib import nullcontext
from functools import partial
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from sgmc_jax import (
    AllReduce,
    AnchoredCounts,
    Epoch,
    Full,
    FunctionModel,
    Given,
    Latent,
    LatentTable,
    Minibatch,
    MinibatchCounts,
    SAGACounts,
    Stratified,
    Summand,
    TableCounts,
    Uniform,
    Vmap,
    sample,
    scir,
    sgld,
)
from sgmc_jax.transitions import GammaTotal
from tests.laws.moments import check_law, fewer, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(13)
ARGS = {"num_chains": 512, "num_steps": 1_500, "burn_in": 100}
fails = partial(pytest.raises, AssertionError, match="standard errors")


# Eight items, five of word 0 and three of word 1; topic 0 with probability .7; Dirichlet(1/2)
# topics. By summing over all allocations, the means of w_k0 are (.6498, .4886).
SHARE, WORDS, HALF = np.array([0.7, 0.3]), np.array([0] * 5 + [1] * 3), 0.5
CENTRE = np.zeros((2, 2), np.float32)


def two_topics_weights():
    """The probability of all allocations with equal counts, (c,), and their shapes (c, 2, 2)."""
    ones, twos = (x.ravel() for x in np.meshgrid(np.arange(6), np.arange(4)))  # of topic 0
    counts = np.stack([[ones, twos], [5 - ones, 3 - twos]])  # (topic, word, c)
    shape, ways = HALF + counts, np.vectorize(comb)(5, ones) * np.vectorize(comb)(3, twos)
    log = np.log(ways) + (counts.sum(1) * np.log(SHARE)[:, None]).sum(0)
    log = log + (gammaln(shape).sum(1) - gammaln(shape.sum(1))).sum(0)
    return np.exp(log - logsumexp(log)), jnp.asarray(np.moveaxis(shape, -1, 0), jnp.float32)


def two_topics():
    """The means and second moments of w_00 and w_10, over all allocations."""
    weight, shape = two_topics_weights()
    first, total = np.asarray(shape)[:, :, 0], np.asarray(shape).sum(2)
    mean = first / total
    return weight @ mean, weight @ (mean * (first + 1) / (total + 1))


def expect(position, word):
    """The expected counts of an item: its word, shared out between the topics."""
    share = jnp.asarray(SHARE) * jax.nn.softmax(position)[:, word]
    return (share / share.sum())[:, None] * jax.nn.one_hot(word, 2)


def allocate(key, position, word):
    topic = jax.random.categorical(key, jnp.log(expect(position, word)[:, word]))
    return jax.nn.one_hot(topic, 2)[:, None] * jax.nn.one_hot(word, 2)


def first_words(state, info):
    w = jax.nn.softmax(state.position)[:, 0]
    clipped = getattr(info, "clipped", None)
    return jnp.stack([w, w**2]), jnp.zeros(()) if clipped is None else (clipped > 0) * 1.0


def topics(kernel, **args):
    run = run_law(KEY, kernel, np.zeros((2, 2)), WORDS, reduce=first_words, **ARGS | args)
    return run.trace.mean


def check_topics(kernel, tolerance=0.02, **args):
    moments, _ = topics(kernel, **args)
    mean, square = two_topics()
    check_law(moments[:, 0], mean, tolerance)
    check_law(moments[:, 1], square, tolerance)


def test_the_exact_moments_of_two_topics():
    mean, square = two_topics()
    np.testing.assert_allclose(mean, [0.6498, 0.4886], atol=1e-4)
    np.testing.assert_allclose(square - mean**2, [0.0669, 0.1235], atol=1e-4)


def test_new_totals_make_latent_allocations_exact():
    check_topics(scir(MinibatchCounts(allocate, HALF, Full()), 1.0))


@pytest.mark.parametrize(
    "batcher",
    [Uniform(2), pytest.param(Epoch(3), marks=pytest.mark.full)],
    ids=["uniform", "epoch"],
)
def test_a_table_makes_minibatches_exact(batcher):
    check_topics(scir(TableCounts(allocate, HALF, batcher), 1.0), num_steps=3_000)


@pytest.mark.full
@pytest.mark.at_length
def test_totals_left_to_the_process_are_biased():
    kernel = scir(MinibatchCounts(allocate, HALF, Full()), 0.6, scale="none")
    with fails():
        check_topics(kernel, num_chains=1024)


@pytest.mark.full
@pytest.mark.at_length
def test_allocations_drawn_anew_after_the_totals_are_biased(monkeypatch):
    monkeypatch.setattr(GammaTotal, "moves", True)
    with fails():
        check_topics(scir(MinibatchCounts(allocate, HALF, Full()), 0.6), num_chains=1024)


@pytest.mark.full
@pytest.mark.at_length
def test_a_table_that_counts_a_batch_one_step_late_is_seen(monkeypatch):
    honest = TableCounts._value
    late = lambda self, position, counts, change, batch: honest(
        self, position, counts, jax.tree.map(jnp.zeros_like, change), batch
    )
    monkeypatch.setattr(TableCounts, "_value", late)
    with fails():
        check_topics(scir(TableCounts(allocate, HALF, Uniform(4)), 0.6), num_chains=1024)


@pytest.mark.full
@pytest.mark.at_length
def test_saga_and_anchored_counts_are_clipped_and_say_so():
    kernel = scir(SAGACounts(allocate, HALF, Uniform(2)), 1.0)
    with fails():
        check_topics(kernel)
    assert topics(kernel, num_steps=200)[1].mean() > 0.1
    for rho in (0.0, 1.0):
        anchored = AnchoredCounts(allocate, HALF, Uniform(2), CENTRE, expect, rho)
        clipped = topics(scir(anchored, 1.0), num_steps=200)[1]
        assert clipped.max() == 0 if rho == 0 else clipped.mean() > 0.1


@pytest.mark.full
@pytest.mark.at_length
def test_averages_of_allocations_are_right_with_fixed_totals_as_the_step_size_vanishes():
    counts = Minibatch(Summand(np.full((2, 2), HALF, np.float32), expect), Full())
    for h, num_steps in [(0.01, 15_000), (1.0, 2_000)]:
        kernel = scir(counts, h, scale="fixed", total=5.0)
        with fails() if h > 0.1 else nullcontext():
            check_topics(kernel, 0.05, num_steps=num_steps)


# ------------------------------------------------- the estimators of counts, at one position

POINT = np.log(np.array([[0.7, 0.3], [0.2, 0.8]], np.float32))


def estimates(estimator):
    """Estimates at POINT; a table holds draws at CENTRE, the same ones for all."""
    estate = estimator.init(KEY, jnp.asarray(CENTRE), WORDS)
    one = lambda key: estimator.estimate(key, estate, jnp.asarray(POINT), WORDS)[0]
    return jax.jit(jax.vmap(one))(jax.random.split(KEY, fewer(100_000))), estate


def latent_moments(anchors):
    """The mean of alpha + sum z_i, and the variance of an estimate with n = 4 of 8 that subtracts
    anchors t_i: (N^2/n)(1 - n/N) S of E z - t, plus (N/n) sum Var z."""
    mean = np.stack([expect(POINT, w) for w in WORDS]).astype(float)
    spread = np.var(mean - anchors, axis=0, ddof=1)
    return HALF + mean.sum(0), 8**2 / 4 * 0.5 * spread + 8 / 4 * (mean * (1 - mean)).sum(0)


def check_estimator(values, mean, variance):
    values = np.asarray(values, np.float64)
    check_law(values, mean, 0.02)
    check_law((values - mean) ** 2, variance, 0.05)


@pytest.mark.full
@pytest.mark.at_length
def test_latent_counts_are_unbiased_with_the_variance_of_theory():
    simple, _ = estimates(MinibatchCounts(allocate, HALF, Uniform(4)))
    check_estimator(simple.value, *latent_moments(0.0))
    centred = np.stack([expect(CENTRE, w) for w in WORDS])
    for rho in (0.3, 0.6):
        anchored = AnchoredCounts(allocate, 8.0, Uniform(4), CENTRE, expect, rho)
        values, _ = estimates(anchored)
        mean, variance = latent_moments(rho * centred)
        check_estimator(values.value - 8.0 + HALF, mean, variance)
        assert not values.clipped.any()
    saga, estate = estimates(SAGACounts(allocate, 16.0, Uniform(4)))
    check_estimator(saga.value - 16.0 + HALF, *latent_moments(np.asarray(estate.kept.table.value)))
    assert not saga.clipped.any()
    with fails():
        check_estimator(simple.value, *latent_moments(centred))


@pytest.mark.full
@pytest.mark.at_length
def test_changes_of_a_table_have_the_weights_of_their_items(monkeypatch):
    batcher = Stratified([1, 2], WORDS)  # weights 5 and 3/2
    mean, _ = latent_moments(0.0)
    saga = lambda: estimates(SAGACounts(allocate, 32.0, batcher))[0].value - 32.0 + HALF
    check_law(saga(), mean, 0.03)
    honest = SAGACounts._value

    def equal(self, position, counts, change, weighted):
        return honest(self, position, counts, change, lambda: 5 * change)

    monkeypatch.setattr(SAGACounts, "_value", equal)
    with fails():
        check_law(saga(), mean, 0.03)


def test_anchored_counts_have_their_floor_on_shards_too():
    anchored = AnchoredCounts(allocate, HALF, Uniform(2), CENTRE, expect, 1.0)
    kernel = scir(AllReduce(anchored), 1.0)
    for engine in (None, Vmap(2)):
        run = sample(KEY, kernel, jnp.asarray(CENTRE), WORDS, num_steps=300, engine=engine)
        assert run.stopped == -1 and np.sum(run.info.clipped) > 0


@pytest.mark.parametrize("batcher", [Uniform(3), Epoch(3)], ids=["uniform", "epoch"])
def test_a_table_counts_what_it_holds(batcher):
    """Also where the last batch of a pass is filled up with an item that it does not have."""
    estimator = TableCounts(allocate, HALF, batcher)
    estate = estimator.init(KEY, jnp.asarray(CENTRE), WORDS)
    for i in range(20):
        key = jax.random.fold_in(KEY, i)
        value, estate = estimator.estimate(key, estate, jnp.asarray(POINT), WORDS)
        table = estate.kept.table.value.at[estate.kept.index].set(estate.kept.rows)
        np.testing.assert_array_equal(table.sum(0), estate.counts)
        np.testing.assert_allclose(value.value, HALF + estate.counts)
        assert np.array_equal(table.sum(1)[:, 0], WORDS == 0)  # every item is where its word is


def test_a_stopped_chain_keeps_its_table():
    """Discarded steps leave no trace: the table is what the last accepted one left."""
    broken = lambda key, position, word: (
        allocate(key, position, word) * jnp.where(position[0, 0] > 0, jnp.nan, 1.0)
    )
    kernel = scir(TableCounts(broken, HALF, Uniform(2)), 0.5)
    args = {"num_chains": 3, "num_steps": 30}
    start = np.full((2, 2), -0.5, np.float32)
    with pytest.warns(UserWarning, match="chain"):
        stopped = sample(KEY, kernel, start, WORDS, **args)
    assert (stopped.stopped >= 0).all()
    estate = jax.tree.map(np.array, stopped.state.estimator)
    for table, index, rows, total in zip(
        estate.kept.table.value, estate.kept.index, estate.kept.rows, estate.counts, strict=True
    ):
        table[index] = rows
        assert np.array_equal(table.sum(0), total)


# --------------------------------------------------------------------------------- bad input


def test_bad_input_is_refused():
    for alpha in (0.0, -1.0, float("nan"), np.array([1.0, 0.0])):
        with pytest.raises(ValueError, match="alpha must be finite and positive"):
            MinibatchCounts(allocate, alpha, Full())
    with pytest.raises(TypeError, match="allocate must be a function.*got int"):
        MinibatchCounts(3, 1.0, Full())
    with pytest.raises(TypeError, match="batcher must be a Batcher.*got int"):
        TableCounts(allocate, 1.0, 5)
    with pytest.raises(TypeError, match="AnchoredCounts needs all of the data"):
        AnchoredCounts(allocate, 1.0, Given(8), CENTRE, expect)
    for estimator in (
        TableCounts(allocate, 1.0, Given(8)),
        SAGACounts(allocate, 1.0, Uniform(2, replace=True)),
    ):
        with pytest.raises(TypeError, match="needs all of the data and batches without repeated"):
            sample(KEY, scir(estimator, 0.1), CENTRE, WORDS, num_steps=1)
    with pytest.raises(TypeError, match="SAGACounts needs batches that do not depend.*Epoch"):
        kernel = scir(SAGACounts(allocate, 1.0, Epoch(2)), 0.1)
        sample(KEY, kernel, CENTRE, WORDS, num_steps=1)
    with pytest.raises(ValueError, match="batch_size must be at most.*got 9 for 8"):
        sample(KEY, scir(TableCounts(allocate, 1.0, Uniform(9)), 0.1), CENTRE, WORDS, num_steps=1)


def test_noise_of_counts_in_an_order_is_not_subtracted():
    """That of a pass adds up to nothing; noise of fresh batches may be."""
    make = lambda batcher: sgld(MinibatchCounts(allocate, 1.0, batcher), 0.1, noise_covariance=1.0)
    make(Uniform(2))
    with pytest.raises(ValueError, match="noise_covariance cannot be subtracted.*Epoch's"):
        make(Epoch(2))


class Further(Latent):
    """Not random: an item's own number at first, and then one more each time that it is seen."""

    def draw(self, key, position, items, previous):
        return items if previous is None else previous + 1


def test_a_table_of_latent_variables_by_hand():
    """Those of the batch move, and the estimate is of where they are now."""
    loglik = lambda w, pair: 0.5 * w**2 * pair[0] + w * pair[1]
    model = FunctionModel(lambda w: -0.5 * w**2, loglik)
    grad, y, w = LatentTable(model, Further(), Uniform(2)), jnp.arange(5.0), jnp.array(0.7)
    estate = grad.init(KEY, w, y)
    # the last batch's rows are written with the next
    written = lambda estate: np.array(estate.table.value.at[estate.index].set(estate.rows))
    for i in range(3):
        before = written(estate)
        estimate, estate = grad.estimate(jax.random.fold_in(KEY, i), estate, w, y)
        now = written(estate)
        moved = now != before
        assert moved.sum() == 2 and np.all(now[moved] == before[moved] + 1)
        terms = 0.7 * np.asarray(y) + now
        np.testing.assert_allclose(estimate.value, -0.7 + 2.5 * terms[moved].sum(), rtol=1e-5)
