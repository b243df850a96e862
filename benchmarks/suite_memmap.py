"""Batches of a set on disk, four times as large as the memory of the process, and of one in memory.

The process of the mapped file may hold a quarter of the set's bytes: its own writable memory is
limited by the system (RLIMIT_DATA), which does not count pages of a file, so the batches give the
pages behind them back, and its peak resident memory, pages of the file included, is measured. The
file leaves the system's cache before each round, so that every batch is read from the disk.
"""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import FunctionModel, Given, Minibatch, sample, sgld

from .suite_memory import high_water_mb
from .table import Table, plain

_DIM, _BATCH, _STEPS = 64, 1_000, 2_000
_ROWS = 2**24  # of 256 bytes: 4 GiB
_GIVEN_BACK = 128  # batches
_BAR = 0.8
_CHAINS = (1, 4, 16)


def run(scale: float, rounds: int) -> list[Table]:
    """One table; `scale` shrinks the set, and what the process may hold with it."""
    num_rows = max(4 * _GIVEN_BACK * _BATCH, int(_ROWS * scale))
    size = num_rows * _DIM * 4
    allowed = max(size // 4, 2**30)  # jax itself takes half of that
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.f32"
        _write(path, num_rows)
        sides = {"disk": _Side(path, allowed), "memory": _Side(path, 0)}
        rates = {num: _race(sides, num, rounds) for num in _CHAINS}
        peak = sides["disk"].ask("peak")
        for side in sides.values():
            side.close()
    rows = [_row(num, *rates[num]) for num in _CHAINS]
    case = f"peak resident memory beside a set of {size / 2**20:.0f} MiB"
    value, bar = f"{peak * 1e6 / 2**20:.0f} MiB", f"< {allowed / 2**20:.0f} MiB"
    rows.append(plain(case, value, bar, peak * 1e6 < allowed))
    note = (
        f"Steps a second on batches of {_BATCH} rows in the order of a file that is mapped and not "
        "cached, over those on batches of an array in memory, by the wall clock: the median of the "
        "rounds' ratios, with its quartiles."
    )
    return [Table("A set on disk", note, ["case", "measured", "bar", "met"], rows)]


def _row(num_chains: int, seconds: np.ndarray, in_memory: np.ndarray) -> list[str]:
    low, median, high = np.percentile(in_memory / seconds, [25, 50, 75])
    own, other = (np.median(x) / _STEPS * 1e6 for x in (seconds, in_memory))
    case = f"chains: {num_chains}; {own:.0f} us a step from the disk, {other:.0f} from memory"
    return plain(case, f"{median:.2f} ({low:.2f}-{high:.2f})", f">= {_BAR}", bool(median >= _BAR))


def _race(sides: dict, num_chains: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of each round, on the disk and in memory, in turn; the first is the compiler's."""
    seconds = []
    for i in range(rounds + 1):
        # by turns the other first, so that a load that grows or ends favours neither
        names = list(sides)[:: 1 if i % 2 else -1]
        seconds.append({name: sides[name].ask(f"{num_chains} {i * _STEPS}") for name in names})
    return tuple(np.array([one[name] for one in seconds[1:]]) for name in ("disk", "memory"))


class _Side:
    """A process of its own, that samples when it is asked to."""

    def __init__(self, path: Path, allowed: int):
        command = [sys.executable, "-m", "benchmarks.suite_memmap", str(path), str(allowed)]
        root = Path(__file__).resolve().parent.parent
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process: Any = subprocess.Popen(command, cwd=root, **pipes)

    def ask(self, question: str) -> float:
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def _write(path: Path, num_rows: int) -> None:
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, num_rows, 2**16):
            num = min(2**16, num_rows - start)
            file.write(rng.standard_normal((num, _DIM), dtype=np.float32).tobytes())
        file.flush()
        os.fsync(file.fileno())  # pages that are not on the disk yet cannot be dropped


class _Mapped:
    """The rows of a file, and the pages of it that are held."""

    def __init__(self, path: str):
        self.file = os.open(path, os.O_RDONLY)
        self.pages = mmap.mmap(self.file, 0, prot=mmap.PROT_READ)
        self.rows = np.frombuffer(self.pages, np.float32).reshape(-1, _DIM)

    def give_back(self, start: int, length: int) -> None:
        """Unmap pages, and drop them from the system's cache."""
        start -= start % mmap.PAGESIZE
        self.pages.madvise(mmap.MADV_DONTNEED, start, length)
        os.posix_fadvise(self.file, start, length, os.POSIX_FADV_DONTNEED)

    def batches(self, first: int) -> Callable:
        """The batches from a step on, in the order of the file."""
        whole, num_bytes = len(self.rows) // _BATCH, _BATCH * _DIM * 4
        self.give_back(0, len(self.pages))

        def batch(i: int) -> np.ndarray:
            at = (first + i) % whole
            if at % _GIVEN_BACK == 0 and i:
                behind = (at or whole) - _GIVEN_BACK
                self.give_back(behind * num_bytes, _GIVEN_BACK * num_bytes)
            return self.rows[at * _BATCH : (at + 1) * _BATCH]

        return batch


class _InMemory:
    """The rows of a file, read."""

    def __init__(self, path: str):
        self.rows = np.fromfile(path, np.float32).reshape(-1, _DIM)

    def batches(self, first: int) -> Callable:
        """The same batches."""
        whole = len(self.rows) // _BATCH
        return lambda i: self.rows[(at := (first + i) % whole) * _BATCH : (at + 1) * _BATCH]


def _serve(path: str, allowed: int) -> None:
    """Answer each line: the seconds of a run, or the peak of resident memory."""
    if allowed:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    rows: _Mapped | _InMemory = _Mapped(path) if allowed else _InMemory(path)
    loglik = lambda w, row: -0.5 * (row[0] - row[1:] @ w) ** 2
    model = FunctionModel(lambda w: -0.5 * w @ w, loglik)
    kernel = sgld(Minibatch(model, Given(len(rows.rows))), 1e-9)
    warnings.simplefilter("ignore")  # so few steps are no sample
    for line in sys.stdin:
        if line.strip() == "peak":
            print(high_water_mb(), flush=True)
            continue
        num_chains, first = map(int, line.split())
        batches, began = rows.batches(first), time.perf_counter()
        start, args = jnp.zeros(_DIM - 1), {"num_chains": num_chains, "num_steps": _STEPS}
        sample(jax.random.key(0), kernel, start, batches, **args)
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
