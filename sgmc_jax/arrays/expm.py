"""The exponential of small matrices, by products alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .products import product

_MOST_SQUARINGS = 40


def expm(a: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """exp(A): Taylor's polynomial of degree 8 of A / 2^s, four products, then s squarings.

    s is one for all matrices of an array, such that the remainder of the largest is rounding; a
    flow's are small, and s is 0, 1 or 2. `jax.scipy.linalg.expm` solves linear systems, and has
    five branches of which a GPU runs all.

    Args:
        a: matrices, float32 or float64. Not for reverse-mode differentiation.

    Example:
        >>> import jax.numpy as jnp
        >>> expm(jnp.array([[0.0, -jnp.pi / 2], [jnp.pi / 2, 0.0]])).round(4).tolist()
        [[0.0, -1.0], [1.0, 0.0]]

    Reference:
        Higham (2008), Functions of matrices, section 10.3; Paterson and Stockmeyer (1973).
    """
    small = (jnp.finfo(a.dtype).eps * 362_880 / 8) ** (1 / 9)  # |R| < |A|^9 / 9! (1 + ...)
    norm = jnp.max(jnp.sum(jnp.abs(a), axis=-2), initial=0.0)
    wanted = jnp.ceil(jnp.log2(jnp.maximum(norm, small) / small))
    squarings = jnp.clip(jnp.where(norm < jnp.inf, wanted, 0), 0, _MOST_SQUARINGS)
    a = a * jnp.exp2(-squarings).astype(a.dtype)
    unit = jnp.eye(a.shape[-1], dtype=a.dtype)
    a2 = product(a, a)
    a3, a4 = product(a, a2), product(a2, a2)
    high = unit / 24 + a / 120 + a2 / 720 + a3 / 5_040 + a4 / 40_320
    taylor = unit + a + a2 / 2 + a3 / 6 + product(a4, high)
    square = lambda i, e: product(e, e)
    return jax.lax.fori_loop(0, squarings.astype(jnp.int32), square, taylor)
