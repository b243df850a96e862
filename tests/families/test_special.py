"""Log rising factorials against exact values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, exp1, gammaln

from sgmc_jax import special
from sgmc_jax.special import exponential_integral, log_rising_factorial

X = np.array([1e-6, 1e-3, 0.5, 1.0, 7.3, 15.9, 16.0, 40.0, 1e3, 1e6])
N = np.array([0.0, 0.5, 1.0, 3.0, 50.0, 1e4, 1e7])


def exact(x, n):
    """Sums of logarithms for whole n up to 1e4, else Stirling's series far out, in float64."""
    if n == np.floor(n) and n <= 1e4:
        return np.sum(np.log(x + np.arange(int(n))))
    if x < 1e3:
        return gammaln(x + n) - gammaln(x)
    c = lambda z: 1 / (12 * z) - 1 / (360 * z**3)
    return (x - 0.5) * np.log1p(n / x) + n * (np.log(x + n) - 1) + c(x + n) - c(x)


@pytest.mark.parametrize("dtype, rtol", [(np.float32, 3e-6), (np.float64, 1e-12)])
def test_log_rising_factorial(dtype, rtol, x64):
    expected = np.array([[exact(float(dtype(x)), n) for n in N] for x in X])
    value = log_rising_factorial(X.astype(dtype)[:, None], N.astype(dtype))
    assert value.dtype == dtype
    np.testing.assert_allclose(value, expected, rtol=rtol, atol=10 * rtol)
    assert not np.any(value[:, 0])


def test_no_rise_is_none_where_division_is_not_rounded(monkeypatch):
    """As on a GPU, where z / z may be 1 - 6e-8."""
    ratio = special._ratio
    monkeypatch.setattr(special, "_ratio", lambda *args: tuple(1e-7 + x for x in ratio(*args)))
    x = jnp.array([1e-3, 0.5, 3.0, 20.0, 1e6])
    assert not np.any(log_rising_factorial(x, 0.0))
    assert log_rising_factorial(3, 2).dtype == jnp.result_type(float)
    slopes = jax.vmap(jax.grad(log_rising_factorial, (0, 1)), (0, None))(x, 0.0)
    np.testing.assert_allclose(slopes, [np.zeros(5), digamma(x)], rtol=1e-5, atol=1e-6)


def test_what_the_difference_of_logarithms_gets_wrong():
    value = log_rising_factorial(jnp.float32(1e6), jnp.float32(0.5))
    np.testing.assert_allclose(value, 6.9077553, rtol=1e-6)


def test_ratios_that_float32_cannot_hold():
    """Of 1e-38 and 64; and a long way down, to what is left of 1e6."""
    x, n = np.float32([1.3e-38, 1.3e-38, 63.0, 1e6]), np.float32([60.0, 100.0, -62.9, -999999.0])
    expected = gammaln((x + n).astype(float)) - gammaln(x.astype(float))
    np.testing.assert_allclose(log_rising_factorial(x, n), expected, rtol=1e-6)


@pytest.mark.parametrize("x, n", [(20.0, -19.5), (20.0, -4.5), (40.0, -10.0), (17.0, -0.5)])
def test_a_factorial_that_falls(x, n, x64):
    expected = gammaln(x + n) - gammaln(x)
    np.testing.assert_allclose(log_rising_factorial(x, n), expected, rtol=1e-12)
    slopes = jax.grad(log_rising_factorial, (0, 1))(x, n)
    np.testing.assert_allclose(slopes[0], digamma(x + n) - digamma(x), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(slopes[1], digamma(x + n), rtol=1e-5)


def test_an_exponential_integral_of_whole_numbers():
    found = exponential_integral(jnp.array([0, 1]))
    np.testing.assert_allclose(found, exp1(np.exp([0.0, 1.0])), rtol=1e-5)
