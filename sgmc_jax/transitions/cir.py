"""C: the Cox-Ingersoll-Ross process."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from ..random.cir import cir
from .transition import Phase, Transition


class CIR(Transition):
    """`d theta = (a - theta) dt + sqrt(2 theta) dW`, solved exactly; the position is log theta.

    The shapes a are the field, estimated anew from each minibatch. An estimate that is not positive
    leaves the position undefined, and the chain is flagged.

    Example: after a long time the law is Gamma(a), here of a large shape.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import CIR, Phase
        >>> phase, shapes = Phase(jnp.zeros(2)), jnp.array([1.0, 1e6])
        >>> moved = jnp.exp(CIR()(jax.random.key(0), phase, jnp.array(50.0), shapes).position)
        >>> bool(moved[0] > 0), bool(jnp.abs(moved[1] / 1e6 - 1) < 0.01)
        (True, True)

    Reference:
        Cox, Ingersoll and Ross (1985), A theory of the term structure of interest rates; Baker,
        Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the probability
        simplex.
    """

    random: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        # all leaves in one draw: it compiles once
        flat, unravel = ravel_pytree(phase.position)
        shapes, _ = ravel_pytree(
            jax.tree.map(lambda x, a: jnp.broadcast_to(a, x.shape), phase.position, field)
        )
        moved = cir(key, flat, shapes.astype(flat.dtype), h.astype(flat.dtype))
        return phase._replace(position=unravel(moved.astype(flat.dtype)))
