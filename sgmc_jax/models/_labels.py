"""Labels and indices: what a later batch of a stream holds instead makes its estimate NaN."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from ..arrays import as_indices


def log_probability(outputs: Float[Array, " k"], y: Shaped[Array, ""]) -> Float[Array, ""]:
    """log softmax(outputs)_y."""
    y = jnp.asarray(y, int)  # of two labels they may be truths
    return if_known(y, len(outputs)) * jax.nn.log_softmax(outputs)[y]


def if_truth(y: Shaped[Array | np.ndarray, "*b"]) -> Float[Array, "*b"]:
    """A factor, 1 for a label 0 or 1, and NaN for others."""
    return jnp.where((y == 0) | (y == 1), 1.0, jnp.nan)


def if_known(index: Shaped[Array | np.ndarray, "*b"], num: int) -> Float[Array, "*b"]:
    """A factor, 1 for an index in 0, ..., num - 1, and NaN for others, which JAX would clamp."""
    index = as_indices(index, num)
    return jnp.where((index >= 0) & (index < num), 1.0, jnp.nan)
