"""Columns of numbers by rows with names: a dict, or lines of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Columns = dict[str, np.ndarray]


def rows(names: Sequence[str], columns: Columns) -> dict[str, dict[str, float]]:
    """The rows by name."""
    return {
        name: {column: float(x[i]) for column, x in columns.items()} for i, name in enumerate(names)
    }


def lines(
    names: Sequence[str], columns: Columns, shown: Callable[[str, float], str], most: int
) -> list[str]:
    """A head and the first rows, aligned; `shown` writes a column's number."""
    cells = [["", *columns]]
    for i, name in enumerate(names[:most]):
        cells.append([name, *(shown(column, x[i]) for column, x in columns.items())])
    widths = [max(map(len, column)) for column in zip(*cells)]
    text = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells
    ]
    more = len(names) - most
    return text + ([f"... and {more} more"] if more > 0 else [])
