"""Figure 3a: what a step of samplers of latent features costs, moves and tells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from sgmc_jax import Dist, Kernel, sample
from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, collapsed_features, slice_features

from ..common import Options, clocked, curves, effective, shown, table
from .comparators import double_slice

SCALE, MASS = 0.5, 1.0
NOISES = 0.2, 0.5  # the paper's of figure 3a, where no entry moves, and of 3b, where many do
STEPS = {"slice": 400, "double slice": 400, "collapsed": 144}
HEADER = ("noise", "sampler", "items", "ms a step", "features in the data", "entries", "moved")
HEADER += ("ESS a second of the parity", "of the number of entries")


class Problem(NamedTuple):
    """Items, their features in the order of their weights, and what they are sums of."""

    items: np.ndarray
    features: np.ndarray
    values: np.ndarray


def planted(num_items: int, noise: float, seed: int = 0) -> Problem:
    """K = 2 ceil(log N) features of weights e^(-g_k), in 2 ceil(N log N / (N - log N)) dimensions.

    g are the first points of a Poisson process of rate 1.
    """
    log_n = math.log(num_items)
    num, dim = 2 * math.ceil(log_n), 2 * math.ceil(num_items * log_n / (num_items - log_n))
    return draw(num_items, num, dim, MASS, noise, SCALE, seed)


def draw(
    num_items: int, num: int, dim: int, mass: float, noise: float, scale: float, seed: int
) -> Problem:
    """Items with the first `num` features of a beta process."""
    rng = np.random.default_rng(seed)
    weights = np.exp(-np.cumsum(rng.exponential(size=num)) / mass)
    features = rng.random((num_items, num)) < weights
    values = scale * rng.normal(size=(num, dim))
    items = features @ values + noise * rng.normal(size=(num_items, dim))
    return Problem(items.astype(np.float32), features, values.astype(np.float32))


def kernels(dim: int, noise: float) -> dict[str, Kernel]:
    """The samplers of one posterior."""
    parts = BetaBernoulli(MASS), LinearGaussian(dim, noise, SCALE)
    sliced = slice_features(*parts, decay=1.0, capacity=32)
    return {
        "slice": sliced,
        "double slice": double_slice(sliced),
        "collapsed": collapsed_features(*parts, capacity=32),
    }


class Kept(NamedTuple):
    """Of a step: whether the number of entries is even, and that number."""

    even: Bool[Array, ""]
    entries: Int[Array, ""]


def record(state: Any, info: Any) -> Kept:
    """Of all entries."""
    entries = jnp.sum(state.sums.counts)
    return Kept(entries % 2 == 0, entries)


def packed(state: Any, info: Any) -> Array:
    """The entries, eight to a byte; features in use keep their slots."""
    return jnp.packbits(state.position.local["features"] > 0, axis=1)


class Cost(NamedTuple):
    """Seconds of processor time a step; entries, and how many of them any step changed.

    `speeds` are the effective samples a second of the parity and of the number of entries, NaN
    where it hardly changed.
    """

    seconds: float
    entries: int
    moved: int
    speeds: np.ndarray


def measure(key: Array, kernel: Kernel, problem: Problem, num_steps: int) -> Cost:
    """From the features that made the data: timed, and the same steps again for their entries."""
    start = Dist({}, {"features": problem.features[:, problem.features.any(axis=0)]})
    go = partial(sample, key, kernel, data=problem.items, chunk=num_steps // 2)
    first = go(position=start, record=record, num_steps=num_steps // 2)
    first = go(position=first, record=record, num_steps=num_steps // 2)
    timed, seconds = clocked(partial(go, record=record), first, num_steps)
    entries = go(position=first, record=packed, num_steps=num_steps).trace
    before = np.asarray(packed(first.state, None))
    before = np.pad(before, ((0, 0), (0, entries.shape[-1] - before.shape[-1])))  # of slots since
    entries = np.concatenate([before[None], entries])
    moved = np.bitwise_or.reduce(entries[1:] ^ entries[:-1], axis=0)
    ones = lambda bits: int(np.unpackbits(np.asarray(bits)).sum())
    sizes = [float(effective(x[None], kind="batch_means")) for x in timed.trace]
    return Cost(seconds / num_steps, ones(entries[-1]), ones(moved), np.array(sizes) / seconds)


def run(options: Options) -> Iterator[str]:
    """Two tables and figure3a.png."""
    sizes = (10_000, 14_000, 20_000) if options.full else (2_000, 4_000)
    halves = 2 if options.full else 8  # of whole halves nothing is compiled while it is timed
    rows, fits, lines = [], [], {}
    for noise in NOISES:
        found: dict[str, list[Cost]] = {name: [] for name in STEPS}
        for n in sizes:
            problem = planted(n, noise)
            for name, kernel in kernels(problem.items.shape[1], noise).items():
                cost = measure(options.key, kernel, problem, 2 * (STEPS[name] // halves))
                found[name].append(cost)
                rows.append([f"{noise:g}", name, f"{n:,}", *told(cost, problem)])
                print(*rows[-1], flush=True)
                yield table(HEADER, rows)
        seconds = {name: np.array([cost.seconds for cost in own]) for name, own in found.items()}
        lines[f"noise {noise:g}"] = {name: (sizes, 1e3 * own) for name, own in seconds.items()}
        fits += [
            [f"{noise:g}", name, *powers(sizes, own, found["slice"])] for name, own in found.items()
        ]
    curves(options.out / "figure3a.png", lines, ("items", "ms a step"), log=True)
    last = [
        "noise",
        "sampler",
        "exponent in N of the cost",
        f"cost at {sizes[-1]:,}, ratio to slice",
    ]
    for what in ("parity", "entries"):
        last += [f"exponent of ESS a second, {what}", f"ESS a second of slice, ratio to it, {what}"]
    yield table(HEADER, rows) + "\n" + table(last, fits)


def told(cost: Cost, problem: Problem) -> list[str]:
    """The cells of a row."""
    in_data = f"{problem.features.any(axis=0).sum()}"
    counts = in_data, f"{cost.entries:,}", f"{cost.moved:,}"
    return [f"{1e3 * cost.seconds:.1f}", *counts, *(shown(speed) for speed in cost.speeds)]


def powers(sizes: tuple[int, ...], own: list[Cost], slices: list[Cost]) -> list[str]:
    """Exponents in N, and ratios at the largest N, of a step's cost and of effective samples."""
    pairs = [([c.seconds for c in own], own[-1].seconds / slices[-1].seconds)]
    for i in range(2):
        pairs.append(([c.speeds[i] for c in own], slices[-1].speeds[i] / own[-1].speeds[i]))
    cells = []
    for numbers, ratio in pairs:
        known = np.all(np.isfinite(numbers))
        power = np.polyfit(np.log(sizes), np.log(numbers), 1)[0] if known else np.nan
        cells += [shown(power), shown(ratio, ".1f")]
    return cells
