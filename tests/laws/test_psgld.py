"""Langevin dynamics with a running preconditioner: once it is fixed, and while it moves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from sgmc_jax import (
    EmpiricalFisher,
    Full,
    FunctionModel,
    Minibatch,
    Uniform,
    Window,
    psgld,
    sample,
)
from sgmc_jax.gradients.curvature import Curvature
from sgmc_jax.gradients.extended import Extended
from sgmc_jax.models import HiddenMarkov, NormalEmission
from sgmc_jax.transitions import NoiseCovariance, Phase, PreconditionedLangevin
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
PAIRS = Minibatch(GRAD.model, Uniform(2))  # a third of the noise, as items differ


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


def test_the_first_mean_is_over_all_leaves():
    """By a square of each leaf's own they would begin with other preconditioners."""
    density = EXACT.model.logprior_function
    tree = FunctionModel(lambda x: density(jnp.append(x["a"], x["b"])))
    start = {"a": np.float32(1), "b": np.ones(1, np.float32)}
    made = lambda model: psgld(Minibatch(model, Full()), STEP, epsilon=EPSILON, temperature=0.0)
    of_tree = sample(KEY, made(tree), start, None, num_steps=4).trace
    plain = sample(KEY, made(EXACT.model), np.ones(2, np.float32), None, num_steps=4).trace
    np.testing.assert_allclose(of_tree["a"], plain[:, 0], rtol=1e-5)
    np.testing.assert_allclose(of_tree["b"], plain[:, 1:], rtol=1e-5)


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


CORRECTED = {  # what is told of the noise: V, or what estimates it
    "given": (GRAD, NOISE),
    "diagonal": (EmpiricalFisher(PAIRS), None),
    "full": (EmpiricalFisher(PAIRS, full=True), None),
}


def corrected_variance(name, told=True):
    """x^2 over its closed form without noise of the gradient, given the preconditioner."""
    grad, covariance = CORRECTED[name]
    options = {"decay": 0.98, "epsilon": EPSILON, "temperature": TEMPERATURE}
    grad, covariance = (grad, covariance) if told else (GRAD, None)
    kernel = psgld(grad, 0.1, freeze_after=600, noise_covariance=covariance, **options)

    def ratio(state, info):
        h = 0.1 / (EPSILON + jnp.sqrt(state.auxiliary["mean_square"]))
        variance = 2 * TEMPERATURE / (CURVATURE * (2 - h * CURVATURE))
        excess = jnp.mean(h * CURVATURE**2 * variance) / (2 * TEMPERATURE)  # without noise
        return jnp.append(state.position**2 / variance, 1 + info.excess_temperature - excess)

    args = {"num_chains": 1024, "num_steps": 11_000, "burn_in": 900, "reduce": ratio}
    start = jnp.full(2, 2.0)  # where no pair's gradient is 0, of which P would be large
    return run_law(KEY, kernel, start, SLOPES, **args).trace.mean


@pytest.mark.parametrize(
    "name", ["given", *(pytest.param(n, marks=pytest.mark.full) for n in ("diagonal", "full"))]
)
def test_the_noise_of_the_gradient_is_subtracted(name):
    """From the variances, and from the excess temperature that is told."""
    check_law(corrected_variance(name), np.ones(3), 0.02)


@pytest.mark.full
@pytest.mark.at_length
def test_the_law_sees_noise_of_the_gradient_that_is_left():
    with refused():
        check_law(corrected_variance("given", told=False)[:, :2], np.ones(2), 0.02)


