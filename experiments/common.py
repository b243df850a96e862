"""What experiments share: settings, data sets, runs that are timed, tables and curves."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from jaxtyping import Array  # noqa: E402
from scipy import sparse  # noqa: E402

from sgmc_jax import Dist, Kernel, Run, sample  # noqa: E402
from sgmc_jax.diagnostics import ess  # noqa: E402
from sgmc_jax.evaluation import NewItems  # noqa: E402

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333", "#999999")
CHANGES = 10  # of a trace, for an effective sample size of it
# data sets of several experiments: what and whose they are, and their arrays
ROWS = "`data`, `indices` and `indptr`, counts of words as compressed sparse rows"
ABSTRACTS = (
    "titles and abstracts of 27,520 papers at 22 conferences of computer science, 2015 to 2020 "
    "(conf_abstracts of shaotao on GitHub; those of 30 words or more, words of three letters or "
    "more that are in five of them, scikit-learn's English stop words left out)",
    f"{ROWS}, a document each, their `shape` (27520, 13572), the words `vocab` (13572,), and "
    "`venue` (27520,), indices into the names `venue_name` (22,), of which one is nips",
)
FACES = (
    "the 2,429 faces (those to train by) of the MIT CBCL face database 1",
    "`x` (2429, 19, 19), grey levels from 0 to 255",
)


class Options(NamedTuple):
    """One key, the size, the folders of data and of results, and what else was given."""

    key: Array
    size: str
    data_dir: Path
    out: Path
    given: argparse.Namespace = argparse.Namespace()

    @property
    def full(self) -> bool:
        return self.size == "full"


def main(
    parts: Sequence[str],
    package: str,
    what: str,
    arguments: Sequence[str] | None = None,
    *,
    sizes: Sequence[str] = ("small", "full"),
    add: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> int:
    """Run the parts of an experiment that were asked for.

    A part's `run(options)` yields its text again and again, with what it knows by then. `add` adds
    arguments of the experiment's own.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=what)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; all if none")
    parser.add_argument("--size", choices=sizes, default="small")
    of = "of the chains, and of data that a part simulates by it"
    parser.add_argument("--seed", type=int, default=0, help=of)
    beside = Path(*package.split(".")) / "output"
    parser.add_argument("--out", type=Path, default=beside)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("SGMC_JAX_DATA", "data"))
    )
    add(parser)
    given = parser.parse_args(arguments)
    for part in given.parts:
        if part not in parts:
            parser.error(f"parts must be some of {', '.join(parts)}, got {part!r}")
    given.out.mkdir(parents=True, exist_ok=True)
    key = jax.random.key(given.seed)
    options = Options(key, given.size, given.data_dir, given.out, given)
    missing = 0
    for part in given.parts or parts:
        text = None
        try:
            for text in importlib.import_module(f".{part}", package).run(options):
                (given.out / f"{part}.md").write_text(text)  # what is known so far
            if text is None:
                raise Missing("nothing was measured")
        except Missing as error:
            print(f"## {part}\n\n{error}\n", file=sys.stderr, flush=True)
            missing += 1
        else:
            print(f"## {part}\n\n{text}", flush=True)
    return int(missing > 0)


class Missing(SystemExit):
    """Data or a package that are not there: the message says what to get, and other parts go on."""


def package(name: str) -> Any:
    """A package that a part compares with, or `Missing`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"{name} is missing: pip install {name}") from error


def chain_of(kernel: Any, key: Array, state: Any, num_steps: int) -> Array:
    """The positions of a chain by a kernel of blackjax's, one a step."""

    def step(state: Any, key: Array) -> tuple[Any, Array]:
        state, _ = kernel.step(key, state)
        return state, state.position

    return jax.lax.scan(step, state, jax.random.split(key, num_steps))[1]


def found(folder: Path, name: str, what: str, holds: str = "") -> Path:
    """A file of the data's folder, or `Missing`, which says what the set is and holds."""
    path = folder / name
    if not path.is_file():
        told = f"{path} is missing: put {what} there, or name its folder by --data-dir or "
        told += "SGMC_JAX_DATA"
        raise Missing(f"{told}.\nIt holds {holds}." if holds else told)
    return path


def load(options: Options, name: str, what: str, holds: str = "") -> Any:
    """The arrays of a data set of the folder."""
    return np.load(found(options.data_dir, name, what, holds))


class Newsgroups(NamedTuple):
    """20 Newsgroups, split by date: word counts, groups, the words, and which of them are known.

    Known are the words of online LDA's vocabulary.
    """

    train: sparse.csr_matrix
    test: sparse.csr_matrix
    train_label: np.ndarray
    test_label: np.ndarray
    words: np.ndarray
    known: np.ndarray


