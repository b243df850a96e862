"""Weighted sums over items in chunks of rows, and random numbers keyed by slot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..random import _words, log_gamma

_CHUNK = 2**19  # numbers in a chunk's temporary, which should stay in the cache
_FEW = 2  # sets of weights for which a copy of the rows each costs less than all outer products


class FirstMoments(NamedTuple):
    """Counts of items (K,) and sums over them (K, D), of which some prior mean was subtracted."""

    count: Array
    total: Array


class SecondMoments(NamedTuple):
    """Counts (K,), sums (K, D), and sums of squares (K, D) or of outer products (K, D, D)."""

    count: Array
    total: Array
    square: Array


def real_array(x: Any) -> Array:
    """The array in a floating dtype, float32 or wider."""
    x = jnp.asarray(x)
    floating = jnp.issubdtype(x.dtype, jnp.floating)
    return x.astype(jnp.promote_types(x.dtype, jnp.float32) if floating else jnp.result_type(float))


def product(a: Array, b: Array) -> Array:
    """The matrix product in full precision, which accelerators do not give unasked."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def first_moments(weights: Array, rows: Float[Array, "n d"]) -> FirstMoments:
    """Weighted counts and sums of rows."""
    weights = weights.astype(rows.dtype)
    return FirstMoments(weights.sum(1), product(weights, rows))


def outer_products(weights: Array, rows: Float[Array, "n d"]) -> Float[Array, "k d d"]:
    """The sums over n of w_kn x_n x_n': a product each for few k, else one a chunk of rows."""
    n, d = rows.shape
    weights = weights.astype(rows.dtype)
    if weights.shape[0] <= _FEW:
        return product((weights[:, :, None] * rows).mT, rows)

    def add(total: Array, start: Any, size: int) -> Array:
        x = lax.dynamic_slice_in_dim(rows, start, size)
        w = lax.dynamic_slice_in_dim(weights, start, size, axis=1)
        return total + product(w, (x[:, :, None] * x[:, None, :]).reshape(size, d * d))

    zero = jnp.zeros((weights.shape[0], d * d), rows.dtype)
    return _over_chunks(add, n, d * d, zero).reshape(-1, d, d)


def columns_by_chunks(function: Callable, rows: Array, num_rows: int, width: int) -> Array:
    """`function(rows) -> (num_rows, n)`, called on chunks; it needs `width` numbers a row."""

    def fill(out: Array, start: Any, size: int) -> Array:
        part = function(lax.dynamic_slice_in_dim(rows, start, size))
        return lax.dynamic_update_slice_in_dim(out, part, start, axis=1)

    n = rows.shape[0]
    return _over_chunks(fill, n, width, jnp.zeros((num_rows, n), rows.dtype))


def _over_chunks(step: Callable, n: int, width: int, carry: Array) -> Array:
    """`step(carry, start, size)` over all rows: a loop over whole chunks, then the rest."""
    size = max(_CHUNK // max(width, 1), 64)
    whole = n // size
    if whole:
        carry = lax.fori_loop(0, whole, lambda i, carry: step(carry, i * size, size), carry)
    return step(carry, whole * size, n % size) if n % size else carry


def slot_normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Standard normals; those of a row do not depend on how many rows follow it.

    `jax.random.normal` is stable in this way only for some kinds of keys and settings; here a
    number depends on the key and its flat index.
    """
    size = math.prod(shape)
    lane = jnp.arange((size + 1) // 2, dtype=jnp.uint32)
    (cipher,) = _words.word_keys(key, 1)
    words = jnp.stack(_words.word_pair(cipher, lane, 0, jnp.dtype(dtype)), axis=1)
    return _words.normal(words.ravel()[:size], dtype).reshape(shape)


def slot_log_gamma(key: Any, shape: Array) -> Array:
    """Logarithms of gamma variates, kept where exp(+-y) is finite; stable as `slot_normal`."""
    limit = 0.9 * math.log(float(jnp.finfo(shape.dtype).max))
    return jnp.clip(log_gamma(key, shape), -limit, limit)
