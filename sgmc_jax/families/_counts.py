"""Log likelihoods of counts, in digits of their own where the counts are large.

In float32 a sum x log m - m of counts near 10^6 has an error of about 1. Where m is near x, its
difference from what it is at m = x, a deviance, has the digits of m - x.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Float

from ..arrays import columns_by_chunks, largest_of_batch
from ..count_densities import deviance, log_factorial, log_stirling
from ._inputs import lost_from

_LARGE = 1e4  # the sum of a row from which on float32 holds no log likelihood to a hundredth
_STIRLING_FROM = 8


def by_size(
    x: Float[Array, "n d"],
    large: Callable[[], Array],
    small: Callable[[], Array],
    limit: float | None = None,
) -> Float[Array, "..."]:
    """`large()` of rows whose sum is, and of others `small()`, which may be a product of matrices.

    The numbers of a row are its own, whatever else is in the call.
    """
    own = jnp.sum(x, axis=1) > lost_from(_LARGE if limit is None else limit, x.dtype)
    some = largest_of_batch(jnp.any(own))
    return jax.lax.cond(some, lambda: jnp.where(own, large(), small()), small)


def less_deviances(
    x: Float[Array, "n d"], log_mean: Float[Array, "k d"], scale: Float[Array, " n"]
) -> Float[Array, "k n"]:
    """-sum_d D(x_nd, s_n m_kd), D(x, m) = x log(x / m) - x + m: Poisson log likelihoods less
    those at the means x."""

    def chunk(rows: Float[Array, "n columns"]) -> Float[Array, "k n"]:
        counts, scale = rows[:, :-1], rows[:, -1:]
        of = lambda log: deviance(counts, scale * jnp.exp(log), jnp.log(scale) + log)
        return -jax.lax.map(lambda log: jnp.sum(of(log), axis=1), log_mean)

    rows = jnp.concatenate([x, scale[:, None]], axis=1)
    return columns_by_chunks(chunk, rows, len(log_mean), 8 * rows.shape[1])


def at_their_means(x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """sum_d log P(x_d) of Poisson laws with the means x_d: x log x - x - log x!."""
    far = x >= _STIRLING_FROM
    near = jnp.where(far, 0, x)
    few = log_factorial(near) - xlogy(near, near) + near
    return -jnp.sum(jnp.where(far, log_stirling(jnp.where(far, x, _STIRLING_FROM)), few), axis=1)
