"""The blocks of items that the distributed samplers work in, whatever the number of shards."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from .. import _checks
from ..collective import Collective, Dist, Shard, as_shard
from ..families import Family
from ..processes import PitmanYor
from ..random.feistel import permute, round_words
from ..random.words import uniform, word_keys, word_pair
from ._starts import check_labels, local_part

Schedule = Literal["anchored", "demotion", "published"]


def start_position(process: PitmanYor, position: Any, data: PyTree) -> Dist:
    """The position a mixture's chain begins with: given whole, as labels, or one cluster."""
    hyper, labels = process.start(), position
    if position is None:
        labels = jnp.zeros(as_shard(data).capacity, jnp.int32)
    elif isinstance(position, Dist):
        hyper, labels = hyper | position.shared, local_part(position, "assignment")
        hyper = pinned(hyper, process)
    labels, num = jnp.asarray(labels, jnp.int32), as_shard(data).capacity
    if labels.shape != (num,):
        raise ValueError(
            f"position must have a label for each of {num} items, as Dist({{}}, "
            f'{{"assignment": labels}}) where they are on shards: got the shape {labels.shape}'
        )
    return Dist(hyper, {"assignment": labels})


def check_start(family: Family, capacity: int, position: Any, data: PyTree) -> None:
    """Raise unless the items suit the family, and given labels the slots."""
    if isinstance(data, Shard):
        return
    family.check(data)
    check_labels(position, as_shard(data).capacity, capacity)


def pinned(hyper: dict[str, Any], *parts: Any) -> dict[str, Any]:
    """Hyper-parameters, of which those without a prior are the parts' own.

    A position may come from elsewhere, and inside `gibbs` the parts are new ones in every step.
    """
    for part in parts:
        fixed = [name for name, prior in part.priors.items() if prior is None]
        own = part.start()
        hyper = hyper | {name: own[name].astype(hyper[name].dtype) for name in fixed}
    return hyper


def with_own_hyper(state: Any, *parts: Any) -> Any:
    """The state with `pinned` hyper-parameters in its position."""
    hyper, local = state.position
    return state._replace(position=Dist(pinned(hyper, *parts), local))


class Anchors(NamedTuple):
    """The designated block, the order of the others, and where in it each atom begins.

    An atom that begins nowhere has the number of blocks as its rank: it is no instantiated atom.
    """

    star: Int[Array, ""]
    block_rank: Int[Array, " P"]
    atom_rank: Int[Array, " K"]

    @property
    def instantiated(self) -> Bool[Array, " K"]:
        """The atoms A: those used off the designated block."""
        return self.atom_rank < self.block_rank.shape[0]


