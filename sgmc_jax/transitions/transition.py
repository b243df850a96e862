"""The protocol of a transition and the point of phase space it moves."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PyTree

from .. import _checks, _returned
from .._types import Position
from ..spaces import Euclidean, Space


class Phase(NamedTuple):
    """A point of phase space, and the space it is on; a word without momenta has `None`.

    `auxiliary` is what the pieces keep besides, by name: see `Transition.auxiliary`. `covariance`
    is that of the field's noise, where the estimator tells it, and `clipped` the number of noise
    eigenvalues that were negative once it was subtracted, and set to zero; `curvature` is the
    derivative of each component of the field in its own coordinate, where the estimator tells it.
    What is not there is `None`.

    Example:
        >>> import jax.numpy as jnp
        >>> phase = Phase(position=jnp.zeros(2), momentum=jnp.ones(2))
        >>> phase.space.dim(phase.position), phase.clipped
        (2, None)
    """

    position: Position
    momentum: PyTree | None = None
    auxiliary: dict[str, PyTree] = {}
    space: Space = Euclidean()
    covariance: PyTree | None = None
    clipped: Any = None
    curvature: PyTree | None = None


class Transition(eqx.Module):
    """One piece of a diffusion, solved for a time `h`: `(key, phase, h, field) -> phase`.

    `field` is the estimator's value at the phase's position, for pieces that use it. The class says
    what a piece needs, so that a word evaluates no gradient and splits no key in vain.

    Example: the momentum turned round.
        >>> import jax.numpy as jnp
        >>> class Flip(Transition):
        ...     def __call__(self, key, phase, h, field):
        ...         return phase._replace(momentum=-phase.momentum)
        >>> phase = Phase(jnp.zeros(2), momentum=jnp.array([1.0, 2.0]))
        >>> Flip()(None, phase, jnp.array(0.1), None).momentum.tolist()
        [-1.0, -2.0]
    """

    random: ClassVar[bool] = False
    """Whether it draws random numbers."""
    moves: ClassVar[bool] = False
    """Whether it moves the position, after which the field is stale."""
    keeps_field: ClassVar[bool] = False
    """Whether it moves the position in a way that leaves the field as it is."""
    uses_field: ClassVar[bool] = False
    """Whether it needs the field."""
    uses_momentum: ClassVar[bool] = True
    """Whether it needs a momentum."""
    straight: ClassVar[bool] = False
    """Whether it moves the position in straight lines, and so is right on R^n alone."""
    bounded: ClassVar[bool] = False
    """Whether the position stays within bounds, at which its density may be positive."""
    corrects: ClassVar[bool] = False
    """Whether its noise makes up for the field's, whose covariance is in the phase."""

    pull: ClassVar[Any] = None
    """`(position, field) -> field` in the coordinates in which it moves, if it has its own: the
    covariance in the phase is one in them."""

    # with annotations they would come first among the fields of a subclass
    temperature = None  # type: Any
    noise_covariance = None  # type: Any

    @property
    def kind(self) -> Any:
        """What of it decides what it keeps in the phase, and so which states it can go on from."""
        return type(self)

    @property
    def subtracts(self) -> bool:
        """Whether the covariance of the field's noise has been given to it."""
        given = self.noise_covariance
        return given is not None and given.eigenvalues is not None

    def at(self, count: Int[Array, ""] | int) -> Transition:
        """The piece as it is at a step: with its temperature, where that is a schedule."""
        if not callable(self.temperature):
            return self
        temperature = _checks.scheduled("temperature", self.temperature, count)
        return replace(self, temperature=temperature)  # type: ignore

    def auxiliary(self, position: Position) -> dict[str, PyTree]:
        """The first values of what this piece keeps in `phase.auxiliary`, by name; any may read it.

        It stays as it is where another kernel moves the position.
        """
        return {}

    @abstractmethod
    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        """The phase a time `h` later."""

    def excess(
        self, phase: Phase, h: Float[Array, ""], field: PyTree | None
    ) -> Float[Array, ""] | None:
        """By how much a step from this phase heats a chain without momenta, if that is known."""
        return None

    def check(self, h: Any, space: Space, estimated: str | None = None) -> None:
        """Raise if it cannot run for a time `h` on a space.

        `estimated` is the name of the estimator that tells the covariance of its noise, if it does.
        """

    def check_position(self, position: Position) -> None:
        """Raise if a concrete position is unfit for this piece."""

    def check_start(self, position: Position, h: Any) -> None:
        """Raise if it cannot begin at a concrete, fit position with a time of `h`."""


def check_phase(letter: str, piece: Transition, before: Phase, after: Any) -> None:
    """Raise unless a piece returns a phase of the same form, moved no more than its class says.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import GradientKick, Phase, check_phase
        >>> before, after = Phase(jnp.zeros(2)), Phase(jnp.ones(2))
        >>> check_phase("B", GradientKick(), before, after)
        Traceback (most recent call last):
        ...
        TypeError: piece 'B', GradientKick, moves the position, ...
    """
    name = f"piece {letter!r}, {type(piece).__name__},"
    if not isinstance(after, Phase):
        raise TypeError(f"{name} must return a Phase, got {type(after).__name__}")
    for field, old, new in zip(Phase._fields[:3], before, after):
        _returned.like(name, new, old, f"the {field} it was given")
        dtypes = [[x.dtype for x in jax.tree.leaves(tree)] for tree in (old, new)]
        if dtypes[0] != dtypes[1]:
            raise TypeError(
                f"{name} must keep the dtype of the {field}, {_returned.describe(old)}, got "
                f"{_returned.describe(new)}"
            )
    pairs = zip(jax.tree.leaves(before.position), jax.tree.leaves(after.position), strict=True)
    if not (piece.moves or piece.keeps_field) and any(old is not new for old, new in pairs):
        raise TypeError(
            f"{name} moves the position, so that the gradient is stale after it: its class must "
            "say `moves = True` (or `keeps_field = True`, if the field is the same there)"
        )
