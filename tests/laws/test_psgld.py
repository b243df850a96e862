"""Langevin dynamics with a running preconditioner: once it is fixed, and while it moves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Full, FunctionModel, Minibatch, Uniform, psgld, sample
from tests.laws.moments import check_law, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(23)
CURVATURE, NOISE = np.array([0.5, 40.0]), np.array([2.0, 90.0])
STEP, TEMPERATURE, DECAY, EPSILON = 0.15, 0.8, 0.9, 0.1
EXACT = Minibatch(FunctionModel(lambda x: -0.5 * jnp.asarray(CURVATURE) @ x**2), Full())


def noisy():
    """Precisions CURVATURE and a minibatch gradient of covariance diag(NOISE), exactly."""
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    kappa = 16 * (1 - 1 / 4) / 3
    slopes = signs * np.sqrt(NOISE / (4 * kappa))
    model = FunctionModel(EXACT.model.logprior_function, lambda x, s: s @ x)
    return Minibatch(model, Uniform(1)), slopes


GRAD, SLOPES = noisy()


def test_the_recursion():
    """Without noise, in numpy: earlier gradients alone, then a preconditioner that is fixed."""
    kernel = psgld(EXACT, STEP, decay=DECAY, epsilon=EPSILON, freeze_after=3, temperature=0.0)
    record = lambda state, info: (state.position, state.auxiliary["mean_square"])
    trace = sample(KEY, kernel, np.ones(2, np.float32), None, num_steps=6, record=record).trace
    x, expected = np.ones(2), []
    square = np.full(2, np.mean(CURVATURE**2))
    for k in range(6):
        gradient = -CURVATURE * x
        x = x + STEP / (EPSILON + np.sqrt(square)) * gradient
        square = DECAY * square + (1 - DECAY) * gradient**2 if k < 3 else square
        expected.append((x, square))
    for got, wanted in zip(trace, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(got, np.stack(wanted), rtol=1e-4)


def frozen_variance(temperature=TEMPERATURE, freeze_after=200):
    """x^2 over its closed form given the preconditioner, of each chain: one in the mean."""
    options = {"decay": DECAY, "epsilon": EPSILON, "temperature": temperature}
    kernel = psgld(GRAD, STEP, freeze_after=freeze_after, **options)

    def ratio(state, info):
        h = STEP / (EPSILON + jnp.sqrt(state.auxiliary["mean_square"]))
        variance = (2 * TEMPERATURE + h * NOISE) / (CURVATURE * (2 - h * CURVATURE))
        return state.position**2 / variance

    args = {"num_chains": 1024, "num_steps": 4_200, "burn_in": 400, "reduce": ratio}
    return run_law(KEY, kernel, jnp.zeros(2), SLOPES, **args).trace.mean


def test_a_fixed_preconditioner_has_the_law_of_sgld_at_a_step_size_for_each_coordinate():
    check_law(frozen_variance(), np.ones(2), 0.02)


def refused():
    return pytest.raises(AssertionError, match="standard errors")


@pytest.mark.full
def test_the_law_sees_noise_too_large_by_a_twentieth():
    with refused():
        check_law(frozen_variance(1.05**2 * TEMPERATURE), np.ones(2), 0.02)


@pytest.mark.full
def test_the_law_sees_a_preconditioner_that_moves_on():
    with refused():
        check_law(frozen_variance(freeze_after=None), np.ones(2), 0.02)


def moving_variance(step_size):
    """E x^2 of N(0, 1) while the preconditioner follows the gradient, which has no noise."""
    model = FunctionModel(lambda x: -0.5 * x**2)
    kernel = psgld(Minibatch(model, Full()), step_size, decay=0.5, epsilon=1e-3)
    square = lambda state, info: state.position**2
    args = {"num_chains": 1024, "num_steps": 8_500, "burn_in": 500, "reduce": square}
    return run_law(KEY, kernel, jnp.ones(()), None, **args).trace.mean


def test_a_moving_preconditioner_doubles_the_variance():
    """As h -> 0 the density is p(x) |x|, and E |x|^3 / E |x| = 2."""
    check_law(moving_variance(0.01), 2.0, 0.04)
