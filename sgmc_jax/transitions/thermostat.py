"""T: the Nose-Hoover thermostat."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, PyTree

from .transition import Phase, Transition


class Thermostat(Transition):
    """`xi <- xi + h (|v|^2 / m - 1)`, m the dimension of the whole space: one thermostat."""

    def __call__(self, key: Any, phase: Phase, h: Array, field: PyTree | None) -> Phase:
        energy = phase.space.squared_norm(phase.position, phase.momentum)
        excess = energy / phase.space.dim(phase.position) - 1
        thermostat = phase.thermostat + h.astype(excess.dtype) * excess
        return phase._replace(thermostat=thermostat)
