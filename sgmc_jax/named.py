"""Names of the leaves of draws: their paths."""

from __future__ import annotations

from itertools import chain, count

import jax
import numpy as np
from jaxtyping import PyTree

_DIMENSIONS = ("kernel", "chain", "draw")


def named(axes: tuple[str, ...], *trees: PyTree) -> dict[str, np.ndarray]:
    """The leaves of draws with such leading axes, by name: (chain, draw, kernel if any, ...).

    A bare array is `x`; a name that is taken, or that of a dimension, is followed by a number.
    """
    found: dict[str, np.ndarray] = {}
    leaves = [x for tree in trees for x in jax.tree_util.tree_leaves_with_path(tree)]
    for path, leaf in leaves:
        parts = [str(getattr(p, "key", getattr(p, "name", getattr(p, "idx", p)))) for p in path]
        leaf = np.asarray(leaf)
        if "chain" not in axes:
            leaf = np.expand_dims(leaf, axes.index("draw"))
        if "kernel" in axes:
            leaf = np.moveaxis(leaf, 0, 2)
        found[_unused(".".join(parts) or "x", {*found, *_DIMENSIONS})] = leaf
    return found


def at(index: tuple[int, ...]) -> str:
    """An index as part of a name; nothing of a scalar."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def _unused(name: str, taken: set[str]) -> str:
    """The name, or if it is taken the first of name_1, name_2, ... that is not."""
    numbered = (f"{name}_{i}" for i in count(1))
    return next(name for name in chain([name], numbered) if name not in taken)
