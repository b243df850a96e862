"""Mirrored Langevin dynamics: what is exact for every step size, and what is of order h."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from sgmc_jax import (
    Full,
    FunctionModel,
    Minibatch,
    PositiveMirror,
    SimplexMirror,
    Uniform,
    mirrored_sgld,
    sample,
)
from sgmc_jax.transitions import mirrored
from tests.laws.moments import check_law, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(25)
ALPHA, COUNTS = np.array([0.5, 1.0, 2.0]), np.array([1, 3, 8])
ITEMS = np.repeat(np.eye(3, dtype=np.float32), COUNTS, axis=0)
POSTERIOR = ALPHA + COUNTS
SHAPE, RATE = 3.0, 2.0


def dirichlet(alpha, batcher):
    prior = lambda x: jnp.sum((alpha - 1) * jnp.log(x))
    return Minibatch(FunctionModel(prior, lambda x, z: z @ jnp.log(x)), batcher)


def moments(kernel, position, data=None, statistic=lambda x: jnp.concatenate([x, x * x])):
    args = {"num_chains": 1024, "num_steps": 4_300, "burn_in": 300}
    reduce = lambda state, info: statistic(state.position)
    return run_law(KEY, kernel, position, data, reduce=reduce, **args).trace.mean


def quadrature(drift, h, moment, low, high, num=800):
    """A stationary moment of y <- y + h drift(y) + N(0, 2 h), by its integral equation."""
    nodes, weights = np.polynomial.legendre.leggauss(num)
    nodes, weights = low + (high - low) * (nodes + 1) / 2, weights * (high - low) / 2
    deviation = np.sqrt(2 * h)
    moves = norm.pdf((nodes[:, None] - nodes - h * drift(nodes)) / deviation) / deviation * weights
    law = np.linalg.solve(np.eye(num) - moves + weights, np.ones(num))
    return np.sum(weights * law * moment(nodes)) / np.sum(weights * law)


def refused():
    return pytest.raises(AssertionError, match="standard errors")


# ------------------------------------------------------------------------------- the simplex


def posterior_means(step_size=0.1, batcher=None):
    """Those of a Dirichlet posterior, from batches."""
    kernel = mirrored_sgld(dirichlet(ALPHA, batcher or Uniform(4)), step_size, SimplexMirror())
    return moments(kernel, np.full(3, 1 / 3, np.float32), ITEMS, lambda x: x)


def test_means_of_a_dirichlet_posterior_are_exact_from_batches():
    check_law(posterior_means(), POSTERIOR / POSTERIOR.sum(), 0.01)


@pytest.mark.full
@pytest.mark.at_length
def test_a_missing_volume_is_seen(monkeypatch):
    """Without it the law is that of Dirichlet(alpha - 1)."""
    monkeypatch.setattr(SimplexMirror, "log_element", lambda self, y: 0.0 * jnp.sum(y))
    with refused():
        test_means_of_a_dirichlet_posterior_are_exact_from_batches()


@pytest.mark.full
def test_second_moments_of_a_dirichlet_posterior_as_the_step_size_vanishes():
    total = POSTERIOR.sum()
    second = POSTERIOR * (POSTERIOR + 1) / (total * (total + 1))
    kernel = mirrored_sgld(dirichlet(ALPHA, Full()), 0.004, SimplexMirror())
    values = moments(kernel, np.full(3, 1 / 3, np.float32), ITEMS, lambda x: x * x)
    check_law(values, second, 0.02)


def beta_second_moment(h, a=2.0, b=3.0):
    """E x^2 of the first of two: y <- y + h (a - (a + b) x) + N(0, 2 h), x = expit(y)."""
    return quadrature(lambda y: a - (a + b) * expit(y), h, lambda y: expit(y) ** 2, -30.0, 20.0)


def beta():
    kernel = mirrored_sgld(dirichlet(np.array([2.0, 3.0]), Full()), 0.3, SimplexMirror())
    data = np.zeros((1, 2), np.float32)
    return moments(kernel, np.full(2, 0.5, np.float32), data, lambda x: x[0] ** 2)


@pytest.mark.full
def test_the_second_moment_of_a_beta_law_at_a_large_step_size():
    check_law(beta(), beta_second_moment(0.3), 0.01)


@pytest.mark.full
@pytest.mark.at_length
def test_noise_too_large_by_a_tenth_is_seen(monkeypatch):
    honest = mirrored.normal_like
    monkeypatch.setattr(mirrored, "normal_like", lambda key, y: 1.1 * honest(key, y))
    with refused():
        test_the_second_moment_of_a_beta_law_at_a_large_step_size()


def test_the_bias_is_of_order_one():
    exact = 2 * 3 / (5 * 6)
    first, second = (beta_second_moment(h) - exact for h in (0.04, 0.02))
    assert 1.8 < first / second < 2.2


# ------------------------------------------------------------------------- positive numbers


@pytest.mark.full
def test_a_gamma_law():
    """E x is exact, and E x^2 is that of the integral equation."""
    model = FunctionModel(lambda x: jnp.sum((SHAPE - 1) * jnp.log(x) - RATE * x))
    kernel = mirrored_sgld(Minibatch(model, Full()), 0.1, PositiveMirror())
    values = moments(kernel, np.ones(1, np.float32))
    drift = lambda y: SHAPE - RATE * np.exp(y)
    second = quadrature(drift, 0.1, lambda y: np.exp(2 * y), -12.0, 5.0)
    check_law(values, np.array([SHAPE / RATE, second]), 0.02)


@pytest.mark.full
def test_a_gamma_law_at_another_temperature():
    """p(x)^(1/T) is Gamma((a - 1) / T + 1, b / T), whose mean is exact too."""
    model = FunctionModel(lambda x: jnp.sum((SHAPE - 1) * jnp.log(x) - RATE * x))
    kernel = mirrored_sgld(Minibatch(model, Full()), 0.1, PositiveMirror(), temperature=0.5)
    values = moments(kernel, np.ones(1, np.float32), statistic=lambda x: x[0])
    check_law(values, (SHAPE - 1 + 0.5) / RATE, 0.01)


def test_a_coordinate_that_rounds_to_zero_goes_on():
    """Of Gamma(.05) .8 % of the law is below 1e-41, of Dirichlet(.05, 1) as much."""
    gammas = Minibatch(FunctionModel(lambda x: jnp.sum(-0.95 * jnp.log(x) - x)), Full())
    shares = Minibatch(FunctionModel(lambda x: -0.95 * jnp.log(x[0])), Full())
    for grad, mirror, start in (
        (gammas, PositiveMirror(), jnp.ones(1)),
        (shares, SimplexMirror(), jnp.full(2, 0.5)),
    ):
        kernel = mirrored_sgld(grad, 0.5, mirror)
        run = sample(KEY, kernel, start, None, num_steps=4_000, num_chains=64)
        assert np.all(run.stopped < 0) and run.trace.min() == np.finfo(np.float32).tiny
