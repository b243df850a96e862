"""The rejection representation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..special import log1mexp
from .measures import (
    ALL_MEASURES,
    BetaPrimeProcess,
    BetaProcess,
    GammaProcess,
    GeneralizedGammaProcess,
    RateMeasure,
    StableBetaProcess,
    check_measure,
    power,
)
from .representation import MeasureSeries, at_least_one


class LogEnvelope(NamedTuple):
    """mu = a c theta^-1 on (0, 1)."""

    small: Float[Array, ""]

    def log_theta(self, g: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """log T(g)."""
        return -(g / self.small)

    def place(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """The tail of mu at theta."""
        return -self.small * log_theta


class OddsEnvelope(NamedTuple):
    """mu = a c theta^-1 / (1 + s theta)."""

    small: Float[Array, ""]
    scale: Any

    def log_theta(self, g: Float[Array, "*b"]) -> Float[Array, "*b"]:
        scaled = g / self.small
        return -scaled - log1mexp(-scaled) - jnp.log(self.scale)

    def place(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return self.small * jax.nn.softplus(-log_theta - jnp.log(self.scale))


class PowerEnvelope(NamedTuple):
    """mu = C theta^(-1-d), on (0, 1) if it is bounded."""

    log_front: Float[Array, ""]
    discount: Float[Array, ""]
    bounded: bool

    def log_theta(self, g: Float[Array, "*b"]) -> Float[Array, "*b"]:
        powers = self.discount * jnp.exp(jnp.log(g) - self.log_front)
        log = jnp.log1p if self.bounded else jnp.log
        return -log(powers) / self.discount

    def place(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        exp = jnp.expm1 if self.bounded else jnp.exp
        return jnp.exp(self.log_front) / self.discount * exp(-self.discount * log_theta)


Envelope = LogEnvelope | OddsEnvelope | PowerEnvelope


def envelope(
    measure: RateMeasure,
) -> tuple[Envelope, Callable[[Float[Array, "*b"]], Float[Array, "*b"]]]:
    """mu, whose tail is T^-1, the `place` of a weight; and log rho, a function of log theta."""
    c = measure.concentration
    weight = lambda log_theta: c * jnp.exp(log_theta)
    match measure:
        case BetaProcess():
            return LogEnvelope(measure.small), lambda t: power(_less(c), log1mexp(t))
        case StableBetaProcess(discount=d):
            mu = PowerEnvelope(measure.log_front, d, bounded=True)
            return mu, lambda t: power(_less(c + d), log1mexp(t))
        case GammaProcess():
            return OddsEnvelope(measure.small, c), lambda t: jnp.log1p(weight(t)) - weight(t)
        case GeneralizedGammaProcess(discount=d):
            return PowerEnvelope(measure.log_front, d, bounded=False), lambda t: -weight(t)
        case BetaPrimeProcess():
            mu = OddsEnvelope(measure.small, 1.0)
            return mu, lambda t: -power(_less(c), jax.nn.softplus(t))
    raise TypeError(f"there is no envelope of a {type(measure).__name__}")


def _less(c: Float[Array, ""]) -> Float[Array, ""]:
    """c - 1; NaN where a concentration that was traced leaves the range: rho would be above 1."""
    return jnp.where(c >= 1, c - 1, jnp.nan)


class Rejection(MeasureSeries):
    """theta_k = T(g_k) where V_k <= rho(T(g_k)), V uniform, T the inverse tail of a measure."""

    @property
    def every_concentration(self) -> bool:
        return isinstance(self.measure, GammaProcess | GeneralizedGammaProcess)

    def log_tau(self, v: Float[Array, "..."], g: Float[Array, "..."]) -> Float[Array, "..."]:
        larger, log_kept = envelope(self.measure)
        log_theta = larger.log_theta(g)
        kept = log_kept(log_theta)
        there = jnp.where(jnp.log(v) <= kept, log_theta, -jnp.inf)
        return jnp.where(jnp.isnan(kept), kept, there)

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        return self._uniform(key, shape)

    def logpdf_v(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.where((v > 0) & (v <= 1), 0.0, -jnp.inf)

    def lift(
        self, key: Any, log_theta: Float[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        larger, log_kept = envelope(self.measure)
        v = self._uniform(key, log_theta.shape) * jnp.exp(log_kept(log_theta))
        return v, larger.place(log_theta)


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
