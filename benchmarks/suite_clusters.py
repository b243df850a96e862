"""What is made of draws of partitions: similarity, a point estimate, the law of new points."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from sgmc_jax import bnp
from sgmc_jax.collective import Dist

from .suite_memory import high_water_mb
from .table import Table, plain

_DRAWS, _CLUSTERS, _NEW = 100, 12, 1_000
_SECONDS, _MEMORY_MB, _NEW_SECONDS = 10.0, 2 * 1024 * 1.048576, 1.0


def run(scale: float, rounds: int) -> list[Table]:
    """One table, of the medians over processes."""
    num_items = max(500, int(10_000 * min(1.0, scale * 2)))
    measured = [_in_a_process(num_items) for _ in range(min(rounds, 3))]
    figure = {name: float(np.median([m[name] for m in measured])) for name in measured[0]}
    both = figure["similarity"] + figure["point_estimate"]
    seconds = lambda name: f"{figure[name]:.2f} s"
    bar = f"< {_SECONDS:g} s and 2 GiB, both"
    memory = f"{both:.2f} s, {figure['memory']:,.0f} MB"
    rows = [
        ["similarity", seconds("similarity"), "", ""],
        ["point_estimate", seconds("point_estimate"), "", ""],
        plain("both, and the peak", memory, bar, both < _SECONDS and figure["memory"] < _MEMORY_MB),
        plain(f"predictive of {_NEW:,} points", seconds("predictive"), *_bar(figure["predictive"])),
        ["the same, the first time", seconds("first predictive"), "", ""],
        plain("with the shares of a partition", seconds("shares"), *_bar(figure["shares"])),
        ["the same, the first time", seconds("first shares"), "", ""],
    ]
    note = (
        f"{num_items:,} items in the plane, {_DRAWS} draws of about {_CLUSTERS} clusters. CPU "
        "seconds and the peak of resident memory of a process of their own, JAX's included."
    )
    header = ["case", "measured", "bar", "met"]
    return [Table("Clusters. What is made of draws", note, header, rows)]


def _bar(seconds: float) -> tuple[str, bool]:
    return f"< {_NEW_SECONDS:g} s", seconds < _NEW_SECONDS


def _in_a_process(num_items: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.suite_clusters", str(num_items)]
    root = Path(__file__).resolve().parent.parent
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return json.loads(result.stdout)


def _problem(num_items: int) -> tuple[np.ndarray, np.ndarray]:
    """Points around centres, and draws that put one in fifty elsewhere, each with its names."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, _CLUSTERS, num_items)
    points = 4 * rng.standard_normal((_CLUSTERS, 2))[truth] + rng.standard_normal((num_items, 2))
    moved = rng.random((_DRAWS, num_items)) < 0.02
    labels = np.where(moved, rng.integers(0, _CLUSTERS, moved.shape), truth)
    names = np.argsort(rng.random((_DRAWS, _CLUSTERS)), axis=1)
    return points.astype(np.float32), np.take_along_axis(names, labels, axis=1).astype(np.int32)


def _measure(num_items: int) -> dict[str, float]:
    points, labels = _problem(num_items)
    figures = {
        "similarity": _seconds(lambda: bnp.similarity(labels)),
        "point_estimate": _seconds(lambda: bnp.point_estimate(labels)),
        "memory": high_water_mb(),
    }
    process, family = bnp.DirichletProcess(1.0), bnp.NormalInverseWishart(2)
    hyper = {"concentration": jnp.ones(_DRAWS), "discount": jnp.zeros(_DRAWS)}
    draws = Dist(hyper, {"assignment": labels})
    new = np.random.default_rng(1).standard_normal((_NEW, 2), dtype=np.float32)
    predict = partial(bnp.predictive, process, family, draws, points, new)
    share = partial(predict, partition=labels[-1])
    for name, call in (("predictive", predict), ("shares", share)):
        figures |= {f"first {name}": _seconds(call), name: _seconds(call)}
    return figures


def _seconds(function: Callable[[], Any]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
