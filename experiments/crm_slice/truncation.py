"""Figure 3b: the error of held-out items, truncated at several levels and adaptively."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax import Kernel, sample
from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, slice_features
from sgmc_jax.evaluation import held_out_error
from sgmc_jax.processes import Bernoulli, BetaProcess, bondesson

from ..common import Options, clocked, curves, one_feature, table
from .comparators import truncated
from .features import draw

TRAIN, TEST, FEATURES, DIM = 300, 200, 20, 12
NOISE, SCALE, MASS = 0.5, 0.5, 2.0
LEVELS = (5, 10, 15, 20, 30)


class Curve(NamedTuple):
    """Seconds of processor time, the held-out error by then, and the number of features."""

    seconds: np.ndarray
    error: np.ndarray
    features: np.ndarray


def kernels() -> dict[str, Kernel]:
    """The slice sampler, and Gibbs samplers of its model with the first K atoms."""
    family, process = LinearGaussian(DIM, NOISE, SCALE), BetaBernoulli(MASS)
    series = bondesson(BetaProcess(MASS))
    cut = {f"K = {num}": truncated(series, Bernoulli(), family, num) for num in LEVELS}
    return {"slice": slice_features(process, family, decay=1.0, capacity=32)} | cut


def measure(key: Array, kernel: Kernel, train: Any, test: Any, num: int, thin: int) -> Curve:
    """A run from no features but one, the error of its draws, and as many steps after it, timed."""

    def record(state: Any, info: Any) -> tuple[Array, Array]:
        return state.position.shared["parameters"] * (state.sums.counts > 0)[:, None], info.active

    go = partial(sample, key, kernel, data=train, thin=thin, record=record, chunk=num)
    run = go(position=one_feature(len(train)), num_steps=num)
    values, active = run.trace
    seconds = clocked(go, run, num)[1] / len(values)
    error = lambda values: jnp.mean(held_out_error(key, values, test))
    errors = jax.lax.map(error, jnp.asarray(values))
    steps = seconds * np.arange(1, len(values) + 1)
    return Curve(steps, np.asarray(errors), np.asarray(active))


def run(options: Options) -> Iterator[str]:
    """A table and figure3b.png."""
    num, thin, trials = (1_000, 10, 5) if options.full else (200, 10, 1)
    found: dict[str, list[Curve]] = {}
    for seed in range(trials):
        items = draw(TRAIN + TEST, FEATURES, DIM, MASS, NOISE, SCALE, seed).items
        train, test = jnp.asarray(items[:TRAIN]), jnp.asarray(items[TRAIN:])
        for name, kernel in kernels().items():
            key = jax.random.fold_in(options.key, seed)
            found.setdefault(name, []).append(measure(key, kernel, train, test, num, thin))
            yield report(found, thin)
    lines = {
        name: tuple(np.mean([(c.seconds, c.error) for c in each], axis=0))
        for name, each in found.items()
    }
    axes = ("seconds", "held-out error")
    curves(options.out / "figure3b.png", {"": lines}, axes, log=True)


def report(found: dict[str, list[Curve]], thin: int) -> str:
    """A table of the last halves, over as many data sets as are known."""
    rows = []
    for name, each in found.items():
        errors = np.array([c.error for c in each])
        half = slice(errors.shape[1] // 2, None)
        active = np.mean([c.features[half] for c in each])
        spread = errors[:, half].mean(1).std()
        seconds = np.mean([c.seconds[0] for c in each]) / thin
        cells = [f"{errors[:, half].mean():.4f}", f"{spread:.4f}", f"{active:.1f}"]
        rows.append([name, len(each), *cells, f"{1e3 * seconds:.2f}"])
    header = ["sampler", "data sets", "error", "spread of the sets", "features in use", "ms a step"]
    return table(header, rows)
