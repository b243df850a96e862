"""Exact draws, independent of the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped

from .. import _checks, _returned
from .._functions import as_function
from .._types import Data, Empty, Kernel, Key, Position, as_keys
from ..contract import Contract


class DrawState(NamedTuple):
    """The last draw.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import draw
        >>> state = draw(lambda key, data: 1.0).init(jax.random.key(0), jnp.zeros(()), None)
        >>> float(state.position)
        0.0
    """

    position: Position


class Draw(Kernel):
    """See `draw`."""

    function: Callable = eqx.field(converter=as_function)
    of_batches: bool = eqx.field(static=True, default=False)

    def init(self, key: Key, position: Position, data: Data) -> DrawState:
        return DrawState(position)

    def step(self, key: Key, state: DrawState, data: Data) -> tuple[DrawState, Empty]:
        value = self.function(as_keys(key).noise, data)
        _returned.like("draw's function", value, state.position, "the position")
        return DrawState(jax.tree.map(_as_leaf, value, state.position)), Empty()

    def contract(self, position: Position) -> Contract:
        return super().contract(position)._replace(streams=self.of_batches)


def _as_leaf(value: Any, leaf: Any) -> Shaped[Array, "..."]:
    """`value` in the dtype of the position's leaf, unless that would make other numbers of it."""
    kind, dtype = jnp.result_type(value), jnp.result_type(leaf)
    exact = not jnp.issubdtype(dtype, jnp.inexact)
    fractions = exact and jnp.issubdtype(kind, jnp.inexact)
    # labels as truths, or in a byte
    if fractions or (exact and dtype.itemsize < 4 and jnp.result_type(value, dtype) != dtype):
        other = "a floating position" if fractions else f"a position of {kind}"
        raise TypeError(
            f"draw's function must return the position's dtype, {dtype}, got {kind}: start from "
            f"{other}"
        )
    return jnp.asarray(value, dtype)


def draw(function: Callable, *, streams: bool = False) -> Draw:
    """The kernel that draws its position exactly and independently of where it was.

    Args:
        function: `(key, data) -> position`, typically a full conditional, inside `gibbs`. Where an
            engine shards the data, they are a `Shard`, and every shard must draw the same.
        streams: whether it may be given the batches of a stream, as one may that reads no data, or
            takes a batch for no more than it is.

    Raises:
        TypeError: by `sample`, if the data are a stream and `streams` is not said.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> init, step = draw(lambda key, data: jax.random.normal(key, (2,)))
        >>> state, _ = step(jax.random.key(1), init(jax.random.key(0), jnp.zeros(2), None), None)
        >>> state.position.shape
        (2,)
    """
    _checks.truth("streams", streams)
    return Draw(as_function(function, "function", ("key", "data")), streams)
