"""Good calls of the public surface, each a table of arguments for the fuzzer to spoil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from sgmc_jax import (
    _checks,
    bnp,
    diagnostics,
    directional,
    evaluation,
    models,
    pictures,
    processes,
    random,
    special,
    tune,
)
from sgmc_jax.collective import Dist
from sgmc_jax.runner.stream import open_data

X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.float32)
COUNTS = np.random.default_rng(1).integers(0, 4, (20, 3)).astype(np.int32)
TOPICS = np.full((2, 3), 1 / 3, np.float32)


class Call(NamedTuple):
    """A function with arguments that it takes, and what is done with the result."""

    function: Callable
    arguments: dict[str, Any]
    use: Callable[[Any, dict[str, Any]], Any] = lambda result, held: result
    held: dict[str, Any] = {}  # spoilt too, for `use` alone


def prior(position):
    return -0.5 * jnp.sum(position**2)


def loglik(position, item):
    return -0.5 * jnp.sum((item - position) ** 2)


def density(position, items):
    return prior(position) - 2 * jnp.sum((items - position) ** 2)


def model() -> s.Model:
    return s.FunctionModel(prior, loglik)


def minibatch() -> s.Minibatch:
    return s.Minibatch(model(), s.Uniform(5))


def on_sphere() -> s.Minibatch:
    return s.Minibatch(s.FunctionModel(lambda x: jnp.sum(x), loglik), s.Uniform(5))


def run(kernel: Any, held: dict[str, Any]) -> Any:
    """The check at the door of `sample`, then `init` and `step` as the runner traces them."""
    position, data = held["position"], open_data(held["data"], 0, 1).first
    _checks.arrays("position", position)
    _checks.finite("position", position)
    position = jax.tree.map(jnp.asarray, position)
    kernel.check(position, data)

    def both(key, data):
        return kernel.step(key, kernel.init(key, position, data), data)

    return jax.eval_shape(both, jax.random.key(0), data)


def estimate(grad: Any, held: dict[str, Any]) -> Any:
    return run(s.sgld(grad, 0.01), held)


FLAT = {"position": np.zeros(2, np.float32), "data": X}
ROUND = {"position": np.array([1, 0], np.float32), "data": X}
POSITIVE = {"position": np.ones(2, np.float32), "data": X}
WEIGHTS = {"position": np.full((2, 3), 1 / 3, np.float32), "data": COUNTS}
POINTS = {"position": None, "data": X}
COUNTED = {"position": None, "data": COUNTS}


def groups() -> bnp.Groups:
    return bnp.Groups(COUNTS[:4, :3], np.full(4, 3, np.int32))


def kernels() -> dict[str, Call]:
    """Samplers of the gradient."""

    def of(function, held, make=minibatch, **arguments):
        return Call(function, {"grad": make(), **arguments}, run, held)

    metric = lambda x: jnp.ones(2)
    step, friction = {"step_size": 0.01}, {"friction": 1.0}
    hot = {"temperature": 1.0, "noise_covariance": None}
    return {
        "sgld": of(s.sgld, FLAT, **step, **hot, space=None),
        "sghmc": of(s.sghmc, FLAT, **step, **friction, **hot, word="ABOBA", space=None),
        "sgnht": of(s.sgnht, FLAT, **step, **friction, word="ATFBNFTA"),
        "sggmc": of(s.sggmc, ROUND, on_sphere, space=s.Sphere(), **step, **friction, **hot),
        "gsgnht": of(s.gsgnht, ROUND, on_sphere, space=s.Sphere(), **step, **friction),
        "gmc": of(s.gmc, ROUND, full, space=s.Sphere(), **step, num_integration_steps=3),
        "hmc": of(s.hmc, FLAT, full, **step, num_integration_steps=3, space=None),
        "mala": of(s.mala, FLAT, full, **step, space=None),
        "psgld": of(s.psgld, FLAT, **step, decay=0.9, epsilon=1e-5, freeze_after=None, gamma=False),
        "sgrld": of(s.sgrld, FLAT, metric=metric, **step, factor=False, gamma="exact", **hot),
        "sgrhmc": of(s.sgrhmc, FLAT, metric=metric, **step, **friction, gamma="exact", **hot),
        "recipe": of(s.recipe, FLAT, diffusion=1.0, curl=0.0, **step, gamma="exact", **hot),
        "mirrored": of(s.mirrored_sgld, POSITIVE, **step, mirror=s.PositiveMirror()),
        "projected": of(s.projected_sgld, POSITIVE, **step, convex_set=s.Box(0.0, 2.0), **hot),
        "reflected": of(s.reflected_sgld, POSITIVE, **step, convex_set=s.Box(0.0, 2.0), **hot),
    }


def full() -> s.Minibatch:
    return s.Minibatch(model(), s.Full())


def parts() -> dict[str, Call]:
    """Estimators, batchers, models, schedules, combinators."""
    centre = np.zeros(2, np.float32)
    linear = (lambda w: -0.5 * jnp.sum(w**2), lambda eta, y: -((y - eta) ** 2))
    pairs = {"position": centre, "data": (X, Y)}
    batched = lambda batcher, held: estimate(s.Minibatch(model(), batcher), held)
    modelled = lambda made, held: estimate(s.Minibatch(made, s.Uniform(5)), held)
    kernel = s.sgld(minibatch(), 0.01)
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
        "LogisticRegression": Call(
            models.LogisticRegression, {"prior_variance": 10.0}, modelled, pairs
        ),
        "SoftmaxRegression": Call(
            models.SoftmaxRegression,
            {"num_classes": 2, "prior_variance": 10.0},
            modelled,
            {"position": np.zeros((2, 2), np.float32), "data": (X, Y.astype(np.int32))},
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
        "thin": Call(s.thin, {"kernel": kernel, "num_steps": 2}, run, FLAT),
        "repeat": Call(s.repeat, {"kernel": kernel, "num_steps": 2}, run, FLAT),
        "cycle": Call(lambda a, b: s.cycle(a, b), {"a": kernel, "b": kernel}, run, FLAT),
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
        "full_pass": Call(s.full_pass, {"grad": minibatch(), "centre": centre, "data": X}),
        "default_kernel": Call(
            tune.default_kernel,
            {"key": jax.random.key(0), "model": model(), "position": centre, "data": X},
        ),
    }


def nonparametrics() -> dict[str, Call]:
    """Mixtures, features, topics, and what is made of their draws."""
    process, family = bnp.DirichletProcess(1.0), bnp.NormalGamma(2)
    features = bnp.BetaBernoulli(1.0), bnp.LinearGaussian(2)
    labels = np.random.default_rng(2).integers(0, 3, (5, 20))
    mixture = {"process": process, "family": family, "capacity": 8}
    feature = {"process": features[0], "family": features[1], "capacity": 8}
    with_process = lambda made, held: run(bnp.collapsed_mixture(made, family, capacity=8), held)
    with_family = lambda made, held: run(bnp.collapsed_mixture(process, made, capacity=8), held)
    with_features = lambda made, held: run(
        bnp.collapsed_features(made, features[1], capacity=8), held
    )
    of_features = lambda made, held: run(
        bnp.collapsed_features(features[0], made, capacity=8), held
    )
    topics = {
        "process": bnp.HierarchicalDirichletProcess(1.0, 1.0),
        "family": bnp.DirichletCategorical(0.5, size=4),
        "capacity": 8,
    }
    grouped = {"position": None, "data": groups()}
    return {
        "hybrid_mixture": Call(bnp.hybrid_mixture, mixture | {"blocks": 3}, run, POINTS),
        "collapsed_mixture": Call(bnp.collapsed_mixture, mixture, run, POINTS),
        "slice_mixture": Call(bnp.slice_mixture, mixture | {"batch_size": None}, run, POINTS),
        "hybrid_features": Call(bnp.hybrid_features, feature | {"blocks": 3}, run, POINTS),
        "slice_features": Call(bnp.slice_features, feature | {"decay": 2.0}, run, POINTS),
        "hybrid_hdp": Call(bnp.hybrid_hdp, topics | {"blocks": 2}, run, grouped),
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
            grouped,
        ),
        "DirichletCategorical.from_data": Call(
            bnp.DirichletCategorical.from_data, {"data": groups(), "topics": 5.0, "size": 4}
        ),
        "NewItems": Call(
            evaluation.NewItems,
            {
                "parameters": np.eye(2, 3),
                "weights": np.array([0.5, 0.2]),
                "noise_scale": 0.5,
                "births": 0.3,
                "feature_scale": 1.0,
                "birth_ratio": 0.2,
                "counts": processes.NegativeBinomial(2.0),
                "most": 2,
            },
            lambda law, held: law.log_prob(held["items"]),
            {"items": np.zeros((4, 3), np.float32)},
        ),
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
        "similarity": Call(bnp.similarity, {"labels": labels, "rows": None, "size": None}),
        "similarity_of_groups": Call(
            bnp.similarity, {"labels": labels.reshape(5, 4, 5), "size": np.full(4, 2)}
        ),
        "feature_similarity": Call(
            bnp.feature_similarity, {"features": labels[None, :, :3] > 0, "rows": None}
        ),
        "traces": Call(
            bnp.traces,
            {"positions": Dist({"mass": np.ones(5)}, {"assignment": labels}), "size": None},
        ),
        "representative_draw": Call(bnp.representative_draw, {"features": labels[None, :, :3]}),
        "point_estimate": Call(
            bnp.point_estimate, {"labels": labels, "loss": "vi", "max_clusters": None}
        ),
        "cluster_table": Call(
            bnp.cluster_table, {"partition": labels[0], "data": X, "draws": labels, "columns": None}
        ),
        "feature_table": Call(
            bnp.feature_table, {"features": labels[:, :3], "parameters": X[:3], "columns": None}
        ),
        "kmeans_plus_plus": Call(
            bnp.kmeans_plus_plus, {"key": jax.random.key(0), "data": X, "num_clusters": 3}
        ),
        "scir": Call(
            s.scir,
            {
                "counts": s.Minibatch(
                    s.Summand(jnp.full((2, 3), 0.5), lambda x, item: jnp.ones((2, 3))), s.Uniform(5)
                ),
                "step_size": 0.1,
                "scale": "refresh",
            },
            run,
            WEIGHTS,
        ),
        "bondesson": Call(
            lambda **arguments: bnp.bondesson(bnp.BetaProcess(**arguments)),
            {"mass": 1.0, "concentration": 1.0},
        ),
    }


def numbers() -> dict[str, Call]:
    """Diagnostics, special functions, draws, scores."""
    key, draws = jax.random.key(0), np.random.default_rng(3).normal(size=(2, 50, 2))
    return {
        "ess": Call(s.ess, {"x": draws, "kind": "bulk"}),
        "rhat": Call(s.rhat, {"x": draws}),
        "ksd": Call(s.ksd, {"positions": draws[0], "scores": -draws[0], "c": 1.0, "beta": -0.5}),
        "gamma": Call(random.gamma, {"key": key, "shape_parameter": np.ones(3)}),
        "poisson": Call(random.poisson, {"key": key, "rate": np.ones(3)}),
        "log_beta": Call(random.log_beta, {"key": key, "a": 1.0, "b": 2.0}),
        "von_mises_fisher": Call(
            random.von_mises_fisher,
            {"key": key, "mean_direction": np.array([1.0, 0.0, 0.0]), "concentration": 2.0},
        ),
        "log_bessel_i": Call(special.log_bessel_i, {"order": 1.0, "argument": 2.0}),
        "bessel_ratio": Call(special.bessel_ratio, {"order": 1.0, "argument": 2.0}),
        "vmf_density": Call(
            directional.von_mises_fisher_log_prob,
            {"x": np.array([1.0, 0.0]), "mean_direction": np.array([0.0, 1.0])}
            | {"concentration": 1.0},
        ),
        "top_words": Call(
            evaluation.top_words, {"topics": TOPICS, "vocabulary": ["a", "b", "c"], "num": 2}
        ),
        "infer_proportions": Call(
            evaluation.infer_proportions,
            {
                "topics": np.full((2, 4), 0.25, np.float32),
                "concentrations": np.ones(2, np.float32),
                "documents": groups(),
            },
        ),
        "scir_theory": Call(
            diagnostics.scir_batch_size, {"inflation": 1.1, "num_items": 100, "step_size": 0.1}
        ),
        "Ball": Call(s.Ball, {"radius": 1.0, "centre": 0.0}),
        "Box": Call(s.Box, {"lower": 0.0, "upper": 1.0}),
        "HiddenMarkov": Call(
            models.HiddenMarkov, {"num_states": 2, "emission": models.NormalEmission()}
        ),
        "MatrixFactorization": Call(
            models.MatrixFactorization, {"num_users": 3, "num_items": 4, "rank": 2}
        ),
        "LDA": Call(models.LDA, {"num_topics": 2, "vocabulary": 3, "alpha": 0.5, "beta": 0.5}),
        "FunctionNetwork": Call(
            models.FunctionNetwork,
            {"function": lambda weights, x: x @ weights, "weights": np.ones((2, 3), np.float32)},
            lambda made, held: models.BayesianNetwork(made),
        ),
        "transform": Call(
            lambda **arguments: models.LDA(2, 3, 0.5, 0.5).transform(key, **arguments),
            {
                "log_topics": np.zeros((1, 2, 3), np.float32),
                "documents": np.array([[0, 1, -1, -1], [2, 2, 1, -1]]),
            }
            | {"draws": 3},
        ),
        "entries": Call(
            lambda items: evaluation.NewItems(np.eye(2, 3), np.full(2, 0.5), 0.5).entries(items),
            {"items": np.zeros((4, 3), np.float32)},
        ),
        "BayesianNetwork": Call(
            models.BayesianNetwork, {"network": eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))}
        ),
    }


def drawings() -> dict[str, Call]:
    """Pictures."""
    labels = np.random.default_rng(2).integers(0, 3, 20)
    draws = np.random.default_rng(3).normal(size=(2, 50, 3))
    info, stopped = s.RunInfo(None, None), np.full(2, -1)
    done = s.Run({"x": draws}, info, None, stopped, 50, ("chain", "draw"))
    seen = [tune.Arm({"step_size": h}, h, 1.0, 10, 10.0, 1) for h in (0.1, 0.2)]
    tuned = tune.Tuned(minibatch(), seen[0].setting, done, seen)  # type: ignore
    directions = draws / np.linalg.norm(draws, axis=-1, keepdims=True)
    one, several = {"ax": None}, {"axes": None}
    limits = {"num": 2, "counts": np.array([3, 1]), "columns": 2}
    return {
        "plot_trace": Call(pictures.plot_trace, {"run": done, "names": ["x[1]"]} | several),
        "plot_ksd": Call(pictures.plot_ksd, {"tuned": tuned, "name": None} | one),
        "plot_clusters": Call(
            pictures.plot_clusters,
            {"points": X, "partition": labels, "columns": None, "sds": (1.0, 2.0)} | one,
        ),
        "plot_features": Call(
            pictures.plot_features, {"parameters": X[:2], "shape": (1, 2)} | limits | several
        ),
        "plot_topics": Call(
            pictures.plot_topics,
            {"topics": TOPICS, "vocabulary": ["a", "b", "c"]} | limits | several,
        ),
        "plot_sphere": Call(
            pictures.plot_sphere, {"samples": directions, "directions": directions[0, 0]} | one
        ),
    }


def calls() -> dict[str, Call]:
    """All of them."""
    return kernels() | parts() | nonparametrics() | numbers() | drawings()
