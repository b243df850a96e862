"""Samplers with a metric: Gaussian closed forms where it is constant, and Gamma where it is not."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import norm

from sgmc_jax import (
    EmpiricalFisher,
    Full,
    FunctionModel,
    Minibatch,
    Uniform,
    sample,
    sghmc,
    sgrhmc,
    sgrld,
)
from tests.laws.moments import check_law, run_law
from tests.laws.test_matrix_friction import with_normals

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(42)
refused = partial(pytest.raises, AssertionError, match="standard errors")

# ------------------------------------------------------------- a constant metric, minibatches

H, T, C = 0.1, 0.8, 1.3
PRECISION = np.array([[3.0, 1.0], [1.0, 0.8]])
INVERSE = np.array([[0.5, -0.3], [-0.3, 1.0]])
ROOT = np.linalg.cholesky(INVERSE)
DIAGONAL = np.array([0.4, 1.2])
V = np.array([[2.0, 0.6], [0.6, 1.0]])
EXACT = Minibatch(FunctionModel(lambda x: -0.5 * x @ jnp.asarray(PRECISION, x.dtype) @ x), Full())


def noisy():
    """Precision PRECISION and a minibatch gradient of covariance V, exactly."""
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    kappa = 16 * (1 - 1 / 4) / 3
    slopes = signs @ np.linalg.cholesky(V).T / np.sqrt(4 * kappa)
    model = FunctionModel(EXACT.model.logprior_function, lambda x, s: s @ x)
    return Minibatch(model, Uniform(1)), slopes.astype(np.float32)


GRAD, SLOPES = noisy()
METRICS = {
    "matrix": (INVERSE, False, ROOT),
    "factor": (ROOT, True, ROOT),
    "diagonal": (DIAGONAL, False, np.diag(np.sqrt(DIAGONAL))),
    "function": (lambda x: jnp.asarray(INVERSE, x.dtype), False, ROOT),
    "diagonal factor": (lambda x: jnp.sqrt(DIAGONAL) + 0 * x, True, np.diag(np.sqrt(DIAGONAL))),
}


def overdamped(root, v):
    inverse = root @ root.T
    move = np.eye(2) - H * inverse @ PRECISION
    return solve_discrete_lyapunov(move, 2 * H * T * inverse + H**2 * inverse @ v @ inverse)


def underdamped(root, v):
    """x part of (v <- (1 - h C R R') v - h R' L x + noise, then x <- x + h R v)."""
    eye, zero = np.eye(2), np.zeros((2, 2))
    kick = np.block([[eye, zero], [-H * root.T @ PRECISION, eye - H * C * root @ root.T]])
    flow = np.block([[eye, H * root], [zero, eye]])
    noise = 2 * H * C * T * root @ root.T + H**2 * root.T @ v @ root
    own = flow @ np.block([[zero, zero], [zero, noise]]) @ flow.T
    return solve_discrete_lyapunov(flow @ kick, own)[:2, :2]


KINDS = {"sgrld": (sgrld, overdamped), "sgrhmc": (partial(sgrhmc, friction=C), underdamped)}
FAST = ("sgrld", "factor", False)
ROWS = [
    pytest.param(kind, metric, sub, marks=[] if (kind, metric, sub) == FAST else pytest.mark.full)
    for kind in KINDS
    for metric, sub in zip(METRICS, (True, False, True, False, True), strict=True)
]


def second_moments(kernel, start, data=None, num_steps=4_200):
    products = lambda state, info: jnp.outer(state.position, state.position)
    args = {"num_chains": 1024, "num_steps": num_steps, "burn_in": 200, "reduce": products}
    return run_law(KEY, kernel, start, data, **args).trace.mean


@pytest.mark.parametrize(("kind", "metric", "subtracted"), ROWS)
def test_a_gaussian_from_minibatches(kind, metric, subtracted):
    make, law = KINDS[kind]
    value, factor, root = METRICS[metric]
    options = {"factor": factor, "temperature": T}
    options |= {"noise_covariance": V} if subtracted else {}
    values = second_moments(make(GRAD, value, step_size=H, **options), jnp.zeros(2), SLOPES)
    check_law(values, law(root, 0 * V if subtracted else V), 0.03)


def test_noise_is_subtracted_in_the_coordinates_of_the_momentum(x64):
    """R' V R of 2 h C T R R', R no symmetric root, by the derivatives of a step in the normals."""
    kernel = sgrhmc(EXACT, INVERSE, H, C, temperature=T, noise_covariance=V)
    state = kernel.init(KEY, jnp.zeros(2), None)
    step = lambda: kernel.step(KEY, state, None)[0].momentum
    root = np.asarray(jax.jacfwd(lambda z: with_normals(step, z))(jnp.zeros(2)))
    wanted = 2 * H * C * T * ROOT @ ROOT.T - H**2 * ROOT.T @ V @ ROOT
    np.testing.assert_allclose(root @ root.T, wanted, rtol=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.at_length
def test_a_factor_taken_for_the_inverse_is_seen(kind):
    make, law = KINDS[kind]
    kernel = make(GRAD, INVERSE, step_size=H, factor=True, temperature=T)
    values = second_moments(kernel, jnp.zeros(2), SLOPES, num_steps=16_200)
    with refused():
        check_law(values, law(ROOT, V), 0.03)


def test_with_the_identity_it_is_the_word_EA():
    ends = []
    for kernel in (sgrhmc(EXACT, 1.0, H, C), sghmc(EXACT, H, C, word="EA")):
        ends.append(sample(KEY, kernel, jnp.ones(2), None, num_steps=5).trace)
    np.testing.assert_allclose(*ends, rtol=1e-5)


# ------------------------------------------------------------------- a metric that is not constant

SHAPE = 3.0
GAMMA_LAW = Minibatch(FunctionModel(lambda y: SHAPE * y - jnp.exp(y)), Full())  # y = log Gamma
inverse = lambda y: 1 / (1 + jnp.exp(y))
EXPECTED = np.array([SHAPE, SHAPE * (SHAPE + 1)])  # E x, E x^2


def integral(h, sign=1, num=800):
    """E x, E x^2 of sgrld on y = log x, by the integral equation."""
    y, weights = np.polynomial.legendre.leggauss(num)
    y, weights = -3.0 + 8 * y, 8 * weights
    d = 1 / (1 + np.exp(y))
    slope = -np.exp(y) * d**2
    drifted = y + h * (d * (SHAPE - np.exp(y)) + sign * slope)
    deviation = np.sqrt(2 * h * d)
    moves = norm.pdf((y[:, None] - drifted) / deviation) / deviation * weights
    law = np.linalg.solve(np.eye(num) - moves + weights, np.ones(num))
    law = weights * law / np.sum(weights * law)
    return np.array([law @ np.exp(y), law @ np.exp(2 * y)])


def test_the_bias_is_of_order_one():
    first, second = (integral(h) - EXPECTED for h in (0.1, 0.05))
    assert np.all((1.8 < first / second) & (first / second < 2.3))
    np.testing.assert_allclose(2 * integral(0.025) - integral(0.05), EXPECTED, rtol=2e-3)


def gamma_moments(make, steps, num_steps=6_000, burn_in=600):
    """E x, E x^2 of each chain and step size."""
    kernels = eqx.filter_vmap(make)(jnp.asarray(steps))
    powers = lambda state, info: jnp.exp(state.position * jnp.array([1.0, 2.0]))
    args = {"num_chains": 1024, "num_steps": num_steps, "burn_in": burn_in, "kernel_axis": 0}
    start = jnp.ones(())
    return np.asarray(run_law(KEY, kernels, start, None, reduce=powers, **args).trace.mean)


SLOPE = lambda y: -jnp.exp(y) * inverse(y) ** 2


@pytest.mark.parametrize("sign", [1, *(pytest.param(s, marks=pytest.mark.full) for s in (0, -1))])
@pytest.mark.at_length
def test_a_gamma_law_by_langevin_dynamics(sign):
    gamma = "exact" if sign == 1 else lambda y: sign * SLOPE(y)
    make = lambda h: sgrld(GAMMA_LAW, inverse, h, gamma=gamma)
    values = gamma_moments(make, [0.2])[0] / EXPECTED
    check_law(values, integral(0.2, sign) / EXPECTED, 0.02)
    if sign < 1:
        with refused():
            check_law(values, integral(0.2) / EXPECTED, 0.02)


def hamiltonian(gamma="exact", **options):
    """E x and E x^2 over what they are, extrapolated from two step sizes."""
    make = lambda h: sgrhmc(GAMMA_LAW, inverse, h, 1.5, gamma=gamma, **options)
    half, whole = gamma_moments(make, [0.05, 0.1], num_steps=12_000)
    return (2 * half - whole) / EXPECTED


@pytest.mark.full
def test_a_gamma_law_by_hamiltonian_dynamics():
    check_law(hamiltonian(), np.ones(2), 0.02)


@pytest.mark.full
@pytest.mark.parametrize("sign", [0, -1])
@pytest.mark.at_length
def test_gamma_left_out_or_subtracted_is_seen(sign):
    root_slope = lambda y: sign * SLOPE(y) / (2 * jnp.sqrt(inverse(y)))
    values = hamiltonian(gamma=root_slope)
    with refused():
        check_law(values, np.ones(2), 0.02)


def dense(x):
    """A positive definite matrix that turns with x."""
    wave = jnp.stack([jnp.sin(x[0] + x[1]), jnp.cos(x[0] - x[1])])
    return 0.5 * jnp.eye(2) + jnp.outer(wave, wave)


NORMAL = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())


def dense_moments(kind, **options):
    """E x x' of N(0, 1), extrapolated from two step sizes."""
    make = lambda h: KINDS[kind][0](NORMAL, dense, step_size=h, **options)
    kernels = eqx.filter_vmap(make)(jnp.array([0.05, 0.1]))
    products = lambda state, info: jnp.outer(state.position, state.position)
    args = {"num_chains": 1024, "num_steps": 12_400, "burn_in": 400, "kernel_axis": 0}
    run = run_law(KEY, kernels, jnp.zeros(2), None, reduce=products, **args)
    half, whole = np.asarray(run.trace.mean)
    return 2 * half - whole


@pytest.mark.full
@pytest.mark.parametrize("gamma", ["exact", "jvp"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_normal_law_with_a_metric_that_turns(kind, gamma):
    check_law(dense_moments(kind, gamma=gamma), np.eye(2), 0.03)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.at_length
def test_a_metric_that_turns_without_gamma_is_seen(kind):
    values = dense_moments(kind, gamma=lambda x: 0 * x)
    with refused():
        check_law(values, np.eye(2), 0.03)


# ------------------------------------------------------------------------------------- refusals

WRONG = {
    "definite": (lambda: sgrhmc(EXACT, lambda x: 0 * x, H), "metric must be positive definite"),
    "semi": (lambda: sgrld(EXACT, -INVERSE, H), "metric must be positive semi-definite"),
    "factor": (
        lambda: sgrhmc(EXACT, np.ones((2, 2)), H, factor=True),
        "metric, a factor, must not be singular where the chain begins",
    ),
    "diagonal factor": (
        lambda: sgrhmc(EXACT, np.array([1.0, 0.0]), H, factor=True),
        "metric, a factor, must not be singular where the chain begins, got a singular value of 0",
    ),
    "shape": (lambda: sgrhmc(EXACT, np.ones(3), H), "metric must be a matrix over.*3"),
    "friction": (lambda: sgrhmc(EXACT, 1.0, H, 0.0), "friction must be finite and positive"),
    "too much": (
        lambda: sgrhmc(EXACT, 1.0, H, noise_covariance=50.0),
        "noise_covariance exceeds.*step_size",
    ),
    "size": (lambda: sgrld(EXACT, 1.0, H, noise_covariance=np.eye(3)), "noise_covariance must"),
    "twice": (
        lambda: sgrhmc(EmpiricalFisher(GRAD), 1.0, H, noise_covariance=1.0),
        "noise_covariance must be None: EmpiricalFisher estimates it",
    ),
    "gamma": (lambda: sgrhmc(EXACT, 1.0, H, gamma="no"), "gamma must be one of"),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused(name):
    make, message = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=message):
        sample(KEY, make(), jnp.ones(2), SLOPES, num_steps=1)
