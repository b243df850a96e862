"""Exact draws, independent of the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Data, Empty, Kernel, Key, Position, as_function, as_keys


class DrawState(NamedTuple):
    """The last draw."""

    position: Position


class Draw(Kernel):
    """See `draw`."""

    function: Callable = eqx.field(converter=as_function)
    streams: ClassVar[bool] = True  # it may make of the data what it likes

    def init(self, key: Key, position: Position, data: Data) -> DrawState:
        return DrawState(position)

    def step(self, key: Key, state: DrawState, data: Data) -> tuple[DrawState, Empty]:
        value = self.function(as_keys(key).noise, data)
        same_dtype = jax.tree.map(lambda v, x: jnp.asarray(v, x.dtype), value, state.position)
        return DrawState(same_dtype), Empty()


def draw(function: Callable) -> Draw:
    """The kernel that draws its position exactly and independently of where it was.

    Args:
        function: `(key, data) -> position`, typically a full conditional, inside `gibbs`. Where an
            engine shards the data, they are a `Shard`, and every shard must draw the same.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> init, step = draw(lambda key, data: jax.random.normal(key, (2,)))
        >>> state, _ = step(jax.random.key(1), init(jax.random.key(0), jnp.zeros(2), None), None)
        >>> state.position.shape
        (2,)
    """
    return Draw(function)
