"""A gramicidin ion channel, by a hidden Markov model from windows and from all rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import ControlVariate, Minibatch, Window, find_mode, hmc, sghmc
from sgmc_jax.models import HiddenMarkov, NormalEmission

from ..common import COLOURS, Options, load, table
from .windows import log_mean_exp, row, whitened
from .windows import run as run_chains

EVERY = 5  # of the samples at 10 kHz, which a filter of 1 kHz has smoothed
MODEL = HiddenMarkov(2, NormalEmission())
HEADER = (
    "sampler",
    "low level, pS",
    "high level, pS",
    "low noise, pS",
    "high noise, pS",
    "low dwell, ms",
    "high dwell, ms",
    "held-out log density a row",
    "seconds",
    "least ESS a second",
)


def run(options: Options) -> Iterator[str]:
    """A table and ion_channel.png."""
    train, test, to_pS = recording(options)
    start = MODEL.position(
        np.array([[0.9, 0.1], [0.02, 0.98]]),
        {"mean": jnp.array([-1.9, 0.4]), "log_scale": jnp.full(2, -1.2)},
    )
    mode = find_mode(options.key, MODEL, start, train, batcher=Window(None))
    white, position = whitened(MODEL, mode, train)
    long = 10 if options.full else 1
    samplers: dict[str, tuple[Any, int, int]] = {
        "hmc, all rows": (hmc(Minibatch(white, Window(None)), 0.5, 3), 250 * long // 2, 1)
    }
    for buffer in (10, 0):
        windows = Minibatch(white, Window(50, buffer, num_windows=4))
        anchored = ControlVariate(windows, jnp.zeros(6))
        samplers[f"sghmc, windows, buffer {buffer}"] = (
            sghmc(anchored, 0.05, 2.0),
            5_000 * long,
            10,
        )
    rows, draws = [], {}
    for name, (kernel, num, thin) in samplers.items():
        trace, seconds, _ = run_chains(options.key, kernel, jnp.zeros(6), train, num, thin)
        at = jax.jit(jax.vmap(jax.vmap(position)))(trace)
        values = draws[name] = natural(at, to_pS)
        cells, spent, speed = row(values, seconds)
        rows.append([name, *cells, f"{predictive(at, train, test):.4f}", spent, speed])
        yield table(HEADER, rows)
    picture(options.out / "ion_channel.png", mode, train, draws)


def recording(options: Options) -> tuple[Array, Array, tuple[float, float]]:
    """Rows to learn from and to judge by, and what standardises them: the former's, in pS."""
    file = load(
        options,
        "ion_channel_gramA.npz",
        "30,000 conductances of a gramicidin channel (gramA of the R package clampSeg)",
        "`conductance_pS` (30000,), in pS",
    )
    values = file["conductance_pS"][::EVERY]
    cut = 5 * len(values) // 6
    mean, scale = float(values[:cut].mean()), float(values[:cut].std())
    rows = jnp.asarray((values - mean) / scale, jnp.float32)
    return rows[:cut], rows[cut:], (mean, scale)


def natural(at: Any, to_pS: tuple[float, float]) -> Float[np.ndarray, "c n 6"]:
    """Levels and noise in pS, mean dwell times in ms."""
    mean, scale = to_pS
    stay = jax.vmap(jax.vmap(lambda x: jnp.diagonal(MODEL.transition_matrix(x))))(at)
    levels = mean + scale * np.asarray(at["emission"]["mean"])
    noise = scale * np.exp(at["emission"]["log_scale"])
    return np.concatenate([levels, noise, 0.1 * EVERY / (1 - np.asarray(stay))], axis=-1)


def predictive(at: Any, train: Array, test: Array, num: int = 50) -> float:
    """log of the posterior mean of p(test | train, parameters), a row."""
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), at)
    every = max(1, len(flat["transition"]) // num)
    some = jax.tree.map(lambda x: x[::every][:num], flat)
    both = jnp.concatenate([train, test])
    gain = lambda x: MODEL.log_likelihood(x, both) - MODEL.log_likelihood(x, train)
    return log_mean_exp(np.asarray(jax.jit(jax.vmap(gain))(some), np.float64)) / len(test)


def picture(path: Path, mode: Any, train: Array, draws: dict) -> None:
    """Some rows with the states' law, and histograms of the dwell times."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    law = np.asarray(eqx.filter_jit(MODEL.smoothed)(mode, train))[1_150:1_450, 1]
    axes[0].plot(np.asarray(train)[1_150:1_450], ".", color="0.6", markersize=3)
    levels = np.asarray(mode["emission"]["mean"])
    axes[0].plot(levels[0] + (levels[1] - levels[0]) * law, color=COLOURS[1], linewidth=0.8)
    axes[0].set(xlabel="row", ylabel="standardised conductance")
    for colour, (name, values) in zip(COLOURS, draws.items()):
        for ax, column in zip(axes[1:], (4, 5)):
            shown = values[..., column].ravel()
            ax.hist(shown, 40, density=True, histtype="step", color=colour, label=name)
    axes[1].set(xlabel="low dwell, ms"), axes[2].set(xlabel="high dwell, ms")
    axes[2].legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
