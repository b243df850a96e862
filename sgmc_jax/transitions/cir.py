"""C: the Cox-Ingersoll-Ross process."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..random.cir import cir
from .transition import Phase, Transition


class CIR(Transition):
    """`d theta = (a - theta) dt + sqrt(2 theta) dW`, solved exactly; the position is log theta.

    The shapes a are the field, estimated anew from each minibatch. An estimate that is not positive
    leaves the position undefined, and the chain is flagged.
    """

    random: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False

    def __call__(self, key: Any, phase: Phase, h: Array, field: PyTree | None) -> Phase:
        leaves, structure = jax.tree.flatten(phase.position)
        shapes = structure.flatten_up_to(field)
        keys = [key] if len(leaves) == 1 else list(jax.random.split(key, len(leaves)))
        moved = [
            cir(k, x, jnp.asarray(a, x.dtype), h.astype(x.dtype))
            for k, x, a in zip(keys, leaves, shapes, strict=True)
        ]
        return phase._replace(position=jax.tree.unflatten(structure, moved))
