"""Calls: samplers of mixtures, features and groups, and what they are made of."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import bnp
from tests.fuzz.rows.common import COUNTED, COUNTS, POINTS, Call, X, groups, run

PROCESS, FAMILY = bnp.DirichletProcess(1.0), bnp.NormalGamma(2)
FEATURES, LINEAR = bnp.BetaBernoulli(1.0), bnp.LinearGaussian(2)
GROUPED = {"position": None, "data": groups()}


def with_process(made: Any, held: dict[str, Any]) -> Any:
    return run(bnp.collapsed_mixture(made, FAMILY, capacity=8), held)


def with_family(made: Any, held: dict[str, Any]) -> Any:
    return run(bnp.collapsed_mixture(PROCESS, made, capacity=8), held)


def with_features(made: Any, held: dict[str, Any]) -> Any:
    return run(bnp.collapsed_features(made, LINEAR, capacity=8), held)


def of_features(made: Any, held: dict[str, Any]) -> Any:
    return run(bnp.collapsed_features(FEATURES, made, capacity=8), held)


def nonparametrics() -> dict[str, Call]:
    """Samplers."""
    key = {"key": jax.random.key(0)}
    parts = {"process": PROCESS, "family": FAMILY}
    mixture, pairs = parts | {"capacity": 8}, {"process": FEATURES, "family": LINEAR}
    feature = pairs | {"capacity": 8}
    shared = {"process": bnp.HierarchicalDirichletProcess(1.0, 1.0)}
    topics = shared | {"family": bnp.DirichletCategorical(0.5, size=4), "capacity": 8}
    few = {"num_items": 5, "num_chains": 2, "num_steps": 2, "capacity": 4}
    return {
        "hybrid_mixture": Call(bnp.hybrid_mixture, mixture | {"blocks": 3}, run, POINTS),
        "collapsed_mixture": Call(bnp.collapsed_mixture, mixture, run, POINTS),
        "slice_mixture": Call(bnp.slice_mixture, mixture | {"batch_size": None}, run, POINTS),
        "hybrid_features": Call(bnp.hybrid_features, feature | {"blocks": 3}, run, POINTS),
        "slice_features": Call(bnp.slice_features, feature | {"decay": 2.0}, run, POINTS),
        "hybrid_hdp": Call(bnp.hybrid_hdp, topics | {"blocks": 2}, run, GROUPED),
        "slice_bnb": Call(
            bnp.slice_bnb,
            {
                "process": bnp.BetaProcess(1.0, 2.0),
                "family": bnp.DirichletCategorical(0.5, size=4),
                "failures": 2.0,
                "mass_prior": (1.0, 1.0),
                "decay": 2.0,
                "capacity": 8,
            },
            run,
            GROUPED,
        ),
        "split_merge": Call(bnp.split_merge, mixture | {"proposals": 3, "scans": 1}, run, POINTS),
        "auxiliary_mixture": Call(bnp.auxiliary_mixture, mixture | {"auxiliary": 2}, run, POINTS),
        "uncollapsed_mixture": Call(bnp.uncollapsed_mixture, mixture | {"tail": 2}, run, POINTS),
        "asynchronous_mixture": Call(
            bnp.asynchronous_mixture, mixture | {"blocks": 3, "local_sweeps": 1}, run, POINTS
        ),
        "warm_mixture": Call(
            bnp.warm_mixture,
            mixture | {"blocks": 3, "cooling": 3.0, "local_sweeps": 1},
            run,
            POINTS,
        ),
        "warm_features": Call(
            bnp.warm_features,
            feature | {"blocks": 3, "cooling": 3.0, "local_sweeps": 1},
            run,
            POINTS,
        ),
        "Warm": Call(
            bnp.Warm,
            {"cooling": 3.0},
            lambda made, held: run(bnp.hybrid_mixture(**mixture, schedule=made, blocks=2), held),
            POINTS,
        ),
        "collapsed_features": Call(bnp.collapsed_features, feature, run, POINTS),
        "collapsed_hdp": Call(bnp.collapsed_hdp, topics, run, GROUPED),
        "default_sampler": Call(bnp.default_sampler, key | parts | {"data": X, "shards": 1}),
        "default_sampler.groups": Call(
            bnp.default_sampler,
            key | {name: topics[name] for name in parts} | {"data": groups(), "shards": 1},
        ),
        "seed_features": Call(bnp.seed_features, key | pairs | {"data": X} | few),
    }


def families() -> dict[str, Call]:
    """Processes, families and groups, each in a sampler."""
    counts = {"position": None, "data": COUNTS[:, 0]}
    return {
        "DirichletProcess": Call(
            bnp.DirichletProcess, {"concentration": 1.0, "prior": (1.0, 1.0)}, with_process, POINTS
        ),
        "PitmanYor": Call(
            bnp.PitmanYor, {"concentration": 1.0, "discount": 0.3}, with_process, POINTS
        ),
        "NormalGamma": Call(
            bnp.NormalGamma,
            {"dim": 2, "mean": None, "mean_strength": 1.0, "shape": 1.0, "rate": 1.0},
            with_family,
            POINTS,
        ),
        "NormalInverseWishart": Call(
            bnp.NormalInverseWishart,
            {"dim": 2, "mean": None, "degrees_of_freedom": None, "scale": None},
            with_family,
            POINTS,
        ),
        "DirichletMultinomial": Call(
            bnp.DirichletMultinomial, {"concentration": 0.5, "size": 3}, with_family, COUNTED
        ),
        "BetaBernoulli": Call(
            bnp.BetaBernoulli,
            {"mass": 1.0, "concentration": 1.0, "prior": (1.0, 1.0)},
            with_features,
            POINTS,
        ),
        "LinearGaussian": Call(
            bnp.LinearGaussian,
            {"dim": 2, "noise_scale": 1.0, "feature_scale": 1.0, "noise_prior": None},
            of_features,
            POINTS,
        ),
        "Groups": Call(bnp.Groups, {"items": COUNTS[:4], "size": np.full(4, 3, np.int32)}),
        "Groups.from_counts": Call(bnp.Groups.from_counts, {"counts": COUNTS}),
        "DirichletCategorical.from_data": Call(
            bnp.DirichletCategorical.from_data, {"data": groups(), "topics": 5.0, "size": 4}
        ),
        "DirichletMultinomial.from_data": Call(
            bnp.DirichletMultinomial.from_data, {"data": COUNTS, "clusters": 5.0}
        ),
        "DirichletCategorical": Call(
            bnp.DirichletCategorical, {"concentration": 0.5, "size": 4}, with_family, counts
        ),
        "PoissonGamma": Call(
            bnp.PoissonGamma, {"shape": 1.0, "rate": 1.0, "size": 3}, with_family, COUNTED
        ),
        "NormalKnownCovariance": Call(
            bnp.NormalKnownCovariance,
            {"mean": np.zeros(2), "covariance": 1.0, "prior_covariance": np.eye(2)},
            with_family,
            POINTS,
        ),
        "GammaPoisson": Call(
            bnp.GammaPoisson,
            {"mass": 1.0, "concentration": 1.0, "prior": (1.0, 1.0), "concentration_prior": None},
            with_features,
            POINTS,
        ),
        "LinearLogistic": Call(
            bnp.LinearLogistic,
            {"dim": 3, "feature_scale": 1.0, "intercept": 0.0} | {"step_size": 0.1, "num_steps": 2},
            of_features,
            {"position": None, "data": np.minimum(COUNTS, 1)},
        ),
        "LinearPoisson": Call(
            bnp.LinearPoisson,
            {"dim": 3, "shape": 1.0, "rate": 1.0, "background": 0.1}
            | {"step_size": 0.1, "num_steps": 2},
            of_features,
            COUNTED,
        ),
        "FeatureLikelihood": Call(
            bnp.FeatureLikelihood,
            {
                "log_likelihood": lambda theta, z, x: -0.5 * jnp.sum((x - z @ theta) ** 2),
                "log_prior": lambda theta: -0.5 * jnp.sum(theta**2),
                "draw_prior": lambda key: jax.random.normal(key, (2,)),
                "step_size": 0.1,
                "num_steps": 2,
            },
            of_features,
            POINTS,
        ),
        "HierarchicalDirichletProcess": Call(
            bnp.HierarchicalDirichletProcess,
            {"concentration": 1.0, "group_concentration": 1.0, "prior": None}
            | {"group_prior": (1.0, 1.0)},
            lambda made, held: run(
                bnp.collapsed_hdp(made, bnp.DirichletCategorical(0.5, size=4), capacity=8), held
            ),
            GROUPED,
        ),
    }
