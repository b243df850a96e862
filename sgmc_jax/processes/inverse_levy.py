"""The inverse-Levy representation: weights in decreasing order."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .measures import RateMeasure, check_measure
from .representation import MeasureSeries


class InverseLevy(MeasureSeries):
    """theta_k = N^-1(g_k): weights in decreasing order."""

    def log_tau(self, v: Array, g: Array) -> Array:
        """By bisection of log theta, or of the log odds of a weight below 1."""
        bounded, dtype = self.measure.bounded, jnp.result_type(g, self.measure.mass)
        to_log = jax.nn.log_sigmoid if bounded else lambda s: s
        lowest = -0.95 * math.log(float(jnp.finfo(dtype).max))  # theta itself may be needed
        ends = jnp.full(jnp.shape(g), lowest, dtype), jnp.full(jnp.shape(g), -lowest, dtype)

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) / 2
            more = self.measure.tail(to_log(middle)) > g
            return jnp.where(more, middle, low), jnp.where(more, high, middle)

        low, high = jax.lax.fori_loop(0, jnp.finfo(dtype).nmant + 10, halve, ends)
        return to_log((low + high) / 2)

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        return jnp.ones(shape, self.measure.mass.dtype)

    def logpdf_v(self, v: Array) -> Array:
        return jnp.zeros_like(v)

    def lift(self, key: Any, log_theta: Array) -> tuple[Array, Array]:
        return jnp.ones_like(log_theta), self.measure.tail(log_theta)


def inverse_levy(measure: RateMeasure) -> InverseLevy:
    """The inverse-Levy representation, theta_k = N^-1(g_k) with N(x) = nu((x, infinity)).

    Weights decrease, so that no other series needs fewer terms. N is inverted by bisection, at the
    cost of some forty evaluations of `measure.tail`.

    Args:
        measure: any `RateMeasure`.

    Raises:
        TypeError: if `measure` is none.

    Example:
        >>> from sgmc_jax.processes import BetaProcess, inverse_levy
        >>> round(float(inverse_levy(BetaProcess(2.0)).tau(1.0, 3.0)), 5)  # exp(-3 / 2)
        0.22313

    Reference:
        Ferguson and Klass (1972), A representation of independent increment processes without
        Gaussian components.
    """
    check_measure("inverse_levy", measure)
    return InverseLevy(measure)
