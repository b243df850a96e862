"""Special functions that JAX lacks or rounds badly in float32."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import Array

from . import _checks
from .bessel import bessel_ratio, log_bessel_i, log_bessel_series

__all__ = [
    "bessel_ratio",
    "exponential_integral",
    "log1mexp",
    "log_bessel_i",
    "log_bessel_series",
    "log_rising_factorial",
    "softplus_tail",
]

_STIRLING_FROM = 16.0


def log_rising_factorial(x: ArrayLike, n: ArrayLike) -> Array:
    """The logarithm of the rising factorial, log Gamma(x + n) - log Gamma(x).

    Where x or x + n is below 16 the two logarithms are subtracted. From there on they would cancel
    (in float32 at x = 1e6, n = 1/2 their difference is 6.0, the true one 6.908), so Stirling's
    series is subtracted term by term:

        (x - 1/2) log(1 + n/x) + n (log(x + n) - 1) + c(x + n) - c(x),
        c(z) = 1/(12 z) - 1/(360 z^3) + 1/(1260 z^5) - 1/(1680 z^7).

    Args:
        x: positive, any shape.
        n: above -x, whole or not, of a shape that broadcasts against `x`.

    Returns:
        An array of the broadcast shape; exactly 0 where n = 0.

    Example:
        >>> float(log_rising_factorial(3.0, 2.0))  # log(3 * 4)
        2.4849

    Reference:
        Abramowitz and Stegun (1964), 6.1.41.
    """
    x, n = jnp.broadcast_arrays(*_checks.broadcasting(x=x, n=n))
    dtype = jnp.promote_types(jnp.result_type(x, n), jnp.float32)
    x, n = x.astype(dtype), n.astype(dtype)
    large = (x >= _STIRLING_FROM) & (x + n >= _STIRLING_FROM)
    z, m = jnp.where(large, x, _STIRLING_FROM), jnp.where(large, n, 0.0)
    series = (z - 0.5) * jnp.log1p(m / z) + m * (jnp.log(z + m) - 1)
    series = series + _remainder(z + m) - _remainder(z)
    a, n = jnp.where(large, 1.0, x), jnp.where(large, 0.0, n)
    return jnp.where(large, series, gammaln(a + n) - gammaln(a))


def _remainder(z: Array) -> Array:
    """log Gamma(z) less (z - 1/2) log z - z + log(2 pi) / 2, for z >= 16."""
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / z


def log1mexp(x: ArrayLike) -> Array:
    """log(1 - e^x) for x <= 0, by whichever of two forms does not cancel.

    Example:
        >>> float(log1mexp(-40.0)) == -float(jnp.exp(-40.0))
        True

    Reference:
        Maechler (2012), Accurately computing log(1 - exp(-|a|)).
    """
    x = jnp.asarray(x)
    near = x > -0.693
    small = jnp.log(-jnp.expm1(jnp.where(near, x, -1.0)))
    return jnp.where(near, small, jnp.log1p(-jnp.exp(jnp.where(near, -1.0, x))))


_PANELS = 16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FLAT = 39.0  # the integrands below are 1 to double precision that far below their shoulder


def exponential_integral(log_y: ArrayLike) -> Array:
    """E_1(y) at y = exp(log_y), the integral of e^-t / t over t > y, to a part in 1e6 or better.

    With t = e^s it is that of exp(-e^s), by 16 panels of Gauss and Legendre's rule up to s = 5;
    below s = -39 the integrand is 1.

    Example:
        >>> round(float(exponential_integral(0.0)), 5)
        0.21938

    Reference:
        Abramowitz and Stegun (1964), 5.1.1.
    """
    log_y = jnp.asarray(log_y)
    log_y = log_y.astype(jnp.result_type(log_y, float))
    return _tail_integral(lambda s: jnp.exp(-jnp.exp(s)), log_y, 5.0)


def softplus_tail(x: ArrayLike, power: ArrayLike) -> Array:
    """The integral of (1 + e^t)^-p over t > x.

    One power more, c = p + 1, by panels: with s = t + log c the integrand is 1 below s = -39 and 0
    above 39. One power less costs (1 + e^x)^-p / p.

    Args:
        x: any shape.
        power: p > 0, of a shape that broadcasts against `x`.

    Example:
        >>> round(float(softplus_tail(0.0, 1.0)), 5)  # log 2
        0.69315
    """
    x, p = jnp.broadcast_arrays(jnp.asarray(x), jnp.asarray(power))
    c = (p + 1)[..., None]
    value = lambda s: jnp.exp(-c * jax.nn.softplus(s - jnp.log(c)))
    return (
        _tail_integral(value, x + jnp.log(c[..., 0]), _FLAT) + jnp.exp(-p * jax.nn.softplus(x)) / p
    )


def _tail_integral(function: Callable, begin: Array, end: float) -> Array:
    """The integral from `begin` on of a function that is 1 below -39, and 0 above `end`."""
    first = jnp.clip(begin, -_FLAT, end)
    width = (end - first) / _PANELS
    nodes = (np.arange(_PANELS)[:, None] + (_NODES + 1) / 2).ravel().astype(begin.dtype)
    weights = np.tile(_WEIGHTS / 2, _PANELS).astype(begin.dtype)
    values = function(first[..., None] + width[..., None] * nodes)
    return jnp.maximum(-_FLAT - begin, 0) + width * jnp.sum(weights * values, axis=-1)
