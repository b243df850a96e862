"""The inverse-Levy representation: weights in decreasing order."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .measures import RateMeasure, check_measure
from .representation import MeasureSeries

_ITERATIONS = 4  # the error is cubed by each, and the first is of at most 1


class InverseLevy(MeasureSeries):
    """theta_k = N^-1(g_k): weights in decreasing order."""

    def log_tau(self, v: Float[Array, "..."], g: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """By Newton's method in s, which is log theta, or its log odds where weights are below 1.

        N is summed from the right, over panels of length 1; what is left of the panel in which it
        passes g is integrated anew at each iteration. As a function of s, N = int f is convex and
        log N concave, since f decreases and log f is concave, for every measure of the library. In
        between is a power q of N, 0 <= q <= 1, that is straight to second order, where

            (N^q)'' = 0,   so   q = 1 + f' N / f^2,

        and Newton's step for that one is taken.
        """
        measure, dtype = self.measure, jnp.result_type(g, self.measure.mass)
        last = int(0.95 * math.log(float(jnp.finfo(dtype).max)))  # theta itself may be needed
        ends = jnp.arange(-last, last + 1, dtype=dtype)
        panels = measure.between(ends[:-1], ends[1:])
        beyond = measure.tail(measure.log_weight(ends[-1]))
        levels = jnp.cumsum(jnp.append(panels, beyond)[::-1])[::-1]  # N of the ends
        least = jnp.finfo(dtype).tiny  # nothing is below it, lest logarithms be infinite
        g = jnp.clip(g, least, levels[0])
        right = jnp.clip(jnp.sum(levels > g[..., None], axis=-1), 1, 2 * last)
        end, level = ends[right], levels[right]
        s = end - 1
        for _ in range(_ITERATIONS):
            tail = jnp.maximum(level + measure.between(s, end), least)
            log_f, slope = jax.jvp(measure.log_density, (s,), (jnp.ones_like(s),))
            scale = tail * jnp.exp(-jnp.maximum(log_f, jnp.log(least)))
            q = jnp.clip(1 + slope * scale, 1e-6, 1)
            step = -scale * jnp.expm1(q * (jnp.log(g) - jnp.log(tail))) / q
            s = jnp.clip(s + step, end - 1, end)
        return measure.log_weight(s)

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        return jnp.ones(shape, self.measure.mass.dtype)

    def logpdf_v(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.zeros_like(v)

    def lift(
        self, key: Any, log_theta: Float[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        return jnp.ones_like(log_theta), self.measure.tail(log_theta)


def inverse_levy(measure: RateMeasure) -> InverseLevy:
    """The inverse-Levy representation, theta_k = N^-1(g_k) with N(x) = nu((x, infinity)).

    Weights decrease, so that no other series needs fewer terms. N is inverted by Newton's method,
    and to rounding errors if the density of log theta is smooth on a scale of 1, as those of all
    measures of the library are. In float32 g is at least 1e-38, so that no weight is larger than
    N^-1(1e-38): of a gamma process 83 / c.

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
