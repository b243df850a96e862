"""Batches of windows of a series, with buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import _checks
from .._types import Data, Key, as_keys
from ..collective import Shard, as_shard, leading_axis
from ..contract import Cost
from ..random.feistel import random_subset
from .uniform import Batch, Batcher, rows


class SeriesWindow(NamedTuple):
    """One window of a series: its rows with a buffer on either side, clipped to the series.

    Attributes:
        rows: consecutive rows y of the series, a pytree of arrays (w, ...); padding is at
            the end: rows past the window's end, or repeats of the series' last one.
        share: (w,) what part of a row's term this window stands for: 0 in the buffer and in
            padding, 1 inside of a block, 1 / (the number of windows that hold the row) where
            windows overlap. Over all windows the shares of a row add up to 1.
        real: (w,) False for padding.
        first: whether the first of these rows is the first of the series.
        last: whether the last of these that is real is the last of the series.

    Example: the one window of a whole series.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Window
        >>> batch, _ = Window(None).draw(jax.random.key(0), (), jnp.array([5.0, 6.0, 7.0]))
        >>> rows, share, _, first, last = jax.tree.map(lambda x: x[0].tolist(), batch.items)
        >>> rows, share, first, last
        ([5.0, 6.0, 7.0], [1.0, 1.0, 1.0], True, True)
    """

    rows: PyTree
    share: Float[Array, " w"]
    real: Bool[Array, " w"]
    first: Bool[Array, ""]
    last: Bool[Array, ""]


class Window(Batcher):
    """Windows of a series, each with a buffer on both sides: batches of data that depend.

    A window S of `length` rows is drawn, and extended to S* by `buffer` rows on each side, clipped
    to the series of T rows. A model of series, such as `models.HiddenMarkov`, computes from all of
    S* the terms q_t of the rows in S, and the estimate is

        sum_{t in S} q_t / Pr(t in S),

    unbiased for the sum over the series but for what lies beyond the buffer, whose effect falls
    geometrically in its length. By default S is one of the K = ceil(T / length) blocks of a fixed
    partition, of which the last may be shorter, and Pr(t in S) = n / K for n windows. With
    `overlapping` it begins anywhere, at one of T - length + 1 places, and the first and the last
    rows of the series are in fewer windows than others: with c_t of them,
    Pr(t in S) = n c_t / (T - length + 1).

    The items of these batches are `SeriesWindow`s: `SAGA` keeps one term a window. Windows of one
    batch are distinct, drawn without replacement.

    Args:
        length: the number of rows of a window, at most T; `None` for the whole series as one
            window, and the exact sum.
        buffer: the number of rows on each side, at most T.
        num_windows: n, the number of windows in a batch.
        overlapping: whether windows begin anywhere. A full pass, which `ControlVariate` and `SVRG`
            make, then holds each row `length` times; blocks are the better choice there.

    Raises:
        ValueError: if a number is out of its range; at `sample`'s door if the window, the buffer or
            the batch is larger than the series, and of data in shards.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> batch, _ = Window(3, 2, num_windows=3).draw(jax.random.key(1), (), jnp.arange(8.0))
        >>> batch.weight.tolist()  # all three blocks
        [1.0, 1.0, 1.0]
        >>> last = batch.index.argmax()
        >>> batch.items.rows[last].tolist()  # rows 4, 5 are the buffer, and the series ends at 7
        [4.0, 5.0, 6.0, 7.0, 7.0, 7.0, 7.0]
        >>> batch.items.share[last].tolist()
        [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]

    Reference:
        Ma, Foti and Fox (2017), Stochastic gradient MCMC methods for hidden Markov models; Aicher
        et al. (2019), Stochastic gradient MCMC for state space models, algorithm 1. There all
        windows are divided by one probability, which is wrong near the ends if they overlap.
    """

    length: int | None = eqx.field(static=True)
    buffer: int = eqx.field(static=True, default=0)
    num_windows: int = eqx.field(static=True, default=1)
    overlapping: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.length is not None:
            _checks.whole("length", self.length)
        _checks.whole("buffer", self.buffer, minimum=0)
        _checks.whole("num_windows", self.num_windows)
        _checks.truth("overlapping", self.overlapping)
        rest = (self.buffer, self.num_windows, self.overlapping)
        if self.length is None and rest != (0, 1, False):
            raise ValueError(
                "length must be a number for a buffer, several windows or overlapping ones: of "
                "None, the whole series, there is one, without a buffer"
            )

    @property
    def exact(self) -> bool:
        return self.length is None

    @property
    def cost(self) -> Cost:
        """In rows, those of the buffers too."""
        if self.length is None:
            return Cost(passes=1)
        return Cost(self.num_windows * (self.length + 2 * self.buffer))

    def draw(self, key: Key, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        shard = self._whole(as_shard(data))
        num = self._num_windows(shard.capacity)
        index = random_subset(as_keys(key).batch, self.num_windows, num)
        weight = jnp.full(self.num_windows, num / self.num_windows, jnp.result_type(float))
        return Batch(self._windows(shard.items, index), weight, index), bstate

    def population(self, shard: Shard) -> Shard:
        num = self._num_windows(self._whole(shard).capacity)
        return Shard(self._windows(shard.items, jnp.arange(num)), num, 0, num)

    def even(self, num_items: int) -> bool:
        return True

    def check(self, data: Data) -> None:
        shard = self._whole(as_shard(data))
        if not jax.tree.leaves(shard.items):
            raise ValueError("data must have rows for windows of a series, got None")

    def _whole(self, shard: Shard) -> Shard:
        """The shard of all rows; raise unless it is, and is long enough."""
        num_rows = leading_axis(shard.items)
        if not (isinstance(shard.size, int) and shard.size == shard.total == num_rows):
            raise ValueError(
                "data must not be in shards for Window: a window at the edge of one would lack the "
                "rows of the next; run chains on the devices, over='chains'"
            )
        for name, value in (("length", self.length), ("buffer", self.buffer)):
            if value is not None and value > num_rows:
                raise ValueError(
                    f"{name} must be at most the number of rows of the series, got {value} for "
                    f"{num_rows}"
                )
        num = self._num_windows(num_rows)
        if self.num_windows > num:
            raise ValueError(
                f"num_windows must be at most the number of windows, got {self.num_windows} for "
                f"{num} of length {self.length}"
            )
        return shard

    def _num_windows(self, num_rows: int) -> int:
        """The number of all windows."""
        length = num_rows if self.length is None else self.length
        return num_rows - length + 1 if self.overlapping else -(-num_rows // max(length, 1))

    def _windows(self, items: PyTree, index: Int[Array, " n"]) -> SeriesWindow:
        """The windows of these indices."""
        num_rows = leading_axis(items)
        length = num_rows if self.length is None else self.length
        start = index * (1 if self.overlapping else length)
        begin = jnp.maximum(start - self.buffer, 0)[:, None]
        end = jnp.minimum(start + length + self.buffer, num_rows)[:, None]
        place = begin + jnp.arange(min(length + 2 * self.buffer, num_rows))
        inside = (place >= start[:, None]) & (place < start[:, None] + length) & (place < num_rows)
        share = inside / self._holding(place, num_rows, length)
        share = share.astype(jnp.result_type(float))
        first, last = begin[:, 0] == 0, end[:, 0] == num_rows
        taken = rows(items, jnp.minimum(place, num_rows - 1))
        return SeriesWindow(taken, share, place < end, first, last)

    def _holding(self, place: Int[Array, "n w"], num_rows: int, length: int) -> Any:
        """The number of windows that hold a row."""
        if not self.overlapping:
            return 1
        most = min(length, num_rows - length + 1)
        return jnp.clip(jnp.minimum(place + 1, num_rows - place), 1, most)
