"""A: the geodesic flow."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, PyTree

from ..spaces import Euclidean, Space
from .transition import Phase, Transition


class GeodesicFlow(Transition):
    """Moves along the geodesic: `dx = v dt`, `dv` = what keeps `v` tangent; straight on R^n."""

    space: Space = Euclidean()
    moves: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Array, field: PyTree | None) -> Phase:
        position, momentum = self.space.flow(phase.position, phase.momentum, h)
        return phase._replace(position=position, momentum=momentum)
