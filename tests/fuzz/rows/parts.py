"""Calls: Estimators, batchers, models, schedules, combinators."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from sgmc_jax import (
    tune,
)
from tests.fuzz.rows.common import (
    FLAT,
    Call,
    X,
    Y,
    density,
    estimate,
    loglik,
    minibatch,
    model,
    prior,
    run,
)


def parts() -> dict[str, Call]:
    """Estimators, batchers, models, schedules, combinators."""
    centre = np.zeros(2, np.float32)
    linear = (lambda w: -0.5 * jnp.sum(w**2), lambda eta, y: -((y - eta) ** 2))
    pairs = {"position": centre, "data": (X, Y)}
    batched = lambda batcher, held: estimate(s.Minibatch(model(), batcher), held)
    modelled = lambda made, held: estimate(s.Minibatch(made, s.Uniform(5)), held)
    kernel = s.sgld(minibatch(), 0.01)
    search = {
        "key": jax.random.key(0),
        "model": model(),
        "make_kernel": lambda step_size: s.sgld(s.Minibatch(model(), s.Full()), step_size),
        "grid": {"step_size": [0.01, 0.02]},
        "position": centre,
        "data": X,
        "budget": 2_000,
        "num_chains": 1,
        "burn_in": 0.5,
        "scale": None,
        "max_draws": 10,
        "max_temperature": 2.0,
        "cost": None,
    }
    return {
        "Uniform": Call(s.Uniform, {"batch_size": 5, "replace": False}, batched, FLAT),
        "Epoch": Call(s.Epoch, {"batch_size": 5}, batched, FLAT),
        "Weighted": Call(
            s.Weighted, {"batch_size": 5, "probabilities": np.full(20, 0.05)}, batched, FLAT
        ),
        "Stratified": Call(
            s.Stratified, {"sizes": (3, 2), "labels": np.arange(20) % 2}, batched, FLAT
        ),
        "StochasticDensity": Call(
            s.StochasticDensity,
            {"logdensity": density, "batcher": s.Uniform(5), "weighted": False},
            estimate,
            FLAT,
        ),
        "Minibatch": Call(s.Minibatch, {"model": model(), "batcher": s.Uniform(5)}, estimate, FLAT),
        "ControlVariate": Call(
            s.ControlVariate,
            {"inner": minibatch(), "centre": centre, "anchor": None},
            estimate,
            FLAT,
        ),
        "SVRG": Call(s.SVRG, {"inner": minibatch(), "every": 3}, estimate, FLAT),
        "SAGA": Call(s.SAGA, {"inner": minibatch(), "refresh_every": None}, estimate, FLAT),
        "EmpiricalFisher": Call(
            s.EmpiricalFisher, {"inner": minibatch(), "decay": 1.0}, estimate, FLAT
        ),
        "FunctionModel": Call(
            s.FunctionModel, {"logprior": prior, "loglik": loglik}, modelled, FLAT
        ),
        "LinearModel": Call(
            s.LinearModel, {"logprior": linear[0], "loglik": linear[1]}, modelled, pairs
        ),
        "Cyclical": Call(
            s.Cyclical,
            {"initial": 0.01, "cycle_length": 3, "exploration": 0.3},
            lambda schedule, held: run(s.sgld(minibatch(), schedule), held),
            FLAT,
        ),
        "PolynomialDecay": Call(
            s.PolynomialDecay,
            {"scale": 0.01, "offset": 1.0, "power": 0.33},
            lambda schedule, held: run(s.sgld(minibatch(), schedule), held),
            FLAT,
        ),
        "Transformed": Call(
            s.Transformed,
            {"model": model(), "constraints": "positive"},
            modelled,
            FLAT,
        ),
        "whiten": Call(
            lambda **arguments: s.sgld(minibatch(), 0.01, space=s.whiten(**arguments)),
            {"model": model(), "mode": centre, "data": X, "dense": True},
            run,
            FLAT,
            s.whiten,
        ),
        "sample": Call(
            s.sample,
            {
                "key": jax.random.key(0),
                "kernel": kernel,
                "position": centre,
                "data": X,
                "num_steps": 4,
                "num_chains": 2,
                "burn_in": 1,
                "thin": 1,
                "record": None,
                "chunk": None,
                "engine": None,
                "kernel_axis": None,
                "position_axis": None,
            },
        ),
        "find_mode": Call(
            s.find_mode,
            {
                "key": jax.random.key(0),
                "model": model(),
                "position": centre,
                "data": X,
                "num_steps": 4,
            },
        ),
        "successive_halving": Call(
            tune.successive_halving,
            search | {"reduction": 2, "grid": [{"step_size": h} for h in (0.01, 0.02)]},
        ),
        "grid_search": Call(tune.grid_search, search),
        "laplace": Call(
            tune.laplace,
            {"key": jax.random.key(0), "model": model(), "position": centre, "data": X},
        ),
        "Vmap": Call(s.Vmap, {"size": 2, "over": None}),
        "Pmap": Call(s.Pmap, {"size": 1, "over": None}),
        "ShardMap": Call(s.ShardMap, {"mesh": 1, "over": None}),
        "full_pass": Call(s.full_pass, {"grad": minibatch(), "centre": centre, "data": X}),
        "default_kernel": Call(
            tune.default_kernel,
            {"key": jax.random.key(0), "model": model(), "position": centre, "data": X},
        ),
    }
