"""The protocols of random processes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PyTree

Hyper = dict[str, Array]


class Process(eqx.Module):
    """A prior over discrete random measures, as far as every sampler knows it.

    Its hyper-parameters are a dictionary that travels in the position, so that those with a prior
    may be drawn.
    """

    @abstractmethod
    def start(self) -> Hyper:
        """The hyper-parameters that a chain begins with."""

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of each hyper-parameter, or `None` where it is fixed."""
        return dict.fromkeys(self.start())


class Series(Process):
    """A random probability measure as a series of atoms, in an order that is its own.

        sum_j w_j delta(theta_j),   theta_j iid,   w_1, w_2, ... from the first terms on

    A `slice_mixture` asks for nothing else: it needs as many terms as are longer than its shortest
    slice. Sticks are one such series (`PitmanYor`); a series may be finite, log w_j = -inf from
    some term on. The first terms are a pytree of arrays with K rows.
    """

    @abstractmethod
    def draw_series(self, key: Any, hyper: Hyper, counts: Int[Array, " K"]) -> PyTree:
        """The first K terms given the items that each has; the prior, where none has any."""

    @abstractmethod
    def log_weights(self, series: PyTree) -> tuple[Float[Array, " K"], Float[Array, ""]]:
        """log w_1, ..., log w_K, and the log of what all later terms weigh."""

    @abstractmethod
    def draw_order(self, key: Any, hyper: Hyper, counts: Int[Array, " K"]) -> Int[Array, " K"]:
        """The slots in the order of their terms, drawn given the sizes of the clusters.

        A cluster is in the slot that its items' labels name, and in some term of the series: which,
        is to be drawn where something else has moved the labels. The lowest free slot has the first
        of the terms without items.
        """

    def redraw_from_series(
        self, key: Any, hyper: Hyper, series: PyTree, used: Bool[Array, " K"]
    ) -> Hyper:
        """Hyper-parameters given the terms in use; the others are drawn after them."""
        return hyper
