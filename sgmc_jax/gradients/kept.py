"""Latent variables of all items, kept from step to step and redrawn a batch at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from .._types import Data, Key, Position, Ungated, as_keys
from ..batching import Batch, Batcher
from ..collective import as_shard
from .allocation import Latent
from .minibatch import drawn_with_latents

_NOWHERE = np.iinfo(np.int32).max  # an index past the end of any table


class KeptState(NamedTuple):
    """The batcher's state, the table of all items' latents but for the rows of the last batch, and
    these rows with their indices.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import TableCounts, Uniform
        >>> grad = TableCounts(lambda key, position, k: jax.nn.one_hot(k, 2), 1.0, Uniform(2))
        >>> state = grad.init(jax.random.key(0), jnp.zeros(2), jnp.array([0, 1, 1])).kept
        >>> state.table.value.tolist()
        [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """

    batcher: PyTree
    table: Ungated
    rows: PyTree
    index: Int[Array, " n"]


class Redrawn(NamedTuple):
    """A batch, and its items' latents before and after they were redrawn."""

    batch: Batch
    old: PyTree
    new: PyTree


class KeptLatents(eqx.Module):
    """A table of all items' latents, of which each step redraws a batch's.

    Costs O(n) a step and O(N) memory for the table, which is drawn at the first position.

    Args:
        latent: how they are drawn.
        batcher: which items a step sees, each at most once.
        owner: the name of the estimator whose table it is, for messages.
        any_batch: whether a batch must not depend on which rows are fresh, as those of `Epoch` do.
    """

    latent: Latent
    batcher: Batcher
    owner: str = eqx.field(static=True)
    any_batch: bool = eqx.field(static=True, default=False)

    def init(self, key: Key, position: Position, data: Data) -> KeptState:
        self.check()
        keys = as_keys(key)
        bstate = self.batcher.init(keys, data)
        # the rows of any batch will do: they are written as they are
        batch, _, _ = drawn_with_latents(self.batcher, keys.fold(1), bstate, data)
        index = batch.index.astype(jnp.int32)
        return self._drawn(keys.noise, bstate, index, position, data)

    def refresh(self, key: Key, state: KeptState, position: Position, data: Data) -> KeptState:
        if not self.latent.exact:
            raise TypeError(
                f"{self.owner} cannot go on from a position that another kernel has moved:"
                f" the chain lives on its table too, and {type(self.latent).__name__} has no "
                "exact draw of that given the position"
            )
        return self._drawn(as_keys(key).noise, state.batcher, state.index, position, data)

    def redraw(
        self, key: Key, state: KeptState, position: Position, data: Data
    ) -> tuple[Redrawn, KeptState]:
        """A batch whose latents are drawn anew, from those that it has."""
        # rows are written one step late: a step that is discarded has then written only what an
        # earlier one left, and writing it again changes nothing
        table = jax.tree.map(
            lambda table, rows: table.at[state.index].set(rows, mode="drop"),
            state.table.value,
            state.rows,
        )
        batch, latent_key, bstate = drawn_with_latents(self.batcher, key, state.batcher, data)
        old = _rows(table, batch.index)
        index = jnp.where(batch.weight > 0, batch.index.astype(jnp.int32), _NOWHERE)
        new = self.latent.draw(latent_key, position, batch.items, old)
        return Redrawn(batch, old, new), KeptState(bstate, Ungated(table), new, index)

    def check(self) -> None:
        """Raise unless all of the data is there, and no item twice in a batch."""
        if self.batcher.streams or not self.batcher.distinct:
            raise TypeError(
                f"{self.owner} needs all of the data and batches without repeated items, "
                f"got the batcher {type(self.batcher).__name__}"
            )
        if self.any_batch and not self.batcher.independent:
            raise TypeError(
                f"{self.owner} needs batches that do not depend on earlier ones, whose items have "
                f"fresher rows, got the batcher {type(self.batcher).__name__}: let it be Uniform"
            )

    def _drawn(
        self, key: Any, bstate: PyTree, index: Int[Array, " n"], position: Position, data: Data
    ) -> KeptState:
        """The state with all latents drawn given the position."""
        items = self.batcher.population(as_shard(data)).items
        table = self.latent.draw(key, position, items, None)
        return KeptState(bstate, Ungated(table), _rows(table, index), index)


def _rows(table: PyTree, index: Int[Array, " n"]) -> PyTree:
    return jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), table)
