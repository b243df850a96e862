"""The complete recipe: Gaussian closed forms, and Gamma, which no Gaussian needs."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import norm

from sgmc_jax import EmpiricalFisher, Full, FunctionModel, Minibatch, recipe, sample, sgld, sgrld
from sgmc_jax.random import normal
from sgmc_jax.transitions import Divergence, PositionMatrix
from sgmc_jax.transitions.position_matrix import times
from tests.laws.moments import Z, check_law, run_law
from tests.laws.test_gaussian import CURVATURE, FRICTION, GRAD, NOISE, TEMPERATURE, Y
from tests.laws.test_matrix_friction import with_normals

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(41)
NORMAL = Minibatch(FunctionModel(lambda x: -0.5 * jnp.sum(x**2)), Full())
refused = partial(pytest.raises, AssertionError, match="standard errors")


def moments(kernel, position, statistic, data=None, num_steps=4_200, num_chains=1024):
    args = {"num_chains": num_chains, "num_steps": num_steps, "burn_in": 200}
    reduce = lambda state, info: statistic(state.position)
    return run_law(KEY, kernel, position, data, reduce=reduce, **args).trace.mean


# ---------------------------------------------------------------------- one coordinate, and Gamma


def diffusion(x):
    return 1 + x**2 / (1 + x**2)


def slope(x):
    return 2 * x / (1 + x**2) ** 2


def exact_variance(h, sign, num=600):
    """Of x <- x + h (-D x + sign D') + N(0, 2 h D), by its integral equation."""
    x, weights = np.polynomial.legendre.leggauss(num)
    x, weights = 9 * x, 9 * weights
    drifted = x + h * (-diffusion(x) * x + sign * slope(x))
    deviation = np.sqrt(2 * h * diffusion(x))
    moves = norm.pdf((x[:, None] - drifted) / deviation) / deviation * weights
    law = np.linalg.solve(np.eye(num) - moves + weights, np.ones(num))
    return np.sum(weights * law * x**2) / np.sum(weights * law)


def test_the_variance_is_one_with_gamma_and_neither_without_nor_with_minus():
    """As h -> 0, by extrapolation: 1, .79 and .62."""
    limit = lambda sign: 2 * exact_variance(0.01, sign) - exact_variance(0.02, sign)
    np.testing.assert_allclose([limit(s) for s in (1, 0, -1)], [1, 0.794, 0.619], atol=0.002)


SIGNS = {"exact": 1, "diagonal": 1, "jvp": 1, "left out": 0, "printed": -1}
OWN = {"left out": lambda x: 0 * x, "printed": lambda x: -slope(x)}


def variance(name):
    kernel = recipe(NORMAL, diffusion, None, 0.1, gamma=OWN.get(name, name))
    return moments(kernel, jnp.zeros(()), jnp.square)


@pytest.mark.parametrize(
    "name", [n if n == "exact" else pytest.param(n, marks=pytest.mark.full) for n in SIGNS]
)
def test_the_variance_with_a_diffusion_that_depends_on_the_position(name):
    check_law(variance(name), exact_variance(0.1, SIGNS[name]), 0.015)


@pytest.mark.full
@pytest.mark.parametrize("name", OWN)
@pytest.mark.at_length
def test_gamma_left_out_or_with_the_printed_sign_is_seen(name):
    with refused():
        check_law(variance(name), exact_variance(0.1, 1), 0.015)


# ------------------------------------------------------------------- Gamma of matrices, exactly


def matrix(x):
    wave = jnp.sin(jnp.arange(1, 10).reshape(3, 3) * x[0] + jnp.outer(x, x))
    return jnp.eye(3) + wave @ wave.T


def curl(x):
    return jnp.cross(jnp.eye(3), x**2)


POINT = np.array([0.3, -0.7, 0.5])


def product(diffusion, curl=None):
    def both(x, v):
        result = times(PositionMatrix("D", diffusion).at(x), v)
        return result if curl is None else result + PositionMatrix("Q", curl).at(x) @ v

    return both


def test_gamma_is_the_divergence_by_finite_differences(x64):
    step = 1e-5
    both = lambda x: np.asarray(matrix(x) + curl(x))
    slopes = [(both(POINT + step * e) - both(POINT - step * e)) / (2 * step) for e in np.eye(3)]
    expected = np.einsum("jij->i", slopes)
    got = Divergence("exact")(KEY, product(matrix, curl), jnp.asarray(POINT))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_the_mean_over_all_signs_is_gamma(x64, monkeypatch):
    """The estimate by one derivative is unbiased; and it is no constant."""
    estimates = []
    for signs in itertools.product([-1.0, 1.0], repeat=3):
        monkeypatch.setattr(jax.random, "rademacher", lambda *args, z=signs: jnp.asarray(z))
        estimates.append(Divergence("jvp")(KEY, product(matrix, curl), jnp.asarray(POINT)))
    exact = Divergence("exact")(KEY, product(matrix, curl), jnp.asarray(POINT))
    np.testing.assert_allclose(np.mean(estimates, axis=0), exact, rtol=1e-9)
    assert np.all(np.std(estimates, axis=0) > 0.1)


def test_one_derivative_is_enough_for_a_diagonal_of_own_coordinates(x64):
    x = jnp.asarray(POINT)
    exact, diagonal = (Divergence(how)(KEY, product(diffusion), x) for how in ("exact", "diagonal"))
    np.testing.assert_allclose(diagonal, exact, rtol=1e-9)
    np.testing.assert_allclose(diagonal, slope(POINT), rtol=1e-9)


# ---------------------------------------------------------- Gaussians: SGLD, SG-HMC and their noise


def test_with_the_identity_it_is_sgld_step_for_step():
    kernels = (
        recipe(GRAD, 1.0, None, 0.2, noise_covariance=0.5),
        sgld(GRAD, 0.2, noise_covariance=0.5),
    )
    ends = []
    for kernel in kernels:
        args = {"num_steps": 5, "num_chains": 2, "position_axis": None}
        ends.append(sample(KEY, kernel, jnp.zeros(()), jnp.asarray(Y), **args).trace)
    np.testing.assert_allclose(*ends, rtol=1e-5)


H = 0.2
UNDERDAMPED = jnp.array([0.0, FRICTION]), jnp.array([[0.0, -1.0], [1.0, 0.0]])


def kinetic(z):
    return 0.5 * z[1] ** 2


def covariance(subtracted, temperature=TEMPERATURE):
    """Of (x, v), the solution of P = M P M' + noise."""
    d, q = np.diag(UNDERDAMPED[0]), np.asarray(UNDERDAMPED[1])
    move = np.eye(2) - H * (d + q) @ np.diag([CURVATURE, 1])
    own = H**2 * (d + q) @ np.diag([NOISE - subtracted, 0]) @ (d + q).T
    return solve_discrete_lyapunov(move, 2 * H * temperature * d + own)


def products(z):
    z = jnp.stack(z)
    return jnp.outer(z, z)


FORMS = {
    "number": ({"noise_covariance": NOISE}, NOISE),
    "matrix": ({"noise_covariance": np.array([[NOISE]])}, NOISE),
    "none": ({}, 0.0),
}


@pytest.mark.parametrize(
    "form", [f if f == "number" else pytest.param(f, marks=pytest.mark.full) for f in FORMS]
)
def test_hamiltonian_monte_carlo_from_minibatches(form):
    options, subtracted = FORMS[form]
    make = partial(recipe, energy=kinetic, temperature=TEMPERATURE, **options)
    kernel = make(GRAD, *UNDERDAMPED, H)
    values = moments(kernel, (jnp.zeros(()), jnp.zeros(())), products, Y)
    check_law(values, covariance(subtracted), 0.02)


@pytest.mark.full
@pytest.mark.at_length
def test_noise_that_is_not_turned_by_the_curl_is_seen(monkeypatch):
    """B = (D + Q) V (D + Q)': without Q nothing would be subtracted here."""
    from sgmc_jax.transitions import RecipeEuler

    honest = RecipeEuler._noise_covariance
    without = lambda self, z, d, v, h: honest(self, z, d, None if v is None else 0 * v, h)
    monkeypatch.setattr(RecipeEuler, "_noise_covariance", without)
    with refused():
        test_hamiltonian_monte_carlo_from_minibatches("number")


def test_noise_is_turned_by_a_curl_and_not_back(x64):
    """A step has the noise 2 h T D - h^2 (D + Q) V (D + Q)', by its derivatives in the normals."""
    d, q = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[0.0, -0.7], [0.7, 0.0]])
    v, zero = np.array([[1.0, 0.4], [0.4, 3.0]]), jnp.zeros(2)
    kernel = recipe(NORMAL, d, q, H, temperature=TEMPERATURE, noise_covariance=v)
    step = lambda: kernel.step(KEY, kernel.init(KEY, zero, None), None)[0].position
    root = np.asarray(jax.jacfwd(lambda z: with_normals(step, z))(zero))
    wanted = 2 * H * TEMPERATURE * d - H**2 * (d + q) @ v @ (d + q).T
    np.testing.assert_allclose(root @ root.T, wanted, rtol=1e-9)


