"""Batches, their protocol, and those that treat all items alike."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from .. import _checks, _returned
from .._types import Data, Key, as_keys
from ..arrays import over_rows
from ..collective import Shard, as_shard, leading_axis
from ..contract import Cost
from ..random.feistel import permute, random_subset, round_words


class Batch(eqx.Module):
    """Items with weights whose weighted sum is unbiased for the sum over all items.

    Attributes:
        items: with a leading axis of length n; rows of the data, or whatever the batcher makes.
        weight: (n,); 0 marks padding.
        index: (n,) the items' indices in the batcher's `population` (of this shard).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Uniform
        >>> batch, _ = Uniform(2).draw(jax.random.key(0), (), jnp.arange(6.0) ** 2)
        >>> batch.weight.tolist(), bool((batch.items == batch.index**2).all())
        ([3.0, 3.0], True)
    """

    items: PyTree
    weight: Float[Array, " n"]
    index: Int[Array, " n"]


class Batcher(eqx.Module):
    """`init(key, data) -> state` and `draw(key, state, data) -> (Batch, state)`.

    Example: the items of even or of odd index, of an even number of them.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import as_keys
        >>> class EveryOther(Batcher):
        ...     def draw(self, key, bstate, data):
        ...         first = jax.random.bernoulli(as_keys(key).batch).astype(int)
        ...         index = jnp.arange(0, len(data), 2) + first
        ...         return Batch(data[index], jnp.full(len(index), 2.0), index), bstate
        >>> batch, _ = EveryOther().draw(jax.random.key(0), (), jnp.arange(6.0))
        >>> jnp.diff(batch.items).tolist()
        [2.0, 2.0]
    """

    exact: ClassVar[bool] = False
    """Whether a batch is all of the data."""
    streams: ClassVar[bool] = False
    """Whether the data argument is itself a batch."""
    distinct: ClassVar[bool] = True
    """Whether no batch holds an item twice."""
    independent: ClassVar[bool] = True
    """Whether a batch does not depend on those of earlier steps."""

    @property
    def cost(self) -> Cost | None:
        """What a gradient of each item of a batch costs, or `None` if that is not known."""
        return None

    @property
    def stands_for(self) -> int | None:
        """The number of all items, of which the data argument is a batch, where that is known."""
        return None

    def init(self, key: Key, data: Data) -> PyTree:
        """The batcher's own state; most have none."""
        return ()

    @abstractmethod
    def draw(self, key: Key, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        """The next batch."""

    def population(self, shard: Shard) -> Shard:
        """All the items that batches are drawn from: the rows of the data, unless it says more.

        A batcher whose items are, say, the windows of a series returns the shard of all windows.
        """
        return shard

    def deviations(self, batch: Batch, terms: PyTree) -> tuple[Float[Array, " n"], PyTree]:
        """Numbers a_i and rows d_i: `sum_i a_i d_i d_i'` is unbiased for the estimate's covariance.

        For the items of a uniform batch a_i is `n/(n-1) w_i (w_i - 1)`, or `n/(n-1) w_i^2` if they
        are drawn with replacement, and d_i the terms less their mean; both are 0 for padding.

        Args:
            terms: the unweighted terms of the batch's items, with a leading item axis.
        """
        weight, real = batch.weight, batch.weight > 0
        num = jnp.maximum(jnp.sum(real), 1)
        scale = weight * (weight - 1 if self.distinct else weight)
        scale = jnp.where(real, scale * num / jnp.maximum(num - 1, 1), 0)
        return scale, jax.tree.map(lambda g: _less_mean(g, real, num), terms)

    def even(self, num_items: int) -> bool:
        """Whether batches of `num_items` items are full, and their items of equal weights."""
        return False

    def check(self, data: Data) -> None:
        """Raise if the data is unfit for this batcher."""


class Full(Batcher):
    """All items, each with weight 1.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> batch, _ = Full().draw(jax.random.key(0), (), jnp.array([5.0, 7.0]))
        >>> batch.items.tolist(), batch.weight.tolist()
        ([5.0, 7.0], [1.0, 1.0])
    """

    exact: ClassVar[bool] = True

    @property
    def cost(self) -> Cost:
        return Cost(passes=1)

    def draw(self, key: Key, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        shard = as_shard(data)
        weight = shard.mask.astype(jnp.float32)
        return Batch(shard.items, weight, jnp.arange(shard.capacity)), bstate

    def even(self, num_items: int) -> bool:
        return True


class Uniform(Batcher):
    """`batch_size` items drawn uniformly, each with weight N / batch_size.

    Without replacement by default, through a keyed bijection in O(batch_size) work whatever N.

    Args:
        batch_size: the number of items n, at most N.
        replace: draw with replacement instead.

    Raises:
        ValueError: at `sample`'s door, if the batch is larger than the data.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> batch, _ = Uniform(10).draw(jax.random.key(0), (), jnp.arange(1000.0))
        >>> batch.items.shape, float(batch.weight[0])
        ((10,), 100.0)
    """

    batch_size: int = eqx.field(static=True)
    replace: bool = eqx.field(static=True, default=False)

    @property
    def distinct(self) -> bool:
        return not self.replace

    @property
    def cost(self) -> Cost:
        return Cost(self.batch_size)

    def __check_init__(self):
        _checks.whole("batch_size", self.batch_size)
        _checks.truth("replace", self.replace)

    def draw(self, key: Key, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        shard, n, key = as_shard(data), self.batch_size, as_keys(key).batch
        if self.replace:
            index = jax.random.randint(key, (n,), 0, jnp.maximum(shard.size, 1))
            return _take(shard, index, n), bstate
        index = random_subset(key, n, shard.size, shard.capacity)
        return _take(shard, index, jnp.minimum(n, shard.size)), bstate

    def even(self, num_items: int) -> bool:
        return self.replace or self.batch_size <= num_items

    def check(self, data: Data) -> None:
        _fits(self.batch_size, data)


class EpochState(NamedTuple):
    """The words of this epoch's permutation and the number of batches drawn."""

    words: UInt32[Array, "8"]
    count: Int[Array, ""]


class Epoch(Batcher):
    """Every item once an epoch: consecutive batches of a permutation that each epoch draws anew.

    The last batch of an epoch holds what is left, padded with weight 0; each batch, taken alone,
    is a uniform subset with weights N / (its number of items). Batches of one epoch are not
    independent: their noises add up to nearly nothing, so that a sampler from which a noise
    covariance is subtracted is too cold.

    Args:
        batch_size: the number of items n, at most N.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> batcher, data, seen = Epoch(2), jnp.arange(3), []
        >>> bstate = batcher.init(jax.random.key(0), data)
        >>> for i in range(2):
        ...     batch, bstate = batcher.draw(jax.random.key(i), bstate, data)
        ...     seen += batch.items[batch.weight > 0].tolist()
        >>> sorted(seen)
        [0, 1, 2]

    Reference:
        Mishchenko, Khaled and Richtarik (2020), Random reshuffling: simple analysis with vast
        improvements, of optimisers.
    """

    batch_size: int = eqx.field(static=True)
    independent: ClassVar[bool] = False

    def __check_init__(self):
        _checks.whole("batch_size", self.batch_size)

    @property
    def cost(self) -> Cost:
        return Cost(self.batch_size)

    def init(self, key: Key, data: Data) -> EpochState:
        return EpochState(round_words(as_keys(key).batch), jnp.zeros((), jnp.int32))

    def draw(self, key: Key, bstate: EpochState, data: Data) -> tuple[Batch, EpochState]:
        shard, n, keys = as_shard(data), self.batch_size, as_keys(key)
        count = bstate.count if keys.count is None else keys.count
        turn = count % jnp.maximum((shard.size + n - 1) // n, 1)
        words = jnp.where(turn == 0, round_words(keys.batch), bstate.words)
        order = turn * n + jnp.arange(n)
        real = order < shard.size
        index = permute(words, jnp.where(real, order, 0), shard.size, shard.capacity)
        batch = _take(shard, index, jnp.sum(real))
        return batch, EpochState(words, bstate.count + 1)

    def even(self, num_items: int) -> bool:
        return num_items % self.batch_size == 0

    def check(self, data: Data) -> None:
        _fits(self.batch_size, data)


class Given(Batcher):
    """The data argument is itself the minibatch, of n items out of `total`: streamed data.

    Args:
        total: the number N of items that the batches are drawn from, without an item twice in one;
            each weighs N / n, with the n of its own batch, such as a shorter last one.

    Raises:
        ValueError: at `sample`'s door, if the first batch has more items than `total`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> batch, _ = Given(total=100).draw(jax.random.key(0), (), jnp.arange(4.0))
        >>> batch.weight.tolist()
        [25.0, 25.0, 25.0, 25.0]
    """

    total: int = eqx.field(static=True)
    streams: ClassVar[bool] = True

    def __check_init__(self):
        _checks.whole("total", self.total, wide=True)

    @property
    def stands_for(self) -> int:
        return self.total

    def check(self, data: Data) -> None:
        if isinstance(data, list) and len(data) > 1:
            if all(_returned.same_form(batch, data[0]) for batch in data):
                raise TypeError(
                    "data must be one batch, an iterator of batches or a function i -> batch for "
                    f"Given, got a list of {len(data)}: give iter(data), or data.__getitem__"
                )
        size = as_shard(data).total if jax.tree.leaves(data) else 0
        if _checks.certainly(lambda size: size > self.total, size):
            raise ValueError(
                f"total must be the number of all items, got {self.total} and a batch of {size}"
            )

    def draw(self, key: Key, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        shard = as_shard(data)
        weight = shard.mask * (float(self.total) / jnp.maximum(shard.total, 1))
        return Batch(shard.items, weight, jnp.arange(shard.capacity)), bstate

    def even(self, num_items: int) -> bool:
        return True


def _take(shard: Shard, index: Int[Array, " n"], num_real: Any) -> Batch:
    """The rows at `index`, the first `num_real` of which count."""
    weight = jnp.asarray(shard.size / jnp.maximum(num_real, 1), jnp.result_type(float))
    weight = jnp.where(jnp.arange(len(index)) < num_real, weight, 0)
    return Batch(rows(shard.items, index), weight, index)


def rows(items: PyTree, index: Int[Array, "..."]) -> PyTree:
    """The items at indices that are known to be in bounds."""
    return jax.tree.map(lambda x: jnp.asarray(x).at[index].get(mode="promise_in_bounds"), items)


def _less_mean(
    terms: Float[Array, "n *shape"], real: Bool[Array, " n"], num: Int[Array, ""]
) -> Float[Array, "n *shape"]:
    """The terms of items, an axis of their own, less the mean over the real ones; 0 for padding."""
    real = over_rows(real, terms)
    mean = jnp.sum(jnp.where(real, terms, 0), axis=0) / num.astype(terms.dtype)
    return jnp.where(real, terms - mean, 0)


def one_each(name: str, num: int, capacity: int) -> None:
    """Raise unless there are as many numbers of that name as items."""
    if num != capacity:
        raise ValueError(
            f"{name} must be one an item, got {num} for {capacity}; with data in shards there are "
            "none for a shard's own items"
        )


def require_batcher(batcher: Any) -> None:
    """Raise unless it is a batcher."""
    if not isinstance(batcher, Batcher):
        raise TypeError(
            f"batcher must be a Batcher such as Uniform(100), got {type(batcher).__name__}"
        )


def _fits(batch_size: int, data: Data) -> None:
    num_items = leading_axis(data.items if isinstance(data, Shard) else data)
    if not jax.tree.leaves(data):
        raise ValueError(f"data must have items for a batch_size of {batch_size}, got None")
    if not isinstance(data, Shard) and batch_size > num_items:
        raise ValueError(
            f"batch_size must be at most the number of items, got {batch_size} for {num_items}"
        )
