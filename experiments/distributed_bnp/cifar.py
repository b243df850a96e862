"""Figures 2 and 5, left: CIFAR-10 by its principal components, Dirichlet process mixtures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from sgmc_jax import cycle
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalInverseWishart,
    asynchronous_mixture,
    collapsed_mixture,
    hybrid_mixture,
    slice_mixture,
    split_merge,
    uncollapsed_mixture,
)

from ..common import Options, curves, load, table, timed
from .common import held_out

BLOCKS = 8
COMPONENTS = (
    "CIFAR-10 in its top 64 principal components",
    "`x_train` (50000, 64) and `x_test` (1000, 64), the first to test by: pixels / 255, less the "
    "mean of the training images, times the eigenvectors of their covariance, the largest first; "
    "and the `eigenvalues` (64,)",
)
SERIAL = "collapsed", "asynchronous (Smyth et al.)"


def run(options: Options) -> Iterator[str]:
    """A table, and figure2.png."""
    data = load(options, "cifar10_pca64.npz", *COMPONENTS)
    dims, n, num = ((8, 16, 32, 64), 5_000, 200) if options.full else ((8,), 2_000, 60)
    scale = float(np.sqrt(data["eigenvalues"][0]))
    header = ["D", "sampler", "ms a step", "held-out at the end", "clusters"]
    rows, panels = [], {}
    for dim in dims:
        x, test = (np.asarray(data[name][:, :dim]) / scale for name in ("x_train", "x_test"))
        parts = DirichletProcess(1.0), NormalInverseWishart(dim, scale=0.1)
        panels[f"{dim} dimensions"] = lines = {}
        for name, kernel in _kernels(parts).items():
            start, record = jnp.zeros(n, jnp.int32), held_out(*parts, test[:500])
            steps = num // 10 if options.full and name in SERIAL else num
            done = timed(options.key, kernel, start, x[:n], record, steps)
            active, score = (np.asarray(part, float) for part in done.trace)
            lines[name] = (done.seconds * np.arange(1, len(score) + 1), score)
            cells = [f"{1e3 * done.seconds:.1f}", f"{score[-1]:.3f}", f"{active[-1]:.0f}"]
            rows.append([dim, name, *cells])
            yield table(header, rows)
    curves(options.out / "figure2.png", panels, ("processor seconds", "held-out"), log=True)


def _kernels(parts: tuple) -> dict[str, Any]:
    return {
        "collapsed": collapsed_mixture(*parts),
        "uncollapsed": uncollapsed_mixture(*parts, tail=5),
        "slice (Ge et al.)": slice_mixture(*parts),
        "asynchronous (Smyth et al.)": asynchronous_mixture(*parts, blocks=BLOCKS),
        "hybrid": hybrid_mixture(*parts, blocks=BLOCKS),
        "hybrid, split-merge": cycle(split_merge(*parts), hybrid_mixture(*parts, blocks=BLOCKS)),
    }
