"""Indices of a type that holds the length of their axis."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer


def as_indices(index: Integer[Array | np.ndarray, "*n"] | int, size: int) -> Integer[Array, "*n"]:
    """Indices of an axis of that length, as they are or in 32 bits: -1 and the length fit too.

    In one byte 256 is 0, so that no index would be below it; and JAX, which counts negative ones
    from the end, adds the length in the indices' own type.

    Example:
        >>> import jax.numpy as jnp
        >>> as_indices(jnp.array([3, 250], jnp.uint8), 256).dtype
        dtype('int32')
    """
    index = jnp.asarray(index)
    held = jnp.iinfo(index.dtype)
    return index if held.min < 0 and size <= held.max else index.astype(jnp.int32)
