"""The pure inner loop: keys by the step, guarded steps, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from . import _checks, _returned, _tree
from ._types import Data, Kernel, Keys, Ungated
from .collective import Collective, Dist, PerShard
from .contract import merge_running, overflowed, slot_infos

_LONGEST_BLOCK = 64
_CACHED_BYTES = 512  # a loop over arrays up to this size runs without XLA's scheduler on a CPU


class RunInfo(NamedTuple):
    """The kernel's info, whose fields are attributes here too, and whether the chain is finite."""

    finite: Any
    kernel: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.kernel, name)


class Moments(NamedTuple):
    """Streaming moments: the mean, the variance, and the sum of the weights (step sizes)."""

    mean: PyTree
    variance: PyTree
    weight: Array


class Carry(NamedTuple):
    """What one chain carries from step to step.

    `stopped` is the step at which the chain turned non-finite, or -1; `overflow` whether a step ran
    out of slots; `info` the average since the last kept draw; `moments` those of `reduce`.
    """

    state: Any
    stopped: Array
    overflow: Array
    info: Any
    moments: Any


class Roots(NamedTuple):
    """The raw keys that a run's random numbers descend from."""

    init: Array
    noise: Array
    batch: Array


class Plan(NamedTuple):
    """What is static in a run."""

    record: Callable
    reduce: Any  # a function or None
    thin: int
    slots: int  # of the buffers that a chunk fills
    block: int  # steps whose keys are derived, and whose draws are written, at once
    impl: str
    share_batch: bool
    streamed: bool
    num_items: Any  # an int, or None where there is no data
    num_rows: Any  # of a shard, padding included
    has_slots: bool  # whether the runner can make room for more
    comm: Collective


def roots_of(key: Any) -> tuple[Roots, str]:
    """The root keys of a run, raw, and the name of their generator."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    init, noise, batch = (jax.random.key_data(k) for k in jax.random.split(key, 3))
    return Roots(init, noise, batch), str(jax.random.key_impl(key))


def root(raw: Array, chain: Any, impl: str) -> Any:
    """The key of one chain."""
    return jax.random.fold_in(jax.random.wrap_key_data(raw, impl=impl), chain)


def step_keys(noise: Any, batch: Any, counts: Array) -> Keys:
    """The keys of several steps of one chain, by their index: any chunk gives the same."""
    counts = counts.astype(jnp.int32)  # `arange` is int64 under x64
    fold = jax.vmap(jax.random.fold_in, (None, 0))
    return Keys(fold(noise, counts), fold(batch, counts), counts)


def guarded_step(
    kernel: Kernel, keys: Keys, state: Any, stopped: Array, data: Data
) -> tuple[Any, Array, RunInfo]:
    """One step of a chain that stays for ever at its last finite state once it leaves it."""
    result = _checks.with_keys(kernel.step, keys, state, data)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"step must return a pair (state, info), got {type(result).__name__}")
    moved, info = result
    _same_avals(state, moved)
    info = _tree.strong(info)
    finite = kernel.finite(moved)
    stopped = jnp.where((stopped < 0) & ~finite, keys.count, stopped)
    going = stopped < 0
    return _gate(going, moved, state), stopped, RunInfo(going, info)


def _gate(going: Array, moved: Any, state: Any) -> Any:
    """`moved` where the chain goes on, else `state`; what is `Ungated` is taken as moved."""

    def part(moved: Any, state: Any) -> Any:
        return moved if isinstance(moved, Ungated) else jnp.where(going, moved, state)

    return jax.tree.map(part, moved, state, is_leaf=lambda x: isinstance(x, Ungated))


def _same_avals(before: Any, after: Any) -> None:
    """Raise unless a step returns a state of the structure, shapes and dtypes it was given."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise TypeError(
            "step must return a state of the structure that init returns, got "
            f"{jax.tree.structure(after)} for {jax.tree.structure(before)}"
        )
    pairs = zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True)
    for (path, x), y in pairs:
        if jnp.shape(x) != jnp.shape(y) or jnp.result_type(x) != jnp.result_type(y):
            raise TypeError(
                f"step must keep the shape and dtype of state{jax.tree_util.keystr(path)}, got "
                f"{jnp.result_type(y)}{jnp.shape(y)} for {jnp.result_type(x)}{jnp.shape(x)}"
            )


def start_carry(kernel: Kernel, state: Any, data: Data, plan: Plan) -> Carry:
    """The carry of a chain that begins at `state`."""
    if not hasattr(state, "position"):
        raise TypeError(f"init must return a state with a `position`, got {type(state).__name__}")
    state = _tree.strong(state)
    key = jax.random.wrap_key_data(jnp.zeros_like(_key_words(plan.impl)), impl=plan.impl)
    keys = Keys(key, key, jnp.zeros((), jnp.int32))
    stopped = jnp.full((), -1, jnp.int32)
    _, _, info = jax.eval_shape(guarded_step, kernel, keys, state, stopped, data)
    if slot_infos(info) and not plan.has_slots:
        raise TypeError(
            f"{type(kernel).__name__} reports SlotInfo, but declares no capacity: a kernel with "
            "slots has their number as a field `capacity`"
        )
    info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), info)
    moments = None
    if plan.reduce is not None:
        value = _returned.as_floats("reduce", plan.reduce(present(state, plan), info))
        zeros = jax.tree.map(lambda x: jnp.zeros_like(jnp.asarray(x)), value)
        moments = Moments(zeros, zeros, jnp.zeros((), jnp.result_type(float)))
    return Carry(state, stopped, jnp.zeros((), bool), info, moments)


