"""S: the totals of simplices in gamma coordinates, drawn anew or reset."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from .._checks import scalar
from .._types import Position
from ..random.gamma import log_gamma
from .transition import Phase, Transition


class _Total(Transition):
    """What both have in common."""

    keeps_field: ClassVar[bool] = True
    uses_momentum: ClassVar[bool] = False
    straight: ClassVar[bool] = True

    def check_position(self, position: Position) -> None:
        check_simplices(position)


def check_simplices(position: Position) -> None:
    """Raise if a leaf has no last axis."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(position):
        if jnp.ndim(leaf) == 0:
            raise ValueError(
                f"position{jax.tree_util.keystr(path)} must have a last axis, the simplex, "
                'got a scalar; scir(..., scale="none") samples gammas that make up no simplex'
            )


class GammaTotal(_Total):
    """S: `theta_k <- s_k theta_k / sum(theta_k)`, `s_k ~ Gamma(sum(a_k), 1)`, for each simplex k.

    A simplex is the last axis of a leaf; positions are log theta, and the shapes a are the field.
    The points of the simplices stay where they are, and with them the field, which depends on
    nothing else: it is not stale after this piece.

    Example: the point of the simplex stays.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.transitions import GammaTotal, Phase
        >>> phase, shapes = Phase(jnp.log(jnp.array([1.0, 3.0]))), jnp.array([1.0, 1.0])
        >>> moved = GammaTotal()(jax.random.key(0), phase, jnp.array(0.1), shapes).position
        >>> jax.nn.softmax(moved).round(4).tolist()
        [0.25, 0.75]
    """

    random: ClassVar[bool] = True
    uses_field: ClassVar[bool] = True

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        def total(x: Array, a: Array) -> Array:
            return jnp.sum(jnp.broadcast_to(a, x.shape).astype(x.dtype), axis=-1)

        shapes, unravel = ravel_pytree(jax.tree.map(total, phase.position, field))
        totals = log_gamma(key, shapes).astype(shapes.dtype)  # drawn in float32 at least
        return phase._replace(position=_rescaled(phase.position, unravel(totals)))


class FixedTotal(_Total):
    """S: `theta_k <- total theta_k / sum(theta_k)` for each simplex k, with a constant total.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import FixedTotal, Phase
        >>> phase = Phase(jnp.log(jnp.array([1.0, 3.0])))
        >>> jnp.exp(FixedTotal(8.0)(None, phase, jnp.array(0.1), None).position).round(4).tolist()
        [2.0, 6.0]
    """

    total: Float[Array, ""] = eqx.field(converter=scalar("total"))

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        log_totals = jax.tree.map(
            lambda x: jnp.full(x.shape[:-1], jnp.log(self.total), x.dtype), phase.position
        )
        return phase._replace(position=_rescaled(phase.position, log_totals))


def _rescaled(position: Position, log_totals: PyTree) -> Position:
    """Log gammas with the given totals at the same points of their simplices."""
    return jax.tree.map(
        lambda x, s: x + (s - jax.nn.logsumexp(x, axis=-1))[..., None], position, log_totals
    )
