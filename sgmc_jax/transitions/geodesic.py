"""A: the geodesic flow."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, PyTree

from .transition import Phase, Transition


class GeodesicFlow(Transition):
    """Moves along the geodesic: `dx = v dt`, `dv` = what keeps `v` tangent; straight on R^n."""

    moves: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Array, field: PyTree | None) -> Phase:
        position, momentum = phase.space.flow(phase.position, phase.momentum, h)
        return phase._replace(position=position, momentum=momentum)
