"""Calls: estimators of counts and of latent variables, and batchers of other data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from tests.fuzz.rows.common import (
    COUNTS,
    FLAT,
    WEIGHTS,
    Call,
    X,
    estimate,
    loglik,
    minibatch,
    model,
    prior,
    run,
    shapes,
)


class Shift(s.Latent):
    """A latent number of each item."""

    def draw(self, key, position, items, previous):
        return jax.random.normal(key, (len(items),))


def shifted(position, pair):
    item, latent = pair
    return loglik(position, item - latent)


def windowed(position, window):
    return -0.5 * window.share @ (window.rows - position[0]) ** 2


def allocate(key, position, item):
    return jax.nn.one_hot(jax.random.categorical(key, position + item), 3)


def estimators() -> dict[str, Call]:
    """Estimators and batchers."""
    counted = {"position": np.zeros(3, np.float32), "data": COUNTS}
    series = {"position": np.zeros(2, np.float32), "data": X[:, 0]}
    simplex = lambda counts, held: run(s.scir(counts, 0.1), held)
    counts = {"allocate": allocate, "alpha": 0.5, "batcher": s.Uniform(5)}
    anchor = {"centre": np.zeros(3), "expect": lambda x, z: jax.nn.softmax(x + z), "rho": 1.0}
    latent = {"model": s.FunctionModel(prior, shifted), "latent": Shift(), "batcher": s.Uniform(5)}
    location = s.Minibatch(s.Summand(jnp.zeros(2), lambda x, z: 0.1 * z), s.Uniform(5))
    of_windows = s.FunctionModel(prior, windowed)
    at = {"model": model(), "position": np.ones(2, np.float32), "data": X}
    return {
        "MinibatchCounts": Call(s.MinibatchCounts, counts, simplex, counted),
        "TableCounts": Call(s.TableCounts, counts, simplex, counted),
        "SAGACounts": Call(s.SAGACounts, counts, simplex, counted),
        "AnchoredCounts": Call(s.AnchoredCounts, counts | anchor, simplex, counted),
        "LatentMinibatch": Call(s.LatentMinibatch, latent, estimate, FLAT),
        "LatentTable": Call(s.LatentTable, latent, estimate, FLAT),
        "AllReduce": Call(
            s.AllReduce, {"inner": minibatch(), "comm": s.Collective()}, estimate, FLAT
        ),
        "Summand": Call(
            s.Summand,
            {"prior": np.full(3, 0.5), "term": lambda x, z: z},
            lambda summand, held: simplex(s.Minibatch(summand, s.Uniform(5)), held),
            counted,
        ),
        "scir": Call(
            s.scir,
            {
                "counts": shapes(),
                "step_size": 0.1,
                "scale": "refresh",
            },
            run,
            WEIGHTS,
        ),
        "sgrld_simplex": Call(
            s.sgrld_simplex,
            {"counts": s.MinibatchCounts(allocate, 0.5, s.Uniform(5)), "step_size": 0.01},
            run,
            counted,
        ),
        "geometric_ornstein_uhlenbeck": Call(
            s.geometric_ornstein_uhlenbeck,
            {"location": location, "scale": 1.0, "step_size": 0.1, "noise_covariance": 0.1},
            run,
            FLAT,
        ),
        "Given": Call(
            s.Given,
            {"total": 20},
            lambda batcher, held: estimate(s.Minibatch(model(), batcher), held),
            FLAT,
        ),
        "Window": Call(
            s.Window,
            {"length": 5, "buffer": 1, "num_windows": 2, "overlapping": False},
            lambda batcher, held: estimate(s.Minibatch(of_windows, batcher), held),
            series,
        ),
        "optimal_probabilities": Call(s.optimal_probabilities, at | {"share": 0.1}),
        "neyman_sizes": Call(s.neyman_sizes, at | {"labels": np.arange(20) % 2, "batch_size": 5}),
    }
