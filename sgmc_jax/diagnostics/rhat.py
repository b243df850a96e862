"""Rank-normalised split R-hat."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._ranks import map_draws, per_parameter, rank_normalise_folded, split_chains


def rhat(x: Any) -> Any:
    r"""Rank-normalised split R-hat of every parameter, the larger of bulk and folded.

    Each chain is halved and the pooled draws are replaced by the normal scores z of their average
    ranks. With n draws in each half chain, W the mean within-chain variance of z and B/n the
    variance of the chain means,

    R = sqrt((B/W + n - 1) / n).

    The folded value uses |x - median| in place of x and so compares scales.

    Args:
        x: Draws, shape (chain, draw, ...), or a pytree of such arrays; at least 4 draws.

    Returns:
        R-hat, shape (...), or a pytree of such. NaN for a parameter that is constant or has a
        non-finite draw, and for a single chain.

    Raises:
        TypeError: if a leaf is not a real array.
        ValueError: if a leaf lacks the two leading axes or has fewer than 4 draws.

    Example:
        >>> import jax
        >>> from sgmc_jax.diagnostics import rhat
        >>> x = jax.random.normal(jax.random.key(0), (4, 1000))
        >>> bool(rhat(x) < 1.01), bool(rhat(x.at[0].add(1.0)) > 1.05)
        (True, True)

    Reference:
        Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), section 4, as ArviZ's
        method="rank". ArviZ lets infinite draws through and returns NaN below 4 draws; here they
        give NaN and an error.
    """
    return map_draws(_rhat, x)


@jax.jit
def _rhat(x: Float[Array, "chain draw *shape"]) -> Float[Array, "*shape"]:
    if x.shape[0] < 2:
        return jnp.full(x.shape[2:], jnp.nan, x.dtype)
    return per_parameter(_rank_rhat, x)


def _rank_rhat(x: Float[Array, "chain draw"]) -> Float[Array, ""]:
    bulk, tail = map(_plain_rhat, rank_normalise_folded(split_chains(x)))
    # A two-valued parameter folds to a constant (tail is NaN): the bulk value stands.
    return jnp.where(tail > bulk, tail, bulk)


def _plain_rhat(z: Float[Array, "chain draw"]) -> Float[Array, ""]:
    draws = z.shape[1]
    # Measured from each chain's first draw, a stuck chain has a variance of exactly zero.
    start = z[:, :1]
    moved = z - start
    within = jnp.mean(jnp.var(moved, axis=1, ddof=1))
    between = draws * jnp.var(start[:, 0] + jnp.mean(moved, axis=1), ddof=1)
    return jnp.sqrt((between / within + draws - 1) / draws)