@pytest.mark.parametrize("form", ["number", "diagonal", "matrix"])
def test_what_is_left_of_the_noise(form):
    """2 h T P - h^2 P V P, of many draws, for a V of every form."""
    p, h, number = np.array([0.5, 0.2]), 0.3, 100_000
    matrix = np.array([[3.0, 1.2], [1.2, 6.0]])
    given = {"number": 3.0, "diagonal": np.diag(matrix), "matrix": matrix}[form]
    v = {"number": 3.0 * np.eye(2), "diagonal": np.diag(np.diag(matrix)), "matrix": matrix}[form]
    piece = PreconditionedLangevin(DECAY, 1.0, TEMPERATURE, noise_covariance=NoiseCovariance(given))
    kept = {"mean_square": jnp.asarray((1 / p - 1) ** 2), "updates": jnp.ones((), jnp.int32)}
    phase = Phase(jnp.zeros(2), auxiliary=kept)
    moved = lambda key: piece(key, phase, jnp.array(h), jnp.zeros(2)).position
    draws = np.asarray(jax.vmap(moved)(jax.random.split(KEY, number)))
    expected = 2 * h * TEMPERATURE * np.diag(p) - h**2 * np.diag(p) @ v @ np.diag(p)
    error = 6 * np.sqrt(2 / number) * np.max(np.diag(expected))
    np.testing.assert_allclose(draws.T @ draws / number, expected, atol=error)


def refused():
    return pytest.raises(AssertionError, match="standard errors")


@pytest.mark.full
@pytest.mark.at_length
def test_the_law_sees_noise_too_large_by_a_twentieth():
    with refused():
        check_law(frozen_variance(1.05**2 * TEMPERATURE), np.ones(2), 0.02)


@pytest.mark.full
@pytest.mark.at_length
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


# ------------------------------------------------------------- Gamma, and the current gradient

WIDTH = 0.5
ONE = Minibatch(FunctionModel(lambda x: -0.5 * x**2), Full())


def exact_variance(h, gamma, num=500, length=6.0):
    """Of N(0, 1) at decay 0, where P = 1 / (epsilon + |x|): the integral equation of a step."""
    x, weights = np.polynomial.legendre.leggauss(num)
    x, weights = length * x, length * weights
    p = 1 / (WIDTH + np.abs(x))
    drifted, deviation = x + h * (-p * x - gamma * np.sign(x) * p**2), np.sqrt(2 * h * p)
    moves = norm.pdf((x[:, None] - drifted) / deviation) / deviation * weights
    law = np.linalg.solve(np.eye(num) - moves + weights, np.ones(num))
    return np.sum(weights * law * x**2) / np.sum(weights * law)


def test_the_variance_without_noise_is_one_with_gamma_alone():
    """Without it the density is p(x) (epsilon + |x|), whose variance is 2 for a small epsilon."""
    limit = lambda gamma: 2 * exact_variance(0.01, gamma) - exact_variance(0.02, gamma)
    mean = np.sqrt(2 / np.pi)
    np.testing.assert_allclose(limit(1), 1, atol=0.005)
    np.testing.assert_allclose(limit(0), (2 * mean + WIDTH) / (mean + WIDTH), atol=0.005)


def gamma_variance(h=0.1, decay=0.0, gamma=True):
    kernel = psgld(ONE, h, decay=decay, epsilon=WIDTH, gamma=gamma)
    square = lambda state, info: state.position**2
    args = {"num_chains": 1024, "num_steps": 4_200, "burn_in": 200, "reduce": square}
    return run_law(KEY, kernel, jnp.ones(()), None, **args).trace.mean


def test_the_variance_with_gamma():
    check_law(gamma_variance(), exact_variance(0.1, 1), 0.03)


def test_once_the_preconditioner_is_fixed_gamma_adds_nothing():
    """Nor is the current gradient in it: a step with gamma is one without."""
    make = partial(psgld, EXACT, STEP, decay=DECAY, epsilon=EPSILON, freeze_after=2)
    state, same = make(gamma=True).init(KEY, jnp.ones(2), None), []
    for _ in range(4):
        after, without = (make(gamma=g).step(KEY, state, None)[0] for g in (True, False))
        same.append(np.allclose(after.position, without.position, rtol=1e-5))
        state = after
    assert same == [False, False, True, True]


