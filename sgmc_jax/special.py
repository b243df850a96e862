"""Special functions that JAX lacks, rounds badly in float32, or has for other arguments.

What may be tiny or huge comes as its logarithm: `exponential_integral(log_y)` is
`jax.scipy.special.exp1` at e^log_y, and `log1mexp(x)`, of x = log p <= 0, is
`jax.nn.log1mexp(-x)`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, polygamma
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

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
_SERIES_FROM = 16.0  # from which on three terms of digamma's series have all digits
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def log_rising_factorial(x: ArrayLike, n: ArrayLike) -> Float[Array, "..."]:
    """The logarithm of the rising factorial, log Gamma(x + n) - log Gamma(x).

    The two logarithms would cancel (in float32 at x = 1e6, n = 1/2 their difference is 6.0, the
    true one 6.908), so Stirling's series is subtracted term by term:

        (x - 1/2) log(1 + n/x) + n (log(x + n) - 1) + c(x + n) - c(x),
        c(z) = 1/(12 z) - 1/(360 z^3) + ...

    after Gamma(z) = Gamma(z + 8) / (z (z + 1) ... (z + 7)) of what is small.

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
    dtype = jnp.promote_types(jnp.result_type(x, n, float), jnp.float32)
    x, n = x.astype(dtype), n.astype(dtype)
    # from the smaller one up: log(1 + m / z) would cancel at m near -z
    low, high, step = jnp.where(n < 0, x + n, x), jnp.where(n < 0, x, x + n), jnp.abs(n)
    low_moves = low < _STIRLING_FROM
    high_moves = low_moves & (high < 4 * _STIRLING_FROM)  # both, as they cancel where they are near
    z = jnp.where(low_moves, low + 8, low)
    m = jnp.where(low_moves == high_moves, step, step - 8)
    series = (z - 0.5) * jnp.log1p(m / z) + m * (jnp.log(z + m) - 1)
    series = series + stirling_remainder(z + m) - stirling_remainder(z)
    first, others = _ratio(high, low, high_moves, low_moves)
    rising = series - first - others
    # a GPU's z / z is not 1 to the last bit; the slope in n is not 0
    rising = jnp.where(step == 0, rising - jax.lax.stop_gradient(rising), rising)
    return jnp.where(n < 0, -rising, rising)


def _ratio(
    y: Float[Array, "*n"], x: Float[Array, "*n"], of_y: Bool[Array, "*n"], of_x: Bool[Array, "*n"]
) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """The logarithms of y / x, and of (y + 1) ... (y + 7) over that of x; where moved."""
    tiny = lambda z, some: some & (z < 1e-30)  # times 2^40, lest a ratio overflow
    first = lambda z, some: jnp.where(tiny(z, some), z * 2.0**40, jnp.where(some, z, 1.0))
    some_of = lambda z, some: jnp.where(some, z, 1.0)  # others would overflow in the derivatives
    others = lambda z, some: jnp.where(
        some, math.prod(some_of(z, some) + j for j in range(1, 8)), 1.0
    )
    scale = tiny(x, of_x).astype(x.dtype) - tiny(y, of_y).astype(x.dtype)
    log_first = jnp.log(first(y, of_y) / first(x, of_x)) + 40 * math.log(2) * scale
    return log_first, jnp.log(others(y, of_y) / others(x, of_x))


