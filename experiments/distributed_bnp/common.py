"""What the parts share: settings, data sets, tables and curves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from jaxtyping import Array  # noqa: E402

from sgmc_jax import Kernel, sample  # noqa: E402
from sgmc_jax.bnp import DirichletProcess  # noqa: E402
from sgmc_jax.combinators.cycle import CycleState  # noqa: E402
from sgmc_jax.families import Family  # noqa: E402

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333")


class Options(NamedTuple):
    """One key, the size, the folders of data and of results."""

    key: Array
    full: bool
    data_dir: Path
    out: Path


def load(options: Options, name: str, what: str) -> Any:
    """A data set of the folder, or an end with a message that says what to get."""
    path = options.data_dir / name
    if not path.is_file():
        raise SystemExit(
            f"{path} is missing: put {what} there, or name its folder by --data-dir or "
            "SGMC_JAX_DATA"
        )
    return np.load(path)


def planted_mixture(n: int, clusters: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and items of normal laws of covariance I, whose means are N(0, 9 I)."""
    rng = np.random.default_rng(0)
    means = 3.0 * rng.standard_normal((clusters, dim))
    labels = rng.integers(0, clusters, n).astype(np.int32)
    return labels, (means[labels] + rng.standard_normal((n, dim))).astype(np.float32)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Lines of a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def curves(
    path: Path,
    panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    axes: tuple[str, str],
    *,
    log: bool = False,
) -> None:
    """Named curves in named panels, one picture."""
    size = (4.5 * len(panels), 3.5)
    figure, places = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for ax, (title, lines) in zip(places[0], panels.items()):
        for colour, (name, (x, y)) in zip(COLOURS, lines.items()):
            ax.plot(x, y, color=colour, label=name)
        ax.set(title=title, xlabel=axes[0], ylabel=axes[1])
        if log:
            ax.set_xscale("log")
    places[0][-1].legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


class Timed(NamedTuple):
    """What was recorded of a run, its state at the end, and the processor seconds of a step."""

    trace: Any
    state: Any
    seconds: float


def timed(key: Array, kernel: Kernel, start: Any, data: Any, record: Callable, num: int) -> Timed:
    """A run of `num` steps; its second half, all compiled by then, is run again to be timed."""
    last = num // 2
    go = partial(sample, key, kernel, data=data, record=record, chunk=last)
    first = go(position=start, num_steps=num - last)
    run = go(position=first, num_steps=last)
    began = time.process_time()
    go(position=first, num_steps=last)
    seconds = (time.process_time() - began) / last
    trace = jax.tree.map(lambda *x: np.concatenate(x), first.trace, run.trace)
    return Timed(trace, run.state, seconds)


def held_out(process: DirichletProcess, family: Family, items: Any) -> Callable:
    """`(state, info) -> (clusters, log predictive density of a held-out item)`.

    sum_k m_k f(x | members of k) / (n + a) + a f(x) / (n + a), averaged over the items; in a cycle
    the first kernel's.
    """
    items = jnp.asarray(items)

    def record(state: Any, info: Any) -> tuple[Array, Array]:
        state = state.states[0] if isinstance(state, CycleState) else state
        counts, stats = state.sums.counts, state.sums.statistics
        a = state.position.shared["concentration"]
        own = family.about(state.centre)
        law = own.predictive(stats)
        empty = own.predictive(own.zero_statistics(1, items[0]))
        log_mass = jnp.log(jnp.append(jnp.where(counts > 0, counts, 0), a) / (counts.sum() + a))

        def one(item: Array) -> Array:
            parts = (own.log_predictive_of(law, item), own.log_predictive_of(empty, item))
            return jax.nn.logsumexp(log_mass + jnp.concatenate(parts))

        return info.active, jnp.mean(jax.lax.map(one, items, batch_size=64))

    return record
