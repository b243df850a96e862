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
    Sphere,
    Uniform,
    hmc,
    sample,
    scan_kernel,
    sggmc,
    sgnht,
)
from tests.laws.moments import check_mean

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
    run = sample(KEY, kernel, POLE, data, reduce=height, **args)
    check_mean(run.trace.mean, [MEAN, SQUARE], tolerance)
    return run


@pytest.mark.parametrize(
    "kernel",
    [
        sggmc(VMF, Sphere(), 0.1, FRICTION),
        sggmc(VMF, Sphere(), 0.1, FRICTION, word="AFBNFA"),
        sgnht(VMF, 0.1, FRICTION, space=Sphere()),
        hmc(VMF, 0.7, 2, space=Sphere()),
    ],
    ids=["ABOBA", "AFBNFA", "thermostat", "geodesic hmc"],
)
def test_von_mises_fisher(kernel):
    check_sphere(kernel, None)


def test_the_sphere_law_sees_noise_too_large_by_a_twentieth(monkeypatch):
    honest = Sphere.normal
    monkeypatch.setattr(Sphere, "normal", lambda self, key, x: 1.05 * honest(self, key, x))
    with pytest.raises(AssertionError, match="standard errors"):
        check_sphere(sggmc(VMF, Sphere(), 0.1, FRICTION), None)


@pytest.mark.full
def test_noise_of_the_gradient_is_subtracted_on_the_sphere():
    """S^2, kappa 5, C 2, h .05, noise 10: .775 uncorrected, .7999 corrected, .8002 thermostat."""
    grad, items = noisy_vmf(10.0)
    args = ARGS | {"num_steps": 8_000}
    plain = sggmc(grad, Sphere(), 0.05, FRICTION, word="AFBNFA")
    run = sample(KEY, plain, POLE, items, reduce=height, **args)
    check_mean(run.trace.mean[:, 0], 0.775, 0.01)
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
    run = sample(KEY, kernel, start, None, reduce=moments, **ARGS)
    check_mean(run.trace.mean, [MEAN, 2.0, 7.0], 0.01)


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
