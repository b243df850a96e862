"""Control variates around a fixed point."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from .. import _checks
from .._types import BatchEstimator, Data, Estimate, Key, Position, as_keys


class AnchoredState(NamedTuple):
    """The inner estimator's state and the exact item sum at the centre."""

    inner: PyTree
    full: Estimate


class AnchoredBatch(NamedTuple):
    """The inner estimator's batch, with the centre and the exact item sum there."""

    inner: Any
    centre: Position
    full: Estimate


def refuse_streams(name: str, estimator: Any) -> None:
    """Raise unless there are batches, and a full pass to anchor on."""
    _checks.batch_estimator("inner", estimator, name)
    if estimator.streams:
        raise TypeError(f"{name} needs all of the data, but its batcher is Given")


class ControlVariate(BatchEstimator):
    """The estimate of the difference to a fixed centre, plus the exact sum there.

    `value = prior(x) + full(c) + sum_{i in S} weight_i (term_i(x) - term_i(c))`: its covariance is
    O(N^2 |x - c|^2 / n), small near the mode. The sum at the centre is computed once, by `init`;
    the centre need not be an exact mode.

    Args:
        inner: the estimator whose noise is to be reduced, e.g. `Minibatch(model, Uniform(100))`.
        centre: a position near the mode; see `find_mode`.

    Raises:
        TypeError: if the data is streamed (`Given`), or the estimator is no `BatchEstimator`.

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC,
        equation 8. The prior is exact here and takes no part in the difference.
    """

    inner: BatchEstimator
    centre: Position = eqx.field(converter=_checks.real_tree("centre"))

    def __check_init__(self):
        refuse_streams("ControlVariate", self.inner)

    def init(self, key: Key, position: Position, data: Data) -> AnchoredState:
        return AnchoredState(
            self.inner.init(key, position, data), self.inner.full(self.centre, data)
        )

    def refresh(
        self, key: Key, estate: AnchoredState, position: Position, data: Data
    ) -> AnchoredState:
        return estate._replace(inner=self.inner.refresh(key, estate.inner, position, data))

    def retarget(
        self, key: Key, estate: AnchoredState, position: Position, data: Data
    ) -> AnchoredState:
        inner = self.inner.retarget(key, estate.inner, position, data)
        return AnchoredState(inner, self.inner.full(self.centre, data))

    def draw(self, key: Key, estate: AnchoredState, data: Data) -> tuple[Any, AnchoredState]:
        batch, inner = self.inner.draw(as_keys(key), estate.inner, data)
        return AnchoredBatch(batch, self.centre, estate.full), estate._replace(inner=inner)

    def prior(self, position: Position) -> Estimate:
        return self.inner.prior(position)

    def items(self, batch: AnchoredBatch, position: Position) -> Estimate:
        gap = self.inner.difference(batch.inner, position, batch.centre)
        return optax.tree.add(gap, batch.full)

    def difference(self, batch: AnchoredBatch, position: Position, centre: Position) -> Estimate:
        return self.inner.difference(batch.inner, position, centre)

    def per_item(self, batch: AnchoredBatch, position: Position) -> PyTree:
        here = self.inner.per_item(batch.inner, position)
        there = self.inner.per_item(batch.inner, batch.centre)
        return optax.tree.sub(here, there)

    @property
    def measures_noise(self) -> bool:
        return self.inner.measures_noise

    def covariance(self, batch: AnchoredBatch, terms: PyTree, full: bool = False) -> PyTree:
        return self.inner.covariance(batch.inner, terms, full)

    def full(self, position: Position, data: Data) -> Estimate:
        return self.inner.full(position, data)

    def check(self, position: Position, data: Data) -> None:
        if jax.tree.structure(self.centre) != jax.tree.structure(position):
            raise ValueError("centre must have the structure of the position")
        got, wanted = jax.tree.map(jnp.shape, (self.centre, position))
        if got != wanted:
            raise ValueError(f"centre must have the shape of the position, {wanted}, got {got}")
        self.inner.check(position, data)
