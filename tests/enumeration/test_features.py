"""Feature samplers against the exact law of three items' columns, by enumeration."""

import importlib
import itertools
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import chisquare

import sgmc_jax.bnp.hybrid.rows as tail
import sgmc_jax.bnp.hybrid.schedules as schedules
from sgmc_jax.bnp import (
    Anchored,
    BetaBernoulli,
    Demotion,
    FeatureLikelihood,
    GammaPoisson,
    LinearGaussian,
    Published,
    hybrid_features,
)
from sgmc_jax.bnp.hybrid.anchors import draw_anchors
from sgmc_jax.collective import Dist
from sgmc_jax.families import FeatureRows
from sgmc_jax.families.linear_tail import LinearTail
from tests.enumeration import features as exact
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(5)
NOISE, SCALE = 0.6, 1.1
COUNTS = np.array([[0.4, 0.7], [1.0, 1.3], [0.1, -0.3]])


def explicit():
    """The linear-Gaussian likelihood, as a user of the library would write it."""
    return FeatureLikelihood(
        lambda theta, z, x: -0.5 * jnp.sum((x - z @ theta) ** 2) / NOISE**2,
        lambda theta: -0.5 * jnp.sum(theta**2) / SCALE**2,
        lambda key: SCALE * jax.random.normal(key, (2,)),
        step_size=0.5,
        num_steps=3,
    )


LINEAR = LinearGaussian(2, NOISE, SCALE)
MODELS = {
    "linear": (BetaBernoulli(0.8, 0.7), LINEAR),
    "explicit": (BetaBernoulli(0.8, 0.7), explicit()),
    "counts": (GammaPoisson(0.4, 8.0), LinearGaussian(2, 0.8, SCALE)),
}


def law(model):
    """The exact statistics, and the function that takes them of a chain."""
    if model == "counts":
        states, few = exact.whole(), 9
        log_prior = states.log_prior(exact.gamma_columns(8.0)[0], 0.4, 0.0)
        return states.law(log_prior + states.log_likelihood(0.8, SCALE, COUNTS), few), states, few
    states, few = exact.binary(), 7
    log_prior = states.log_prior(exact.beta_columns(0.7)[0], 0.8, 0.0)
    return states.law(log_prior + states.log_likelihood(NOISE, SCALE), few), states, few


def check(model, tolerance=0.06, data=None, **kwargs):
    """The chain of a kernel has the exact law; one of `sample`'s arguments may be given.

    What is rarer than one in a thousand is not looked at: too few visits to have a standard error.
    """
    args = {"num_chains": 512, "num_steps": 900, "burn_in": 100}
    args |= {name: kwargs.pop(name) for name in args.keys() & kwargs.keys()}
    kernel = hybrid_features(*MODELS[model], **({"capacity": 10} | kwargs))
    expected, states, few = law(model)
    data = COUNTS if model == "counts" else exact.X
    data = data.astype(np.float32)
    run = run_law(KEY, kernel, None, data, reduce=exact.statistics(states, few), **args)
    common = expected > 1e-3
    check_law(run.trace.mean[:, common], expected[common], tolerance)


def rows(quick, all_rows):
    return [row if row in quick else pytest.param(*row, marks=pytest.mark.full) for row in all_rows]


@pytest.mark.parametrize(
    "model,blocks,sweeps",
    rows(
        {("linear", 2, 1)},
        [*itertools.product(["linear"], (1, 2, 3), (1, 3))]
        + [*itertools.product(["explicit", "counts"], (1, 2, 3), (1,)), ("counts", 3, 3)]
        + [*itertools.product(MODELS, (7,), (1,))],  # whole blocks of padding
    ),
)
def test_all_columns_by_the_anchored_schedule(model, blocks, sweeps):
    num_steps = 1_200 if model == "explicit" else 900
    num_steps = 2 * num_steps if blocks == 7 else num_steps  # seven mix more slowly
    check(model, blocks=blocks, local_sweeps=sweeps, num_steps=num_steps)


@pytest.mark.parametrize(
    "model", [m if m == "linear" else pytest.param(m, marks=pytest.mark.full) for m in MODELS]
)
def test_all_columns_by_demotion(model):
    check(model, schedule=Demotion())


