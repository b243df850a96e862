"""Random subsets and permutations of an index range, one index at a time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Integer, UInt32

_ROUNDS = 8
SMALL = 256  # below this a Feistel network is visibly biased, and a sort is cheap


def round_words(key: Any) -> UInt32[Array, "8"]:
    """The random words that fix one permutation."""
    return jax.random.bits(key, (_ROUNDS,), jnp.uint32)


def random_subset(
    key: Any, num: int, size: Any, bound: int | None = None, least: int = 0
) -> Int[Array, "num"]:
    """`num` distinct indices below `size`, uniformly and in random order, in O(num) work.

    The first `num` values of a keyed permutation, see `permute`. If `num` exceeds `size`, the first
    `size` entries are a permutation and the others are to be ignored.

    Args:
        key: a random key.
        num: how many, static.
        size: the length of the range; may be traced.
        bound: a static upper bound of `size`; needed if `size` is traced.
        least: a static lower bound of `size`: above 256 it saves a sort.

    Example:
        >>> import jax
        >>> len(set(random_subset(jax.random.key(0), 100, 1000).tolist()))
        100
    """
    bound = int(size) if bound is None else bound
    last = jnp.maximum(jnp.asarray(size, jnp.int32), 1) - 1
    return permute(round_words(key), jnp.minimum(jnp.arange(num), last), size, bound, least)


def permute(
    words: UInt32[Array, "8"],
    index: Integer[Array, "*n"],
    size: Any,
    bound: int | None = None,
    least: int = 0,
) -> Int[Array, "*n"]:
    """The value of a keyed permutation of `range(size)` at each index, as int32.

    An unbalanced Feistel network on the near-tight domain a 2^b >= size, a = ceil(size / 2^b),
    alternating l <- l + F(r) mod a and r <- r xor G(l); values past the range walk on along their
    cycle until they fall inside, which keeps it a bijection. Ranges up to 256 are sorted by a keyed
    hash instead: so small a network is visibly biased.

    Args:
        words: the eight random words of `round_words`.
        index: integers below `size`.
        size: the length of the range; may be traced.
        bound: a static upper bound of `size`; needed if `size` is traced.
        least: a static lower bound of `size`: above 256 it saves a sort.

    Reference:
        Black and Rogaway (2002), Ciphers with arbitrary finite domains: the generalised Feistel and
        cycle-walking constructions. The round function here is a 32-bit integer hash, not a cipher.
    """
    bound = int(size) if bound is None else bound
    if bound <= SMALL:
        return _sorted(words, size, bound)[index]
    if isinstance(size, int):
        return _walked(words, index, size, _low_bits(size))
    # the domain is that of the size, not of its bound: in one far too wide the network moves half
    # of the bits alone, and the walk back into the range undoes what it did
    size = jnp.asarray(size, jnp.uint32)
    walked = lambda: _walked(words, index, size, _traced_low_bits(size))
    if least > SMALL:
        return walked()
    sort = lambda: _sorted(words, size, SMALL)[jnp.minimum(index, SMALL - 1)]
    return jax.lax.cond(size > SMALL, walked, sort)


def _walked(
    words: UInt32[Array, "8"], index: Integer[Array, "*n"], size: Any, low_bits: Any
) -> Int[Array, "*n"]:
    """The network's values, and of those past the range the next on their cycle inside."""
    size = jnp.asarray(size, jnp.uint32)
    high = jnp.maximum((size + jnp.uint32((1 << low_bits) - 1)) >> low_bits, 1)
    value = _network(words, index.astype(jnp.uint32), high, low_bits)
    # also where nothing can lie past the range: a loop's result is stored, while XLA would
    # otherwise compute the network anew for every element of a gather that uses it
    value = jax.lax.while_loop(
        lambda value: jnp.any(value >= jnp.maximum(size, 1)),
        lambda value: jnp.where(value >= size, _network(words, value, high, low_bits), value),
        value,
    )
    return value.astype(jnp.int32)


def _low_bits(size: int) -> int:
    """About half the bits; of the near halves the one with the fewest values past the range."""
    half = max(1, (size - 1).bit_length() // 2)
    wide_enough = [b for b in range(half + 1, half - 4, -1) if b >= 5 and size >> b < 1 << 15]
    return min(wide_enough or [half], key=lambda b: -size % (1 << b))


def _traced_low_bits(size: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """`_low_bits` of a size above 256."""
    half = (32 - jax.lax.clz(size - 1)) // 2
    bits = half + 1 - jnp.arange(5, dtype=jnp.uint32)
    past = -size % (jnp.uint32(1) << bits)
    wide_enough = (bits >= 5) & (size >> bits < 1 << 15)
    return bits[jnp.argmin(jnp.where(wide_enough, past, jnp.uint32(2**32 - 1)))]


def _sorted(words: UInt32[Array, "8"], size: Any, bound: int) -> Int[Array, " bound"]:
    value = jnp.arange(bound, dtype=jnp.uint32)
    for word in words:
        value = _hash(value ^ word)
    value = jnp.where(jnp.arange(bound) < size, value >> 1, jnp.uint32(2**32 - 1))
    return jnp.argsort(value).astype(jnp.int32)


def _network(
    words: UInt32[Array, "8"], value: UInt32[Array, "*n"], high: UInt32[Array, ""], low_bits: Any
) -> UInt32[Array, "*n"]:
    left, right = value >> low_bits, value & jnp.uint32((1 << low_bits) - 1)
    for i in range(0, _ROUNDS, 2):
        # multiply-high: a 16-bit hash times `high` < 2^16, so that the product fits 32 bits
        left = left + (((_hash(right ^ words[i]) >> 16) * high) >> 16)
        left = jnp.where(left >= high, left - high, left)
        right = right ^ (_hash(left ^ words[i + 1]) >> (32 - low_bits))
    return (left << low_bits) | right


def _hash(x: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    x = x * jnp.uint32(0x9E3779B1)
    x = (x ^ (x >> 15)) * jnp.uint32(0x85EBCA77)
    return x ^ (x >> 13)
