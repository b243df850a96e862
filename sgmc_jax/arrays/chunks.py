"""Rows in chunks whose temporaries stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Num

_CHUNK = 2**19  # numbers in a chunk's temporary, which should stay in the cache


def over_chunks(
    step: Callable, n: int, width: int, carry: Num[Array, "*shape"]
) -> Num[Array, "*shape"]:
    """`step(carry, start, size)` over all rows: a loop over whole chunks, then the rest.

    Example:
        >>> import jax.numpy as jnp
        >>> int(over_chunks(lambda rows, start, size: rows + size, 1000, 10**6, jnp.array(0)))
        1000
    """
    size = max(_CHUNK // max(width, 1), 64)
    whole = n // size
    if whole:
        carry = lax.fori_loop(0, whole, lambda i, carry: step(carry, i * size, size), carry)
    return step(carry, whole * size, n % size) if n % size else carry


def columns_by_chunks(
    function: Callable, rows: Float[Array, "n d"], num_rows: int, width: int
) -> Float[Array, "k n"]:
    """`function(rows) -> (num_rows, n)`, called on chunks; it needs `width` numbers a row.

    Example:
        >>> import jax.numpy as jnp
        >>> rows = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> columns_by_chunks(lambda rows: rows.T, rows, num_rows=2, width=2).tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """

    def fill(out: Float[Array, "k n"], start: Any, size: int) -> Float[Array, "k n"]:
        part = function(lax.dynamic_slice_in_dim(rows, start, size))
        return lax.dynamic_update_slice_in_dim(out, part, start, axis=1)

    n = rows.shape[0]
    return over_chunks(fill, n, width, jnp.zeros((num_rows, n), rows.dtype))
