"""What a run leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from ._loop import Moments


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

        Leaves are named by their path in the position, a bare array `x`; a kernel axis becomes a
        dimension `kernel` after chain and draw.

        Raises:
            ImportError: without arviz-base.
            ValueError: if the run kept moments only.
        """
        from arviz_base import from_dict

        if isinstance(self.trace, Moments):
            raise ValueError("to_arviz needs draws, but this run kept moments only")
        posterior, stats = self._named(self.trace), self._named(self.info)
        dims = {}
        if "kernel" in self.axes:
            names = [*posterior, *stats]
            dims = {name: ["kernel"] for name in names}
        return from_dict({"posterior": posterior, "sample_stats": stats}, dims=dims)

    def _named(self, tree: PyTree) -> dict[str, np.ndarray]:
        named = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            parts = [str(getattr(p, "key", getattr(p, "name", getattr(p, "idx", p)))) for p in path]
            leaf = np.asarray(leaf)
            if "chain" not in self.axes:
                leaf = np.expand_dims(leaf, self.axes.index("draw"))
            if "kernel" in self.axes:
                leaf = np.moveaxis(leaf, 0, 2)
            named[".".join(part for part in parts if part != "kernel") or "x"] = leaf
        return named
