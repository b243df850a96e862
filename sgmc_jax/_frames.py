"""Frames and series of pandas, and of other libraries that are like it, as arrays of numbers; and
sparse matrices, which are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

_MOST = 4  # columns that a message names


def without_frames(name: str, tree: PyTree) -> PyTree:
    """The tree with an array of NumPy in place of each frame or series; an index is left out.

    Raises:
        TypeError: if a column is not of numbers, naming it, or what should be dense is sparse.
    """

    def leaf(path: tuple, x: Any) -> Any:
        where = f"{name}{jax.tree_util.keystr(path)}"
        dense(where, x)
        if not hasattr(x, "to_numpy"):
            return x
        return _of_frame(where, x) if hasattr(x, "columns") else _of_series(where, x)

    # JAX takes an iterator for none, and goes into a sparse matrix of its own
    is_leaf = lambda x: isinstance(x, Iterator) or is_sparse(x)
    return jax.tree_util.tree_map_with_path(leaf, tree, is_leaf=is_leaf)


def is_sparse(value: Any) -> bool:
    """Whether it is a sparse matrix, of scipy or of JAX."""
    return hasattr(value, "todense")


def dense(name: str, value: Any) -> None:
    """Raise if `value` is sparse."""
    if is_sparse(value):
        raise TypeError(
            f"{name} must be an array of numbers, got the sparse {type(value).__name__}: make it "
            "dense by its method toarray or todense"
        )


def _of_frame(where: str, frame: Any) -> np.ndarray:
    whole = np.asarray(frame)
    if whole.dtype.kind in "biuf":
        return whole
    columns = [(name, _numbers(column)) for name, column in _columns(frame)]
    if strange := [repr(name) for name, values in columns if values is None]:
        more = ", ..." if len(strange) > _MOST else ""
        raise TypeError(
            f"{where} must be a frame of numbers, got other columns, {', '.join(strange[:_MOST])}"
            f"{more}: drop them, or encode them as numbers"
        )
    return np.stack([values for _, values in columns if values is not None], axis=1)


def _of_series(where: str, series: Any) -> np.ndarray:
    values = _numbers(series)
    if values is None:
        name = getattr(series, "name", None)
        called = "" if name is None else f" {name!r}"
        raise TypeError(
            f"{where} must be of numbers, got the series{called} of {series.dtype}: encode it as "
            "numbers"
        )
    return values


def _columns(frame: Any) -> Iterator[tuple[Any, Any]]:
    if hasattr(frame, "items"):  # names need not be unique
        yield from frame.items()
        return
    for name in frame.columns:
        yield name, frame[name]


def _numbers(column: Any) -> np.ndarray | None:
    """The numbers of a column, what is missing being NaN; `None` if it has none."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values
    if getattr(column.dtype, "kind", "O") in "biuf":  # one of pandas's own, with something missing
        return column.to_numpy(dtype=float, na_value=np.nan)
    return None
