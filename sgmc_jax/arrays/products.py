"""Matrix products in full precision, also on accelerators, and sums of outer products."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Num

from .chunks import over_chunks

_FEW = 2  # sets of weights for which a copy of the rows each costs less than all outer products


def real_array(x: Any) -> Float[Array, "..."]:
    """The array in a floating dtype, float32 or wider.

    Example:
        >>> real_array([1, 2]).tolist()
        [1.0, 2.0]
    """
    x = jnp.asarray(x)
    floating = jnp.issubdtype(x.dtype, jnp.floating)
    return x.astype(jnp.promote_types(x.dtype, jnp.float32) if floating else jnp.result_type(float))


def product(a: Num[Array, "..."], b: Num[Array, "..."]) -> Num[Array, "..."]:
    """The matrix product in full precision, which accelerators do not give unasked.

    Example:
        >>> product(jnp.array([[1.0, 2.0]]), jnp.array([[3.0], [4.0]])).tolist()
        [[11.0]]
    """
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def squared_distances(a: Float[Array, "k d"], b: Float[Array, "n d"]) -> Float[Array, "k n"]:
    """|a_k - b_n|^2, not below zero; in few bits the product would cancel against the squares.

    Example:
        >>> squared_distances(jnp.array([[0.0, 0.0]]), jnp.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[25.0, 0.0]]
    """
    squares = jnp.sum(a * a, axis=1)[:, None] + jnp.sum(b * b, axis=1)
    return jnp.maximum(squares - 2 * product(a, b.T), 0)


def weighted_sum(weight: Float[Array, " n"], rows: Float[Array, "n *d"]) -> Float[Array, "*d"]:
    """sum_n w_n x_n in full precision.

    Example:
        >>> weighted_sum(jnp.array([1.0, 2.0]), jnp.array([[1.0, 0.0], [3.0, 4.0]])).tolist()
        [7.0, 8.0]
    """
    return jnp.tensordot(weight, rows, 1, precision=lax.Precision.HIGHEST)


def outer_products(weights: Num[Array, "k n"], rows: Float[Array, "n d"]) -> Float[Array, "k d d"]:
    """The sums over n of w_kn x_n x_n': a product each for few k, else one a chunk of rows.

    Example:
        >>> outer_products(jnp.array([[1.0, 2.0]]), jnp.array([[1.0, 0.0], [1.0, 3.0]])).tolist()
        [[[3.0, 6.0], [6.0, 18.0]]]
    """
    n, d = rows.shape
    weights = weights.astype(rows.dtype)
    if weights.shape[0] <= _FEW:
        return product((weights[:, :, None] * rows).mT, rows)

    def add(total: Float[Array, "k e"], start: Any, size: int) -> Float[Array, "k e"]:
        x = lax.dynamic_slice_in_dim(rows, start, size)
        w = lax.dynamic_slice_in_dim(weights, start, size, axis=1)
        return total + product(w, (x[:, :, None] * x[:, None, :]).reshape(size, d * d))

    zero = jnp.zeros((weights.shape[0], d * d), rows.dtype)
    return over_chunks(add, n, d * d, zero).reshape(-1, d, d)
