"""The moments of SCIR: identities; their agreement with the chain is a law of its own."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.diagnostics import (
    counts_variance,
    scir_batch_size,
    scir_inflation,
    scir_moments,
    scir_step_size,
)


def test_the_variance_of_counts_by_enumeration():
    counts, n = np.array([1, 2, 3]), 2
    items = np.repeat(np.eye(3), counts, axis=0)
    without = [3.0 * items[list(s)].sum(0) for s in itertools.combinations(range(6), n)]
    with_replacement = [3.0 * items[list(s)].sum(0) for s in itertools.product(range(6), repeat=n)]
    np.testing.assert_allclose(counts_variance(counts, n), np.var(without, axis=0), rtol=1e-5)
    np.testing.assert_allclose(
        counts_variance(counts, n, replace=True), np.var(with_replacement, axis=0), rtol=1e-5
    )


def test_moments_step_by_step():
    """The law of total variance, one step after another, gives the closed form."""
    theta, shape, h, noise = 5.0, 2.0, 0.3, 7.0
    mean, variance, b = theta, 0.0, 1 - np.exp(-h)
    for num_steps in range(1, 6):
        variance = 2 * mean * (np.exp(-h) - np.exp(-2 * h)) + np.exp(-2 * h) * variance
        variance += shape * b**2 + b**2 * noise
        mean = mean * np.exp(-h) + shape * b
        moments = scir_moments(theta, shape, h, num_steps, noise)
        np.testing.assert_allclose(moments, (mean, variance), rtol=1e-5)
    stationary = scir_moments(theta, shape, h, shape_variance=noise)
    np.testing.assert_allclose(stationary, (shape, shape + np.tanh(h / 2) * noise), rtol=1e-6)


@pytest.mark.parametrize("h", [1e-7, 1e-5])
def test_moments_after_a_short_time_in_float32(h):
    moments = scir_moments(1.0, 3.0, h, 1)
    np.testing.assert_allclose(moments.variance, 2 * h * (1 - 1.5 * h) + 3 * h**2, rtol=1e-5)


def test_whole_numbers_beyond_32_bits():
    """Numbers of the host are 64 bits wide: they must not wrap round."""
    many = np.int64(3_000_000_000)
    np.testing.assert_allclose(scir_inflation(0.2, many, 100), np.tanh(0.1) * 3e7, rtol=1e-5)
    np.testing.assert_allclose(scir_step_size(0.1, many, 100), 2 * 0.1 / 3e7, rtol=1e-5)
    few = scir_moments(np.uint8(200), 3.0, 0.1, np.uint32(5))
    np.testing.assert_allclose(few, scir_moments(200.0, 3.0, 0.1, 5.0))
    found = counts_variance(np.array([1_500_000_000] * 2), 100)
    np.testing.assert_allclose(found, 9e18 / 100 / 4, rtol=1e-5)


def test_step_size_and_batch_size_from_an_inflation():
    for inflation, n in [(0.1, 10), (0.1, 100), (0.5, 400)]:
        h = scir_step_size(inflation, 1000, n)
        np.testing.assert_allclose(scir_inflation(h, 1000, n), inflation, rtol=1e-4)
        assert scir_batch_size(inflation, 1000, 0.9999 * h) == n
        assert scir_batch_size(inflation, 1000, 1.01 * h) > n
    assert jnp.isinf(scir_step_size(1.0, 1000, 500)) and jnp.isinf(scir_step_size(0.1, 1000, 1000))


def test_the_variance_of_many_counts():
    """Whose total has a square beyond 32 bits."""
    found = counts_variance(jnp.array([50_000, 50_000]), 100)
    np.testing.assert_allclose(found, 1e10 / 100 / 4 * (1e5 - 100) / (1e5 - 1), rtol=1e-5)
    with pytest.raises(ValueError, match=r"counts must have the shape \(d,\), got \(2, 2\)"):
        counts_variance(jnp.ones((2, 2)), 1)
