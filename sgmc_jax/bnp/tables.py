"""What is in the clusters of a partition, and in the features of a draw, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from .. import _checks, _table
from .._frames import without_frames
from ._draws import label_draws, one_partition, present
from .groups import Groups, check_groups

_SHOWN = 60  # rows of the printed table


class Table(NamedTuple):
    """Rows with names; prints as a table.

    Attributes:
        names: the rows, clusters or features.
        columns: by name, a number for each row.

    Example:
        >>> table = Table(("0", "1"), {"size": np.array([2, 1])})
        >>> table.to_dict()["0"]["size"], str(table).split()
        (2.0, ['size', '0', '2', '1', '1'])
    """

    names: tuple[str, ...]
    columns: dict[str, np.ndarray]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The rows by name; `pandas.DataFrame.from_dict(..., orient="index")` makes a frame."""
        return _table.rows(self.names, self.columns)

    def __str__(self) -> str:
        shown = lambda column, value: f"{value:.3g}" if value % 1 else f"{value:.0f}"
        return "\n".join(_table.lines(self.names, self.columns, shown, _SHOWN))


def cluster_table(
    partition: Any, data: Any, *, draws: Any = None, columns: Sequence[str] | None = None
) -> Table:
    """The size of each cluster of a partition, and the mean and spread of its items, largest first.

    With `draws` of labels, `together` is how sure a cluster is: the posterior probability that two
    of its items, drawn at random, share a cluster, 1 for a cluster of one item.

    Args:
        partition: labels of the items, (n,), such as `point_estimate` returns.
        data: the items, (n, D) or (n,), an array or a frame of pandas, whose names of columns stay;
            or `Groups` of such items, of which the partition has one group after the other.
        draws: labels of a run, with leading axes (draw,) or (chain, draw), or draws of its
            position; optional.
        columns: names of the D columns, in place of the frame's.

    Returns:
        rows named by their labels in the partition; columns `size`, `share`, `together`, and of
        each column of the data its `mean` and its `sd` in the cluster.

    Raises:
        ValueError, TypeError: if a shape does not fit, or labels are no whole numbers.

    Example:
        >>> import numpy as np
        >>> X = np.array([[0.0, 1.0], [5.0, 5.0], [0.2, 1.0]])
        >>> print(cluster_table([0, 1, 0], X, columns=["width", "height"]))
           size  share  width mean  width sd  height mean  height sd
        0     2  0.667         0.1       0.1            1          0
        1     1  0.333           5         0            5          0
    """
    group_size = None
    if isinstance(data, Groups):
        group_size, data = data.size, _in_order(data)
    values, names = _named_columns("data", data, columns)
    given = _checks.on_host("partition", partition)
    labels = one_partition("partition", partition, len(values))
    size = np.bincount(labels)
    order = np.argsort(-size, kind="stable")
    told = {"size": size, "share": size / len(labels)}
    if draws is not None:
        told["together"] = _together(labels, size, draws, group_size)
    total = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    mean = total @ values / size[:, None]
    # of differences from the cluster's own mean: far from 0 those of squares cancel
    spread = np.sqrt(total @ (values - mean[labels]) ** 2 / size[:, None])
    for i, name in enumerate(names):
        told |= {f"{name} mean": mean[:, i], f"{name} sd": spread[:, i]}
    # labels as they were given, in whose order clusters were numbered
    rows = tuple(str(label) for label in np.unique(given)[order])
    return Table(rows, {name: x[order].astype(np.float64) for name, x in told.items()})


