"""Weights given their columns, where the prior of a series seldom is: their law by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from sgmc_jax.bnp._weights import SeriesWeights
from sgmc_jax.processes import (
    Bernoulli,
    BetaProcess,
    GammaProcess,
    NegativeBinomial,
    Poisson,
    StableBetaProcess,
    bondesson,
    inverse_levy,
    rejection,
    thinning,
)
from tests.laws.moments import check_mean

KEY = jax.random.key(3)
S = np.linspace(-40, 400, 400_001)  # log theta, or log odds
CASES = {
    "thinning, gamma": (thinning(GammaProcess(1.0, 1.0)), Poisson(), 200, 10),
    "thinning, beta": (thinning(BetaProcess(1.0, 50.0)), Bernoulli(), 500, 1_000),
    "rejection, gamma": (rejection(GammaProcess(1.0, 1.0)), Poisson(), 2_000, 10),
    "rejection, beta": (rejection(BetaProcess(1.0, 200.0)), Bernoulli(), 600, 1_000),
    "inverse, gamma": (inverse_levy(GammaProcess(1.0, 1.0)), Poisson(), 700, 10),
    "bondesson, beta": (bondesson(BetaProcess(0.5, 2.0)), NegativeBinomial(2.0), 7, 3),
    "thinning, near 1": (thinning(BetaProcess(1.0, 0.1)), Bernoulli(), 3, 3),
    "inverse, near 1": (inverse_levy(BetaProcess(1.0, 0.05)), Bernoulli(), 2, 2),
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


@pytest.mark.parametrize("name", CASES)
def test_weights_given_their_columns(name):
    series, counts, total, num = CASES[name]
    own, size = SeriesWeights(series, counts), jnp.full(4, total)
    start = {"mass": series.measure.mass, "series": dict.fromkeys("vg", jnp.full(4, 0.5))}

    def step(shared, key):
        shared, used = own.draw(key, shared, size, size, num)
        theta = jnp.exp(used.log_weight)
        return shared | {"series": {"v": used.v, "g": used.place}}, jnp.stack([theta, theta**2])

    def chain(key):
        return jax.lax.scan(step, start, jax.random.split(key, 240))[1][120:].mean((0, 2))

    means = jax.jit(jax.vmap(chain))(jax.random.split(KEY, 256))
    expected = by_quadrature(series.measure, counts, total, num)
    check_mean(means / expected, np.ones(2), 0.05)
