"""The blocks of items that the distributed samplers work in, whatever the number of shards."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from ...collective import Collective, Shard, as_shard
from ...random.feistel import permute, round_words
from ...random.words import uniform, word_keys, word_pair

_WORDS = 2**32  # the values of a counter


class Blocks(NamedTuple):
    """A shard's items in whole blocks, all of one size, the last ones padded.

    Args:
        shard: the items, in whole blocks.
        num_blocks: P, over all shards.
        num_rows: the rows that the shard had before they were made whole blocks.
        comm: the shards.
    """

    shard: Shard
    num_blocks: int
    num_rows: int
    comm: Collective

    @classmethod
    def of(cls, data: PyTree, num_blocks: int, comm: Collective) -> Blocks:
        """The blocks of the data; an engine's shards come in whole blocks already.

        Raises:
            ValueError: if the shards of several do not hold whole blocks, all of one size.
        """
        shard = as_shard(data)
        num_rows = shard.capacity
        if comm.axis is not None and (num_blocks % comm.size or num_rows * comm.size % num_blocks):
            raise ValueError(
                f"data must come in whole blocks, but {comm.size} shards of {num_rows} rows do not "
                f"hold {num_blocks} blocks of one size, as many on each shard"
            )
        # rows added to a shard would shift the indices of the next
        missing = -num_rows % num_blocks if comm.axis is None else 0
        items = jax.tree.map(lambda x: _pad(x, missing), shard.items)
        return cls(shard._replace(items=items), num_blocks, num_rows, comm)

    @property
    def size(self) -> int:
        """The number of items of a block: alike on any number of shards."""
        return self.shard.capacity * self.comm.size // self.num_blocks

    @property
    def num_own(self) -> int:
        """The number of blocks on a shard."""
        return self.num_blocks // self.comm.size

    @property
    def index(self) -> Int[Array, " n"]:
        """The global index of each row."""
        return self.shard.start + jnp.arange(self.shard.capacity)

    @property
    def real(self) -> Bool[Array, " n"]:
        """True for items, False for padding."""
        # padding is at the end of all shards together, so that an index tells it
        return self.index < self.shard.total

    @property
    def block(self) -> Int[Array, " n"]:
        """The block of each row."""
        return self.index // self.size

    def pad(self, x: Shaped[Array, "rows *d"]) -> Shaped[Array, "n *d"]:
        """Rows such as those of the data, up to whole blocks."""
        return _pad(x, self.shard.capacity - x.shape[0])

    def unpad(self, x: Shaped[Array, "n *d"]) -> Shaped[Array, "rows *d"]:
        """The rows of `pad`'s argument."""
        return x[: self.num_rows]

    def occupancy(self, used: Bool[Array, "K n"] | Int[Array, "K n"]) -> Int[Array, "P K"]:
        """How many items of each block use each atom; zero for the blocks of other shards."""
        own = jnp.sum(used.reshape(used.shape[0], -1, self.size), axis=2, dtype=jnp.int32).T
        if self.comm.axis is None:
            return own
        # each shard fills its own rows, and the sum over shards is the whole table
        zeros = jnp.zeros((self.num_blocks, used.shape[0]), jnp.int32)
        return jax.lax.dynamic_update_slice_in_dim(
            zeros, own, self.comm.index() * own.shape[0], axis=0
        )

    def rank(self, key: Any) -> Int[Array, " n"]:
        """The rank of each item in a random order of its block's items."""
        # one permutation for all blocks: only ranks of one block are ever compared
        within = jnp.arange(self.shard.capacity) % self.size
        return permute(round_words(key), within, self.size)

    def uniforms(
        self, key: Any, num: int, dtype: Any, lanes: tuple[int, ...] = ()
    ) -> Float[Array, "num n *lanes"]:
        """`num` numbers in (0, 1] for every lane of every item, by its index: (num, n, *lanes)."""
        (cipher,) = word_keys(key, 1)
        size = math.prod(lanes)
        # by the global index: an item has the same numbers on any number of shards
        item = self.index.astype(jnp.uint32)[:, None]
        use, lane = jnp.uint32(0), jnp.arange(size, dtype=jnp.uint32)
        if self.num_blocks * self.size * size <= _WORDS:
            lane = item * size + lane
        else:  # that counter would come round: an item's lanes are uses of its own instead
            use, lane = num * lane, jnp.broadcast_to(item, (len(item), size))
        draws = [uniform(word_pair(cipher, lane, use + i, dtype)[0], dtype) for i in range(num)]
        return jnp.stack(draws).reshape(num, -1, *lanes)

    def on_star(
        self,
        star: Int[Array, ""],
        sweep: Callable[[Callable], tuple[Int[Array, "rows *k"], PyTree]],
        local: Int[Array, "n *k"],
    ) -> tuple[Int[Array, "n *k"], PyTree]:
        """Sweep the designated block, on the shard that has it.

        Args:
            sweep: given a function that takes the block's rows out of an array along an axis,
                returns the block's new rows, and what else is to be known of it.
            local: the rows to be renewed.

        Returns:
            all rows, and what else is known: zeros on the other shards.
        """
        rows = self._rows(star % self.num_own)
        swept = lambda: _renewed(rows, sweep(rows), local)
        if self.comm.axis is None:
            return swept()
        # a block is on one shard; what the others know of its sweep are zeros in the next sums
        mine = star // self.num_own == self.comm.index()
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(swept)[1])
        return jax.lax.cond(mine, swept, lambda: (local, nothing))

    def on_several(
        self,
        chosen: Bool[Array, " P"],
        sweep: Callable[[Int[Array, ""], Callable], Any],
        local: Int[Array, "n *k"],
    ) -> tuple[Int[Array, "n *k"], PyTree]:
        """Sweep some blocks, on each shard one after the other.

        Args:
            sweep: as for `on_star`, after the index of the block.
            local: the rows to be renewed.

        Returns:
            all rows, and what is known of the blocks of the shard: any truth, and sums of numbers.
        """
        first = self.comm.index() * self.num_own

        # a sweep reads the rows as they were before all of these: no block sees what another does
        def swept(j: Array, local: Array) -> tuple[Array, PyTree]:
            rows = self._rows(j)
            return _renewed(rows, sweep(first + j, rows), local)

        def turn(j: Array, loop: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
            local, known = loop
            local, more = jax.lax.cond(chosen[first + j], swept, lambda j, z: (z, none), j, local)
            both = lambda x, y: x | y if x.dtype == bool else x + y
            return local, jax.tree.map(both, known, more)

        known = jax.eval_shape(swept, jnp.zeros((), jnp.int32), local)[1]
        none = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), known)
        return jax.lax.fori_loop(0, self.num_own, turn, (local, none))

    def _rows(self, j: Int[Array, ""]) -> Rows:
        return Rows(j * self.size, self.size)


class Rows(NamedTuple):
    """The rows of one of a shard's blocks, taken out of an array along an axis."""

    begin: Int[Array, ""]
    size: int

    def __call__(self, x: Shaped[Array, "..."], axis: int = 0) -> Shaped[Array, "..."]:
        return jax.lax.dynamic_slice_in_dim(x, self.begin, self.size, axis)


def _renewed(
    rows: Rows, swept: tuple[Int[Array, "rows *k"], PyTree], local: Int[Array, "n *k"]
) -> tuple[Int[Array, "n *k"], PyTree]:
    """All rows with those of one block renewed, and what else is known of it."""
    new, known = swept
    return jax.lax.dynamic_update_slice_in_dim(local, new, rows.begin, axis=0), known


def _pad(x: Shaped[Array, "rows *d"], missing: int) -> Shaped[Array, "n *d"]:
    if missing == 0:
        return x
    # copies of an item suit every family, and masks keep them out of all sums
    return jnp.concatenate([x, jnp.repeat(x[:1], missing, axis=0)])
