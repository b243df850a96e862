"""Random numbers keyed by slot: those of a row do not depend on how many rows follow it."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt

from .gamma import log_gamma
from .words import normal, uniform, word_keys, word_pair


def slot_normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Standard normals; those of a row do not depend on how many rows follow it.

    `jax.random.normal` is stable in this way only for some kinds of keys and settings; here a
    number depends on the key and its flat index. Those of half precision are rounded.
    """
    return normal(_words(key, shape, dtype), dtype)


def slot_uniform(key: Any, shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Numbers in (0, 1], stable as `slot_normal`."""
    return uniform(_words(key, shape, dtype), dtype)


def _words(key: Any, shape: tuple[int, ...], dtype: Any) -> UInt[Array, "..."]:
    size = math.prod(shape)
    lane = jnp.arange((size + 1) // 2, dtype=jnp.uint32)
    (cipher,) = word_keys(key, 1)
    words = jnp.stack(word_pair(cipher, lane, 0, jnp.dtype(dtype)), axis=1)
    return words.ravel()[:size].reshape(shape)


def slot_log_gamma(key: Any, shape: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """Logarithms of gamma variates, kept where exp(+-y) is finite; stable as `slot_normal`."""
    limit = 0.9 * math.log(float(jnp.finfo(shape.dtype).max))
    return jnp.clip(log_gamma(key, shape), -limit, limit)
