"""The thinning representation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .laws import BetaLaw, BetaPrimeLaw, GammaLaw, Law
from .measures import (
    ALL_MEASURES,
    BetaPrimeProcess,
    BetaProcess,
    RateMeasure,
    StableBetaProcess,
    check_measure,
)
from .representation import MeasureSeries


class Thinning(MeasureSeries):
    """theta_k = V_k where (d nu / d G)(V_k) >= g_k."""

    @property
    def law(self) -> Law:
        """G: theta nu(theta), normalised, where that has a finite integral a."""
        measure, c = self.measure, self.measure.concentration
        d = getattr(measure, "discount", jnp.zeros_like(c))
        if isinstance(measure, BetaProcess | StableBetaProcess):
            return BetaLaw(1 - d, c + d)
        return BetaPrimeLaw(c) if isinstance(measure, BetaPrimeProcess) else GammaLaw(1 - d, c)

    def _log_ratio(self, log_theta: Array) -> Array:
        """log of a / theta, times 1 + theta for the beta prime process."""
        more = isinstance(self.measure, BetaPrimeProcess)
        spread = jax.nn.softplus(log_theta) if more else 0.0
        return jnp.log(self.measure.mass) - log_theta + spread

    def log_tau(self, v: Array, g: Array) -> Array:
        log_v = jnp.log(v)
        return jnp.where(self._log_ratio(log_v) >= jnp.log(g), log_v, -jnp.inf)

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        return self.law.sample(key, shape)

    def logpdf_v(self, v: Array) -> Array:
        return self.law.logpdf(v)

    def lift(self, key: Any, log_theta: Array) -> tuple[Array, Array]:
        u = self._uniform(key, log_theta.shape)
        return jnp.exp(log_theta), u * jnp.exp(self._log_ratio(log_theta))


def thinning(measure: RateMeasure) -> Thinning:
    """The thinning representation, theta_k = V_k 1{(d nu / d G)(V_k) >= g_k}.

        beta process               V ~ Beta(1, c)          a >= V g
        stable beta process        V ~ Beta(1 - d, c + d)  a >= V g
        gamma process              V ~ Gamma(1, c)         a >= V g
        generalized gamma process  V ~ Gamma(1 - d, c)     a >= V g
        beta prime process         V = B / (1 - B)         a (1 + V) >= V g,   B ~ Beta(1, c)

    Valid for every mass, concentration and discount, at a price: weights of theta need some
    a / theta terms, where those of the other series need -a c log theta.

    Args:
        measure: one of the five.

    Raises:
        TypeError: if `measure` is none of them.

    Example:
        >>> from sgmc_jax.processes import BetaProcess, thinning
        >>> [float(thinning(BetaProcess(1.0)).tau(0.5, g)) for g in (1.5, 2.5)]
        [0.5, 0.0]

    Reference:
        Rosinski (1990), On series representations of infinitely divisible random vectors.
    """
    check_measure("thinning", measure, *ALL_MEASURES)
    return Thinning(measure)