def stirling_remainder(z: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log Gamma(z) less (z - 1/2) log z - z + log(2 pi) / 2, for z >= 8, to double precision."""
    w, series = 1 / (z * z), 0.0
    for coefficient in _STIRLING[::-1]:
        series = coefficient + w * series
    return series / z


def digamma_step(x: Float[Array, "..."], n: Any) -> Float[Array, "..."]:
    """digamma(x + n) - digamma(x), the sum of 1 / (x + i) over i < n, for n >= 0."""
    a, b = 1 / jnp.maximum(x, _SERIES_FROM), 1 / (jnp.maximum(x, _SERIES_FROM) + n)
    # else a difference of nearly equal numbers: by digamma's series, each term's difference
    gap = n * a * b
    series = gap * (1 / 2 + (a + b) / 12 - (a + b) * (a**2 + b**2) / 120)
    return jnp.where(x < _SERIES_FROM, digamma(x + n) - digamma(x), jnp.log1p(n * a) + series)


def trigamma_step(x: Float[Array, "..."], n: Any) -> Float[Array, "..."]:
    """trigamma(x + n) - trigamma(x), for n >= 0."""
    a, b = 1 / jnp.maximum(x, _SERIES_FROM), 1 / (jnp.maximum(x, _SERIES_FROM) + n)
    series = (
        1
        + (a + b) / 2
        + (a**2 + a * b + b**2) / 6
        - (a**4 + a**3 * b + a**2 * b**2 + a * b**3 + b**4) / 30
    )
    short = polygamma(1, x + n) - polygamma(1, x)
    return jnp.where(x < _SERIES_FROM, short, -n * a * b * series)


def log1mexp(x: ArrayLike) -> Float[Array, "..."]:
    """log(1 - e^x) for x <= 0, by whichever of two forms does not cancel.

    Of x = log p it is log(1 - p). `jax.nn.log1mexp` has the other sign, log(1 - e^-x) for x >= 0,
    and so has TensorFlow Probability: `log1mexp(x)` is theirs at -x, and NaN for x > 0.

    Args:
        x: <= 0, of any shape.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> float(log1mexp(-40.0)) == -float(jnp.exp(-40.0))
        True
        >>> [round(float(x), 4) for x in (log1mexp(-1.0), jax.nn.log1mexp(1.0))]
        [-0.4587, -0.4587]

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


def exponential_integral(log_y: ArrayLike) -> Float[Array, "..."]:
    """E_1(y) at y = exp(log_y), the integral of e^-t / t over t > y, to a part in 1e6 in float64.

    In float32 to some 5e-6, and near underflow, at log_y above 4, to some hundredths. It takes the
    logarithm of y; `jax.scipy.special.exp1` takes y itself.

    With t = e^s it is that of exp(-e^s), by 16 panels of Gauss and Legendre's rule up to where it
    is 1e-17 of what it is at y, or at 1; below s = -39 the integrand is 1.

    Example:
        >>> round(float(exponential_integral(0.0)), 5)
        0.21938

    Reference:
        Abramowitz and Stegun (1964), 5.1.1.
    """
    log_y = jnp.asarray(log_y)
    log_y = log_y.astype(jnp.result_type(log_y, float))
    return _tail_integral(lambda s: jnp.exp(-jnp.exp(s)), log_y, _end_of_gamma(log_y))


def incomplete_gamma_tail(log_y: ArrayLike, power: ArrayLike) -> Float[Array, "..."]:
    """Gamma(-d, y) at y = exp(log_y), the integral of t^(-1-d) e^-t over t > y, for d in (0, 1).

    As near as `exponential_integral`, which it nearly is for small d: by the same panels, and below
    s = -39, where e^-t is 1, in closed form.

    Example:
        >>> round(float(incomplete_gamma_tail(0.0, 0.5)), 5)  # 2 / e - 2 Gamma(1/2, 1)
        0.17815

    Reference:
        Abramowitz and Stegun (1964), 6.5.3.
    """
    log_y, d = jnp.broadcast_arrays(jnp.asarray(log_y), jnp.asarray(power))
    dtype = jnp.result_type(log_y, d, float)
    log_y, d = log_y.astype(dtype), d.astype(dtype)
    value = lambda s: jnp.exp(-jnp.exp(s) - d[..., None] * s)
    end = _end_of_gamma(log_y)
    above = _panels(value, jnp.clip(log_y, -_FLAT, end), end)
    below = jnp.minimum(log_y + _FLAT, 0)
    return above + jnp.exp(_FLAT * d) * jnp.expm1(-d * below) / d


def _end_of_gamma(log_y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """From where on exp(-e^s) is 1e-17 of exp(-y), and of its value at s = 0."""
    return jnp.log(jnp.exp(jnp.minimum(log_y, math.log(1e3))) + 40.0)


def softplus_tail(x: ArrayLike, power: ArrayLike) -> Float[Array, "..."]:
    """The integral of (1 + e^t)^-p over t > x.

    One power more, c = p + 1, by panels: with s = t + log c the integrand is 1 below s = -39 and 0
    above 39, and falls from the first s on at least as fast as there, by e^-39 within
    39 / (c sigmoid(x)). One power less costs (1 + e^x)^-p / p.

    Args:
        x: any shape.
        power: p > 0, of a shape that broadcasts against `x`.

    Example:
        >>> round(float(softplus_tail(0.0, 1.0)), 5)  # log 2
        0.69315
    """
    x, p = jnp.broadcast_arrays(*(jnp.asarray(y, jnp.result_type(y, float)) for y in (x, power)))
    c = (p + 1)[..., None]
    value = lambda s: jnp.exp(-c * jax.nn.softplus(s - jnp.log(c)))
    begin, slope = x + jnp.log(c[..., 0]), c[..., 0] * jax.nn.sigmoid(x)
    end = jnp.minimum(_FLAT, jnp.maximum(begin, -_FLAT) + _FLAT / jnp.maximum(slope, 0.5))
    return _tail_integral(value, begin, end) + jnp.exp(-p * jax.nn.softplus(x)) / p


def _tail_integral(
    function: Callable, begin: Float[Array, "*n"], end: ArrayLike
) -> Float[Array, "*n"]:
    """The integral from `begin` on of a function that is 1 below -39, and 0 above `end`."""
    return jnp.maximum(-_FLAT - begin, 0) + _panels(function, jnp.clip(begin, -_FLAT, end), end)


def _panels(function: Callable, first: Float[Array, "*n"], end: ArrayLike) -> Float[Array, "*n"]:
    """The integral of a function from `first` to `end`."""
    width = (end - first) / _PANELS
    nodes = (np.arange(_PANELS)[:, None] + (_NODES + 1) / 2).ravel().astype(first.dtype)
    weights = np.tile(_WEIGHTS / 2, _PANELS).astype(first.dtype)
    values = function(first[..., None] + width[..., None] * nodes)
    return jnp.asarray(width * jnp.sum(weights * values, axis=-1))
