"""The order in which a slice sampler's clusters have the terms of a series."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..random.accept import passes
from ..random.slots import slot_uniform


def swap_neighbours(
    key: Any, order: Int[Array, " K"], counts: Int[Array, " K"], log_weights: Float[Array, " K"]
) -> Int[Array, " K"]:
    """Exchange the clusters of neighbouring terms, first of even pairs, then of odd ones.

    Accepted with probability min(1, (w_j / w_{j+1})^(m_{j+1} - m_j)); without it large clusters
    hardly ever come first.
    """
    # weights stay with their terms: clusters move among them
    log_ratio = log_weights[:-1] - log_weights[1:]
    uniforms = slot_uniform(key, log_ratio.shape, log_ratio.dtype)
    index = jnp.arange(len(order))
    # pairs of one parity have no term in common, and are exchanged at once
    for parity in (0, 1):
        sizes = counts[order]
        gain = (sizes[1:] - sizes[:-1]) * log_ratio
        # empty clusters stay, or slots from past the capacity would come down in time
        some = sizes[1:] + sizes[:-1] != 0
        swap = some & (index[:-1] % 2 == parity) & passes(uniforms, gain)
        step = jnp.zeros_like(index).at[:-1].add(swap).at[1:].add(-swap.astype(index.dtype))
        order = order[index + step]
    return order


def in_use(counts: Int[Array, " K"]) -> Bool[Array, " K"]:
    """Which terms are not past the last that has points."""
    return jnp.flip(jax.lax.cummax(jnp.flip(counts > 0).astype(jnp.int32))) > 0
