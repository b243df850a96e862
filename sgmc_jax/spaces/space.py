"""The protocol of a space."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array

from .._types import Position

Vector = Any  # a tangent vector: a pytree like the position


class Space(eqx.Module):
    """A manifold embedded in a Euclidean space, with a geodesic flow in closed form.

    Densities are with respect to the Riemannian volume of the embedding.
    """

    @property
    def flat(self) -> bool:
        """Whether what is tangent at one point is tangent at every other."""
        return False

    @abstractmethod
    def project(self, x: Position, v: Vector) -> Vector:
        """The orthogonal projection of an ambient vector on the tangent space at `x`."""

    @abstractmethod
    def flow(self, x: Position, v: Vector, t: Any) -> tuple[Position, Vector]:
        """The geodesic from `x` with velocity `v`, and its velocity, after time `t`."""

    @abstractmethod
    def normal(self, key: Any, x: Position) -> Vector:
        """A standard normal tangent vector at `x`."""

    @abstractmethod
    def dim(self, x: Position) -> int:
        """The dimension of the manifold."""

    def squared_norm(self, x: Position, v: Vector) -> Array:
        """The squared length of a tangent vector."""

        return jnp.asarray(optax.tree.vdot(v, v))

    @abstractmethod
    def check(self, x: Position) -> None:
        """Raise if a concrete `x` is off the space."""
