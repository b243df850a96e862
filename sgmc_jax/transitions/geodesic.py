"""A: the geodesic flow."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, Float, PyTree

from .transition import Phase, Transition


class GeodesicFlow(Transition):
    """Moves along the geodesic: `dx = v dt`, `dv` = what keeps `v` tangent; straight on R^n.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import GeodesicFlow, Phase
        >>> phase = Phase(position=jnp.array(1.0), momentum=jnp.array(2.0))
        >>> float(GeodesicFlow()(None, phase, jnp.array(0.5), None).position)
        2.0

    Reference:
        Byrne and Girolami (2013), Geodesic Monte Carlo on embedded manifolds.
    """

    moves: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        position, momentum = phase.space.flow(phase.position, phase.momentum, h)
        return phase._replace(position=position, momentum=momentum)
