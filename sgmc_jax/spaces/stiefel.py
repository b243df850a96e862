"""The Stiefel manifold."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import product
from ..arrays.expm import expm
from ..random import normal
from .array_space import ArraySpace
from .sphere import length


class Stiefel(ArraySpace):
    """Matrices with p orthonormal columns in R^n, p <= n, with the metric of R^{n p}.

    A position is an array (..., n, p) with X'X = I. Tangent are the V with X'V + V'X = 0. With
    A = X'V and S = V'V the geodesic is

        [X(t), V(t)] = [X, V] exp(t [[A, -S], [I, A]]) diag(exp(-tA), exp(-tA)),

    which is that of the Euclidean metric, not of the canonical one. Then X <- X (3 I - X'X) / 2, a
    step towards its polar factor, and V is projected: rounding errors do not add up, and no
    direction is preferred, as it would be by a QR decomposition. p = 1 is the sphere. Square X are
    of determinant 1 or -1: no geodesic leads from one of these two parts to the other, and a chain
    samples the part that it begins in.

    Raises:
        ValueError: at `sample`'s door, if p > n or X'X is off I by more than 1e-3.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> x = Stiefel().random_point(jax.random.key(0), jnp.zeros((5, 2)))
        >>> (x.T @ x).round(4).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        >>> Stiefel().dim(x)
        7

    Reference:
        Edelman, Arias and Smith (1998), The geometry of algorithms with orthogonality constraints,
        section 2.2.2; Byrne and Girolami (2013), section 4.2.
    """

    def project_array(
        self, x: Float[Array, "*b n p"], v: Float[Array, "*b n p"]
    ) -> Float[Array, "*b n p"]:
        cross = product(x.mT, v)
        return v - product(x, cross + cross.mT) / 2

    def flow_array(
        self, x: Float[Array, "*b n p"], v: Float[Array, "*b n p"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "*b n p"], Float[Array, "*b n p"]]:
        p = x.shape[-1]
        # blocks of one size: V is taken in units of its own speed
        speed = length(v, (-2, -1)) / p**0.5
        speed = jnp.where(speed > 0, speed, 1.0)
        unit = v / speed
        turn = product(x.mT, v)
        turn = (turn - turn.mT) / 2
        eye = jnp.broadcast_to(jnp.eye(p, dtype=x.dtype), turn.shape)
        upper = jnp.concatenate([turn, -speed * product(unit.mT, unit)], axis=-1)
        lower = jnp.concatenate([speed * eye, turn], axis=-1)
        block = expm(t * jnp.concatenate([upper, lower], -2))
        both = product(jnp.concatenate([x, unit], axis=-1), block)
        back = expm(-t * turn)
        moved = _towards_polar(product(both[..., :p], back))
        return moved, self.project_array(moved, speed * product(both[..., p:], back))

    def normal_array(self, key: Any, x: Float[Array, "*b n p"]) -> Float[Array, "*b n p"]:
        return self.project_array(x, normal(key, x.shape, x.dtype))

    def random_array(
        self, key: Any, x: Float[Array | np.ndarray, "*b n p"]
    ) -> Float[Array, "*b n p"]:
        _check_shape("like", x.shape)
        return _polar(normal(key, x.shape, x.dtype))

    def nearest(self, x: Any) -> Any:
        for leaf in jax.tree.leaves(x):
            _check_shape("x", jnp.shape(leaf))
        return jax.tree.map(_polar, x)

    def log_volume(self, x: Any) -> Float[Array, ""]:
        for leaf in jax.tree.leaves(x):
            _check_shape("x", leaf.shape)
        return jnp.asarray(sum(_log_volume(leaf.shape) for leaf in jax.tree.leaves(x)))

    def dim_array(self, shape: tuple[int, ...]) -> int:
        _check_shape("x", shape)
        *many, n, p = shape
        return math.prod(many) * (n * p - p * (p + 1) // 2)

    def check_array(self, where: str, x: Any) -> None:
        shape = jnp.shape(x)
        _check_shape(where, shape)
        value = np.asarray(x, np.float64)
        gram = np.swapaxes(value, -1, -2) @ value
        error = np.max(np.abs(gram - np.eye(shape[-1])), initial=0.0)
        if error > _checks.slack(x):
            raise ValueError(
                f"{where} must have orthonormal columns, got an X'X that is off I by {error:.2g}; "
                "Stiefel().nearest(x) has"
            )


def _check_shape(where: str, shape: tuple[int, ...]) -> None:
    if len(shape) < 2 or shape[-1] > shape[-2]:
        raise ValueError(
            f"{where} must have shape (..., n, p) with p <= n for p orthonormal columns in R^n, "
            f"got {shape}"
        )


def _towards_polar(x: Float[Array, "*b n p"]) -> Float[Array, "*b n p"]:
    return product(x, 3 * jnp.eye(x.shape[-1], dtype=x.dtype) - product(x.mT, x)) / 2


def _polar(x: Float[Array | np.ndarray, "*b n p"]) -> Float[Array, "*b n p"]:
    u, _, v = jnp.linalg.svd(x, full_matrices=False)
    return _towards_polar(product(u, v))  # the factors are orthogonal to some roundings only


def _log_volume(shape: tuple[int, ...]) -> float:
    """That of as many manifolds: 2^p 2^(p (p-1) / 4) pi^(n p / 2) / Gamma_p(n / 2) each."""
    *many, n, p = shape
    gammas = p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma((n - i) / 2) for i in range(p))
    powers = (p + p * (p - 1) / 4) * math.log(2) + n * p / 2 * math.log(math.pi)
    return math.prod(many) * (powers - gammas)
