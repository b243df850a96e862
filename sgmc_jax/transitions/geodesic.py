"""A: the geodesic flow."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import _tree
from .._checks import truth
from .._types import Position
from ..spaces import Euclidean, Space
from .transition import Phase, Transition


class GeodesicFlow(Transition):
    """Moves along the geodesic: `dx = v dt`, `dv` = what keeps `v` tangent; straight on R^n.

    Args:
        keeps_rest: on R^n, whether what is rounded off a move is the phase's `"position_rest"`, and
            added to the next one, so that a step far below the rounding of x moves it nevertheless.
            Not for Metropolis tests: rounded moves can be taken back, a sum of them cannot.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import GeodesicFlow, Phase
        >>> phase = Phase(position=jnp.array(1.0), momentum=jnp.array(2.0))
        >>> float(GeodesicFlow()(None, phase, jnp.array(0.5), None).position)
        2.0

    Reference:
        Byrne and Girolami (2013), Geodesic Monte Carlo on embedded manifolds.
    """

    keeps_rest: bool = eqx.field(static=True, default=False)
    moves: ClassVar[bool] = True

    def __check_init__(self):
        truth("keeps_rest", self.keeps_rest)

    @property
    def kind(self) -> Any:
        return type(self), self.keeps_rest

    def auxiliary(self, position: Position) -> dict[str, PyTree]:
        return {"position_rest": jax.tree.map(jnp.zeros_like, position)} if self.keeps_rest else {}

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        if self.keeps_rest and not moves_straight(space):
            raise ValueError(
                f"keeps_rest is for straight lines, got the flow of {type(space).__name__}"
            )

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        if not self.keeps_rest:
            position, momentum = phase.space.flow(phase.position, phase.momentum, h)
            return phase._replace(position=position, momentum=momentum)
        before = phase.position
        rest = jax.tree.map(_of_now, phase.auxiliary["position_rest"], before)
        due = _tree.axpy(h, phase.momentum, rest)
        after = _tree.axpy(1.0, due, before)
        rest = jax.tree.map(lambda due, x, y: due - (y - x), due, before, after)
        kept = phase.auxiliary | {"position_rest": rest}
        return phase._replace(position=after, auxiliary=kept)


def moves_straight(space: Space | None) -> bool:
    """Whether its flow is that of R^n, and not one of a subclass's own."""
    return space is None or type(space).flow is Euclidean.flow


def _of_now(rest: Float[Array, "..."], x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The rest if x can have left it, which it cannot where another kernel has moved it far."""
    return jnp.where(jnp.abs(rest) <= jnp.finfo(x.dtype).eps * jnp.abs(x), rest, 0)
