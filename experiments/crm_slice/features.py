"""Figure 3a: what a step of samplers of latent features costs, and what it moves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax import Dist, Kernel, sample
from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, collapsed_features, slice_features

from ..common import Options, clocked, curves, effective, shown, table
from .comparators import double_slice

NOISE, SCALE, MASS = 0.2, 0.5, 1.0
STEPS = {"slice": 400, "double slice": 400, "collapsed": 36}


class Problem(NamedTuple):
    """Items, their features in the order of their weights, and what they are sums of."""

    items: np.ndarray
    features: np.ndarray
    values: np.ndarray


def planted(num_items: int, seed: int = 0) -> Problem:
    """K = 2 ceil(log N) features of weights e^(-g_k), in 2 ceil(N log N / (N - log N)) dimensions.

    g are the first points of a Poisson process of rate 1.
    """
    log_n = math.log(num_items)
    num, dim = 2 * math.ceil(log_n), 2 * math.ceil(num_items * log_n / (num_items - log_n))
    return draw(num_items, num, dim, MASS, NOISE, SCALE, seed)


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


def kernels(dim: int) -> dict[str, Kernel]:
    """The samplers of one posterior."""
    parts = BetaBernoulli(MASS), LinearGaussian(dim, NOISE, SCALE)
    sliced = slice_features(*parts, decay=1.0, capacity=32)
    return {
        "slice": sliced,
        "double slice": double_slice(sliced),
        "collapsed": collapsed_features(*parts, capacity=32),
    }


def parity(state: Any, info: Any) -> Array:
    """Whether the number of entries is even."""
    return jnp.sum(state.sums.counts) % 2 == 0


def packed(state: Any, info: Any) -> Array:
    """The entries, eight to a byte; features in use keep their slots."""
    return jnp.packbits(state.position.local["features"] > 0, axis=1)


class Cost(NamedTuple):
    """Seconds of processor time a step; entries, and how many of them any step changed.

    `per_step` are the effective samples a step of the parity, NaN where it never changed.
    """

    seconds: float
    entries: int
    moved: int
    per_step: float


def measure(key: Array, kernel: Kernel, problem: Problem, num_steps: int) -> Cost:
    """From the features that made the data: timed, and the same steps again for their entries."""
    start = Dist({}, {"features": problem.features[:, problem.features.any(axis=0)]})
    go = partial(sample, key, kernel, data=problem.items, chunk=num_steps // 2)
    first = go(position=start, record=parity, num_steps=num_steps // 2)
    first = go(position=first, record=parity, num_steps=num_steps // 2)
    timed, seconds = clocked(partial(go, record=parity), first, num_steps)
    entries = go(position=first, record=packed, num_steps=num_steps).trace
    entries = np.concatenate([packed(first.state, None)[None], entries])
    moved = np.bitwise_or.reduce(entries[1:] ^ entries[:-1], axis=0)
    ones = lambda bits: int(np.unpackbits(np.asarray(bits)).sum())
    size = float(effective(timed.trace[None], kind="batch_means"))
    return Cost(seconds / num_steps, ones(entries[-1]), ones(moved), size / num_steps)


def run(options: Options) -> Iterator[str]:
    """Two tables and figure3a.png."""
    sizes = (10_000, 14_000, 20_000) if options.full else (2_000, 4_000)
    halves = 2 if options.full else 8  # of whole halves nothing is compiled while it is timed
    found: dict[str, list[Cost]] = {name: [] for name in STEPS}
    header = ["sampler", "items", "ms a step", "features in the data", "entries", "moved"]
    header += ["ESS a step, parity"]
    rows = []
    for n in sizes:
        problem = planted(n)
        for name, kernel in kernels(problem.items.shape[1]).items():
            cost = measure(options.key, kernel, problem, 2 * (STEPS[name] // halves))
            found[name].append(cost)
            counts = f"{problem.features.any(axis=0).sum()}", f"{cost.entries:,}", f"{cost.moved:,}"
            row = [name, f"{n:,}", f"{1e3 * cost.seconds:.1f}", *counts]
            rows.append([*row, shown(cost.per_step)])
            print(*rows[-1], flush=True)
            yield table(header, rows)
    seconds = {name: np.array([cost.seconds for cost in costs]) for name, costs in found.items()}
    lines = {name: (np.array(sizes), 1e3 * own) for name, own in seconds.items()}
    curves(options.out / "figure3a.png", {"": lines}, ("items", "ms a step"), log=True)
    fits = [
        [name, f"{np.polyfit(np.log(sizes), np.log(own), 1)[0]:.2f}"]
        + [f"{own[-1] / seconds['slice'][-1]:.1f}"]
        for name, own in seconds.items()
    ]
    last = ["sampler", "exponent in N", f"cost of a step at {sizes[-1]:,}, ratio to slice"]
    yield table(header, rows) + "\n" + table(last, fits)
