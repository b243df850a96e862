"""Engines: where the shards of the data, or the chains, live."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree, Shaped

from . import _checks
from .collective import Collective

AXIS = "shard"
Over = Literal["data", "chains"]


class Engine(eqx.Module):
    """Runs one function on every shard, with the axis `"shard"` bound.

    Every argument and result has a leading axis over shards, or is the same for all (`in_axes` 0 or
    `None`). `over="data"` shards the items of the data, `over="chains"` the chains; by default the
    data for kernels that hold a `Collective`, else the chains.
    """

    size: eqx.AbstractVar[int]
    over: eqx.AbstractVar[Over | None]

    @abstractmethod
    def map(self, function: Callable, in_axes: tuple[int | None, ...]) -> Callable:
        """`function` on every shard, compiled."""

    def put(self, tree: PyTree) -> PyTree:
        """Values with a leading axis over shards, each laid where its shard is."""
        return jax.tree.map(jnp.asarray, tree)

    def everywhere(self, tree: PyTree) -> PyTree:
        """Values that are the same for all shards, laid where each shard finds them."""
        return tree

    def fetch(self, tree: PyTree, axis: int | None) -> PyTree:
        """Results on the host: all shards joined along `axis`, or the first's if they agree."""
        if axis is None:
            return jax.tree.map(lambda x: np.asarray(first_shard(x)), tree)

        return jax.tree.map(lambda x: np.concatenate(list(x), axis=axis), whole(tree))

    @property
    def processes(self) -> frozenset[int]:
        """The processes that hold shards, by their index; by default this one alone."""
        return frozenset({jax.process_index()})

    @property
    def comm(self) -> Collective:
        """What a kernel sharded over the data is given."""
        return Collective(AXIS, self.size)


def whole(tree: PyTree) -> PyTree:
    """Arrays of NumPy, of what several processes hold too: all of them call this."""
    spread = (x for x in jax.tree.leaves(tree) if not getattr(x, "is_fully_addressable", True))
    for mesh in {x.sharding.mesh for x in spread}:
        tree = _everywhere(mesh)(tree)
    return jax.tree.map(np.asarray, tree)


@lru_cache(maxsize=8)
def _everywhere(mesh: Mesh) -> Callable:
    """What is spread over the processes of a mesh, whole on each of them."""
    return jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, PartitionSpec()))


def numpy_of(x: Any) -> Any:
    """NumPy, or JAX's: what no process holds as a whole stays where it is."""
    return np if getattr(x, "is_fully_addressable", True) else jnp


def first_shard(x: Shaped[Array, "shard *b"]) -> Shaped[Array, "*b"]:
    """The value of the first shard that this process holds."""
    if getattr(x, "is_fully_addressable", True):
        return x[0]
    return x.addressable_data(0)[0]


class Vmap(Engine):
    """All shards on one device, by `vmap`: the laptop's engine, and the oracle of the others.

    Args:
        size: the number of shards.
        over: `"data"` or `"chains"`; by default what the kernel can.

    Example: four chains, two on each shard.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Vmap, draw, sample
        >>> kernel, args = draw(lambda key, data: 2.0), {"num_steps": 3, "num_chains": 4}
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), None, **args, engine=Vmap(2))
        >>> run.trace.shape
        (4, 3)
    """

    size: int = eqx.field(static=True)
    over: Over | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        _checks.whole("size", self.size)
        _check_over(self.over)

    def map(self, function: Callable, in_axes: tuple[int | None, ...]) -> Callable:
        return jax.jit(jax.vmap(function, in_axes, axis_name=AXIS, axis_size=self.size))


class Pmap(Engine):
    """A device for each shard, by `pmap`, on one host.

    Args:
        size: the number of devices; all local ones by default.
        over: `"data"` or `"chains"`; by default what the kernel can.

    Raises:
        ValueError: if there are fewer devices.

    Example: in place of the `Vmap(2)` of its example, on as many devices as there are.
        >>> import jax
        >>> Pmap().size == jax.local_device_count(), Pmap(1, over="chains").over
        (True, 'chains')
    """

    size: int = eqx.field(static=True)
    over: Over | None = eqx.field(static=True)

    def __init__(self, size: int | None = None, over: Over | None = None):
        self.size = len(_devices(size, jax.local_devices()))
        self.over = over
        _check_over(over)

    def map(self, function: Callable, in_axes: tuple[int | None, ...]) -> Callable:
        devices = jax.local_devices()[: self.size]
        # one argument: pmap misreads flat axes where empty trees and deep ones add up (jax 0.10)
        axes = (tuple(in_axes),)
        mapped = jax.pmap(lambda args: function(*args), AXIS, in_axes=axes, devices=devices)
        return lambda *args: mapped(args)

    def put(self, tree: PyTree) -> PyTree:
        return _put_by_pmap(self.size)(tree)


@lru_cache
def _put_by_pmap(size: int) -> Callable:
    """One program for every call, and not one each."""
    return Pmap(size).map(lambda x: x, (0,))


