"""How the atoms of a slice sampler come by their weights, and by their places in a series."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..families import FeatureRows
from ..processes import CountLikelihood, FeatureProcess, MeasureSeries, Representation
from ..random.slots import slot_normal, slot_uniform

_MOVES = 4  # Metropolis steps a sweep, where weights cannot be drawn
_SPREAD = (0.03, 3.0)  # the scales of these steps in log g, from fine to coarse


class Weighed(NamedTuple):
    """Atoms by their weights, as `log_step` wants them, and where they are in the series.

    `v` and `place` are V and g; `known` is false for an index that has no atom.
    """

    log_weight: Float[Array, " K"]
    v: Float[Array, " K"]
    place: Float[Array, " K"]
    known: Bool[Array, " K"]


class Weights(eqx.Module):
    """What a slice sampler asks of its random measure and its counts."""

    @abstractmethod
    def start(self) -> dict[str, Array]:
        """The hyper-parameters that a chain begins with."""

    @property
    @abstractmethod
    def priors(self) -> dict[str, Any]:
        """The prior of each, or `None`."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The type of an entry."""

    @property
    @abstractmethod
    def entries(self) -> Any:
        """What has `lower` and `log_step`, to draw entries by."""

    def extra(self, key: Any, capacity: int) -> dict[str, PyTree]:
        """What the position has besides, a row for every slot."""
        return {}

    def statistics(self, rows: FeatureRows) -> PyTree:
        """Sums over rows besides the sums of the columns."""
        return None

    @abstractmethod
    def draw(
        self, key: Any, shared: dict[str, Any], counts: Int[Array, " K"], stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        """Hyper-parameters, and the atoms in use, given all entries; other rows mean nothing."""

    @abstractmethod
    def empty(self, key: Any, shared: dict[str, Any], number: int, num: Any) -> Weighed:
        """The first atoms of the series that no item has.

        They are a Poisson process as all atoms are, thinned by prod_n h(0 | theta): of the first
        `number` points of a unit rate those that stay are `known`.
        """


class ProcessWeights(Weights):
    """Weights of a process that knows their law given a column: drawn, not moved."""

    process: FeatureProcess
    series: MeasureSeries

    def start(self) -> dict[str, Array]:
        return self.process.start()

    @property
    def priors(self) -> dict[str, Any]:
        return self.process.priors

    @property
    def dtype(self) -> Any:
        return self.process.dtype

    @property
    def entries(self) -> Any:
        return self.process

    def draw(
        self, key: Any, shared: dict[str, Any], counts: Array, stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        hyper_key, weight_key, place_key = jax.random.split(key, 3)
        shared = self.process.redraw(hyper_key, shared, counts, num)
        log_weight = self.process.draw_weights(weight_key, shared, counts, num)
        series = self.series.of(self.process.measure(shared))
        v, place = series.lift(place_key, self.process.log_size(log_weight))
        return shared, Weighed(log_weight, v, place, counts > 0)

    def empty(self, key: Any, shared: dict[str, Any], number: int, num: Any) -> Weighed:
        series, process = self.series.of(self.process.measure(shared)), self.process
        v, place, log_theta, keep = _arrivals(key, series, number, shared["mass"].dtype)
        log_weight = process.log_weight(log_theta)
        known = keep <= jnp.exp(num * process.log_absent(log_weight))
        return Weighed(log_weight, v, place, known & (log_theta > -jnp.inf))


class SeriesWeights(Weights):
    """Weights of any series under any counts: moved by Metropolis, V and g being in the position.

    With empty atoms integrated out, atoms in use are independent, with density

        G(v) prod_n h(x_nk | tau(v, g))      on g > 0.

    Steps move log g by normals of several scales, and draw V from G; where a weight's law of (V, g)
    is known they are then drawn from it.
    """

    series: Representation
    counts: CountLikelihood

    def start(self) -> dict[str, Array]:
        return {}

    @property
    def priors(self) -> dict[str, Any]:
        return {}

    @property
    def dtype(self) -> Any:
        return self.counts.dtype

    @property
    def entries(self) -> Any:
        return self.counts

    def extra(self, key: Any, capacity: int) -> dict[str, PyTree]:
        v_key, place_key = jax.random.split(key)
        v = self.series.sample_v(v_key, (capacity,))
        return {"series": {"v": v, "g": slot_uniform(place_key, (capacity,), v.dtype)}}

    def statistics(self, rows: FeatureRows) -> PyTree:
        return self.counts.statistics(rows.features, rows.real)

    def draw(
        self, key: Any, shared: dict[str, Any], counts: Array, stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        move_key, lift_key = jax.random.split(key)
        used = counts > 0
        v, g = (jnp.where(used, shared["series"][name], 1.0) for name in ("v", "g"))
        at = lambda v, g: self.counts.log_column(stats, num, self.series.log_tau(v, g))

        def step(i: Array, loop: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            v, g, old = loop
            key = jax.random.fold_in(move_key, i)
            scale_key, normal_key, v_key, accept_key = jax.random.split(key, 4)
            low, high = map(jnp.log, _SPREAD)
            scale = jnp.exp(low + (high - low) * slot_uniform(scale_key, v.shape, v.dtype))
            proposal = g * jnp.exp(scale * slot_normal(normal_key, v.shape, v.dtype))
            u, w = slot_uniform(accept_key, (*v.shape, 2), v.dtype).T
            new = at(v, proposal)
            taken = jnp.log(u) < new - old + jnp.log(proposal / g)
            g, old = jnp.where(taken, proposal, g), jnp.where(taken, new, old)
            fresh = self.series.sample_v(v_key, v.shape)
            new = at(fresh, g)
            taken = jnp.log(w) < new - old
            return jnp.where(taken, fresh, v), g, jnp.where(taken, new, old)

        v, g, _ = jax.lax.fori_loop(0, _MOVES, step, (v, g, at(v, g)))
        log_theta = self.series.log_tau(v, g)
        if self.series.lifts:
            v, g = self.series.lift(lift_key, log_theta)
        return shared, Weighed(log_theta, v, g, used)

    def empty(self, key: Any, shared: dict[str, Any], number: int, num: Any) -> Weighed:
        dtype = shared["series"]["v"].dtype
        v, place, log_theta, keep = _arrivals(key, self.series, number, dtype)
        known = keep <= jnp.exp(num * self.counts.log_absent(log_theta))
        return Weighed(log_theta, v, place, known & (log_theta > -jnp.inf))


def _arrivals(
    key: Any, series: Representation, number: int, dtype: Any
) -> tuple[Array, Array, Array, Array]:
    """V, g and log theta of the first points of a series, and a uniform for each."""
    place_key, v_key, keep_key = jax.random.split(key, 3)
    place = jnp.cumsum(-jnp.log(slot_uniform(place_key, (number,), dtype)))
    v = series.sample_v(v_key, (number,)).astype(dtype)
    return v, place, series.log_tau(v, place), slot_uniform(keep_key, (number,), dtype)
