"""Special functions that JAX lacks or rounds badly in float32."""

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import Array

_STIRLING_FROM = 16.0


def log_rising_factorial(x: ArrayLike, n: ArrayLike) -> Array:
    """The logarithm of the rising factorial, log Gamma(x + n) - log Gamma(x).

    For x < 16 the two logarithms are subtracted. From 16 on they would cancel (in float32 at
    x = 1e6, n = 1/2 their difference is 6.0, the true one 6.908), so Stirling's series is
    subtracted term by term:

        (x - 1/2) log(1 + n/x) + n (log(x + n) - 1) + c(x + n) - c(x),
        c(z) = 1/(12 z) - 1/(360 z^3) + 1/(1260 z^5) - 1/(1680 z^7).

    Args:
        x: positive, any shape.
        n: not negative, whole or not, of a shape that broadcasts against `x`.

    Returns:
        An array of the broadcast shape; exactly 0 where n = 0.

    Example:
        >>> float(log_rising_factorial(3.0, 2.0))  # log(3 * 4)
        2.4849

    Reference:
        Abramowitz and Stegun (1964), 6.1.41.
    """
    x, n = jnp.broadcast_arrays(jnp.asarray(x), jnp.asarray(n))
    dtype = jnp.promote_types(jnp.result_type(x, n), jnp.float32)
    x, n = x.astype(dtype), n.astype(dtype)
    large = x >= _STIRLING_FROM
    z, a = jnp.where(large, x, _STIRLING_FROM), jnp.where(large, 1.0, x)
    series = (z - 0.5) * jnp.log1p(n / z) + n * (jnp.log(z + n) - 1)
    return jnp.where(large, series + _remainder(z + n) - _remainder(z), gammaln(a + n) - gammaln(a))


def _remainder(z: Array) -> Array:
    """log Gamma(z) less (z - 1/2) log z - z + log(2 pi) / 2, for z >= 16."""
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / z
