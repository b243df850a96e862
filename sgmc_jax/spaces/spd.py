"""Symmetric positive definite matrices."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import product
from ..arrays.expm import expm
from ..random import normal
from .array_space import ArraySpace


class SPD(ArraySpace):
    """Symmetric positive definite matrices with the affine-invariant metric tr(P^-1 V P^-1 W).

    A position is an array (..., n, n); tangent are the symmetric matrices. With P = L L' and
    V = L B L' the geodesic is

        P(t) = L exp(tB) L',   V(t) = L exp(tB) B L',

    symmetric and positive as it is computed, for all t. Lengths do not change when all matrices are
    multiplied by some M and M' on their sides. The volume is infinite, and log |P|^{-(n+1)/2}
    (`log_element`) that of a unit of Lebesgue measure of the entries i <= j: a density f with
    respect to these, as Wishart's is usually written, is f |P|^{(n+1)/2} here.

    Raises:
        ValueError: at `sample`'s door, if a matrix is not square, symmetric and positive definite.

    Example: a Wishart law of six degrees of freedom, in three dimensions.
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel
        >>> space = SPD()
        >>> wishart = lambda p: jnp.linalg.slogdet(p)[1] * (6 - 3 - 1) / 2 - jnp.trace(p) / 2
        >>> model = FunctionModel(lambda p: wishart(p) - space.log_element(p))

    Reference:
        Moakher (2005), A differential geometric approach to the geometric mean of symmetric
        positive-definite matrices, section 3.
    """

    @property
    def embedded(self) -> bool:
        return False

    def project_array(
        self, x: Float[Array, "*b n n"], v: Float[Array, "*b n n"]
    ) -> Float[Array, "*b n n"]:
        return (v + v.mT) / 2

    def gradient_array(
        self, x: Float[Array, "*b n n"], g: Float[Array, "*b n n"]
    ) -> Float[Array, "*b n n"]:
        return _sandwich(x, self.project_array(x, g))

    def flow_array(
        self, x: Float[Array, "*b n n"], v: Float[Array, "*b n n"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "*b n n"], Float[Array, "*b n n"]]:
        root = jnp.linalg.cholesky(x)
        b = _within(root, v)
        half = product(root, expm(t / 2 * b))
        return product(half, half.mT), self.project_array(x, _sandwich(half, b))

    def normal_array(self, key: Any, x: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
        root, noise = jnp.linalg.cholesky(x), normal(key, x.shape, x.dtype)
        return self.project_array(x, _sandwich(root, self.project_array(x, noise)))

    def squared_norm_array(
        self, x: Float[Array, "*b n n"], v: Float[Array, "*b n n"]
    ) -> Float[Array, ""]:
        return jnp.sum(_within(jnp.linalg.cholesky(x), v) ** 2)

    def random_array(
        self, key: Any, x: Float[Array | np.ndarray, "*b n n"]
    ) -> Float[Array, "*b n n"]:
        """exp(B), B a standard normal tangent vector at I."""
        unit = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
        return self.flow_array(unit, self.normal_array(key, unit), jnp.ones((), x.dtype))[0]

    def log_element(self, x: Any) -> Float[Array, ""]:
        leaf = lambda x: -(x.shape[-1] + 1) / 2 * jnp.sum(jnp.linalg.slogdet(x)[1])
        return jnp.asarray(sum(leaf(x) for x in jax.tree.leaves(x)))

    def dim_array(self, shape: tuple[int, ...]) -> int:
        *many, n, _ = shape
        return math.prod(many) * (n * (n + 1) // 2)

    def check_array(self, where: str, x: Any) -> None:
        shape, value = jnp.shape(x), np.asarray(x, np.float64)
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ValueError(f"{where} must have shape (..., n, n), got {shape}")
        if value.size == 0:
            return
        error = np.max(np.abs(value - np.swapaxes(value, -1, -2))) / np.max(np.abs(value))
        if error > _checks.slack(x):
            raise ValueError(f"{where} must be symmetric, got entries off by {error:.2g} of them")
        least = np.min(np.linalg.eigvalsh(value))
        if least <= 0:
            raise ValueError(f"{where} must be positive definite, got an eigenvalue of {least:.2g}")


def _sandwich(a: Float[Array, "*b n n"], b: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """A B A'."""
    return product(product(a, b), a.mT)


def _within(root: Float[Array, "*b n n"], v: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """B of V = L B L'."""
    left = solve_triangular(root, v, lower=True)
    b = solve_triangular(root, left.mT, lower=True)
    return (b + b.mT) / 2
