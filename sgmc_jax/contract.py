"""What a runner or a combinator must know: declared by a kernel, and by the infos of its steps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Inexact, Int, PyTree


class Cost(NamedTuple):
    """What a step costs, in gradients of one item's term.

    Args:
        items: those of the items of batches.
        passes: the number of times that all of the data is passed over.
    """

    items: int | float = 0
    passes: int | float = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(self.items + other.items, self.passes + other.passes)

    def evaluations(self, num_items: int) -> int | float:
        """The number of gradients where there are `num_items` items; without data one a pass."""
        return self.items + self.passes * max(num_items, 1)


def from_init(key: Any) -> None:
    """The starter of a kernel whose chains should begin where `init` of `None` does, even if
    another kernel of a cycle offers a start."""


def times(number: int | float, cost: Cost | None) -> Cost | None:
    """The cost of `number` times what `cost` is of, or `None` where that is not known."""
    return None if cost is None else Cost(number * cost.items, number * cost.passes)


class Contract(NamedTuple):
    """What a kernel declares; see `Kernel.contract`.

    Args:
        capacity: the number of its slots, or `None`. A kernel that has some reports a `SlotInfo`.
        blocks: the numbers of blocks of items, each of which a shard must hold whole.
        streams: whether the data of a step may be a batch that stands for more.
        stands_for: the number of items that it then stands for, where that is known.
        shards: whether it may be given a part of the data on each of many shards: `True` if it
            sums over them, `False` if it would take its part for all of the data, `None` if it
            looks at no data, or sees to that itself.
        cost: that of a step, or `None` if it is not known.
        moves: how many times a step moves one and the same position by the noise of one batch, if
            the data is a stream of them.
        subtracts: whether it subtracts the noise of batches, which must then be independent.
        refreshing, retargeting: what `refresh` and `retarget` cost.
        free: whether its positions are all of R^n, and no manifold or set with a boundary.
        keeps_weights: whether the weights of features or clusters are part of its chain, or drawn
            given the items' in every step; `None` if it moves no item among them.

    Example:
        >>> turns = Contract.join([Contract(capacity=16, streams=True), Contract(capacity=32)])
        >>> turns.capacity, turns.streams
        (32, False)
    """

    capacity: int | None = None
    blocks: frozenset[int] = frozenset()
    streams: bool = False
    shards: bool | None = None
    cost: Cost | None = None
    moves: int = 0
    subtracts: bool = False
    refreshing: Cost = Cost()
    retargeting: Cost = Cost()
    free: bool = True
    stands_for: int | None = None
    keeps_weights: bool | None = None

    def after(self, renewal: Cost) -> Contract:
        """That of a step before which the state is brought up to date."""
        return self._replace(cost=None if self.cost is None else self.cost.plus(renewal))

    @classmethod
    def join(cls, contracts: Iterable[Contract]) -> Contract:
        """The contract of several kernels that take turns."""
        contracts = list(contracts)
        shards = {contract.shards for contract in contracts}
        keeps = {contract.keeps_weights for contract in contracts}
        costs = [contract.cost for contract in contracts if contract.cost is not None]
        return cls(
            capacity=max((c.capacity for c in contracts if c.capacity is not None), default=None),
            blocks=frozenset().union(*(contract.blocks for contract in contracts)),
            streams=all(contract.streams for contract in contracts),
            shards=False if False in shards else True if True in shards else None,
            cost=reduce(Cost.plus, costs) if len(costs) == len(contracts) else None,
            moves=max((contract.moves for contract in contracts), default=0),
            subtracts=any(contract.subtracts for contract in contracts),
            free=all(contract.free for contract in contracts),
            stands_for=max((c.stands_for for c in contracts if c.stands_for), default=None),
            keeps_weights=True if True in keeps else False if False in keeps else None,
        )


class SlotInfo(NamedTuple):
    """The info of a kernel with slots: how many are in use, and whether a birth found none free.

    It may be a part of a larger info. A runner discards steps that overflow, and makes them again
    with more slots; of several steps the last one's `active` counts, and any one's `overflow`.

    Example:
        >>> import jax.numpy as jnp
        >>> counts = jnp.array([4, 0, 2])  # the items of three slots
        >>> int(SlotInfo(jnp.sum(counts > 0), overflow=jnp.array(False)).active)
        2
    """

    active: Int[Array, ""]
    overflow: Bool[Array, ""]


def slot_infos(info: PyTree) -> list[SlotInfo]:
    """All that an info, with those of a combinator's kernels, says of slots."""
    return list(filter(_is_slot_info, jax.tree.leaves(info, is_leaf=_is_slot_info)))


def overflowed(info: PyTree) -> Bool[Array, ""]:
    """Whether any kernel ran out of slots, in any of the steps."""
    flags = [jnp.any(slots.overflow) for slots in slot_infos(info)]
    return jnp.any(jnp.stack(flags)) if flags else jnp.zeros((), bool)


def merge_rules(info: PyTree) -> PyTree:
    """How each leaf of an info is merged over steps: by "any", "all", "mean" or "last"."""

    def rule(x: Any) -> Any:
        if _is_slot_info(x):
            return SlotInfo(*("last", "any"))  # type: ignore[arg-type]
        dtype = jnp.result_type(x)
        truth, real = jnp.issubdtype(dtype, jnp.bool_), jnp.issubdtype(dtype, jnp.inexact)
        return "all" if truth else "mean" if real else "last"

    return jax.tree.map(rule, info, is_leaf=_is_slot_info)


def merge_infos(infos: PyTree) -> PyTree:
    """The infos of several steps, stacked, as one."""
    merge = {
        "any": lambda x: jnp.any(x, axis=0),
        "all": lambda x: jnp.all(x, axis=0),
        "mean": lambda x: jnp.mean(x, axis=0),
        "last": lambda x: x[-1],
    }
    return jax.tree.map(lambda rule, x: merge[rule](x), merge_rules(infos), infos)


def wide_zeros(x: Any) -> Array:
    """Zeros for sums and means of half precision too: in it squares overflow, and a step of
    thousands would be rounded off."""
    return jnp.zeros(jnp.shape(x), jnp.promote_types(jnp.result_type(x), jnp.float32))


def running_start(info: PyTree) -> PyTree:
    """What `merge_running` begins with, of zeros like an info."""
    start = lambda rule, x: wide_zeros(x) if rule == "mean" else x
    return jax.tree.map(start, merge_rules(info), info)


def merge_running(merged: PyTree, info: PyTree, step: Int[Array, ""]) -> PyTree:
    """The infos of `step` steps as one, and that of one step more."""
    share = 1 / (step + 1)

    def mean(old: Inexact[Array, "*n"], x: Inexact[Array, "*n"]) -> Inexact[Array, "*n"]:
        within = old + (x - old) * share.astype(old.dtype)
        within = jnp.where(jnp.isinf(old) | jnp.isinf(x), old + x, within)  # inf stays inf
        return jnp.where(step == 0, x, within)

    merge = {
        "any": lambda old, x: jnp.where(step == 0, x, old | x),
        "all": lambda old, x: jnp.where(step == 0, x, old & x),
        "mean": mean,
        "last": lambda old, x: x,
    }
    return jax.tree.map(lambda rule, *x: merge[rule](*x), merge_rules(info), merged, info)


def _is_slot_info(x: Any) -> bool:
    return isinstance(x, SlotInfo)
