"""Control variates around a fixed point."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._types import Data, Estimate, Estimator, Key, Position, as_keys
from ..batching import Given


class AnchoredState(NamedTuple):
    """The inner estimator's state and the exact item sum at the centre."""

    inner: PyTree
    full: Estimate


class AnchoredBatch(NamedTuple):
    """The inner estimator's batch, with the centre and the exact item sum there."""

    inner: Any
    centre: Position
    full: Estimate


def anchored(inner: Estimator, batch: AnchoredBatch, position: Position) -> Estimate:
    """`inner(x) - inner(centre) + full(centre)`, both points on one batch under one `vmap`."""
    points = jax.tree.map(lambda x, c: jnp.stack([x, c.astype(x.dtype)]), position, batch.centre)
    both = jax.vmap(lambda point: inner.items(batch.inner, point))(points)
    return jax.tree.map(lambda both, full: both[0] - both[1] + full, both, batch.full)


def refuse_given(name: str, estimator: Estimator) -> None:
    """Raise if the data is streamed: there is no full pass to anchor on."""
    inner = estimator
    while not hasattr(inner, "batcher") and hasattr(inner, "inner"):
        inner = inner.inner
    if isinstance(getattr(inner, "batcher", None), Given):
        raise TypeError(f"{name} needs all of the data, but its batcher is Given")


class ControlVariate(Estimator):
    """The estimate of the difference to a fixed centre, plus the exact sum there.

    `value = prior(x) + full(c) + sum_{i in S} weight_i (term_i(x) - term_i(c))`: its covariance is
    O(N^2 |x - c|^2 / n), small near the mode. The sum at the centre is computed once, by `init`;
    the centre need not be an exact mode.

    Args:
        inner: the estimator whose noise is to be reduced, e.g. `Minibatch(model, Uniform(100))`.
        centre: a position near the mode; see `find_mode`.

    Raises:
        TypeError: if the data is streamed (`Given`).

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC,
        equation 8. The prior is exact here and takes no part in the difference.
    """

    inner: Estimator
    centre: Position

    def __check_init__(self):
        refuse_given("ControlVariate", self.inner)

    def init(self, key: Key, position: Position, data: Data) -> AnchoredState:
        return AnchoredState(
            self.inner.init(key, position, data), self.inner.full(self.centre, data)
        )

    def draw(self, key: Key, estate: AnchoredState, data: Data) -> tuple[Any, AnchoredState]:
        batch, inner = self.inner.draw(as_keys(key), estate.inner, data)
        return AnchoredBatch(batch, self.centre, estate.full), estate._replace(inner=inner)

    def prior(self, position: Position) -> Estimate:
        return self.inner.prior(position)

    def items(self, batch: AnchoredBatch, position: Position) -> Estimate:
        return anchored(self.inner, batch, position)

    def per_item(self, batch: AnchoredBatch, position: Position) -> PyTree:
        return per_item_difference(self.inner, batch, position)

    def full(self, position: Position, data: Data) -> Estimate:
        return self.inner.full(position, data)

    def check(self, position: Position, data: Data) -> None:
        if jax.tree.structure(self.centre) != jax.tree.structure(position):
            raise ValueError("centre must have the structure of the position")
        self.inner.check(position, data)


def per_item_difference(inner: Estimator, batch: AnchoredBatch, position: Position) -> PyTree:
    """The batch's terms at the position minus those at the centre."""
    here, there = inner.per_item(batch.inner, position), inner.per_item(batch.inner, batch.centre)
    return jax.tree.map(jnp.subtract, here, there)
