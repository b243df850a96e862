"""Data as the runner sees it: resident arrays, or a stream of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import _checks
from .._functions import must_take
from ..checkpoint import contents, fingerprint, shapes
from ..collective import leading_axis

_STREAM_BYTES = 16 * 2**20
_MAX_BATCHES = 64


class Resident:
    """Data that is there as a whole."""

    max_batches = 2**31

    def __init__(self, data: PyTree):
        _checks.arrays("data", data)
        self.data = jax.tree.map(lambda x: x if isinstance(x, jax.Array) else jnp.asarray(x), data)
        self.num_items = leading_axis(self.data) if jax.tree.leaves(self.data) else None
        _checks.some_items(self.num_items)
        self.shapes = shapes(self.data)

    @property
    def first(self) -> PyTree:
        """What a kernel's `init` is given."""
        return self.data


class Stream:
    """Batches, one a step, from a function of the step index or from an iterator."""

    def __init__(self, batches: Callable | Iterator, start: int):
        self.function = batches if callable(batches) else None
        self.iterator: Any = None if callable(batches) else batches
        try:
            self.first = self._next(start)
        except StopIteration:
            raise ValueError("data must have batches, got an iterator that has ended") from None
        self.pending = [self.first] if self.function is None else []
        _checks.arrays("data", self.first)
        self.num_items = leading_axis(self.first)
        _checks.some_items(self.num_items)
        self.shapes = shapes(self.first)
        size = sum(np.asarray(x).nbytes for x in jax.tree.leaves(self.first))
        self.max_batches = int(np.clip(_STREAM_BYTES // max(size, 1), 1, _MAX_BATCHES))

    def skip(self, num_batches: int) -> None:
        """Pass over batches that an earlier run has used; a function needs no such help."""
        if self.function is None and num_batches:
            self.pending = []
            for _ in range(num_batches - 1):  # the first one has been read already
                self._next(0)

    def take(self, start: int, num: int, length: int) -> tuple[int, PyTree]:
        """The `num` batches from step `start` on, stacked, and padded to `length`.

        Returns:
            how many they are, fewer than `num` where the iterator ends, and the batches.

        Raises:
            StopIteration: if the iterator has ended.
        """
        batches = []
        for i in range(num):
            try:
                batches.append(self.pending.pop() if self.pending else self._next(start + i))
            except StopIteration:
                if not batches:
                    raise
                break
        for i, batch in enumerate(batches):
            if shapes(batch) != self.shapes:
                raise ValueError(
                    f"data must have batches of one shape, got {shapes(batch)} for batch "
                    f"{start + i} and {self.shapes} for the first"
                )
        num = len(batches)
        batches += [batches[-1]] * (length - num)
        stack = lambda *x: jnp.asarray(np.stack([np.asarray(x) for x in x]))
        return num, jax.tree.map(stack, *batches)

    def _next(self, index: int) -> PyTree:
        return next(self.iterator) if self.function is None else self.function(index)


def data_fingerprint(source: Resident | Stream) -> dict[str, str]:
    """What tells the data of a run from others: of a stream, its first batch."""
    values = contents(source.first)
    prints = {"shape of the data": source.shapes, "contents of the data": values}
    return fingerprint(**prints)


def open_data(data: Any, start: int) -> Resident | Stream:
    """The data as it is to be fed to the loop, from step `start` on."""
    if callable(data):
        must_take(data, "data", ("step",))
        return Stream(data, start)
    if isinstance(data, Iterator):
        return Stream(data, start)
    return Resident(data)
