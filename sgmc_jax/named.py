"""Names of the leaves of draws: their paths."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .bnp.label_free import label_free
from .collective import Dist
from .contract import slot_infos

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
    found: dict[str, np.ndarray] = {}
    for name, x in leaves.items():
        for i in np.ndindex(x.shape[2:]):
            found[_unused(name + at(i), set(found))] = x[(slice(None), slice(None), *i)]
    return found


def meaningful(
    trace: PyTree, num_axes: int, slotted: tuple[bool, ...] | None, info: Any
) -> tuple[PyTree, ...]:
    """What a run tells of draws with `num_axes` leading axes, for `named`: what has a meaning.

    Not what is of items, nor of slots (`Run.slotted`), of which each chain makes something else. In
    their place it tells what labels and features of items do without their names, `bnp.traces`, or
    how many slots are in use where there are none, or those of groups, whose sizes are not known.
    """
    leaves, structure = jax.tree.flatten(trace)
    flags = jax.tree.unflatten(structure, slotted or [False] * len(leaves))
    is_dist = lambda x: isinstance(x, Dist)
    free: list[dict[str, np.ndarray]] = []

    def one(draws: Any, has_slots: Any) -> Any:
        if not is_dist(draws):
            return None if has_slots else draws
        free.append(label_free(draws.local, num_axes))
        return {**free[-1], "shared": jax.tree.map(one, draws.shared, has_slots.shared)}

    kept = jax.tree.map(one, trace, flags, is_leaf=is_dist)
    if any(free):
        return (kept,)
    return kept, *({"active": slots.active} for slots in slot_infos(info))


def at(index: tuple[int, ...]) -> str:
    """An index as part of a name; nothing of a scalar."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def _unused(name: str, taken: set[str]) -> str:
    """The name, or if it is taken the first of name_1, name_2, ... that is not."""
    numbered = (f"{name}_{i}" for i in count(1))
    return next(name for name in chain([name], numbered) if name not in taken)
