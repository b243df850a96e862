"""Names of the leaves of draws: their paths."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count

import jax
import numpy as np
from jaxtyping import PyTree

from .collective import Dist

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


def scalars(leaves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every scalar of such leaves, (chain, draw), named by its leaf and its index in it."""
    return {
        name + at(i): x[(slice(None), slice(None), *i)]
        for name, x in leaves.items()
        for i in np.ndindex(x.shape[2:])
    }


def without_items(trace: PyTree) -> PyTree:
    """The draws but for what is of the items."""
    is_dist = lambda x: isinstance(x, Dist)
    shared = lambda x: x._replace(local=None) if is_dist(x) else x
    return jax.tree.map(shared, trace, is_leaf=is_dist)


def at(index: tuple[int, ...]) -> str:
    """An index as part of a name; nothing of a scalar."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def _unused(name: str, taken: set[str]) -> str:
    """The name, or if it is taken the first of name_1, name_2, ... that is not."""
    numbered = (f"{name}_{i}" for i in count(1))
    return next(name for name in chain([name], numbered) if name not in taken)
