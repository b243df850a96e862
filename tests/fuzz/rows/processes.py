"""Calls: random measures, their series, and the samplers of their atoms."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from sgmc_jax import bnp, processes, tune
from tests.fuzz.rows.common import POINTS, Call, X, run


def sliced(series: Any, held: dict[str, Any], counts: Any = processes.Bernoulli()) -> Any:
    return run(bnp.slice_crm(series, counts, bnp.LinearGaussian(2), capacity=8), held)


def measures() -> dict[str, Call]:
    """Measures, and series of them."""
    beta, gamma = processes.BetaProcess(1.0), processes.GammaProcess(1.0)
    poisson = lambda series, held: sliced(series, held, processes.Poisson())
    odds = lambda series, held: sliced(series, held, processes.OddsBernoulli())
    numbers = {"mass": 1.0, "concentration": 1.5}

    def measure(kind, series, use, **arguments):
        return Call(kind, numbers | arguments, lambda made, held: use(series(made), held), POINTS)

    def series(make, of, use):
        return Call(make, {"measure": of}, use, POINTS)

    return {
        "BetaProcess": measure(bnp.BetaProcess, processes.bondesson, sliced),
        "GammaProcess": measure(bnp.GammaProcess, processes.bondesson, poisson),
        "GeneralizedGammaProcess": measure(
            bnp.GeneralizedGammaProcess, processes.thinning, poisson, discount=0.5
        ),
        "StableBetaProcess": measure(
            bnp.StableBetaProcess, processes.rejection, sliced, discount=0.5
        ),
        "BetaPrimeProcess": measure(bnp.BetaPrimeProcess, processes.inverse_levy, odds),
        "bondesson": series(processes.bondesson, beta, sliced),
        "delayed_bondesson": series(processes.delayed_bondesson, beta, sliced),
        "inverse_levy": series(processes.inverse_levy, gamma, poisson),
        "thinning": series(processes.thinning, gamma, poisson),
        "rejection": series(processes.rejection, gamma, poisson),
        "Representation.from_functions": Call(
            processes.Representation.from_functions,
            {
                "tau": lambda v, g: v * jnp.exp(-g / 2.0),
                "sample_v": lambda key: jax.random.exponential(key),
                "logpdf_v": lambda v: -v,
            },
            poisson,
            POINTS,
        ),
        "NegativeBinomial": Call(
            processes.NegativeBinomial,
            {"size": 2.0},
            lambda counts, held: sliced(processes.bondesson(beta), held, counts),
            POINTS,
        ),
        "CountLikelihood.from_function": Call(
            processes.CountLikelihood.from_function,
            {"log_prob": lambda x, t: x * t + (1 - x) * jnp.log1p(-jnp.exp(t)), "maximum": 1},
            lambda counts, held: sliced(processes.bondesson(beta), held, counts),
            POINTS,
        ),
    }


def slices() -> dict[str, Call]:
    """The sampler of any series, and what it is tuned by."""
    series = processes.bondesson(processes.BetaProcess(1.0))
    parts = {"representation": series, "counts": processes.Bernoulli()}
    kernel = bnp.slice_features(bnp.BetaBernoulli(1.0), bnp.LinearGaussian(2), capacity=8)
    return {
        "slice_crm": Call(
            bnp.slice_crm,
            parts
            | {"family": bnp.LinearGaussian(2), "mass_prior": (1.0, 1.0)}
            | {"decay": 2.0, "capacity": 8},
            run,
            POINTS,
        ),
        "tune_decay": Call(
            tune.tune_decay,
            {"key": jax.random.key(0), "kernel": kernel, "position": None, "data": X}
            | {"decays": (1.0, 2.0), "num_steps": 8},
        ),
    }