@pytest.mark.full
@pytest.mark.parametrize("schedule,blocks", [(Anchored(), 1), (Anchored(), 2), (Demotion(), 1)])
def test_random_hyper_parameters(schedule, blocks):
    """Gamma priors on mass and concentration, inverse-gamma ones on both variances, by quadrature.

    The law of the columns is the product of two integrals over two numbers each.
    """
    mass, concentration, noise, scale = (4.0, 8.0), (3.0, 3.0), (5.0, 2.0), (5.0, 4.0)
    states = exact.binary()
    num = states.counts.sum(1)
    prior = []
    for log_c in np.linspace(-6, 3.5, 300):
        columns, exposure = exact.beta_columns(np.exp(log_c))
        shape, rate = mass[0] + num, mass[1] + exposure
        log = states.log_prior(columns, 1.0, 0.0) + gammaln(shape) - shape * np.log(rate)
        log = log + concentration[0] * log_c - concentration[1] * np.exp(log_c)
        prior.append((log, shape / rate, log_c))
    likelihood = []
    for log_s, log_a in itertools.product(np.linspace(-2, 2, 61), repeat=2):
        log = states.log_likelihood(np.exp(log_s), np.exp(log_a))
        for (a, b), x in ((noise, 2 * log_s), (scale, 2 * log_a)):
            log = log - a * x - b * np.exp(-x)
        likelihood.append((log, log_s, log_a))

    def integrate(terms):
        log = np.array([term[0] for term in terms])
        total = logsumexp(log, axis=0)
        weight = np.exp(log - total)
        means = [sum(w * t[i] for w, t in zip(weight, terms)) for i in (1, 2)]
        return total, means

    (log_prior, of_process), (log_likelihood, of_family) = integrate(prior), integrate(likelihood)
    log = log_prior + log_likelihood
    weight = np.exp(log - logsumexp(log))
    hyper = [weight @ mean for mean in (*of_process, *of_family)]
    columns = exact.statistics(states, 7)

    def reduce(state, info):
        h = state.position.shared
        logs = [jnp.log(h[name]) for name in ("concentration", "noise_scale", "feature_scale")]
        return jnp.concatenate([columns(state, info), jnp.stack([h["mass"], *logs])])

    kernel = hybrid_features(
        BetaBernoulli(0.5, 1.0, prior=mass, concentration_prior=concentration),
        LinearGaussian(2, 0.7, 1.0, noise_prior=noise, feature_prior=scale),
        schedule=schedule,
        blocks=blocks,
        capacity=12,
    )
    args = {"num_chains": 1024, "num_steps": 700, "burn_in": 100}
    run = run_law(KEY, kernel, None, exact.X.astype(np.float32), reduce=reduce, **args)
    check_law(run.trace.mean, np.concatenate([states.law(log, 7), hyper]), 0.04)


def check_reconstruction(**kwargs):
    """What a chain reports as parameters has the posterior law, as far as three moments tell."""
    states = exact.binary()
    log = states.log_prior(exact.beta_columns(0.7)[0], 0.8, 0.0)
    log = log + states.log_likelihood(NOISE, SCALE)
    expected = np.exp(log - logsumexp(log)) @ exact.reconstructions(states, NOISE, SCALE)
    num_steps = kwargs.pop("num_steps", 300)
    kernel = hybrid_features(*MODELS["linear"], capacity=10, **kwargs)
    args = {"num_chains": 512, "num_steps": num_steps, "burn_in": 50}
    data = exact.X.astype(np.float32)
    run = run_law(KEY, kernel, None, data, reduce=exact.reconstruction, **args)
    check_law(run.trace.mean, expected, 0.06)


@pytest.mark.full
@pytest.mark.parametrize(
    "blocks,schedule",
    rows({(1, Anchored())}, [*((b, Anchored()) for b in (1, 2, 3, 7)), (1, Demotion())]),
)
def test_reported_parameters_have_their_posterior_law(blocks, schedule):
    num_steps = 300 if blocks == 1 else 900  # off the tail the chain mixes more slowly
    check_reconstruction(blocks=blocks, schedule=schedule, num_steps=num_steps)


def test_a_start_may_have_fewer_parameters_than_slots():
    start = Dist({"parameters": np.ones((2, 2), np.float32)}, {"features": np.ones((3, 2))})
    state = hybrid_features(*MODELS["linear"], capacity=5).init(KEY, start, exact.X)
    expected = np.pad(np.ones((2, 2)), ((0, 3), (0, 0)))
    np.testing.assert_array_equal(state.position.shared["parameters"], expected)


# ------------------------------------------------------------------------- without any data


def active(state, info):
    return info.active.astype(jnp.float32)


def number(num_items, process, **kwargs):
    """The mean number of features of items that say nothing, by chain."""
    flat = LinearGaussian(1, 1e4, 1.0)
    kernel = hybrid_features(process, flat, **kwargs)
    args = {"num_chains": 512, "num_steps": 500, "burn_in": 100}
    return run_law(KEY, kernel, None, np.zeros((num_items, 1)), reduce=active, **args).trace.mean


@pytest.mark.full
def test_the_number_of_features_without_data():
    """n = 12: E K = a sum c / (c + i - 1) for a schedule that is exact."""
    a, c = 1.0, 1.5
    expected = sum(a * c / (c + i) for i in range(12))
    process = BetaBernoulli(a, c)
    check_law(number(12, process, blocks=4), expected, 0.05)
    assert np.mean(number(12, process, blocks=4, schedule=Published())) < 0.75 * expected


