"""Weights given their columns, where the prior of a series seldom is: their law by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, logsumexp
from scipy.stats import beta, gamma, kstest

from sgmc_jax.bnp import _series_weights
from sgmc_jax.bnp._columns import Weighed, in_order
from sgmc_jax.bnp._series_weights import SeriesWeights
from sgmc_jax.processes import (
    Bernoulli,
    BetaProcess,
    GammaProcess,
    NegativeBinomial,
    OddsBernoulli,
    Poisson,
    Representation,
    StableBetaProcess,
    bondesson,
    inverse_levy,
    rejection,
    thinning,
)
from sgmc_jax.special import log1mexp
from tests.laws.moments import check_mean

KEY = jax.random.key(3)
NEAR = BetaProcess(1.0, 0.1)  # a fifth of the weights of Beta(1, .1) round to 1


def weight_near_one(key):
    return -jnp.expm1(jnp.log(jax.random.uniform(key, minval=1e-30)) / 0.1)


OWN = Representation.from_functions(
    lambda v, g: jnp.where(g * v <= 1, v, 0.0), weight_near_one, lambda v: -0.9 * jnp.log1p(-v)
)
S = np.linspace(-40, 400, 400_001)  # log theta, or log odds
CASES = {
    "thinning, gamma": (thinning(GammaProcess(1.0, 1.0)), Poisson(), 200, 10),
    "thinning, beta": (thinning(BetaProcess(1.0, 50.0)), Bernoulli(), 500, 1_000),
    "rejection, gamma": (rejection(GammaProcess(1.0, 1.0)), Poisson(), 2_000, 10),
    "rejection, beta": (rejection(BetaProcess(1.0, 200.0)), Bernoulli(), 600, 1_000),
    "inverse, gamma": (inverse_levy(GammaProcess(1.0, 1.0)), Poisson(), 700, 10),
    "bondesson, beta": (bondesson(BetaProcess(0.5, 2.0)), NegativeBinomial(2.0), 7, 3),
    "thinning, near 1": (thinning(NEAR), Bernoulli(), 3, 3),
    "own, near 1": (OWN, Bernoulli(), 3, 3),
    "inverse, near 1": (inverse_levy(BetaProcess(1.0, 0.05)), Bernoulli(), 2, 2),
    "inverse, beta": (inverse_levy(BetaProcess(1.0, 50.0)), Bernoulli(), 9_000, 10_000),
    "inverse, gamma, far": (inverse_levy(GammaProcess(1.0, 10.0)), Poisson(), 200, 10),
    "stable beta": (thinning(StableBetaProcess(1.0, 3.0, 0.4)), Bernoulli(), 299, 300),
}


def by_quadrature(measure, counts, total, num):
    """E theta and E theta^2 under nu(theta) theta^total h(0 | theta)^..., in float64."""
    c, d = float(measure.concentration), float(getattr(measure, "discount", 0.0))
    if measure.bounded:
        log, rest = -np.logaddexp(0, -S), -np.logaddexp(0, S)
        weight = -d * log + (c + d) * rest + total * log  # nu(s) of beta and stable beta processes
        size = float(counts.size) * num if isinstance(counts, NegativeBinomial) else num - total
        weight = weight + size * rest
    else:
        log = np.minimum(S, 60)  # beyond it there is nothing
        weight = -(c + num) * np.exp(log) + total * log
    weight = np.exp(weight - logsumexp(weight))
    return np.array([np.sum(weight * np.exp(log)), np.sum(weight * np.exp(2 * log))])


def check(name):
    series, counts, total, num = CASES[name]
    own, size = SeriesWeights(series, counts), jnp.full(4, total)
    measure = getattr(series, "measure", NEAR)
    half = jnp.full(4, 0.5)
    start = {"mass": measure.mass, "series": {"v": half, "g": half, "log_theta": jnp.log(half)}}

    def step(shared, key):
        shared, used = own.draw(key, shared, size, size, num)
        theta = jnp.exp(used.log_weight)
        return shared | own.kept(used), jnp.stack([theta, theta**2])

    def chain(key):
        return jax.lax.scan(step, start, jax.random.split(key, 240))[1][120:].mean((0, 2))

    means = jax.jit(jax.vmap(chain))(jax.random.split(KEY, 256))
    expected = by_quadrature(measure, counts, total, num)
    check_mean(means / expected, np.ones(2), 0.05)


@pytest.mark.parametrize("name", CASES)
def test_weights_given_their_columns(name):
    check(name)


@pytest.mark.parametrize(
    "counts", [Bernoulli(), OddsBernoulli(), Poisson(), NegativeBinomial(2.0)], ids=type
)
def test_columns_of_weights_that_underflow(counts):
    """NaN, from which no proposal is accepted."""
    log = np.array([-300.0, -95.0, -88.0, -60.0])
    columns = counts.log_column(jnp.full(4, 100), 200, jnp.float32(log))
    np.testing.assert_allclose(np.diff(columns), 100 * np.diff(log), rtol=1e-5)


def test_a_weight_that_begins_far_too_small_is_found():
    own = SeriesWeights(bondesson(BetaProcess(0.1)), Bernoulli())
    move = jax.jit(lambda key, s: own._moved_weights(key, own.series, jnp.full(1, 100), 200, s))
    log_theta = jnp.full(1, -100.0)
    for key in jax.random.split(KEY, 600):
        log_theta = move(key, log_theta)
    assert abs(float(log_theta[0]) - np.log(0.5)) < 0.7


def test_weights_that_round_to_one_are_drawn_by_how_fast_their_density_falls(monkeypatch):
    """Beyond log odds of 16, of items that all have the atom: exponential, of rate c."""
    monkeypatch.setattr(_series_weights, "MOVES", 0)
    own = SeriesWeights(inverse_levy(BetaProcess(1.0, 0.2)), Bernoulli())
    ones, have = jnp.zeros(4_000), jnp.full(4_000, 2)
    log_theta = own._moved_weights(KEY, own.series, have, 2, ones)
    beyond = -np.log(-np.asarray(log_theta, float)) - 16
    assert kstest(beyond, "expon", args=(0, 5)).pvalue > 1e-6


HAVE, ALL, MEASURES = 2, 5, [(0.5, 3.0), (0.8, 9.0)]  # items with an atom; masses, concentrations
OWN_OF = [SeriesWeights(bondesson(BetaProcess(*each)), Bernoulli()) for each in MEASURES]
BETAS = [beta(HAVE, ALL - HAVE + c) for _, c in MEASURES]  # a weight given its column


def log_density(own, v, g):
    """Of a point under its column, V ~ Beta(1, c - 1)."""
    log_theta, c = own.series.log_tau(v, g), own.series.measure.concentration
    log_column = HAVE * log_theta + (ALL - HAVE) * log1mexp(log_theta)
    return jnp.log(c - 1) + (c - 2) * jnp.log1p(-v) + log_column


def moved(key, own, law):
    """A measure that is drawn given the point of a weight of another, by what its weight is."""
    theta_key, lift_key, pick_key = jax.random.split(key, 3)
    log_theta = jnp.log(jax.random.beta(theta_key, *law.args, (1,)))
    v, g = own.series.lift(lift_key, log_theta)
    shared = {"series": {"v": v, "g": g, "log_theta": log_theta}}
    logs = jnp.stack([log_density(each, v, g) for each in OWN_OF])
    weights = jnp.stack([each.retargeted(shared)["series"]["log_theta"] for each in OWN_OF])
    chosen = jnp.arange(2)[:, None] == jax.random.categorical(pick_key, logs, axis=0)
    return chosen * jnp.exp(weights * jnp.arange(3))


def check_retargeted():
    """A weight and its measure keep their joint law, as far as two moments tell."""
    front = [np.log(a * c) + betaln(*law.args) for (a, c), law in zip(MEASURES, BETAS)]
    chances = np.exp(front - logsumexp(front))
    each = lambda key: sum(p * moved(key, *of) for p, *of in zip(chances, OWN_OF, BETAS))
    values = jax.jit(jax.vmap(each))(jax.random.split(KEY, 20_000))
    moments = np.array([[law.moment(i) for i in range(3)] for law in BETAS])
    check_mean(values, chances[:, None] * moments, 0.05)


def test_weights_that_another_has_set_keep_their_law():
    check_retargeted()


@pytest.mark.full
def test_weights_that_stay_as_the_measure_changes_are_seen(monkeypatch):
    monkeypatch.setattr(SeriesWeights, "retargeted", lambda self, shared: shared)
    with pytest.raises(AssertionError, match="standard errors"):
        check_retargeted()


def test_points_that_walk_keep_their_law():
    """theta = e^(-g) under Poisson counts: of density theta^(m - 1) e^(-n theta) below 1."""
    have, num, size = 3, 5, 20_000
    tau, constant = lambda v, g: jnp.exp(-g), lambda v: 0.0 * v
    series = Representation.from_functions(tau, jax.random.uniform, constant)
    own, law = SeriesWeights(series, Poisson()), gamma(have, scale=1 / num)
    theta = law.ppf(law.cdf(1) * (np.arange(size) + 0.5) / size)
    g = jnp.asarray(-np.log(theta), jnp.float32)
    walk = lambda key: own._moved_points(key, series, jnp.full(size, have), num, jnp.ones(size), g)
    moved = np.asarray(jax.jit(walk)(KEY)[1], float)
    found = law.cdf(np.exp(-moved)) / law.cdf(1)
    assert kstest(found, "uniform").pvalue > 1e-6 and np.mean(moved != g) > 0.5


def test_a_place_that_tells_nothing_keeps_its_weight():
    """A g below the smallest number stands for many weights, and so does a V past the largest."""
    number = jnp.finfo(jnp.float32)
    series = {
        "v": jnp.array([2.0, 2.0, number.max]),
        "g": jnp.array([3.0, number.tiny, 3.0]),
        "log_theta": jnp.array([-1.0, -2.0, 5.0]),
    }
    own = SeriesWeights(bondesson(GammaProcess(1.5, 2.0)), Poisson())
    found = own.retargeted({"mass": jnp.array(1.5), "series": series})["series"]["log_theta"]
    np.testing.assert_allclose(found, [np.log(2) - 1, -2.0, 5.0], rtol=1e-6)


def test_a_product_of_zero_and_infinity_is_seen(monkeypatch):
    """It is NaN, which refuses all moves from a weight that is rounded to 1, and to it."""

    def plain(self, stats, num_items, log_theta):
        return stats * log_theta + (num_items - stats) * log1mexp(log_theta)

    monkeypatch.setattr(Bernoulli, "log_column", plain)
    with pytest.raises(AssertionError, match="standard errors"):
        check("own, near 1")


@pytest.mark.parametrize("name", ["inverse, beta", "inverse, gamma, far"])
def test_weights_that_are_read_off_their_places_are_seen(name, monkeypatch):
    """A g below the smallest number stands for many weights."""
    honest = SeriesWeights.kept

    def read(self, atoms):
        series = honest(self, atoms)["series"]
        log_theta = self.series.log_tau(series["v"], series["g"])
        return {"series": series | {"log_theta": log_theta}}

    monkeypatch.setattr(SeriesWeights, "kept", read)
    with pytest.raises(AssertionError, match="standard errors"):
        check(name)


def test_the_first_atom_without_a_slot_ends_what_is_known():
    """Three slots: one in use at 5, empty atoms at 1 and 2, and one more at 3."""
    known, place = jnp.array([True, False, False]), jnp.array([5.0, 1.0, 1.0])
    empty = jnp.array([1.0, 2.0, 3.0, 4.0, 6.0, 7.0])
    all_known = jnp.ones(6, bool)
    atoms = in_order(Weighed(place, place, place, known), Weighed(empty, empty, empty, all_known))
    assert atoms.number == 2 and atoms.lost and atoms.order.tolist()[:2] == [1, 2]
    near = jnp.array([2.5, 1.0, 1.0])
    atoms = in_order(Weighed(near, near, near, known), Weighed(empty, empty, empty, all_known))
    assert atoms.number == 3 and not atoms.lost and atoms.order.tolist() == [1, 2, 0]
