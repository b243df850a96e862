"""Symmetric matrices: whether they are, and their eigenvalues."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks


def eigen(matrix: Float[Array, "d d"]) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """The eigenvalues of a symmetric matrix, in their order, and its eigenvectors."""
    wide = jnp.promote_types(matrix.dtype, jnp.float32)  # there is no `eigh` of half precision
    eigenvalues, basis = jnp.linalg.eigh(matrix.astype(wide))
    # rounding may leave a singular matrix with an eigenvalue just below zero
    slack = 1e-5 * jnp.max(jnp.abs(eigenvalues), initial=0.0)
    return jnp.where((eigenvalues < 0) & (eigenvalues > -slack), 0.0, eigenvalues), basis


def check_symmetric(name: str, matrix: Float[Array, "..."]) -> None:
    """Raise unless a matrix is square and, if it is concrete, symmetric."""
    if not is_square(matrix):
        raise ValueError(f"{name} must be square, got shape {matrix.shape}")
    if not _checks.is_concrete(matrix):
        return
    value = np.asarray(matrix, np.float64)
    slack = 1e-5 * np.max(np.abs(value), initial=0.0)  # what rounding makes of its elements
    if not np.allclose(value, value.T, rtol=1e-4, atol=slack):
        raise ValueError(f"{name} must be symmetric")


def is_square(x: Float[Array, "..."]) -> bool:
    """Whether it is a square matrix."""
    return x.ndim == 2 and x.shape[0] == x.shape[1]
