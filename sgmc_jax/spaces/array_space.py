"""Spaces of arrays, leaf by leaf."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from .._types import Position
from .space import Space, Vector, check_time


class ArraySpace(Space):
    """A space whose points are arrays: every leaf of a position is one, or many of them.

    What comes before a point's own axes counts points, independent of each other, so that K
    directions in R^V are one array (K, V). A subclass writes its mathematics for one leaf, in the
    methods whose names end in `_array`; this class maps them over a position.

    Example: three directions in R^3 and two in R^2.
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import Sphere
        >>> isinstance(Sphere(), ArraySpace), Sphere().dim({"a": jnp.eye(3), "b": jnp.eye(2)})
        (True, 8)
    """

    @abstractmethod
    def project_array(self, x: Float[Array, "*n"], v: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """`project` of a leaf."""

    @abstractmethod
    def flow_array(
        self, x: Float[Array, "*n"], v: Float[Array, "*n"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """`flow` of a leaf, whose dtype `t` has."""

    @abstractmethod
    def normal_array(self, key: Any, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """`normal` of a leaf."""

    @abstractmethod
    def random_array(self, key: Any, x: Float[Array | np.ndarray, "*n"]) -> Float[Array, "*n"]:
        """`random_point` of a leaf: as many points as `x` has, of its dtype."""

    @abstractmethod
    def dim_array(self, shape: tuple[int, ...]) -> int:
        """`dim` of a leaf of a shape."""

    @abstractmethod
    def check_array(self, where: str, x: Any) -> None:
        """Raise if a concrete leaf, whose name is `where`, is off the space; it is finite."""

    def gradient_array(self, x: Float[Array, "*n"], g: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """`gradient` of a leaf."""
        return self.project_array(x, g)

    def squared_norm_array(self, x: Float[Array, "*n"], v: Float[Array, "*n"]) -> Float[Array, ""]:
        """`squared_norm` of a leaf, of all of its points together."""
        return jnp.sum(v * v)

    def project(self, x: Position, v: Vector) -> Vector:
        return jax.tree.map(self.project_array, x, v)

    def gradient(self, x: Position, g: Vector) -> Vector:
        return jax.tree.map(self.gradient_array, x, g)

    def flow(self, x: Position, v: Vector, t: Any) -> tuple[Position, Vector]:
        check_time(t)
        _checks.floating("position", x)  # the time would be rounded to whole numbers too
        leaf = lambda x, v: self.flow_array(x, v, jnp.asarray(t, x.dtype))
        moved = jax.tree.map(leaf, x, v)
        return jax.tree.transpose(jax.tree.structure(x), jax.tree.structure((0, 0)), moved)

    def normal(self, key: Any, x: Position) -> Vector:
        return _by_leaf(self.normal_array, key, x)

    def random_point(self, key: Any, like: Position) -> Position:
        return _by_leaf(self.random_array, key, like)

    def squared_norm(self, x: Position, v: Vector) -> Float[Array, ""]:
        lengths = jax.tree.leaves(jax.tree.map(self.squared_norm_array, x, v))
        return jnp.asarray(sum(lengths[1:], lengths[0]))

    def dim(self, x: Position) -> int:
        return sum(self.dim_array(leaf.shape) for leaf in jax.tree.leaves(x))

    def check(self, x: Position) -> None:
        _checks.finite("position", x)
        for path, leaf in jax.tree_util.tree_leaves_with_path(x):
            self.check_array(f"position{jax.tree_util.keystr(path)}", leaf)


def _by_leaf(function: Any, key: Any, x: Position) -> Any:
    leaves, structure = jax.tree.flatten(x)
    keys = [key] if len(leaves) == 1 else jax.random.split(key, len(leaves))
    return jax.tree.unflatten(structure, [function(k, x) for k, x in zip(keys, leaves)])
