"""Products of spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import _checks, _returned
from .._types import Position
from .._types import split as split_key
from .space import Space, Vector


class Product(Space):
    """A space for each part of the position; lengths and volumes are those of the parts together.

    Args:
        spaces: a pytree of spaces that is a prefix of the position, e.g.
            `Product({"direction": Sphere(), "location": Euclidean()})`.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import Euclidean, Sphere
        >>> space = Product({"direction": Sphere(), "location": Euclidean()})
        >>> space.dim({"direction": jnp.array([0.0, 0.0, 1.0]), "location": jnp.zeros(4)})
        6
    """

    spaces: PyTree

    def __check_init__(self):
        for space in self._spaces:
            if not isinstance(space, Space):
                raise TypeError(f"spaces must be a pytree of spaces, got {type(space).__name__}")

    @property
    def embedded(self) -> bool:
        return all(space.embedded for space in self._spaces)

    @property
    def framed(self) -> bool:
        return all(space.framed for space in self._spaces)

    @property
    def flat(self) -> bool:
        return all(space.flat for space in self._spaces)

    def project(self, x: Position, v: Vector) -> Vector:
        return self._joined(self._each(lambda space, x, v: space.project(x, v), x, v))

    def gradient(self, x: Position, g: Vector) -> Vector:
        return self._joined(self._each(lambda space, x, g: space.gradient(x, g), x, g))

    def pull(self, x: Position, g: Vector) -> Vector:
        return self._joined(self._each(lambda space, x, g: space.pull(x, g), x, g))

    def push(self, x: Position, u: Vector) -> Vector:
        return self._joined(self._each(lambda space, x, u: space.push(x, u), x, u))

    def flow(self, x: Position, v: Vector, t: Any) -> tuple[Position, Vector]:
        moved = self._each(lambda space, x, v: space.flow(x, v, t), x, v)
        return tuple(self._joined(part) for part in zip(*moved, strict=True))

    def normal(self, key: Any, x: Position) -> Vector:
        draw = lambda space, key, x: space.normal(key, x)
        return self._joined(self._each(draw, self._keys(key), x))

    def random_point(self, key: Any, like: Position) -> Position:
        draw = lambda space, key, like: space.random_point(key, like)
        return self._joined(self._each(draw, self._keys(key), like))

    def log_element(self, x: Position) -> Float[Array, ""]:
        return _sum(self._each(lambda space, x: space.log_element(x), x))

    def dim(self, x: Position) -> int:
        return sum(self._each(lambda space, x: space.dim(x), x))

    def squared_norm(self, x: Position, v: Vector) -> Float[Array, ""]:
        return _sum(self._each(lambda space, x, v: space.squared_norm(x, v), x, v))

    def nearest(self, x: Position) -> Position:
        return self._joined(self._each(lambda space, x: space.nearest(x), x))

    def log_volume(self, x: Position) -> Float[Array, ""]:
        return _sum(self._each(lambda space, x: space.log_volume(x), x))

    def check(self, x: Position) -> None:
        try:
            parts = self._structure.flatten_up_to(x)
        except ValueError as error:
            kinds = jax.tree.map(lambda space: type(space).__name__, self.spaces, is_leaf=_is_space)
            raise ValueError(
                f"position must have the structure of the spaces {_checks.shown(kinds)}, got "
                f"{_returned.describe(x)}"
            ) from error
        for space, part in zip(self._spaces, parts, strict=True):
            space.check(part)

    def _each(self, function: Callable, *trees: PyTree) -> list[Any]:
        """What the function is of each space and of its parts of the trees."""
        parts = [self._structure.flatten_up_to(tree) for tree in trees]
        return [function(*each) for each in zip(self._spaces, *parts, strict=True)]

    def _joined(self, parts: Any) -> PyTree:
        return jax.tree.unflatten(self._structure, parts)

    def _keys(self, key: Any) -> PyTree:
        return self._joined(split_key(key, len(self._spaces)))

    @property
    def _spaces(self) -> list[Space]:
        return jax.tree.leaves(self.spaces, is_leaf=_is_space)

    @property
    def _structure(self) -> Any:
        return jax.tree.structure(self.spaces, is_leaf=_is_space)


def _is_space(x: Any) -> bool:
    return isinstance(x, Space)


def _sum(numbers: list[Float[Array, ""]]) -> Float[Array, ""]:
    return jnp.asarray(sum(numbers[1:], numbers[0]))
