"""Log probabilities of counts by saddle points, which keep their digits where counts are large."""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .special import log_rising_factorial, stirling_remainder

_FROM = 30.0  # counts from which on saddle points are taken
_FAR = 1e-3  # of a count, to a mean


def log_factorial(k: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log k!, exactly 0 of 0 and 1, of which a sum may have many."""
    return jnp.where(k > 1, jax.lax.lgamma(k + 1), 0.0)


def log_poisson(count: ArrayLike, log_rate: ArrayLike) -> Float[Array, "..."]:
    """log P(k) of a Poisson law, k log r - r - log k!, in digits of its own also at large rates.

    In float32 the terms cancel, at r = 1e6 to a unit of the whole: where k and r are large,

        -r phi((k - r) / r) - log k! + k log k - k,   phi(y) = (1 + y) log(1 + y) - y.

    The derivative with respect to log r is k - r.

    Example:
        >>> round(float(log_poisson(2, 0.0)), 4)  # log(1 / 2e)
        -1.6931

    Reference:
        Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    k, log_rate = jnp.broadcast_arrays(jnp.asarray(count), jnp.asarray(log_rate))
    dtype = jnp.result_type(log_rate, float)
    k, log_rate = k.astype(dtype), log_rate.astype(dtype)
    rate = jnp.exp(log_rate)
    plain = jnp.where(k > 0, k * log_rate, 0.0) - rate
    far = (k > _FROM) & (rate > 1) & (rate < jnp.inf)
    big, r = jnp.where(far, k, _FROM), jnp.where(far, rate, _FROM)
    near = -deviance(big, r) - log_stirling(big)
    value = jnp.where(far, near, plain - log_factorial(k))
    # its derivative alone, k - r, which is large where r overflows, and no NaN
    most = 0.9 * math.log(float(jnp.finfo(dtype).max))
    slope = jnp.where(jnp.isfinite(log_rate), log_rate, 0.0)
    held = jax.lax.stop_gradient(jnp.clip(log_rate, -most, most) - slope) + slope
    plain = jnp.where(k > 0, k * held, 0.0) - jnp.exp(held)
    return jax.lax.stop_gradient(value) + (plain - jax.lax.stop_gradient(plain))


def log_negative_binomial(
    count: ArrayLike, size: ArrayLike, rate: ArrayLike
) -> Float[Array, "..."]:
    """log P(k), k ~ Poisson(l), l ~ Gamma(size, rate), in digits of its own also for large k.

    With n the size, N = n + k and p = rate / (1 + rate), where k and n are large,

        -D(n, N p) - D(k, N (1 - p)) + c(N) - c(n) - c(k) + log(n / (2 pi N k)) / 2,

    D(x, m) = m phi((x - m) / m), c(z) = 1 / (12 z) - ... the remainder of Stirling's formula; else
    by rising factorials.

    Example:
        >>> round(float(log_negative_binomial(0, 5.0, 3.0)), 4)  # 5 log(3 / 4)
        -1.4384

    Reference:
        Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    k, n, rate = jnp.broadcast_arrays(*map(jnp.asarray, (count, size, rate)))
    dtype = jnp.result_type(n, rate, float)
    k, n, rate = k.astype(dtype), n.astype(dtype), rate.astype(dtype)
    far = (k > _FROM) & (n > _FROM)
    big, m = jnp.where(far, k, _FROM), jnp.where(far, n, _FROM)
    both, odds = big + m, 1 / (1 + rate)
    near = -deviance(m, both * (rate * odds)) - deviance(big, both * odds)
    near = near + stirling_remainder(both) - stirling_remainder(m) - stirling_remainder(big)
    near = near + (jnp.log(m / both) - jnp.log(2 * math.pi * big)) / 2
    # Gamma(n + k) / (Gamma(n) k!): where k is large and n is not, without factorials of k
    many = (k > _FROM) & ~far
    ratio = log_rising_factorial(jnp.where(many, k + 1, n), jnp.where(many, n - 1, k))
    least = jax.lax.lgamma(jnp.where(many, n, k + 1))
    least = jnp.where(many | (k > 1), least, 0.0)  # of 1 it would be rounded
    few = ratio - least - n * jnp.log1p(1 / rate) - k * jnp.log1p(rate)
    return jnp.where(far, near, few)


def deviance(x: ArrayLike, mean: ArrayLike, log_mean: ArrayLike | None = None) -> Array:
    """x log(x / mean) - x + mean, which is small where these are large and near each other.

    A mean that may underflow comes with its logarithm.
    """
    return _deviance(x, mean, jnp.log(mean) if log_mean is None else log_mean)


@jax.custom_jvp
def _deviance(x: Array, mean: Array, log_mean: Array) -> Array:
    far = mean <= _FAR * x  # there x / mean may overflow
    relative = (x - mean) / jnp.where(far, 1.0, mean)
    # a GPU's quotient may be rounded below -1
    near = mean * phi(jnp.where(far, 0.0, jnp.maximum(relative, -1)))
    return jnp.where(far, jnp.where(x > 0, x * _log_ratio(x, mean, log_mean), 0) - x + mean, near)


def _log_ratio(x: Array, mean: Array, log_mean: Array) -> Array:
    return jnp.where(mean <= _FAR * x, jnp.log(x) - log_mean, jnp.log(x / mean))


# that of phi is none at x = 0
_deviance.defjvps(
    lambda t, _, x, mean, log_mean: t * jnp.where(x > 0, _log_ratio(x, mean, log_mean), 0),
    None,
    lambda t, _, x, mean, log_mean: t * (mean - x),
)


def phi(y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """(1 + y) log(1 + y) - y for y >= -1, by a series where y is small."""
    series = jnp.zeros_like(y)
    for n in range(13, 1, -1):
        series = series * y + (-1 if n % 2 else 1) / (n * (n - 1))
    small = jnp.abs(y) < 0.1
    far = jnp.where(small, 1.0, y)
    return jnp.where(small, series * y**2, xlogy(1 + far, 1 + far) - far)


def log_stirling(k: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log k! - k log k + k, for k >= 8."""
    return jnp.log(2 * math.pi * k) / 2 + stirling_remainder(k)
