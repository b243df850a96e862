"""Sums and gathers over devices: the only file that calls a collective of `jax.lax`."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Int, PyTree

_HINT = "; the parts of a list are leaves: make an array of it by np.asarray"


class Collective(eqx.Module):
    """What a sharded kernel may ask of the other shards; on one device it is the identity.

    An engine binds `axis` and sets this on every kernel that holds one; inside a `shard_map` of
    your own, give the axis name and its size.

    Args:
        axis: the name of the bound axis, or `None` for one device.
        size: the number of shards on it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> comm = Collective("shards", 2)
        >>> jax.vmap(comm.psum, axis_name="shards")(jnp.array([1, 2])).tolist()
        [3, 3]
        >>> Collective().psum(2)  # on one device
        2
    """

    axis: str | None = eqx.field(static=True, default=None)
    size: int = eqx.field(static=True, default=1)

    def index(self) -> Int[Array, ""]:
        """The index of this shard."""
        return jnp.zeros((), jnp.int32) if self.axis is None else jax.lax.axis_index(self.axis)

    def psum(self, x: PyTree) -> PyTree:
        """The sum over shards."""
        return x if self.axis is None else jax.lax.psum(x, self.axis)

    def any(self, x: Bool[Array, ""]) -> Bool[Array, ""]:
        """Whether it is so on one shard or more."""
        return self.psum(x.astype(jnp.int32)) > 0

    def gather(self, x: PyTree) -> PyTree:
        """All shards' values, stacked on a new leading axis."""
        if self.axis is None:
            return jax.tree.map(lambda x: x[None], x)
        return jax.lax.all_gather(x, self.axis)

    def concatenate(self, x: PyTree) -> PyTree:
        """All shards' values, joined along their leading axis."""
        if self.axis is None:
            return x
        return jax.lax.all_gather(x, self.axis, tiled=True)

    def sum(self, x: PyTree) -> PyTree:
        """The sum over shards, alike to the last bit on every engine.

        Integers are summed by `psum`; floats are gathered and added in the order of the shards,
        because the order of a floating `psum` is the engine's own. A whole tree is one reduction of
        its integers and one gather of its floats.
        """
        if self.axis is None:
            return x
        floats, integers = eqx.partition(x, lambda x: jnp.issubdtype(x.dtype, jnp.inexact))
        flat_floats, unravel_floats = ravel_pytree(floats)
        flat_integers, unravel_integers = ravel_pytree(integers)
        if flat_floats.size:
            flat_floats = self.gather(flat_floats).sum(axis=0)
        if flat_integers.size:
            flat_integers = self.psum(flat_integers)
        return eqx.combine(unravel_floats(flat_floats), unravel_integers(flat_integers))

    def local_key(self, key: Any) -> Any:
        """A key of this shard alone."""
        return jax.random.fold_in(key, self.index())


def is_collective(x: Any) -> bool:
    """Whether `x` is the `Collective` of a kernel."""
    return isinstance(x, Collective)


def holds_collective(kernel: PyTree) -> bool:
    """Whether a kernel, or an estimator, sums over shards."""
    return any(map(is_collective, jax.tree.leaves(kernel, is_leaf=is_collective)))


def with_collective(kernel: PyTree, comm: Collective) -> PyTree:
    """The kernel with `comm` in place of every `Collective` it holds."""
    return jax.tree.map(lambda x: comm if is_collective(x) else x, kernel, is_leaf=is_collective)


class Dist(NamedTuple):
    """A position of which `shared` is alike on all shards and `local` has a leading item axis.

    Example:
        >>> import jax.numpy as jnp
        >>> position = Dist({"concentration": 1.0}, {"assignment": jnp.array([0, 0, 1])})
        >>> position.local["assignment"][:2].tolist()  # of a shard of two items
        [0, 0]
    """

    shared: PyTree
    local: PyTree


def shared_part(position: PyTree) -> PyTree:
    """What all shards have in common of a position."""
    is_dist = lambda x: isinstance(x, Dist)
    shared = lambda x: x.shared if is_dist(x) else x
    return jax.tree.map(shared, position, is_leaf=is_dist)


class PerShard(NamedTuple):
    """A part of a state that each shard keeps for itself; from outside, stacked over shards."""

    value: PyTree


class Shard(NamedTuple):
    """A padded part of the data: `size` real items, the first of them number `start` of `total`.

    Several shards are filled in turn, so that all padding comes after the last of all items.
    """

    items: PyTree
    size: Any
    start: Any
    total: Any

    @property
    def capacity(self) -> int:
        """The number of rows, padding included."""
        return leading_axis(self.items)

    @property
    def mask(self) -> Bool[Array, " n"]:
        """True for real items, False for padding."""
        return jnp.arange(self.capacity) < self.size


def as_shard(data: PyTree) -> Shard:
    """The data of one device as a shard without padding; a shard as it is."""
    if isinstance(data, Shard):
        return data
    num_items = leading_axis(data)
    return Shard(data, num_items, 0, num_items)


def leading_axis(tree: PyTree, name: str = "data") -> int:
    """The common length of the leading axes; 0 for a tree without leaves."""
    lengths = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        where = f"{name}{jax.tree_util.keystr(path)}"
        if jnp.ndim(leaf) == 0:
            in_list = path and isinstance(path[-1], jax.tree_util.SequenceKey)
            hint = _HINT if in_list else ""
            raise ValueError(f"{where} must have a leading item axis, got a scalar{hint}")
        lengths[where] = jnp.shape(leaf)[0]
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{where}: {length}" for where, length in list(lengths.items())[:4])
        more = ", ..." if len(lengths) > 4 else ""
        hint = _HINT if isinstance(tree, list) else ""
        raise ValueError(f"the leading axes of {name} must agree, got {listed}{more}{hint}")
    return next(iter(lengths.values()), 0)
