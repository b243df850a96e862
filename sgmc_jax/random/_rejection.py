"""Vectorised rejection: one pass over all lanes, the few left over gathered once and finished."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

Attempt = Callable[
    [UInt32[Array, " m"], UInt32[Array, ""] | int, Float[Array, " m"]], Float[Array, " m"]
]

_FEW = 512


def first_accepted(
    first: Float[Array, " n"], attempt: Attempt, parameter: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Value of the first accepted attempt of every lane, shape (n,).

    `attempt(lane, round, parameter)` is a pure function that returns NaN where it rejects, and
    `first` holds, for the lanes whose outcome is already known, what the rounds would give, and
    NaN elsewhere. A lane's value therefore does not depend on how lanes are grouped: the buffer
    holds a sixteenth of them, and is filled again in the rare case that more are left. Few lanes
    take every round together, `first` unused: as fast, in half the time to compile.
    """
    n = first.size
    if n <= _FEW:
        nothing = jnp.full_like(first, jnp.nan)
        return _finish(nothing, attempt, jnp.arange(n, dtype=jnp.uint32), parameter)
    size = n // 16 + 64

    def refill(value):
        chosen = flagged(jnp.isnan(value), size)
        small = jnp.where(chosen < n, jnp.nan, 0).astype(value.dtype)
        small_parameter = parameter.at[chosen].get(mode="clip")
        small = _finish(small, attempt, chosen.astype(jnp.uint32), small_parameter)
        return value.at[chosen].set(small, mode="drop", unique_indices=True)

    return lax.while_loop(_unfinished, refill, first)


def _unfinished(value):
    return jnp.isnan(value).any()


def _finish(value, attempt, lane, parameter):
    """Repeat the attempt until every lane has a value."""

    def again(carry):
        value, count = carry
        return jnp.where(jnp.isnan(value), attempt(lane, count, parameter), value), count + 1

    start = value, jnp.uint32(0)
    return lax.while_loop(lambda carry: _unfinished(carry[0]), again, start)[0]


def flagged(mask: Bool[Array, " n"], size: int) -> Int[Array, " size"]:
    """Positions of at most `size` flagged lanes, padded by values of at least n.

    Packs 32 lanes into a word, so that the prefix sum runs over n / 32 counts: five times
    faster than `jnp.nonzero`. The order of the positions is not ascending.
    """
    n = mask.size
    rows = -(-n // 32)
    column = jnp.arange(32, dtype=jnp.uint32)[:, None]
    padded = jnp.pad(mask, (0, 32 * rows - n)).reshape(32, rows)
    word = jnp.sum(padded.astype(jnp.uint32) << column, axis=0, dtype=jnp.uint32)
    count = lax.population_count(word).astype(jnp.int32)
    end = jnp.cumsum(count)
    start = end - count
    slot = jnp.arange(size, dtype=jnp.int32)
    row = jnp.zeros(size, jnp.int32)
    index = jnp.arange(rows, dtype=jnp.int32)
    row = lax.cummax(row.at[jnp.where(count > 0, start, size)].set(index, mode="drop"))
    position = _select_bit(word[row], slot - start[row]) * rows + row
    return jnp.where(slot < end[-1], position, n + slot)


def _select_bit(word: UInt32[Array, " k"], rank: Int[Array, " k"]) -> Int[Array, " k"]:
    """Place of the set bit of the given rank (from 0) in each 32-bit word."""
    place = jnp.zeros_like(rank)
    for width in (16, 8, 4, 2, 1):
        below = lax.population_count(word & jnp.uint32((1 << width) - 1)).astype(rank.dtype)
        higher = rank >= below
        rank = jnp.where(higher, rank - below, rank)
        word = jnp.where(higher, word >> jnp.uint32(width), word)
        place = jnp.where(higher, place + width, place)
    return place
