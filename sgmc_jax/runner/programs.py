"""The compiled programs of a run, over its chains, kernels and shards."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._compiler import quick_options
from .._functions import mistook_keys
from .._types import Kernel, as_keys
from ..collective import Shard
from ..engines import Pmap, split_items, whole
from .keep import kept_shapes, start_carry
from .keys import root
from .loop import run_chunk
from .plan import Carry, Plan
from .shards import place, present


class Role(Enum):
    """What an argument of a chain's function is, which tells the axes it is mapped over."""

    PARAMS = "the kernel's parameters"
    CARRY = "what a chain carries, on its shard"
    SEEN = "the same as seen from outside"
    CHAIN = "what belongs to a chain, alike for all kernels"
    DATA = "the data"
    SAME = "what is the same for all"


_PARAMS, _CARRY, _SEEN, _CHAIN, _DATA, _SAME = Role
_OF_CHAIN, _OF_KERNEL = {_CARRY, _SEEN, _CHAIN}, {_PARAMS, _CARRY, _SEEN}
_OF_DATA_SHARD = {_CARRY, _DATA}


class Layout(NamedTuple):
    """Which leading axes a run has, and what its engine shards."""

    engine: Any  # an Engine or None
    over: Literal["data", "chains"] | None
    num_chains: int | None
    kernels: bool
    large: bool = False  # programs of hundreds of loops, to be compiled quickly
    at_once: int | None = None  # how many chains are vectorised; all, or groups one after the other

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the leading axes, draws last."""
        chain = () if self.num_chains is None else ("chain",)
        return (*(("kernel",) if self.kernels else ()), *chain, "draw")

    @property
    def form(self) -> tuple:
        """What makes the programs others on another process."""
        size = None if self.engine is None else self.engine.size
        return size, *self[1:]

    def compile(self, function: Callable, *roles: Role) -> Callable:
        """`function` of one chain over all axes, each argument by its role."""

        def axes(mapped: set[Role]) -> tuple[int | None, ...]:
            return tuple(0 if role in mapped else None for role in roles)

        if self.num_chains is not None:
            function = _over_chains(function, axes(_OF_CHAIN), self.at_once)
        if self.kernels:
            function = jax.vmap(function, axes(_OF_KERNEL))
        if self.engine is not None:
            function = self.engine.map(
                function, axes(_OF_CHAIN if self.over == "chains" else _OF_DATA_SHARD)
            )
        options = quick_options() if self.large else None
        if self.engine is None or (options and not isinstance(self.engine, Pmap)):
            return jax.jit(function, compiler_options=options)
        return function

    def fetch(self, tree: PyTree) -> PyTree:
        """Results on the host, without the axis of shards."""
        if self.engine is None:
            return jax.tree.map(np.asarray, tree)
        return self.engine.fetch(tree, int(self.kernels) if self.over == "chains" else None)

    def everywhere(self, tree: PyTree) -> PyTree:
        """Values that all shards share."""
        return tree if self.engine is None else self.engine.everywhere(tree)

    def put_chains(self, tree: PyTree, axis: int) -> PyTree:
        """Values with a chain axis, as the shards get them."""
        if self.over != "chains":
            return self.everywhere(tree)
        size = self.engine.size
        split = jax.tree.map(lambda x: np.stack(np.split(x, size, axis)), whole(tree))
        return self.engine.put(split)

    def put_data(self, data: PyTree, num_rows: int | None, axis: int = 0) -> PyTree:
        """The data, as the shards get it; `axis` counts its items."""
        if self.over != "data" or num_rows is None:
            return self.everywhere(data)
        if isinstance(data, Shard):  # batches with numbers of real items, which all shards are told
            longest = jax.tree.leaves(data.items)[0].shape[axis]
            num_rows = max(num_rows, -(-longest // self.engine.size))
            rest = [np.broadcast_to(x, (self.engine.size, *np.shape(x))) for x in data[1:]]
            items = split_items(data.items, self.engine.size, num_rows, axis)
            return self.engine.put(Shard(items, *rest))
        return self.engine.put(split_items(data, self.engine.size, num_rows, axis))


def _over_chains(function: Callable, axes: tuple[int | None, ...], at_once: int | None) -> Callable:
    """`function` over the first axis of some arguments, so many of its entries together."""
    if at_once is None:
        return jax.vmap(function, axes)

    def groups(*args: PyTree) -> PyTree:
        def one(own: list[PyTree]) -> PyTree:
            rest = iter(own)
            return function(
                *(x if axis is None else next(rest) for x, axis in zip(args, axes, strict=True))
            )

        own = [x for x, axis in zip(args, axes, strict=True) if axis is not None]
        # one alone is not vectorised at all: it rounds as a single chain does
        return jax.lax.map(one, own, batch_size=None if at_once == 1 else at_once)

    return groups


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
    """The compiled functions of a run: to begin at a position, at a state, and at the position of
    a state that another target has left; to go on, and to leave and come back."""

    init: Callable
    restart: Callable
    anew: Callable
    chunk: Callable
    unload: Callable
    load: Callable


def _as_shard(plan: Plan, layout: Layout, data: PyTree) -> PyTree:
    """The data as a kernel is given it: on many shards, with the number of its real items."""
    if layout.over != "data" or plan.num_items is None:
        return data
    padded = isinstance(data, Shard)  # a batch that is shorter than others
    items, total = (data.items, data.total) if padded else (data, plan.num_items)
    rows = jax.tree.leaves(items)[0].shape[0]
    start = plan.comm.index() * rows
    return Shard(items, jnp.clip(total - start, 0, rows), start, total)


@lru_cache(maxsize=128)
def growth(static: Static, plan: Plan, layout: Layout, capacity: int) -> Callable:
    """The compiled function of a state, with room for `capacity` slots."""
    return layout.compile(partial(_grown, static, plan, layout, capacity), _PARAMS, _CARRY, _DATA)


@lru_cache(maxsize=128)
def wider_draw(static: Static, plan: Plan, layout: Layout, capacity: int) -> Callable:
    """The function whose result has the shapes of a draw, were there `capacity` slots."""

    def draw(params: PyTree, carry: Carry, data: PyTree) -> PyTree:
        state = _grown(static, plan, layout, capacity, params, carry.state, data)
        shapes = kept_shapes(plan, carry._replace(state=state))[0]
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    return layout.compile(draw, _PARAMS, _CARRY, _DATA)


def _grown(
    static: Static,
    plan: Plan,
    layout: Layout,
    capacity: int,
    params: PyTree,
    state: Any,
    data: PyTree,
) -> Any:
    kernel, grown = static.kernel(params).grow(state, capacity)
    key = jax.random.key(0, impl=plan.impl)
    data = _as_shard(plan, layout, data)
    return jax.tree.map(_pad_to, grown, jax.eval_shape(kernel.init, key, grown.position, data))


def _pad_to(x: Any, like: Any) -> Any:
    """`x` with zeros appended up to the shape of `like`: growth only appends slots."""
    if x.shape == like.shape:
        return x
    return jnp.pad(x, [(0, b - a) for a, b in zip(x.shape, like.shape, strict=True)])


_ANEW = 2**31 - 1  # less the steps made, the index of a key that nothing else is given


@lru_cache(maxsize=128)
def programs(static: Static, plan: Plan, layout: Layout, stacked: bool) -> Programs:
    """The functions of one chain on one shard, mapped and compiled for all."""
    shard = partial(_as_shard, plan, layout)

    def begin(kernel: Kernel, state: Any, data: PyTree) -> tuple[Carry, PyTree]:
        carry = start_carry(kernel, state, data, plan)
        shapes = kept_shapes(plan, carry)
        return carry, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def init(params, position, chain, data, roots):
        kernel, data = static.kernel(params), shard(data)
        key = root(roots.init, chain, plan.impl)
        return begin(kernel, kernel.init(key, place(position, plan), data), data)

    def restart(params, state, stopped, data):
        carry, template = begin(static.kernel(params), place(state, plan), shard(data))
        return carry._replace(stopped=stopped), template

    def anew(params, position, chain, data, roots, num_steps):
        kernel, data = static.kernel(params), shard(data)
        key = jax.random.fold_in(root(roots.init, chain, plan.impl), _ANEW - num_steps)
        keys = as_keys(key)._replace(count=num_steps)  # what follows a schedule begins there
        try:
            state = kernel.init(keys, place(position, plan), data)
        except TypeError as error:
            if not mistook_keys(error):
                raise
            # an `init` of one's own may take its key for one of JAX's
            state = kernel.init(key, place(position, plan), data)
        return begin(kernel, state, data)

    def chunk(params, carry, chain, data, roots, span):
        def of_step(i: Any) -> PyTree:
            return shard(jax.tree.map(lambda x: x[i], data) if plan.streamed else data)

        return run_chunk(plan, static.kernel(params), carry, chain, of_step, roots, span)

    def unload(carry):
        return carry._replace(state=present(carry.state, plan))

    def load(carry):
        return carry._replace(state=place(carry.state, plan))

    position = _CHAIN if stacked else _SAME
    return Programs(
        init=layout.compile(init, _PARAMS, position, _CHAIN, _DATA, _SAME),
        restart=layout.compile(restart, _PARAMS, _SEEN, _SEEN, _DATA),
        anew=layout.compile(anew, _PARAMS, _SEEN, _CHAIN, _DATA, _SAME, _SAME),
        chunk=layout.compile(chunk, _PARAMS, _CARRY, _CHAIN, _DATA, _SAME, _SAME),
        unload=layout.compile(unload, _CARRY),
        load=layout.compile(load, _SEEN),
    )
