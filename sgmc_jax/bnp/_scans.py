"""Which points a step of a slice sampler moves, and how the sums over all points follow."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..arrays import over_rows
from ..collective import Collective, Shard
from ..families import Family
from ..random.feistel import random_subset

_EPOCHS = 1  # after so many passes over the data all sums are computed anew
_FORGET = 0.6  # the share of the sums that the first step of online EM replaces


class SliceSums(NamedTuple):
    """Sums over all points: the size and the statistics of each cluster, and the overflow."""

    counts: Int[Array, " K"]
    statistics: PyTree
    overflow: Int[Array, ""]


class Batch(NamedTuple):
    """The points that a step moves: their rows, their items, and which rows are no padding.

    `chance` is the probability that the shard has any.
    """

    rows: Int[Array, " n"]
    items: PyTree
    real: Bool[Array, " n"]
    chance: float = 1


class Move(NamedTuple):
    """What a step made of its batch: old and new labels, all points' new labels, the overflow.

    `logits` are the log probabilities of the points' clusters but for a constant, `key` serves to
    round.
    """

    old: Int[Array, " n"]
    new: Int[Array, " n"]
    labels: Int[Array, " N"]
    overflow: Int[Array, ""]
    logits: Float[Array, "K n"]
    key: Any


@runtime_checkable
class Summing(Protocol):
    """What a scan asks of its sampler: sums over some points of a shard, by their labels."""

    family: Family
    comm: Collective

    def sums(self, items: PyTree, labels: Int[Array, " n"], real: Bool[Array, " n"]) -> SliceSums:
        """Sums over some points."""
        ...

    def gains(self, batch: Batch, old: Int[Array, " n"], new: Int[Array, " n"]) -> SliceSums:
        """What the sums gain when a batch moves."""
        ...


class Scan(eqx.Module):
    """Which points a step moves, and how the sums follow."""

    @abstractmethod
    def batch(self, key: Any, shard: Shard, comm: Collective) -> Batch:
        """The points of the shard that the step moves."""

    @abstractmethod
    def follow(
        self, own: Summing, count: Any, before: SliceSums, shard: Shard, batch: Batch, move: Move
    ) -> SliceSums:
        """The sums after a move, alike on all shards.

        Args:
            count: the index of the step, or `None`.
        """

    def exact(self, count: Any) -> Any:
        """Whether the step has a law to keep."""
        return True

    def check(self, num_items: int) -> None:
        """Raise if there are too few items."""


class AllPoints(Scan):
    """All points, and all sums anew."""

    def batch(self, key: Any, shard: Shard, comm: Collective) -> Batch:
        return Batch(jnp.arange(shard.capacity), shard.items, shard.mask)

    def follow(
        self, own: Summing, count: Any, before: SliceSums, shard: Shard, batch: Batch, move: Move
    ) -> SliceSums:
        sums = own.sums(shard.items, move.labels, shard.mask)
        return own.comm.sum(sums._replace(overflow=move.overflow))


class RandomScan(AllPoints):
    """The points of a random batch, by which the sums are changed; at times they are taken anew.

    Without the latter the rounding errors of many changes would add up. It is exact: which points
    are moved does not depend on where they are.

    Args:
        size: the number of points, over all shards.
    """

    size: int = eqx.field(static=True)

    def batch(self, key: Any, shard: Shard, comm: Collective) -> Batch:
        """The shard's part of a random batch, drawn among its own points."""
        own, rest = divmod(self.size, comm.size)
        # rows for the larger share, where shares differ; of which some may be padding then
        num = min(own + (rest > 0), shard.capacity)
        rows = random_subset(comm.local_key(key), num, shard.size, shard.capacity)
        items = jax.tree.map(lambda x: jnp.asarray(x)[rows], shard.items)
        chance = 1 if own else rest / comm.size
        if rest:  # the shards that move one point more are drawn in every step
            turn_key = jax.random.fold_in(key, comm.size)
            turn = jax.random.randint(turn_key, (), 0, comm.size)
            own = own + ((comm.index() + turn) % comm.size < rest)
        # a shard with fewer points than its share moves them all
        return Batch(rows, items, jnp.arange(num) < jnp.minimum(own, shard.size), chance)

    def follow(
        self, own: Summing, count: Any, before: SliceSums, shard: Shard, batch: Batch, move: Move
    ) -> SliceSums:
        changed = lambda: self._changed(own, before, batch, move)
        if count is None:
            return changed()
        anew = lambda: AllPoints.follow(self, own, count, before, shard, batch, move)
        return jax.lax.cond(self._ends(count, shard, own.comm), anew, changed)

    def _changed(self, own: Summing, before: SliceSums, batch: Batch, move: Move) -> SliceSums:
        gains = own.gains(batch, move.old, move.new)._replace(overflow=move.overflow)
        # an overflow is that of one step
        before = before._replace(overflow=jnp.zeros_like(move.overflow))
        sums = optax.tree.add(before, own.comm.sum(gains))
        # what rounding has left of a cluster's sums is no part of an empty one's
        left = lambda x: jnp.where(over_rows(sums.counts > 0, x), x, 0)
        return sums._replace(statistics=jax.tree.map(left, sums.statistics))

    def _ends(self, count: Any, shard: Shard, comm: Collective) -> Bool[Array, ""]:
        """Whether the step ends some passes over the data."""
        # rows are counted, padding too: all shards must agree, and need not ask
        period = max(1, _EPOCHS * shard.capacity * comm.size // self.size)
        return count % period == period - 1

    def check(self, num_items: int) -> None:
        if self.size > num_items:
            raise ValueError(
                f"batch_size must be at most the number of items, {num_items}, got {self.size}"
            )


class OnlineEM(RandomScan):
    """A random scan after a warm start of W steps, which have no law to keep.

    In them the sums c are a moving average of those that batches of n points lead one to expect,

        c <- (1 - r) c + r (N/n) sum_{i in S} p_i s(x_i),    r = 0.6^(1 - t/W) (n/N)^(t/W).

    Args:
        steps: W.

    Reference:
        Cappé and Moulines (2009), On-line expectation-maximization algorithm for latent data
        models.
    """

    steps: int = eqx.field(static=True)

    def exact(self, count: Any) -> Any:
        if count is None:
            raise ValueError("a warm_start needs the step's index: run it by `sample`")
        return count >= self.steps

    def follow(
        self, own: Summing, count: Any, before: SliceSums, shard: Shard, batch: Batch, move: Move
    ) -> SliceSums:
        """Averages; then, with the last of them and at times later on, sums; else changes."""
        averaged = lambda: self._averaged(own, count, before, shard, batch, move)
        anew = lambda: AllPoints.follow(self, own, count, before, shard, batch, move)
        changed = lambda: self._changed(own, before, batch, move)
        # averages are of no labels: the last step of the warm start counts them
        left = self.steps - 1 - count
        recounted = (left == 0) | self._ends(count, shard, own.comm)
        case = jnp.where(left > 0, 0, jnp.where(recounted, 1, 2))
        return jax.lax.switch(case, (averaged, anew, changed))

    def _averaged(
        self, own: Summing, count: Any, before: SliceSums, shard: Shard, batch: Batch, move: Move
    ) -> SliceSums:
        if not all(
            jnp.issubdtype(x.dtype, jnp.inexact) for x in jax.tree.leaves(before.statistics)
        ):
            raise TypeError(
                "warm_start averages statistics, which must be floating then, got "
                f"{jax.tree.map(lambda x: str(x.dtype), before.statistics)} of item_statistics"
            )
        # padding of a batch has logits like a point, but no weight
        expected = jax.nn.softmax(move.logits, axis=0) * batch.real
        sums = expected.sum(1), own.family.statistics(batch.items, expected)
        share = self.size / (shard.capacity * own.comm.size)
        fresh = _FORGET * (share / _FORGET) ** (count / self.steps)
        counts, statistics = jax.tree.map(
            lambda old, new: (1 - fresh) * old + fresh * new,
            (before.counts, before.statistics),
            scaled_up(own.comm, shard, batch, sums),
        )
        lost = own.comm.sum(move.overflow)
        # sizes must be whole for the draws of weights; statistics need not
        return SliceSums(round_at_random(move.key, counts), statistics, lost)


def scaled_up(comm: Collective, shard: Shard, batch: Batch, own: PyTree) -> PyTree:
    """Sums over all points, estimated from those over the shard's batch."""
    # N_s / n_s of the shard's own, and without bias where it may move none
    weight = shard.size / (batch.chance * jnp.maximum(jnp.sum(batch.real), 1))
    real = lambda x: weight.astype(jnp.promote_types(x.dtype, jnp.float32))
    return comm.sum(jax.tree.map(lambda x: real(x) * x, own))


def round_at_random(key: Any, x: Float[Array, " n"]) -> Int[Array, " n"]:
    """Whole numbers with the mean x; the nearest ones would forget small changes."""
    return jnp.floor(x + jax.random.uniform(key, x.shape, x.dtype)).astype(jnp.int32)