@pytest.mark.full
@pytest.mark.one_device
@pytest.mark.parametrize("schedule,blocks", [(Anchored(), 1), (Anchored(), 3), (Demotion(), 1)])
def test_the_number_of_columns_of_counts_without_data(schedule, blocks):
    """n = 5: E K = a c log(1 + n / c)."""
    process = GammaPoisson(0.6, 2.0)
    means = number(5, process, schedule=schedule, blocks=blocks, capacity=32)
    check_law(means, 0.6 * 2.0 * np.log(3.5), 0.05)


@pytest.mark.full
def test_the_number_of_features_of_one_item_by_the_published_schedule():
    """n = 1: E K = a (1 + c) / c instead of a."""
    means = number(1, BetaBernoulli(0.7, 2.0), schedule=Published())
    check_law(means, 0.7 * 3 / 2, 0.05)


# ----------------------------------------------------------------------- the order of the columns


class Listening(NamedTuple):
    """A likelihood that says nothing, and keeps the columns in the order in which it is asked."""

    asked: Any
    num: Any = 0

    def gain(self, k, entry, lower):
        return 0.0

    def change(self, k, change):
        return Listening(self.asked.at[self.num].set(k), self.num + 1)


@jax.jit
@jax.vmap
def visits(key):
    """The columns of each of two visits to each of two rows; slots 1 and 4 are free."""
    process, num = BetaBernoulli(1.0), 6
    hyper, none = process.start(), jnp.zeros(5, jnp.int32)
    atoms = tail.Atoms(jnp.arange(5) == 2, jnp.zeros(5))
    left = tail.Sweep(jnp.array([3, 0, 1, 2, 0]), atoms, None, None, None, None)
    turns = tail._turns(key, process, hyper, 2, (5, 2), num)
    of = lambda turn: tail._entries(process, hyper, left, Listening(none[:3]), turn, none, num)
    return jax.vmap(jax.vmap(of))(turns)[1].asked


def test_columns_are_visited_in_any_order_and_in_another_at_each_visit():
    """Pairs of the six orders, of visits to two rows and of two visits to a row, are uniform."""
    asked = np.asarray(visits(jax.random.split(KEY, 4_000)))
    assert np.all(np.sort(asked, axis=-1) == [0, 2, 3])
    order = 2 * np.searchsorted([0, 2, 3], asked[..., 0]) + (asked[..., 1] > asked[..., 2])
    for one, other in itertools.combinations(order.reshape(-1, 4).T, 2):
        assert chisquare(np.bincount(6 * one + other, minlength=36)).pvalue > 1e-6 / 6


# ------------------------------------------------------------------------------ planted faults


def check_fails(model="linear", **kwargs):
    fault_is_seen(check, model, tolerance=1.0, **kwargs)


