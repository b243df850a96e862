"""Series representations of completely random measures: their atoms, one after the other.

With E_j ~ Exp(1), g_k = E_1 + ... + E_k and V_k ~ G, the weights theta_k = tau(V_k, g_k) are the
points of a Poisson process: of the rate measure that is the image of G(dv) dg under tau. Where tau
is zero an index has no atom.

Every point (V, g) goes with a weight, and given its weight it has a law, `lift`. So whoever knows
the weights of some atoms can draw their places in the series, exactly and all at once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _returned
from .._checks import certainly
from .._functions import as_function, as_optional
from ..random.slots import slot_uniform
from .exposure import exposure
from .measures import RateMeasure

_RARE = 17.0  # minus the logarithm of a chance that no run meets


class Representation(eqx.Module):
    """A series theta_k = tau(V_k, g_k) for the weights of a completely random measure.

    Three functions make one: `tau`, `sample_v` and `logpdf_v`; see `from_functions`. Where the
    expected number of atoms is known too (`exposure`), tau is of g / mass, which may be random.

    Example:
        >>> from sgmc_jax.processes import BetaProcess, thinning
        >>> series = thinning(BetaProcess(1.0))
        >>> isinstance(series, Representation), [float(series.tau(0.5, g)) for g in (1.5, 2.5)]
        (True, [0.5, 0.0])
    """

    lifts: ClassVar[bool] = False
    """Whether it can `lift`."""
    may_end: ClassVar[bool] = False
    """Whether atoms may come to an end, so that an index without one counts in their order too."""

    @abstractmethod
    def log_tau(self, v: Float[Array, "..."], g: Float[Array, "..."]) -> Float[Array, "..."]:
        """log tau(v, g); -inf where there is no atom."""

    @abstractmethod
    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Draws from G; draw i depends only on the key and the flat index i."""

    @abstractmethod
    def logpdf_v(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """The log density of G, or log mass where V is a constant."""

    @property
    def mass(self) -> Float[Array, ""] | None:
        """a, of which tau knows g / a alone; `None` where `exposure` is not known."""
        return None

    def of_mass(self, mass: Any) -> Representation:
        """The same series with another mass."""
        raise TypeError(f"{type(self).__name__} has no mass")

    def exposure(self, counts: Any, num_items: Any) -> Float[Array, ""]:
        """E = int (1 - h(0 | theta)^n) nu(d theta) at a mass of one."""
        raise TypeError(f"{type(self).__name__} does not know how many atoms items have")

    def tau(self, v: Any, g: Any) -> Float[Array, "..."]:
        """The weight of the atom at v and g."""
        return jnp.exp(self.log_tau(jnp.asarray(v, float), jnp.asarray(g, float)))

    def points(
        self, place_key: Any, v_key: Any, number: int
    ) -> tuple[Float[Array, " J"], Float[Array, " J"]]:
        """V and g of the first points of a unit rate; of those without an atom some may be missing.

        Point j depends on the keys and j, not on how many there are.
        """
        v = self.sample_v(v_key, (number,))
        return v, jnp.cumsum(-jnp.log(slot_uniform(place_key, (number,), v.dtype)))

    def lift(
        self, key: Any, log_theta: Float[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """(V, g) of atoms of these weights: their law under G(dv) dg given tau(V, g) = theta."""
        raise TypeError(f"{type(self).__name__} does not know (V, g) given a weight")

    @staticmethod
    def from_functions(
        tau: Callable,
        sample_v: Callable,
        logpdf_v: Callable,
        exposure: Callable | None = None,
    ) -> Representation:
        """A representation of your own.

        Args:
            tau: `(v, g) -> theta`, numbers; decreasing in g towards 0, and 0 for no atom, which may
                be so of all g from some number on: atoms of a measure may be finitely many.
            sample_v: `key -> v`, one draw from G.
            logpdf_v: `v -> number`, the log density of G, up to a constant.
            exposure: `num_items -> number`, the integral of 1 - h(0 | theta)^n by the measure that
                tau makes, h the likelihood of the counts that it is used with: how many atoms n
                items are expected to have. With it the series has a mass, 1 to begin with, which
                multiplies the measure and may have a prior.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> gamma_process = Representation.from_functions(
            ...     tau=lambda v, g: v * jnp.exp(-g / 2.0),
            ...     sample_v=lambda key: jax.random.exponential(key),
            ...     logpdf_v=lambda v: -v,
            ...     exposure=lambda n: 2.0 * jnp.log1p(n),  # of Poisson counts
            ... )
            >>> gamma_process.tau(1.0, 0.0).item(), gamma_process.mass.item()
            (1.0, 1.0)
        """
        return OwnSeries(
            tau=as_function(tau, "tau", ("v", "g")),
            sample_v=as_function(sample_v, "sample_v", ("key",)),
            logpdf_v=as_function(logpdf_v, "logpdf_v", ("v",)),
            exposure=as_optional(exposure, "exposure", ("num_items",)),
        )


class OwnSeries(Representation):
    """See `Representation.from_functions`."""

    may_end = True  # as tau does in floating numbers, where no later weight is above zero
    own_tau: Callable
    own_sample_v: Callable
    own_logpdf_v: Callable
    own_exposure: Callable | None
    own_mass: Float[Array, ""] | None

    def __init__(
        self, tau: Callable, sample_v: Callable, logpdf_v: Callable, exposure: Callable | None
    ):
        self.own_tau, self.own_sample_v, self.own_logpdf_v = tau, sample_v, logpdf_v
        self.own_exposure, self.own_mass = exposure, None if exposure is None else jnp.ones(())

    @property
    def mass(self) -> Float[Array, ""] | None:
        return self.own_mass

    def of_mass(self, mass: Any) -> Representation:
        if self.own_exposure is None:
            return super().of_mass(mass)
        return eqx.tree_at(lambda series: series.own_mass, self, mass)

    def exposure(self, counts: Any, num_items: Any) -> Float[Array, ""]:
        if self.own_exposure is None:
            return super().exposure(counts, num_items)
        return _returned.scalar("exposure", self.own_exposure(num_items))

    def log_tau(self, v: Float[Array, "..."], g: Float[Array, "..."]) -> Float[Array, "..."]:
        g = g if self.own_mass is None else g / self.own_mass
        one = lambda v, g: _returned.scalar("tau", self.own_tau(v, g))
        return jnp.log(jnp.vectorize(one)(v, g))

    def sample_v(self, key: Any, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        index = jnp.arange(jnp.zeros(shape, bool).size)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, index)
        one = lambda key: _returned.scalar("sample_v", self.own_sample_v(key))
        drawn = jax.vmap(one)(keys).reshape(shape)
        return drawn.astype(jnp.promote_types(drawn.dtype, jnp.float32))  # as places add up in it

    def logpdf_v(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.vectorize(lambda v: _returned.scalar("logpdf_v", self.own_logpdf_v(v)))(v)


class MeasureSeries(Representation):
    """A representation of a measure of this library, whose hyper-parameters may be exchanged.

    tau depends on g and the mass only by their ratio.

    Example:
        >>> from sgmc_jax.processes import BetaProcess, thinning
        >>> series = thinning(BetaProcess(1.0))
        >>> float(series.tau(0.5, 2.5)), float(series.of(BetaProcess(2.0)).tau(0.5, 2.5))
        (0.0, 0.5)
    """

    measure: RateMeasure

    lifts = True

    @property
    def every_concentration(self) -> bool:
        """Whether it exists whatever the concentration is."""
        return True

    @property
    def mass(self) -> Float[Array, ""]:
        return self.measure.mass

    def of_mass(self, mass: Any) -> MeasureSeries:
        return self.of(self.measure.of_mass(mass))

    def exposure(self, counts: Any, num_items: Any) -> Float[Array, ""]:
        return exposure(self.measure.of_mass(1.0), counts, num_items)

    def of(self, measure: RateMeasure) -> MeasureSeries:
        """The same representation of another measure of the same kind."""
        return type(self)(measure)

    def _uniform(self, key: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        return slot_uniform(key, shape, self.measure.mass.dtype)


def not_too_heavy(measure: RateMeasure, name: str) -> None:
    """Raise if so many V of a beta prime process are past the largest number, P(V > v) = v^-c."""
    number = jnp.finfo(measure.concentration.dtype)
    least = _RARE / math.log(float(number.max))
    if certainly(lambda c: c < least, measure.concentration):
        raise ValueError(
            f"{name} of a BetaPrimeProcess needs a concentration of at least {least:.2f} in "
            f"{number.dtype}, got {measure.concentration}: weights would be infinite; use "
            "inverse_levy"
        )


def at_least_one(measure: RateMeasure, name: str, instead: str, more: Any = 0.0) -> None:
    """Raise if the concentration, and what is added to it, are known to be below 1."""
    c = measure.concentration
    if certainly(lambda c, more: c + more < 1, c, more):
        parts = "concentration" if isinstance(more, float) else "concentration plus discount"
        kind = type(measure).__name__
        raise ValueError(
            f"{name} of a {kind} needs a {parts} of at least 1, got {c + more}: use {instead}"
        )
