"""One number for all of a batch that `vmap` makes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped


@jax.custom_batching.custom_vmap
def largest_of_batch(x: Shaped[Array, ""]) -> Shaped[Array, ""]:
    """`x`; under `vmap` the largest of the batch, alike for all of it.

    A loop up to it, or a branch that is taken where it is true, needs no mask for each.

    Example:
        >>> jax.vmap(lambda x: 10 * x + largest_of_batch(x))(jnp.array([1, 3])).tolist()
        [13, 33]
    """
    return x


@largest_of_batch.def_vmap
def _(axis_size: int, in_batched: list[bool], x: Shaped[Array, " n"]) -> tuple[Array, bool]:
    return largest_of_batch(jnp.max(x)), False
