"""Bags of words, from matrices of counts to rows of word indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from .. import _checks


def word_rows(counts: Any, vocabulary: int, length: int | None = None) -> Int[np.ndarray, "n l"]:
    """Word counts as rows of word indices, padded with -1.

    Args:
        counts: (n, V), dense, or a sparse matrix of scipy, as scikit-learn's `CountVectorizer`
            makes one, or `(values, columns, row starts)`.
        vocabulary: V.
        length: of a row, at least that of the longest document.

    Example:
        >>> import numpy as np
        >>> word_rows(np.array([[2, 0, 1], [0, 1, 0]]), vocabulary=3).tolist()
        [[0, 0, 2], [1, -1, -1]]
    """
    values, columns, starts = compressed_rows(counts, vocabulary)
    if values.dtype.kind not in "buif":
        raise ValueError(f"counts must be whole numbers, got {values.dtype}")
    if values.size and not np.all(np.isfinite(values)):
        raise ValueError("counts must be finite, got NaN or infinity")
    if values.size and np.min(values) < 0:
        raise ValueError(f"counts must not be negative, got {np.min(values)}")
    whole = values.astype(np.int64)
    if np.any(whole != values):
        raise ValueError(f"counts must be whole numbers, got {values[whole != values][0]}")
    before = np.concatenate([[0], np.cumsum(whole)])
    begin, lengths = before[starts[:-1]], np.diff(before[starts])
    longest = int(lengths.max(initial=0))
    if length is None:
        length = max(longest, 1)
    _checks.whole("length", length, 0)
    if length < longest:
        raise ValueError(f"length must be at least {longest}, the longest document's, got {length}")
    tokens = np.repeat(columns, whole)
    documents = np.full((len(lengths), length), -1, np.int32)
    row = np.repeat(np.arange(len(lengths)), lengths)
    documents[row, np.arange(len(tokens)) - begin[row]] = tokens
    return documents


def compressed_rows(counts: Any, vocabulary: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, columns and row starts of a matrix, dense or sparse.

    Example:
        >>> import numpy as np
        >>> [x.tolist() for x in compressed_rows(np.array([[2, 0, 1], [0, 3, 0]]), vocabulary=3)]
        [[2, 1, 3], [0, 2, 1], [0, 2, 3]]
    """
    _checks.whole("vocabulary", vocabulary)
    if isinstance(counts, tuple):
        values, columns, starts = _three_rows(counts)
        if len(values) != len(columns) or starts[0] != 0 or starts[-1] != len(values):
            raise ValueError(
                "counts must be (values, columns, row starts) of a compressed sparse matrix, got "
                f"{len(values)} values, {len(columns)} columns and starts up to {starts[-1]}"
            )
        if np.any(starts[1:] < starts[:-1]):
            raise ValueError("counts must have row starts in their order, got some that decrease")
    elif hasattr(counts, "tocsr"):
        sparse = counts.tocsr()
        _check_width(sparse.shape[1], vocabulary)
        values, columns, starts = sparse.data, sparse.indices, sparse.indptr
    else:
        dense = _checks.on_host("counts", counts)
        if dense.ndim != 2:
            raise ValueError(f"counts must be a matrix, a row a document, got shape {dense.shape}")
        _check_width(dense.shape[1], vocabulary)
        rows, columns = np.nonzero(dense)
        values, starts = dense[rows, columns], np.searchsorted(rows, np.arange(len(dense) + 1))
    columns = columns.astype(np.int64)
    if columns.size and not 0 <= columns.min() <= columns.max() < vocabulary:
        raise ValueError(
            f"counts must be of words 0 to {vocabulary - 1}, got {columns.min()} to {columns.max()}"
        )
    return values, columns, starts.astype(np.int64)


def _three_rows(parts: tuple) -> list[np.ndarray]:
    """The parts of a compressed sparse matrix, each a row of numbers and the last two whole."""
    rows = [_checks.on_host("counts", part) for part in parts]
    whole = all(row.dtype.kind in "iu" or not row.size for row in rows[1:])
    if [row.ndim for row in rows] != [1, 1, 1] or not whole or not rows[2].size:
        got = ", ".join(f"{row.dtype}{row.shape}" for row in rows)
        raise ValueError(
            "counts must be a matrix, or (values, columns, row starts), three rows of numbers, got "
            f"({got})"
        )
    return rows


def _check_width(width: int, vocabulary: int) -> None:
    if width != vocabulary:
        raise ValueError(f"counts must have {vocabulary} columns, the vocabulary, got {width}")
