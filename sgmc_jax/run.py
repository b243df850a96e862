"""What a run leaves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from .collective import Dist
from .summary import Summary, statistics

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

    def summary(self) -> Summary:
        """A table of every scalar of the draws: mean, sd, its error, ESS and R-hat.

        Rows have the names of `to_arviz`, with an index where a leaf is no scalar; of a `Dist` the
        shared part is told. With one chain there is no R-hat. All draws count, also those of a
        chain that was stopped, which the first line of the table tells.

        Returns:
            a `Summary`: `print` it, or take its `columns` or `to_dict()`.

        Raises:
            ValueError: if the run kept moments only, or fewer than 4 draws.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from sgmc_jax import Full, FunctionModel, Minibatch, mala, sample
            >>> model = FunctionModel(lambda x: -0.5 * jnp.sum((x["mu"] - 3) ** 2))
            >>> start = {"mu": jnp.zeros(2)}
            >>> kernel = mala(Minibatch(model, Full()), step_size=1.0)
            >>> run = sample(jax.random.key(0), kernel, start, None, num_steps=900, num_chains=4)
            >>> table = run.summary()
            >>> table.names, list(table.columns)
            (('mu[0]', 'mu[1]'), ['mean', 'sd', 'mcse_mean', 'ess_bulk', 'ess_tail', 'r_hat'])
            >>> print(str(table).split(",")[0])
            4 chains of 900 draws
        """
        if isinstance(self.trace, Moments):
            raise ValueError("summary needs draws, but this run kept moments only")
        named = self._named(_without_items(self.trace))
        names = [name + _at(i) for name, x in named.items() for i in np.ndindex(x.shape[2:])]
        parts = [statistics(x) for x in named.values()]
        columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        accepted = getattr(self.info.kernel, "acceptance", None)
        rate = None if accepted is None else float(np.mean(np.asarray(accepted)))
        stopped = np.asarray(self.stopped)
        num_draws = next(iter(named.values())).shape[1]
        num_stopped = int(np.sum(stopped >= 0))
        return Summary(tuple(names), columns, stopped.size, num_draws, num_stopped, rate)

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


def _without_items(trace: PyTree) -> PyTree:
    """The draws but for what is of the items."""
    is_dist = lambda x: isinstance(x, Dist)
    shared = lambda x: x._replace(local=None) if is_dist(x) else x
    return jax.tree.map(shared, trace, is_leaf=is_dist)


def _at(index: tuple[int, ...]) -> str:
    """An index as part of a name; nothing of a scalar."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def _unused(name: str, taken: set[str]) -> str:
    """The name, or if it is taken the first of name_1, name_2, ... that is not."""
    numbered = (f"{name}_{i}" for i in count(1))
    return next(name for name in chain([name], numbered) if name not in taken)
