"""Stationary laws on manifolds of matrices, simplices, hyperbolic space and positive numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from sgmc_jax import (
    SPD,
    Full,
    FunctionModel,
    Hyperboloid,
    Minibatch,
    Positive,
    Simplex,
    Sphere,
    Stiefel,
    Uniform,
    gmc,
    gsgnht,
    sggmc,
    sgld,
)
from sgmc_jax.spaces import stiefel
from sgmc_jax.transitions import GeodesicLangevin
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(12)
ARGS = {"num_chains": 512, "num_steps": 2_000, "burn_in": 200}


# ------------------------------------------------------- a law on each space, with its moments


def matrix_langevin():
    """exp(2 X_11 + X_22) on matrices (3, 2), which are the first columns of rotations."""
    f = np.array([2.0, 1.0])
    nodes, weights = np.polynomial.legendre.leggauss(64)
    a, b, c = np.meshgrid(*[np.arange(64) * np.pi / 32] + [nodes] + [np.arange(64) * np.pi / 32])
    first = np.cos(a) * b * np.cos(c) - np.sin(a) * np.sin(c)
    second = np.cos(a) * np.cos(c) - np.sin(a) * b * np.sin(c)
    mass = np.exp(f[0] * first + f[1] * second) * np.broadcast_to(weights[:, None, None], a.shape)
    means = [np.sum(mass * m) / np.sum(mass) for m in (first, second, first**2)]
    density = lambda x: f[0] * x[0, 0] + f[1] * x[1, 1]
    moments = lambda x: jnp.stack([x[0, 0], x[1, 1], x[0, 0] ** 2])
    return Stiefel(), density, jnp.eye(3, 2), moments, means


def wishart():
    """Degrees of freedom 7, scale S: mean 7 S, E log|P| in closed form."""
    nu, scale = 7, np.array([[1.0, 0.4], [0.4, 0.5]])
    inverse, space = jnp.asarray(np.linalg.inv(scale), jnp.float32), SPD()
    log_lebesgue = lambda p: (nu - 3) / 2 * jnp.linalg.slogdet(p)[1] - jnp.sum(inverse * p) / 2
    density = lambda p: log_lebesgue(p) - space.log_element(p)
    moments = lambda p: jnp.stack([p[0, 0], p[0, 1], p[1, 1], jnp.linalg.slogdet(p)[1]])
    log_det = np.sum(scipy.special.digamma((nu - np.arange(2)) / 2)) + 2 * np.log(2)
    means = [*(nu * scale[[0, 0, 1], [0, 1, 1]]), log_det + np.log(np.linalg.det(scale))]
    return space, density, 5 * jnp.asarray(scale, jnp.float32), moments, means


def exponential():
    """exp(-2 x_0) on the hyperbolic plane: x_0 - 1 is exponential of rate 2."""
    moments = lambda x: jnp.stack([x[0] - 1, (x[0] - 1) ** 2, x[1]])
    start = jnp.array([2.0, 0.0, 3.0**0.5])
    return Hyperboloid(), lambda x: -2 * x[0], start, moments, [0.5, 0.5, 0.0]


def _dirichlet(alpha):
    alpha = np.array(alpha)
    density = lambda x: Simplex.log_dirichlet(x, alpha)
    total, start = alpha.sum(), jnp.ones(3) / 3
    moments = lambda x: jnp.concatenate([x, x**2])
    means = [*alpha / total, *alpha * (alpha + 1) / (total * (total + 1))]
    return Simplex(), density, start, moments, means


def dirichlet():
    return _dirichlet([2.0, 3.0, 1.0])


def dirichlet_at_its_least():
    """Two parameters of 1/2, which are flat on the sphere."""
    return _dirichlet([0.5, 0.5, 1.5])


def gamma():
    """Gamma(3, rate 2)."""
    space = Positive()
    density = lambda x: jnp.sum(2 * jnp.log(x) - 2 * x) - space.log_element(x)
    moments = lambda x: jnp.concatenate([x, x**2, jnp.log(x)])
    return space, density, jnp.ones(1), moments, [1.5, 3.0, scipy.special.digamma(3) - np.log(2)]


FAST = (matrix_langevin, wishart, exponential, dirichlet_at_its_least, gamma)
KERNELS = {
    "gmc": lambda grad, space, h: gmc(grad, space, 3 * h, 3),
    "sggmc": lambda grad, space, h: sggmc(grad, space, h, 2.0),
    "AFBNFA": lambda grad, space, h: sggmc(grad, space, h / 2, 2.0, word="AFBNFA"),
    "gsgnht": lambda grad, space, h: gsgnht(grad, space, h, 2.0),
    "langevin": lambda grad, space, h: sgld(grad, h**2 / 4, space=space),
    "drawn anew": lambda grad, space, h: sggmc(grad, space, 4 * h, word="R" + 4 * "ABOBA"),
}
STEP = {matrix_langevin: 0.2, wishart: 0.15, exponential: 0.15, gamma: 0.15}
# a first-order kernel takes small steps, and sees less
TOLERANCE = {"gmc": 0.03, "langevin": 0.15}
ROWS = [
    pytest.param(law, name, marks=[] if name == "gmc" and law in FAST else pytest.mark.full)
    for law in (matrix_langevin, wishart, exponential, dirichlet_at_its_least, gamma)
    for name in KERNELS
]


def check(law, name, **more):
    space, density, start, moments, means = law()
    kernel = KERNELS[name](Minibatch(FunctionModel(density), Full()), space, STEP.get(law, 0.1))
    record = lambda state, info: moments(state.position)
    run = run_law(KEY, kernel, start, None, reduce=record, **ARGS | more)
    check_law(run.trace.mean, means, TOLERANCE.get(name, 0.06))


@pytest.mark.parametrize("law, name", ROWS)
def test_stationary_law(law, name):
    check(law, name)


def test_a_dirichlet_law_by_metropolis():
    """Where alpha = 1 the density has an edge at a face, |u|: only a Metropolis test sees to it."""
    check(dirichlet, "gmc")


@pytest.mark.full
@pytest.mark.at_length
def test_an_edge_that_no_step_sees(monkeypatch):
    """Of order h, and not h^2: 9 % of the largest mean at h = .1, 4 % at .05."""
    for step_size in (0.1, 0.05):
        with pytest.raises(AssertionError, match="standard errors"):
            monkeypatch.setitem(STEP, dirichlet, step_size)
            check(dirichlet, "sggmc")


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.parametrize("alpha", [0.6, 0.75])
def test_the_order_of_the_error_at_an_edge(alpha):
    """It is 2 alpha - 1, up to higher ones, and not 1."""

    def error(h):
        dirichlet = lambda x: Simplex.log_dirichlet(x, jnp.array([alpha, 2.0]))
        kernel = sggmc(Minibatch(FunctionModel(dirichlet), Full()), Simplex(), h, 2.0)
        start, args = jnp.array([alpha, 2.0]) / (alpha + 2), {"num_chains": 2_048}
        args |= {"num_steps": round(180 / h), "burn_in": round(20 / h)}
        reduce = lambda state, info: state.position[0]
        means = run_law(KEY, kernel, start, None, reduce=reduce, **args).trace.mean
        return np.mean(means) - alpha / (alpha + 2)

    assert abs(error(0.2) / error(0.1) / 2 ** (2 * alpha - 1) - 1) < 0.15  # .01 its deviation


FAULTS = {
    "noise not projected": (Stiefel, "normal_array", lambda self, key, x: _ambient(key, x)),
    "a QR factor, of any signs": (stiefel, "_towards_polar", lambda x: jnp.linalg.qr(x)[0]),
    "no projection after the flow": (Stiefel, "project_array", lambda self, x, v: v),
    "the ambient gradient": (SPD, "gradient_array", lambda self, x, g: g),
    "Lebesgue's density": (SPD, "log_element", lambda self, x: jnp.zeros(())),
    "a projected ambient normal": (
        Hyperboloid,
        "normal_array",
        lambda self, key, x: self.project_array(x, _ambient(key, x)),
    ),
    "2 alpha - 2 in place of 2 alpha - 1": (
        Simplex,
        "log_dirichlet",
        staticmethod(lambda theta, alpha: jnp.sum((jnp.asarray(alpha) - 1) * jnp.log(theta))),
    ),
    "noise of the sphere": (Simplex, "normal_array", lambda self, key, x: _ambient(key, x)),
    "Lebesgue's density of a number": (Positive, "log_element", lambda self, x: jnp.zeros(())),
}
SEEN_BY = {Stiefel: matrix_langevin, stiefel: matrix_langevin, SPD: wishart}
SEEN_BY |= {Hyperboloid: exponential, Simplex: dirichlet, Positive: gamma}


def _ambient(key, x):
    return jax.random.normal(key, x.shape, x.dtype)


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS)
def test_the_law_sees(fault, monkeypatch):
    """A chain that leaves its space has no mean at all, or not that one."""
    where, name, wrong = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong)
    with pytest.raises((AssertionError, FloatingPointError), match="standard errors|finite"):
        check(SEEN_BY[where], "gmc")


LANGEVIN_FAULTS = {
    "the noise of h": (GeodesicLangevin, "variance", lambda self, h, v: h - h**2 * v, wishart),
    "the ambient gradient": (SPD, "gradient_array", lambda self, x, g: g, wishart),
    "noise not projected": (
        Stiefel,
        "normal_array",
        lambda self, key, x: _ambient(key, x),
        matrix_langevin,
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("fault", LANGEVIN_FAULTS)
def test_the_law_sees_faults_of_langevin(fault, monkeypatch):
    where, name, wrong, law = LANGEVIN_FAULTS[fault]
    monkeypatch.setattr(where, name, wrong)
    with pytest.raises((AssertionError, FloatingPointError), match="standard errors|finite|nan"):
        check(law, "langevin")


@pytest.mark.parametrize("form", [1.5, 1.5 * np.ones(3), 1.5 * np.eye(3)], ids=np.ndim)
def test_the_noise_of_the_gradient_is_subtracted_on_a_sphere(form):
    """Of one key: the angle that a step goes without a gradient is as its root, 2 h T - h^2 V."""
    h, temperature = 0.1, 0.7
    flat = Minibatch(FunctionModel(lambda x: 0.0 * x[0]), Full())
    start = jnp.array([1.0, 0.0, 0.0])

    def angle(**options):
        kernel = sgld(flat, h, temperature=temperature, space=Sphere(), **options)
        state, _ = kernel.step(KEY, kernel.init(KEY, start, None), None)
        return np.arctan2(np.linalg.norm(state.position[1:]), state.position[0])

    left = 1 - h * 1.5 / (2 * temperature)
    np.testing.assert_allclose(angle(noise_covariance=form) / angle(), left**0.5, rtol=1e-5)


# --------------------------------------- with noise of the gradient: von Mises-Fisher, Langevin


def noisy(density, shape, noise):
    """An estimate of its gradient, by items that only add noise of covariance `noise` I."""
    dim = int(np.prod(shape))
    units = np.eye(dim).reshape(dim, *shape)
    items = np.concatenate([units, -units]) * np.sqrt(noise / (4 * dim))
    model = FunctionModel(density, lambda x, z: jnp.sum(z * x))
    return Minibatch(model, Uniform(1)), items.astype(np.float32)


RATIO = {(3, 5): 0.80009, (3, 50): 0.98, (10, 5): 0.42245, (10, 50): 0.91321}  # A_d(kappa)
NOISY = {
    "sggmc": lambda grad, space, h, v: sggmc(grad, space, h, 2.0, noise_covariance=v),
    "gsgnht": lambda grad, space, h, v: gsgnht(grad, space, h, 2.0),
}


def check_noisy(dim, kappa, name, h=0.05, noise=10.0):
    """The density exp(kappa x_0)."""
    grad, items = noisy(lambda x: kappa * x[0], (dim,), noise)
    start = jnp.zeros(dim).at[0].set(1.0)
    mean = RATIO[dim, kappa]
    square = 1 - (dim - 1) * mean / kappa
    height = lambda state, info: jnp.stack([state.position[0], state.position[0] ** 2])
    burn_in = round(10 / h)  # a thermostat takes a while to come to rest
    args = ARGS | {"num_steps": 4_000 + burn_in, "burn_in": burn_in}
    kernel = NOISY[name](grad, Sphere(), h, noise)
    run = run_law(KEY, kernel, start, items, reduce=height, **args)
    check_law(run.trace.mean, [mean, square], 0.01)


@pytest.mark.full
@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("dim, kappa", RATIO)
@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_von_mises_fisher_with_noise(noise, dim, kappa, name):
    check_noisy(dim, kappa, name, 0.05 if kappa == 5 else 0.01, noise)


def check_noisy_langevin(name, kernels=NOISY):
    space, density, start, moments, means = matrix_langevin()
    grad, items = noisy(density, start.shape, 10.0)
    record = lambda state, info: moments(state.position)
    kernel = kernels[name](grad, space, 0.05, 10.0)
    run = run_law(KEY, kernel, start, items, reduce=record, **ARGS | {"num_steps": 4_000})
    check_law(run.trace.mean, means, 0.03)


@pytest.mark.full
@pytest.mark.parametrize("name", NOISY)
def test_matrix_langevin_with_noise(name):
    check_noisy_langevin(name)


@pytest.mark.full
@pytest.mark.at_length
def test_noise_that_is_left_in_is_seen_on_frames():
    wrong = {"sggmc": lambda grad, space, h, v: sggmc(grad, space, h, 2.0, word="AFBNFA")}
    fault_is_seen(check_noisy_langevin, "sggmc", wrong)


@pytest.mark.full
@pytest.mark.at_length
def test_the_noise_is_there():
    """Uncorrected it moves the mean by .025 on S^2."""
    wrong = lambda grad, space, h, v: sggmc(grad, space, h, 2.0, word="AFBNFA")
    with pytest.raises(AssertionError, match="standard errors"), pytest.MonkeyPatch.context() as m:
        m.setitem(NOISY, "sggmc", wrong)
        check_noisy(3, 5, "sggmc")


@pytest.mark.full
@pytest.mark.at_length
def test_the_thermostat_counts_the_dimensions_of_the_sphere(monkeypatch):
    monkeypatch.setattr(Sphere, "dim_array", lambda self, shape: shape[-1])
    fault_is_seen(check_noisy, 3, 5, "gsgnht")
