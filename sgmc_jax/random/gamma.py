"""Gamma variates and their logarithms, for shapes from 1e-4 to 1e6 and beyond."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .. import _checks
from ._rejection import first_accepted
from .words import low_byte, normal, uniform, word_keys, word_pair


def gamma(key: jax.Array, shape_parameter: ArrayLike) -> Float[Array, "..."]:
    """Draw from the Gamma distribution with unit rate.

    Density x^(k-1) exp(-x) / Gamma(k). With x ~ N(0, 1), t = x / (3 sqrt(d)), d = k - 1/3 and
    U uniform, d (1 + t)^3 is accepted when

        log U < 3 d (log(1+t) - t + t^2/2 - t^3/3),

    and k < 1 uses Gamma(k) = Gamma(k+1) U'^(1/k). Below k = 0.1 or so draws underflow to 0 in
    float32 (42 % of them at k = 0.01): use `log_gamma` there.

    Args:
        key: JAX random key of any kind, typed or raw.
        shape_parameter: k > 0, any array shape. Elsewhere (and at NaN) the draw is NaN.

    Returns:
        Draws of the shape of `shape_parameter`, in its floating-point type (float32 for
        narrower types). Draw i depends only on the key, the flat index i and k_i.

    Raises:
        TypeError: `shape_parameter` is complex.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> gamma(jax.random.key(0), jnp.array([0.3, 1.0, 1e5])).shape
        (3,)

    Reference:
        Marsaglia and Tsang (2000), "A simple method for generating gamma variables". Departures:
        the acceptance test is written without their cancelling terms, which fail in float32 at
        large k, and the uniform is drawn eight bits first, the rest only where they do not decide.
    """
    _checks.random_key(key)
    d, rest = _draw(key, _checks.numbers("shape_parameter", shape_parameter))
    return d * jnp.exp(rest)


def log_gamma(key: jax.Array, shape_parameter: ArrayLike) -> Float[Array, "..."]:
    """Draw the logarithm of a Gamma variate with unit rate; finite for every shape parameter.

    The law of log X with X ~ Gamma(k, 1), density exp(k y - exp(y)) / Gamma(k). The same key
    gives the same draws as `gamma`. For k < 1 the draw is log Gamma(k+1) + log(U) / k.

    Args:
        key: JAX random key of any kind, typed or raw.
        shape_parameter: k > 0, any array shape. Elsewhere (and at NaN) the draw is NaN.

    Returns:
        Draws of the shape of `shape_parameter`, in its floating-point type (float32 for
        narrower types).

    Raises:
        TypeError: `shape_parameter` is complex.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> bool(jnp.isfinite(log_gamma(jax.random.key(0), jnp.full(1000, 1e-4))).all())
        True

    Reference:
        Marsaglia and Tsang (2000), with the departures listed at `gamma`.
    """
    _checks.random_key(key)
    d, rest = _draw(key, _checks.numbers("shape_parameter", shape_parameter))
    return jnp.log(d) + rest


@jax.jit
def _draw(key, k):
    """The two parts of the draws, d NaN where k is no shape parameter."""
    valid = (k > 0) & (k < jnp.inf)
    d, rest = gamma_parts(word_keys(key, 2), jnp.where(valid, k, 1).ravel())
    return jnp.where(valid, d.reshape(k.shape), jnp.nan), rest.reshape(k.shape)


def gamma_parts(keys, k: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Positive d and finite r, shape (n,), with d exp(r) ~ Gamma(k): two cipher keys, k > 0."""
    small = k < 1
    d = jnp.where(small, k + 1, k) - 1 / 3
    lane = jnp.arange(k.size, dtype=jnp.uint32)
    first = _marsaglia_tsang(keys[0], lane, 0, d, only_certain=True)
    rest = first_accepted(first, partial(_marsaglia_tsang, keys[0]), d)
    word, _ = word_pair(keys[1], lane, 0, k.dtype)
    # The floor keeps the quotient finite in float32; no supported k comes near it.
    boost = jnp.log(uniform(word, k.dtype)) / jnp.maximum(k, 1e-30)
    return d, jnp.where(small, rest + boost, rest)


def _marsaglia_tsang(key, lane, count, d, only_certain=False):
    """3 log(1 + t) where round `count` accepts, NaN where it rejects (or is not yet certain)."""
    word, more = word_pair(key, lane, count, d.dtype)
    t = normal(word, d.dtype) / (3 * jnp.sqrt(d))
    log_ratio = 3 * (d * _log1p_remainder(t))  # 3 d may be infinite
    byte = low_byte(word, d.dtype)
    if only_certain:
        accept = (byte + 1) / 256 <= jnp.exp(log_ratio)
    else:
        accept = jnp.log((byte + uniform(more, d.dtype)) / 256) <= log_ratio
    return jnp.where(accept, 3 * jnp.log1p(t), jnp.nan)


def _log1p_remainder(t: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log(1+t) - t + t^2/2 - t^3/3 without cancellation; NaN for t < -1."""
    series = jnp.zeros_like(t)
    for n in range(13, 3, -1):
        series = series * t + (1 if n % 2 else -1) / n
    direct = jnp.log1p(t) - t * (1 - t * (0.5 - t / 3))
    return jnp.where(jnp.abs(t) < 0.1, series * t**4, direct)