def newsgroups(folder: Path) -> Newsgroups:
    """Read from the folder: a column for each word of the vocabulary, known or not."""
    what = "20 Newsgroups, the bydate version (20news-bydate-matlab of its home page)"
    holds = "`train_data`, `train_indices` and `train_indptr`, counts as compressed sparse rows, "
    holds += "their `train_shape` (11269, 61188), and `train_label` (11269,), groups, 0 to 19 in "
    holds += "the order of their names; the same of `test_`, of 7,505 documents; and `vocab`, the "
    holds += "bytes (uint8) of a text with the word of each column on a line"
    file = np.load(found(folder, "newsgroups20.npz", what, holds))
    what = "the vocabulary of online LDA (dictnostops.txt of onlineldavb), a word a line,"
    known = found(folder, "vocab_gutenberg_7702.txt", what).read_text()
    width = int(file["train_shape"][1])

    def part(which: str) -> sparse.csr_matrix:
        starts = file[which + "indptr"]
        cells = (file[which + "data"], file[which + "indices"].astype(int), starts)
        return sparse.csr_matrix(cells, shape=(len(starts) - 1, width))

    words = np.array(bytes(file["vocab"]).decode().split("\n"))[:width]
    labels = file["train_label"], file["test_label"]
    return Newsgroups(part("train_"), part("test_"), *labels, words, np.isin(words, known.split()))


def abstracts(folder: Path) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Word counts of abstracts of computer science without stop words, and the words."""
    file = np.load(found(folder, "cs_abstracts_2015_2020.npz", *ABSTRACTS))
    cells = (file["data"], file["indices"].astype(int), file["indptr"])
    return sparse.csr_matrix(cells, shape=tuple(file["shape"])), file["vocab"]


def word_lists(counts: sparse.csr_matrix) -> list[np.ndarray]:
    """Of each row its words, one after another, as often as they are counted."""
    words = np.repeat(counts.indices.astype(np.int32), counts.data.astype(int))
    lengths = np.asarray(counts.sum(1)).ravel().astype(int)
    return np.split(words, np.cumsum(lengths)[:-1])


def active(state: Any, info: Any) -> Array:
    """Of each draw the number of clusters, features or topics in use."""
    return info.active


def held_out_features(items: np.ndarray, noise: float, most: int = 8) -> Callable:
    """`(state, info) -> (features, log density of a held-out item)`.

    Of the last draws' `most` largest features, an item having none besides.
    """

    def record(state: Any, info: Any) -> tuple[Array, Array]:
        shared, local = state.position
        chance = state.sums.counts / (local["features"].shape[0] + 1.0)
        law = NewItems(shared["parameters"], chance, noise).largest(most)
        return info.active, jnp.mean(law.log_prob(items))

    return record


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
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a picture and let it go."""
    figure.savefig(path, dpi=120)
    plt.close(figure)


def effective(
    draws: Any, *, kind: Literal["bulk", "mean", "batch_means"] = "bulk", times: float = 0.0
) -> np.ndarray:
    """The effective sample size of draws (chain, draw, ...), NaN where they do not tell it.

    They do not tell it of what changes fewer than ten times in all chains: of a constant `ess` says
    as many as there are draws. Nor if the estimate is the largest that `ess` gives, S log10(S) of S
    draws, at which it stands still. Nor if a chain is shorter than `times` autocorrelation times:
    of a few of them the estimate is several times too large.
    """
    x = np.asarray(draws, np.float32)
    chains, length = x.shape[:2]
    size = np.asarray(ess(x, kind=kind), float)
    total = chains * (length if kind == "batch_means" else length // 2 * 2)  # as `ess` counts them
    moves = (np.diff(x, axis=1) != 0).sum(axis=(0, 1)) >= CHANGES
    inside = size < 0.999 * total * np.log10(total)
    return np.where(moves & inside & (size >= times * chains), size, np.nan)


def shown(number: float, form: str = ".2f") -> str:
    """A number for a table, "-" if it is not known."""
    return format(number, form) if np.isfinite(number) else "-"


def clocked(
    go: Callable[..., Run],
    run: Run,
    num_steps: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[Run, float]:
    """Go on from a run by so many steps: where they end, and the processor seconds of them.

    `go` is `sample` with all but `position` and `num_steps`, and makes the same chunks each time.
    Going on from a run is a program of its own, which a step that is thrown away compiles. Where
    slots are added, the seconds hold a compilation and a chunk that was made twice: as many steps
    again are timed from there, until none are added.
    """
    while True:
        go(position=run, num_steps=1)
        began = clock()
        after = go(position=run, num_steps=num_steps)
        seconds = clock() - began
        if after.capacity == run.capacity:
            return after, seconds
        run = after


class Timed(NamedTuple):
    """What was recorded of a run, its state at the end, and the processor seconds of a step."""

    trace: Any
    state: Any
    seconds: float


def one_feature(num_items: int) -> Dist:
    """The start of a feature sampler that finds all others by itself: one that all items have."""
    return Dist({}, {"features": np.ones((num_items, 1), bool)})


def timed(key: Array, kernel: Kernel, start: Any, data: Any, record: Callable, num: int) -> Timed:
    """A run of `num` steps; its second half is run again to be timed, without what is recorded.

    If slots are added in it, as many steps after it are timed.
    """
    last = num // 2
    go = partial(sample, key, kernel, data=data, record=record, chunk=last)
    first = go(position=start, num_steps=num - last)
    run = go(position=first, num_steps=last)
    _, seconds = clocked(partial(go, record=lambda state, info: info.finite), first, last)
    trace = jax.tree.map(lambda *x: np.concatenate(x), first.trace, run.trace)
    return Timed(trace, run.state, seconds / last)
