"""What a run leaves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

_DIMENSIONS = ("kernel", "chain", "draw")


class RunInfo(NamedTuple):
    """The kernel's info, whose fields are attributes here too, and whether the chain is finite."""

    finite: Any
    kernel: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.kernel, name)


class Moments(NamedTuple):
    """Streaming moments: the mean, the variance, and the sum of the weights (step sizes)."""

    mean: PyTree
    variance: PyTree
    weight: Array


class Run(eqx.Module):
    """The result of `sample`; unpacks as `trace, info, state`, and can be continued.

    Attributes:
        trace: the kept draws, host arrays with the leading axes (kernel, chain, draw), those
            present; with `reduce` the `Moments` instead.
        info: the infos of the kept draws, with the kernel's own fields and `finite`.
        state: the last state, with the leading axes (kernel, chain), those present.
        stopped: the step at which each chain turned non-finite, or -1.
        num_steps: the number of steps made in all.
    """

    trace: PyTree
    info: Any
    state: Any
    stopped: np.ndarray
    num_steps: int = eqx.field(static=True)
    axes: tuple[str, ...] = eqx.field(static=True)
    capacity: int | None = eqx.field(static=True, default=None)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.trace, self.info, self.state)

    def to_arviz(self) -> Any:
        """The draws and infos as an ArviZ `DataTree` with groups `posterior` and `sample_stats`.

        Leaves are named by their path in the position, a bare array `x`; a name that is taken, or
        that of a dimension, is followed by a number. A kernel axis becomes a dimension `kernel`
        after chain and draw.

        Raises:
            ImportError: without arviz-base.
            ValueError: if the run kept moments only.
        """
        from arviz_base import from_dict

        if isinstance(self.trace, Moments):
            raise ValueError("to_arviz needs draws, but this run kept moments only")
        finite = {"finite": self.info.finite}
        posterior, stats = self._named(self.trace), self._named(finite, self.info.kernel)
        dims = {}
        if "kernel" in self.axes:
            names = [*posterior, *stats]
            dims = {name: ["kernel"] for name in names}
        return from_dict({"posterior": posterior, "sample_stats": stats}, dims=dims)

    def _named(self, *trees: PyTree) -> dict[str, np.ndarray]:
        named: dict[str, np.ndarray] = {}
        leaves = [x for tree in trees for x in jax.tree_util.tree_leaves_with_path(tree)]
        for path, leaf in leaves:
            parts = [str(getattr(p, "key", getattr(p, "name", getattr(p, "idx", p)))) for p in path]
            leaf = np.asarray(leaf)
            if "chain" not in self.axes:
                leaf = np.expand_dims(leaf, self.axes.index("draw"))
            if "kernel" in self.axes:
                leaf = np.moveaxis(leaf, 0, 2)
            named[_unused(".".join(parts) or "x", {*named, *_DIMENSIONS})] = leaf
        return named


def _unused(name: str, taken: set[str]) -> str:
    """The name, or if it is taken the first of name_1, name_2, ... that is not."""
    numbered = (f"{name}_{i}" for i in count(1))
    return next(name for name in chain([name], numbered) if name not in taken)
