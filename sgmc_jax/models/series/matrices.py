"""The matrices of linear-Gaussian state-space models, and covariances as unconstrained numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from ... import _checks
from ...arrays import product

NAMES = ("transition", "state_noise", "observation", "observation_noise")
NOISES = ("state_noise", "observation_noise")


def factor(packed: Float[Array, " p"], size: int) -> Float[Array, "d d"]:
    """The Cholesky factor of a packed one, whose diagonal is in logarithms."""
    lower = jnp.zeros((size, size), packed.dtype).at[np.tril_indices(size)].set(packed)
    return jnp.tril(lower, -1) + jnp.diag(jnp.exp(jnp.diagonal(lower)))


def packed(matrix: Float[Array, "d d"]) -> Float[Array, " p"]:
    """The lower triangle of the Cholesky factor, row by row, with its diagonal in logarithms."""
    root = jnp.linalg.cholesky(matrix)
    lower = jnp.tril(root, -1) + jnp.diag(jnp.log(jnp.diagonal(root)))
    return lower[np.tril_indices(len(matrix))]


def covariances(packed: Float[Array, "*n p"], size: int) -> Float[Array, "*n d d"]:
    """The covariances of packed factors, with any leading axes."""

    def one(packed: Float[Array, " p"]) -> Float[Array, "d d"]:
        root = factor(packed, size)
        return product(root, root.T)

    return jnp.vectorize(one, signature="(p)->(d,d)")(packed)


def all_packed(matrices: Float[Array, "*n d d"]) -> Float[Array, "*n p"]:
    """`packed` of matrices with any leading axes."""
    return jnp.vectorize(packed, signature="(d,d)->(p)")(matrices)


def log_inverse_wishart(
    packed: Float[Array, " p"], size: int, prior: tuple[Float[Array, ""], Float[Array, ""]]
) -> Float[Array, ""]:
    """The prior (nu, b I) in the coordinates of the packed factor, with their Jacobian."""
    (nu, b), root = prior, factor(packed, size)
    log_diagonal = jnp.log(jnp.diagonal(root))
    inverse = solve_triangular(root, jnp.eye(size, dtype=root.dtype), lower=True)
    powers = size + 1 - jnp.arange(size)
    density = -(nu + size + 1) * jnp.sum(log_diagonal) - 0.5 * b * jnp.sum(inverse**2)
    return density + jnp.sum(powers * log_diagonal)


def named_matrices(
    what: str, given: Mapping[str, Any], shapes: dict[str, tuple[int, int]], draws: bool = False
) -> dict[str, Float[Array, "... _ _"]]:
    """Named matrices of these shapes, those of noise positive definite; of draws, with any axes."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a dict of matrices, got {type(given).__name__}")
    if unknown := set(given) - set(NAMES):
        raise ValueError(f"{what} must name some of {NAMES}, got {sorted(unknown)}")
    found = {}
    for name, value in given.items():
        value = found[name] = _checks.as_real(value, name)
        if (value.shape[-2:] if draws else value.shape) != shapes[name]:
            raise ValueError(f"{name} must be of shape {shapes[name]}, got {value.shape}")
        if name in NOISES:
            check_definite(name, value)
    return found


def check_definite(name: str, value: Float[Array, "*n d d"]) -> None:
    """Raise unless concrete covariances are symmetric and positive definite."""
    if not _checks.is_concrete(value):
        return
    _checks.finite(name, value)
    matrix = np.asarray(value, np.float64)
    slack = 1e-4 * np.abs(matrix) + 1e-6 * np.max(np.abs(matrix), (-2, -1), keepdims=True)
    if np.any(np.abs(matrix - np.swapaxes(matrix, -1, -2)) > slack):
        raise ValueError(f"{name} must be symmetric, got {matrix}")
    if not np.min(np.linalg.eigvalsh(matrix), initial=1.0) > 0:
        raise ValueError(f"{name} must be positive definite, got {matrix}")
