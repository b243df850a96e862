"""The two pictures of the quickstart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from .compare import MEAN_BAR, SD_BAR, Draws, moments
from .problems import Problem

COLOURS = {"sgld": "#0072b2", "sghmc": "#d55e00", "sgnht": "#009e73", "hmc": "#333333"}
KINDS = {"plain": "plain minibatches", "control variate": "control variates"}


def draw_moments(
    draws: list[Draws], exact: Draws, problem: Problem, names: list[str], path: Path
) -> None:
    """Every coefficient's mean and sd by the six kernels, relative to the reference."""
    figure, axes = _figure(2, 2, (11, 7.5), sharex=True, sharey="row")
    true_mean, true_sd = moments(problem.coefficients(exact.z))
    where = np.arange(len(names))
    for one in draws:
        kernel, kind = one.name.split(", ")
        mean, sd = moments(problem.coefficients(one.z))
        column = axes[:, list(KINDS).index(kind)]
        shift = 0.24 * (list(COLOURS).index(kernel) - 1)
        for ax, value in zip(column, ((mean - true_mean) / true_sd, sd / true_sd)):
            ax.plot(where + shift, value, "o", ms=3.5, color=COLOURS[kernel], label=kernel)
    for row, middle, bar in zip(axes, (0, 1), (MEAN_BAR, SD_BAR)):
        row[0].set_ylim(middle - 1.3 * bar, middle + 1.3 * bar)
        for ax in row:
            ax.axhspan(middle - bar, middle + bar, color="0.92", zorder=0, lw=0, label="the bar")
            ax.axhline(middle, color="0.6", lw=0.8, zorder=1)
            ax.set_xlim(-0.7, len(names) - 0.3)
    for ax, title in zip(axes[0], KINDS.values()):
        ax.set_title(title)
    for ax in axes[1]:
        ax.set_xticks(where, names, rotation=90, fontsize=7)
    axes[0, 0].set_ylabel("error of the posterior mean / sd")
    axes[1, 0].set_ylabel("posterior sd / reference sd")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=4, loc="outside upper right", frameon=False)
    figure.suptitle("Breast cancer, 31 coefficients: six kernels against exact HMC", x=0.35)
    figure.savefig(path)


def draw_runs(
    draws: list[Draws],
    exact: Draws,
    problem: Problem,
    names: list[str],
    curves: dict[str, np.ndarray],
    map_loss: float,
    path: Path,
) -> None:
    """Three marginal densities, and the digits' held-out log-loss along the runs."""
    figure, axes = _figure(2, 2, (10, 7))
    true_mean, true_sd = moments(problem.coefficients(exact.z))
    off = np.argsort(-np.abs(problem.mode - true_mean) / true_sd)[:3]
    for ax, index in zip(axes.flat, off):
        _marginal(ax, draws, exact, problem, int(index))
        ax.set_title(f"breast cancer: {names[index]}")
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper left")
    _curves(axes[1, 1], curves, map_loss)
    figure.savefig(path)


def _figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=size, dpi=130, layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, **options)


def _marginal(ax: Any, draws: list[Draws], exact: Draws, problem: Problem, index: int) -> None:
    column = problem.coefficients(exact.z)[..., index].ravel()
    grid = np.linspace(*np.quantile(column, (0.0005, 0.9995)), 36)
    middle = (grid[1:] + grid[:-1]) / 2
    ax.fill_between(middle, _density(column, grid), color="0.85", lw=0, label="hmc, exact")
    for one in draws:
        kernel, kind = one.name.split(", ")
        if kind == "control variate":
            value = problem.coefficients(one.z)[..., index].ravel()
            ax.plot(middle, _density(value, grid), color=COLOURS[kernel], lw=1.2, label=one.name)
    sd = np.linalg.norm(problem.factor[index])
    normal = np.exp(-(((middle - problem.mode[index]) / sd) ** 2) / 2) / sd / np.sqrt(2 * np.pi)
    ax.plot(middle, normal, "--", color="0.4", lw=1, label="normal at the mode")
    ax.set(ylim=(0, None), yticks=[], xlabel="coefficient")


def _density(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    return np.histogram(x, grid)[0] / len(x) / (grid[1] - grid[0])


def _curves(ax: Any, curves: dict[str, np.ndarray], map_loss: float) -> None:
    for name, loss in curves.items():
        style = "--" if "plain" in name else "-"
        share = np.arange(1, len(loss) + 1) / len(loss)
        ax.plot(share, loss, style, color=COLOURS[name.split(",")[0]], lw=1.4, label=name)
    ax.axhline(map_loss, color="0.6", lw=1, ls=":", label="the mode alone")
    ax.set(xlabel="share of the run", ylabel="held-out log-loss, average so far")
    ax.set_title("digits: predictions along the run")
    ax.legend(frameon=False, fontsize=8)
