"""Figure 1: the step size that a Stein discrepancy chooses, and the one that the ESS chooses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array

from sgmc_jax import Full, FunctionModel, Minibatch, sample, sgld
from sgmc_jax.diagnostics import ess, ksd

from ..common import COLOURS, Options, table
from ..geodesic.chains import Corrupted

PRINTED = np.array([1e-3, 1e-2, 1e-1, 1.0])  # twice our step sizes: drift h/2, noise sqrt(h)
NOISE, STEPS = 0.01, 10_000
_turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
COVARIANCE = _turn @ np.diag([2.0, 1.0]) @ _turn.T


def log_density(precision: Array, x: Array) -> Array:
    return -0.5 * x @ precision @ x


def run(options: Options) -> Iterator[str]:
    """A table and figure1.png: of each step size, and how many chains choose it."""
    chains, most = (50, 10_000) if options.full else (10, 2_000)
    precision = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)
    model = FunctionModel(jax.tree_util.Partial(log_density, precision))
    exact = Minibatch(model, Full())
    noisy = Corrupted(exact, NOISE)
    kernels = eqx.filter_vmap(lambda h: sgld(noisy, h))(jnp.asarray(PRINTED / 2))
    settings = {"num_steps": STEPS, "num_chains": chains, "kernel_axis": 0}
    draws = sample(options.key, kernels, jnp.zeros(2), None, **settings).trace
    thin = STEPS // most

    @jax.jit
    @jax.vmap
    def discrepancy(x: Array) -> Array:
        return ksd(x, -x @ precision, kind="coordinate")

    variance = np.asarray(draws.var(axis=2)).mean(axis=(1, 2))
    distances, sizes = np.zeros((0, chains)), np.zeros((0, chains))
    for rows in draws:
        distances = np.vstack([distances, discrepancy(rows[:, ::thin])])
        sizes = np.vstack([sizes, [ess(chain[None]).min() for chain in rows]])
        yield report(distances, sizes, variance)
    picture(options.out / "figure1.png", np.asarray(draws[:, 0, ::10]), distances, sizes)


def report(distances: np.ndarray, sizes: np.ndarray, variance: np.ndarray) -> str:
    """The rows of the step sizes that are judged; which is chosen is known once all are."""
    rows, judges = [], (distances.argmin(axis=0), sizes.argmax(axis=0))
    for i, (distance, size) in enumerate(zip(np.log10(distances), sizes)):
        chosen = [f"{np.mean(best == i):.0%}" for best in judges]
        rows.append(
            [
                f"{PRINTED[i]:g}",
                f"{distance.mean():.2f} ± {distance.std():.2f}",
                f"{size.mean():.0f} ± {size.std():.0f}",
                f"{variance[i]:.3f}",
                *(chosen if len(sizes) == len(PRINTED) else ["-", "-"]),
            ]
        )
    header = ["h", "log10 KSD", "ESS", "variance (1.5)", "KSD chooses it", "ESS chooses it"]
    return table(header, rows)


def picture(path: Path, draws: np.ndarray, distances: np.ndarray, sizes: np.ndarray) -> None:
    """The draws of one chain over the density, and below what judges them."""
    figure, places = plt.subplots(2, 4, figsize=(13, 6), layout="constrained")
    grid = np.stack(np.meshgrid(*[np.linspace(-5, 5, 80)] * 2), -1)
    density = np.exp(-0.5 * np.einsum("...i,ij,...j", grid, np.linalg.inv(COVARIANCE), grid))
    for ax, h, x in zip(places[0], PRINTED, draws):
        ax.contour(grid[..., 0], grid[..., 1], density, colors=COLOURS[7], linewidths=0.7)
        ax.plot(*x.T, ".", color=COLOURS[0], markersize=2)
        ax.set(title=f"h = {h:g}", xlim=(-5, 5), ylim=(-5, 5))
    for ax, value, name in zip(
        places[1], (np.log10(distances), sizes), ("log10 KSD", "ESS"), strict=False
    ):
        ax.errorbar(PRINTED, value.mean(axis=1), value.std(axis=1), color=COLOURS[1])
        ax.set(xscale="log", xlabel="h", ylabel=name)
    for ax in places[1, 2:]:
        ax.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)
