"""The protocol of a space."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from .._types import Position

Vector = Any  # a tangent vector: a pytree like the position


class Space(eqx.Module):
    """A manifold in a Euclidean space, with a geodesic flow in closed form.

    Densities are with respect to the Riemannian volume. The metric is that of the embedding, unless
    a space has one of its own, G(x): it then says so by `embedded`, and besides the flow has a
    `gradient`, a `squared_norm` and a `normal` of that metric:

        gradient(x, g) = G(x)^-1 g,   |v|^2 = v' G(x) v,   normal ~ N(0, G(x)^-1).

    If that metric has the same orthonormal frame everywhere, G^-1 = S S', the space says so by
    `framed`, and has the components S'g of a gradient in it, and the vector S u of components u.

    A random point, a nearest point and a volume are for spaces that have them in closed form, and
    the volume of a unit of Lebesgue measure for those whose positions are known by it: f(x) there,
    a density with respect to it, is f(x) exp(-log_element(x)) with respect to the volume.

    Example: a circle in the plane.
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import Sphere
        >>> space, x = Sphere(), jnp.array([1.0, 0.0])
        >>> isinstance(space, Space), space.dim(x), space.project(x, jnp.array([5.0, 2.0])).tolist()
        (True, 1, [0.0, 2.0])
    """

    @property
    def embedded(self) -> bool:
        """Whether the metric is that of the embedding."""
        return True

    @property
    def framed(self) -> bool:
        """Whether `pull` and `push` are of one frame: of the embedding, or of a constant metric."""
        return self.embedded

    @property
    def flat(self) -> bool:
        """Whether what is tangent at one point is tangent at every other, of the same length."""
        return False

    @abstractmethod
    def project(self, x: Position, v: Vector) -> Vector:
        """The orthogonal projection of an ambient vector on the tangent space at `x`."""

    def gradient(self, x: Position, g: Vector) -> Vector:
        """The Riemannian gradient of a function whose ambient gradient is `g`."""
        return self.project(x, g)

    def pull(self, x: Position, g: Vector) -> Vector:
        """The components of an ambient gradient in the frame."""
        return g

    def push(self, x: Position, u: Vector) -> Vector:
        """The tangent vector whose components in the frame are `u`, as far as it has any."""
        return self.project(x, u)

    @abstractmethod
    def flow(self, x: Position, v: Vector, t: Any) -> tuple[Position, Vector]:
        """The geodesic from `x` with velocity `v`, and its velocity, after time `t`."""

    @abstractmethod
    def normal(self, key: Any, x: Position) -> Vector:
        """A standard normal tangent vector at `x`."""

    @abstractmethod
    def dim(self, x: Position) -> int:
        """The dimension of the manifold."""

    def squared_norm(self, x: Position, v: Vector) -> Float[Array, ""]:
        """The squared length of a tangent vector at `x`."""
        return jnp.asarray(optax.tree.vdot(v, v))

    def random_point(self, key: Any, like: Position) -> Position:
        """A point to start from, shaped like `like`: uniform where the volume is finite."""
        raise NotImplementedError(f"{type(self).__name__} has no random point")

    def log_element(self, x: Position) -> Float[Array, ""]:
        """The log volume of a unit of Lebesgue measure at `x`, up to a constant."""
        raise NotImplementedError(f"{type(self).__name__} has no Lebesgue measure")

    def nearest(self, x: Position) -> Position:
        """The point of the space that is nearest to an ambient point, where it has one."""
        raise NotImplementedError(f"{type(self).__name__} has no nearest point in closed form")

    def log_volume(self, x: Position) -> Float[Array, ""]:
        """The log volume of the whole space of positions shaped like `x`, where it is finite."""
        raise NotImplementedError(f"{type(self).__name__} has no finite volume in closed form")

    @abstractmethod
    def check(self, x: Position) -> None:
        """Raise if a concrete `x` is off the space."""


def check_time(t: Any) -> None:
    """Raise unless it is one number: each coordinate would take one of an array of times."""
    if jnp.ndim(t):
        raise ValueError(f"t must be one number, got shape {jnp.shape(t)}: use jax.vmap for many")


def as_space(space: Any) -> Space:
    """`space`; raises unless it is one."""
    if not isinstance(space, Space):
        raise TypeError(f"space must be a Space such as Sphere(), got {type(space).__name__}")
    return space
