"""The kernel behind `slice_mixture`: one step of exact slice sampling, whatever points it moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from .._types import Data, Kernel, Key, Keys, as_keys
from ..collective import Collective, Dist, Shard, as_shard
from ..contract import SlotInfo
from ..families import Family
from ..processes import Series
from ..random.words import item_uniforms
from ._centre import centre_of, centred, recentred
from ._order import in_use, swap_neighbours
from ._scans import Batch, Move, Scan, SliceSums
from ._starts import check_start, start_position, with_own_hyper
from .hybrid.points import pick_columns


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


class SliceMixture(Kernel):
    """See `slice_mixture`."""

    process: Series
    family: Family
    scan: Scan
    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()

    def init(self, key: Key, position: Any, data: Data) -> SliceState:
        self = centred(self, data)
        shard = as_shard(data)
        position = start_position(self.process, position, shard.capacity)
        own = self.sums(shard.items, position.local["assignment"], shard.mask)
        sums = self.comm.sum(own)
        dtype = jnp.result_type(float, *jax.tree.leaves(position.shared))
        weights = jnp.zeros(self.capacity, dtype)
        params = self.family.draw(as_keys(key).noise, sums.statistics)
        order, centre = jnp.arange(self.capacity), centre_of(self.family)
        return SliceState(position, order, weights, weights[0], params, sums, centre=centre)

    def refresh(self, key: Key, state: SliceState, data: Data) -> SliceState:
        self, shard = centred(self, data), as_shard(data)
        hyper, local = state.position
        sums = self.comm.sum(self.sums(shard.items, local["assignment"], shard.mask))
        # the order belongs to labels that may have moved
        order = self.process.draw_order(as_keys(key).noise, hyper, sums.counts)
        return state._replace(order=order, sums=sums, centre=centre_of(self.family))

    def step(self, key: Key, state: SliceState, data: Data) -> tuple[SliceState, SlotInfo]:
        self, keys = recentred(self, state), as_keys(key)
        mixture_key, level_key, label_key, round_key = jax.random.split(keys.noise, 4)
        shard, labels = as_shard(data), state.position.local["assignment"]
        batch = self.scan.batch(keys.batch, shard, self.comm)
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
        short = jnp.any(batch.real & (state.log_rest >= level)) & self.scan.exact(keys.count)
        lost = jnp.any(ends > 0) | short

        logits = log_weights[:, None] + scores
        move = Move(old, new, moved, lost.astype(jnp.int32), logits, round_key)
        sums = self.scan.follow(self, keys.count, state.sums, shard, batch, move)
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
        if not isinstance(data, Shard):
            self.scan.check(as_shard(data).capacity)

    def _draw_mixture(
        self, keys: Keys, state: SliceState, shard: Shard, batch: Batch
    ) -> SliceState:
        """Terms, their order, hyper-parameters and parameters, given the points' clusters."""
        stick_key, swap_key, hyper_key, tail_key, param_key = jax.random.split(keys.noise, 5)
        process, (hyper, local), counts = self.process, state.position, state.sums.counts
        series = process.draw_series(stick_key, hyper, counts[state.order])
        order = swap_neighbours(swap_key, state.order, counts, process.log_weights(series)[0])
        if any(prior is not None for prior in process.priors.values()):
            used = in_use(counts[order])
            hyper = process.redraw_from_series(hyper_key, hyper, series, used)
            tail = process.draw_series(tail_key, hyper, jnp.zeros_like(counts))
            series = jax.tree.map(lambda kept, new: jnp.where(used, kept, new), series, tail)
        by_order, log_rest = process.log_weights(series)
        return state._replace(
            position=Dist(hyper, local),
            order=order,
            log_weights=jnp.zeros_like(by_order).at[order].set(by_order),
            log_rest=log_rest,
            parameters=self.family.draw(param_key, state.sums.statistics),
        )

    def sums(self, items: PyTree, labels: Array, real: Array) -> SliceSums:
        """This shard's sums over some points."""
        labels = jnp.where(real, labels, -1)
        statistics = self.family.label_statistics(items, labels, self.capacity)
        return self._sizes(labels)._replace(statistics=statistics)

    def gains(self, batch: Batch, old: Array, new: Array) -> SliceSums:
        """What this shard's sums gain when a batch moves."""
        old, new = (jnp.where(batch.real, labels, -1) for labels in (old, new))
        statistics = self.family.moved_statistics(batch.items, old, new, self.capacity)
        gain = optax.tree.sub(self._sizes(new), self._sizes(old))
        return gain._replace(statistics=statistics)

    def _sizes(self, labels: Array) -> SliceSums:
        """Sums that leave out the statistics."""
        counts = jnp.sum(labels == jnp.arange(self.capacity)[:, None], axis=1, dtype=jnp.int32)
        return SliceSums(counts, None, jnp.zeros((), jnp.int32))
