"""Timing as ratios: every case once a round, in turn, so that a slow minute slows them all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np


class Case(NamedTuple):
    """Something to time: a call that does `units` units of work."""

    call: Callable[[], Any]
    units: float


class Timing(NamedTuple):
    """Seconds a unit, one for each round, and the seconds that the first call took longer."""

    seconds: np.ndarray
    compile_seconds: float

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))


class Ratio(NamedTuple):
    """The median over rounds of a ratio, and its quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def steps_of(kernel: Any, num: int) -> Callable[[Any, Any], Any]:
    """`(state, data) -> state` after some steps of a kernel, one loop of a program."""
    key = jax.random.key(0)

    def steps(state: Any, data: Any) -> Any:
        step = lambda i, state: kernel.step(jax.random.fold_in(key, i), state, data)[0]
        return jax.lax.fori_loop(0, num, step, state)

    return steps


def clock() -> float:
    """The time that other processes disturb least: the CPU's own, the wall's on a GPU."""
    return time.process_time() if jax.default_backend() == "cpu" else time.perf_counter()


def num_blocks(num_items: int) -> int:
    """Blocks of 200 items, or of 50 on a GPU, which goes through all blocks at once."""
    return max(1, num_items // (200 if jax.default_backend() == "cpu" else 50))


def race(cases: Mapping[str, Case], rounds: int) -> dict[str, Timing]:
    """Every case compiled, then all of them `rounds` times in turn."""
    gc.collect()
    gc.freeze()  # the collections before every call need not look at what is older
    first = {name: _seconds(case) for name, case in cases.items()}
    again = [{name: _seconds(case) for name, case in cases.items()} for _ in range(rounds)]
    gc.unfreeze()
    timings = {}
    for name, case in cases.items():
        seconds = np.array([one[name] for one in again])
        extra = max(first[name] - float(np.median(seconds)), 0.0)
        timings[name] = Timing(seconds / case.units, extra)
    return timings


def ratio(one: Timing, other: Timing) -> Ratio:
    """How much longer `one` takes than `other`, round by round."""
    quartiles = np.percentile(one.seconds / other.seconds, [50, 25, 75])
    return Ratio(*(float(q) for q in quartiles))


def _seconds(case: Case) -> float:
    gc.collect()
    began = clock()
    jax.block_until_ready(case.call())
    return clock() - began