@pytest.mark.full
@pytest.mark.parametrize("fault", [0.0, -1.0])
@pytest.mark.at_length
def test_gamma_left_out_or_subtracted_is_seen(fault, monkeypatch):
    from sgmc_jax.transitions import PreconditionedLangevin

    honest = PreconditionedLangevin._gamma
    faulty = lambda *args: fault * honest(*args)
    monkeypatch.setattr(PreconditionedLangevin, "_gamma", faulty)
    values = gamma_variance()
    check_law(values, exact_variance(0.1, fault), 0.03)
    with refused():
        check_law(values, exact_variance(0.1, 1), 0.03)


@pytest.mark.full
@pytest.mark.at_length
def test_gamma_makes_up_for_what_the_current_gradient_adds_and_no_more():
    """At decay a the density is p(x) (epsilon + |x|)^a in the limit of small steps."""
    x = np.linspace(-8, 8, 20_001)
    density = np.exp(-(x**2) / 2) * (WIDTH + np.abs(x)) ** 0.5
    limit = np.sum(x**2 * density) / np.sum(density)
    args = {"decay": 0.5, "gamma": True}
    extrapolated = 2 * np.asarray(gamma_variance(0.02, **args)) - gamma_variance(0.04, **args)
    check_law(extrapolated, limit, 0.08)
    with refused():
        check_law(extrapolated, 1.0, 0.08)


def test_the_mean_over_signs_is_the_diagonal_of_the_derivative():
    """Unbiased, over both products of the signs of two coordinates."""
    matrix = np.array([[2.0, 0.7], [0.7, 1.5]])
    grad = Curvature(Minibatch(FunctionModel(lambda x: -0.5 * x @ jnp.asarray(matrix) @ x), Full()))
    one = lambda key: grad.estimate(key, (), jnp.ones(2), None)[0].curvature
    values = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(KEY, 64)))
    different = np.unique(values.round(4), axis=0)
    np.testing.assert_allclose(different.mean(0), -np.diag(matrix), rtol=1e-4)
    assert len(different) == 2


def test_a_curvature_tells_the_prior_that_the_inner_estimator_tells():
    inner = Minibatch(FunctionModel(lambda x: -0.5 * x @ x, lambda x, y: x @ y), Uniform(2))
    found, wanted = (grad.prior(jnp.ones(2)) for grad in (Curvature(inner), inner))
    np.testing.assert_array_equal(found.value, wanted.value)
    assert found.logdensity == wanted.logdensity == -1
    with pytest.raises(TypeError, match="Extended does not tell its prior"):
        Extended(inner, jnp.sum).prior((jnp.ones(2), jnp.ones(2)))


def test_gamma_of_gradients_with_hidden_states_is_refused():
    """Their laws stand still in the derivative, which was twice the true one for two states."""
    grad = Minibatch(HiddenMarkov(2, NormalEmission()), Window(None))
    with pytest.raises(TypeError, match="the gradient of HiddenMarkov has no derivatives"):
        psgld(grad, 1e-3, gamma=True)
    psgld(grad, 1e-3)


def test_a_letter_without_a_curvature_is_refused():
    from sgmc_jax.splitting import Splitting
    from sgmc_jax.transitions import PreconditionedLangevin

    kernel = Splitting("L", {"L": PreconditionedLangevin(0.5, 1.0, gamma=True)}, ONE, 0.1)
    with pytest.raises(ValueError, match="gamma needs an estimator that tells its curvature"):
        sample(KEY, kernel, jnp.ones(()), None, num_steps=1)


def test_a_gradient_whose_square_overflows_stops_the_chain():
    """It stood still for ever, finite, at a P of 0."""
    model = FunctionModel(lambda x: -0.5 * x @ x)
    kernel = psgld(Minibatch(model, Full()), 0.1)
    with pytest.warns(UserWarning, match="became non-finite"):
        run = sample(jax.random.key(0), kernel, jnp.array([1.0, 1e25]), None, num_steps=20)
    assert run.stopped >= 0
