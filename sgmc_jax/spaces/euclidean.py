"""Euclidean space."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .. import _checks, _tree
from .._types import Position
from .space import Space, Vector


class Euclidean(Space):
    """R^n, of any pytree of floating arrays: straight lines."""

    @property
    def flat(self) -> bool:
        return True

    def project(self, x: Position, v: Vector) -> Vector:
        return v

    def flow(self, x: Position, v: Vector, t: Any) -> tuple[Position, Vector]:
        return _tree.axpy(t, v, x), v

    def normal(self, key: Any, x: Position) -> Vector:
        return _tree.normal_like(key, x)

    def random_point(self, key: Any, like: Position) -> Position:
        """A standard normal one."""
        return _tree.normal_like(key, like)

    def log_element(self, x: Position) -> Array:
        return jnp.zeros(())

    def nearest(self, x: Position) -> Position:
        return x

    def dim(self, x: Position) -> int:
        return _tree.size(x)

    def check(self, x: Position) -> None:
        _checks.finite("position", x)
