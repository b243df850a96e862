"""Gaussian noise from which the noise of a stochastic gradient has been subtracted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from .. import _checks, _tree
from .._returned import describe
from .._types import Position
from ..spaces import Space
from .transition import Phase, Transition


class NoiseCovariance(eqx.Module):
    """The covariance V of a stochastic gradient's noise, by its eigenvalues and eigenvectors.

    Args:
        covariance: `None` (no correction), a number (V = number times the identity), a pytree like
            the position (a diagonal V), or a matrix over the raveled position. It is the covariance
            of the estimate of the *total* gradient.

    Raises:
        ValueError: if V is not symmetric or has a negative eigenvalue.
    """

    eigenvalues: PyTree | None
    basis: Float[Array, "d d"] | None

    def __init__(self, covariance: Any = None):
        self.eigenvalues, self.basis = None, None
        if covariance is None:
            return
        covariance = jax.tree.map(_checks.real("noise_covariance"), covariance)
        if isinstance(covariance, jax.Array) and covariance.ndim == 2:
            self.eigenvalues, self.basis = _eigen(covariance)
        else:
            self.eigenvalues = covariance
        for leaf in jax.tree.leaves(self.eigenvalues):
            _checks.positive("noise_covariance", leaf, zero=True)

    def check(self, position: Position) -> None:
        """Raise unless it is as large as the position."""
        if self.eigenvalues is None:
            return
        if self.basis is not None:
            got, wanted = self.basis.shape, (_tree.size(position),) * 2
        elif jax.tree.structure(self.eigenvalues) == jax.tree.structure(position):
            # a number is the variance of all of its leaf
            own = lambda e, x: jnp.shape(e) or jnp.shape(x)
            got = jax.tree.map(own, self.eigenvalues, position)
            wanted = jax.tree.map(jnp.shape, position)
        elif isinstance(self.eigenvalues, jax.Array) and self.eigenvalues.ndim == 0:
            return
        else:
            got, wanted = describe(self.eigenvalues), describe(position)
        if got != wanted:
            raise ValueError(f"noise_covariance must have the shape {wanted}, got {got}")

    def __call__(
        self, key: Any, space: Space, x: Position, variance: Callable[[Any], Array]
    ) -> PyTree:
        """A tangent normal at `x` of covariance `variance(V)`, negative eigenvalues set to zero.

        Args:
            variance: maps an eigenvalue of V to one of the wanted covariance.
        """

        def deviation(eigenvalue: Any) -> Array:
            return jnp.sqrt(jnp.maximum(variance(eigenvalue), 0))

        if (
            self.eigenvalues is None
            or isinstance(self.eigenvalues, jax.Array)
            and not (self.eigenvalues.ndim)
        ):
            value = 0.0 if self.eigenvalues is None else self.eigenvalues
            return _tree.scale(deviation(value), space.normal(key, x))
        ambient = _tree.normal_like(key, x)
        if self.basis is None:
            scaled = jax.tree.map(
                lambda e, z: deviation(e).astype(z.dtype) * z, self.eigenvalues, ambient
            )
        else:
            flat, unravel = ravel_pytree(ambient)
            basis = self.basis.astype(flat.dtype)
            scaled = unravel(basis @ (deviation(self.eigenvalues).astype(flat.dtype) * flat))
        return space.project(x, scaled)


class NoisyTransition(Transition):
    """A transition with Gaussian noise, from which a stochastic gradient's own is subtracted.

    Subclasses have a field `noise_covariance`; it is theirs, because it comes after their own.
    """

    random: ClassVar[bool] = True

    @abstractmethod
    def variance(self, h: Any, v: Any) -> Array:
        """The variance of the noise where the gradient's noise has variance `v`."""

    def noise(self: Any, key: Any, phase: Phase, h: Array) -> PyTree:
        """The noise of a time `h`."""
        variance = lambda v: self.variance(h, v)
        return self.noise_covariance(key, phase.space, phase.position, variance)

    def clipped(self: Any, h: Array) -> Array | None:
        leaves = jax.tree.leaves(self.noise_covariance.eigenvalues)
        if not leaves:
            return None
        counts = [jnp.sum(self.variance(h, leaf) < 0, dtype=jnp.int32) for leaf in leaves]
        return sum(counts[1:], counts[0])

    def check(self: Any, h: Any, space: Space) -> None:
        """Raise if at a constant step size the noise would need a negative variance.

        A covariance is one of ambient gradients: it can be subtracted on an embedded space alone.
        """
        leaves = jax.tree.leaves(self.noise_covariance.eigenvalues)
        if leaves and not space.embedded:
            raise ValueError(
                f"noise_covariance cannot be subtracted on {type(space).__name__}, whose metric is "
                "not that of its embedding"
            )
        if callable(h) or not all(_checks.is_concrete(x) for x in jax.tree.leaves((h, self))):
            return
        for leaf in leaves:
            if np.min(np.asarray(self.variance(h, leaf))) < 0:
                raise ValueError(
                    f"noise_covariance exceeds the noise of the sampler at step_size {h}: its "
                    f"largest eigenvalue is {np.max(leaf):.4g}. Decrease step_size, or reduce the "
                    "noise of the gradient"
                )

    def check_position(self: Any, position: Position) -> None:
        """Raise if the covariance does not fit the position."""
        self.noise_covariance.check(position)


def _eigen(matrix: Array) -> tuple[Array, Array]:
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"noise_covariance must be square, got shape {matrix.shape}")
    if _checks.is_concrete(matrix) and not np.allclose(matrix, matrix.T, rtol=1e-4, atol=1e-8):
        raise ValueError("noise_covariance must be symmetric")
    eigenvalues, basis = jnp.linalg.eigh(matrix)
    # rounding may leave a singular matrix with an eigenvalue just below zero
    slack = 1e-5 * jnp.max(jnp.abs(eigenvalues), initial=0.0)
    return jnp.where((eigenvalues < 0) & (eigenvalues > -slack), 0.0, eigenvalues), basis
