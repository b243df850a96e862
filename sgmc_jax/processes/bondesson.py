"""Bondesson's representation, and one like it for beta processes of every concentration."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .laws import BetaOneLaw, BetaPrimeLaw, ExponentialLaw, LawByInversion
from .measures import BetaPrimeProcess, BetaProcess, GammaProcess, RateMeasure, check_measure
from .representation import MeasureSeries, at_least_one, not_too_heavy


class Bondesson(MeasureSeries):
    """theta_k = V_k exp(-g_k / (a c)); see `bondesson`."""

    @property
    def every_concentration(self) -> bool:
        return not isinstance(self.measure, BetaProcess)

    @property
    def law(self) -> LawByInversion:
        """G, with P(V > v) = v nu(v) / (a c)."""
        c = self.measure.concentration
        if isinstance(self.measure, BetaProcess):
            return BetaOneLaw(c - 1)
        return ExponentialLaw(c) if isinstance(self.measure, GammaProcess) else BetaPrimeLaw(c)

    def log_tau(self, v: Float[Array, "..."], g: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.log(v) - g / self.measure.small

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        return self.law.sample(key, shape)

    def logpdf_v(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return self.law.logpdf(v)

    def lift(
        self, key: Any, log_theta: Float[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """V from G above theta, and g = c log(V / theta)."""
        log_v = self.law.log_above(self._uniform(key, log_theta.shape), log_theta)
        return jnp.exp(log_v), self.measure.small * (log_v - log_theta)


def bondesson(measure: RateMeasure) -> Bondesson:
    """Bondesson's representation, theta_k = V_k exp(-g_k / (a c)), P(V > v) = v nu(v) / (a c).

        beta process         V ~ Beta(1, c - 1), c >= 1; V = 1 at c = 1
        gamma process        V ~ Exponential(c)
        beta prime process   V = B / (1 - B), B ~ Beta(1, c)

    It exists where theta nu(theta) decreases from a finite limit a c.

    Args:
        measure: a `BetaProcess` with a concentration of at least 1, a `GammaProcess` or a
            `BetaPrimeProcess`, whose concentration is at least .2 in single precision, in which
            its V would be infinite.

    Raises:
        TypeError, ValueError: if the measure has no such representation.

    Example:
        >>> from sgmc_jax.processes import GammaProcess, bondesson
        >>> float(bondesson(GammaProcess(2.0, 0.5)).tau(3.0, 0.0))
        3.0

    Reference:
        Bondesson (1982), On simulation from infinitely divisible distributions.
    """
    check_measure("bondesson", measure, BetaProcess, GammaProcess, BetaPrimeProcess)
    if isinstance(measure, BetaProcess):
        at_least_one(measure, "bondesson", "delayed_bondesson or inverse_levy")
    if isinstance(measure, BetaPrimeProcess):
        not_too_heavy(measure, "bondesson")
    return Bondesson(measure)


class DelayedBondesson(Bondesson):
    """See `delayed_bondesson`."""

    @property
    def every_concentration(self) -> bool:
        return True

    @property
    def law(self) -> LawByInversion:
        return BetaOneLaw(self.measure.concentration)

    def log_tau(self, v: Float[Array, "..."], g: Float[Array, "..."]) -> Float[Array, "..."]:
        return super().log_tau(v, jnp.maximum(g - self.measure.mass, 0))

    def lift(
        self, key: Any, log_theta: Float[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """With probability theta of the first kind: V = theta, and g uniform on (0, a)."""
        first_key, later_key = jax.random.split(key)
        u, early = self._uniform(first_key, (*log_theta.shape, 2)).T
        first = early < jnp.exp(log_theta)
        v, more = super().lift(later_key, log_theta)
        g = jnp.where(first, u, 1.0) * self.measure.mass + jnp.where(first, 0.0, more)
        return jnp.where(first, jnp.exp(log_theta), v), g


def delayed_bondesson(measure: RateMeasure) -> DelayedBondesson:
    """A representation of the beta process for every concentration, with V ~ Beta(1, c).

        theta_k = V_k exp(-max(g_k - a, 0) / (a c))

    theta^-1 (1 - theta)^(c-1) = (1 - theta)^(c-1) + theta^-1 (1 - theta)^c: of the first kind there
    are a Poisson number of weights, of mean a, the first terms of the series; the second is a beta
    process of concentration c + 1, for which Bondesson's representation holds.

    Args:
        measure: a `BetaProcess`.

    Raises:
        TypeError: if `measure` is no `BetaProcess`.

    Example:
        >>> from sgmc_jax.processes import BetaProcess, delayed_bondesson
        >>> float(delayed_bondesson(BetaProcess(2.0, 0.5)).tau(0.75, 1.0))
        0.75

    Reference:
        Bondesson (1982), On simulation from infinitely divisible distributions, for the second
        part; the split is ours.
    """
    check_measure("delayed_bondesson", measure, BetaProcess)
    return DelayedBondesson(measure)
