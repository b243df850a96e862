"""Modified Bessel functions of the first kind, of any order, to float32's last digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import gammaln as host_gammaln

from . import _checks

_STIRLING_FROM = {"float32": 4.0, "float64": 16.0}
_DEBYE = (  # the coefficients of p^k, p^(k+2), ... of u_k
    (1 / 8, -5 / 24),
    (9 / 128, -77 / 192, 385 / 1152),
    (75 / 1024, -4563 / 5120, 17017 / 9216, -85085 / 82944),
    (3675 / 32768, -96833 / 40960, 144001 / 16384, -7436429 / 663552, 37182145 / 7962624),
)
_STEPS = {"float32": 10, "float64": 24}  # how far above its order a function is expanded


def log_bessel_i(order: ArrayLike, argument: ArrayLike) -> Float[Array, "..."]:
    """The logarithm of the modified Bessel function of the first kind, log I_nu(x).

        I_nu(x) = (x/2)^nu / Gamma(nu + 1) * 0F1(; nu + 1; x^2/4),
        d/dx log I_nu(x) = I_{nu+1}(x) / I_nu(x) + nu / x.

    The logarithm of the first factor is summed as nu (log(x / 2 nu) + 1) and a remainder, that of
    the second is `log_bessel_series`: they are of the size of nu or x, where log Gamma alone is
    larger. In float32 the error is at most 3e-7 of max(1, |log I|); near the x at which log I
    changes sign, what a unit in the last place of x makes of it.

    Args:
        order: nu >= -1/2, whole or not; a number or an array. The log Gamma of one with values is
            found in double precision, of one that is traced in its own. There is no derivative
            in it.
        argument: x >= 0, of a shape that broadcasts against `order`.

    Returns:
        An array of the broadcast shape, float32 or wider. At x = 0 it is 0 for nu = 0, -inf above
        and inf below; NaN where nu or x is out of its range.

    Raises:
        TypeError: a derivative in `order` is asked for.

    Example:
        >>> float(log_bessel_i(0.5, 2.0))  # log(sqrt(2 / (pi 2)) sinh(2))
        0.71600
        >>> import jax
        >>> float(jax.grad(log_bessel_i, argnums=1)(0.0, 2.0))  # I_1(2) / I_0(2)
        0.697775

    Reference:
        Abramowitz and Stegun (1964), 9.6.10 and 9.6.47.
    """
    nu, x = _arguments(order, argument)
    a = jnp.maximum(nu, 1)
    scaled = jnp.where(nu == 0, a, x) / (2 * a)
    power = jnp.where(nu == 0, 0, nu * (jnp.log(scaled) + 1))
    known = _checks.is_concrete(order)
    constant = _gamma_remainder(np.asarray(order, nu.dtype) if known else nu)
    return power - constant + _log_series(nu, x)


def bessel_ratio(order: ArrayLike, argument: ArrayLike) -> Float[Array, "..."]:
    """The ratio of modified Bessel functions, A_nu(x) = I_{nu+1}(x) / I_nu(x).

    It is the mean of mu'x under the von Mises-Fisher law in d = 2 nu + 2 dimensions, and rises from
    0 to 1. Its relative error is at most 3e-7 in float32, 1e-13 in float64. Its derivative

        A' = 1 - A^2 - (2 nu + 1) A / x = (1 + x A_{nu+1}) / (2 nu + 2 + x A_{nu+1}) - A^2

    is as exact as numbers of size 1 are: where A nears 1, A' is small and keeps fewer digits.

    Args:
        order: nu >= -1/2, whole or not; a number or an array. There is no derivative in it.
        argument: x >= 0, of a shape that broadcasts against `order`.

    Returns:
        An array of the broadcast shape, float32 or wider; NaN where nu or x is out of its range.

    Raises:
        TypeError: a derivative in `order` is asked for.

    Example:
        >>> float(bessel_ratio(0.5, 2.0))  # coth(2) - 1 / 2
        0.537315

    Reference:
        Amos (1974), Computation of modified Bessel functions and their ratios.
    """
    return _ratio(*_arguments(order, argument))


def log_bessel_series(
    order: ArrayLike, argument: ArrayLike, *, scaled: bool = False
) -> Float[Array, "..."]:
    """Phi_nu(x) = log 0F1(; nu + 1; x^2/4), the log of I_nu(x) over the first term of its series.

    It is 0 at x = 0 and has the derivative A_nu(x) of `bessel_ratio`. With w = sqrt(n^2 + x^2),
    s = x^2 / (w + n) and the sum S of Debye's expansion, at an order n = nu + 10 (24 in float64)

        Phi_n = s - n log(1 + s/2n) - log(1 + s/n) / 2 + log(1 + S(n/w)) - log(1 + S(1)),

    and below it Phi_m = Phi_{m+1} + log(1 + x A_{m+1} / 2(m + 1)). All n - nu factors of these
    recurrences are divided by 1 + s/2n, which leaves nu log(1 + s/2n), and a product that is never
    large. The error is at most 3e-7 of max(1, Phi) in float32, 1e-9 in float64.

    Args:
        order: nu >= -1/2, whole or not; a number or an array. There is no derivative in it.
        argument: x >= 0, of a shape that broadcasts against `order`.
        scaled: return Phi_nu(x) - x, without the rounding of a difference, and with the derivative
            A_nu(x) - 1, for nu >= 0 to 1e-5 of itself.

    Returns:
        An array of the broadcast shape, float32 or wider; NaN where nu or x is out of its range.

    Raises:
        TypeError: a derivative in `order` is asked for.

    Example:
        >>> float(log_bessel_series(0.5, 2.0))  # log(sinh(2) / 2)
        0.595220

    Reference:
        Abramowitz and Stegun (1964), 9.7.7 and 9.1.27.
    """
    _checks.truth("scaled", scaled)
    return (_log_scaled_series if scaled else _log_series)(*_arguments(order, argument))


def _arguments(
    order: ArrayLike, argument: ArrayLike
) -> tuple[Float[Array, "*b"], Float[Array, "*b"]]:
    """Both in one floating type and shape, NaN where either is out of its range."""
    nu, x = _checks.broadcasting(order=order, argument=argument)
    dtype = jnp.promote_types(jnp.result_type(nu, x, float), jnp.float32)
    nu, x = nu.astype(dtype), x.astype(dtype)
    nu = jnp.where((nu >= -0.5) & (nu < jnp.inf), nu, jnp.nan)
    x = jnp.where((x >= 0) & (x < jnp.inf), x, jnp.nan)
    nu, x = jnp.broadcast_arrays(nu, x)
    return nu, x


def _gamma_remainder(nu: Float[Array | np.ndarray, "*b"]) -> Float[Any, "*b"]:
    """log Gamma(nu + 1) - nu log max(nu, 1) + nu; of NumPy's arrays in double precision."""
    if isinstance(nu, np.ndarray):
        return _exact_remainder(nu.astype(np.float64)).astype(nu.dtype)
    edge = _STIRLING_FROM[str(nu.dtype)]
    z, a = jnp.maximum(nu, edge), jnp.minimum(nu, edge)
    u = 1 / (z * z)
    tail = (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u / 1188)))) / z
    large = (math.log(2 * math.pi) + jnp.log(z)) / 2 + tail
    if nu.dtype == jnp.float32:  # JAX's log Gamma is off by 3e-7 there
        small = jnp.where(a < 1, *(_value(polynomial, a) for polynomial in _POLYNOMIALS))
    else:
        small = gammaln(a + 1) - a * jnp.log(jnp.maximum(a, 1)) + a
    return jnp.where(nu >= edge, large, small)


