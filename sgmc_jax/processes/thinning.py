"""The thinning representation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..random.slots import slot_uniform
from .laws import BetaLaw, BetaPrimeLaw, GammaLaw, Law
from .measures import (
    ALL_MEASURES,
    BetaPrimeProcess,
    BetaProcess,
    DiscountedMeasure,
    RateMeasure,
    StableBetaProcess,
    check_measure,
)
from .representation import MeasureSeries, not_too_heavy

_FAR = 60.0  # log y from where float32 runs short


class Thinning(MeasureSeries):
    """theta_k = V_k where (d nu / d G)(V_k) >= g_k."""

    @property
    def law(self) -> Law:
        """G: theta nu(theta), normalised, where that has a finite integral a."""
        measure, c, d = self.measure, self.measure.concentration, self.measure.discount
        if isinstance(measure, BetaProcess | StableBetaProcess):
            return BetaLaw(1 - d, c + d)
        return BetaPrimeLaw(c) if isinstance(measure, BetaPrimeProcess) else GammaLaw(1 - d, c)

    def _log_ratio(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """log of a / theta, times 1 + theta for the beta prime process."""
        more = isinstance(self.measure, BetaPrimeProcess)
        spread = jax.nn.softplus(log_theta) if more else 0.0
        return jnp.log(self.measure.mass) - log_theta + spread

    def log_tau(self, v: Float[Array, "..."], g: Float[Array, "..."]) -> Float[Array, "..."]:
        log_v = jnp.log(v)
        return jnp.where(self._log_ratio(log_v) >= jnp.log(g), log_v, -jnp.inf)

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        return self.law.sample(key, shape)

    def logpdf_v(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return self.law.logpdf(v)

    def points(
        self, place_key: Any, v_key: Any, number: int
    ) -> tuple[Float[Array, " J"], Float[Array, " J"]]:
        """V and g of the first points, of which few have no atom.

        An atom at g has V < x(g), where (d nu / d G)(x) = g: x = a / y, with y = g, or g - a for
        the beta prime process. Up to some y_0 all points come. After that only such with V < x,

            at the rate M x^(1-d) / (1 - d),   V = x U^(1 / (1-d)),

        that is, of density M v^-d, of which those stay that fall below the density of G.
        """
        early_key, late_key = jax.random.split(v_key)
        law, a, d = self.law, self.measure.mass, self.measure.discount
        powers = isinstance(self.measure, DiscountedMeasure)
        shift = a if isinstance(self.measure, BetaPrimeProcess) else 0.0
        least = 1.0 if self.measure.bounded else 0.0
        x0 = 0.5 / jnp.maximum(self.measure.concentration, least)  # most weights are below 1 / c
        log_share = lambda v: law.logpdf(v) + d * jnp.log(v)  # monotone
        log_most = jnp.maximum(log_share(jnp.finfo(a.dtype).tiny), log_share(x0))

        unit = jnp.cumsum(-jnp.log(slot_uniform(place_key, (number,), a.dtype)))
        y0, rate = a / x0, jnp.exp(log_most) * x0 ** (1 - d) / (1 - d)
        early = unit <= y0 + shift
        t = jnp.maximum(unit - y0 - shift, 0) / (rate * y0)  # the integral of (y / y0)^(d-1)
        log_y = jnp.log(y0) + (jnp.log1p(d * t) / d if powers else t)
        far = jnp.maximum(log_y - _FAR, 0)  # where only the order of places matters
        log_y = jnp.minimum(log_y, _FAR) + 20 * far / (far + 400)
        x = jnp.exp(jnp.log(a) - log_y)
        u, keep = self._uniform(late_key, (number, 2)).T
        late = x * u ** (1 / (1 - d))
        late = jnp.where(jnp.log(keep) <= log_share(late) - log_most, late, 2 * x)
        v = jnp.where(early, law.sample(early_key, (number,)), late)
        return v, jnp.where(early, unit, jnp.exp(log_y) + shift)

    def lift(
        self, key: Any, log_theta: Float[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        u = self._uniform(key, log_theta.shape)
        return jnp.exp(log_theta), u * jnp.exp(self._log_ratio(log_theta))


def thinning(measure: RateMeasure) -> Thinning:
    """The thinning representation, theta_k = V_k 1{(d nu / d G)(V_k) >= g_k}.

        beta process               V ~ Beta(1, c)          a >= V g
        stable beta process        V ~ Beta(1 - d, c + d)  a >= V g
        gamma process              V ~ Gamma(1, c)         a >= V g
        generalized gamma process  V ~ Gamma(1 - d, c)     a >= V g
        beta prime process         V = B / (1 - B)         a (1 + V) >= V g,   B ~ Beta(1, c)

    Valid for every mass, concentration and discount, but for a beta prime process whose V would be
    infinite: its concentration is at least .2 in single precision. Nearly all terms have no
    atom, some a / theta down to a weight of theta; samplers draw those that have one (`points`).

    Args:
        measure: one of the five.

    Raises:
        TypeError, ValueError: if `measure` is none of them, or its V would be infinite.

    Example:
        >>> from sgmc_jax.processes import BetaProcess, thinning
        >>> [float(thinning(BetaProcess(1.0)).tau(0.5, g)) for g in (1.5, 2.5)]
        [0.5, 0.0]

    Reference:
        Rosinski (1990), On series representations of infinitely divisible random vectors.
    """
    check_measure("thinning", measure, *ALL_MEASURES)
    if isinstance(measure, BetaPrimeProcess):
        not_too_heavy(measure, "thinning")
    return Thinning(measure)
