"""Euclidean space, in the metric of its coordinates or in one that suits a posterior better."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PyTree

from .. import _checks, _returned, _tree
from .._types import Position
from ..arrays import product
from ..random.normal import normal_like
from .space import Space, Vector, check_time


class Euclidean(Space):
    """R^n, of any pytree of floating arrays: straight lines.

    With a scale S its metric is a constant, G = (S S')^-1, the mass matrix of Hamiltonian samplers:

        gradient(x, g) = S S' g,   normal ~ N(0, S S'),   |v|^2 = |S^-1 v|^2.

    A sampler on it makes the very steps that it would make in the coordinates S^-1 x: with S S' the
    covariance of a posterior, one step size suits all directions, and what is told of a sampler's
    stability and bias holds for lambda = 1. A momentum is a velocity, of covariance T S S'.

    Args:
        scale: a diagonal S: a positive number, or a pytree like the position of positive numbers,
            such as standard deviations; a number is that of all of its leaf.
        cholesky: S, (d, d) over the raveled position, lower triangular with a positive diagonal:
            the Cholesky factor of a covariance. Not with `scale`; with neither, S = I.

    Raises:
        ValueError: if a number is not positive, the matrix not triangular, or both are given; at
            `sample`'s door, if they do not fit the position.

    Example: two coordinates whose scales differ by a thousand.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sample, sghmc
        >>> sd = jnp.array([1e-3, 1.0])
        >>> grad = Minibatch(FunctionModel(lambda x: -0.5 * jnp.sum((x / sd) ** 2)), Full())
        >>> kernel = sghmc(grad, step_size=0.5, space=Euclidean(sd))
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(2), None, num_steps=4_000)
        >>> bool(jnp.all(jnp.abs(run.trace.std(0) / sd - 1) < 0.2))
        True

    Reference:
        Neal (2011), MCMC using Hamiltonian dynamics, section 4.1.
    """

    scale: PyTree | None
    cholesky: Float[Array, "d d"] | None
    inverse: Float[Array, "d d"] | None  # S^-1: to solve for it in every step costs more

    def __init__(self, scale: Any = None, *, cholesky: Any = None):
        if scale is not None and cholesky is not None:
            raise ValueError("scale and cholesky exclude each other: give one of them")
        self.scale = None if scale is None else jax.tree.map(_checks.real("scale"), scale)
        for leaf in jax.tree.leaves(self.scale):
            _checks.positive("scale", leaf)
        self.cholesky = None if cholesky is None else _checks.as_real(cholesky, "cholesky")
        self.inverse = None
        if self.cholesky is not None:
            _check_triangular(self.cholesky)
            identity = jnp.eye(len(self.cholesky), dtype=self.cholesky.dtype)
            self.inverse = solve_triangular(self.cholesky, identity, lower=True)

    @property
    def embedded(self) -> bool:
        return self.scale is None and self.cholesky is None

    @property
    def framed(self) -> bool:
        scaled = self.scale is not None or self.cholesky is not None
        # a subclass may have another metric
        return self.embedded or (scaled and type(self).gradient is Euclidean.gradient)

    @property
    def flat(self) -> bool:
        return True

    def project(self, x: Position, v: Vector) -> Vector:
        return v

    def gradient(self, x: Position, g: Vector) -> Vector:
        return self.push(x, self.pull(x, g))

    def pull(self, x: Position, g: Vector) -> Vector:
        return self._times(g, transposed=True)

    def push(self, x: Position, u: Vector) -> Vector:
        return self._times(u)

    def flow(self, x: Position, v: Vector, t: Any) -> tuple[Position, Vector]:
        check_time(t)
        _checks.floating("position", x)
        return _tree.axpy(t, v, x), v

    def normal(self, key: Any, x: Position) -> Vector:
        return self._times(normal_like(key, x))

    def squared_norm(self, x: Position, v: Vector) -> Float[Array, ""]:
        if self.inverse is not None:
            flat, _ = ravel_pytree(v)
            white = product(self.inverse.astype(flat.dtype), flat)
            return product(white, white)
        if self.scale is not None:
            v = self._scaled(jnp.divide, v)
        return super().squared_norm(x, v)

    def random_point(self, key: Any, like: Position) -> Position:
        """A normal one, of covariance S S'."""
        return self.normal(key, like)

    def log_element(self, x: Position) -> Float[Array, ""]:
        return jnp.zeros(())

    def nearest(self, x: Position) -> Position:
        return x

    def dim(self, x: Position) -> int:
        return _tree.size(x)

    def check(self, x: Position) -> None:
        _checks.finite("position", x)
        if self.cholesky is not None and self.cholesky.shape != (_tree.size(x),) * 2:
            raise ValueError(
                f"cholesky must have the shape {(_tree.size(x),) * 2}, got {self.cholesky.shape}"
            )
        if self.scale is None or _tree.is_number(self.scale):
            return
        if jax.tree.structure(self.scale) == jax.tree.structure(x):
            own = jax.tree.map(lambda s, x: jnp.shape(s) or jnp.shape(x), self.scale, x)
            if own == jax.tree.map(jnp.shape, x):
                return
        got, wanted = map(_returned.describe, (self.scale, x))
        raise ValueError(f"scale must be a number or shaped like the position, {wanted}, got {got}")

    def _times(self, v: Vector, transposed: bool = False) -> Vector:
        """S v, or S' v."""
        if self.cholesky is not None:
            flat, unravel = ravel_pytree(v)
            matrix = self.cholesky.astype(flat.dtype)
            return unravel(product(matrix.T if transposed else matrix, flat))
        return v if self.scale is None else self._scaled(jnp.multiply, v)

    def _scaled(self, operation: Any, v: Vector) -> Vector:
        """`v` times a diagonal S, or divided by it."""
        scale = _tree.filled(self.scale, v)
        return jax.tree.map(lambda v, s: operation(v, jnp.asarray(s).astype(v.dtype)), v, scale)


def _check_triangular(matrix: Float[Array, "..."]) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"cholesky must be a square matrix, got shape {matrix.shape}")
    if not _checks.is_concrete(matrix):
        return
    value = np.asarray(matrix)
    if np.any(np.triu(value, 1)) or not np.all(np.diag(value) > 0):
        raise ValueError(
            "cholesky must be lower triangular with a positive diagonal, as "
            "jnp.linalg.cholesky(covariance) is"
        )
