"""Figure 3a: effective samples a second of latent features, against the number of items."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax import Dist, Kernel, sample
from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, collapsed_features, slice_features
from sgmc_jax.diagnostics import ess

from ..common import Options, curves, table
from .comparators import double_slice

NOISE, SCALE, MASS = 0.2, 0.5, 1.0
TRIALS = 1  # data sets of each size
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


class Cost(NamedTuple):
    """Seconds of processor time a step, and effective samples a step and a second."""

    seconds: float
    per_step: float

    @property
    def per_second(self) -> float:
        return self.per_step / self.seconds


def measure(key: Array, kernel: Kernel, problem: Problem, num_steps: int) -> Cost:
    """From the features that made the data, by batch means of the parity of all entries."""
    start = Dist({}, {"features": problem.features[:, problem.features.any(axis=0)]})
    args = {"record": parity, "chunk": num_steps // 2}
    run = sample(key, kernel, start, problem.items, num_steps=num_steps // 2, **args)
    run = sample(key, kernel, run, problem.items, num_steps=num_steps // 2, **args)
    began = time.process_time()
    run = sample(key, kernel, run, problem.items, num_steps=num_steps, **args)
    seconds = (time.process_time() - began) / num_steps
    even = np.asarray(run.trace, np.float32)[None]
    return Cost(seconds, float(ess(even, kind="batch_means")) / num_steps)


def run(options: Options) -> str:
    """Two tables and figure3a.png."""
    sizes = (10_000, 14_000, 20_000) if options.full else (2_000, 4_000)
    shorter = 1 if options.full else 4
    found: dict[str, list[list[Cost]]] = {name: [] for name in STEPS}
    for n in sizes:
        problems = [planted(n, seed) for seed in range(TRIALS)]
        for name in STEPS:
            costs = [
                measure(
                    jax.random.fold_in(options.key, seed),
                    kernels(problem.items.shape[1])[name],
                    problem,
                    STEPS[name] // shorter,
                )
                for seed, problem in enumerate(problems)
            ]
            found[name].append(costs)
    middle = lambda costs, of: float(np.median([getattr(c, of) for c in costs]))
    rows = [
        [name, f"{n:,}", f"{1e3 * middle(costs, 'seconds'):.1f}"]
        + [f"{middle(costs, 'per_step'):.2f}", f"{middle(costs, 'per_second'):.2f}"]
        for name, by_size in found.items()
        for n, costs in zip(sizes, by_size)
    ]
    lines, fits = {}, []
    for name, by_size in found.items():
        rate = np.array([middle(costs, "per_second") for costs in by_size])
        lines[name] = np.array(sizes), rate
        each = [[np.log(c.per_second) for c in costs] for costs in by_size]
        slope = np.polyfit(np.repeat(np.log(sizes), TRIALS), np.concatenate(each), 1)[0]
        slower = lines["slice"][1][-1] / rate[-1]
        fits.append([name, f"{slope:.2f}", f"{slower:.1f}"])
    curves(options.out / "figure3a.png", {"": lines}, ("items", "ESS a second"), log=True)
    header = ["sampler", "items", "ms a step", "ESS a step", "ESS a second"]
    last = ["sampler", "exponent in N", f"the slice sampler's ESS a second at {sizes[-1]:,}, times"]
    return table(header, rows) + "\n" + table(last, fits)
