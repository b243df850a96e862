"""B: the gradient kick."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, Float, PyTree

from .. import _tree
from .transition import Phase, Transition


class GradientKick(Transition):
    """`v <- v + h grad log p(x)`, the Riemannian gradient: P(x) g on an embedded space.

    g is the ambient gradient of the log density, and P the tangent projection.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import GradientKick, Phase
        >>> phase, gradient = Phase(jnp.array(0.0), momentum=jnp.array(1.0)), jnp.array(4.0)
        >>> float(GradientKick()(None, phase, jnp.array(0.5), gradient).momentum)
        3.0

    Reference:
        Leimkuhler and Matthews (2013), Rational construction of stochastic numerical methods for
        molecular sampling.
    """

    uses_field: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        force = phase.space.gradient(phase.position, field)
        return phase._replace(momentum=_tree.axpy(h, force, phase.momentum))