@pytest.mark.full
@pytest.mark.parametrize(
    "model,blocks,sweeps",
    [("linear", 2, 1), ("linear", 1, 1), ("linear", 3, 3), ("counts", 2, 1)],
)
@pytest.mark.at_length
def test_the_published_schedule_is_not_exact(model, blocks, sweeps):
    check_fails(model, schedule=Published(), blocks=blocks, local_sweeps=sweeps)


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.parametrize("kept", ["means", "variance"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_what_a_row_leaves_behind(kept, blocks, monkeypatch):
    """What is expected of the tail, or its variance, as if no row had left or joined."""
    honest = LinearTail.moved

    def stale(self, *args):
        return honest(self, *args)._replace(**{kept: getattr(self, kept)})

    monkeypatch.setattr(LinearTail, "moved", stale)
    check_fails("linear", blocks=blocks)


@pytest.mark.full
@pytest.mark.at_length
def test_a_report_of_what_the_sums_subtract(monkeypatch):
    """Zero where features are integrated out, as all are in one block."""
    monkeypatch.setattr(LinearGaussian, "report", lambda self, key, hyper, params, *_: params)
    with pytest.raises(AssertionError, match="never varies"):
        check_reconstruction(num_steps=100)


@pytest.mark.full
@pytest.mark.at_length
def test_a_report_without_noise(monkeypatch):
    zeros = lambda key, shape, dtype: jnp.zeros(shape, dtype)
    module = importlib.import_module("sgmc_jax.families.linear_gaussian")
    honest = LinearGaussian.report

    def mean(self, *args):
        with monkeypatch.context() as patch:
            patch.setattr(module, "slot_normal", zeros)
            return honest(self, *args)

    monkeypatch.setattr(LinearGaussian, "report", mean)
    fault_is_seen(check_reconstruction)


@pytest.mark.full
@pytest.mark.at_length
def test_instantiated_singletons_that_are_proposed_anew(monkeypatch):
    """Instantiated columns that the row has to itself go with the others, as line 8 may be read.

    n = 2, a = c = 1, no data: E K = 29/18 instead of 3/2.
    """
    entries, singletons, row = tail._entries, tail._singletons, []

    def remembered(process, hyper, left, *args):
        row.append(left.atoms.instantiated & (left.counts == 0))
        return entries(process, hyper, left, *args)

    def all_singletons(family, params, likelihood, own, turn, now):
        return singletons(family, params, likelihood, own, turn, jnp.where(row.pop(), 0, now))

    monkeypatch.setattr(tail, "_entries", remembered)
    monkeypatch.setattr(tail, "_singletons", all_singletons)
    means = number(2, BetaBernoulli(1.0, 1.0), schedule=Published())
    check_law(means, 29 / 18, 0.05)
    fault_is_seen(check_law, means, 3 / 2, 1.0)


@pytest.mark.full
@pytest.mark.at_length
def test_anchors_that_move(monkeypatch):
    def movable(key, occupancy, *, anchored):
        right = draw_anchors(key, occupancy, anchored=anchored)
        return right._replace(atom_rank=jnp.where(right.instantiated, -1, len(occupancy)))

    monkeypatch.setattr(schedules, "draw_anchors", movable)
    check_fails(blocks=2)


@pytest.mark.full
@pytest.mark.at_length
def test_columns_in_the_order_of_their_slots(monkeypatch):
    honest = tail._turns

    def by_slot(*args):
        turns = honest(*args)
        slots = jnp.arange(turns.mark.shape[-1], dtype=turns.mark.dtype)
        return turns._replace(mark=jnp.broadcast_to(slots, turns.mark.shape))

    monkeypatch.setattr(tail, "_turns", by_slot)
    check_fails(num_chains=2048, num_steps=3_000)


@pytest.mark.full
@pytest.mark.at_length
def test_counts_that_include_the_row_itself(monkeypatch):
    honest = tail._entries

    def inclusive(process, hyper, left, likelihood, turn, entries, num_items):
        counts = left.counts + jnp.where(left.counts > 0, entries, 0)
        # of all rows the odds would be no number, and the chain stop
        more = left._replace(counts=jnp.minimum(counts, num_items - 1))
        return honest(process, hyper, more, likelihood, turn, entries, num_items)

    monkeypatch.setattr(tail, "_entries", inclusive)
    check_fails()


@pytest.mark.full
@pytest.mark.at_length
def test_births_of_the_buffet_process_at_another_concentration(monkeypatch):
    monkeypatch.setattr(BetaBernoulli, "birth_rate", lambda self, hyper, n: hyper["mass"] / n)
    check_fails()


@pytest.mark.full
@pytest.mark.at_length
def test_odds_that_count_the_row_itself_and_forget_the_concentration(monkeypatch):
    odds = lambda self, hyper, others, n, lower: jnp.log(others / (n - others))
    monkeypatch.setattr(BetaBernoulli, "log_tail_step", odds)
    check_fails()


@pytest.mark.full
@pytest.mark.at_length
def test_features_that_are_lost_as_they_are_demoted(monkeypatch):
    def forgetful(self, stats, params, instantiated):
        return stats, self.marginalise(params, instantiated)

    monkeypatch.setattr(LinearGaussian, "demote", forgetful)
    check_fails(schedule=Demotion())


# ------------------------------------------------------------------------- parts of a sweep


def test_a_feature_is_demoted_with_its_last_row_however_often_that_has_it():
    """Its parameters are integrated out from then on."""
    family, process = LinearGaussian(1, 1e-3, 1.0), GammaPoisson(1e-6)
    atoms, entries = tail.Atoms(jnp.ones(2, bool), jnp.zeros(2)), jnp.array([[2, 0], [1, 3]])
    rows = FeatureRows(entries.T @ jnp.ones((2, 1)), entries, jnp.ones(2, bool))
    hyper, counts = process.start() | family.start(), entries.sum(1)
    args = process, family, hyper, atoms, jnp.ones((2, 1)), counts, rows, 2
    swept = lambda: tail.sweep_block(KEY, *args, num_sweeps=1, demote=True)
    assert np.all(jax.jit(swept)()[1] == 0)


def test_a_birth_that_finds_no_slot_is_told_of_though_it_is_refused():
    turn = tail.Turn(None, None, jnp.array(3), jnp.ones(3, int), jnp.array(0.5), KEY)
    refusing = SimpleNamespace(ratio=lambda proposal, params: jnp.array(-jnp.inf))
    now = jnp.array([1, 0, 0])
    for free, expected in [([False, True, False], True), ([True, True, True], False)]:
        args = LINEAR, jnp.zeros((3, 2)), refusing, jnp.array(free), turn, now
        entries, _, lost = tail._singletons(*args)
        assert np.array_equal(entries, now) and bool(lost) == expected
