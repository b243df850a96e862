"""Bags of words as rows of word indices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from .._checks import is_concrete


def as_documents(counts: Any, vocabulary: int, length: int | None) -> Int[np.ndarray, "n l"]:
    """Word counts as rows of word indices, padded with -1; see `LDA.documents`."""
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
        full = longest == vocabulary and np.all(lengths == longest)
        length = longest + 1 if full else max(longest, 1)  # not to look like counts
    elif length < longest:
        raise ValueError(f"length must be at least {longest}, the longest document's, got {length}")
    tokens = np.repeat(columns, whole)
    documents = np.full((len(lengths), length), -1, np.int32)
    row = np.repeat(np.arange(len(lengths)), lengths)
    documents[row, np.arange(len(tokens)) - begin[row]] = tokens
    return documents


def compressed_rows(counts: Any, vocabulary: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, columns and row starts of a matrix, dense or sparse."""
    if isinstance(counts, tuple):
        values, columns, starts = (np.asarray(x) for x in counts)
        if len(values) != len(columns) or starts[0] != 0 or starts[-1] != len(values):
            raise ValueError(
                "counts must be (values, columns, row starts) of a compressed sparse matrix, got "
                f"{len(values)} values, {len(columns)} columns and starts up to {starts[-1]}"
            )
    elif hasattr(counts, "tocsr"):
        sparse = counts.tocsr()
        _check_width(sparse.shape[1], vocabulary)
        values, columns, starts = sparse.data, sparse.indices, sparse.indptr
    else:
        dense = np.asarray(counts)
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


def _check_width(width: int, vocabulary: int) -> None:
    if width != vocabulary:
        raise ValueError(f"counts must have {vocabulary} columns, the vocabulary, got {width}")


def check_documents(data: Any, vocabulary: int) -> None:
    """Raise unless concrete data are rows of word indices."""
    if isinstance(data, tuple | list) or hasattr(data, "todense"):
        raise TypeError(
            f"data must be rows of word indices, got {type(data).__name__}: LDA.documents makes "
            "them of dense or sparse counts"
        )
    data = np.asarray(data)
    if data.ndim != 2 or data.dtype.kind not in "iu" or not len(data):
        raise ValueError(
            f"data must be rows of word indices, as LDA.documents makes them of counts, got "
            f"{data.dtype} of shape {data.shape}"
        )
    if data.shape[1] == vocabulary and np.all(data >= 0):
        raise ValueError(
            f"data must be rows of word indices, got a matrix of {vocabulary} columns, the "
            "vocabulary, without padding (-1), which looks like counts: make documents of counts "
            "by LDA.documents; to documents that all have so many words append a column of -1"
        )
    if data.size and not -1 <= data.min() <= data.max() < vocabulary:
        raise ValueError(
            f"data must be of words 0 to {vocabulary - 1}, padded with -1, got {data.min()} to "
            f"{data.max()}"
        )
    late = np.any((data[:, :-1] < 0) & (data[:, 1:] >= 0), axis=1)
    if np.any(late):
        raise ValueError(
            f"data must have padding at the end of its rows, got words after it in row "
            f"{np.argmax(late)}"
        )


def check_topics(name: str, log_topics: Any, num_topics: int, vocabulary: int) -> None:
    """Raise unless arrays are log topics, whose rows may have any sum."""
    shape, dtype = jnp.shape(log_topics), jnp.result_type(log_topics)
    if shape[-2:] != (num_topics, vocabulary) or not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(
            f"{name} must be a floating array of shape ({num_topics}, {vocabulary}), topics and "
            f"words, as LDA.start gives, got {dtype} of shape {shape}"
        )
    if not is_concrete(log_topics):
        return
    values = np.asarray(log_topics)
    if not np.all(values < np.inf):
        raise ValueError(f"{name} must be less than infinity, got NaN or infinity")
    if vocabulary > 1 and np.all(values >= 0) and np.allclose(values.sum(-1), 1, atol=1e-3):
        raise ValueError(f"{name} must be logarithms, got probabilities; their log will do")
