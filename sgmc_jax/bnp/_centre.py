"""The point amid the data about which a mixture's sums are taken, alike on all shards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..arrays import real_array
from ..collective import Collective, as_shard
from ..families import Family
from ..families.family import LocatedFamily
from .groups import Groups

_LANDMARKS = 15  # items whose median is the centre


def about_data(family: Family, data: PyTree, comm: Collective) -> Family:
    """The family with its sums about a point amid the data, if it has a use for one.

    That is the median, by coordinate, of a few items at global indices evenly spaced (of groups,
    of the first items of those that are not empty): the same on any number of shards.
    """
    shard = as_shard(data)
    if not isinstance(family, LocatedFamily) or shard.capacity == 0:
        return family
    items, some = shard.items, jnp.ones(shard.capacity, bool)
    if isinstance(items, Groups):
        items, some = jax.tree.map(lambda x: x[:, 0], items.items), items.size > 0
    j = jnp.arange(_LANDMARKS)
    # j N / 15 rounded down, by parts: j N itself may overflow
    local = j * (shard.total // _LANDMARKS) + j * (shard.total % _LANDMARKS) // _LANDMARKS
    local = local - shard.start
    mine = (local >= 0) & (local < shard.size)
    place = jnp.where(mine, local, 0)
    rows = real_array(items)[place].reshape(_LANDMARKS, -1)
    # an empty group has no item: infinity is sorted past the others
    rows = jnp.where(jnp.asarray(some)[place, None], rows, jnp.inf)
    # each is on one shard, so that sums are exact
    rows = comm.psum(jnp.where(mine[:, None], rows, 0))
    num = jnp.sum(jnp.isfinite(rows[:, 0]))
    # the lower one of two in the middle; if no group has an item there is none
    centre = jnp.where(num > 0, jnp.sort(rows, axis=0)[(num - 1) // 2], family.centre)
    return family.about(centre)


def centred(kernel: Any, data: PyTree) -> Any:
    """The kernel with its family `about_data`."""
    return replace(kernel, family=about_data(kernel.family, data, kernel.comm))


def recentred(kernel: Any, state: Any) -> Any:
    """The kernel with its family's sums about the centre of the state's."""
    return replace(kernel, family=kernel.family.about(state.centre))


def centre_of(family: Family) -> Float[Array, " d"] | None:
    """The centre of a family's sums; `None` where it has no use for one."""
    return family.centre if isinstance(family, LocatedFamily) else None