@pytest.mark.full
def test_an_estimated_covariance_is_that_of_the_first_entry():
    fisher = EmpiricalFisher(GRAD)
    kernel = recipe(fisher, *UNDERDAMPED, H, energy=kinetic, temperature=TEMPERATURE)
    args = {"num_chains": 1024, "num_steps": 5_000, "burn_in": 1_000}
    reduce = lambda state, info: products(state.position)
    start = jnp.zeros(()), jnp.zeros(())
    run = run_law(KEY, kernel, start, Y, reduce=reduce, **args)
    check_law(run.trace.mean, covariance(NOISE), 0.03)


# ------------------------------------------------------------------------------- the thermostat

DIM, STRENGTH = 4, 1.0
THERMAL = jnp.concatenate([jnp.zeros(DIM), STRENGTH * jnp.ones(DIM), jnp.zeros(1)])


def thermal_curl(z):
    _, v, _ = z
    eye, zero, none = jnp.eye(DIM), jnp.zeros((DIM, DIM)), jnp.zeros((DIM, 1))
    v = v[:, None] / DIM
    return jnp.block([[zero, -eye, none], [eye, zero, v], [none.T, -v.T, jnp.zeros((1, 1))]])


def thermal_energy(z, stiffness=DIM):
    _, v, xi = z
    return 0.5 * v @ v + 0.5 * stiffness * (xi - STRENGTH) ** 2


