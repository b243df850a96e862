"""Batches with a fixed number of items from each stratum of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from .. import _checks
from .._types import Data, Key, Position, as_keys
from ..collective import as_shard, leading_axis
from ..contract import Cost
from ..model import ItemSum
from ..random.feistel import SMALL, random_subset
from .uniform import Batch, Batcher, one_each, rows
from .weighted import check_terms, of_terms


class _Kind(NamedTuple):
    """Some strata, the most items that are drawn of one, and the least and the largest N_s."""

    which: tuple[int, ...]
    most: int
    least: int
    bound: int

    def subset(self, key: Any, size: Int[Array, ""]) -> Int[Array, " most"]:
        return random_subset(key, self.most, size, self.bound, self.least)


class Stratified(Batcher):
    """From each stratum s, n_s of its N_s items without replacement, of weights N_s / n_s.

    With S_s the sample covariance of the terms of a stratum, that of the estimate is

        sum_s (N_s^2 / n_s) (1 - n_s / N_s) S_s:

    differences between strata add nothing to it. Strata of which only one item is drawn are taken
    for such without noise by `EmpiricalFisher`: let n_s be 2 at least there.

    Args:
        sizes: the size n of a batch, which is then shared out in proportion to the N_s, each
            stratum getting one at least; or the n_s, in the order of the sorted labels, such as
            those of `neyman_sizes`.
        labels: (N,) whole numbers, each item's stratum.

    Raises:
        TypeError: if the labels are not whole numbers, or not known when the batcher is made.
        ValueError: if the sizes do not fit the strata; at `sample`'s door if there are more or
            fewer labels than items, and of data in shards.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> batcher = Stratified(3, [0, 0, 0, 0, 7, 7])
        >>> batch, _ = batcher.draw(jax.random.key(0), (), jnp.arange(6))
        >>> batch.weight.tolist(), (batch.items >= 4).tolist()
        ([2.0, 2.0, 2.0], [False, False, True])

    Reference:
        Cochran (1977), Sampling techniques, chapter 5; Zhao and Zhang (2014), Accelerating
        minibatch stochastic gradient descent using stratified sampling.
    """

    order: Int[Array, " N"]  # the items, stratum by stratum
    counts: Int[Array, " S"]  # N_s
    sizes: Int[Array, " S"]  # n_s
    stratum: Int[Array, " n"]  # of each place of a batch
    kinds: tuple[_Kind, ...] = eqx.field(static=True)

    def __init__(self, sizes: int | Sequence[int], labels: Any):
        _, strata, counts = _strata(labels)
        numbers = _sizes(sizes, counts)
        self.order = jnp.asarray(np.argsort(strata, kind="stable"), jnp.int32)
        self.counts = jnp.asarray(counts, jnp.int32)
        self.sizes = jnp.asarray(numbers, jnp.int32)
        self.stratum = jnp.asarray(np.repeat(np.arange(len(numbers)), numbers), jnp.int32)
        self.kinds = _kinds(counts, numbers)

    @property
    def cost(self) -> Cost:
        return Cost(len(self.stratum))

    def draw(self, key: Key, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        shard = as_shard(data)
        one_each("labels", len(self.order), shard.capacity)
        rank = jnp.arange(len(self.stratum)) - _starts(self.sizes)[self.stratum]
        within = self._within(as_keys(key).batch)[self.stratum, rank]
        index = self.order[_starts(self.counts)[self.stratum] + within]
        weight = (self.counts / self.sizes)[self.stratum]
        return Batch(rows(shard.items, index), weight, index), bstate

    def _within(self, key: Any) -> Int[Array, "S most"]:
        """The places of the items drawn in their strata, n_s of a row."""
        keys = jax.random.split(key, len(self.counts))
        width = max(kind.most for kind in self.kinds)
        drawn = jnp.zeros((len(self.counts), width), jnp.int32)
        for kind in self.kinds:
            some = np.array(kind.which)
            drawn = drawn.at[some, : kind.most].set(
                jax.vmap(kind.subset)(keys[some], self.counts[some])
            )
        return drawn

    def deviations(self, batch: Batch, terms: PyTree) -> tuple[Float[Array, " n"], PyTree]:
        """`n_s / (n_s - 1) w_i (w_i - 1)`, and the terms less the mean over their stratum."""
        num = self.sizes[self.stratum]
        scale = batch.weight * (batch.weight - 1) * num / jnp.maximum(num - 1, 1)

        def deviation(g: Float[Array, "n *shape"]) -> Float[Array, "n *shape"]:
            total = jax.ops.segment_sum(g, self.stratum, len(self.sizes))
            mean = jax.vmap(jnp.multiply)((1 / self.sizes).astype(g.dtype), total)
            return g - mean[self.stratum]

        return scale, jax.tree.map(deviation, terms)

    def check(self, data: Data) -> None:
        one_each("labels", len(self.order), as_shard(data).capacity)


def neyman_sizes(
    model: ItemSum, position: Position, data: Data, labels: Any, batch_size: int
) -> tuple[int, ...]:
    """The n_s for `Stratified` of the least variance at one position: Neyman's allocation.

    In whole numbers from 1 to N_s that minimise `sum_s (N_s sd_s)^2 / n_s`, nearly n_s proportional
    to N_s sd_s, where sd_s^2 is the trace of the sample covariance of a stratum's terms.

    Args:
        model: a `Model` or a `Summand`, whose terms they are.
        position: where they are evaluated, e.g. the mode.
        data: all of the data.
        labels: (N,) whole numbers, each item's stratum.
        batch_size: n, the sum of the sizes.

    Returns:
        The n_s in the order of the sorted labels.

    Raises:
        ValueError: if the batch is smaller than the number of strata, or larger than the data, or a
            term is not finite.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> y = jnp.array([0.0, 1.0, 0.0, 1.0, 0.0, 5.0, 0.0, 5.0])
        >>> neyman_sizes(model, jnp.zeros(()), y, [0, 0, 0, 0, 1, 1, 1, 1], 4)
        (1, 3)

    Reference:
        Neyman (1934), On the two different aspects of the representative method; Wright (2012), The
        equivalence of Neyman optimum allocation for sampling and equal proportions for apportioning
        the U.S. House of Representatives, for whole numbers.
    """
    check_terms(model, position, data)
    _, strata, counts = _strata(labels)
    one_each("labels", len(strata), leading_axis(data))
    flat = of_terms(lambda term: ravel_pytree(term)[0], model, position, data)
    flat = np.asarray(flat, np.float64)
    _checks.finite("the terms of data at position", flat)
    mean = np.stack([np.bincount(strata, column) for column in flat.T], 1) / counts[:, None]
    square = np.bincount(strata, ((flat - mean[strata]) ** 2).sum(1))
    deviation = np.sqrt(square / np.maximum(counts - 1, 1))
    return tuple(map(int, _shared_out("batch_size", batch_size, counts, counts * deviation)))


def _kinds(counts: np.ndarray, sizes: np.ndarray) -> tuple[_Kind, ...]:
    """Strata of few items, whose subsets are drawn by a sort, and of many."""
    few = counts <= SMALL
    which = [np.flatnonzero(few), np.flatnonzero(~few)]
    number = lambda x, i: int(x(counts[i]))
    return tuple(
        _Kind(tuple(i.tolist()), int(sizes[i].max()), number(np.min, i), number(np.max, i))
        for i in which
        if i.size
    )


def _starts(counts: Int[Array, " S"]) -> Int[Array, " S"]:
    """The sums of all numbers before each."""
    return jnp.cumsum(counts) - counts


def _strata(labels: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sorted labels, each item's place among them, and how often each occurs."""
    if not _checks.is_concrete(labels):
        raise TypeError(
            "labels must be numbers known when Stratified is made, got an array that is traced: "
            "make the batcher outside of jit and vmap"
        )
    labels = _checks.on_host("labels", labels)
    if labels.dtype.kind not in "iu":
        raise TypeError(f"labels must be whole numbers, one an item, got {labels.dtype}")
    if labels.ndim != 1 or not labels.size:
        raise ValueError(f"labels must be of shape (N,), one an item, got shape {labels.shape}")
    return np.unique(labels, return_inverse=True, return_counts=True)


