"""Convex sets, for samplers that bring a step back where it leaves one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from . import _checks, _returned, _tree
from ._functions import as_function, must_take
from ._types import Position
from .arrays import real_array

_TOLERANCE = 1e-4  # of the length of a position: its rounding errors


class ConvexSet(eqx.Module):
    """A convex set of positions, given by its `project`; a `reflect` of its own where it has one.

    A function that projects is a set too, for the samplers that take one.

    Example: the points whose first coordinate is no more than the second.
        >>> class Ordered(ConvexSet):
        ...     def project(self, x):
        ...         middle = jnp.mean(x)
        ...         return jnp.where(x[0] > x[1], jnp.stack([middle, middle]), x)
        >>> Ordered().reflect(jnp.array([2.0, 1.0])).tolist()
        [1.0, 2.0]
    """

    @abstractmethod
    def project(self, x: Position) -> Position:
        """The nearest point of the set, `x` itself where it is in the set."""

    def reflect(self, x: Position) -> Position:
        """The mirror image of `x` beyond the nearest point, 2 project(x) - x.

        Where that is outside too, because the set is curved or narrow, it is projected: as a step
        is small that is rare.
        """
        nearest = self.project(x)
        image = jax.tree.map(lambda p, x: 2 * p - x, nearest, x)
        return self.project(image)

    def check(self, x: Position) -> None:
        """Raise if a concrete `x` is off the set, or `project` does not return what is like it."""
        nearest = self.project(jax.tree.map(jnp.asarray, x))
        name = f"{type(self).__name__}.project"
        _returned.like(name, nearest, x, "the position")
        distance = _norm(jax.tree.map(lambda p, x: p - jnp.asarray(x), nearest, x))
        size = _norm(jax.tree.map(jnp.asarray, x))
        if _checks.certainly(lambda d, size: ~(d <= _TOLERANCE * size), distance, size):
            raise ValueError(
                f"position must be in the set {type(self).__name__}, got a distance of "
                f"{float(distance):.3g} from it"
            )


class Box(ConvexSet):
    """`lower <= x <= upper` in every coordinate; a half line, or an orthant, with one infinite.

    Args:
        lower, upper: numbers, or pytrees like the position.

    Raises:
        ValueError: unless `lower` is below `upper`.

    Example:
        >>> box = Box(0.0, 1.0)
        >>> (
        ...     box.project(jnp.array([-0.25, 1.5])).tolist(),
        ...     box.reflect(jnp.array([-0.25, 1.5])).tolist(),
        ... )
        ([0.0, 1.0], [0.25, 0.5])
    """

    lower: PyTree = eqx.field(converter=_checks.real_tree("lower"), default=-np.inf)
    upper: PyTree = eqx.field(converter=_checks.real_tree("upper"), default=np.inf)

    def __check_init__(self):
        bounds = [jax.tree.leaves(bound) for bound in (self.lower, self.upper)]
        most = max(map(len, bounds))  # a number is that of all leaves
        for low, high in zip(*(x * most if len(x) == 1 else x for x in bounds)):
            _checks.fitting(lower=low, upper=high)
            if _checks.certainly(lambda low, high: ~(low < high), low, high):
                raise ValueError(
                    f"lower must be below upper, got {_checks.shown(low)} and {_checks.shown(high)}"
                )

    def project(self, x: Position) -> Position:
        return self._each(lambda x, low, high: jnp.clip(x, low, high), x)

    def reflect(self, x: Position) -> Position:
        """Between two walls as often as it takes."""
        return self._each(_folded, x)

    def _each(self, function: Callable, x: Position) -> Position:
        lower, upper = _spread("lower", self.lower, x), _spread("upper", self.upper, x)
        return jax.tree.map(function, x, lower, upper)


def _spread(name: str, value: PyTree, x: Position) -> PyTree:
    """A number or an array for each leaf of a position; one of it is that of all leaves."""
    value = _tree.filled(value, x)
    if jax.tree.structure(value) != jax.tree.structure(x):
        got, wanted = map(_returned.describe, (value, x))
        raise ValueError(f"{name} must be a number or like the position, {wanted}, got {got}")
    jax.tree.map(partial(_checks.within, name), value, x)
    return jax.tree.map(lambda value, x: value.astype(x.dtype), value, x)


def _folded(
    x: Float[Array, "*n"], low: Float[Array, "..."], high: Float[Array, "..."]
) -> Float[Array, "*n"]:
    """x in the image of repeated reflections at `low` and `high`; an infinite one has none."""
    width = jnp.where(jnp.isfinite(high - low), high - low, 1)
    away = jnp.abs(jnp.mod(x - low, 2 * width) - width)
    between = jnp.clip(high - away, low, high)
    above = jnp.where(jnp.isfinite(low), low + jnp.abs(x - low), x)
    one_sided = jnp.where(jnp.isfinite(high), high - jnp.abs(high - x), above)
    both = jnp.isfinite(high) & jnp.isfinite(low)
    # a point of the set stays what it is, to the last bit
    return jnp.where((x >= low) & (x <= high), x, jnp.where(both, between, one_sided))


class Ball(ConvexSet):
    """`|x - centre| <= radius`, in the Euclidean norm of the whole position.

    Args:
        radius: positive.
        centre: a number, or a pytree like the position.

    Raises:
        ValueError: if the radius is not positive.

    Example:
        >>> Ball(2.0).project(jnp.array([3.0, 4.0])).round(4).tolist()
        [1.2, 1.6]
    """

    radius: Float[Array, ""] = eqx.field(converter=_checks.scalar("radius"))
    centre: PyTree = eqx.field(converter=_checks.real_tree("centre"), default=0.0)

    def __check_init__(self):
        _checks.positive("radius", self.radius)

    def project(self, x: Position) -> Position:
        centre = _spread("centre", self.centre, x)
        away = jax.tree.map(jnp.subtract, x, centre)
        norm = _norm(away)
        shrink = self.radius / jnp.maximum(norm, self.radius)
        nearest = jax.tree.map(lambda c, a: c + shrink.astype(a.dtype) * a, centre, away)
        return jax.tree.map(lambda p, x: jnp.where(norm > self.radius, p, x), nearest, x)


def _norm(x: PyTree) -> Float[Array, ""]:
    """The length of a vector; a square of 256 would be infinite in float16."""
    return optax.tree.norm(jax.tree.map(real_array, x))


class FunctionSet(ConvexSet):
    """The set onto which a function projects."""

    function: Callable = eqx.field(converter=as_function)

    def project(self, x: Position) -> Position:
        return self.function(x)


def as_convex_set(value: Any) -> ConvexSet:
    """A set as it is, a function as its projection; raises for anything else."""
    if isinstance(value, ConvexSet):
        return value
    if not callable(value):
        raise TypeError(
            "convex_set must be a ConvexSet such as Box(0.0), or a function that projects, got "
            f"{type(value).__name__}"
        )
    must_take(value, "convex_set", ("position",))
    return FunctionSet(value)
