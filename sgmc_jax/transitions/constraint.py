"""P, R: a position that has left a convex set, brought back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from .. import _tree
from .._types import Position
from ..convex_sets import ConvexSet, as_convex_set
from .transition import Phase, Transition


class _Constraint(Transition):
    """What both have in common."""

    convex_set: ConvexSet = eqx.field(converter=as_convex_set)
    moves: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True
    bounded: ClassVar[bool] = True

    def check_position(self, position: Position) -> None:
        self.convex_set.check(position)

    def _back(self, phase: Phase, bring: Callable[[Position], Position]) -> Phase:
        """NaN for what is not finite: a point of the set would hide an infinite gradient."""
        broken = ~_tree.all_finite(phase.position)
        return phase._replace(position=_tree.nan_where(bring(phase.position), broken))


class Projection(_Constraint):
    """P: `x <- project(x)`, the nearest point of the set.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import Box
        >>> from sgmc_jax.transitions import Phase, Projection
        >>> phase = Phase(jnp.array([-0.25, 0.5]))
        >>> Projection(Box(0.0, 1.0))(None, phase, jnp.array(0.1), None).position.tolist()
        [0.0, 0.5]

    Reference:
        Bubeck, Eldan and Lehec (2018), Sampling from a log-concave distribution with projected
        Langevin Monte Carlo.
    """

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        return self._back(phase, self.convex_set.project)


class Reflection(_Constraint):
    """R: `x <- reflect(x)`, its mirror image at the boundary of the set.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import Box
        >>> from sgmc_jax.transitions import Phase, Reflection
        >>> phase = Phase(jnp.array([-0.25, 0.5]))
        >>> Reflection(Box(0.0, 1.0))(None, phase, jnp.array(0.1), None).position.tolist()
        [0.25, 0.5]
    """

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        return self._back(phase, self.convex_set.reflect)