class ShardMap(Engine):
    """A device for each shard, by `shard_map` over a mesh, on one host or many.

    Args:
        mesh: a one-dimensional mesh, or the number of devices; all devices by default. On many
            hosts every process that has some of them calls `sample` with the same arguments, which
            is looked at; its data may be a global array, as
            `jax.make_array_from_process_local_data` makes one. What one process raises, of its
            disk or its data's reader, ends the run of all; when one dies the others fail, and
            `experiments/many_hosts` shows how to go on.
        over: `"data"` or `"chains"`; by default what the kernel can.

    Raises:
        ValueError: if there are fewer devices, or the mesh has several axes.

    Example: a mesh of your own, of some of the devices.
        >>> import jax, numpy as np
        >>> ShardMap(jax.sharding.Mesh(np.array(jax.devices()[:1]), ("items",))).size
        1
    """

    mesh: Mesh = eqx.field(static=True)
    over: Over | None = eqx.field(static=True)

    def __init__(self, mesh: Mesh | int | None = None, over: Over | None = None):
        if not isinstance(mesh, Mesh):
            mesh = Mesh(np.array(_devices(mesh, jax.devices())), (AXIS,))
        if len(mesh.axis_names) != 1:
            raise ValueError(f"mesh must have one axis, got {mesh.axis_names}")
        self.mesh, self.over = Mesh(mesh.devices, (AXIS,)), over
        _check_over(over)

    @property
    def size(self) -> int:
        return self.mesh.size

    @property
    def processes(self) -> frozenset[int]:
        return frozenset(device.process_index for device in self.mesh.devices.flat)

    def map(self, function: Callable, in_axes: tuple[int | None, ...]) -> Callable:
        specs = tuple(PartitionSpec() if axis is None else PartitionSpec(AXIS) for axis in in_axes)

        def on_shard(*args: Any) -> Any:
            squeezed = [
                x if axis is None else jax.tree.map(lambda x: x[0], x)
                for x, axis in zip(args, in_axes, strict=True)
            ]
            return jax.tree.map(lambda x: jnp.asarray(x)[None], function(*squeezed))

        return jax.jit(
            jax.shard_map(
                on_shard,
                mesh=self.mesh,
                in_specs=specs,
                out_specs=PartitionSpec(AXIS),
                check_vma=False,
            )
        )

    def put(self, tree: PyTree) -> PyTree:
        sharding = NamedSharding(self.mesh, PartitionSpec(AXIS))

        def leaf(x: Any) -> jax.Array:
            if isinstance(x, jax.Array) and not x.is_fully_addressable:
                return jax.jit(lambda x: x, out_shardings=sharding)(x)
            x = np.asarray(x)
            return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

        return jax.tree.map(leaf, tree)

    def everywhere(self, tree: PyTree) -> PyTree:
        # JAX itself takes an array to all devices, in each call, unless somebody has put it on one
        sharding = NamedSharding(self.mesh, PartitionSpec())

        def leaf(x: Any) -> Any:
            if not isinstance(x, jax.Array | np.ndarray) or not _checks.is_concrete(x):
                return x
            if len(self.processes) == 1:  # else each of them has it as a whole
                return jax.device_put(x, sharding)
            x = np.asarray(x)
            return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

        return jax.tree.map(leaf, tree)


def num_rows(blocks: frozenset[int], num_items: int | None, size: int) -> int | None:
    """The rows of a shard: whole blocks, if the kernel has blocks, else as few as will do."""
    if num_items is None:
        return None
    if len(blocks) > 1:
        raise ValueError(
            f"blocks must be of one number, for shards to hold them whole, got {sorted(blocks)}"
        )
    num_blocks = next(iter(blocks), size)
    if num_blocks % size:
        raise ValueError(
            f"blocks must be a multiple of the engine's {size} shards, got {num_blocks}"
        )
    return max(1, -(-num_items // num_blocks)) * num_blocks // size


def split_items(data: PyTree, size: int, rows: int, axis: int = 0) -> PyTree:
    """The data as (size, ..., rows, ...), the last shards padded with copies of the first item."""

    def leaf(x: Any) -> Any:
        if axis == 0 and size * rows == x.shape[0]:
            return x.reshape(size, rows, *x.shape[1:])
        xp = numpy_of(x)
        x = xp.moveaxis(xp.asarray(x), axis, 0)
        padding = xp.repeat(x[:1], size * rows - x.shape[0], axis=0)
        parts = xp.concatenate([x, padding]).reshape(size, rows, *x.shape[1:])
        return xp.moveaxis(parts, 1, 1 + axis)

    return jax.tree.map(leaf, data)


def _devices(size: int | None, devices: Sequence[Any]) -> Sequence[Any]:
    if size is None:
        return devices
    _checks.whole("size", size)
    if size > len(devices):
        raise ValueError(
            f"size must be at most the number of devices, got {size} of {len(devices)}"
        )
    return devices[:size]


def _check_over(over: Any) -> None:
    if over is not None and not (isinstance(over, str) and over in ("data", "chains")):
        raise ValueError(f'over must be "data", "chains" or None, got {_checks.shown(over)}')
