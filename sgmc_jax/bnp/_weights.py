"""How the atoms of a slice sampler come by their weights, and by their places in a series."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .. import _checks
from ..families import FeatureRows
from ..processes import FeatureProcess, MeasureSeries, RateMeasure, Representation
from ..random.slots import slot_uniform
from ._columns import Ordered, Weighed, in_order


class Weights(eqx.Module):
    """What a slice sampler asks of its random measure and its counts.

    Attributes:
        moved: whether weights in use go on from where they are, and so are part of the chain.
    """

    moved: ClassVar[bool] = False

    @abstractmethod
    def start(self) -> dict[str, Float[Array, ""]]:
        """The hyper-parameters that a chain begins with."""

    @property
    @abstractmethod
    def priors(self) -> dict[str, Any]:
        """The prior of each, or `None`."""

    @property
    def collapsed(self) -> FeatureProcess | None:
        """A process of such entries that knows its weights' law given these: chains of it find
        features to begin with."""
        return None

    @property
    def dtype(self) -> Any:
        """The type of an entry."""
        return self.entries.dtype

    @property
    @abstractmethod
    def entries(self) -> Any:
        """What has `lower` and `log_step`, to draw entries by."""

    @property
    def largest(self) -> float:
        """The largest entry, which may be infinite."""
        return self.entries.largest

    def extra(self, key: Any, given: dict[str, Any], capacity: int) -> dict[str, PyTree]:
        """What the position has besides, a row for every slot; the first as they are given."""
        return {}

    def kept(self, atoms: Ordered) -> dict[str, PyTree]:
        """The same after a step."""
        return {}

    def retargeted(self, shared: dict[str, Any]) -> dict[str, Any]:
        """A position whose hyper-parameters another has set."""
        return shared

    def statistics(self, rows: FeatureRows) -> PyTree:
        """Sums over rows besides the sums of the columns."""
        return None

    @abstractmethod
    def draw(
        self, key: Any, shared: dict[str, Any], counts: Int[Array, " K"], stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        """Hyper-parameters, and the atoms in use, given all entries; other rows mean nothing."""

    def arranged(self, key: Any, shared: dict[str, Any], used: Weighed, num: Any) -> Ordered:
        """The atoms in use and the empty ones, of enough points for all slots in most cases."""
        return in_order(used, self.empty(key, shared, points_for(used.place.shape[0]), num))

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

    @property
    def collapsed(self) -> FeatureProcess | None:
        return self.process

    def start(self) -> dict[str, Float[Array, ""]]:
        return self.process.start()

    @property
    def priors(self) -> dict[str, Any]:
        return self.process.priors

    @property
    def entries(self) -> Any:
        return self.process

    def draw(
        self, key: Any, shared: dict[str, Any], counts: Int[Array, " K"], stats: PyTree, num: Any
    ) -> tuple[dict[str, Any], Weighed]:
        hyper_key, weight_key, place_key = jax.random.split(key, 3)
        # each with what comes after it integrated out, places and empty atoms too
        shared = self.process.redraw(hyper_key, shared, counts, num)
        log_weight = self.process.draw_weights(weight_key, shared, counts, num)
        # places are drawn anew, of the new hyper-parameters: only weights are known of an atom
        series = self.series.of(self.process.measure(shared))
        v, place = series.lift(place_key, self.process.log_size(log_weight))
        return shared, Weighed(log_weight, v, place, counts > 0)

    def empty(self, key: Any, shared: dict[str, Any], number: int, num: Any) -> Weighed:
        series, process = self.series.of(self.process.measure(shared)), self.process
        v, place, log_theta, keep = arrivals(key, series, number)
        log_weight = process.log_weight(log_theta)
        # an atom is empty with the probability that n entries are 0
        known = keep <= jnp.exp(num * process.log_absent(log_weight))
        return Weighed(log_weight, v, place, known & (log_theta > -jnp.inf))


def points_for(capacity: int) -> int:
    """How many points of a series are drawn for `capacity` slots."""
    # thinning leaves fewer; if these are too few for a row's level, that is flagged
    return 4 * capacity + 32


def arrivals(
    key: Any, series: Representation, number: int
) -> tuple[Float[Array, " J"], Float[Array, " J"], Float[Array, " J"], Float[Array, " J"]]:
    """V, g and log theta of the first points of a series, and a uniform for each."""
    place_key, v_key, keep_key = jax.random.split(key, 3)
    v, place = series.points(place_key, v_key, number)
    return v, place, series.log_tau(v, place), slot_uniform(keep_key, (number,), v.dtype)


def series_of(measure: RateMeasure, given: Any) -> MeasureSeries:
    """The series of a measure that is meant by one, or by what makes one of a measure."""
    series = given if isinstance(given, MeasureSeries) or not callable(given) else given(measure)
    if not isinstance(series, MeasureSeries):
        raise TypeError(
            "representation must be a series of this library, such as bondesson, got "
            f"{type(series).__name__}: give others to slice_crm"
        )
    if type(series.measure) is not type(measure) or _differ(series.measure, measure):
        raise ValueError(
            f"representation must be of the measure of process, {measure}, got {series.measure}"
        )
    return series


def _differ(one: RateMeasure, other: RateMeasure) -> bool:
    pairs = [(x.mass, x.concentration) for x in (one, other)]
    concrete = all(_checks.is_concrete(number) for pair in pairs for number in pair)
    return concrete and not all(np.allclose(a, b) for a, b in zip(*pairs))
