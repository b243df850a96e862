"""The unit sphere."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from ..random import normal
from .array_space import ArraySpace


class Sphere(ArraySpace):
    """The unit sphere S^{n-1} in R^n, or a product of them.

    A position is an array (..., n) whose vectors along the last axis have length one; every leaf
    of a pytree position is such an array. With a = |v|, the geodesic is

        x(t) = x cos(at) + v t sinc(at),   v(t) = v cos(at) - a x sin(at),

    then x is normalised and v projected, which keeps rounding errors from adding up.

    Raises:
        ValueError: at `sample`'s door, if the position is off the sphere by more than 1e-3.

    Example:
        >>> import jax.numpy as jnp
        >>> x, v = Sphere().flow(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), jnp.pi / 2)
        >>> x.round(3).tolist()
        [0.0, 1.0]

    Reference:
        Byrne and Girolami (2013), Geodesic Monte Carlo on embedded manifolds, section 4.1.
    """

    def project_array(
        self, x: Float[Array, "*b n"], v: Float[Array, "*b n"]
    ) -> Float[Array, "*b n"]:
        return tangent(x, v)

    def flow_array(
        self, x: Float[Array, "*b n"], v: Float[Array, "*b n"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "*b n"], Float[Array, "*b n"]]:
        return great_circle(x, v, t)

    def normal_array(self, key: Any, x: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        return tangent(x, normal(key, x.shape, x.dtype))

    def random_array(self, key: Any, x: Float[Array | np.ndarray, "*b n"]) -> Float[Array, "*b n"]:
        return unit(normal(key, x.shape, x.dtype))

    def nearest(self, x: Any) -> Any:
        # in units of the largest coordinate, whose square would overflow, or be nothing
        return jax.tree.map(lambda x: unit(x / jnp.max(jnp.abs(x), axis=-1, keepdims=True)), x)

    def log_volume(self, x: Any) -> Float[Array, ""]:
        return jnp.asarray(sum(log_area(leaf.shape) for leaf in jax.tree.leaves(x)))

    def dim_array(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[:-1]) * (shape[-1] - 1)

    def check_array(self, where: str, x: Any) -> None:
        if jnp.ndim(x) == 0:
            raise ValueError(f"{where} must be a vector to lie on a sphere, got a scalar")
        length = np.linalg.norm(np.asarray(x, np.float64), axis=-1)
        error = np.max(np.abs(length - 1), initial=0.0)
        if error > _checks.slack(x):
            raise ValueError(
                f"{where} must have unit length along its last axis, got a length off by "
                f"{error:.2g}"
            )


def unit(x: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """The vectors of x, along its last axis, scaled to length one."""
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def length(v: Float[Array, "..."], axis: Any = -1) -> Float[Array, "..."]:
    """The length of vectors, with a derivative of 0 at 0: what flows need of it there."""
    square = jnp.sum(v * v, axis=axis, keepdims=True)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1.0)), 0.0)


def tangent(x: Float[Array, "*b n"], v: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """What of v is orthogonal to x, of length one."""
    return v - x * jnp.sum(x * v, axis=-1, keepdims=True)


def great_circle(
    x: Float[Array, "*b n"], v: Float[Array, "*b n"], t: Float[Array, ""]
) -> tuple[Float[Array, "*b n"], Float[Array, "*b n"]]:
    """Where the great circle from x with velocity v is after time t, and its velocity there."""
    speed = length(v)
    angle = speed * t
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    moved = unit(x * cosine + v * t * jnp.sinc(angle / jnp.pi))
    return moved, tangent(moved, v * cosine - speed * x * sine)


def log_area(shape: tuple[int, ...]) -> float:
    """The log area of as many spheres: 2 pi^(n/2) / Gamma(n/2) each."""
    *many, n = shape
    return math.prod(many) * (math.log(2) + n / 2 * math.log(math.pi) - math.lgamma(n / 2))