def _sizes(sizes: int | Sequence[int], counts: np.ndarray) -> np.ndarray:
    """The number of items from each stratum."""
    if not isinstance(sizes, tuple | list) and np.ndim(sizes) == 0:
        return _shared_out("sizes", sizes, counts, counts)
    given = list(cast(Sequence[int], sizes))
    for size in given:
        _checks.whole("sizes", size)
    if len(given) != len(counts):
        raise ValueError(f"sizes must be one a stratum, got {len(given)} for {len(counts)} strata")
    if np.any(np.asarray(given) > counts):
        raise ValueError(
            f"sizes must be at most the numbers of items in the strata, got {given} for "
            f"{counts.tolist()}"
        )
    return np.asarray(given)


def _shared_out(name: str, num: Any, counts: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Whole numbers n_s from 1 to N_s of sum `num` that minimise `sum_s spread_s^2 / n_s`."""
    _checks.whole(name, num)
    if not len(counts) <= num <= counts.sum():
        raise ValueError(
            f"{name} must be from the number of strata to that of items, {len(counts)} to "
            f"{counts.sum()}, got {num}"
        )
    # the k-th item of a stratum takes spread^2 / (k (k + 1)) off the sum: the greatest first
    which = np.repeat(np.arange(len(counts)), np.minimum(counts, num) - 1)
    k = np.arange(len(which)) - np.searchsorted(which, which) + 1.0
    gain = spread[which] / np.sqrt(k * (k + 1))
    best = np.argsort(-gain, kind="stable")[: num - len(counts)]
    return 1 + np.bincount(which[best], minlength=len(counts))
