"""Which sampler for how many items, dimensions and features: one posterior, four kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax import Dist, Kernel, cycle, sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    LinearGaussian,
    collapsed_features,
    hybrid_features,
    slice_features,
)

from ..common import Options, clocked, effective, shown, table
from .features import draw

NOISE, SCALE, MASS, PER_BLOCK = 0.5, 1.0, 1.0, 50
CHAINS, ROUNDS = 4, 4
TIMES = 50  # autocorrelation times that a chain must have, for an error and an ESS of it
HEADER = ("items", "dimensions", "in the data", "sampler", "ms a step")
HEADER += ("features", "ESS a second", "entries", "ESS a second")


class Size(NamedTuple):
    """Of a problem: items, dimensions, features to plant, and the deviation of the noise."""

    items: int
    dim: int
    features: int
    noise: float = NOISE


def kernels(size: Size) -> dict[str, tuple[Kernel, int]]:
    """Samplers of one posterior, and how many steps of each cost about as much."""
    parts = BetaBernoulli(MASS), LinearGaussian(size.dim, size.noise, SCALE)
    blocks = size.items // PER_BLOCK
    slices = slice_features(*parts, decay=2.0, capacity=32)
    hybrid = hybrid_features(*parts, blocks=blocks, capacity=32)
    return {
        "slice": (slices, 4),
        f"hybrid, {blocks} blocks": (hybrid, 2),
        "both in turn": (cycle(slices, hybrid), 1),
        "collapsed": (collapsed_features(*parts, capacity=32), 1),
    }


class Found(NamedTuple):
    """Of the numbers of features and of entries: means, errors, ESS a second; seconds a step."""

    means: np.ndarray
    errors: np.ndarray
    speeds: np.ndarray
    seconds: float


def record(state: Any, info: Any) -> Array:
    """The number of features and that of entries."""
    z = state.position.local["features"]
    return jnp.stack([jnp.sum(jnp.any(z, axis=0)), jnp.sum(z)]).astype(jnp.float32)


def measure(
    key: Array, kernels: dict[str, tuple[Kernel, int]], items: Any, start: Any, num: int
) -> dict[str, Found]:
    """Chains from the entries that made the data; as many steps as are kept go before.

    The kernels take turns, so that what else the machine does slows all of them alike.
    """
    chains, draws, seconds = {}, {name: [] for name in kernels}, dict.fromkeys(kernels, 0.0)
    steps = {name: ROUNDS * max(1, times * num // ROUNDS) for name, (_, times) in kernels.items()}
    args = {"num_chains": CHAINS, "record": record}
    for name, (kernel, _) in kernels.items():
        part = {"num_steps": steps[name], "chunk": steps[name] // ROUNDS}
        chains[name] = sample(key, kernel, start, items, **part, **args)
    for name in ROUNDS * list(kernels):
        size = steps[name] // ROUNDS
        go = partial(sample, key, kernels[name][0], data=items, chunk=size, **args)
        chains[name], spent = clocked(go, chains[name], size)
        draws[name].append(np.asarray(chains[name].trace))
        seconds[name] += spent
    return {name: _found(np.concatenate(draws[name], axis=1), seconds[name]) for name in kernels}


def _found(draws: np.ndarray, seconds: float) -> Found:
    """Of draws (chain, draw, 2)."""
    size = effective(draws, times=TIMES)
    errors = draws.std(axis=(0, 1)) / np.sqrt(effective(draws, kind="mean", times=TIMES))
    return Found(draws.mean(axis=(0, 1)), errors, size / seconds, seconds / draws[..., 0].size)


def run(options: Options) -> Iterator[str]:
    """A table."""
    sizes = [Size(200, 8, 5), Size(200, 32, 5), Size(200, 32, 12)]
    sizes += [Size(2_000, 8, 5), Size(2_000, 32, 12)]
    base = 400 if options.full else 40
    rows = []
    for size in sizes if options.full else sizes[:2]:
        rows += lines(options.key, size, kernels(size), max(base * 200 // size.items, 40))
        yield table(HEADER, rows)


def lines(
    key: Array, size: Size, samplers: dict[str, tuple[Kernel, int]], length: int
) -> list[list[str]]:
    """The table's lines of a problem."""
    num_items, dim, num, noise = size
    problem = draw(num_items, num, dim, num / 5, noise, SCALE, seed=1)
    used = problem.features.any(axis=0)
    start = Dist({}, {"features": problem.features[:, used]})
    rows = []
    measured = measure(key, samplers, jnp.asarray(problem.items), start, length)
    for name, found in measured.items():
        mean = [
            f"{m:.2f}" + (f" +- {e:.2f}" if np.isfinite(e) else "")
            for m, e in zip(found.means, found.errors)
        ]
        speed = [shown(s) for s in found.speeds]
        of_noise = "" if noise == NOISE else f", noise {noise:g}"
        row = [f"{num_items:,}", f"{dim}{of_noise}", f"{used.sum()}", name]
        row.append(f"{1e3 * found.seconds:.2f}")
        rows.append([*row, mean[0], speed[0], mean[1], speed[1]])
        print(*rows[-1], flush=True)
    return rows
