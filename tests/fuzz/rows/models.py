"""Calls: models."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from sgmc_jax import models
from tests.fuzz.rows.common import COUNTS, Call, X, Y, estimate, run

ZERO = np.zeros(2, np.float32)


def regression(made: Any, held: dict[str, Any]) -> Any:
    return estimate(s.Minibatch(made, s.Uniform(5)), held)


def series(made: Any, held: dict[str, Any]) -> Any:
    return estimate(s.Minibatch(made, s.Window(5, buffer=1)), held)


def of_models() -> dict[str, Call]:
    """Regressions, factors, networks, topics."""
    pairs = {"position": ZERO, "data": (X, Y)}
    ratings = {"data": ((np.arange(6) % 3, np.arange(6) % 4), np.arange(6.0, dtype=np.float32))}
    classes = {"position": np.zeros((2, 2), np.float32), "data": (X, Y.astype(np.int32))}
    factor = lambda made, held: regression(made, held | {"position": made.start(jax.random.key(0))})
    words = lambda made, held: run(
        s.sggmc(made.topics(s.Uniform(3)), s.Sphere(), 0.01),
        {"position": made.start(jax.random.key(0)), "data": made.documents(held["counts"])},
    )
    return {
        "LogisticRegression": Call(
            models.LogisticRegression, {"prior_variance": 10.0}, regression, pairs
        ),
        "SoftmaxRegression": Call(
            models.SoftmaxRegression,
            {"num_classes": 2, "prior_variance": 10.0},
            regression,
            classes,
        ),
        "MatrixFactorization": Call(
            models.MatrixFactorization,
            {"num_users": 3, "num_items": 4, "rank": 2, "noise_precision": 1.0, "centre": 0.0}
            | {"mean": 0.0, "precision_prior": (1.0, 1.0)},
            factor,
            ratings,
        ),
        "LDA": Call(
            models.LDA,
            {"num_topics": 2, "vocabulary": 3, "alpha": 0.5, "beta": 0.5},
            lambda made, held: made.documents(held["counts"]),
            {"counts": COUNTS},
        ),
        "SphericalAdmixture": Call(
            models.SphericalAdmixture,
            {"num_topics": 2, "vocabulary": 3, "alpha": 1.0, "concentration": 10.0}
            | {"topic_concentration": 2.0, "prior_concentration": 1.0, "mean_direction": None},
            words,
            {"counts": 1 + COUNTS},
        ),
        "FunctionNetwork": Call(
            models.FunctionNetwork,
            {"function": lambda weights, x: x @ weights, "weights": np.ones((2, 3), np.float32)},
            lambda made, held: models.BayesianNetwork(made),
        ),
        "TwoLayerNetwork": Call(
            models.TwoLayerNetwork,
            {"key": jax.random.key(0), "inputs": 2, "hidden": 3, "outputs": 2}
            | {"activation": jax.nn.sigmoid},
            lambda made, held: jax.eval_shape(made, jnp.zeros(2)),
        ),
        "BayesianNetwork": Call(
            models.BayesianNetwork, {"network": eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))}
        ),
        "transform": Call(
            lambda **arguments: models.LDA(2, 3, 0.5, 0.5).transform(
                jax.random.key(0), **arguments
            ),
            {
                "log_topics": np.zeros((1, 2, 3), np.float32),
                "documents": np.array([[0, 1, -1, -1], [2, 2, 1, -1]]),
            }
            | {"draws": 3},
        ),
    }


def of_series() -> dict[str, Call]:
    """Models of series, their emissions, and particles."""
    chain = {"transition": np.zeros((2, 1), np.float32)}
    hidden = lambda emission, held: series(models.HiddenMarkov(2, emission), held)

    def emits(kind, parameters, rows, **arguments):
        held = {"position": chain | {"emission": parameters}, "data": rows}
        return Call(kind, arguments, hidden, held)

    normal = {"mean": ZERO, "log_scale": ZERO}
    square = {name: np.full((1, 1), 0.5) for name in ("transition", "state_noise")}
    state = {"position": {"mean": 0.0, "persistence": 0.9, "scale": 0.2}, "data": X[:, 0]}
    volatile = models.StochasticVolatility()
    particles = lambda made, held: run(
        s.sgld(made.gradients(s.Window(5, buffer=1), 4), 0.01),
        held | {"position": made.position(**held["position"])},
    )
    return {
        "HiddenMarkov": Call(
            models.HiddenMarkov,
            {"num_states": 2, "emission": models.NormalEmission(), "concentration": 1.0}
            | {"initial": None},
            series,
            {"position": chain | {"emission": normal}, "data": X[:, 0]},
        ),
        "NormalEmission": emits(
            *(models.NormalEmission, normal, X[:, 0]),
            **{"mean": 0.0, "scale": 10.0, "precision_prior": (1.0, 1.0)},
        ),
        "PoissonEmission": emits(
            models.PoissonEmission, {"log_rate": ZERO}, COUNTS[:, 0], rate_prior=(1.0, 1.0)
        ),
        "CategoricalEmission": emits(
            *(models.CategoricalEmission, {"logits": np.zeros((2, 3), np.float32)}, COUNTS[:, 0]),
            **{"num_symbols": 4, "concentration": 1.0},
        ),
        "FunctionEmission": emits(
            *(models.FunctionEmission, ZERO, X[:, 0]),
            **{
                "prior_function": lambda w: -0.5 * w**2,
                "loglik_function": lambda w, y: -0.5 * (y - w) ** 2,
                "sample_function": None,
            },
        ),
        "LinearGaussianStateSpace": Call(
            models.LinearGaussianStateSpace,
            {"state_dim": 1, "observation_dim": 1, "known": {"observation": np.eye(1)}}
            | {"scale": 1.0, "noise_prior": (3.0, 1.0), "initial": None},
            lambda made, held: series(made, held | {"position": made.position(**held["matrices"])}),
            {"matrices": square | {"observation_noise": np.eye(1)}, "data": X[:, :1]},
        ),
        "StochasticVolatility": Call(
            models.StochasticVolatility,
            {"mean_prior": (0.0, 10.0), "persistence_prior": (20.0, 1.5)}
            | {"precision_prior": (2.5, 0.025)},
            particles,
            state,
        ),
        "ParticleSmoother": Call(
            models.ParticleSmoother,
            {"model": volatile, "num_particles": 4},
            lambda made, held: estimate(
                s.LatentMinibatch(volatile, made, s.Window(5, buffer=1)), held
            ),
            {"position": volatile.position(**state["position"]), "data": X[:, 0]},
        ),
    }


def of_numpyro() -> dict[str, Call]:
    """A model that is written in numpyro."""
    return {
        "from_numpyro": Call(
            s.from_numpyro,
            {"model": straight, "x": X, "y": Y, "plate": None, "axis": None},
            lambda made, held: regression(made, held | {"data": made.data(held["x"], held["y"])}),
            {"position": {"w": ZERO}, "x": X, "y": Y},
        ),
        "from_numpyro.predictive": Call(
            lambda **arguments: s.from_numpyro(straight, X, Y).predictive(**arguments),
            {"key": jax.random.key(0), "trace": {"w": np.zeros((3, 2), np.float32)}, "x": X},
        ),
    }


def straight(x, y=None):
    import numpyro
    import numpyro.distributions as dist

    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("items", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, 1), obs=y)
