"""Labels and indices: what a later batch of a stream holds instead makes its estimate NaN."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def log_probability(outputs: Float[Array, " k"], y: Int[Array, ""]) -> Array:
    """log softmax(outputs)_y."""
    y = jnp.asarray(y, int)  # of two labels they may be truths
    return if_known(y, len(outputs)) * jax.nn.log_softmax(outputs)[y]


def if_known(index: Int[Array, "..."], num: int) -> Float[Array, "..."]:
    """A factor, 1 for an index in 0, ..., num - 1, and NaN for others, which JAX would clamp."""
    return jnp.where((index >= 0) & (index < num), 1.0, jnp.nan)
