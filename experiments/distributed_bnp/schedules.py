"""The published schedule against the exact one: clusters without data, and held-out items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import ess, sample
from sgmc_jax.bnp import (
    Anchored,
    DirichletProcess,
    NormalKnownCovariance,
    Published,
    collapsed_mixture,
    hybrid_mixture,
)

from ..common import Options, active, table
from .common import held_out

CONCENTRATION, CAPACITY = 1.2, 32
SCHEDULES = {"anchored": Anchored(), "published": Published()}


def run(options: Options) -> Iterator[str]:
    """Two tables."""
    sizes, blocks = ((4, 100, 1_000, 10_000), (1, 4, 16)) if options.full else ((4, 100), (1, 4))
    names = *SCHEDULES, "collapsed"
    header = ["items", "blocks", *(f"{s}: {w}" for s in names for w in ("E K", "held-out"))]
    clusters, spread, first = [], [], ""
    for n, p in ((n, p) for n in sizes for p in blocks if p <= n):
        clusters.append(_clusters(options, n, p))
        first = table(["items", "blocks", "exact E K", *SCHEDULES], clusters)
        yield f"Without data:\n\n{first}"
    for n, p in ((n, p) for n in sizes[1:] for p in blocks):
        spread.append(_held_out(options, n, p))
        yield f"Without data:\n\n{first}\nWith data:\n\n{table(header, spread)}"


def _num_steps(options: Options, n: int, blocks: int) -> int:
    """As many as the serial sweeps, over n / P items each, leave time for."""
    return min(20_000, 1_500_000 * blocks // n) if options.full else 4_000


def _from_prior(n: int) -> Callable:
    """A start without burn-in: labels given weights from the stick-breaking prior."""

    def start(key: jax.Array) -> jax.Array:
        weight_key, label_key = jax.random.split(key)
        sticks = jax.random.beta(weight_key, 1.0, CONCENTRATION, (CAPACITY,)).at[-1].set(1.0)
        rest = jnp.cumprod(jnp.append(1.0, 1 - sticks[:-1]))
        return jax.random.categorical(label_key, jnp.log(sticks * rest), shape=(n,))

    return start


def _clusters(options: Options, n: int, blocks: int) -> list[str]:
    """The number of clusters where every item is alike, which is known."""
    flat = NormalKnownCovariance(np.zeros(1), 1e8 * np.eye(1), np.eye(1))
    exact = np.sum(CONCENTRATION / (CONCENTRATION + np.arange(n)))
    process, num = DirichletProcess(CONCENTRATION), _num_steps(options, n, blocks)
    cells = []
    for schedule in SCHEDULES.values():
        kernel = hybrid_mixture(process, flat, schedule=schedule, blocks=blocks, capacity=CAPACITY)
        run = sample(
            options.key,
            kernel,
            _from_prior(n),
            jnp.zeros((n, 1)),
            num_steps=num,
            burn_in=num // 5,
            num_chains=4,
            record=active,
        )
        cells.append(_mean(run.trace))
    return [f"{n:,}", str(blocks), f"{exact:.3f}", *cells]


def _held_out(options: Options, n: int, blocks: int) -> list[str]:
    """Clusters and held-out items of a mixture of five overlapping normal laws.

    The collapsed sampler, which has no blocks, stands in the line of one.
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, n + 500).astype(np.int32)
    items = (3.0 * labels[:, None] - 6 + rng.standard_normal((n + 500, 1))).astype(np.float32)
    process, num = DirichletProcess(CONCENTRATION), _num_steps(options, n, blocks) // 2
    family = NormalKnownCovariance(np.zeros(1), np.eye(1), 25 * np.eye(1))
    hybrid = partial(hybrid_mixture, process, family, blocks=blocks, capacity=CAPACITY)
    kernels = [hybrid(schedule=schedule) for schedule in SCHEDULES.values()]
    if blocks == 1:
        kernels.append(collapsed_mixture(process, family, capacity=CAPACITY))
    cells = []
    for kernel in kernels:
        run = sample(
            options.key,
            kernel,
            labels[:n],
            items[:n],
            num_steps=num,
            burn_in=num // 5,
            thin=5,
            num_chains=4,
            record=held_out(process, family, items[n:]),
        )
        cells += [_mean(x) for x in run.trace]
    blank = [""] * (2 * len(SCHEDULES) + 2 - len(cells))
    return [f"{n:,}", str(blocks), *cells, *blank]


def _mean(trace: np.ndarray) -> str:
    """The mean of (chain, draw), and its standard error."""
    draws = trace.astype(float)
    size = float(np.atleast_1d(np.asarray(ess(draws[..., None], kind="mean")))[0])
    return f"{draws.mean():.3f} +- {draws.std() / np.sqrt(max(size, 1)):.3f}"