def thermostat(h, energy=thermal_energy, **options):
    return recipe(NORMAL, THERMAL, thermal_curl, h, energy=energy, **options)


START = jnp.zeros(DIM), jnp.zeros(DIM), jnp.array(STRENGTH)


def test_a_step_of_the_thermostat():
    """Its Gamma is (0, 0, -1), and a step the explicit one."""
    x, v, xi = z = (
        jnp.array([0.3, -1.0, 0.5, 2.0]),
        jnp.array([1.0, 0.2, -0.4, 0.1]),
        jnp.array(1.4),
    )
    kernel, h = thermostat(0.1), 0.1
    step = jax.jit(lambda: kernel.step(KEY, kernel.init(KEY, z, None), None)[0])
    state = step()
    noise = normal(jax.random.split(KEY)[0], (2 * DIM + 1,))[DIM:-1]
    expected = (
        x + h * v,
        v - h * x - h * xi * v + np.sqrt(2 * h * STRENGTH) * noise,
        xi + h * (v @ v / DIM - 1),
    )
    for got, wanted in zip(state.position, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def heat(energy=thermal_energy):
    statistic = lambda z: jnp.stack([jnp.mean(z[1] ** 2), (z[2] - STRENGTH) ** 2])
    return moments(thermostat(0.02, energy), START, statistic, num_steps=20_200, num_chains=512)


def check_thermostat(values):
    """E v'v / d is 1 for every step size; d Var xi is 1 + 1.2 h + ..., and at most 1.1 at .02."""
    own = np.asarray(values[:, 1], np.float64) * DIM
    standard = own.std(ddof=1) / np.sqrt(len(own))
    assert abs(own.mean() - 1) + Z * standard < 0.1, f"the thermostat varies by {own.mean()}"
    check_law(values[:, 0], 1.0, 0.01)


@pytest.mark.full
@pytest.mark.at_length
def test_the_thermostat_keeps_the_temperature_and_its_own_law():
    check_thermostat(heat())


@pytest.mark.full
@pytest.mark.at_length
def test_the_printed_energy_of_the_thermostat_is_seen():
    """(xi - A)^2 / 2d in place of d (xi - A)^2 / 2: a variance of d in place of 1/d."""
    with pytest.raises(AssertionError, match="the thermostat varies by"):
        check_thermostat(heat(partial(thermal_energy, stiffness=1 / DIM)))


# ------------------------------------------------------------------------------------- refusals

TWO = jnp.zeros(2)
TURN = jnp.array([[0.0, -1.0], [1.0, 0.0]])
WRONG = {
    "diffusion": (lambda: recipe(NORMAL, -1.0, None, 0.1), "diffusion must be positive semi.*-1"),
    "matrix": (
        lambda: recipe(NORMAL, lambda x: jnp.array([[1.0, 2.0], [2.0, 1.0]]), None, 0.1),
        "diffusion must be positive semi-definite where the chain begins.*-1",
    ),
    "symmetric": (lambda: recipe(NORMAL, TURN, None, 0.1), "diffusion must be symmetric"),
    "curl": (lambda: recipe(NORMAL, 1.0, jnp.eye(2), 0.1), "curl must be antisymmetric.*2"),
    "shape": (lambda: recipe(NORMAL, jnp.eye(3), None, 0.1), "diffusion must be a matrix over.*3"),
    "gamma": (lambda: recipe(NORMAL, 1.0, None, 0.1, gamma="none"), "gamma must be one of.*'none'"),
    "gamma in words": (
        lambda: recipe(NORMAL, 1.0, None, 0.1, gamma="a function"),
        "gamma must be one of .* or a function, got 'a function'",
    ),
    "own gamma": (
        lambda: recipe(NORMAL, diffusion, None, 0.1, gamma=lambda x: 1.0),
        "gamma must have the structure and the shapes of the position",
    ),
    "diagonal": (
        lambda: recipe(NORMAL, lambda x: 1 + x[::-1] ** 2, None, 0.1, gamma="diagonal"),
        'gamma="diagonal" is for diagonals of which each',
    ),
    "too much": (
        lambda: recipe(NORMAL, 1.0, None, 0.5, noise_covariance=5.0),
        "noise_covariance exceeds.*step_size 0.5",
    ),
    "no noise": (
        lambda: recipe(NORMAL, 0.0, TURN, 0.1, noise_covariance=0.01),
        "noise_covariance exceeds the noise.*no noise of its own",
    ),
    "twice": (
        lambda: recipe(EmpiricalFisher(GRAD), 1.0, None, 0.1, noise_covariance=jnp.ones(2)),
        "noise_covariance must be None: EmpiricalFisher estimates it",
    ),
    "no tuple": (
        lambda: recipe(NORMAL, 1.0, None, 0.1, energy=kinetic),
        "position must be a tuple",
    ),
    "energy": (
        lambda: recipe(NORMAL, 1.0, None, 0.1, energy=lambda z: z[1]),
        "energy must return one floating number",
    ),
    "no estimator": (lambda: recipe(lambda x: x, 1.0, None, 0.1), "grad must be an estimator"),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused(name):
    make, message = WRONG[name]
    start = (TWO, TWO) if name == "energy" else TWO + 0.5
    with pytest.raises((ValueError, TypeError), match=message):
        sample(KEY, make(), start, None, num_steps=1)


@pytest.mark.parametrize("start", [jnp.ones(66), jnp.zeros(66), jnp.zeros(3)])
def test_a_diagonal_that_knows_other_coordinates_is_refused(start):
    """Of many coordinates, and where its derivatives vanish at the start, too."""
    for metric in (lambda x: 1 + jnp.roll(x, 1) ** 2, lambda x: 1 + jnp.roll(x, 2) ** 2):
        with pytest.raises(ValueError, match="each element depends on its own coordinate"):
            kernel = sgrld(NORMAL, metric, 0.01, gamma="diagonal")
            sample(KEY, kernel, start, None, num_steps=1)
    sample(KEY, sgrld(NORMAL, lambda x: 1 + x**2, 0.01, gamma="diagonal"), start, None, num_steps=1)


def test_coordinates_that_cancel_in_pairs_are_seen():
    """The first element knows the others by x_1 + x_2 - x_3, of which two always cancel."""
    metric = lambda x: jnp.ones(4).at[0].add(jax.nn.softplus(x[1] + x[2] - x[3]))
    with pytest.raises(ValueError, match="each element depends on its own coordinate"):
        kernel = sgrld(NORMAL, metric, 0.01, gamma="diagonal")
        sample(KEY, kernel, jnp.zeros(4), None, num_steps=1)


@pytest.mark.parametrize("size", [1.0, 2e-7])
def test_matrices_of_small_numbers_are_checked_too(size):
    """As those of a posterior of many items are; also up to their own rounding."""
    skew = size * jnp.array([[0.0, 0.8], [0.8, 0.0]])
    with pytest.raises(ValueError, match="curl must be antisymmetric"):
        sample(KEY, recipe(NORMAL, size, skew, 0.1), TWO, None, num_steps=1)
    with pytest.raises(ValueError, match="diffusion must be symmetric"):
        kernel = recipe(NORMAL, size * jnp.eye(2) + jnp.triu(skew), None, 0.1)
        sample(KEY, kernel, TWO, None, num_steps=1)
    turn = size * (TURN + 1e-6)
    sample(KEY, recipe(NORMAL, size, turn, 0.1), TWO, None, num_steps=1)


def test_a_diffusion_that_turns_negative_is_counted():
    kernel = recipe(NORMAL, lambda x: 1 - x**2, None, 0.1, gamma=lambda x: -2 * x)
    for position, count in ((jnp.array([0.5, 0.5]), 0), (jnp.array([0.5, 3.0]), 1)):
        _, info = kernel.step(KEY, kernel.init(KEY, position, None), None)
        assert info.clipped == count
    full = recipe(NORMAL, lambda x: jnp.diag(1 - x**2), None, 0.1, gamma=lambda x: -2 * x)
    _, info = full.step(KEY, full.init(KEY, jnp.array([2.0, 3.0]), None), None)
    assert info.clipped == 2
