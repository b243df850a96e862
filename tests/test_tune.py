"""find_mode and the step-size schedules."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sgmc_jax import (
    Cyclical,
    FunctionModel,
    LinearModel,
    Minibatch,
    PolynomialDecay,
    Transformed,
    Uniform,
    find_mode,
)

KEY = jax.random.key(2)
_rng = np.random.default_rng(5)
X = _rng.normal(size=(300, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5]) + 0.3 + 0.5 * _rng.normal(size=300)).astype(np.float32)
MODEL = FunctionModel(
    lambda p: -0.5 * (p["w"] @ p["w"] + p["b"] ** 2),
    lambda p, z: -2.0 * (z[1] - z[0] @ p["w"] - p["b"]) ** 2,
)
START = {"w": jnp.zeros(3), "b": jnp.zeros(())}
DESIGN = np.column_stack([X, np.ones(300)])
EXACT = np.linalg.solve(4 * DESIGN.T @ DESIGN + np.eye(4), 4 * DESIGN.T @ Y)


@pytest.mark.parametrize(
    "options,error",
    [
        ({}, 1e-3),
        ({"batcher": Uniform(50)}, 2e-2),
        ({"optimizer": optax.adam(0.05), "num_steps": 500}, 1e-2),
    ],
    ids=["L-BFGS", "minibatches", "adam"],
)
def test_the_mode_of_a_regression(options, error):
    mode = find_mode(KEY, MODEL, START, (X, Y), **options)
    found = np.append(mode["w"], mode["b"])
    np.testing.assert_allclose(found, EXACT, atol=error)


def test_find_mode_refuses():
    with pytest.raises(TypeError, match="model must be a Model"):
        find_mode(KEY, lambda p: 0.0, START, (X, Y))
    with pytest.raises(TypeError, match="position"):
        find_mode(KEY, MODEL, {"w": jnp.zeros(3, int), "b": jnp.zeros(())}, (X, Y))
    with pytest.raises(ValueError, match="data"):
        find_mode(KEY, MODEL, START, (X * np.nan, Y))
    for wrong in (1e-2, optax.adam):
        with pytest.raises(TypeError, match="optimizer must be None or a GradientTransformation"):
            find_mode(KEY, MODEL, START, (X, Y), optimizer=wrong)
    with pytest.raises(FloatingPointError, match="diverged"):
        find_mode(KEY, MODEL, START, (X, Y), optimizer=optax.sgd(1e3), num_steps=100)


def test_a_polynomial_decay():
    decay = PolynomialDecay(0.1, offset=2.0, power=0.6)(jnp.arange(20))
    np.testing.assert_allclose(decay, 0.1 * (2.0 + np.arange(20)) ** -0.6, rtol=1e-5)


DECAYS = {
    "a step late": lambda self, count: self.scale * (self.offset + count + 1) ** -self.power,
    "offset of 1": lambda self, count: self.scale * (1.0 + count) ** -self.power,
    "power of 1/3": lambda self, count: self.scale * (self.offset + count) ** (-1 / 3),
}


@pytest.mark.parametrize("fault", DECAYS)
def test_another_decay_is_seen(fault, monkeypatch):
    monkeypatch.setattr(PolynomialDecay, "__call__", DECAYS[fault])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_a_polynomial_decay()


def test_schedules():
    cycle = Cyclical(0.1, cycle_length=5)(jnp.arange(20))
    np.testing.assert_allclose(cycle[:5], 0.05 * (np.cos(np.pi * np.arange(5) / 5) + 1), rtol=1e-5)
    np.testing.assert_allclose(cycle[5:10], cycle[:5])
    for wrong in [{"scale": -1.0}, {"scale": 1.0, "power": 1.5}, {"scale": 1.0, "offset": 0.0}]:
        with pytest.raises(ValueError, match="scale|power|offset"):
            PolynomialDecay(**wrong)
    with pytest.raises(ValueError, match="cycle_length"):
        Cyclical(0.1, cycle_length=0)


def test_positions_and_data_of_other_precisions(x64):
    """As `sample` takes them: float32 positions, and items in float64."""
    model = LinearModel(lambda w: -0.5 * w @ w, lambda eta, y: -0.5 * (y - eta) ** 2)
    data = np.float64(X), np.float64(Y)
    start = jnp.zeros(3, jnp.float32)
    assert find_mode(KEY, model, start, data, batcher=Uniform(10)).dtype == jnp.float32
    changed = Transformed(model, "real")
    grad = Minibatch(changed, Uniform(10))
    assert grad.estimate(KEY, (), start, data)[0].value.dtype == jnp.float32
