"""Hyperbolic space."""

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
from .sphere import length


class Hyperboloid(ArraySpace):
    """Hyperbolic space H^n, as the sheet <x, x> = -1, x_0 > 0 of R^{n+1}.

    A position is an array (..., n + 1), the time axis first, and <x, y> = -x_0 y_0 + sum_i x_i y_i.
    Tangent are the v with <x, v> = 0, of length a = <v, v>^(1/2); cosh of the distance of x and y
    is -<x, y>. The geodesic is

        x(t) = cosh(at) x + sinh(at) v / a,   v(t) = cosh(at) v + a sinh(at) x,

    then x_0 and v_0 are computed from the rest, which puts both where they belong. A gradient is
    g + <x, g> x of the ambient one with its time reversed, and a normal vector one at the apex
    (1, 0, ..., 0), carried along the geodesic to x. The volume is infinite.

    Raises:
        ValueError: at `sample`'s door, if <x, x> is off -1 by more than 1e-3 x_0^2, or x_0 <= 0.

    Example:
        >>> import jax.numpy as jnp
        >>> x, v = Hyperboloid().flow(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), 1.0)
        >>> x.round(3).tolist()  # cosh 1, sinh 1
        [1.543, 1.175]

    Reference:
        Byrne and Girolami (2013) for the sampler; Ratcliffe (2006), Foundations of hyperbolic
        manifolds, chapter 3.
    """

    @property
    def embedded(self) -> bool:
        return False

    def project_array(
        self, x: Float[Array, "*b m"], v: Float[Array, "*b m"]
    ) -> Float[Array, "*b m"]:
        """The one that is orthogonal in <., .>."""
        return (
            v + (jnp.sum(x[..., 1:] * v[..., 1:], -1, keepdims=True) - x[..., :1] * v[..., :1]) * x
        )

    def gradient_array(
        self, x: Float[Array, "*b m"], g: Float[Array, "*b m"]
    ) -> Float[Array, "*b m"]:
        return (
            jnp.concatenate([-g[..., :1], g[..., 1:]], -1) + jnp.sum(x * g, -1, keepdims=True) * x
        )

    def flow_array(
        self, x: Float[Array, "*b m"], v: Float[Array, "*b m"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "*b m"], Float[Array, "*b m"]]:
        speed = length(_at_apex(x, v))
        angle = speed * t
        cosh, sinh = jnp.cosh(angle), jnp.sinh(angle)
        ratio = jnp.where(angle == 0, 1, sinh / jnp.where(angle == 0, 1, angle))
        moved = _on_sheet((cosh * x + t * ratio * v)[..., 1:])
        return moved, _tangent(moved, (cosh * v + speed * sinh * x)[..., 1:])

    def normal_array(self, key: Any, x: Float[Array, "*b m"]) -> Float[Array, "*b m"]:
        noise = normal(key, x[..., 1:].shape, x.dtype)
        along = jnp.sum(x[..., 1:] * noise, axis=-1, keepdims=True)
        return jnp.concatenate([along, noise + along / (1 + x[..., :1]) * x[..., 1:]], axis=-1)

    def squared_norm_array(
        self, x: Float[Array, "*b m"], v: Float[Array, "*b m"]
    ) -> Float[Array, ""]:
        return jnp.sum(_at_apex(x, v) ** 2)

    def random_array(self, key: Any, x: Float[Array | np.ndarray, "*b m"]) -> Float[Array, "*b m"]:
        """Where a standard normal velocity leads from the apex in a unit of time."""
        apex = _on_sheet(jnp.zeros_like(x[..., 1:]))
        return self.flow_array(apex, self.normal_array(key, apex), jnp.ones((), x.dtype))[0]

    def nearest(self, x: Any) -> Any:
        """The point with the same space coordinates (not the nearest one of R^{n+1})."""
        return jax.tree.map(lambda x: _on_sheet(x[..., 1:]), x)

    def dim_array(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[:-1]) * (shape[-1] - 1)

    def check_array(self, where: str, x: Any) -> None:
        value = np.asarray(x, np.float64)
        if value.ndim == 0 or value.shape[-1] < 2:
            raise ValueError(f"{where} must have shape (..., n + 1), n >= 1, got {value.shape}")
        if value.size == 0:
            return
        time = value[..., 0]
        product = np.sum(value[..., 1:] ** 2, axis=-1) - time**2
        error = np.max(np.abs(product + 1) / np.maximum(time**2, 1))
        if error > _checks.slack(x) or np.min(time) <= 0:
            raise ValueError(
                f"{where} must have <x, x> = -1 and x_0 > 0, time first, got x_0 = "
                f"{np.min(time):.4g} and an <x, x> that is off by {error:.2g} x_0^2"
            )


def _at_apex(x: Float[Array, "*b m"], v: Float[Array, "*b m"]) -> Float[Array, "*b n"]:
    """The space coordinates of v, carried to the apex: as long as v, without cancellation."""
    return v[..., 1:] - v[..., :1] / (1 + x[..., :1]) * x[..., 1:]


def _on_sheet(space: Float[Array | np.ndarray, "*b n"]) -> Float[Array, "*b m"]:
    time = jnp.sqrt(1 + jnp.sum(space**2, axis=-1, keepdims=True))
    return jnp.concatenate([time, space], axis=-1)


def _tangent(x: Float[Array, "*b m"], space: Float[Array, "*b n"]) -> Float[Array, "*b m"]:
    time = jnp.sum(x[..., 1:] * space, axis=-1, keepdims=True) / x[..., :1]
    return jnp.concatenate([time, space], axis=-1)
