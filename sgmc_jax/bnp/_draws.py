"""Draws of labels as others take them: checked, one draw a row, clusters numbered from 0."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Int, Shaped

from .. import _checks
from ..collective import Dist
from .groups import Groups

_CHAINS = 16  # rarely are there more, so that what seems to be so many may be something else


def label_draws(labels: Any, size: Any = None, name: str = "labels") -> Int[np.ndarray, "draws n"]:
    """All draws, each with its clusters numbered from 0 on, in the order of their labels.

    Of items in groups of these sizes, (S,), those of all groups, one group after the other.
    """
    lead = None
    if isinstance(labels, Dist):
        lead, labels = leading_axes(labels), _local(name, labels, "assignment")
    labels = whole_labels(name, labels)
    _check_axes(name, labels, lead, size is not None)
    if size is not None:
        labels = labels[..., present(name, labels.shape[-2:], size)]
    if 0 in labels.shape:
        raise ValueError(f"{name} must have a draw and an item, got shape {labels.shape}")
    return np.stack([_numbered(row) for row in labels.reshape(-1, labels.shape[-1])])


def leading_axes(position: Dist) -> int | None:
    """How many axes draws of a position have before its own, known if it has a scalar."""
    return min((np.ndim(x) for x in jax.tree.leaves(position.shared)), default=None)


def present(name: str, shape: tuple[int, ...], size: Any) -> Bool[np.ndarray, "S L"]:
    """Which places of groups of these sizes have an item."""
    size = _checks.on_host("size", size.size if isinstance(size, Groups) else size)
    num, width = shape
    if size.dtype.kind not in "iu":
        raise TypeError(f"size must be whole numbers, or Groups, got {size.dtype}")
    if size.shape != (num,):
        raise ValueError(
            f"size must be that of each of the {num} groups of {name}, got shape {size.shape}"
        )
    if num and not 0 <= size.min() <= size.max() <= width:
        raise ValueError(
            f"size must be between 0 and {width}, the length of a group in {name}, got "
            f"{size.min()} to {size.max()}"
        )
    return np.arange(width) < size[:, None]


def feature_draws(features: Any) -> tuple[Shaped[np.ndarray, "draws n K"], tuple[int, ...]]:
    """All draws of entries, and their leading axes."""
    if isinstance(features, Dist):
        features = _local("features", features, "features")
    entries = _checks.on_host("features", features)
    if entries.dtype.kind not in "biu":
        raise TypeError(f"features must be truths or whole numbers, got {entries.dtype}")
    if entries.ndim not in (3, 4) or 0 in entries.shape[:-1]:
        raise ValueError(
            "features must be entries of a draw and an item at least, (draw, n, K) or (chain, "
            f"draw, n, K), got shape {entries.shape}"
        )
    if entries.size and entries.min() < 0:
        raise ValueError(f"features must have no negative entries, got {entries.min()}")
    lead = entries.shape[:-2]
    return entries.reshape(math.prod(lead), *entries.shape[-2:]), lead


def checked_rows(rows: Any, num_items: int) -> Int[np.ndarray, " m"]:
    """Rows of items; raise unless there are such items."""
    rows = _checks.on_host("rows", rows)
    if rows.dtype.kind not in "iu" or rows.ndim != 1:
        raise TypeError(f"rows must be whole numbers, (m,), got {rows.dtype} of {rows.shape}")
    if np.any((rows < 0) | (rows >= num_items)):
        raise ValueError(
            f"rows must be from 0 to {num_items - 1}, got {rows.min()} to {rows.max()}"
        )
    return rows


def one_partition(name: str, labels: Any, num_items: int) -> Int[np.ndarray, " n"]:
    """A partition of `num_items` items, clusters numbered from 0 in the order of their labels."""
    labels = whole_labels(name, labels)
    if labels.shape != (num_items,):
        raise ValueError(
            f"{name} must have a label for each of {num_items} items, got shape {labels.shape}"
        )
    return _numbered(labels)


def whole_labels(name: str, labels: Any) -> np.ndarray:
    """Labels on the host; raise unless they are whole numbers."""
    array = _checks.on_host(name, labels)
    if array.dtype.kind not in "iu":
        hint = "; entries of features are for feature_similarity" if array.dtype == bool else ""
        raise TypeError(f"{name} must be whole numbers, got {array.dtype}{hint}")
    return array


def by_appearance(labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The partition with its clusters numbered in the order in which items first show them."""
    _, first, own = np.unique(labels, return_index=True, return_inverse=True)
    # the rank of a label's first item among those of all labels
    return np.argsort(np.argsort(first))[own]


def _numbered(labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def _local(name: str, position: Dist, part: str) -> Any:
    """What items have by this name in draws of a position."""
    if isinstance(position.local, dict) and part in position.local:
        return position.local[part]
    known = list(position.local) if isinstance(position.local, dict) else []
    others = "feature_similarity and representative_draw" if "features" in known else "similarity"
    hint = f": {others} may be meant" if known else ""
    raise TypeError(f"{name} must be draws of a position with {part!r}, got {known}{hint}")


def _check_axes(name: str, labels: np.ndarray, lead: int | None, grouped: bool) -> None:
    """Raise unless axes of draws come before those of the items; warn if that is unlikely."""
    axes = labels.ndim - (2 if grouped else 1)
    if axes not in (1, 2) or (lead is not None and lead != axes):
        raise ValueError(
            f"{name} must have leading axes of draws, (draw, n) or (chain, draw, n), or of items "
            "in groups, whose size= is then needed, (draw, S, L) or (chain, draw, S, L), got shape "
            f"{labels.shape} {'with' if grouped else 'without'} size; entries of features are for "
            "feature_similarity"
        )
    if lead is None and axes == 2 and not grouped and len(labels) > _CHAINS:
        warnings.warn(
            f"{name} of shape {labels.shape} are taken for those of {len(labels)} chains: labels "
            "of items in groups, (draw, S, L), need size=, and entries of features, (draw, n, K), "
            "feature_similarity; give (draw, n) or the draws of the position, run.trace, if they "
            "are of chains",
            stacklevel=4,
        )
