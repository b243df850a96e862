"""Figure 1: how well two clusters are told apart, by the dimension of the items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from sgmc_jax import cycle, sample
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalKnownCovariance,
    collapsed_mixture,
    hybrid_mixture,
    slice_mixture,
    split_merge,
    uncollapsed_mixture,
)

from ..common import Options, curves, table

NUM_ITEMS, BLOCKS = 100, 4


def run(options: Options) -> Iterator[str]:
    """A table and figure1.png."""
    dims, num = ((2, 10, 50, 100), 1_000) if options.full else ((2, 16), 200)
    header = ["D", "sampler", "F1, second half", "steps to F1 > .95"]
    rows, panels = [], {}
    for dim in dims:
        rng = np.random.default_rng(dim)
        truth = rng.integers(0, 2, NUM_ITEMS)
        signs = np.where(truth, 5.0, -5.0)
        items = (signs[:, None] + rng.standard_normal((NUM_ITEMS, dim))).astype(np.float32)
        panels[f"{dim} dimensions"] = lines = {}
        for name, kernel in _kernels(dim).items():
            start = jnp.zeros(NUM_ITEMS, jnp.int32)
            run = sample(options.key, kernel, start, items, num_steps=num, record=_labels)
            scores = np.array([f1(labels, truth) for labels in run.trace])
            lines[name] = (np.arange(1, num + 1), scores)
            steps = int(np.argmax(scores > 0.95)) + 1 if (scores > 0.95).any() else "never"
            rows.append([dim, name, f"{scores[num // 2 :].mean():.3f}", steps])
            yield table(header, rows)
    curves(options.out / "figure1.png", panels, ("step", "F1"), log=True)


def _kernels(dim: int) -> dict[str, Any]:
    family = NormalKnownCovariance(np.zeros(dim), np.eye(dim), 25 * np.eye(dim))
    parts = DirichletProcess(1.0), family
    return {
        "collapsed": collapsed_mixture(*parts),
        "uncollapsed": uncollapsed_mixture(*parts, tail=5),
        "slice": slice_mixture(*parts),
        "hybrid": hybrid_mixture(*parts, blocks=BLOCKS),
        "hybrid, split-merge": cycle(hybrid_mixture(*parts, blocks=BLOCKS), split_merge(*parts)),
    }


def _labels(state: Any, info: Any) -> Any:
    return state.position.local["assignment"]


def f1(labels: np.ndarray, truth: np.ndarray) -> float:
    """Of pairs of items: the harmonic mean of precision and recall of being together."""
    found, real = (x[:, None] == x for x in (labels, truth))
    both = (found & real).sum() - len(labels)
    return float(2 * both / max(found.sum() + real.sum() - 2 * len(labels), 1))
