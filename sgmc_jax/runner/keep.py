"""One step and what is kept of it: a draw, or its share of the moments."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .. import _returned, _tree
from .._types import Data, Kernel, Keys
from ..contract import merge_running, overflowed, running_start, slot_infos, wide_zeros
from ..run import Moments, RunInfo
from .guard import guarded_step
from .plan import Carry, Plan
from .shards import present


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
    if plan.thin > 1 or plan.reduce is not None:
        info = running_start(info)
    if plan.reduce is not None:
        value = _returned.as_floats("reduce", plan.reduce(present(state, plan), info))
        variance = jax.tree.map(lambda x: wide_zeros(jnp.real(x)), value)
        total = jnp.zeros((), jnp.result_type(float))
        moments = Moments(jax.tree.map(wide_zeros, value), variance, total)
        moments = Running(moments, moments)
    return Carry(state, stopped, jnp.zeros((), bool), info, moments)


def keep(
    plan: Plan, kernel: Kernel, keys: Keys, carry: Carry, data: Data, burn_in: Array
) -> tuple[Carry, PyTree]:
    """One guarded step, its info averaged since the last kept draw, and what it leaves to keep."""
    state, stopped, info = guarded_step(kernel, keys, carry.state, carry.stopped, data)
    # of a chain that stops here, too, it counts for nothing: NaN ask for any number of slots
    overflow = carry.overflow | (overflowed(info) & (stopped < 0))
    carry = Carry(state, stopped, overflow, carry.info, carry.moments)
    since = keys.count - burn_in
    if plan.reduce is not None:
        return _averaged(plan, kernel, carry, info, since), ((), ())
    if plan.thin == 1:
        return carry, (plan.record(present(state, plan), info), info.kernel)
    return _thinned(plan, carry, info, since % plan.thin)


def _averaged(plan: Plan, kernel: Kernel, carry: Carry, info: RunInfo, since: Array) -> Carry:
    """The carry with a step's share of the moments: all steps after the burn-in are one window."""
    merged = merge_running(carry.info, info, jnp.maximum(since, 0))
    moments = _add_moments(plan, kernel, carry.moments, carry.state, info, since >= 0)
    return carry._replace(info=merged, moments=moments)


def _thinned(plan: Plan, carry: Carry, info: RunInfo, step: Array) -> tuple[Carry, PyTree]:
    """The carry with the info of a step of its window; a draw if that is the last, else zeros."""
    merged = merge_running(carry.info, info, step)
    draw = jax.lax.cond(
        step == plan.thin - 1,
        lambda: _tree.strong(plan.record(present(carry.state, plan), merged)),
        lambda: jax.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype), _draw_shapes(plan, carry.state, merged)
        ),
    )
    return carry._replace(info=merged), (draw, merged.kernel)


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


class Running(NamedTuple):
    """Moments so far, and what was rounded off them: after many steps a new one's share is less
    than half a unit of their last digit, and would be lost."""

    moments: Moments
    rest: Moments

    def plus(self, change: Moments) -> Running:
        """With a change in each, of which what is rounded off is kept for the next."""
        due = jax.tree.map(jnp.add, change, self.rest)
        moments = jax.tree.map(jnp.add, self.moments, due)
        rest = jax.tree.map(lambda y, new, old: y - (new - old), due, moments, self.moments)
        return Running(moments, rest)


def _add_moments(
    plan: Plan, kernel: Kernel, running: Running, state: Any, info: RunInfo, counts: Array
) -> Running:
    moments = running.moments
    value = _returned.as_floats("reduce", plan.reduce(present(state, plan), info))
    full = kernel.weight(info.kernel, state)
    full = 1.0 if full is None else full
    weight = jnp.where(counts & info.finite, full, 0.0).astype(moments.weight.dtype)
    total = moments.weight + weight
    share = jnp.where(total > 0, weight / total, 0.0)

    def leaf(x: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        share_x = share.astype(mean.dtype)
        # what weighs nothing may not be finite
        delta = jnp.where(share > 0, x.astype(mean.dtype) - mean, 0)
        share_v = share.astype(variance.dtype)
        return share_x * delta, share_v * ((1 - share_v) * jnp.abs(delta) ** 2 - variance)

    leaves, structure = jax.tree.flatten(value)
    pairs = map(leaf, leaves, jax.tree.leaves(moments.mean), jax.tree.leaves(moments.variance))
    of_means, of_variances = zip(*pairs, strict=True) if leaves else ((), ())
    mean, variance = structure.unflatten(of_means), structure.unflatten(of_variances)
    return running.plus(Moments(mean, variance, weight))


def _key_words(impl: str) -> Array:
    return jax.random.key_data(jax.random.key(0, impl=impl))
