"""Weights of the atoms of any series under any counts, which Metropolis steps move."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..families import FeatureRows
from ..processes import BetaBernoulli, FeatureProcess, GammaPoisson, MeasureSeries, Representation
from ..processes.gamma_prior import at_least_tiny, gamma_prior
from ..random import gamma
from ..random.accept import passes
from ..random.slots import slot_normal, slot_uniform
from ._columns import Ordered, Weighed
from ._weights import Weights, arrivals, points_for

MOVES = 4  # Metropolis steps a sweep, where weights cannot be drawn
_NEAR_ONE = 16.0  # log odds of weights that float32 rounds to 1, or to few digits of 1 - theta
_SPREAD = (0.03, 3.0)  # the scales of these steps in log g, from fine to coarse


def scale_of_move(uniforms: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """Scales of random walks in a logarithm, all orders of size alike."""
    low, high = map(jnp.log, _SPREAD)
    return jnp.exp(low + (high - low) * uniforms)


class SeriesWeights(Weights):
    """Weights of any series under any counts: moved by Metropolis, and kept in the position.

    With empty atoms integrated out, atoms in use are independent, with density

        G(v) prod_n h(x_nk | tau(v, g))      on g > 0,

    and their weights with nu(theta) prod_n h(x_nk | theta). Of a series of a measure, steps move
    log theta; of one's own they move log g, and draw V from G. Where a weight's law of (V, g) is
    known they are then drawn from it. Scales of moves are of several orders. The position has V, g
    and log theta, for a g that has underflowed tells nothing of its weight.

    The mass a of a series that has one is in the position too. tau knows g by u = g / a alone, and
    in V and u this density has a factor a for each of the K atoms in use, and e^(-a E) for the
    empty ones, E = `exposure` of a mass of 1. So with a Gamma(s, r) prior

        a | V, u, X ~ Gamma(s + K, r + E),

    with the weights kept, and every g as large again as a.
    """

    moved: ClassVar[bool] = True

    series: Representation
    counts: Any  # a CountLikelihood, or something that knows `log_column` and `log_absent` alone
    mass_prior: Any = eqx.field(converter=gamma_prior("mass_prior"), default=None)

    def __check_init__(self):
        if self.mass_prior is not None and self.series.mass is None:
            raise TypeError(
                "mass_prior needs a representation of a measure, such as bondesson(measure), or "
                f"one with an exposure, got {type(self.series).__name__}, whose mass is not known"
            )

    def start(self) -> dict[str, Float[Array, ""]]:
        return {} if self.series.mass is None else {"mass": self.series.mass}

    @property
    def priors(self) -> dict[str, Any]:
        return dict.fromkeys(self.start(), self.mass_prior)

    def at(self, shared: dict[str, Any]) -> Representation:
        """The series, of the mass that a position has."""
        if self.series.mass is None or "mass" not in shared:
            return self.series
        return self.series.of_mass(shared["mass"])

    @property
    def entries(self) -> Any:
        return self.counts

    @property
    def collapsed(self) -> FeatureProcess | None:
        # of another law, which a chain forgets with its start
        if self.largest == 1:
            return BetaBernoulli(1.0)
        return GammaPoisson(1.0) if np.isinf(self.largest) else None

    def extra(self, key: Any, given: dict[str, Any], capacity: int) -> dict[str, PyTree]:
        """The first atoms of a series: a point without one, given to a column, has no density."""
        v, place, log_theta, _ = arrivals(key, self.at(given), points_for(capacity))
        some = log_theta > -jnp.inf
        first = jnp.argsort(~some, stable=True)[:capacity]
        first = jnp.where(jnp.arange(capacity) < jnp.sum(some), first, first[0])
        series = {"v": v[first], "g": place[first], "log_theta": log_theta[first]}
        own = dict(given.get("series", {}))
        if own and "log_theta" not in own:
            own["log_theta"] = self.at(given).log_tau(own["v"], own["g"])
        for name, rows in own.items():
            series[name] = jnp.concatenate([rows, series[name][len(rows) :]])
        return {"series": series}

    def kept(self, atoms: Ordered) -> dict[str, PyTree]:
        # numbers of slots without an atom mean nothing, and no V is infinite
        finite = lambda x, other: jnp.where(jnp.isfinite(x), x, other)
        v = jnp.minimum(atoms.v, jnp.finfo(atoms.v.dtype).max)
        log_theta = finite(atoms.log_weight, -1.0)
        return {"series": {"v": v, "g": finite(atoms.place, 1.0), "log_theta": log_theta}}

    def retargeted(self, shared: dict[str, Any]) -> dict[str, Any]:
        """V and g stay as the measure changes, and weights follow them, if they can tell."""
        v, g, log_theta = (shared["series"][name] for name in ("v", "g", "log_theta"))
        number = jnp.finfo(g.dtype)
        tell = (g > number.tiny) & (v < number.max)
        log_theta = jnp.where(tell, self.at(shared).log_tau(v, g), log_theta)
        return shared | {"series": shared["series"] | {"log_theta": log_theta}}

    def statistics(self, rows: FeatureRows) -> PyTree:
        return self.counts.statistics(rows.features, rows.real)

    def draw(
        self, key: Any, shared: dict[str, Any], counts: Int[Array, " K"], stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        mass_key, move_key, lift_key = jax.random.split(key, 3)
        used = counts > 0
        # any point will do for a free slot, whose moves mean nothing
        v, g = (jnp.where(used, shared["series"][name], 1.0) for name in ("v", "g"))
        # before the moves, which are at the new mass; no empty atom is known yet. Of a measure's
        # series it keeps every log theta, and g, which goes with the mass, is drawn anew below
        shared, g = self._redraw_mass(mass_key, shared, g, jnp.sum(used), num)
        series, log_theta = self.at(shared), jnp.where(used, shared["series"]["log_theta"], -1.0)
        if isinstance(series, MeasureSeries):
            log_theta = self._moved_weights(move_key, series, stats, num, log_theta)
        else:
            v, g = self._moved_points(move_key, series, stats, num, v, g)
            log_theta = series.log_tau(v, g)
        if series.lifts:
            # a Gibbs step on the points (V, g) of one weight: entries know the weight alone
            some = log_theta > -jnp.inf
            lifted = series.lift(lift_key, jnp.where(some, log_theta, -1.0))
            v, g = (jnp.where(some, new, old) for new, old in zip(lifted, (v, g)))
        return shared, Weighed(log_theta, v, g, used)

    def _moved_weights(
        self,
        move_key: Any,
        series: MeasureSeries,
        stats: PyTree,
        num: Any,
        log_theta: Float[Array, " K"],
    ) -> Float[Array, " K"]:
        """Walks of log theta, or of its log odds s where weights are below 1, of the density
        nu(s) prod_n h(x_nk | theta): places in the series are integrated out."""
        measure, (move_key, near_key) = series.measure, jax.random.split(move_key)
        at = lambda s: (
            measure.log_density(s) + self.counts.log_column(stats, num, measure.log_weight(s))
        )

        def step(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
            s, old = loop
            scale_key, normal_key, accept_key = jax.random.split(jax.random.fold_in(move_key, i), 3)
            scale = scale_of_move(slot_uniform(scale_key, s.shape, s.dtype))
            proposal = s + scale * slot_normal(normal_key, s.shape, s.dtype)
            new = at(proposal)
            taken = passes(slot_uniform(accept_key, s.shape, s.dtype), new - old)
            return jnp.where(taken, proposal, s), jnp.where(taken, new, old)

        largest = measure.log_weight(jnp.asarray(_NEAR_ONE)) if measure.bounded else jnp.inf
        # a point without a weight, of a free slot, means nothing
        there = jnp.isfinite(log_theta)
        s = measure.coordinate(jnp.where(there, jnp.minimum(log_theta, largest), -1.0))
        if measure.bounded:
            # 1 - theta may have no digits: from there on the density is e^(-falls s), drawn anew
            falls = at(jnp.full_like(s, _NEAR_ONE + 10)) - at(jnp.full_like(s, _NEAR_ONE + 11))
            beyond = -jnp.log(slot_uniform(near_key, s.shape, s.dtype)) / falls
            s = jnp.where(there & (log_theta >= largest), _NEAR_ONE + beyond, s)
        start = s, jnp.where(there, at(s), -jnp.inf)  # from which the first walk is taken
        s, last = jax.lax.fori_loop(0, MOVES, step, start)
        return jnp.where(last > -jnp.inf, measure.log_weight(s), log_theta)

    def _moved_points(
        self,
        move_key: Any,
        series: Representation,
        stats: PyTree,
        num: Any,
        v: Float[Array, " K"],
        g: Float[Array, " K"],
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Walks of log g, and V drawn from G, each accepted or not."""
        at = lambda v, g: self.counts.log_column(stats, num, series.log_tau(v, g))

        def step(i: Array, loop: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            v, g, old = loop
            key = jax.random.fold_in(move_key, i)
            scale_key, normal_key, v_key, accept_key = jax.random.split(key, 4)
            scale = scale_of_move(slot_uniform(scale_key, v.shape, v.dtype))
            proposal = g * jnp.exp(scale * slot_normal(normal_key, v.shape, v.dtype))
            # tests of both moves, by slot: atoms in use are independent
            u, w = slot_uniform(accept_key, (*v.shape, 2), v.dtype).T
            new = at(v, proposal)
            taken = passes(u, new - old + jnp.log(proposal / g))  # a walk in log g: its Jacobian
            g, old = jnp.where(taken, proposal, g), jnp.where(taken, new, old)
            fresh = series.sample_v(v_key, v.shape)
            new = at(fresh, g)
            taken = passes(w, new - old)  # G is proposal and prior
            return jnp.where(taken, fresh, v), g, jnp.where(taken, new, old)

        v, g, _ = jax.lax.fori_loop(0, MOVES, step, (v, g, at(v, g)))
        return v, g

    def _redraw_mass(
        self,
        key: Any,
        shared: dict[str, Any],
        g: Float[Array, " K"],
        number: Int[Array, ""],
        num: Any,
    ) -> tuple[dict[str, Any], Float[Array, " K"]]:
        """The mass given the number of atoms in use, and all g / mass."""
        if self.mass_prior is None:
            return shared, g
        (shape, rate), old = self.mass_prior, shared["mass"]
        each = self.series.exposure(self.counts, num)
        mass = at_least_tiny(gamma(key, shape + number) / (rate + each), old.dtype)
        # tau is of g / a: weights stay as they are, and so does the law of the entries
        return shared | {"mass": mass}, g * (mass / old)

    def empty(self, key: Any, shared: dict[str, Any], number: int, num: Any) -> Weighed:
        v, place, log_theta, keep = arrivals(key, self.at(shared), number)
        # log h(0 | 0) = 0: an index without an atom is never thinned out
        known, some = keep <= jnp.exp(num * self.counts.log_absent(log_theta)), log_theta > -jnp.inf
        return Weighed(log_theta, v, place, known & some, ~some if self.series.may_end else None)