def _key_words(impl: str) -> Array:
    return jax.random.key_data(jax.random.key(0, impl=impl))


def run_chunk(
    plan: Plan,
    kernel: Kernel,
    carry: Carry,
    chain: Array,
    data: Callable[[Array], Data],
    roots: Roots,
    span: tuple[Array, Array, Array],
) -> tuple[Carry, tuple[PyTree, Any]]:
    """A number of steps of one chain, and the draws kept of them.

    Args:
        data: the data of the chunk's i-th step.
        span: the index of the first step, the number of steps, and that of the burn-in; all
            traced, so that chunks of any length run one program.

    Returns:
        the carry, and buffers of at least `plan.slots` draws and infos, the first ones filled;
        whether a draw is finite can be told from the step at which its chain stopped.
    """
    start, num_steps, burn_in = span
    noise = root(roots.noise, chain, plan.impl)
    batch = root(roots.batch, 0 if plan.share_batch else chain, plan.impl)
    shapes = kept_shapes(plan, carry)

    def zeros(num: int) -> PyTree:
        return jax.tree.map(lambda x: jnp.zeros((num, *x.shape), x.dtype), shapes)

    def slot(count: Array) -> Array:
        return jnp.maximum(count - burn_in, 0) // plan.thin

    def block(b: Array, loop: tuple) -> tuple:
        carry, buffers = loop
        first = b * plan.block
        keys = step_keys(noise, batch, start + first + jnp.arange(plan.block))
        first_slot = slot(start + first)

        def one(i: Array, loop: tuple) -> tuple:
            carry, draws = loop
            key = jax.tree.map(lambda key: key[i], keys)
            carry, kept = keep(plan, kernel, key, carry, data(first + i), burn_in)
            at = slot(key.count) - first_slot
            write = partial(jax.lax.dynamic_update_index_in_dim, index=at, axis=0)
            return carry, jax.tree.map(write, draws, _tree.strong(kept))

        steps = jnp.minimum(plan.block, num_steps - first)
        carry, draws = jax.lax.fori_loop(0, steps, one, (carry, zeros(plan.block)))
        # slots past the block's own are written again by the next block
        at = first_slot - slot(start)
        write = partial(jax.lax.dynamic_update_slice_in_dim, start_index=at, axis=0)
        return carry, jax.tree.map(write, buffers, draws)

    num_blocks = (num_steps + plan.block - 1) // plan.block
    return jax.lax.fori_loop(0, num_blocks, block, (carry, zeros(plan.slots + plan.block)))


def block_length(draw_bytes: int) -> int:
    """How many steps to write at once: as many as a CPU runs in its fast loop, if that is some."""
    fitting = _CACHED_BYTES // max(draw_bytes, 1)
    return min(fitting, _LONGEST_BLOCK) if fitting >= 4 else _LONGEST_BLOCK


def keep(
    plan: Plan, kernel: Kernel, keys: Keys, carry: Carry, data: Data, burn_in: Array
) -> tuple[Carry, PyTree]:
    """One guarded step, its info averaged since the last kept draw, and what it leaves to keep."""
    state, stopped, info = guarded_step(kernel, keys, carry.state, carry.stopped, data)
    overflow = carry.overflow | overflowed(info)
    since, window = keys.count - burn_in, plan.thin
    if plan.reduce is not None:
        # one window of everything after the burn-in
        step = jnp.maximum(since, 0)
        merged = merge_running(carry.info, info, step)
        moments = _add_moments(plan, kernel, carry.moments, state, info, since >= 0)
        return Carry(state, stopped, overflow, merged, moments), ((), ())
    if window == 1:
        draw = plan.record(present(state, plan), info)
        return Carry(state, stopped, overflow, carry.info, None), (draw, info.kernel)
    step = since % window
    merged = merge_running(carry.info, info, step)
    draw = jax.lax.cond(
        step == window - 1,
        lambda: _tree.strong(plan.record(present(state, plan), merged)),
        lambda: jax.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype), _draw_shapes(plan, carry.state, info)
        ),
    )
    return Carry(state, stopped, overflow, merged, None), (draw, merged.kernel)


def kept_shapes(plan: Plan, carry: Carry) -> PyTree:
    """The shapes and dtypes of what one kept step leaves."""
    if plan.reduce is not None:
        return ((), ())
    info = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), carry.info)
    return _draw_shapes(plan, carry.state, info), info.kernel


def _draw_shapes(plan: Plan, state: Any, info: Any) -> PyTree:
    return jax.eval_shape(
        lambda state, info: _tree.strong(
            _returned.numbers("record", plan.record(present(state, plan), info))
        ),
        state,
        info,
    )


def _add_moments(
    plan: Plan, kernel: Kernel, moments: Moments, state: Any, info: RunInfo, counts: Array
) -> Moments:
    value = _returned.as_floats("reduce", plan.reduce(present(state, plan), info))
    full = kernel.weight(info.kernel)
    full = 1.0 if full is None else full
    weight = jnp.where(counts & info.finite, full, 0.0).astype(moments.weight.dtype)
    total = moments.weight + weight
    share = jnp.where(total > 0, weight / total, 0.0)

    def leaf(x: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        share_x = share.astype(mean.dtype)
        delta = x - mean
        return mean + share_x * delta, (1 - share_x) * (variance + share_x * delta**2)

    pairs = jax.tree.map(leaf, value, moments.mean, moments.variance)
    pair = jax.tree.structure((0, 0))
    mean, variance = jax.tree.transpose(jax.tree.structure(value), pair, pairs)
    return Moments(mean, variance, total)


def _is_placed(x: Any) -> bool:
    return isinstance(x, Dist | PerShard)


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
