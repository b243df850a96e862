"""B: the gradient kick."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, PyTree

from .. import _tree
from ..spaces import Euclidean, Space
from .transition import Phase, Transition


class GradientKick(Transition):
    """`v <- v + h P(x) g`, g the gradient of the log density and P the tangent projection."""

    space: Space = Euclidean()
    uses_field: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Array, field: PyTree | None) -> Phase:
        force = self.space.project(phase.position, field)
        return phase._replace(momentum=_tree.axpy(h, force, phase.momentum))
