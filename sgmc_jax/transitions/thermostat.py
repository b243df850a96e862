"""T: the Nose-Hoover thermostat."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .._checks import scalar
from .._types import Position
from .transition import Phase, Transition


class Thermostat(Transition):
    """`xi <- xi + h (|v|^2 / m - 1)`, m the dimension of the whole space: one thermostat.

    It is the `"thermostat"` of the phase, from `start` on; F and E take their friction from it.
    What is rounded off is kept for the next step: where xi is large and h small an increment would
    else be less than half a unit of its last digit, and the thermostat stand still.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.transitions import Phase, Thermostat
        >>> piece, position = Thermostat(1.0), jnp.zeros(2)
        >>> phase = Phase(position, jnp.array([2.0, 2.0]), piece.auxiliary(position))
        >>> float(piece(None, phase, jnp.array(0.5), None).auxiliary["thermostat"])  # 8 / 2 - 1 = 3
        2.5

    Reference:
        Ding et al. (2014), Bayesian sampling using stochastic gradient thermostats. What is kept of
        the rounding is ours.
    """

    start: Float[Array, ""] = eqx.field(converter=scalar("start"))

    def auxiliary(self, position: Position) -> dict[str, PyTree]:
        start = self.start.astype(jnp.result_type(*jax.tree.leaves(position)))
        return {"thermostat": start, "thermostat_rest": jnp.zeros_like(start)}

    def __call__(self, key: Any, phase: Phase, h: Float[Array, ""], field: PyTree | None) -> Phase:
        energy = phase.space.squared_norm(phase.position, phase.momentum)
        dim = phase.space.dim(phase.position)
        excess = energy / dim - 1 if dim else jnp.zeros_like(energy)  # of points nothing moves
        before, rest = (phase.auxiliary[name] for name in ("thermostat", "thermostat_rest"))
        due = h.astype(excess.dtype) * excess + rest
        after = before + due
        own = {"thermostat": after, "thermostat_rest": due - (after - before)}
        return phase._replace(auxiliary=phase.auxiliary | own)
