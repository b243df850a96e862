"""The two figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ..common import save

COLOURS = {"scir": "#0072b2", "sgrld": "#d55e00", "exact": "#333333"}


def draw_boxes(results: dict[str, Any], path: Path) -> None:
    """The fifth component of the sparse posterior, on the log scale."""
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    values = []
    for result in results.values():
        log = result.draws[0].astype(float)
        values.append((log[:, 4] - np.logaddexp.reduce(log, axis=-1)) / np.log(10))
    boxes = ax.boxplot(values, tick_labels=list(results), showfliers=False, patch_artist=True)
    for box, name in zip(boxes["boxes"], results):
        box.set_facecolor(COLOURS[name])
        box.set_alpha(0.5)
    ax.set_ylabel("log10 of the fifth component")
    ax.set_title("A component of a sparse Dirichlet, batches of 10 of 1,000")
    save(figure, path)


def draw_distances(results: dict[str, dict[tuple[str, int], Any]], path: Path) -> None:
    """The distance of every seed against the share of the data in a batch."""
    figure, axes = plt.subplots(1, len(results), figsize=(10, 4), layout="constrained", sharey=True)
    for ax, (posterior, runs) in zip(axes, results.items()):
        for name, colour in COLOURS.items():
            points = [(n / 1000, r.distances) for (who, n), r in runs.items() if who == name]
            share, distances = np.array([p[0] for p in points]), np.stack([p[1] for p in points])
            ax.plot(share, distances, "o", ms=3, color=colour)
            ax.plot(share, distances.mean(axis=1), color=colour, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("share of the data in a batch")
        ax.set_title(f"{posterior} Dirichlet")
    axes[0].set_ylabel("Kolmogorov-Smirnov distance")
    axes[0].legend(frameon=False)
    save(figure, path)


def draw_predictives(results: dict[str, Any], seconds: dict[str, float], path: Path) -> None:
    """The mean log predictive of the held-out users against time and passes, a line a seed.

    `seconds` are those of a pass.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for index, (name, result) in enumerate(results.items()):
        passes = np.arange(1, result.test.shape[1] + 1)
        for ax, x in zip(axes, (passes * seconds[name], passes)):
            ax.plot(x, result.test.T, color=f"C{index}", lw=0.8)
            ax.plot([], [], color=f"C{index}", label=name)
    for ax, label in zip(axes, ("seconds of processor time", "passes over the users")):
        ax.set_xscale("log")
        ax.set_xlabel(label)
    axes[0].set_ylabel("log predictive of a held-out user")
    axes[0].legend(frameon=False)
    save(figure, path)


def draw_topics(results: dict[str, dict[str, Any]], passes: Sequence[int], path: Path) -> None:
    """Perplexity against passes over the data, and against CPU time, for each corpus."""
    figure, axes = plt.subplots(2, len(results), figsize=(10, 8), layout="constrained")
    for column, (corpus, curves) in zip(np.reshape(axes, (2, -1)).T, results.items()):
        for i, (name, curve) in enumerate(curves.items()):
            for ax, scale in zip(column, (1.0, curve.seconds)):
                ax.plot(np.array(passes) * scale, curve.perplexity.T, color=f"C{i}", lw=0.5)
                mean = curve.perplexity.mean(axis=0)
                ax.plot(np.array(passes) * scale, mean, "o-", ms=3, color=f"C{i}", label=name)
        for ax, label in zip(column, ("passes over the data", "CPU seconds of a chain")):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel(label)
            ax.set_ylabel("perplexity of other documents")
        column[0].set_title(corpus)
        column[0].legend(frameon=False)
    save(figure, path)
