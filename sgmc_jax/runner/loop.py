"""A chunk of steps of one chain, compiled as one loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .. import _tree
from .._types import Data, Kernel
from .keep import keep, kept_shapes
from .keys import Roots, root, step_keys
from .plan import Carry, Plan

_LONGEST_BLOCK = 64
_CACHED_BYTES = 512  # a loop over arrays up to this size runs without XLA's scheduler on a CPU


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

    def block(length: Any, b: Array, loop: tuple) -> tuple:
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

        carry, draws = jax.lax.fori_loop(0, length, one, (carry, zeros(plan.block)))
        # slots past the block's own are written again by the next block
        at = first_slot - slot(start)
        write = partial(jax.lax.dynamic_update_slice_in_dim, start_index=at, axis=0)
        return carry, jax.tree.map(write, buffers, draws)

    def some_block(b: Array, loop: tuple) -> tuple:
        return block(jnp.minimum(plan.block, num_steps - b * plan.block), b, loop)

    loop, whole = (carry, zeros(plan.slots + plan.block)), 0
    if plan.whole_blocks:
        whole = num_steps // plan.block
        loop = jax.lax.fori_loop(0, whole, partial(block, plan.block), loop)
    num_blocks = (num_steps + plan.block - 1) // plan.block
    return jax.lax.fori_loop(whole, num_blocks, some_block, loop)


def block_length(draw_bytes: int) -> int:
    """How many steps to write at once: as many as a CPU runs in its fast loop, if that is some."""
    fitting = _CACHED_BYTES // max(draw_bytes, 1)
    return min(fitting, _LONGEST_BLOCK) if fitting >= 4 else _LONGEST_BLOCK
