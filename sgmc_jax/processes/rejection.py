"""The rejection representation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..special import log1mexp
from .measures import (
    ALL_MEASURES,
    BetaPrimeProcess,
    BetaProcess,
    DiscountedMeasure,
    GammaProcess,
    GeneralizedGammaProcess,
    RateMeasure,
    StableBetaProcess,
    check_measure,
    power,
)
from .representation import MeasureSeries, at_least_one


class Rejection(MeasureSeries):
    """theta_k = T(g_k) where V_k <= rho(T(g_k)), V uniform, T the inverse tail of a measure."""

    @property
    def every_concentration(self) -> bool:
        return isinstance(self.measure, GammaProcess | GeneralizedGammaProcess)

    def _log_larger(self, g: Array) -> Array:
        """log T(g)."""
        measure, scaled = self.measure, g / self.measure.small
        if isinstance(measure, BetaProcess):
            return -scaled
        if isinstance(measure, GammaProcess | BetaPrimeProcess):
            scale = measure.concentration if isinstance(measure, GammaProcess) else 1.0
            return -scaled - log1mexp(-scaled) - jnp.log(scale)
        assert isinstance(measure, DiscountedMeasure)
        d = measure.discount
        powers = d * jnp.exp(jnp.log(g) - measure.log_front)
        log = jnp.log1p if isinstance(measure, StableBetaProcess) else jnp.log
        return -log(powers) / d

    def _place(self, log_theta: Array) -> Array:
        """T^-1(theta), the tail of the larger measure."""
        measure, c = self.measure, self.measure.small
        if isinstance(measure, BetaProcess):
            return -c * log_theta
        if isinstance(measure, GammaProcess | BetaPrimeProcess):
            scale = measure.concentration if isinstance(measure, GammaProcess) else 1.0
            return c * jax.nn.softplus(-log_theta - jnp.log(scale))
        assert isinstance(measure, DiscountedMeasure)
        d, front = measure.discount, jnp.exp(measure.log_front)
        power = jnp.expm1 if isinstance(measure, StableBetaProcess) else jnp.exp
        return front / d * power(-d * log_theta)

    def _log_kept(self, log_theta: Array) -> Array:
        """log rho(theta)."""
        measure, c = self.measure, self.measure.concentration
        # NaN where a concentration that was traced leaves the range: rho would be above 1
        less = lambda c: jnp.where(c >= 1, c - 1, jnp.nan)
        if isinstance(measure, BetaProcess):
            return power(less(c), log1mexp(log_theta))
        if isinstance(measure, StableBetaProcess):
            return power(less(c + measure.discount), log1mexp(log_theta))
        if isinstance(measure, BetaPrimeProcess):
            return -power(less(c), jax.nn.softplus(log_theta))
        x = c * jnp.exp(log_theta)
        return jnp.log1p(x) - x if isinstance(measure, GammaProcess) else -x

    def log_tau(self, v: Array, g: Array) -> Array:
        log_theta = self._log_larger(g)
        kept = self._log_kept(log_theta)
        there = jnp.where(jnp.log(v) <= kept, log_theta, -jnp.inf)
        return jnp.where(jnp.isnan(kept), kept, there)

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        return self._uniform(key, shape)

    def logpdf_v(self, v: Array) -> Array:
        return jnp.where((v > 0) & (v <= 1), 0.0, -jnp.inf)

    def lift(self, key: Any, log_theta: Array) -> tuple[Array, Array]:
        v = self._uniform(key, log_theta.shape) * jnp.exp(self._log_kept(log_theta))
        return v, self._place(log_theta)


def rejection(measure: RateMeasure) -> Rejection:
    """The rejection representation, theta_k = T(g_k) 1{V_k <= rho(T(g_k))}, V ~ Uniform(0, 1).

    nu = rho mu with rho <= 1, and T is the inverse of the tail of mu, whose density and rho are

        beta process, c >= 1            a c theta^-1                    (1 - theta)^(c-1)
        stable beta process, c + d >= 1 C theta^(-1-d), theta < 1       (1 - theta)^(c+d-1)
        gamma process                   a c theta^-1 / (1 + c theta)    (1 + c theta) e^(-c theta)
        generalized gamma process       C theta^(-1-d)                  e^(-c theta)
        beta prime process, c >= 1      a c theta^-1 / (1 + theta)      (1 + theta)^(1-c)

    Args:
        measure: one of the five, in the range above.

    Raises:
        TypeError, ValueError: if `measure` is none of them, or out of the range.

    Example:
        >>> from sgmc_jax.processes import BetaProcess, rejection
        >>> [float(rejection(BetaProcess(1.0, 3.0)).tau(v, 0.5)) > 0 for v in (0.01, 0.5)]
        [True, False]

    Reference:
        Rosinski (2001), Series representations of Levy processes from the perspective of point
        processes; Campbell, Huggins, How and Broderick (2019), Truncated random measures.
    """
    check_measure("rejection", measure, *ALL_MEASURES)
    if isinstance(measure, BetaProcess | BetaPrimeProcess):
        at_least_one(measure, "rejection", "inverse_levy or thinning")
    if isinstance(measure, StableBetaProcess):
        at_least_one(measure, "rejection", "inverse_levy or thinning", measure.discount)
    return Rejection(measure)
