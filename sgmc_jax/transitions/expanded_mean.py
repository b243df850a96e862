"""R: an Euler step of Riemannian Langevin dynamics on simplices, by their expanded means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import _checks
from .._estimators import Estimate
from .._functions import function_of
from .._types import Position
from ..random.normal import normal_like
from .total import check_simplices
from .transition import Phase, Transition


class ExpandedMeanLangevin(Transition):
    """`theta <- |theta + h (alpha - theta + n - w sum(n)) + N(0, 2 h theta)|`.

    w = theta / sum(theta); sums run over the last axis, and positions are log theta. The field is
    alpha + n, prior shapes and estimated counts; `prior`, a function of the position, gives alpha.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Estimate
        >>> from sgmc_jax.transitions import ExpandedMeanLangevin, Phase
        >>> piece = ExpandedMeanLangevin(lambda position: Estimate(jnp.ones(2)))
        >>> phase, shapes = Phase(jnp.log(jnp.array([1.0, 1e-9]))), jnp.array([4.0, 1.0])
        >>> moved = piece(jax.random.key(0), phase, jnp.array(0.1), shapes).position
        >>> bool(jnp.isfinite(moved).all())  # theta stays positive
        True

    Reference:
        Patterson and Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the
        probability simplex.
    """

    prior: Callable = eqx.field(converter=function_of("prior", "position"))
    random: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def check_position(self, position: Position) -> None:
        check_simplices(position)

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        noise = normal_like(key, phase.position)

        def leaf(x: Array, shape: Array, alpha: Array, xi: Array) -> Array:
            theta, step = jnp.exp(x), h.astype(x.dtype)
            total = jnp.sum(jnp.broadcast_to(shape - alpha, x.shape), axis=-1, keepdims=True)
            drift = shape - theta - jax.nn.softmax(x, axis=-1) * total
            moved = theta + (step * drift + jnp.sqrt(2 * step * theta) * xi)
            # rounding may give an exact 0, whose logarithm is no position
            return jnp.log(jnp.maximum(jnp.abs(moved), jnp.finfo(x.dtype).tiny)).astype(x.dtype)

        alpha = _checks.instance("what prior returns", Estimate, self.prior(phase.position))
        moved = jax.tree.map(leaf, phase.position, field, alpha.value, noise)
        return phase._replace(position=moved)
