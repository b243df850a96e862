"""Figures 1 and 2 of the SCIR paper: two Dirichlet posteriors, and how far samplers are off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import Epoch, Minibatch, Summand, rosenblatt_ks, sample, scir, sgrld_simplex
from sgmc_jax.random import log_gamma

from ..common import Options
from ..common import table as markdown
from . import pictures

PRIOR = 0.1
COUNTS = {
    "sparse": np.array([800, 100, 100, 0, 0, 0, 0, 0, 0, 0]),
    "dense": np.array([112, 119, 92, 98, 95, 96, 102, 92, 91, 103]),
}
SAMPLERS = {"scir": scir, "sgrld": sgrld_simplex}
BURN_IN, DRAWS = 1_000, 1_000
BOX_BATCH = 10  # the batch size of figure 1


class Size(NamedTuple):
    """How much is run; `seeds` chains choose the step size, and as many others are judged by it."""

    batch_sizes: tuple[int, ...]
    step_sizes: Float[np.ndarray, " h"]
    seeds: int


SIZES = {
    "full": Size((1, 3, 10, 30, 100, 300, 500), np.geomspace(1e-7, 4.0, 20), 5),
    "small": Size((10, 100, 500), np.geomspace(1e-7, 4.0, 14), 5),
}


class Result(NamedTuple):
    """A tuned sampler at one batch size: its step size, and what the judged seeds gave.

    `inside` tells whether the step size is inside the grid, not at one of its ends.
    """

    step_size: float
    inside: bool
    distances: Float[np.ndarray, " seed"]
    draws: Float[np.ndarray, "seed draw d"]


def draw(key: Array, sampler: str, counts: np.ndarray, batch_size: int, size: Size) -> Result:
    """One sampler at one batch size: every step size, from draws of the prior."""
    items = np.repeat(np.eye(len(counts), dtype=np.float32), counts, axis=0)
    prior = jnp.full(len(counts), PRIOR)
    shapes = Minibatch(Summand(prior, lambda position, z: z), Epoch(batch_size))
    kernels = eqx.filter_vmap(lambda h: SAMPLERS[sampler](shapes, h))(jnp.asarray(size.step_sizes))
    trace = sample(
        key,
        kernels,
        lambda key: log_gamma(key, prior),
        items,
        num_steps=BURN_IN + DRAWS,
        burn_in=BURN_IN,
        num_chains=2 * size.seeds,
        kernel_axis=0,
    ).trace
    distances = rosenblatt_ks(trace, PRIOR + counts, log=True)
    return tune(distances, trace, size)


def tune(distances: np.ndarray, trace: Any, size: Size) -> Result:
    """The step size that is best on average over one half of the chains, judged by the other."""
    mean = np.nan_to_num(distances[:, : size.seeds].mean(axis=1), nan=np.inf)
    best = int(np.argmin(mean))
    judged = slice(size.seeds, None)
    inside = 0 < best < len(mean) - 1
    return Result(
        float(size.step_sizes[best]), inside, distances[best, judged], trace[best, judged]
    )


def exact(key: Array, counts: np.ndarray, size: Size) -> Result:
    """Independent draws from the posterior."""
    shape = jnp.broadcast_to(PRIOR + jnp.asarray(counts), (size.seeds, DRAWS, len(counts)))
    draws = np.asarray(log_gamma(key, shape))
    return Result(np.nan, True, rosenblatt_ks(draws, PRIOR + counts, log=True), draws)


def posterior(
    key: Array, counts: np.ndarray, size: Size
) -> Iterator[tuple[tuple[str, int], Result]]:
    """Every sampler at every batch size; the exact one, which has none, is repeated."""
    truth = exact(jax.random.fold_in(key, len(size.batch_sizes)), counts, size)
    for i, n in enumerate(size.batch_sizes):
        yield ("exact", n), truth
        for j, sampler in enumerate(SAMPLERS):
            part = jax.random.fold_in(jax.random.fold_in(key, i), j)
            yield (sampler, n), draw(part, sampler, counts, n, size)


def table(results: dict[str, dict[tuple[str, int], Result]]) -> str:
    """One line for each posterior, sampler and batch size."""
    header = "posterior,sampler,batch,step size,in the grid,mean distance,of the seeds".split(",")
    rows = []
    for name, runs in results.items():
        for (sampler, n), found in sorted(runs.items()):
            tuned = f"{found.step_size:.2g}", "yes" if found.inside else "NO"
            chosen = ("-", "-") if sampler == "exact" else tuned
            seeds = ", ".join(f"{d:.3f}" for d in found.distances)
            rows.append([name, sampler, n, *chosen, f"{found.distances.mean():.4f}", seeds])
    return markdown(header, rows)


def run(options: Options) -> Iterator[str]:
    """A table, figure1.png and figure2.png."""
    size, results = SIZES.get(options.size, SIZES["full"]), {name: {} for name in COUNTS}
    keys = jax.random.split(options.key, len(COUNTS))
    for key, (name, counts) in zip(keys, COUNTS.items()):
        for case, found in posterior(key, counts, size):
            results[name][case] = found
            yield table(results)
    boxes = {name: results["sparse"][name, BOX_BATCH] for name in (*SAMPLERS, "exact")}
    pictures.draw_boxes(boxes, options.out / "figure1.png")
    pictures.draw_distances(results, options.out / "figure2.png")
