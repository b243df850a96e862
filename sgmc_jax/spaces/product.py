"""Products of spaces."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

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
        for space in jax.tree.leaves(self.spaces, is_leaf=_is_space):
            if not isinstance(space, Space):
                raise TypeError(f"spaces must be a pytree of spaces, got {type(space).__name__}")

    @property
    def embedded(self) -> bool:
        return all(space.embedded for space in jax.tree.leaves(self.spaces, is_leaf=_is_space))

    @property
    def flat(self) -> bool:
        return all(space.flat for space in jax.tree.leaves(self.spaces, is_leaf=_is_space))

    def project(self, x: Position, v: Vector) -> Vector:
        spaces, structure, (xs, vs) = self._parts(x, v)
        parts = [s.project(x, v) for s, x, v in zip(spaces, xs, vs, strict=True)]
        return jax.tree.unflatten(structure, parts)

    def gradient(self, x: Position, g: Vector) -> Vector:
        spaces, structure, (xs, gs) = self._parts(x, g)
        parts = [s.gradient(x, g) for s, x, g in zip(spaces, xs, gs, strict=True)]
        return jax.tree.unflatten(structure, parts)

    def flow(self, x: Position, v: Vector, t: Any) -> tuple[Position, Vector]:
        spaces, structure, (xs, vs) = self._parts(x, v)
        moved = [s.flow(x, v, t) for s, x, v in zip(spaces, xs, vs, strict=True)]
        return tuple(jax.tree.unflatten(structure, part) for part in zip(*moved, strict=True))

    def normal(self, key: Any, x: Position) -> Vector:
        spaces, structure, (xs,) = self._parts(x)
        keys = split_key(key, len(spaces))
        noise = [s.normal(k, x) for s, k, x in zip(spaces, keys, xs, strict=True)]
        return jax.tree.unflatten(structure, noise)

    def random_point(self, key: Any, like: Position) -> Position:
        spaces, structure, (likes,) = self._parts(like)
        keys = split_key(key, len(spaces))
        points = [s.random_point(k, x) for s, k, x in zip(spaces, keys, likes, strict=True)]
        return jax.tree.unflatten(structure, points)

    def log_element(self, x: Position) -> Array:
        spaces, _, (xs,) = self._parts(x)
        return _sum([s.log_element(x) for s, x in zip(spaces, xs, strict=True)])

    def dim(self, x: Position) -> int:
        spaces, _, (xs,) = self._parts(x)
        return sum(s.dim(x) for s, x in zip(spaces, xs, strict=True))

    def squared_norm(self, x: Position, v: Vector) -> Array:
        spaces, _, (xs, vs) = self._parts(x, v)
        return _sum([s.squared_norm(x, v) for s, x, v in zip(spaces, xs, vs, strict=True)])

    def nearest(self, x: Position) -> Position:
        spaces, structure, (xs,) = self._parts(x)
        points = [s.nearest(x) for s, x in zip(spaces, xs, strict=True)]
        return jax.tree.unflatten(structure, points)

    def log_volume(self, x: Position) -> Array:
        spaces, _, (xs,) = self._parts(x)
        return _sum([s.log_volume(x) for s, x in zip(spaces, xs, strict=True)])

    def check(self, x: Position) -> None:
        try:
            spaces, _, (xs,) = self._parts(x)
        except ValueError as error:
            kinds = jax.tree.map(lambda space: type(space).__name__, self.spaces, is_leaf=_is_space)
            raise ValueError(
                f"position must have the structure of the spaces {_checks.shown(kinds)}, got "
                f"{_returned.describe(x)}"
            ) from error
        for space, part in zip(spaces, xs, strict=True):
            space.check(part)

    def _parts(self, *trees: PyTree) -> tuple[list[Space], Any, list[list[PyTree]]]:
        spaces, structure = jax.tree.flatten(self.spaces, is_leaf=_is_space)
        return spaces, structure, [structure.flatten_up_to(tree) for tree in trees]


def _is_space(x: Any) -> bool:
    return isinstance(x, Space)


def _sum(numbers: list[Array]) -> Array:
    return jnp.asarray(sum(numbers[1:], numbers[0]))
