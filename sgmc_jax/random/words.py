"""Counter-based random words: a word depends on its key, lane and round, on nothing else."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Integer, UInt, UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def word_keys(key: jax.Array, count: int) -> list[tuple[UInt32[Array, ""], UInt32[Array, ""]]]:
    """Derive `count` cipher keys, of two 32-bit words each, from a JAX key of any kind."""
    bits = jax.random.bits(key, (count, 2), jnp.uint32)
    return [(bits[i, 0], bits[i, 1]) for i in range(count)]


def threefry(
    key: tuple[UInt32[Array, ""], UInt32[Array, ""]],
    x0: UInt32[Array, "*n"],
    x1: UInt32[Array, "*n"],
) -> tuple[UInt32[Array, "*n"], UInt32[Array, "*n"]]:
    """Threefry 2x32 with 20 rounds (Salmon et al., 2011), unrolled so that XLA fuses it."""
    schedule = (*key, key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA))
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << jnp.uint32(r)) | (x1 >> jnp.uint32(32 - r))) ^ x0
        x0 = x0 + schedule[(i + 1) % 3]
        x1 = x1 + schedule[(i + 2) % 3] + jnp.uint32(i + 1)
    return x0, x1


def word_pair(
    key, lane: UInt32[Array, "*n"], count: Integer[Array, "..."] | int, dtype: DTypeLike
) -> tuple[UInt[Array, "*n"], UInt[Array, "*n"]]:
    """Two words a lane, as wide as `dtype`, for the `count`-th use of this key by the lane.

    Those of half precision have the words of single precision, of which their numbers are rounded.
    """
    count = jnp.asarray(count, jnp.uint32)
    if _wide(dtype) == jnp.float32:
        return threefry(key, lane, jnp.broadcast_to(count, lane.shape))

    def wide(block):
        count_of_block = jnp.broadcast_to(2 * count + jnp.uint32(block), lane.shape)
        return _joined(threefry(key, lane, count_of_block))

    return wide(0), wide(1)


def word(key, lane: UInt32[Array, "*n"], dtype: DTypeLike) -> UInt[Array, "*n"]:
    """One word a lane, as wide as `dtype`: of a narrow one, the first half of the cipher text."""
    pair = threefry(key, lane, jnp.zeros_like(lane))
    return pair[0] if _wide(dtype) == jnp.float32 else _joined(pair)


def _wide(dtype: DTypeLike) -> Any:
    return jnp.promote_types(dtype, jnp.float32)


def _joined(pair: tuple[UInt32[Array, "*n"], UInt32[Array, "*n"]]) -> UInt[Array, "*n"]:
    high, low = pair
    return (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)


def low_byte(word: UInt[Array, "*n"], dtype: DTypeLike) -> Float[Array, "*n"]:
    """The eight bits of a word that `symmetric` and `normal` leave unused."""
    return (word & word.dtype.type(0xFF)).astype(jnp.int32).astype(dtype)


def uniform(word: UInt[Array, "*n"], dtype: DTypeLike) -> Float[Array, "*n"]:
    """Uniform on (0, 1], fine near 0: 2**-32 in float32."""
    if (wide := _wide(dtype)) != dtype:
        return jnp.maximum(uniform(word, wide).astype(dtype), jnp.finfo(dtype).tiny)
    drop, signed = (1, jnp.int32) if dtype == jnp.float32 else (11, jnp.int64)
    kept = lax.shift_right_logical(word, word.dtype.type(drop)).astype(signed).astype(dtype)
    return (kept + 0.5) * 2.0 ** (drop - jnp.iinfo(signed).bits)


def symmetric(word: UInt[Array, "*n"], dtype: DTypeLike) -> Float[Array, "*n"]:
    """Uniform on (-1, 1), symmetric, never 0 nor an end point."""
    if (wide := _wide(dtype)) != dtype:
        most = 1 - jnp.finfo(dtype).epsneg
        return jnp.clip(symmetric(word, wide).astype(dtype), -most, most)
    drop, signed = (8, jnp.int32) if dtype == jnp.float32 else (11, jnp.int64)
    kept = lax.shift_right_arithmetic(lax.bitcast_convert_type(word, signed), signed(drop))
    return (kept.astype(dtype) + 0.5) * 2.0 ** (drop + 1 - jnp.iinfo(signed).bits)


def normal(word: UInt[Array, "*n"], dtype: DTypeLike) -> Float[Array, "*n"]:
    """Standard normal by inversion, never exactly 0."""
    return (2.0**0.5 * lax.erf_inv(symmetric(word, _wide(dtype)))).astype(dtype)


def item_uniforms(
    key: jax.Array, index: Integer[Array, "*n"], dtype: DTypeLike
) -> Float[Array, "*n"]:
    """A number in (0, 1] for each item, by its global index alone."""
    (cipher,) = word_keys(key, 1)
    return uniform(word_pair(cipher, index.astype(jnp.uint32), 0, dtype)[0], dtype)


def slot_item_uniforms(
    cipher: tuple[UInt32[Array, ""], UInt32[Array, ""]],
    capacity: int,
    index: Integer[Array, " n"],
    dtype: DTypeLike,
) -> Float[Array, "K n"]:
    """A number in (0, 1] for each slot and item, (K, n), by the slot and the item's global index.

    Drawn before a loop over slots: in the loop XLA repeats the cipher for each use of its words.
    """
    index = index.astype(jnp.uint32)
    lanes = jnp.broadcast_to(index, (capacity, *index.shape))
    slots = jnp.arange(capacity, dtype=jnp.uint32)[:, None]
    return uniform(word_pair(cipher, lanes, slots, dtype)[0], dtype)
