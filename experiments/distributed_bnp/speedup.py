"""Figure 5, right: the wall-clock time of a step on one and more virtual CPU devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from sgmc_jax import Dist, Run, ShardMap, sample
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalInverseWishart,
    hybrid_mixture,
    slice_mixture,
    uncollapsed_mixture,
)

from ..common import Options, active, clocked, table
from .common import planted_mixture

DIM, CLUSTERS, BLOCKS, CAPACITY, STEPS = 8, 20, 32, 64, 10


def run(options: Options) -> Iterator[str]:
    """A table: medians over rounds, in each of which every number of devices has its turn."""
    n, devices, rounds = (100_000, (1, 2, 4, 8), 7) if options.full else (2_000, (1, 2), 3)
    workers = {p: _start_worker(p, n) for p in devices}
    turns: list[dict[int, Any]] = []
    for _ in range(rounds):
        turns.append({p: _ask(worker) for p, worker in workers.items()})
        yield _report(turns, n)
    for worker in workers.values():
        worker.communicate()


def _report(turns: list[dict[int, Any]], n: int) -> str:
    """Medians over the rounds that are known."""
    devices, rows = list(turns[0]), []
    for name in turns[0][devices[0]]:
        times = np.array([[turn[p][name] for p in devices] for turn in turns])
        ratios = np.median(times[:, :1] / times, axis=0)
        cells = [f"{t:.1f} ({r:.2f})" for t, r in zip(np.median(times, axis=0), ratios)]
        rows.append([name, *cells])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    title = f"{n:,} items, {BLOCKS} blocks; processor cores: {cores}; rounds: {len(turns)}"
    header = ["ms a step (speed-up)", *(f"{p} device{'s' * (p > 1)}" for p in devices)]
    return f"{title}\n\n{table(header, rows)}"


def _start_worker(devices: int, n: int) -> subprocess.Popen:
    """A process with that many devices of one thread each, when it has compiled everything."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_cpu_multi_thread_eigen=false"
    worker = subprocess.Popen(
        [sys.executable, "-m", __spec__.name, str(devices), str(n)],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "NPROC": "64"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _ask(worker)
    return worker


def _ask(worker: subprocess.Popen) -> Any:
    """The worker's next times."""
    assert worker.stdin is not None and worker.stdout is not None
    print(file=worker.stdin, flush=True)
    answer = worker.stdout.readline()
    if not answer:
        raise RuntimeError(f"{worker.args} ended with {worker.wait()}")
    return json.loads(answer)


def _work(devices: int, n: int, requests: Iterable[str]) -> None:
    """For every line that comes in, a line with the milliseconds of a step of each sampler."""
    labels, items = planted_mixture(n, CLUSTERS, DIM)
    start = Dist({}, {"assignment": labels})
    parts = DirichletProcess(1.0), NormalInverseWishart(DIM, mean_strength=0.1)
    kernels = {
        "hybrid": hybrid_mixture(*parts, blocks=BLOCKS, capacity=CAPACITY),
        "uncollapsed": uncollapsed_mixture(*parts, tail=5, capacity=CAPACITY),
        "slice (Ge et al.)": slice_mixture(*parts, capacity=CAPACITY),
    }
    place = {"engine": ShardMap(devices), "record": active, "chunk": STEPS + 1}
    every = partial(sample, jax.random.key(0), data=items, **place)
    go = {name: partial(every, kernel=kernel) for name, kernel in kernels.items()}
    runs = {name: one(position=start, num_steps=STEPS) for name, one in go.items()}
    for _ in requests:
        times = {name: 1e3 * _of_a_step(go[name], run) for name, run in runs.items()}
        print(json.dumps(times), flush=True)


def _of_a_step(go: Callable[..., Run], run: Run) -> float:
    """Seconds of a step: what more steps add to a call of one, which places the data too."""
    wall = partial(clocked, go, run, clock=time.perf_counter)
    return (wall(STEPS + 1)[1] - wall(1)[1]) / STEPS


if __name__ == "__main__":
    _work(int(sys.argv[1]), int(sys.argv[2]), sys.stdin)
