"""Matrices that depend on the position, and their divergence by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from .. import _checks, _returned
from .._functions import as_function
from .._types import Position
from ..arrays import product

GAMMAS = ("exact", "diagonal", "jvp")
MatrixOrDiagonal = Float[Array, " d"] | Float[Array, "d d"]
_RANDOM = 8  # signs by which `"diagonal"` is checked


class PositionMatrix(eqx.Module):
    """A matrix over the raveled position, as a function of the position or constant.

    Args:
        name: of the argument that it is.
        value: the matrix (d, d) over the raveled position; a diagonal, as a pytree like the
            position or (d,); a number, for that number times the identity; or a function of the
            position that returns one of these.

    Example:
        >>> import jax.numpy as jnp
        >>> PositionMatrix("diffusion", lambda x: 2 * x).at(jnp.array([1.0, 3.0])).tolist()
        [2.0, 6.0]
    """

    name: str = eqx.field(static=True)
    value: Any

    def __init__(self, name: str, value: Any):
        self.name = _checks.instance("name", str, name)
        real = _checks.real_tree(name)
        self.value = as_function(value, name, ("position",)) if callable(value) else real(value)

    def at(self, position: Position) -> Float[Array, " d"] | Float[Array, "d d"]:
        """The matrix at a position, or its diagonal if it has no more."""
        value: Any = self.value(position) if callable(self.value) else self.value
        flat, _ = ravel_pytree(position)
        if _returned.same_form(value, position):
            _returned.numbers(self.name, value)
            return ravel_pytree(value)[0].astype(flat.dtype)
        d, shape = flat.size, np.shape(value) if _is_array(value) else None
        if shape == ():
            return jnp.full(d, value, flat.dtype)
        if shape in ((d,), (d, d)):
            return jnp.asarray(value).astype(flat.dtype)
        raise TypeError(
            f"{self.name} must be a matrix over the raveled position, of shape {(d, d)}, or its "
            f"diagonal, of shape {(d,)} or like the position, got {_returned.describe(value)}"
        )

    def check(self, position: Position, definite: bool = False) -> None:
        """Raise unless it is symmetric and positive semi-definite, or definite, at a position."""
        matrix = np.asarray(self.at(position), np.float64)
        if not np.all(np.isfinite(matrix)):
            raise ValueError(f"{self.name} must be finite where the chain begins")
        least, slack = np.min(matrix, initial=np.inf), _slack(matrix)
        if matrix.ndim == 2:
            if not np.allclose(matrix, matrix.T, rtol=1e-4, atol=slack):
                raise ValueError(f"{self.name} must be symmetric where the chain begins")
            least = np.linalg.eigvalsh(matrix)[0]
        if not (least > slack if definite else least >= -slack):
            kind = "positive definite" if definite else "positive semi-definite"
            raise ValueError(
                f"{self.name} must be {kind} where the chain begins, got an eigenvalue of "
                f"{least:.4g}"
            )

    def check_factor(self, position: Position) -> None:
        """Raise unless the matrix of which it is a factor is positive definite at a position."""
        factor = np.asarray(self.at(position), np.float64)
        least = np.nan
        if np.all(np.isfinite(factor)):
            alone = factor.ndim == 1
            sizes = np.abs(factor) if alone else np.linalg.svd(factor, compute_uv=False)
            least = np.min(sizes, initial=np.inf)
        if not least > _slack(factor):
            raise ValueError(
                f"{self.name}, a factor, must not be singular where the chain begins, got a "
                f"singular value of {least:.4g}"
            )

    def check_antisymmetric(self, position: Position) -> None:
        """Raise unless it is minus its transpose at a position."""
        matrix = np.asarray(dense(self.at(position)), np.float64)
        if not np.allclose(matrix, -matrix.T, rtol=1e-4, atol=_slack(matrix)):
            worst = np.max(np.abs(matrix + matrix.T))
            raise ValueError(
                f"{self.name} must be antisymmetric where the chain begins, got {self.name} plus "
                f"its transpose up to {worst:.4g}"
            )


class Divergence(eqx.Module):
    """`Gamma_i = sum_j d M_ij / d x_j`, of a matrix M that depends on the position.

    The derivative of M z along z is the sum of it over the z of a basis (`"exact"`, d of them), or
    its mean over Rademacher z (`"jvp"`, one that is drawn); z = 1 is enough where M_ii depends on
    x_i alone and the rest of M is constant (`"diagonal"`).

    Args:
        gamma: one of these three, or Gamma itself, a function of the position that returns a pytree
            like it.

    Raises:
        ValueError: if `gamma` is another text.

    Example:
        >>> import jax.numpy as jnp
        >>> times = lambda position, z: position**2 * z  # M = diag(x^2)
        >>> Divergence()(None, times, jnp.array([1.0, 3.0])).tolist()
        [2.0, 6.0]
    """

    how: str = eqx.field(static=True)
    own: Callable | None

    def __init__(self, gamma: str | Callable = "exact"):
        if not callable(gamma):
            _checks.choice("gamma", gamma, GAMMAS, " or a function")
        self.how = gamma if isinstance(gamma, str) else "own"
        self.own = as_function(gamma, "gamma", ("position",)) if callable(gamma) else None

    def __call__(self, key: Any, product: Callable, position: Position) -> Float[Array, " d"]:
        """Gamma at a position, over the raveled one.

        Args:
            product: `(position, z) -> M z`, with z and M z over the raveled position.
        """
        flat, unravel = ravel_pytree(position)
        if self.own is not None:
            value = self.own(position)
            _returned.like("gamma", value, position, "the position")
            return ravel_pytree(value)[0].astype(flat.dtype)

        along = partial(_along, product, unravel, flat)
        if self.how == "exact":
            return jnp.sum(jax.vmap(along)(jnp.eye(flat.size, dtype=flat.dtype)), axis=0)
        if self.how == "diagonal":
            return along(jnp.ones_like(flat))
        return along(jax.random.rademacher(key, flat.shape, flat.dtype))

    def check(self, product: Callable, position: Position) -> None:
        """Raise if `"diagonal"` is not enough at a position, or beside it, for at one where a chain
        begins, 0 say, derivatives may vanish.

        Else the derivative of M z along z is one and the same for all z of signs: those of each
        digit of the coordinates' numbers, by which every two of them are told apart, and some at
        random, by which several are whose derivatives cancel in such sums.
        """
        if self.how != "diagonal":
            return
        flat, unravel = ravel_pytree(position)
        number = np.arange(flat.size)
        digits = [number >> i & 1 for i in range(max(flat.size - 1, 0).bit_length())]
        each = [*digits, *np.random.default_rng(0).integers(0, 2, (_RANDOM, flat.size))]
        for x in (flat, flat + 0.01 * (1 + abs(flat)) * np.cos(number).astype(flat.dtype)):
            plain = np.asarray(_along(product, unravel, x, jnp.ones_like(x)))
            for bits in each:
                signs = jnp.asarray(1 - 2 * bits, x.dtype)
                turned = np.asarray(_along(product, unravel, x, signs))
                slack = 1e-3 * np.maximum(abs(plain), abs(turned)) + _slack(plain)
                if np.any(abs(turned - plain) > slack):  # and not where one is no number
                    raise ValueError(
                        'gamma="diagonal" is for diagonals of which each element depends on its '
                        'own coordinate alone: use gamma="exact" or "jvp" for others'
                    )


def _along(product: Callable, unravel: Callable, x: Float[Array, " d"], z: Array) -> Array:
    """The derivative of M z along z at x."""
    return jax.jvp(lambda x: product(unravel(x), z), (x,), (z,))[1]


def _slack(matrix: Float[np.ndarray, "..."]) -> float:
    """What rounding makes of its elements."""
    return 1e-5 * float(np.nanmax(np.abs(matrix), initial=0.0))


def times(matrix: MatrixOrDiagonal, v: Float[Array, " d"]) -> Float[Array, " d"]:
    """The product with a matrix or a diagonal."""
    return matrix * v if matrix.ndim == 1 else product(matrix, v)


def dense(matrix: MatrixOrDiagonal) -> Float[Array, "d d"]:
    """The matrix, also of a diagonal."""
    return jnp.diag(matrix) if matrix.ndim == 1 else matrix


def _is_array(value: PyTree) -> bool:
    return jax.tree_util.all_leaves([value]) and np.ndim(value) <= 2
