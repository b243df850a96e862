"""Draws of labels as others take them: checked, one draw a row, clusters numbered from 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from .. import _checks


def label_draws(labels: Any) -> Int[np.ndarray, "draws n"]:
    """All draws, each with its clusters numbered from 0 on, in the order of their labels."""
    labels = whole_labels("labels", labels)
    if labels.ndim < 2:
        raise ValueError(
            "labels must have leading axes of draws, (draw, n) or (chain, draw, n), got shape "
            f"{labels.shape}"
        )
    if 0 in labels.shape:
        raise ValueError(f"labels must have a draw and an item, got shape {labels.shape}")
    return np.stack([_numbered(row) for row in labels.reshape(-1, labels.shape[-1])])


def one_partition(name: str, labels: Any, num_items: int) -> Int[np.ndarray, " n"]:
    """A partition of so many items, its clusters numbered from 0 in the order of their labels."""
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
        raise TypeError(f"{name} must be whole numbers, got {array.dtype}")
    return array


def by_appearance(labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The partition with its clusters numbered in the order in which items first show them."""
    _, first, own = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[own]


def _numbered(labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)
