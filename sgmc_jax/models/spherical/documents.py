"""Documents as unit vectors, sparse: the words of each that it has, with their weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._checks import finite, is_concrete
from ...arrays import compressed_rows

_TOLERANCE = 1e-3


class UnitVectors(NamedTuple):
    """Sparse rows, of length one or zero: `values` in `columns`; what is left over is (0, 0.0).

    Example:
        >>> import numpy as np
        >>> from sgmc_jax.models import SphericalAdmixture
        >>> sam = SphericalAdmixture(2, 3, alpha=1.0, concentration=20.0, topic_concentration=1.0)
        >>> vectors = sam.documents(np.array([[3, 0, 4], [0, 1, 0]]))
        >>> vectors.columns.tolist(), vectors.values.round(4).tolist()
        ([[0, 2], [1, 0]], [[0.6, 0.8], [1.0, 0.0]])
    """

    columns: Int[Any, "n l"]
    values: Float[Any, "n l"]


def document_frequency(counts: Any, vocabulary: int) -> tuple[np.ndarray, int]:
    """In how many documents each word is, and the number of documents."""
    values, columns, starts = _cells(counts, vocabulary)
    return np.bincount(columns[values != 0], minlength=vocabulary), len(starts) - 1


def as_unit_vectors(
    counts: Any, vocabulary: int, word_weights: np.ndarray, length: int | None
) -> UnitVectors:
    """The rows `counts * word_weights`, scaled to length one."""
    values, columns, starts = _cells(counts, vocabulary)
    if values.dtype.kind not in "buif" or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise ValueError("counts must be finite numbers that are not negative")
    weights = values.astype(np.float64) * word_weights[columns]
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    kept = weights > 0
    weights, columns, row = weights[kept], columns[kept], row[kept]
    norm = np.sqrt(np.bincount(row, weights**2, minlength=len(starts) - 1))
    lengths = np.bincount(row, minlength=len(starts) - 1)
    longest = max(int(lengths.max(initial=0)), 1)
    if length is not None and length < longest:
        raise ValueError(
            f"length must be at least {longest}, the most words of a document, got {length}"
        )
    place = np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]
    shape = (len(starts) - 1, length or longest)
    values = np.zeros(shape, jnp.result_type(float))
    vectors = UnitVectors(np.zeros(shape, np.int32), values)
    vectors.columns[row, place] = columns
    vectors.values[row, place] = weights / norm[row]
    return vectors


def _cells(counts: Any, vocabulary: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`compressed_rows` with one value for each word of a document: a sparse matrix may have more.

    Its values are summed, since squares of parts are not that of the whole.
    """
    values, columns, starts = compressed_rows(counts, vocabulary)
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    cells = row * vocabulary + columns
    if np.all(cells[1:] > cells[:-1]):
        return values, columns, starts
    cells, place = np.unique(cells, return_inverse=True)
    total = np.zeros(len(cells), np.result_type(values, np.int64))
    np.add.at(total, place, values)
    return total, cells % vocabulary, np.searchsorted(cells // vocabulary, np.arange(len(starts)))


def dense(vectors: UnitVectors, vocabulary: int, dtype: Any) -> Float[Array, "n v"]:
    """The rows in full."""
    n = vectors.columns.shape[0]
    zeros = jnp.zeros((n, vocabulary), dtype)
    return zeros.at[jnp.arange(n)[:, None], vectors.columns].add(vectors.values.astype(dtype))


def check_vectors(data: Any, vocabulary: int) -> None:
    """Raise unless concrete data are unit vectors over the vocabulary."""
    if not isinstance(data, UnitVectors):
        raise TypeError(
            "data must be documents as SphericalAdmixture.documents makes them of counts, got "
            f"{type(data).__name__}"
        )
    columns, values = data
    if np.ndim(columns) != 2 or np.shape(columns) != np.shape(values):
        raise ValueError(
            f"data must have columns and values of one shape (n, l), got {np.shape(columns)} and "
            f"{np.shape(values)}"
        )
    if not (is_concrete(columns) and is_concrete(values)):
        return
    finite("data", values)
    columns, values = np.asarray(columns), np.asarray(values)
    if columns.size and not 0 <= columns.min() <= columns.max() < vocabulary:
        raise ValueError(
            f"data must be of words 0 to {vocabulary - 1}, got {columns.min()} to {columns.max()}"
        )
    norm = np.sqrt(np.sum(values.astype(np.float64) ** 2, axis=1))
    off = np.minimum(np.abs(norm - 1), norm)
    if np.any(off > _TOLERANCE):
        raise ValueError(
            f"data must be vectors of length one, or zero, got a length of "
            f"{norm[off.argmax()]:.3g} in row {off.argmax()}"
        )
