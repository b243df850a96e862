"""Mirror maps: coordinates in which a constrained position is free."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from . import _checks
from ._types import Position

Dual = Any  # a pytree of dual coordinates


class Mirror(eqx.Module):
    """The gradient of a strictly convex function on a convex set, onto all of R^n, and its inverse.

    `dual` is y = grad phi(x), `primal` its inverse x(y), and `log_element` log |dx / dy|, the log
    volume of a unit of dual volume: minus the log determinant of the Hessian of phi at x.

    Example: the interval (0, 1), phi(x) = x log x + (1 - x) log(1 - x).
        >>> class Interval(Mirror):
        ...     def dual(self, x):
        ...         return jnp.log(x) - jnp.log1p(-x)
        ...
        ...     def primal(self, y):
        ...         return jax.nn.sigmoid(y)
        ...
        ...     def log_element(self, y):
        ...         return jnp.sum(jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y))
        >>> float(Interval().primal(Interval().dual(jnp.array(0.25))))
        0.25
    """

    @abstractmethod
    def dual(self, x: Position) -> Dual:
        """The dual coordinates y of `x`."""

    @abstractmethod
    def primal(self, y: Dual) -> Position:
        """The position whose dual coordinates are `y`."""

    @abstractmethod
    def log_element(self, y: Dual) -> Float[Array, ""]:
        """log |dx / dy|, one number, up to a constant."""

    def pull(self, x: Position, gradient: Position) -> Dual:
        """The gradient in y of a function whose gradient in x is given: (dx / dy)' g."""
        primal, pull = jax.vjp(self.primal, self.dual(x))
        return pull(jax.tree.map(lambda x, g: g.astype(x.dtype), primal, gradient))[0]

    def check(self, x: Position) -> None:
        """Raise if a concrete `x` has no dual coordinates."""
        for path, y in jax.tree_util.tree_leaves_with_path(self.dual(jax.tree.map(jnp.asarray, x))):
            if not np.all(np.isfinite(y)):
                where = jax.tree_util.keystr(path)
                raise ValueError(
                    f"position must be inside the set of {type(self).__name__}, got dual "
                    f"coordinates{where} that are not finite"
                )


class PositiveMirror(Mirror):
    """Positive numbers, of arrays of any shape: y = log x, phi(x) = sum (x log x - x).

    Example:
        >>> PositiveMirror().dual(jnp.array([1.0])).tolist()
        [0.0]

    Reference:
        Hsieh, Kavis, Rolland and Cevher (2018), Mirrored Langevin dynamics.
    """

    def dual(self, x: Position) -> Dual:
        return jax.tree.map(lambda x: jnp.log(_above_zero(x)), x)

    def primal(self, y: Dual) -> Position:
        return jax.tree.map(lambda y: _above_zero(jnp.exp(y)), y)

    def log_element(self, y: Dual) -> Float[Array, ""]:
        return _total(y)

    def check(self, x: Position) -> None:
        leaves = jax.tree.leaves(x)
        least = min((float(np.min(leaf, initial=np.inf)) for leaf in leaves), default=np.inf)
        if least <= 0:
            raise ValueError(f"position must be positive, got {least:.4g}")


class SimplexMirror(Mirror):
    """Probabilities x, along the last axis: y_k = log x_k - log x_K for k < K, the entropic map.

    phi(x) is the sum of x_k log x_k over all K, in the first K - 1 coordinates, to whose Lebesgue
    measure densities are; |dx / dy| is the product of all K.

    Example:
        >>> SimplexMirror().primal(jnp.zeros(1)).tolist()
        [0.5, 0.5]

    Reference:
        Hsieh, Kavis, Rolland and Cevher (2018), Mirrored Langevin dynamics, for the entropic map.
    """

    def dual(self, x: Position) -> Dual:
        logs = PositiveMirror().dual(x)
        return jax.tree.map(lambda x: x[..., :-1] - x[..., -1:], logs)

    def primal(self, y: Dual) -> Position:
        return jax.tree.map(lambda y: _above_zero(jax.nn.softmax(_padded(y), axis=-1)), y)

    def log_element(self, y: Dual) -> Float[Array, ""]:
        return _total(jax.tree.map(lambda y: jax.nn.log_softmax(_padded(y), axis=-1), y))

    def check(self, x: Position) -> None:
        for path, leaf in jax.tree_util.tree_leaves_with_path(x):
            where = f"position{jax.tree_util.keystr(path)}"
            _checks.probabilities(where, leaf)


def _above_zero(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """What rounding takes to 0 as the least normal number, of finite logarithm and gradients.

    Subnormal numbers, which CPUs flush to 0 and GPUs keep, have reciprocals that are infinite.
    """
    tiny = jnp.finfo(x.dtype).tiny
    return jnp.where((x >= 0) & (x < tiny), tiny, x)


def _padded(y: Float[Array, "*b d"]) -> Float[Array, "*b K"]:
    return jnp.concatenate([y, jnp.zeros_like(y[..., :1])], axis=-1)


def _total(tree: Any) -> Float[Array, ""]:
    return sum((jnp.sum(leaf) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def as_mirror(mirror: Any) -> Mirror:
    """`mirror`; raises unless it is one."""
    if not isinstance(mirror, Mirror):
        raise TypeError(
            f"mirror must be a Mirror such as SimplexMirror(), got {type(mirror).__name__}"
        )
    return mirror
