"""What experiments share: settings, data sets, runs that are timed, tables and curves."""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from jaxtyping import Array  # noqa: E402

from sgmc_jax import Dist, Kernel, sample  # noqa: E402

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333", "#999999")


class Options(NamedTuple):
    """One key, the size, the folders of data and of results."""

    key: Array
    full: bool
    data_dir: Path
    out: Path


def main(
    parts: Sequence[str], package: str, what: str, arguments: Sequence[str] | None = None
) -> int:
    """Run the parts of an experiment that were asked for."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=what)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; all if none")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--seed", type=int, default=0)
    beside = Path(*package.split(".")) / "output"
    parser.add_argument("--out", type=Path, default=beside)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("SGMC_JAX_DATA", "data"))
    )
    given = parser.parse_args(arguments)
    for part in given.parts:
        if part not in parts:
            parser.error(f"parts must be some of {', '.join(parts)}, got {part!r}")
    given.out.mkdir(parents=True, exist_ok=True)
    key = jax.random.key(given.seed)
    options = Options(key, given.size == "full", given.data_dir, given.out)
    for part in given.parts or parts:
        text = importlib.import_module(f".{part}", package).run(options)
        (given.out / f"{part}.md").write_text(text)
        print(f"## {part}\n\n{text}", flush=True)
    return 0


def load(options: Options, name: str, what: str) -> Any:
    """A data set of the folder, or an end with a message that says what to get."""
    path = options.data_dir / name
    if not path.is_file():
        raise SystemExit(
            f"{path} is missing: put {what} there, or name its folder by --data-dir or "
            "SGMC_JAX_DATA"
        )
    return np.load(path)


def vocabulary(options: Options) -> list[str]:
    """The words of online LDA."""
    path = options.data_dir / "vocab_gutenberg_7702.txt"
    if not path.is_file():
        raise SystemExit(f"{path} is missing: put the vocabulary of online LDA there")
    return path.read_text().split()


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


def one_feature(num_items: int) -> Dist:
    """The start of a feature sampler that finds all others by itself: one that all items have."""
    return Dist({}, {"features": np.ones((num_items, 1), bool)})


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
