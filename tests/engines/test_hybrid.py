"""The hybrid mixture sampler does not know how many devices there are, nor how many slots."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Dist, Pmap, ShardMap, Vmap, sample
from sgmc_jax.bnp import (
    Anchored,
    Demotion,
    DirichletProcess,
    NormalInverseWishart,
    NormalKnownCovariance,
    PitmanYor,
)
from sgmc_jax.bnp import hybrid_mixture as hybrid
from tests.laws.moments import fewer

KEY = jax.random.key(8)
_rng = np.random.default_rng(0)
CENTRES = 4 * _rng.normal(size=(4, 2))
X = CENTRES[_rng.integers(0, 4, 45)] + 0.5 * _rng.normal(size=(45, 2))


def dirichlet():
    """Made by the tests, in their precision: in float32 programs round differently."""
    return DirichletProcess(1.0, prior=(2.0, 1.0))


def known():
    return NormalKnownCovariance(np.zeros(2), 0.25 * np.eye(2), 16.0 * np.eye(2))


def wishart():
    return NormalInverseWishart(dim=2)


def labels(run):
    return run.trace.local["assignment"]


@pytest.mark.parametrize("family", [known, pytest.param(wishart, marks=pytest.mark.full)])
def test_the_same_chain_on_eight_devices(family, x64):
    """In float64, items that do not divide by the shards."""
    check_engines(45, [ShardMap(8)], family)


@pytest.mark.full
@pytest.mark.parametrize("num_items", [45, 5])
def test_the_same_chain_on_any_engine(num_items, x64):
    """With five items on eight shards, three are empty."""
    check_engines(num_items, [Vmap(8), Pmap(8), Vmap(2)])


def check_engines(num_items, engines, family=wishart):
    num_steps = fewer(200)
    start = Dist({}, {"assignment": np.arange(num_items) % 4})
    kernel = hybrid(dirichlet(), family(), blocks=8, local_sweeps=2, capacity=16)
    data, args = jnp.asarray(X[:num_items]), {"num_steps": num_steps}
    alone = sample(KEY, kernel, start, data, **args)
    assert len(np.unique(labels(alone), axis=0)) > 1
    for engine in engines:
        shared = sample(KEY, kernel, start, data, engine=engine, **args)
        assert labels(shared).shape == (num_steps, num_items)
        assert np.array_equal(labels(alone), labels(shared)), engine
        np.testing.assert_allclose(
            alone.trace.shared["concentration"], shared.trace.shared["concentration"], rtol=1e-10
        )


@pytest.mark.full
def test_chains_on_shards(x64):
    kernel = hybrid(dirichlet(), NormalInverseWishart(dim=2), blocks=4, capacity=16)
    args = {"num_steps": 30, "num_chains": 3}
    alone = sample(KEY, kernel, None, X, **args)
    assert len(np.unique(labels(alone)[0], axis=0)) > 1
    assert np.array_equal(
        labels(alone), labels(sample(KEY, kernel, None, X, engine=Vmap(4), **args))
    )


def test_blocks_are_a_multiple_of_the_shards():
    kernel = hybrid(dirichlet(), NormalInverseWishart(dim=2), blocks=6)
    with pytest.raises(ValueError, match="blocks must be a multiple of the engine's 4 shards"):
        sample(KEY, kernel, None, X, num_steps=1, engine=Vmap(4))


@pytest.mark.parametrize(
    "schedule,blocks,few",
    [
        pytest.param(Anchored(), 3, 8, marks=pytest.mark.full),
        pytest.param(Anchored(), 3, 2, marks=pytest.mark.full),
        pytest.param(Demotion(), 1, 2, marks=pytest.mark.full),
    ],
)
def test_the_chain_does_not_depend_on_the_capacity(schedule, blocks, few, x64):
    family = NormalKnownCovariance(np.zeros(2), 0.25 * np.eye(2), 16.0 * np.eye(2))
    runs = [
        sample(
            KEY,
            hybrid(PitmanYor(2.0, 0.2), family, schedule=schedule, blocks=blocks, capacity=slots),
            None,
            X,
            num_steps=60,
        )
        for slots in (few, 64)
    ]
    assert runs[0].capacity > few and not runs[0].info.overflow.any()
    assert np.array_equal(labels(runs[0]), labels(runs[1]))


@pytest.mark.full
def test_planted_clusters_are_found():
    corners = 8.0 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 60)
    data = corners[truth] + 0.5 * rng.normal(size=(60, 2))
    family = NormalKnownCovariance(np.zeros(2), 0.25 * np.eye(2), 64.0 * np.eye(2))
    run = sample(KEY, hybrid(dirichlet(), family, blocks=5), None, data, num_steps=300, burn_in=100)
    found = labels(run)[:, :, None] == labels(run)[:, None]
    assert (found == (truth[:, None] == truth)).mean() > 0.98


@pytest.mark.full
@pytest.mark.parametrize("num_items", [1, pytest.param(2, marks=pytest.mark.full)])
def test_hardly_any_items(num_items):
    kernel = hybrid(dirichlet(), NormalInverseWishart(dim=2), blocks=4)
    run = sample(KEY, kernel, None, np.tile(X[:1], (num_items, 1)), num_steps=20)
    assert labels(run).shape == (20, num_items)
    assert np.isfinite(run.trace.shared["concentration"]).all()


def test_bad_input():
    family = NormalInverseWishart(dim=2)
    cases = [
        ({"blocks": 0}, "blocks must be"),
        ({"capacity": 0}, "capacity must be"),
        ({"local_sweeps": 1.5}, "local_sweeps must be"),
        ({"schedule": Demotion(), "blocks": 2}, "must be 1 for the schedule Demotion\\(\\)"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            hybrid(dirichlet(), family, **arguments)
    with pytest.raises(TypeError, match="schedule must be one of"):
        hybrid(dirichlet(), family, schedule="anchored")
    with pytest.raises(TypeError, match="process must be"):
        hybrid(1.0, family)
    with pytest.raises(TypeError, match="family must be"):
        hybrid(dirichlet(), "normal")
    for wrong in [np.full((5, 2), np.nan), np.zeros((5, 3))]:
        with pytest.raises(ValueError, match="data"):
            sample(KEY, hybrid(dirichlet(), family), None, wrong, num_steps=1)
    for wrong in [np.zeros(7, int), np.zeros((45, 1), int)]:
        with pytest.raises(ValueError, match="position must have a label for each of 45 items"):
            sample(KEY, hybrid(dirichlet(), family), wrong, X, num_steps=1)
    for wrong in [-1, 15]:
        message = f"labels from 0 to 15, .* got {wrong} to {wrong + 2}"
        with pytest.raises(ValueError, match=message):
            sample(KEY, hybrid(dirichlet(), family), np.arange(45) % 3 + wrong, X, num_steps=1)
    for process in [(DirichletProcess, (-1.0,)), (PitmanYor, (1.0, 1.0)), (PitmanYor, (-0.5, 0.2))]:
        with pytest.raises(ValueError, match="concentration|discount"):
            process[0](*process[1])
