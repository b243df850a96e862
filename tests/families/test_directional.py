"""Log densities of directional laws: their constants, their shape and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, ive

from sgmc_jax.directional import (
    bingham_log_prob,
    matrix_langevin_log_prob,
    von_mises_fisher_log_prob,
)

KAPPA = np.array([1e-3, 1.0, 50.0, 1e3, 1e6])


def unit(d, seed):
    x = np.random.default_rng(seed).normal(size=d)
    return x / np.linalg.norm(x)


def log_peak(d, kappa):
    """log c_d(kappa) + kappa, the log density at the mean, by scipy in float64."""
    nu = d / 2 - 1
    if d == 3:
        return np.log(kappa / (2 * np.pi) / -np.expm1(-2 * kappa))
    return nu * np.log(kappa) - d / 2 * np.log(2 * np.pi) - np.log(ive(nu, kappa))


@pytest.mark.parametrize("dtype, rtol", [(np.float32, 1e-6), (np.float64, 5e-9)])
@pytest.mark.parametrize("d", [2, 3, 10, 64])
def test_the_constant(d, dtype, rtol, x64):
    mean, kappa = unit(d, 0).astype(dtype), KAPPA.astype(dtype)
    value = von_mises_fisher_log_prob(mean, mean, kappa)
    expected = log_peak(d, kappa.astype(float))
    assert value.dtype == dtype
    assert np.all(np.abs(value - expected) <= rtol * np.maximum(10, np.abs(expected)))
    away = von_mises_fisher_log_prob(-mean, mean, kappa)
    np.testing.assert_allclose(away, expected - 2 * kappa.astype(float), rtol=rtol, atol=10 * rtol)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 10_000])
def test_at_zero_it_is_uniform(d):
    x, mean = (jnp.asarray(unit(d, seed), jnp.float32) for seed in (1, 2))
    minus_log_area = gammaln(d / 2) - np.log(2) - d / 2 * np.log(np.pi)
    value, slope = jax.value_and_grad(von_mises_fisher_log_prob, argnums=2)(x, mean, 0.0)
    np.testing.assert_allclose(value, minus_log_area, rtol=1e-6)
    np.testing.assert_allclose(slope, x @ mean, atol=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 2.0, 300.0])
def test_it_integrates_to_one(kappa, x64):
    a = 2 * np.pi * np.arange(4000) / 4000
    circle = np.stack([np.cos(a), np.sin(a)], axis=-1)
    density = np.exp(von_mises_fisher_log_prob(circle, circle[3], kappa))
    np.testing.assert_allclose(2 * np.pi * density.mean(), 1, rtol=1e-8)


def test_derivatives_are_differences(x64):
    x, mean = unit(5, 3), unit(5, 4)
    for kappa in (1e-3, 1.0, 40.0):
        log_prob = lambda k: von_mises_fisher_log_prob(x, mean, k)
        h = 1e-5 * max(kappa, 1e-2)
        difference = (log_prob(kappa + h) - log_prob(kappa - h)) / (2 * h)
        np.testing.assert_allclose(jax.grad(log_prob)(kappa), difference, rtol=1e-5, atol=1e-7)
        # Along the sphere the gradient is that of kappa mu'x.
        gradient = jax.grad(von_mises_fisher_log_prob)(x, mean, kappa)
        project = np.eye(5) - np.outer(x, x)
        np.testing.assert_allclose(project @ gradient, kappa * project @ mean, rtol=1e-9)


def test_float32_derivatives_in_large_concentrations():
    """mu'x - A and -|x - mu|^2 / 2 + 1 - A are the same; the first has no digits left."""
    mean = np.array([1.0, 0.0, 0.0], np.float32)
    x = np.array([1.0, 1e-3, 0.0], np.float32)
    slope = jax.grad(von_mises_fisher_log_prob, argnums=2)(x, mean, 1e6)
    np.testing.assert_allclose(slope, 5e-7, rtol=2e-5)  # 1 / kappa - 1e-6 / 2


def test_shapes_and_ranges():
    x, mean, kappa = jnp.eye(4)[:3], jnp.eye(4)[0], jnp.ones((2, 1))
    assert von_mises_fisher_log_prob(x, mean, kappa).shape == (2, 3)
    mapped = jax.jit(jax.vmap(von_mises_fisher_log_prob, (0, None, None)))(x, mean, 2.0)
    np.testing.assert_allclose(mapped, von_mises_fisher_log_prob(x, mean, 2.0), rtol=1e-6)
    for wrong in (-1.0, jnp.array([1.0, -1.0]), np.inf):
        with pytest.raises(ValueError, match="concentration must be finite and not negative"):
            von_mises_fisher_log_prob(mean, mean, wrong)
    assert np.isnan(jax.jit(von_mises_fisher_log_prob)(mean, mean, -1.0))
    with pytest.raises(ValueError, match="vectors of one length"):
        von_mises_fisher_log_prob(x, jnp.eye(3)[0], 1.0)
    for name, args in (("x", (5 * x, mean)), ("mean_direction", (x, jnp.full(4, jnp.nan)))):
        with pytest.raises(ValueError, match=f"^{name} must have unit length along its last axis"):
            von_mises_fisher_log_prob(*args, 2.0)


def test_bingham():
    x, rng = np.stack([unit(4, seed) for seed in range(6)]).astype(np.float32), np.random
    matrix = rng.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    value = bingham_log_prob(x, matrix)
    np.testing.assert_allclose(value, [v @ matrix @ v for v in x], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(bingham_log_prob(-x, matrix), value)
    shifted = bingham_log_prob(x, matrix + 3 * np.eye(4, dtype=np.float32))
    np.testing.assert_allclose(shifted - value, 3, rtol=1e-5)
    assert bingham_log_prob(x, np.stack([matrix] * 2)[:, None]).shape == (2, 6)
    gradient = jax.grad(bingham_log_prob)(x[0], matrix)
    np.testing.assert_allclose(gradient, (matrix + matrix.T) @ x[0], rtol=1e-5)
    with pytest.raises(ValueError, match="two axes as long as x's last"):
        bingham_log_prob(x, matrix[:3])


def test_matrix_langevin():
    rng = np.random.default_rng(1)
    x = np.linalg.qr(rng.normal(size=(5, 4, 2)))[0].astype(np.float32)
    matrix = rng.normal(size=(4, 2)).astype(np.float32)
    expected = [np.trace(matrix.T @ v) for v in x]
    np.testing.assert_allclose(matrix_langevin_log_prob(x, matrix), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(jax.grad(matrix_langevin_log_prob)(x[0], matrix), matrix)
    with pytest.raises(ValueError, match="matrices of one shape"):
        matrix_langevin_log_prob(x, matrix[:, :1])


def test_one_column_is_von_mises_fisher():
    x, mean = (np.stack([unit(3, s) for s in seeds]).astype(np.float32) for seeds in ((5, 6), (7,)))
    matrix = matrix_langevin_log_prob(x[..., None], 2.5 * mean[0][:, None])
    vector = von_mises_fisher_log_prob(x, mean[0], 2.5)
    np.testing.assert_allclose(matrix[1] - matrix[0], vector[1] - vector[0], rtol=1e-5)
