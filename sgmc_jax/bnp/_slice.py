"""The kernel behind `slice_mixture`: exact slice sampling, from all points or from batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._types import Data, Kernel, Key, Keys, as_keys
from ..collective import Collective, Dist, Shard, as_shard
from ..contract import SlotInfo
from ..families import Family
from ..processes import PitmanYor
from ..random.feistel import random_subset
from ..random.words import item_uniforms
from ._blocks import check_start, start_position, with_own_hyper
from ._centre import centre_of, centred, recentred
from ._collapsed import pick_columns
from ._sticks import draw_order, in_use, stick_weights, swap_neighbours

_EPOCHS = 8  # after so many passes over the data all sums are computed anew
_FORGET = 0.6  # the share of the sums that the first step of a warm start replaces


class SliceSums(NamedTuple):
    """Sums over all points: the size and the statistics of each cluster, and the overflow."""

    counts: Int[Array, " K"]
    statistics: PyTree
    overflow: Int[Array, ""]


class SliceState(NamedTuple):
    """Where a chain is.

    `position.shared` holds the hyper-parameters, `position.local` each point's `assignment`.
    `order` lists the slots by their sticks; `log_weights`, `log_rest` and `parameters` are the
    mixture that points were last drawn from: each slot's weight, that of all others, and theta.
    `gammas` are those behind sticks and parameters where they are moved, not drawn. The statistics
    in `sums` are those of `family.about(centre)`.
    """

    position: Dist
    order: Int[Array, " K"]
    log_weights: Float[Array, " K"]
    log_rest: Float[Array, ""]
    parameters: PyTree
    sums: SliceSums
    gammas: PyTree = None
    centre: PyTree = None


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


class SliceMixture(Kernel):
    """See `slice_mixture`."""

    process: PitmanYor
    family: Family
    batch_size: int | None = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    warm_start: int = eqx.field(static=True, default=0)
    comm: Collective = Collective()

    def init(self, key: Key, position: Any, data: Data) -> SliceState:
        self = centred(self, data)
        position, shard = start_position(self.process, position, data), as_shard(data)
        own = self._sums(shard.items, position.local["assignment"], shard.mask)
        sums = self.comm.sum(own)
        weights = jnp.zeros(self.capacity, position.shared["concentration"].dtype)
        params = self.family.draw(as_keys(key).noise, sums.statistics)
        order, centre = jnp.arange(self.capacity), centre_of(self.family)
        return SliceState(position, order, weights, weights[0], params, sums, centre=centre)

    def refresh(self, key: Key, state: SliceState, data: Data) -> SliceState:
        self, shard = centred(self, data), as_shard(data)
        hyper, local = state.position
        sums = self.comm.sum(self._sums(shard.items, local["assignment"], shard.mask))
        # the order belongs to labels that may have moved
        order = draw_order(as_keys(key).noise, self.process, hyper, sums.counts)
        return state._replace(order=order, sums=sums, centre=centre_of(self.family))

    def step(self, key: Key, state: SliceState, data: Data) -> tuple[SliceState, SlotInfo]:
        self, keys = recentred(self, state), as_keys(key)
        mixture_key, level_key, label_key, round_key = jax.random.split(keys.noise, 4)
        shard, labels = as_shard(data), state.position.local["assignment"]
        batch = self._batch(keys.batch, shard)
        index, old = shard.start + batch.rows, labels[batch.rows]
        last = state.order[-1]
        state = self._draw_mixture(keys._replace(noise=mixture_key), state, shard, batch)
        log_weights = state.log_weights

        level = log_weights[old] + jnp.log(item_uniforms(level_key, index, log_weights.dtype))
        scores = self.family.scores(state.parameters, batch.items)
        above = jnp.where(log_weights[:, None] > level, scores, -jnp.inf)
        new = pick_columns(above, item_uniforms(label_key, index, scores.dtype))
        place = jnp.where(batch.real, batch.rows, len(labels))
        moved = labels.at[place].set(new, mode="drop")
        # a cluster on the last stick might have been exchanged with the next
        ends = state.sums.counts[jnp.stack([last, state.order[-1]])]
        short = jnp.any(batch.real & (state.log_rest >= level)) & self._exact(keys.count)
        lost = jnp.any(ends > 0) | short

        logits = log_weights[:, None] + scores
        move = Move(old, new, moved, lost.astype(jnp.int32), logits, round_key)
        sums = self._moved_sums(keys.count, state.sums, shard, batch, move)
        position = state.position._replace(local={"assignment": moved})
        active = jnp.sum(sums.counts > 0, dtype=jnp.int32)
        return state._replace(position=position, sums=sums), SlotInfo(active, sums.overflow > 0)

    def retarget(self, key: Key, state: SliceState, data: Data) -> SliceState:
        return self.refresh(key, with_own_hyper(state, self.process), data)

    def grow(self, state: SliceState, capacity: int) -> tuple[Kernel, SliceState]:
        order = jnp.append(state.order, jnp.arange(self.capacity, capacity))
        return self.resize(capacity), state._replace(order=order)

    def check(self, position: Any, data: Data) -> None:
        check_start(self.family, self.capacity, position, data)
        if isinstance(data, Shard) or self.batch_size is None:
            return
        num_items = as_shard(data).capacity
        if self.batch_size > num_items:
            raise ValueError(
                f"batch_size must be at most the number of items, {num_items}, got "
                f"{self.batch_size}"
            )

    def _draw_mixture(
        self, keys: Keys, state: SliceState, shard: Shard, batch: Batch
    ) -> SliceState:
        """Sticks, their order, hyper-parameters and parameters, given the points' clusters."""
        stick_key, swap_key, hyper_key, tail_key, param_key = jax.random.split(keys.noise, 5)
        process, (hyper, local), counts = self.process, state.position, state.sums.counts
        sticks = process.draw_sticks(stick_key, hyper, counts[state.order])
        order = swap_neighbours(swap_key, state.order, counts, *sticks)
        if process.prior is not None:
            used = in_use(counts[order])
            hyper = process.redraw_from_sticks(hyper_key, hyper, *sticks, used)
            tail = process.draw_sticks(tail_key, hyper, jnp.zeros_like(counts))
            sticks = jax.tree.map(lambda kept, new: jnp.where(used, kept, new), sticks, tail)
        by_order, log_rest = stick_weights(*sticks)
        return state._replace(
            position=Dist(hyper, local),
            order=order,
            log_weights=jnp.zeros_like(by_order).at[order].set(by_order),
            log_rest=log_rest,
            parameters=self.family.draw(param_key, state.sums.statistics),
        )

    def _batch(self, key: Any, shard: Shard) -> Batch:
        """All points of the shard, or its part of a random batch."""
        if self.batch_size is None:
            return Batch(jnp.arange(shard.capacity), shard.items, shard.mask)
        own, rest = divmod(self.batch_size, self.comm.size)
        num = min(own + (rest > 0), shard.capacity)
        rows = random_subset(self.comm.local_key(key), num, shard.size, shard.capacity)
        items = jax.tree.map(lambda x: x[rows], shard.items)
        chance = 1 if own else rest / self.comm.size
        if rest:  # the shards that move one point more are drawn in every step
            turn_key = jax.random.fold_in(key, self.comm.size)
            turn = jax.random.randint(turn_key, (), 0, self.comm.size)
            own = own + ((self.comm.index() + turn) % self.comm.size < rest)
        return Batch(rows, items, jnp.arange(num) < jnp.minimum(own, shard.size), chance)

    def _exact(self, count: Any) -> Any:
        """Whether a step has a law to keep; a warm start makes do with the sticks there are."""
        if not self.warm_start:
            return True
        if count is None:
            raise ValueError("a warm_start needs the step's index: run it by `sample`")
        return count >= self.warm_start

    def _sums(self, items: PyTree, labels: Array, real: Array) -> SliceSums:
        """This shard's sums over some points."""
        labels = jnp.where(real, labels, -1)
        statistics = self.family.label_statistics(items, labels, self.capacity)
        return self._sizes(labels)._replace(statistics=statistics)

    def _moves(self, batch: Batch, old: Array, new: Array) -> SliceSums:
        """What this shard's sums gain when a batch moves."""
        old, new = (jnp.where(batch.real, labels, -1) for labels in (old, new))
        statistics = self.family.moved_statistics(batch.items, old, new, self.capacity)
        gain = jax.tree.map(jnp.subtract, self._sizes(new), self._sizes(old))
        return gain._replace(statistics=statistics)

    def _sizes(self, labels: Array) -> SliceSums:
        """Sums that leave out the statistics."""
        counts = jnp.sum(labels == jnp.arange(self.capacity)[:, None], axis=1, dtype=jnp.int32)
        return SliceSums(counts, None, jnp.zeros((), jnp.int32))

    def _scaled(self, shard: Shard, batch: Batch, own: PyTree) -> PyTree:
        """Sums over all points, estimated from those over the batch."""
        weight = shard.size / (batch.chance * jnp.maximum(jnp.sum(batch.real), 1))
        return self.comm.sum(jax.tree.map(lambda x: weight.astype(_real(x)) * x, own))

    def _moved_sums(
        self, count: Any, sums: SliceSums, shard: Shard, batch: Batch, move: Move
    ) -> SliceSums:
        """The sums after a move: the old ones, changed by the batch; all anew at times.

        Without the latter the rounding errors of many changes would add up.
        """

        def summed() -> SliceSums:
            own = self._sums(shard.items, move.labels, shard.mask)
            return self.comm.sum(own._replace(overflow=move.overflow))

        if self.batch_size is None:
            return summed()

        def changed() -> SliceSums:
            delta = self._moves(batch, move.old, move.new)._replace(overflow=move.overflow)
            before = sums._replace(overflow=jnp.zeros_like(move.overflow))
            return jax.tree.map(jnp.add, before, self.comm.sum(delta))

        if count is None:
            return changed()
        period = max(1, _EPOCHS * shard.capacity * self.comm.size // self.batch_size)
        anew = count % period == period - 1
        if not self.warm_start:
            return jax.lax.cond(anew, summed, changed)
        averaged = lambda: self._averaged(count, sums, shard, batch, move)
        left = self.warm_start - 1 - count
        case = jnp.where(left > 0, 0, jnp.where((left == 0) | anew, 1, 2))
        return jax.lax.switch(case, (averaged, summed, changed))

    def _averaged(
        self, count: Any, sums: SliceSums, shard: Shard, batch: Batch, move: Move
    ) -> SliceSums:
        """A moving average of the sums that batches lead one to expect: a step of online EM."""
        expected = jax.nn.softmax(move.logits, axis=0) * batch.real
        own = SliceSums(expected.sum(1), self.family.statistics(batch.items, expected), None)  # type: ignore[arg-type]
        share = self.batch_size / (shard.capacity * self.comm.size)  # type: ignore[operator]
        fresh = _FORGET * (share / _FORGET) ** (count / self.warm_start)
        counts, statistics, _ = jax.tree.map(
            lambda old, new: (1 - fresh) * old + fresh * new,
            sums._replace(overflow=None),
            self._scaled(shard, batch, own),
        )
        return SliceSums(
            round_at_random(move.key, counts), statistics, self.comm.sum(move.overflow)
        )


def _real(x: Array) -> Any:
    return jnp.promote_types(x.dtype, jnp.float32)


def round_at_random(key: Any, x: Float[Array, " n"]) -> Int[Array, " n"]:
    """Whole numbers with the mean x; the nearest ones would forget small changes."""
    return jnp.floor(x + jax.random.uniform(key, x.shape, x.dtype)).astype(jnp.int32)
