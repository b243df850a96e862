"""Weights given their columns, where the prior of a series seldom is: their law by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from sgmc_jax.bnp._series_weights import SeriesWeights
from sgmc_jax.processes import (
    Bernoulli,
    BetaProcess,
    GammaProcess,
    NegativeBinomial,
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
