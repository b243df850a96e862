"""The simplex."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from .. import _checks
from ..random import normal
from .array_space import ArraySpace
from .sphere import great_circle, log_area, tangent, unit

_LEAST = 1e-16  # of a coordinate of the sphere: its square is no denormal number, nor is 1 over it


class Simplex(ArraySpace):
    """Probabilities, as squares of the coordinates of a sphere, with its metric.

    A position is an array (..., K), positive and of sum one along its last axis. With theta = u^2,
    which a sphere's u may reach from every orthant, the metric is sum_k (d theta_k)^2 / (4 theta_k)
    and geodesics are great circles of u: one that meets a face comes back from it. The gradient of
    a function with ambient gradient g is 4 theta (g - sum_k theta_k g_k).

    The volume is that of a part of the sphere, and of a unit of Lebesgue measure
    prod_k theta_k^-1/2 up to a constant (`log_element`): a Dirichlet(alpha) law has the density

        prod_k theta_k^(alpha_k - 1/2) = prod_k |u_k|^(2 alpha_k - 1)

    here, `log_dirichlet`. Below alpha = 1/2 it is infinite at the faces, and a chain slow to come
    near them and back; below 3/2 it has an edge there, that only a Metropolis test sees to (`gmc`).

    Raises:
        ValueError: at `sample`'s door, if a number is not positive or they do not sum to one.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, gmc
        >>> alpha = jnp.array([2.0, 3.0, 1.0])
        >>> model = FunctionModel(lambda theta: Simplex.log_dirichlet(theta, alpha))
        >>> kernel = gmc(Minibatch(model, Full()), Simplex(), 0.1)

    Reference:
        Byrne and Girolami (2013), section 4.3; Liu, Zhu and Song (2016), section 4.
    """

    @property
    def embedded(self) -> bool:
        return False

    def project_array(
        self, x: Float[Array, "*b K"], v: Float[Array, "*b K"]
    ) -> Float[Array, "*b K"]:
        """The orthogonal one of R^K."""
        return v - jnp.mean(v, axis=-1, keepdims=True)

    def gradient_array(
        self, x: Float[Array, "*b K"], g: Float[Array, "*b K"]
    ) -> Float[Array, "*b K"]:
        return 4 * x * (g - jnp.sum(x * g, axis=-1, keepdims=True))

    def flow_array(
        self, x: Float[Array, "*b K"], v: Float[Array, "*b K"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "*b K"], Float[Array, "*b K"]]:
        u = _root(x)
        u, w = great_circle(u, v / (2 * u), t)
        u = jnp.where(jnp.abs(u) < _LEAST, _LEAST, u)
        return u * u, 2 * u * w

    def normal_array(self, key: Any, x: Float[Array, "*b K"]) -> Float[Array, "*b K"]:
        u = _root(x)
        return 2 * u * tangent(u, normal(key, x.shape, x.dtype))

    def squared_norm_array(
        self, x: Float[Array, "*b K"], v: Float[Array, "*b K"]
    ) -> Float[Array, ""]:
        return jnp.sum((v / (2 * _root(x))) ** 2)

    def random_array(self, key: Any, x: Float[Array | np.ndarray, "*b K"]) -> Float[Array, "*b K"]:
        """Uniform with respect to the volume, which is Dirichlet(1/2, ..., 1/2)."""
        return jnp.maximum(unit(normal(key, x.shape, x.dtype)) ** 2, _LEAST**2)

    def log_element(self, x: Any) -> Float[Array, ""]:
        return jnp.asarray(-sum(jnp.sum(jnp.log(leaf)) for leaf in jax.tree.leaves(x)) / 2)

    def log_volume(self, x: Any) -> Float[Array, ""]:
        """That of the part of a sphere where all of sqrt(theta) is positive."""
        halves = lambda shape: math.prod(shape) * math.log(2)
        shapes = [leaf.shape for leaf in jax.tree.leaves(x)]
        return jnp.asarray(sum(log_area(shape) - halves(shape) for shape in shapes))

    @staticmethod
    def log_dirichlet(theta: Float[Array, "*b K"], alpha: Any) -> Float[Array, ""]:
        """The log density of Dirichlet(alpha) with respect to the volume, normalised.

            sum_k (alpha_k - 1/2) log theta_k + log Gamma(sum_k alpha_k) - sum_k log Gamma(alpha_k)
            + (K - 1) log 2,

        that with respect to Lebesgue's measure plus sum_k log(theta_k) / 2 + (K - 1) log 2.

        Args:
            theta: probabilities; all leading axes are summed over.
            alpha: > 0, broadcast against `theta`. Below 1/2 a warning tells of `scir`.

        Returns:
            a scalar.

        Example: alpha = 1/2 is the uniform law, here on a quarter of a circle of radius 1.
            >>> import jax.numpy as jnp
            >>> float(Simplex.log_dirichlet(jnp.array([0.3, 0.7]), 0.5).round(4))  # log(2 / pi)
            -0.4516
        """
        alpha = jnp.asarray(alpha, theta.dtype)
        if _checks.is_concrete(alpha) and np.min(np.asarray(alpha)) < 0.5:
            warnings.warn(
                "below alpha = 1/2 a Dirichlet law has an infinite density at the faces of the "
                "simplex, which geodesics reach slowly: scir moves there exactly",
                stacklevel=2,
            )
        each = jnp.broadcast_to(alpha, jnp.broadcast_shapes(alpha.shape, theta.shape))
        constants = gammaln(jnp.sum(each, axis=-1)) - jnp.sum(gammaln(each), axis=-1)
        volumes = math.prod(each.shape[:-1]) * (each.shape[-1] - 1) * math.log(2)
        return jnp.sum((alpha - 0.5) * jnp.log(theta)) + (jnp.sum(constants) + volumes)

    def dim_array(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[:-1]) * (shape[-1] - 1)

    def check_array(self, where: str, x: Any) -> None:
        _checks.probabilities(where, x)


def _root(x: Float[Array, "*b K"]) -> Float[Array, "*b K"]:
    return jnp.maximum(jnp.sqrt(x), _LEAST)
