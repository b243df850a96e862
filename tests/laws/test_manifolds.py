"""Samplers on the sphere and on products with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Euclidean,
    Full,
    FunctionModel,
    Minibatch,
    Product,
    Space,
    Sphere,
    Uniform,
    hmc,
    scan_kernel,
    sggmc,
    sgnht,
)
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(11)
KAPPA, FRICTION = 5.0, 2.0
MEAN = 1 / np.tanh(KAPPA) - 1 / KAPPA  # A_3(5) = .80009
SQUARE = 1 - 2 * MEAN / KAPPA  # E (mu.x)^2 on S^2
POLE = jnp.array([1.0, 0.0, 0.0])
VMF = Minibatch(FunctionModel(lambda x: KAPPA * x[0]), Full())
ARGS = {"num_chains": 1024, "num_steps": 5_000, "burn_in": 200}


def height(state, info):
    return jnp.stack([state.position[0], state.position[0] ** 2])


def noisy_vmf(noise):
    """The von Mises-Fisher density, with items that only add noise of covariance `noise` I."""
    items = np.concatenate([np.eye(3), -np.eye(3)])
    kappa = 6**2 * (1 - 1 / 6) / 5
    items *= np.sqrt(noise / (2 * kappa))
    model = FunctionModel(lambda x: KAPPA * x[0], lambda x, z: z @ x)
    return Minibatch(model, Uniform(1)), items


def check_sphere(kernel, data, tolerance=0.01, args=ARGS):
    run = run_law(KEY, kernel, POLE, data, reduce=height, **args)
    check_law(run.trace.mean, [MEAN, SQUARE], tolerance)
    return run


@pytest.mark.parametrize(
    "kernel",
    [
        sggmc(VMF, Sphere(), 0.1, FRICTION),
        sggmc(VMF, Sphere(), 0.1, FRICTION, word="AFBNFA"),
        sggmc(VMF, Sphere(), 0.02, FRICTION, word="EA"),
        sgnht(VMF, 0.1, FRICTION, space=Sphere()),
        hmc(VMF, 0.7, 2, space=Sphere()),
    ],
    ids=["ABOBA", "AFBNFA", "Euler", "thermostat", "geodesic hmc"],
)
def test_von_mises_fisher(kernel):
    check_sphere(kernel, None)


def test_the_sphere_law_sees_noise_too_large_by_a_twentieth(monkeypatch):
    honest = Sphere.normal
    monkeypatch.setattr(Sphere, "normal", lambda self, key, x: 1.05 * honest(self, key, x))
    fault_is_seen(check_sphere, sggmc(VMF, Sphere(), 0.1, FRICTION), None)


@pytest.mark.full
def test_noise_of_the_gradient_is_subtracted_on_the_sphere():
    """S^2, kappa 5, C 2, h .05, noise 10: .775 uncorrected, .7999 corrected, .8002 thermostat."""
    grad, items = noisy_vmf(10.0)
    args = ARGS | {"num_steps": 8_000}
    plain = sggmc(grad, Sphere(), 0.05, FRICTION, word="AFBNFA")
    run = run_law(KEY, plain, POLE, items, reduce=height, **args)
    check_law(run.trace.mean[:, 0], 0.775, 0.01)
    for word in ["AFBNFA", "ABOBA"]:
        kernel = sggmc(grad, Sphere(), 0.05, FRICTION, noise_covariance=10.0, word=word)
        check_sphere(kernel, items, args=args)
    check_sphere(sgnht(grad, 0.05, FRICTION, space=Sphere()), items, args=args)


def test_sphere_times_euclid():
    """y | x ~ N(2 x, I) and x von Mises-Fisher: E y.x = 2, E |y|^2 = 4 + 3."""
    model = FunctionModel(lambda p: KAPPA * p["x"][0] - 0.5 * jnp.sum((p["y"] - 2 * p["x"]) ** 2))
    space = Product({"x": Sphere(), "y": Euclidean()})
    kernel = sggmc(Minibatch(model, Full()), space, 0.1, FRICTION)
    moments = lambda state, info: jnp.stack(
        [
            state.position["x"][0],
            state.position["x"] @ state.position["y"],
            state.position["y"] @ state.position["y"],
        ]
    )
    start = {"x": POLE, "y": jnp.zeros(3)}
    run = run_law(KEY, kernel, start, None, reduce=moments, **ARGS | {"num_steps": 6_000})
    check_law(run.trace.mean, [MEAN, 2.0, 7.0], 0.01)


# ------------------------------------------------------------------- a metric of a space's own


class HalfPlane(Space):
    """The hyperbolic plane: pairs (x, y) with y > 0, and the metric (dx^2 + dy^2) / y^2.

    From (0, 1) the geodesic of the direction (c, s) is (c sinh t, 1) / (cosh t - s sinh t).
    """

    @property
    def embedded(self):
        return False

    def project(self, x, v):
        return v

    def gradient(self, x, g):
        return x[1] ** 2 * g

    def flow(self, x, v, t):
        speed = jnp.linalg.norm(v) / x[1]
        c, s = v / (x[1] * jnp.maximum(speed, 1e-30))
        cosh, sinh = jnp.cosh(speed * t), jnp.sinh(speed * t)
        d = cosh - s * sinh
        point = jnp.array([x[0] + x[1] * c * sinh / d, x[1] / d])
        return point, x[1] * speed * jnp.stack([c, s * cosh - sinh]) / d**2

    def normal(self, key, x):
        return x[1] * jax.random.normal(key, x.shape, x.dtype)

    def dim(self, x):
        return 2

    def squared_norm(self, x, v):
        return jnp.sum(v**2) / x[1] ** 2

    def check(self, x):
        assert x[1] > 0


PEAK = 2.0
TOP = jnp.array([0.0, 1.0])
HYPERBOLIC = Minibatch(FunctionModel(lambda x: -PEAK * cosh_distance(x)), Full())
WITH_LINE = Product({"x": HalfPlane(), "y": Euclidean()})
LEVEL = FunctionModel(lambda p: -PEAK * cosh_distance(p["x"]) - p["y"] @ p["y"] / 2)
ON_PRODUCT = {"x": TOP, "y": jnp.zeros(1)}


def cosh_distance(x):
    """The hyperbolic cosine of the distance to (0, 1)."""
    return (x @ x + 1) / (2 * x[1])


def check_hyperbolic(kernel, start=TOP):
    """The volume is sinh r dr dphi: cosh r - 1 is exponential, of rate 2; a line beside is normal.

    The mean of sinh r cos phi = (1 - |x|^2) / 2y is 0.
    """

    def moments(state, info):
        x = state.position if start is TOP else state.position["x"]
        line = () if start is TOP else (state.position["y"][0] ** 2,)
        excess = cosh_distance(x) - 1
        return jnp.stack([excess, excess**2, (1 - x @ x) / (2 * x[1]), *line])

    run = run_law(KEY, kernel, start, None, reduce=moments, **ARGS | {"num_steps": 1_000})
    expected = [1 / PEAK, 2 / PEAK**2, 0.0, 1.0]
    check_law(run.trace.mean, expected[: run.trace.mean.shape[1]], 0.06)


@pytest.mark.parametrize(
    "kernel",
    [
        sggmc(HYPERBOLIC, HalfPlane(), 0.1, FRICTION),
        sgnht(HYPERBOLIC, 0.1, FRICTION, space=HalfPlane()),
        hmc(HYPERBOLIC, 0.7, 2, space=HalfPlane()),
    ],
    ids=["ABOBA", "thermostat", "hmc"],
)
def test_a_space_with_a_metric_of_its_own(kernel):
    check_hyperbolic(kernel)


def test_its_product_with_a_line():
    kernel = sgnht(Minibatch(LEVEL, Full()), 0.1, FRICTION, space=WITH_LINE)
    check_hyperbolic(kernel, ON_PRODUCT)


SEEN = "standard errors|not finite"


@pytest.mark.parametrize("space", [HalfPlane, pytest.param(Product, marks=pytest.mark.full)])
@pytest.mark.parametrize("fault", ["gradient", "squared_norm"])
@pytest.mark.at_length
def test_the_law_sees_the_metric_of_the_embedding(space, fault, monkeypatch):
    """A wrong length moves the means, or throws chains out; by a wrong gradient they run away."""
    monkeypatch.setattr(space, fault, getattr(Space, fault))
    with pytest.raises(AssertionError, match="blind" if fault == "gradient" else SEEN):
        if space is Product:
            test_its_product_with_a_line()
        elif fault == "gradient":
            check_hyperbolic(sggmc(HYPERBOLIC, HalfPlane(), 0.1, FRICTION))
        else:
            check_hyperbolic(hmc(HYPERBOLIC, 0.7, 2, space=HalfPlane()))


def test_lengths_and_volumes_of_a_product_are_those_of_its_parts():
    x = {"x": jnp.array([0.3, 2.0]), "y": jnp.ones(3)}
    v = {"x": jnp.array([2.0, 4.0]), "y": 2 * jnp.ones(3)}
    np.testing.assert_allclose(WITH_LINE.squared_norm(x, v), 20 / 4 + 12)
    assert not WITH_LINE.embedded and WITH_LINE.dim(x) == 5
    spheres = Product((Sphere(), Sphere()))
    points = (2 * jnp.eye(3), jnp.array([0.0, -5.0]))
    np.testing.assert_allclose(spheres.log_volume(points), np.log((4 * np.pi) ** 3 * 2 * np.pi))
    on, _ = spheres.nearest(points), spheres.check(spheres.nearest(points))
    np.testing.assert_allclose(on[1], [0.0, -1.0])
    with pytest.raises(NotImplementedError, match="Euclidean has no finite volume"):
        Euclidean().log_volume(x)
    with pytest.raises(NotImplementedError, match="HalfPlane has no nearest point"):
        WITH_LINE.nearest(x)


@pytest.mark.parametrize("shape", [(3,), (4, 5)])
def test_the_flow_of_the_sphere(shape, x64):
    key_x, key_v = jax.random.split(KEY)
    x = jax.random.normal(key_x, shape, "float64")
    x = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    v = Sphere().normal(key_v, x)
    np.testing.assert_allclose(jnp.sum(x * v, -1), 0, atol=1e-14)
    y, w = Sphere().flow(x, v, 1.7)
    back, reversed_velocity = Sphere().flow(y, -w, 1.7)
    np.testing.assert_allclose(back, x, atol=1e-11)
    np.testing.assert_allclose(reversed_velocity, -v, atol=1e-11)
    np.testing.assert_allclose(jnp.sum(w**2, -1), jnp.sum(v**2, -1), rtol=1e-12)
    same, still = Sphere().flow(x, jnp.zeros(shape), 1.0)
    np.testing.assert_allclose(same, x, atol=1e-15)
    assert not np.any(still)
    assert Sphere().dim(x) == x.size - x.size // shape[-1]


def test_the_sphere_is_not_left_in_float32():
    kernel = sggmc(VMF, Sphere(), 0.1)
    state = kernel.init(KEY, POLE, None)
    state, _ = jax.jit(lambda s: scan_kernel(KEY, kernel, s, None, 100_000, lambda s, i: ()))(state)
    assert abs(float(state.position @ state.position) - 1) < 1e-6
    assert abs(float(state.position @ state.momentum)) < 1e-5
    assert not np.allclose(state.position, POLE, atol=1e-4)
