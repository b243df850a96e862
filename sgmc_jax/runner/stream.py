"""Data as the runner sees it: resident arrays, or a stream of batches."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import _checks
from .._frames import without_frames
from .._functions import must_take
from .._types import Kernel
from ..checkpoint import contents, fingerprint, shapes
from ..collective import Shard, leading_axis
from ..contract import Contract
from .passes import endless, passes_of
from .reader import read_ahead

_STREAM_BYTES = 16 * 2**20
_MAX_BATCHES = 64


class Resident:
    """Data that is there as a whole; on the CPU, an array of numpy's is not copied.

    It stays where it is until it is put `on_device`: of what an engine shards, each device is
    given its part alone.
    """

    max_batches = 2**31

    def __init__(self, data: PyTree):
        data = without_frames("data", data)
        _checks.arrays("data", data)
        self.data = jax.tree.map(_narrowed, data)
        self.num_items = leading_axis(self.data) if jax.tree.leaves(self.data) else None
        _checks.some_items(self.num_items)
        self.shapes = shapes(self.data)

    @property
    def first(self) -> PyTree:
        """What a kernel's `init` is given."""
        return self.data

    def on_device(self) -> None:
        """Have the whole on one device, or where it is already."""
        self.data = resident(self.data)


class Stream:
    """Batches, one a step, from a function of the step index, an iterator, or pass after pass.

    A batch that is shorter than the longest one so far is padded. What a function gives up to step
    `end` is read while the steps before are made.
    """

    def __init__(
        self, batches: Callable | Iterator, start: int, end: int, *, of_passes: bool = False
    ):
        self.end, self.ahead, self.of_passes = end, None, of_passes
        self.function = batches if callable(batches) else None
        self.iterator: Any = None if callable(batches) else batches
        try:
            # a reader may fill the same array again
            self.first = jax.tree.map(_own, self._next(start))
        except StopIteration:
            raise ValueError("data must have batches, got an iterator that has ended") from None
        if not all(getattr(x, "is_fully_addressable", True) for x in jax.tree.leaves(self.first)):
            raise TypeError(
                "data must be batches that each process has as a whole, for the engine to split, "
                "got one that is spread over the processes"
            )
        self.pending = [self.first] if self.function is None else []
        _checks.arrays("data", self.first)
        self.num_items = self.num_rows = leading_axis(self.first)
        _checks.some_items(self.num_items)
        self.shapes, self.item = shapes(self.first), of_one_item(self.first)
        size = sum(np.asarray(x).nbytes for x in jax.tree.leaves(self.first))
        self.max_batches = int(np.clip(_STREAM_BYTES // max(size, 1), 1, _MAX_BATCHES))

    def on_device(self) -> None:
        """Batches are put there as they are taken."""

    def skip(self, num_batches: int) -> None:
        """Pass over batches that an earlier run has used; a function needs no such help."""
        if self.function is None and num_batches:
            self.pending = []
            try:
                for _ in range(num_batches - 1):  # the first one has been read already
                    self._next(0)
            except StopIteration:
                raise ValueError(
                    f"data must have the {num_batches} batches that the checkpoint's run has used, "
                    "got an iterator that ended before"
                ) from None

    def take(self, start: int, num: int, length: int) -> tuple[int, PyTree]:
        """What `read` returns, or as much of it as has been read already."""
        (known, reading), asked = self.ahead or (None, None), num
        if reading is not None:
            wait([reading])
        if reading is not None and known == (start, length):
            made, batches = reading.result()
        else:
            made, batches = self.read(start, num, length)
        num = min(num, made)
        begin, self.ahead = start + num, None
        more = min(asked, self.end - begin)
        if made > num:
            self.ahead = (begin, length), Future()
            self.ahead[1].set_result((made - num, _without(num, batches)))
        elif self.function is not None and more > 0:
            reading = read_ahead(self.read, begin, more, length)
            self.ahead = None if reading is None else ((begin, length), reading)
        return num, batches

    def read(self, start: int, num: int, length: int) -> tuple[int, PyTree]:
        """The `num` batches from step `start` on, stacked, and padded to `length`.

        Returns:
            how many they are, fewer than `num` where the iterator ends, and the batches: arrays,
            or a `Shard` of arrays where some are not as long as the first one.

        Raises:
            StopIteration: if the iterator has ended.
        """
        stacked, sizes = None, np.zeros(length, np.int32)
        for i in range(num):
            try:
                batch = self.pending.pop() if self.pending else self._next(start + i)
            except StopIteration:
                if i == 0:
                    raise
                num = i
                break
            check_like(batch, self.item, start + i)
            sizes[i:] = leading_axis(batch)
            self.num_rows = max(self.num_rows, int(sizes[i]))
            # at once: a reader may fill the same array again
            stacked = self._put(stacked, batch, i, length)
        repeat = lambda x: np.concatenate([x[:num], np.repeat(x[num - 1 : num], length - num, 0)])
        # which on a CPU takes what is aligned as it is
        items = jax.tree.map(lambda x: jax.device_put(x if num == length else repeat(x)), stacked)
        if np.all(sizes == self.num_items) and self.num_rows == self.num_items:
            return num, items
        return num, Shard(items, sizes, 0 * sizes, sizes)

    def _put(self, stacked: PyTree, batch: PyTree, i: int, length: int) -> PyTree:
        """The batches up to the i-th, all of them padded to the longest."""
        rows, leaves = self.num_rows, [np.asarray(x) for x in jax.tree.leaves(batch)]
        if stacked is None:
            stacked = batch
            held = [_aligned((length, rows, *x.shape[1:]), x.dtype) for x in leaves]
        else:
            held = jax.tree.leaves(stacked)
            if held and held[0].shape[1] < rows:  # copies of each one's first item, as `padded`
                held = [np.stack([padded(y, rows) for y in x]) for x in held]
        for x, new in zip(held, leaves, strict=True):
            x[i] = padded(new, rows)
        return jax.tree.unflatten(jax.tree.structure(stacked), held)

    def _next(self, index: int) -> PyTree:
        return as_batch(next(self.iterator) if self.function is None else self.function(index))


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array without values, at a multiple of 64 bytes."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def _without(num: int, batches: PyTree) -> PyTree:
    """Stacked batches without the first ones, which come last to fill up the stack."""

    def leaf(x: Any) -> Any:
        return jnp.take(jnp.asarray(x), (np.arange(len(x)) + num) % len(x), axis=0)

    return jax.tree.map(leaf, batches)


def as_batch(batch: PyTree) -> PyTree:
    """A batch as a loader gives it: of a pair as a list, which is no list of batches."""
    return as_arrays(tuple(batch) if isinstance(batch, list) else batch)


def _own(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _narrowed(x: Any) -> Any:
    """An array in the precision that is set, on the host if it was there."""
    if not isinstance(x, np.ndarray):
        return x if isinstance(x, jax.Array) else jnp.asarray(x)
    return x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False)


def resident(data: PyTree) -> PyTree:
    """The data on the device, where on a CPU it may share the memory of numpy, mapped or not."""
    put = lambda x: jax.device_put(x) if isinstance(x, np.ndarray) else jnp.asarray(x)
    return jax.tree.map(lambda x: x if isinstance(x, jax.Array) else put(x), data)


def check_like(batch: PyTree, item: list[str], index: int) -> None:
    """Raise unless the items of a batch, one at least, are as those of the first one."""
    if of_one_item(batch) != item:
        raise ValueError(
            f"data must have batches of items of one shape, got {of_one_item(batch)} for batch "
            f"{index} and {item} for the first"
        )
    if leading_axis(batch) == 0:
        raise ValueError(f"data must have at least one item a batch, got none in batch {index}")
    _checks.arrays("data", batch)


def padded(x: Any, num_rows: int) -> np.ndarray:
    """An array of items, and copies of the first one up to that number."""
    x = np.asarray(x)
    return x if len(x) == num_rows else np.concatenate([x, np.repeat(x[:1], num_rows - len(x), 0)])


def of_one_item(batch: PyTree) -> list[str]:
    """The names, shapes and dtypes of a batch's items, as text."""
    form = lambda x: f"{np.shape(x)[1:]} {getattr(x, 'dtype', type(x))}"
    named, _ = jax.tree_util.tree_flatten_with_path(batch)
    return [f"{jax.tree_util.keystr(path)} {form(x)}".lstrip() for path, x in named]


def as_arrays(batch: PyTree) -> PyTree:
    """Arrays of other libraries, such as tensors of PyTorch and frames, as those of numpy."""
    batch = without_frames("data", batch)
    known = lambda x: isinstance(x, np.ndarray | jax.Array) or not hasattr(x, "__array__")
    return jax.tree.map(lambda x: x if known(x) else np.asarray(x), batch)


def check_stream(
    source: Resident | Stream, contract: Contract, kernel: Kernel, num_steps: int, alike: bool
) -> None:
    """Raise unless a kernel may be given the data as they come; warn of what it makes of them."""
    if not isinstance(source, Stream):
        total, size = contract.stands_for, source.num_items
        if total is not None and size is not None and size < total and num_steps > 1:
            warnings.warn(
                f"data are {size} items that stand for {total} (Given), the same ones in every "
                "step: let data be an iterator of batches, or a function i -> batch",
                stacklevel=3,
            )
        return
    if not contract.streams:
        raise TypeError(
            "data is streamed, which needs the batcher Given(total), or a kernel that says "
            f"`streams`: {type(kernel).__name__} would take each batch for all of it (a draw that "
            "reads no data is draw(..., streams=True))"
        )
    if source.of_passes and contract.subtracts:
        raise ValueError(
            "data must be independent batches where their noise is subtracted, as that of a pass "
            "adds up to nearly nothing: give a function of the step, or iter(...) of such batches"
        )
    if not alike:
        warnings.warn(
            "all chains take the same batches of a stream and are not independent: R-hat and "
            "pooled standard errors are too optimistic; say share_batch=True if that is meant",
            stacklevel=3,
        )
    if contract.moves > 1:
        name, moves = type(kernel).__name__, contract.moves
        warnings.warn(
            f"{name} moves {moves} times by each batch of the stream: its noise widens variances "
            f"up to {moves} times as much as that of steps with a batch each, such as those of "
            "sample(..., thin=)",
            stacklevel=3,
        )


def data_fingerprint(source: Resident | Stream) -> dict[str, str]:
    """What tells the data of a run from others: of a stream, its first batch."""
    values = contents(source.first)
    prints = {"shape of the data": source.shapes, "contents of the data": values}
    return fingerprint(**prints)


def open_data(data: Any, start: int, num_steps: int) -> Resident | Stream:
    """The data as it is to be fed to the loop, for `num_steps` steps from `start` on."""
    end = start + num_steps
    passes = passes_of(data)
    if passes is not None:
        return Stream(endless(passes), start, end, of_passes=True)
    if callable(data):
        must_take(data, "data", ("step",))
        return Stream(data, start, end)
    if isinstance(data, Iterator):
        return Stream(data, start, end)
    return Resident(data)
