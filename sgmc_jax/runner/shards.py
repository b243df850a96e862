"""What the shards hold of a state, and how a user sees it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..collective import Dist, PerShard
from .plan import Plan


def present(state: Any, plan: Plan) -> Any:
    """A shard's state as the user sees it: all items in their order, without padding."""

    def leaf(x: Any) -> Any:
        if isinstance(x, Dist):
            local = plan.comm.concatenate(x.local)
            return Dist(x.shared, jax.tree.map(lambda x: x[: plan.num_items], local))
        if isinstance(x, PerShard):
            return PerShard(plan.comm.gather(x.value))
        return x

    return jax.tree.map(leaf, state, is_leaf=_is_placed)


def place(state: Any, plan: Plan) -> Any:
    """The inverse of `present`: this shard's part of a state."""
    size, index = plan.comm.size, plan.comm.index()

    def rows(x: Array) -> Array:
        per_shard = x.shape[0] if plan.num_rows is None else plan.num_rows
        padding = [(0, size * per_shard - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
        padded = jnp.pad(x, padding, mode="edge")
        return jax.lax.dynamic_slice_in_dim(padded, index * per_shard, per_shard)

    def own(x: Array) -> Array:
        if x.shape[0] != size:
            raise ValueError(
                f"each of {x.shape[0]} shards has left a part of this state that is its own, such "
                f"as the permutation of Epoch: it cannot go on on {size} shards"
            )
        return x[index]

    def leaf(x: Any) -> Any:
        if isinstance(x, Dist):
            return Dist(x.shared, jax.tree.map(rows, x.local))
        if isinstance(x, PerShard):
            return PerShard(jax.tree.map(own, x.value))
        return x

    return jax.tree.map(leaf, state, is_leaf=_is_placed)


def is_alike(state: Any, plan: Plan) -> bool:
    """Whether a state is placed as the user sees it: on one shard, with no part of its own."""
    leaves = jax.tree.leaves(state, is_leaf=_is_placed)
    return plan.comm.axis is None and not any(isinstance(x, PerShard) for x in leaves)


def _is_placed(x: Any) -> bool:
    return isinstance(x, Dist | PerShard)
