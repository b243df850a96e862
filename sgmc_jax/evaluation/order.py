"""Features and topics in use, and the words of a topic, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .. import _checks
from ._arrays import floating


def most_used(name: str, counts: Any, num: int) -> Int[np.ndarray, " K"]:
    """The rows in use, the most used first, of `num` rows; those as often used in their order."""
    _checks.number(name, counts)
    _checks.shaped(name, counts, num)
    if not _checks.is_concrete(counts):
        raise TypeError(f"{name} must be concrete: how many are in use is not known inside of jit")
    counts = np.asarray(counts)
    order = np.argsort(-counts.astype(float), kind="stable")  # unsigned ones have no negative
    return order[: np.count_nonzero(counts > 0)]


def likeliest(
    topics: Float[Any, "K V"], vocabulary: Sequence[str], num: int, counts: Any
) -> tuple[Int[np.ndarray, " S"], Int[np.ndarray, "S num"]]:
    """Topics, those in use if `counts` tell, and the likeliest words of each, both in order."""
    unfit = isinstance(vocabulary, Mapping | Set)
    if unfit or not hasattr(vocabulary, "__len__") or getattr(vocabulary, "ndim", 1) != 1:
        raise TypeError(f"vocabulary must be a list of words, got {type(vocabulary).__name__}")
    _checks.whole("num", num)
    rows = np.asarray(floating("topics", topics, "K", len(vocabulary)))
    slots = np.arange(len(rows)) if counts is None else most_used("counts", counts, len(rows))
    return slots, np.argsort(-rows[slots], axis=1, kind="stable")[:, :num]


def spelt(vocabulary: Sequence[str], words: Int[np.ndarray, "S num"]) -> list[list[str]]:
    """The words at these places: a series of pandas itself would look for labels of its rows."""
    listed: Any = vocabulary
    listed = listed.to_numpy() if hasattr(listed, "to_numpy") else listed
    return [[str(listed[word]) for word in row] for row in words]