def _exact_remainder(nu: Float[np.ndarray, "*b"]) -> Float[Any, "*b"]:
    return host_gammaln(nu + 1) - nu * np.log(np.maximum(nu, 1)) + nu


_POLYNOMIALS = [  # of the remainder, below and above the kink that max(nu, 1) makes
    np.polynomial.Chebyshev.interpolate(_exact_remainder, 16, domain).convert(
        domain=domain, kind=np.polynomial.Polynomial, window=(-1, 1)
    )
    for domain in ((-0.5, 1.0), (1.0, 4.0))
]


def _value(polynomial: np.polynomial.Polynomial, x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    start, slope = map(float, polynomial.mapparms())  # of the domain to (-1, 1)
    return jnp.polyval(jnp.asarray(polynomial.coef[::-1], x.dtype), start + slope * x)


class _Values(NamedTuple):
    """Phi = head + rest, Phi - x = rest - lag, the ratio A and its complement 1 - A."""

    head: Float[Array, "*b"]
    lag: Float[Array, "*b"]
    rest: Float[Array, "*b"]
    ratio: Float[Array, "*b"]
    complement: Float[Array, "*b"]


@jax.jit
def _values(nu: Float[Array, "*b"], x: Float[Array, "*b"]) -> _Values:
    steps = _STEPS[str(x.dtype)]
    n = nu + steps
    w = jnp.hypot(n, x)
    p, total, above = n / w, n + w, n / (w + x) * n  # `above` is w - x
    debye, slope = _debye(p, n)
    start = _debye(jnp.ones_like(p), n)[0]
    small = x / w / (2 * w) + p * (x / w) / w * slope / (1 + debye)
    ratio, complement = x / total - small, (n + above) / total + small
    head = x * (x / total)
    mean = head / (2 * n)
    product = jnp.zeros_like(x)  # less 1; its factors, over 1 + mean, are at most n / m
    for step in range(steps, 0, -1):
        twice = 2 * (nu + step)
        factor = (x * ratio / twice - mean) / (1 + mean)
        product = product + factor + product * factor
        complement = (twice - x * complement) / (twice + x * ratio)
        ratio = x / (twice + x * ratio)
    rest = jnp.log1p((debye - start) / (1 + start)) - jnp.log1p(head / n) / 2
    rest = rest + jnp.log1p(product) - nu * jnp.log1p(mean)
    ratio = jnp.where(complement < 0.1, 1 - complement, ratio)
    return _Values(head, x * ((n + above) / total), rest, ratio, complement)


def _debye(
    p: Float[Array, "*b"], n: Float[Array, "*b"]
) -> tuple[Float[Array, "*b"], Float[Array, "*b"]]:
    """The sum of u_k(p) / n^k over k = 1 to 4, and its derivative in p."""
    total, slope = jnp.zeros_like(p), jnp.zeros_like(p)
    for k, coefficients in reversed(list(enumerate(_DEBYE, start=1))):
        value = derivative = jnp.zeros_like(p)
        for j, c in reversed(list(enumerate(coefficients))):  # of p^(k + 2j)
            value, derivative = value * (p * p) + c, derivative * (p * p) + (k + 2 * j) * c
        total = (total + value * p**k) / n
        slope = (slope + derivative * p ** (k - 1)) / n
    return total, slope


def _differentiable(function: Callable, derivative: Callable) -> Callable:
    """The function of (nu, x) with that derivative in x, and none in nu."""
    function = jax.custom_jvp(function)

    def rule(primals, tangents):
        if not isinstance(tangents[0], SymbolicZero):
            raise TypeError("Bessel functions have no derivative in their order here")
        return function(*primals), derivative(*primals) * tangents[1]

    function.defjvp(rule, symbolic_zeros=True)
    return function


def _ratio_slope(nu: Float[Array, "*b"], x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    growth = x * _ratio(nu + 1, x)
    return (1 + growth) / (2 * nu + 2 + growth) - _ratio(nu, x) ** 2


_ratio = _differentiable(lambda nu, x: _values(nu, x).ratio, _ratio_slope)
_complement = _differentiable(
    lambda nu, x: _values(nu, x).complement, lambda nu, x: -_ratio_slope(nu, x)
)


def _series(nu: Float[Array, "*b"], x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    values = _values(nu, x)
    return values.head + values.rest


def _scaled_series(nu: Float[Array, "*b"], x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    values = _values(nu, x)
    return values.rest - values.lag


_log_series = _differentiable(_series, _ratio)
_log_scaled_series = _differentiable(_scaled_series, lambda nu, x: -_complement(nu, x))