def draw_anchors(key: Any, occupancy: Int[Array, "P K"], *, anchored: bool) -> Anchors:
    """The designated block and, by a random order of the others, each atom's first block.

    Where nothing is anchored, all atoms in use are instantiated, and begin before every block.
    """
    star_key, order_key = jax.random.split(key)
    num_blocks = occupancy.shape[0]
    star = jax.random.randint(star_key, (), 0, num_blocks)
    block_rank = jax.random.permutation(order_key, num_blocks)
    if anchored:
        used = (occupancy > 0) & (jnp.arange(num_blocks) != star)[:, None]
        atom_rank = jnp.min(jnp.where(used, block_rank[:, None], num_blocks), axis=0)
    else:
        atom_rank = jnp.where(jnp.any(occupancy > 0, axis=0), -1, num_blocks)
    return Anchors(star, block_rank, atom_rank)


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
        missing = -num_rows % num_blocks if comm.axis is None else 0
        items = jax.tree.map(lambda x: _pad(x, missing), shard.items)
        return cls(shard._replace(items=items), num_blocks, num_rows, comm)

    @property
    def size(self) -> int:
        """The number of items of a block: alike on any number of shards."""
        return self.shard.capacity * self.comm.size // self.num_blocks

    @property
    def index(self) -> Int[Array, " n"]:
        """The global index of each row."""
        return self.shard.start + jnp.arange(self.shard.capacity)

    @property
    def real(self) -> Bool[Array, " n"]:
        """True for items, False for padding."""
        return self.index < self.shard.total

    @property
    def block(self) -> Int[Array, " n"]:
        """The block of each row."""
        return self.index // self.size

    def pad(self, x: Array) -> Array:
        """Rows such as those of the data, up to whole blocks."""
        return _pad(x, self.shard.capacity - x.shape[0])

    def unpad(self, x: Array) -> Array:
        """The rows of `pad`'s argument."""
        return x[: self.num_rows]

    def occupancy(self, used: Array) -> Int[Array, "P K"]:
        """How many items of each block use each atom; zero for the blocks of other shards."""
        own = jnp.sum(used.reshape(used.shape[0], -1, self.size), axis=2, dtype=jnp.int32).T
        if self.comm.axis is None:
            return own
        zeros = jnp.zeros((self.num_blocks, used.shape[0]), jnp.int32)
        return jax.lax.dynamic_update_slice_in_dim(
            zeros, own, self.comm.index() * own.shape[0], axis=0
        )

    def rank(self, key: Any) -> Int[Array, " n"]:
        """The rank of each item in a random order of its block's items."""
        within = jnp.arange(self.shard.capacity) % self.size
        return permute(round_words(key), within, self.size)

    def uniforms(self, key: Any, num: int, dtype: Any, lanes: tuple[int, ...] = ()) -> Array:
        """`num` numbers in (0, 1] for every lane of every item, by its index: (num, n, *lanes)."""
        (cipher,) = word_keys(key, 1)
        size = math.prod(lanes)
        lane = self.index.astype(jnp.uint32)[:, None] * size + jnp.arange(size, dtype=jnp.uint32)
        lane = lane.reshape(-1, *lanes)
        draws = [uniform(word_pair(cipher, lane, i, dtype)[0], dtype) for i in range(num)]
        return jnp.stack(draws)

    def on_star(
        self, star: Array, sweep: Callable[[Callable], tuple[Array, PyTree]], local: Array
    ) -> tuple[Array, PyTree]:
        """Sweep the designated block, on the shard that has it.

        Args:
            sweep: given a function that takes the block's rows out of an array along an axis,
                returns the block's new rows, and what else is to be known of it.
            local: the rows to be renewed.

        Returns:
            all rows, and what else is known: zeros on the other shards.
        """
        per_shard = self.num_blocks // self.comm.size
        begin = (star % per_shard) * self.size

        def rows(x: Array, axis: int = 0) -> Array:
            return jax.lax.dynamic_slice_in_dim(x, begin, self.size, axis)

        def swept() -> tuple[Array, PyTree]:
            new, known = sweep(rows)
            return jax.lax.dynamic_update_slice_in_dim(local, new, begin, axis=0), known

        if self.comm.axis is None:
            return swept()
        mine = star // per_shard == self.comm.index()
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(swept)[1])
        return jax.lax.cond(mine, swept, lambda: (local, nothing))


def _pad(x: Array, missing: int) -> Array:
    if missing == 0:
        return x
    return jnp.concatenate([x, jnp.repeat(x[:1], missing, axis=0)])


def check_parts(process: Any, family: Any, kinds: tuple[type, type] = (PitmanYor, Family)) -> None:
    """Raise unless a sampler's process and family are such."""
    for name, value, kind in [("process", process, kinds[0]), ("family", family, kinds[1])]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")


def check_hybrid(schedule: Any, blocks: Any, local_sweeps: Any, capacity: Any) -> None:
    """Raise on settings of a hybrid sampler that cannot be right."""
    if schedule not in get_args(Schedule):
        raise ValueError(f"schedule must be one of {get_args(Schedule)}, got {schedule!r}")
    for name, value in [("blocks", blocks), ("local_sweeps", local_sweeps), ("capacity", capacity)]:
        _checks.whole(name, value)
    if schedule == "demotion" and (blocks > 1 or local_sweeps > 1):
        raise ValueError(
            "blocks and local_sweeps must be 1 for the schedule 'demotion', which is serial: got "
            f"{blocks} and {local_sweeps}"
        )
