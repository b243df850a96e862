"""Slice sampling of Dirichlet and Pitman-Yor process mixtures, from all points or from batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import _checks
from .._types import Data, Kernel, Key, as_keys
from ..collective import Collective, Dist, Shard, as_shard
from ..families import Family
from ..processes import PitmanYor
from ..random._words import uniform, word_keys, word_pair
from ..random.feistel import random_subset
from ._blocks import start_position
from ._collapsed import pick_columns


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
    """

    position: Dist
    order: Int[Array, " K"]
    log_weights: Float[Array, " K"]
    log_rest: Float[Array, ""]
    parameters: PyTree
    sums: SliceSums


class SliceInfo(NamedTuple):
    """The number of clusters, and whether the sticks of all slots left more than a slice."""

    active: Array
    overflow: Array


class Batch(NamedTuple):
    """The points that a step moves: their rows, their items, and which rows are no padding."""

    rows: Int[Array, " n"]
    items: PyTree
    real: Bool[Array, " n"]


class SliceMixture(Kernel):
    """See `slice_mixture`."""

    process: PitmanYor
    family: Family
    batch_size: int | None = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()

    def init(self, key: Key, position: Any, data: Data) -> SliceState:
        position, shard = start_position(self.process, position, data), as_shard(data)
        own = self._sums(shard.items, position.local["assignment"], shard.mask)
        sums = self.comm.sum(own)
        weights = jnp.zeros(self.capacity, position.shared["concentration"].dtype)
        params = self.family.draw(as_keys(key).noise, sums.statistics)
        return SliceState(position, jnp.arange(self.capacity), weights, weights[0], params, sums)

    def refresh(self, key: Key, state: SliceState, data: Data) -> SliceState:
        shard = as_shard(data)
        own = self._sums(shard.items, state.position.local["assignment"], shard.mask)
        return state._replace(sums=self.comm.sum(own))

    def step(self, key: Key, state: SliceState, data: Data) -> tuple[SliceState, SliceInfo]:
        keys = as_keys(key)
        mixture_key, level_key, label_key = jax.random.split(keys.noise, 3)
        state = self._draw_mixture(mixture_key, state)
        shard, labels = as_shard(data), state.position.local["assignment"]
        batch, log_weights = self._batch(keys.batch, shard), state.log_weights
        index, old = shard.start + batch.rows, labels[batch.rows]

        level = log_weights[old] + jnp.log(_uniforms(level_key, index, log_weights.dtype))
        logits = log_weights[:, None] + jnp.zeros_like(level)
        logits = jnp.where(
            logits > level, self.family.scores(state.parameters, batch.items), -jnp.inf
        )
        new = pick_columns(logits, _uniforms(label_key, index, log_weights.dtype))
        place = jnp.where(batch.real, batch.rows, len(labels))
        moved = labels.at[place].set(new, mode="drop")
        lost = jnp.any(batch.real & (state.log_rest >= level))

        sums = self._moved_sums(keys.count, state.sums, shard, batch, moved, old, new, lost)
        position = state.position._replace(local={"assignment": moved})
        active = jnp.sum(sums.counts > 0, dtype=jnp.int32)
        return state._replace(position=position, sums=sums), SliceInfo(active, sums.overflow > 0)

    def grow(self, state: SliceState, capacity: int) -> tuple[SliceMixture, SliceState]:
        more = capacity - self.capacity
        append = lambda x: jnp.pad(x, ((0, more),) + ((0, 0),) * (x.ndim - 1))
        grown = state._replace(
            order=jnp.concatenate([state.order, jnp.arange(self.capacity, capacity)]),
            log_weights=append(state.log_weights),
            parameters=jax.tree.map(append, state.parameters),
            sums=SliceSums(
                append(state.sums.counts),
                jax.tree.map(append, state.sums.statistics),
                state.sums.overflow,
            ),
        )
        return replace(self, capacity=capacity), grown

    def check(self, position: Any, data: Data) -> None:
        if isinstance(data, Shard):
            return
        self.family.check(data)
        num_items = as_shard(data).capacity
        if self.batch_size is not None and self.batch_size > num_items:
            raise ValueError(
                f"batch_size must be at most the number of items, {num_items}, got "
                f"{self.batch_size}"
            )

    def _draw_mixture(self, key: Any, state: SliceState) -> SliceState:
        """Sticks, their order, hyper-parameters and parameters, given the points' clusters."""
        stick_key, swap_key, hyper_key, tail_key, param_key = jax.random.split(key, 5)
        process, (hyper, local), counts = self.process, state.position, state.sums.counts
        sticks = process.draw_sticks(stick_key, hyper, counts[state.order])
        order = _swap_neighbours(swap_key, state.order, counts, *sticks)
        used = jnp.flip(jax.lax.cummax(jnp.flip(counts[order] > 0).astype(jnp.int32))) > 0
        if process.prior is not None:
            used = jnp.flip(jax.lax.cummax(jnp.flip(counts[order] > 0).astype(jnp.int32))) > 0
            hyper = process.redraw_from_sticks(hyper_key, hyper, *sticks, used)
            tail = process.draw_sticks(tail_key, hyper, jnp.zeros_like(counts))
            sticks = jax.tree.map(lambda kept, new: jnp.where(used, kept, new), sticks, tail)
        by_order, log_rest = _log_weights(*sticks)
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
        num = min(self.batch_size // self.comm.size, shard.capacity)
        rows = random_subset(self.comm.local_key(key), num, shard.size, shard.capacity)
        items = jax.tree.map(lambda x: x[rows], shard.items)
        return Batch(rows, items, jnp.arange(num) < shard.size)

    def _sums(self, items: PyTree, labels: Array, real: Array) -> SliceSums:
        """This shard's sums over some points."""
        labels = jnp.where(real, labels, -1)
        counts = jnp.sum(labels == jnp.arange(self.capacity)[:, None], axis=1, dtype=jnp.int32)
        statistics = self.family.label_statistics(items, labels, self.capacity)
        return SliceSums(counts, statistics, jnp.zeros((), jnp.int32))

    def _moved_sums(
        self,
        count: Any,
        sums: SliceSums,
        shard: Shard,
        batch: Batch,
        labels: Array,
        old: Array,
        new: Array,
        lost: Array,
    ) -> SliceSums:
        """The sums after a move: the old ones, changed by the batch; all anew once an epoch.

        Without the latter the rounding errors of many changes would add up.
        """
        lost = lost.astype(jnp.int32)
        if self.batch_size is None:
            anew = self._sums(shard.items, labels, shard.mask)
            return self.comm.sum(anew._replace(overflow=lost))

        def changed() -> SliceSums:
            gain = self._sums(batch.items, new, batch.real)
            loss = self._sums(batch.items, old, batch.real)
            delta = jax.tree.map(jnp.subtract, gain, loss)._replace(overflow=lost)
            before = sums._replace(overflow=jnp.zeros_like(lost))
            return jax.tree.map(jnp.add, before, self.comm.sum(delta))

        def summed() -> SliceSums:
            return self.comm.sum(
                self._sums(shard.items, labels, shard.mask)._replace(overflow=lost)
            )

        if count is None:
            return changed()
        epoch = max(1, shard.capacity * self.comm.size // self.batch_size)
        return jax.lax.cond(count % epoch == epoch - 1, summed, changed)


def _swap_neighbours(
    key: Any, order: Array, counts: Array, log_stick: Array, log_left: Array
) -> Int[Array, " K"]:
    """Exchange the clusters of neighbouring sticks, first of even pairs, then of odd ones.

    Accepted with probability min(1, (w_j / w_{j+1})^(m_{j+1} - m_j)); without it large clusters
    hardly ever come first.
    """
    log_weights, _ = _log_weights(log_stick, log_left)
    log_ratio = log_weights[:-1] - log_weights[1:]
    uniforms = jax.random.uniform(key, log_ratio.shape, log_ratio.dtype)
    index = jnp.arange(len(order))
    for parity in (0, 1):
        sizes = counts[order]
        gain = (sizes[1:] - sizes[:-1]) * log_ratio
        swap = (index[:-1] % 2 == parity) & (jnp.log(uniforms) < gain)
        step = jnp.zeros_like(index).at[:-1].add(swap).at[1:].add(-swap.astype(index.dtype))
        order = order[index + step]
    return order


def _log_weights(log_stick: Array, log_left: Array) -> tuple[Array, Array]:
    """log w_j = log v_j + sum_{l<j} log(1 - v_l), and the log of what all of them leave."""
    total = jnp.cumsum(log_left)
    return log_stick + total - log_left, total[-1]


def _uniforms(key: Any, index: Array, dtype: Any) -> Array:
    """A number in (0, 1] for each item, by its global index."""
    (cipher,) = word_keys(key, 1)
    return uniform(word_pair(cipher, index.astype(jnp.uint32), 0, dtype)[0], dtype)


def slice_mixture(
    process: PitmanYor, family: Family, *, batch_size: int | None = None, capacity: int = 16
) -> SliceMixture:
    """Slice sampling of a Dirichlet or Pitman-Yor process mixture, without truncation.

    With sticks v_j, weights w_j = v_j prod_{l<j} (1 - v_l) and a slice u_i for each point, a step
    draws, in this order,

        v_j ~ Beta(1 - d + m_j, a + j d + sum_{l>j} m_l)      u integrated out
        theta_j ~ p(theta | members of j)
        a (and d) given the sticks in use, if they have a prior; then all other sticks
        u_i ~ Uniform(0, w_{z_i})
        z_i ~ f(x_i | theta_j) among the j with w_j > u_i     all points at once

    and exchanges clusters of neighbouring sticks. Only finitely many sticks are longer than the
    shortest slice; the runner adds slots until there are enough.

    With `batch_size`, only the points of a random batch are moved, and the sizes and statistics of
    the clusters are kept up to date. That is exact too (a random scan), and a step costs O(batch).

    Targets:
        the posterior of the partition (and of the hyper-parameters that have a prior), exactly.

    Args:
        process: `DirichletProcess(concentration)` or `PitmanYor(concentration, discount)`.
        family: the conjugate family of a cluster's items.
        batch_size: the number of points that a step moves; `None` for all. On several shards, each
            moves its share of them, drawn among its own.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain does not depend on it.

    State:
        `position = Dist(shared, local)`: the hyper-parameters, and `local["assignment"]`, (N,)
        int32, each item's slot. `log_weights`, `log_rest` and `parameters` are the mixture that a
        step has drawn. The initial position is as for `hybrid_mixture`.

    Info:
        `active`, the number of clusters; `overflow`.

    Raises:
        ValueError, TypeError: if a number is out of its range or the data unfit for the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, slice_mixture
        >>> X = jnp.concatenate([jnp.full((10, 1), -5.0), jnp.full((10, 1), 5.0)])
        >>> family = NormalKnownCovariance(jnp.zeros(1), jnp.eye(1), 25.0 * jnp.eye(1))
        >>> kernel = slice_mixture(DirichletProcess(1.0), family, batch_size=5)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=50)
        >>> run.trace.local["assignment"].shape
        (50, 20)

    Reference:
        Walker (2007), Sampling the Dirichlet mixture model with slices; Papaspiliopoulos (2008) and
        Kalli, Griffin and Walker (2011), Slice sampling mixture models, for integrating out u;
        Papaspiliopoulos and Roberts (2008) for the exchanges. Baker, Fearnhead, Fox and Nemeth
        (2018), appendix D, print the test of the remaining mass with the opposite sign.
    """
    if not isinstance(process, PitmanYor):
        raise TypeError(f"process must be a DirichletProcess or PitmanYor, got {type(process)}")
    if not isinstance(family, Family):
        raise TypeError(f"family must be a conjugate Family, got {type(family).__name__}")
    _checks.whole("capacity", capacity)
    if batch_size is not None:
        _checks.whole("batch_size", batch_size)
    return SliceMixture(process, family, batch_size, capacity)
