"""Estimates summed over the shards of the data."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import PyTree

from .. import _checks
from .._estimators import BatchEstimator, Estimate
from .._types import Data, Key, Position, as_keys
from ..collective import Collective, PerShard, holds_collective
from .wrapper import Wrapper


class AllReduce(Wrapper, BatchEstimator):
    """The sum over all shards of the inner estimator's item sum, plus the prior counted once.

    Every shard draws its own batch, weighted by its own number of items, so that the sum over
    shards is unbiased for the sum over all data; a shard may be empty. On one device it is the
    inner estimator. The gradients are summed, never differentiated through the sum.

    Args:
        inner: the estimator of one shard, e.g. `Minibatch(model, Uniform(100))`. Put variance
            reduction outside: `ControlVariate(AllReduce(...), centre)`.
        comm: set by the engine; give one only inside a `shard_map` of your own.

    Raises:
        TypeError: if the estimator is no `BatchEstimator`, such as `SVRG`.
        ValueError: if it has an anchor of all items, or sums over shards itself.

    Example: two shards of a sum, each of which has all of it.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import AllReduce, Collective, Full, Minibatch, Summand
        >>> inner = Minibatch(Summand(0.0, lambda x, y: y), Full())
        >>> grad = AllReduce(inner, Collective("shards", 2))
        >>> total = lambda shard: grad.full(jnp.zeros(()), shard).value
        >>> jax.vmap(total, axis_name="shards")(jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [10.0, 10.0]

    Reference:
        Ahn, Shahbaba and Welling (2014), Distributed stochastic gradient MCMC, whose workers have
        chains of their own on their own data, and change places; here every step has the gradient
        of all shards.
    """

    inner: BatchEstimator
    comm: Collective = eqx.field(
        converter=_checks.of_kind("comm", Collective), default=Collective()
    )

    def __check_init__(self):
        _checks.batch_estimator("inner", self.inner, "AllReduce")
        if self.inner.anchored:
            raise ValueError(
                "inner must have no anchor, a sum over all items, of which a shard has some: put "
                "it outside, ControlVariate(AllReduce(...), centre, anchor)"
            )
        if holds_collective(self.inner):
            raise ValueError(
                "inner must not sum over shards itself, or items would count once for each shard: "
                "let one AllReduce be enough"
            )

    @property
    def measures_noise(self) -> bool:
        return self.inner.measures_noise

    def init(self, key: Key, position: Position, data: Data) -> PerShard:
        return PerShard(self.inner.init(self._local(key), position, data))

    def refresh(self, key: Key, estate: PerShard, position: Position, data: Data) -> PerShard:
        return PerShard(self.inner.refresh(self._local(key), estate.value, position, data))

    def retarget(self, key: Key, estate: PerShard, position: Position, data: Data) -> PerShard:
        return PerShard(self.inner.retarget(self._local(key), estate.value, position, data))

    def draw(self, key: Key, estate: PerShard, data: Data) -> tuple[Any, PerShard]:
        batch, inner = self.inner.draw(self._local(key), estate.value, data)
        return batch, PerShard(inner)

    def items(self, batch: Any, position: Position) -> Estimate:
        return self.comm.psum(self.inner.items(batch, position))

    def difference(self, batch: Any, position: Position, centre: Position) -> Estimate:
        return self.comm.psum(self.inner.difference(batch, position, centre))

    def finish(self, estimate: Estimate, position: Position) -> Estimate:
        return self.inner.finish(estimate, position)

    def per_item(self, batch: Any, position: Position) -> PyTree:
        return self.inner.per_item(batch, position)

    def covariance(self, batch: Any, terms: PyTree, full: bool = False) -> PyTree:
        if self.inner.streams:  # one batch, of which a shard may have a single item
            batch, terms = self.comm.concatenate((batch, terms))
            return self.inner.covariance(batch, terms, full)
        return self.comm.psum(self.inner.covariance(batch, terms, full))

    def full(self, position: Position, data: Data) -> Estimate:
        return self.comm.psum(self.inner.full(position, data))

    def _local(self, key: Key) -> Key:
        keys = as_keys(key)
        return keys._replace(batch=self.comm.local_key(keys.batch))
