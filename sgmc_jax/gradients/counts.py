"""Estimators of gamma shapes whose counts are latent allocations of the items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from .. import _checks, _returned, _tree
from .._estimators import BatchEstimator, Estimate
from .._types import Data, Key, Position
from ..batching import Batch, Batcher
from ..batching.uniform import require_batcher
from ..collective import as_shard
from .allocation import Allocation, as_allocation
from .kept import KeptLatents, KeptState
from .minibatch import OfLatents, drawn_with_latents


class AllocationBatch(NamedTuple):
    """A batch of items, the key of its allocations, and the counts at an anchor, if any."""

    batch: Batch
    key: Any
    anchor: PyTree = None


class Counts(OfLatents):
    """Shapes `alpha + sum_i z_i`, whose counts z_i are drawn by an allocation: the common part."""

    allocation: Allocation
    alpha: PyTree
    batcher: Batcher

    def __init__(self, allocate: Allocation | Callable, alpha: Any, batcher: Batcher):
        for leaf in jax.tree.leaves(alpha, is_leaf=lambda x: x is None):
            _checks.number("alpha", leaf)
            _checks.positive("alpha", leaf)
        require_batcher(batcher)
        self.allocation = as_allocation(allocate)
        self.alpha = jax.tree.map(_checks.real("alpha"), alpha)
        self.batcher = batcher

    def prior(self, position: Position) -> Estimate:
        alpha = _tree.filled(self.alpha, position)
        return Estimate(
            jax.tree.map(lambda a, x: jnp.broadcast_to(a, x.shape).astype(x.dtype), alpha, position)
        )

    def check(self, position: Position, data: Data) -> None:
        _checks.finite("data", data)
        self.batcher.check(data)
        try:
            jax.eval_shape(self.prior, position)
        except (TypeError, ValueError):
            raise ValueError(
                "alpha must be a number, or have the structure and shapes of the position, "
                f"{_returned.describe(position)}, got {_returned.describe(self.alpha)}"
            ) from None
        self.allocation.check(position, data)

    def _counts(
        self,
        position: Position,
        items: PyTree,
        allocations: PyTree,
        weight: Float[Array, " n"] | Bool[Array, " n"],
    ) -> PyTree:
        dtype = jnp.result_type(*jax.tree.leaves(position))
        whole = weight.dtype == jnp.bool_  # as which they may be counted, past 2^24 too
        weight = weight if whole else weight.astype(dtype)
        counts = self.allocation.counts(items, allocations, weight)
        _returned.like(self.allocation.name, counts, position, "the position")
        if any(jnp.result_type(leaf) == jnp.bool_ for leaf in jax.tree.leaves(counts)):
            raise TypeError(
                f"{self.allocation.name} must be numbers, got {_returned.describe(counts)}: where "
                "weights are truths, a product of truths with them is one"
            )
        return jax.tree.map(lambda x: x.astype(dtype), counts)


class MinibatchCounts(Counts, BatchEstimator):
    """Shapes from fresh allocations of a batch, `alpha + sum_{i in S} weight_i z_i`.

    z_i is drawn by `allocate` given the position. The variance is that of any minibatch; see
    `TableCounts`, which has none and is to be preferred where its table fits into memory.

    Args:
        allocate: `(key, position, item) -> counts`, a draw of what one item adds to the shapes; or
            an `Allocation`.
        alpha: the prior shapes, positive: a number, or a pytree like the position.
        batcher: which items a step sees.

    Raises:
        ValueError: if `alpha` is not positive.

    Example: a mixture with two known components and unknown weights.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Uniform, sample, scir
        >>> x = jnp.concatenate([jnp.full(30, -2.0), jnp.full(70, 2.0)])
        >>> def allocate(key, position, x):
        ...     k = jax.random.categorical(key, position - (x - jnp.array([-2.0, 2.0])) ** 2 / 2)
        ...     return jax.nn.one_hot(k, 2)
        >>> counts = MinibatchCounts(allocate, 1.0, Uniform(10))
        >>> run = sample(jax.random.key(0), scir(counts, 0.1), jnp.zeros(2), x, num_steps=20)
        >>> run.trace.shape
        (20, 2)

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the
        probability simplex, section 3.1.
    """

    def draw(self, key: Key, estate: PyTree, data: Data) -> tuple[AllocationBatch, PyTree]:
        batch, latent_key, estate = drawn_with_latents(self.batcher, key, estate, data)
        return AllocationBatch(batch, latent_key), estate

    def items(self, batch: AllocationBatch, position: Position) -> Estimate:
        items = batch.batch.items
        allocations = self.allocation.draw(batch.key, position, items, None)
        return Estimate(self._counts(position, items, allocations, batch.batch.weight))

    def difference(self, batch: AllocationBatch, position: Position, centre: Position) -> Estimate:
        here, there = self.items(batch, position), self.items(batch, centre)
        return optax.tree.sub(here, there)

    def per_item(self, batch: AllocationBatch, position: Position) -> PyTree:
        items = batch.batch.items
        allocations = self.allocation.draw(batch.key, position, items, None)

        def one(item: PyTree, allocation: PyTree) -> PyTree:
            item, allocation = jax.tree.map(lambda x: x[None], (item, allocation))
            return self._counts(position, item, allocation, jnp.ones(1))

        return jax.vmap(one)(items, allocations)

    def full(self, position: Position, data: Data) -> Estimate:
        raise TypeError("the counts of random allocations have no exact sum over the items")


class TableState(NamedTuple):
    """The table of the items' allocations with the batcher's state, the counts of all items, and
    what was rounded off them, which else one item in some tens of millions would be.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import TableCounts, Uniform
        >>> grad = TableCounts(lambda key, position, k: jax.nn.one_hot(k, 2), 1.0, Uniform(2))
        >>> state = grad.init(jax.random.key(0), jnp.zeros(2), jnp.array([0, 0, 1, 1, 1]))
        >>> state.counts.tolist()
        [2.0, 3.0]
    """

    kept: KeptState
    counts: PyTree
    rest: PyTree


class TableCounts(Counts):
    """Shapes from a table of all items' allocations, of which each step redraws a batch.

    `z_i ~ p(z_i | position)` for i in S, the others stay; the value is `alpha + sum_i z_i`: the
    shapes of an exact full conditional, whatever the batch. With `scir(..., scale="refresh")` the
    chain is a random-scan Gibbs sampler without bias; allocations mix at the rate n/N a step.

    Costs O(n) a step and O(N) memory for the table, which is drawn at the first position.

    Args:
        allocate: as for `MinibatchCounts`.
        alpha: as for `MinibatchCounts`.
        batcher: which items a step sees, each at most once.

    Raises:
        TypeError: if the data is streamed (`Given`) or a batch may hold an item twice; in `cycle`
            and `gibbs`, if the allocations have no exact draw given the position.

    Example: allocations that are known, of which no batch has noise.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import TableCounts, Uniform
        >>> known = lambda key, position, label: jax.nn.one_hot(label, 2)
        >>> counts = TableCounts(known, 1.0, Uniform(2))
        >>> labels, position = jnp.array([0, 0, 1, 1, 1]), jnp.zeros(2)
        >>> estate = counts.init(jax.random.key(0), position, labels)
        >>> counts.estimate(jax.random.key(1), estate, position, labels)[0].value.tolist()
        [3.0, 4.0]
    """

    def init(self, key: Key, position: Position, data: Data) -> TableState:
        return self._counted(self._kept.init(key, position, data), position, data)

    def refresh(self, key: Key, estate: TableState, position: Position, data: Data) -> TableState:
        kept = self._kept.refresh(key, estate.kept, position, data)
        return self._counted(kept, position, data)

    def _counted(self, kept: KeptState, position: Position, data: Data) -> TableState:
        shard = self.batcher.population(as_shard(data))
        counts = self._counts(position, shard.items, kept.table.value, shard.mask)
        return TableState(kept, counts, optax.tree.zeros_like(counts))

    def estimate(
        self, key: Key, estate: TableState, position: Position, data: Data
    ) -> tuple[Estimate, TableState]:
        (batch, old, new), kept = self._kept.redraw(key, estate.kept, position, data)

        def change(weight: Float[Array, " n"] | Bool[Array, " n"]) -> PyTree:
            counts = [self._counts(position, batch.items, z, weight) for z in (new, old)]
            return optax.tree.sub(*counts)

        own = change(batch.weight > 0)
        value = self._value(position, estate.counts, own, lambda: change(batch.weight))
        due = optax.tree.add(own, estate.rest)
        counts = optax.tree.add(estate.counts, due)
        rest = jax.tree.map(lambda due, new, old: due - (new - old), due, counts, estate.counts)
        return value, TableState(kept, counts, rest)

    def _value(
        self, position: Position, counts: PyTree, change: PyTree, weighted: Callable[[], PyTree]
    ) -> Estimate:
        """The estimate, given the counts before the batch and their change by it, and weighted."""
        prior = self.prior(position).value
        return Estimate(jax.tree.map(lambda a, n, d: a + n + d, prior, counts, change))

    def check(self, position: Position, data: Data) -> None:
        self._kept.check()
        super().check(position, data)

    @property
    def _kept(self) -> KeptLatents:
        return KeptLatents(self.allocation, self.batcher, type(self).__name__)


class SAGACounts(TableCounts):
    """Shapes corrected by a batch's change, as SAGA does.

    The value is `alpha + sum_i t_i + sum_{i in S} weight_i (z_i - t_i)`; t_i are the allocations in
    the table, z_i the batch's new ones, which then replace them. Unbiased given the table, but it
    may be negative: values below alpha / 2 are raised to it, which biases, and counted in
    `clipped`. `TableCounts` is exact at the same cost.

    Args:
        allocate: as for `MinibatchCounts`.
        alpha: as for `MinibatchCounts`.
        batcher: which items a step sees, each at most once.

    Raises:
        TypeError: if the data is streamed (`Given`), a batch may hold an item twice, or depends on
            earlier ones (`Epoch`).

    Example: shapes raised to alpha / 2 are counted.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import SAGACounts, Uniform, scir
        >>> coin = lambda key, position, item: jax.nn.one_hot(jax.random.randint(key, (), 0, 2), 2)
        >>> kernel = scir(SAGACounts(coin, 0.1, Uniform(1)), 0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(2), jnp.arange(9))
        >>> 0 <= int(kernel.step(jax.random.key(1), state, jnp.arange(9))[1].clipped) <= 2
        True
    """

    @property
    def _kept(self) -> KeptLatents:
        name = type(self).__name__
        return KeptLatents(self.allocation, self.batcher, name, any_batch=True)

    def _value(
        self, position: Position, counts: PyTree, change: PyTree, weighted: Callable[[], PyTree]
    ) -> Estimate:
        plain = super()._value(position, counts, weighted(), weighted)
        return floored(plain, self.prior(position))


def floored(estimate: Estimate, prior: Estimate) -> Estimate:
    """The estimate where it is at least half the prior shape, elsewhere that, and how often."""
    low = jax.tree.map(lambda a, alpha: a < alpha / 2, estimate.value, prior.value)
    value = jax.tree.map(lambda a, alpha: jnp.maximum(a, alpha / 2), estimate.value, prior.value)
    return Estimate(value, clipped=sum(jnp.sum(x, dtype=jnp.int32) for x in jax.tree.leaves(low)))
