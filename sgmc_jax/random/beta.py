"""Beta variates in log space."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .. import _checks
from .gamma import log_gamma


def log_beta(
    key: jax.Array, a: ArrayLike, b: ArrayLike
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Draw log x and log(1 - x), x ~ Beta(a, b).

    x = g_1 / (g_1 + g_2) with g_1 ~ Gamma(a), g_2 ~ Gamma(b), by the log odds log g_1 - log g_2: so
    the two logarithms belong to one x also where it is near 0 or 1, and none underflows for shapes
    as small as 1e-4.

    Args:
        key: JAX random key of any kind, typed or raw.
        a: shapes > 0. Elsewhere (and at NaN) the draw is NaN.
        b: shapes > 0; broadcast against `a`.

    Returns:
        log x and log(1 - x), of the broadcast shape. Draw i depends only on the key, the flat index
        i, a_i and b_i.

    Raises:
        TypeError: a shape is complex.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> log_x, log_rest = log_beta(jax.random.key(0), jnp.array([0.01, 2.0]), 3.0)
        >>> bool(jnp.allclose(jnp.exp(log_x) + jnp.exp(log_rest), 1.0))
        True

    Reference:
        Devroye (1986), Non-uniform random variate generation, chapter IX, theorem 4.1.
    """
    a, b = jnp.broadcast_arrays(*_checks.broadcasting(a=a, b=b))
    logs = log_gamma(key, jnp.stack((a, b), axis=-1))
    log_odds = logs[..., 0] - logs[..., 1]
    return jax.nn.log_sigmoid(log_odds), jax.nn.log_sigmoid(-log_odds)
