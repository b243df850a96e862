"""The compiled programs of a run, over its chains, kernels and shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from . import _loop
from ._loop import Carry, Plan
from ._types import Kernel
from .collective import Shard
from .engines import split_items


class Layout(NamedTuple):
    """Which leading axes a run has, and what its engine shards."""

    engine: Any  # an Engine or None
    over: Literal["data", "chains"] | None
    num_chains: int | None
    kernels: bool

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the leading axes, draws last."""
        chain = () if self.num_chains is None else ("chain",)
        return (*(("kernel",) if self.kernels else ()), *chain, "draw")

    def compile(self, function: Callable, roles: str) -> Callable:
        """`function` of one chain over all axes, each argument by its role.

        Roles: p the kernel's parameters; c what a chain carries; s the same as seen from outside;
        i what belongs to a chain alike for all kernels; d the data; . what is the same for all.
        """

        def axes(mapped: str) -> tuple[int | None, ...]:
            return tuple(0 if role in mapped else None for role in roles)

        if self.num_chains is not None:
            function = jax.vmap(function, axes("csi"))
        if self.kernels:
            function = jax.vmap(function, axes("pcs"))
        if self.engine is None:
            return jax.jit(function)
        return self.engine.map(function, axes("csi" if self.over == "chains" else "cd"))

    def fetch(self, tree: PyTree) -> PyTree:
        """Results on the host, without the axis of shards."""
        if self.engine is None:
            return jax.tree.map(np.asarray, tree)
        return self.engine.fetch(tree, int(self.kernels) if self.over == "chains" else None)

    def put_chains(self, tree: PyTree, axis: int) -> PyTree:
        """Values with a chain axis, as the shards get them."""
        if self.over != "chains":
            return tree
        size = self.engine.size
        split = jax.tree.map(lambda x: np.stack(np.split(np.asarray(x), size, axis)), tree)
        return self.engine.put(split)

    def put_data(self, data: PyTree, num_rows: int | None, axis: int = 0) -> PyTree:
        """The data, as the shards get it; `axis` counts its items."""
        if self.over != "data" or num_rows is None:
            return data
        return self.engine.put(split_items(data, self.engine.size, num_rows, axis))


class Static:
    """The static half of a kernel, hashable, so that equal kernels share one program."""

    def __init__(self, tree: PyTree):
        self.leaves, self.structure = jax.tree.flatten(tree)
        self.identity = (tuple(self.leaves), self.structure)

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.identity == other.identity

    def kernel(self, params: PyTree) -> Any:
        return eqx.combine(params, jax.tree.unflatten(self.structure, self.leaves))


class Programs(NamedTuple):
    """The compiled functions of a run: two ways to begin, to go on, and to leave and come back."""

    init: Callable
    restart: Callable
    chunk: Callable
    unload: Callable
    load: Callable


def _as_shard(plan: Plan, layout: Layout, data: PyTree) -> PyTree:
    """The data as a kernel is given it: on many shards, with the number of its real items."""
    if layout.over != "data" or plan.num_items is None:
        return data
    rows = jax.tree.leaves(data)[0].shape[0]
    start = plan.comm.index() * rows
    return Shard(data, jnp.clip(plan.num_items - start, 0, rows), start, plan.num_items)


def growth(static: Static, plan: Plan, layout: Layout, capacity: int) -> Callable:
    """The compiled function of a state, with room for `capacity` slots."""

    def grow(params: PyTree, state: Any, data: PyTree) -> Any:
        kernel, grown = static.kernel(params).grow(state, capacity)
        key = jax.random.key(0, impl=plan.impl)
        data = _as_shard(plan, layout, data)
        return jax.tree.map(_pad_to, grown, jax.eval_shape(kernel.init, key, grown.position, data))

    return layout.compile(grow, "pcd")


def _pad_to(x: Any, like: Any) -> Any:
    """`x` with zeros appended up to the shape of `like`: growth only appends slots."""
    if x.shape == like.shape:
        return x
    return jnp.pad(x, [(0, b - a) for a, b in zip(x.shape, like.shape, strict=True)])


@lru_cache(maxsize=128)
def programs(static: Static, plan: Plan, layout: Layout, stacked: bool) -> Programs:
    """The functions of one chain on one shard, mapped and compiled for all."""
    shard = partial(_as_shard, plan, layout)

    def begin(kernel: Kernel, state: Any, data: PyTree) -> tuple[Carry, PyTree]:
        carry = _loop.start_carry(kernel, state, data, plan)
        shapes = _loop.kept_shapes(plan, carry)
        return carry, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def init(params, position, chain, data, roots):
        kernel, data = static.kernel(params), shard(data)
        key = _loop.root(roots.init, chain, plan.impl)
        return begin(kernel, kernel.init(key, _loop.place(position, plan), data), data)

    def restart(params, state, stopped, data):
        carry, template = begin(static.kernel(params), _loop.place(state, plan), shard(data))
        return carry._replace(stopped=stopped), template

    def chunk(params, carry, chain, data, roots, span):
        def of_step(i: Any) -> PyTree:
            return shard(jax.tree.map(lambda x: x[i], data) if plan.streamed else data)

        return _loop.run_chunk(plan, static.kernel(params), carry, chain, of_step, roots, span)

    return Programs(
        layout.compile(init, "pi" + "id." if stacked else "p." + "id."),
        layout.compile(restart, "pssd"),
        layout.compile(chunk, "pcid.."),
        layout.compile(lambda carry: carry._replace(state=_loop.present(carry.state, plan)), "c"),
        layout.compile(lambda carry: carry._replace(state=_loop.place(carry.state, plan)), "s"),
    )
