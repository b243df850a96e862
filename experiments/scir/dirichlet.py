"""Two Dirichlet posteriors, the samplers on them, and the distance of their draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import Epoch, Minibatch, Summand, rosenblatt_ks, sample, scir, sgrld_simplex
from sgmc_jax.random import log_gamma

PRIOR = 0.1
COUNTS = {
    "sparse": np.array([800, 100, 100, 0, 0, 0, 0, 0, 0, 0]),
    "dense": np.array([112, 119, 92, 98, 95, 96, 102, 92, 91, 103]),
}
SAMPLERS = {"scir": scir, "sgrld": sgrld_simplex}
BURN_IN, DRAWS = 1_000, 1_000


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


def run(key: Array, sampler: str, counts: np.ndarray, batch_size: int, size: Size) -> Result:
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
