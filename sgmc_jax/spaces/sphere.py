"""The unit sphere."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from .space import Space

_TOLERANCE = 1e-3


class Sphere(Space):
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

    def project(self, x: Any, v: Any) -> Any:
        return jax.tree.map(_project, x, v)

    def flow(self, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
        moved = jax.tree.map(lambda x, v: _flow(x, v, jnp.asarray(t, x.dtype)), x, v)
        return jax.tree.transpose(jax.tree.structure(x), jax.tree.structure((0, 0)), moved)

    def normal(self, key: Any, x: Any) -> Any:
        leaves, structure = jax.tree.flatten(x)
        keys = [key] if len(leaves) == 1 else jax.random.split(key, len(leaves))
        noise = [
            _project(x, jax.random.normal(k, x.shape, x.dtype))
            for k, x in zip(keys, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, noise)

    def nearest(self, x: Any) -> Any:
        return jax.tree.map(_unit, x)

    def log_volume(self, x: Any) -> Array:
        return jnp.asarray(sum(_log_area(leaf.shape) for leaf in jax.tree.leaves(x)))

    def dim(self, x: Any) -> int:
        return sum(leaf.size - leaf.size // leaf.shape[-1] for leaf in jax.tree.leaves(x))

    def check(self, x: Any) -> None:
        _checks.finite("position", x)
        for path, leaf in jax.tree_util.tree_leaves_with_path(x):
            where = f"position{jax.tree_util.keystr(path)}"
            if jnp.ndim(leaf) == 0:
                raise ValueError(f"{where} must be a vector to lie on a sphere, got a scalar")
            error = np.max(np.abs(np.linalg.norm(np.asarray(leaf), axis=-1) - 1))
            if error > _TOLERANCE:
                raise ValueError(
                    f"{where} must have unit length along its last axis, got a length off by "
                    f"{error:.2g}"
                )


def _unit(x: Array) -> Array:
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def _log_area(shape: tuple[int, ...]) -> float:
    """The log area of as many spheres: 2 pi^(n/2) / Gamma(n/2) each."""
    *many, n = shape
    return math.prod(many) * (math.log(2) + n / 2 * math.log(math.pi) - math.lgamma(n / 2))


def _project(x: Array, v: Array) -> Array:
    return v - x * jnp.sum(x * v, axis=-1, keepdims=True)


def _flow(x: Float[Array, "*b n"], v: Float[Array, "*b n"], t: Array) -> tuple[Array, Array]:
    speed = jnp.linalg.norm(v, axis=-1, keepdims=True)
    angle = speed * t
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    moved = x * cosine + v * t * jnp.sinc(angle / jnp.pi)
    velocity = v * cosine - speed * x * sine
    moved = _unit(moved)
    return moved, _project(moved, velocity)