def feature_table(features: Any, parameters: Any, *, columns: Sequence[str] | None = None) -> Table:
    """The features of one draw: how many items have each, and its parameters; the commonest first.

    Features have no names that all draws share, so a table is of one draw, such as the last.

    Args:
        features: what each item has of each feature, whole numbers (n, K), 0 for nothing.
        parameters: a row a feature, (K, D), an array or a frame of pandas.
        columns: names of the D columns.

    Returns:
        rows named by the feature's slot, those that no item has left out; columns `size` (the items
        that have it), `share`, `mean count` of those items where one has more than one of a
        feature, and the parameters.

    Raises:
        ValueError, TypeError: if a shape does not fit, or features are no whole numbers.

    Example:
        >>> Z, A = [[1, 0, 0], [1, 0, 1]], [[2.0, 0.5], [0.0, 0.0], [-1.0, 3.0]]
        >>> print(feature_table(Z, A, columns=["left", "right"]))
           size  share  left  right
        0     2      1     2    0.5
        2     1    0.5    -1      3
    """
    values, names = _named_columns("parameters", parameters, columns)
    given = _checks.on_host("features", features)
    if given.dtype.kind not in "buif" or not np.array_equal(given, np.floor(given)):
        raise TypeError(f"features must be whole numbers, got {given.dtype}")
    if given.size and given.min() < 0:
        raise ValueError(f"features must have no negative entries, got {given.min()}")
    if given.ndim != 2 or given.shape[1] != len(values):
        raise ValueError(
            f"features must have a column for each of {len(values)} rows of parameters, got shape "
            f"{given.shape}"
        )
    size = np.sum(given > 0, axis=0)
    order = np.argsort(-size, kind="stable")[: np.count_nonzero(size)]
    told = {"size": size, "share": size / len(given)}
    if np.any(given > 1):
        told["mean count"] = given.sum(0) / np.maximum(size, 1)
    if taken := sorted(told.keys() & set(names)):
        raise ValueError(f"columns must not be called {taken}, which are columns of every table")
    told |= {name: values[:, i] for i, name in enumerate(names)}
    rows = tuple(map(str, order))
    return Table(rows, {name: x[order].astype(np.float64) for name, x in told.items()})


def _together(
    labels: Int[np.ndarray, " n"], size: Int[np.ndarray, " C"], draws: Any, group_size: Any
) -> Float[np.ndarray, " C"]:
    """sum_k n_ck (n_ck - 1) / (m_c (m_c - 1)), in the mean over draws, n_ck items in c and k."""
    drawn, pairs = label_draws(draws, group_size, "draws"), np.zeros(len(size))
    if drawn.shape[1] != len(labels):
        raise ValueError(
            f"draws must have a label for each of {len(labels)} items, got {drawn.shape[1]}"
        )
    for own in drawn:
        both = np.zeros((len(size), own.max() + 1))
        np.add.at(both, (labels, own), 1)
        # ordered pairs of C that are in one cluster of the draw, out of m (m - 1)
        pairs += np.sum(both * (both - 1), axis=1)
    return np.where(size > 1, pairs / np.maximum(len(drawn) * size * (size - 1.0), 1), 1.0)


def _in_order(groups: Groups) -> np.ndarray:
    """The items of all groups, one group after the other."""
    check_groups(groups)
    items = _checks.on_host("data.items", groups.items)
    return items[present("data", items.shape[:2], groups)]


def _named_columns(
    what: str, data: Any, columns: Sequence[str] | None
) -> tuple[Float[np.ndarray, "n D"], list[str]]:
    """Rows of numbers, and the names of their columns."""
    names = getattr(data, "columns", None) if columns is None else columns
    values = _checks.on_host(what, without_frames(what, data))
    listed = hasattr(columns, "__len__") and getattr(columns, "ndim", 1) == 1
    if columns is not None and (isinstance(columns, str | Mapping | Set) or not listed):
        raise TypeError(f"columns must be a list of names, got {_checks.shown(columns)}")
    if values.dtype.kind not in "buif" or values.ndim not in (1, 2) or not len(values):
        raise ValueError(
            f"{what} must be numbers of shape (n, D) or (n,), n at least 1, got {values.dtype} of "
            f"shape {values.shape}"
        )
    values = (values if values.ndim == 2 else values[:, None]).astype(np.float64)
    names = [f"x[{i}]" for i in range(values.shape[1])] if names is None else list(map(str, names))
    if len(names) != values.shape[1]:
        raise ValueError(f"columns must be {values.shape[1]} names, got {len(names)}")
    if len(set(names)) < len(names):
        raise ValueError(f"columns must have names of their own, got {_checks.shown(names)}")
    return values, names
