"""Figure 3: births on one block, on fewer and fewer, and always on all; 1 to 128 blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax.bnp import DirichletProcess, NormalInverseWishart, hybrid_mixture, warm_mixture

from ..common import Options, curves, table, timed
from .common import held_out, planted_mixture

CLUSTERS, DIM = 20, 8


def run(options: Options) -> Iterator[str]:
    """A table and figure3.png."""
    blocks, n, num = ((1, 4, 16, 64, 128), 2_000, 200) if options.full else ((1, 16), 1_000, 60)
    _, items = planted_mixture(n + 500, CLUSTERS, DIM)
    parts = DirichletProcess(1.0), NormalInverseWishart(DIM, mean_strength=0.1)
    record = held_out(*parts, items[n:])
    header = ["blocks", "start", "held-out", "clusters", "steps to within .05", "ms a step"]
    rows, panels = [], {"cold": {}, "warm": {}, "always hot": {}}
    for p in blocks:
        for name in panels:
            active, score, seconds = _run(options, parts, items[:n], record, p, name, num)
            panels[name][f"{p} blocks"] = (np.arange(1, num + 1), active)
            best = score.max()
            soon = int(np.argmax(score > best - 0.05)) + 1
            cells = [f"{score[-1]:.3f}", f"{active[-1]:.0f}", soon, f"{1e3 * seconds:.1f}"]
            rows.append([p, name, *cells])
            yield table(header, rows)
    curves(options.out / "figure3.png", panels, ("step", "clusters"), log=True)


def _run(
    options: Options, parts: tuple, items: np.ndarray, record: Any, p: int, name: str, num: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """The clusters and held-out scores of a whole run, its start included."""
    hybrid = hybrid_mixture(*parts, blocks=p, capacity=64)
    start, eighth = jnp.zeros(len(items), jnp.int32), num // 8
    if name == "cold":
        done = timed(options.key, hybrid, start, items, record, num)
        active, score = (np.asarray(x, float) for x in done.trace)
        return active, score, done.seconds
    cooling = eighth / max(1.0, np.log2(p)) if name == "warm" else 1e9
    warm = warm_mixture(*parts, blocks=p, cooling=cooling, capacity=max(64, p))
    steps = eighth if name == "warm" else num
    key = options.key if steps == num else jax.random.fold_in(options.key, 1)
    first = timed(key, warm, start, items, record, steps)
    traces, seconds = [first.trace], first.seconds
    if name == "warm":
        labels = first.state.position.local["assignment"]
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)
        capacity = max(64, 2 * int(labels.max() + 1))
        hybrid = hybrid_mixture(*parts, blocks=p, capacity=capacity)
        done = timed(options.key, hybrid, labels, items, record, num - eighth)
        traces.append(done.trace)
        seconds = (eighth * first.seconds + (num - eighth) * done.seconds) / num
    active, score = (np.concatenate(x).astype(float) for x in zip(*traces))
    return active, score, seconds
