"""Positive numbers."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..random import normal
from .array_space import ArraySpace


class Positive(ArraySpace):
    """Positive numbers, of arrays of any shape, with the metric sum_i (dx_i / x_i)^2.

    The positive definite matrices of size one, of which `SPD` says the rest: geodesics are
    x(t) = x exp(t v / x), with velocity v exp(t v / x). In such lengths a unit is a factor of
    e, so that one step size suits all scales, and no step leaves the space. The volume of a unit of
    Lebesgue measure is prod_i 1 / x_i (`log_element`): a density f(x) dx is f(x) prod_i x_i here.

    Raises:
        ValueError: at `sample`'s door, if a number is not positive.

    Example: Gamma(3, 1).
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, gmc, sample
        >>> space = Positive()
        >>> gamma = FunctionModel(lambda x: jnp.sum(2 * jnp.log(x) - x) - space.log_element(x))
        >>> kernel = gmc(Minibatch(gamma, Full()), space, 0.5)
        >>> run = sample(jax.random.key(0), kernel, jnp.ones(2), None, num_steps=5)
    """

    @property
    def embedded(self) -> bool:
        return False

    def project_array(self, x: Float[Array, "*n"], v: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return v

    def gradient_array(self, x: Float[Array, "*n"], g: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return x * x * g

    def flow_array(
        self, x: Float[Array, "*n"], v: Float[Array, "*n"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        factor = jnp.exp(t * v / x)
        return jnp.maximum(x * factor, jnp.finfo(x.dtype).tiny), v * factor

    def normal_array(self, key: Any, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return x * normal(key, x.shape, x.dtype)

    def squared_norm_array(self, x: Float[Array, "*n"], v: Float[Array, "*n"]) -> Float[Array, ""]:
        return jnp.sum((v / x) ** 2)

    def random_array(self, key: Any, x: Float[Array | np.ndarray, "*n"]) -> Float[Array, "*n"]:
        """Log-normal."""
        return jnp.exp(normal(key, x.shape, x.dtype))

    def log_element(self, x: Any) -> Float[Array, ""]:
        return jnp.asarray(-sum(jnp.sum(jnp.log(leaf)) for leaf in jax.tree.leaves(x)))

    def dim_array(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape)

    def check_array(self, where: str, x: Any) -> None:
        if np.min(np.asarray(x), initial=np.inf) <= 0:
            raise ValueError(f"{where} must be positive, got {np.min(np.asarray(x)):.4g}")
