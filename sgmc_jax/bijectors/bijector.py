"""The protocol of a bijector."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Bijector(eqx.Module):
    """A smooth bijection x = f(z) from R^n onto a support, for one leaf of a position.

    It acts on the last axes of an array, and on each entry of the axes before them: chains, draws
    and several parameters of one kind need no `vmap`.

    Example: numbers below -1.
        >>> import jax.numpy as jnp
        >>> class BelowMinusOne(Bijector):
        ...     def forward(self, z):
        ...         return -1 - jnp.exp(z)
        ...
        ...     def inverse(self, x):
        ...         return jnp.log(-1 - x)
        ...
        ...     def log_det(self, z):
        ...         return jnp.sum(z)
        >>> float(BelowMinusOne().forward(jnp.zeros(())))
        -2.0
    """

    @abstractmethod
    def forward(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """The point x of the support."""

    @abstractmethod
    def inverse(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """The unconstrained z of a point."""

    @abstractmethod
    def log_det(self, z: Float[Array, "..."]) -> Float[Array, ""]:
        """log |det dx / dz|, one number: the sum over all axes of `z`.

        Of a matrix of a constrained kind, the x of the Jacobian are its free entries, those below
        the diagonal, or on and below it: densities are with respect to these.
        """


def length(z: Float[Array, "..."]) -> int:
    """The length of the last axis; raise where there is none, along which a vector would lie."""
    if not jnp.ndim(z):
        raise ValueError("a leaf of the position must have a last axis for its support, got ()")
    return z.shape[-1]


class Identity(Bijector):
    """All of R^n: x = z.

    Example:
        >>> float(Identity().forward(jnp.array(2.0))), float(Identity().log_det(jnp.array(2.0)))
        (2.0, 0.0)
    """

    def forward(self, z: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return z

    def inverse(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return x

    def log_det(self, z: Float[Array, "*n"]) -> Float[Array, ""]:
        return jnp.zeros((), z.dtype)
