"""The hybrid feature sampler does not know how many devices there are, nor how many slots."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Pmap, ShardMap, Vmap, sample
from sgmc_jax.bnp import (
    Anchored,
    BetaBernoulli,
    Demotion,
    FeatureLikelihood,
    GammaPoisson,
    LinearGaussian,
    hybrid_features,
)
from tests.laws.moments import fewer

KEY = jax.random.key(8)
_rng = np.random.default_rng(0)
LOADINGS = 3 * np.eye(3, 6)
X = (_rng.random((45, 3)) < 0.5) @ LOADINGS + 0.5 * _rng.normal(size=(45, 6))


def process():
    return BetaBernoulli(2.0, 1.5, prior=(2.0, 1.0), concentration_prior=(2.0, 2.0))


def normal():
    return LinearGaussian(6, 0.5, 2.0, noise_prior=(2.0, 0.5), feature_prior=(2.0, 4.0))


def explicit():
    """The linear-Gaussian likelihood, with its features in the chain."""
    return FeatureLikelihood(
        lambda theta, z, x: -2 * jnp.sum((x - z @ theta) ** 2),
        lambda theta: -jnp.sum(theta**2) / 8,
        lambda key: 2 * jax.random.normal(key, (6,)),
    )


# made by the tests, in their precision: in float32 one program's rounding is not another's
MODELS = {
    "linear": lambda: (process(), normal()),
    "explicit": lambda: (process(), explicit()),
    "counts": lambda: (GammaPoisson(1.0, 2.0, prior=(2.0, 1.0)), normal()),
}


def features(run):
    return run.trace.local["features"]


@pytest.mark.full
@pytest.mark.long  # `hybrid_mixture` does so in the full tier
def test_the_same_chain_on_eight_devices(x64):
    """In float64, items that do not divide by the shards."""
    check_engines("linear", 45, [ShardMap(8)])


@pytest.mark.full
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("num_items", [45, 5])
def test_the_same_chain_on_any_engine(model, num_items, x64):
    """With five items on eight shards, three are empty."""
    check_engines(model, num_items, [Vmap(8), Pmap(8), ShardMap(2)])


def check_engines(model, num_items, engines):
    num_steps = max(fewer(320), 160)  # until all have moved
    kernel = hybrid_features(*MODELS[model](), blocks=8, local_sweeps=2)
    data, args = jnp.asarray(X[:num_items]), {"num_steps": num_steps}
    alone = sample(KEY, kernel, None, data, **args)
    assert len(np.unique(alone.info.active)) > 1
    assert num_items == 5 or alone.info.active.max() > 1
    for engine in engines:
        shared = sample(KEY, kernel, None, data, engine=engine, **args)
        assert features(shared).shape == (num_steps, num_items, alone.capacity)
        assert np.array_equal(features(alone), features(shared)), engine
        for name, values in alone.trace.shared.items():
            np.testing.assert_allclose(
                values, shared.trace.shared[name], rtol=1e-10, atol=1e-10, err_msg=name
            )


@pytest.mark.full
@pytest.mark.parametrize(
    "model,schedule,blocks",
    [
        ("linear", Anchored(), 3),
        *(
            pytest.param(*row, marks=pytest.mark.full)
            for row in [
                ("linear", Demotion(), 1),
                ("explicit", Anchored(), 3),
                ("counts", Anchored(), 3),
            ]
        ),
    ],
)
def test_the_chain_does_not_depend_on_the_capacity(model, schedule, blocks, x64):
    few = 2 if model == "explicit" else 4
    runs = [
        sample(
            KEY,
            hybrid_features(*MODELS[model](), schedule=schedule, blocks=blocks, capacity=slots),
            np.ones((len(X), 1), bool),  # of seeds in so few slots some would have no room
            X,
            num_steps=60,
        )
        for slots in (few, 32)
    ]
    assert few < runs[0].capacity < 32 and not runs[0].info.overflow.any()
    fewer = features(runs[0]).shape[2]
    assert np.array_equal(features(runs[0]), features(runs[1])[:, :, :fewer])
    assert not features(runs[1])[:, :, fewer:].any()
    for name in ("mass", "concentration"):
        np.testing.assert_allclose(*(run.trace.shared[name] for run in runs), rtol=1e-10)
