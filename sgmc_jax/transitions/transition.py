"""The protocol of a transition and the point of phase space it moves."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, PyTree

from .._types import Position


class Phase(NamedTuple):
    """A point of phase space; what a word does not use is `None`."""

    position: Position
    momentum: PyTree | None = None
    thermostat: Any = None


class Transition(eqx.Module):
    """One piece of a diffusion, solved for a time `h`: `(key, phase, h, field) -> phase`.

    `field` is the estimator's value at the phase's position, for pieces that use it. The class says
    what a piece needs, so that a word evaluates no gradient and splits no key in vain.
    """

    random: ClassVar[bool] = False
    """Whether it draws random numbers."""
    moves: ClassVar[bool] = False
    """Whether it moves the position, after which the field is stale."""
    uses_field: ClassVar[bool] = False
    """Whether it needs the field."""
    uses_momentum: ClassVar[bool] = True
    """Whether it needs a momentum."""

    @abstractmethod
    def __call__(self, key: Any, phase: Phase, h: Array, field: PyTree | None) -> Phase:
        """The phase a time `h` later."""

    def clipped(self, h: Array) -> Array | None:
        """The number of noise eigenvalues that would be negative at `h`, and are set to zero.

        `None` where no covariance is subtracted from the noise.
        """
        return None

    def check_position(self, position: Position) -> None:
        """Raise if a concrete position is unfit for this piece."""
