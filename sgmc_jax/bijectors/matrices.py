"""Bijectors onto correlation and covariance matrices, by their Cholesky factors."""

from __future__ import annotations

import jax.numpy as jnp
from jax.nn import softplus
from jaxtyping import Array, Float

from .bijector import Bijector, length


class CorrelationCholesky(Bijector):
    """Cholesky factors L of d x d correlation matrices, from d (d - 1) / 2 numbers, row by row.

    L_ij = tanh(z_ij) prod_{k<j} sech(z_ik)   (j < i),      L_ii = prod_{k<i} sech(z_ik).

    Example:
        >>> import jax.numpy as jnp
        >>> CorrelationCholesky().forward(jnp.arctanh(jnp.array([0.6]))).round(4).tolist()
        [[1.0, 0.0], [0.6, 0.8]]

    Reference:
        Stan Development Team, Stan reference manual, chapter on transforms of constrained
        variables; Lewandowski, Kurowicka and Joe (2009), Generating random correlation matrices
        based on vines and extended onion method.
    """

    def forward(self, z: Float[Array, "*b n"]) -> Float[Array, "*b d d"]:
        matrix = _below(z, _dim(z, 1), 1)
        before = jnp.cumsum(_log_cosh(matrix), axis=-1) - _log_cosh(matrix)
        identity = jnp.eye(matrix.shape[-1], dtype=z.dtype)
        return (jnp.tanh(matrix) + identity) * jnp.exp(-before)

    def inverse(self, x: Float[Array, "*b d d"]) -> Float[Array, "*b n"]:
        after = jnp.flip(jnp.cumsum(jnp.flip(x**2, -1), axis=-1), -1)
        rows, columns = jnp.tril_indices(x.shape[-1], -1)
        return jnp.arctanh((x / jnp.sqrt(after))[..., rows, columns])

    def log_det(self, z: Float[Array, "*b n"]) -> Float[Array, ""]:
        matrix = _below(z, _dim(z, 1), 1)
        return -jnp.sum(_log_cosh(matrix) + jnp.tril(jnp.cumsum(_log_cosh(matrix), axis=-1), -1))


class Correlation(Bijector):
    """d x d correlation matrices L L', L of a `CorrelationCholesky`.

    Example:
        >>> import jax.numpy as jnp
        >>> Correlation().forward(jnp.arctanh(jnp.array([0.6]))).round(4).tolist()
        [[1.0, 0.6], [0.6, 1.0]]
    """

    def forward(self, z: Float[Array, "*b n"]) -> Float[Array, "*b d d"]:
        factor = CorrelationCholesky().forward(z)
        return _gram(factor)

    def inverse(self, x: Float[Array, "*b d d"]) -> Float[Array, "*b n"]:
        return CorrelationCholesky().inverse(jnp.linalg.cholesky(x))

    def log_det(self, z: Float[Array, "*b n"]) -> Float[Array, ""]:
        dim = _dim(z, 1)
        log_diagonal = -jnp.sum(_log_cosh(_below(z, dim, 1)), axis=-1)
        weight = jnp.arange(dim - 1, -1, -1, dtype=z.dtype)
        return CorrelationCholesky().log_det(z) + jnp.sum(weight * log_diagonal)


class Covariance(Bijector):
    """d x d positive definite matrices L L', from d (d + 1) / 2 numbers.

    L has the first d (d - 1) / 2 of them below its diagonal, row by row, and the exponentials of
    the last d on it.

    Example: L has the rows (2, 0) and (3, 1).
        >>> import jax.numpy as jnp
        >>> Covariance().forward(jnp.array([3.0, jnp.log(2.0), 0.0])).round(4).tolist()
        [[4.0, 6.0], [6.0, 10.0]]

    Reference:
        Pinheiro and Bates (1996), Unconstrained parametrizations for variance-covariance matrices.
    """

    def forward(self, z: Float[Array, "*b n"]) -> Float[Array, "*b d d"]:
        factor = self._factor(z)
        return _gram(factor)

    def inverse(self, x: Float[Array, "*b d d"]) -> Float[Array, "*b n"]:
        factor = jnp.linalg.cholesky(x)
        rows, columns = jnp.tril_indices(x.shape[-1], -1)
        log_diagonal = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1))
        return jnp.concatenate([factor[..., rows, columns], log_diagonal], axis=-1)

    def log_det(self, z: Float[Array, "*b n"]) -> Float[Array, ""]:
        dim = _dim(z, 0)
        weight = jnp.arange(dim + 1, 1, -1, dtype=z.dtype)
        return jnp.sum(weight * z[..., -dim:] + jnp.log(jnp.asarray(2, z.dtype)))

    def _factor(self, z: Float[Array, "*b n"]) -> Float[Array, "*b d d"]:
        dim = _dim(z, 0)
        identity = jnp.eye(dim, dtype=z.dtype)
        return _below(z[..., :-dim], dim, 1) + identity * jnp.exp(z[..., None, -dim:])


def _dim(z: Float[Array, "..."], offset: int) -> int:
    """The d of d (d + 1) / 2 numbers, or with an offset of 1 of d (d - 1) / 2."""
    size = length(z)
    dim = round(((1 + 8 * size) ** 0.5 - 1) / 2) + offset
    if (dim - offset) * (dim - offset + 1) != 2 * size:
        sign = "-" if offset else "+"
        raise ValueError(
            f"the unconstrained numbers of a matrix must be d (d {sign} 1) / 2 along their last "
            f"axis, got {size}: unconstrain(position) makes them of a matrix"
        )
    return dim


def _below(z: Float[Array, "*b n"], dim: int, offset: int) -> Float[Array, "*b d d"]:
    """The matrix with `z` below its diagonal, row by row, and zeros elsewhere."""
    rows, columns = jnp.tril_indices(dim, -offset)
    return jnp.zeros((*z.shape[:-1], dim, dim), z.dtype).at[..., rows, columns].set(z)


def _log_cosh(z: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.abs(z) + softplus(-2 * jnp.abs(z)) - jnp.log(jnp.asarray(2, z.dtype))


def _gram(factor: Float[Array, "... d d"]) -> Float[Array, "... d d"]:
    """L L', on every device in full precision."""
    return jnp.matmul(factor, jnp.swapaxes(factor, -1, -2), precision="highest")
