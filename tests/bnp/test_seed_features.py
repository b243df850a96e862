"""The start of feature samplers, and the density that chooses it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sgmc_jax import sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    FeatureLikelihood,
    LinearGaussian,
    hybrid_features,
    seed_features,
)
from sgmc_jax.families import FeatureRows

KEY = jax.random.key(0)
PLANTED = np.kron(np.eye(3), np.ones((1, 4)))


def _items(num: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    entries = rng.integers(0, 2, (num, 3))
    return (entries @ PLANTED + 0.2 * rng.standard_normal((num, 12))).astype(np.float32)


@pytest.mark.full
def test_planted_features_are_found_among_many_items():
    x, parts = jnp.asarray(_items(2000)), (BetaBernoulli(1.0), LinearGaussian(12, 0.2, 1.0))
    start = seed_features(KEY, *parts, x, num_items=60, num_chains=8, num_steps=60, capacity=8)
    assert np.asarray(start.local["features"]).any(axis=1).sum() <= 60
    run = sample(KEY, hybrid_features(*parts, blocks=20, capacity=8), start, x, num_steps=20)
    found = np.asarray(run.state.position.shared["parameters"])
    cosine = PLANTED @ found.T / np.maximum(np.linalg.norm(found, axis=1), 1e-9) / 2
    assert (cosine.max(axis=1) > 0.99).all()
    assert run.info.active[-1] == 3


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.3, 2.0)])
def test_the_density_of_linear_gaussian_items(scales):
    """Against that of normals with covariance s^2 I + s_A^2 Z Z'; free slots count for nothing."""
    noise, feature = scales
    rng = np.random.default_rng(1)
    entries, x = rng.integers(0, 2, (5, 3)), rng.standard_normal((5, 2))
    family = LinearGaussian(2, noise, feature)
    padded = np.pad(entries, ((0, 2), (0, 1)))
    real = jnp.arange(7) < 5
    rows = FeatureRows(
        jnp.asarray(np.pad(x, ((0, 2), (0, 0)), constant_values=9)), jnp.asarray(padded.T), real
    )
    covariance = noise**2 * np.eye(5) + feature**2 * entries @ entries.T
    expected = sum(multivariate_normal.logpdf(col, np.zeros(5), covariance) for col in x.T)
    got = family.logdensity(family.start(), jnp.zeros((4, 2)), rows)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_the_density_of_items_that_are_large_beside_their_noise():
    """In float32; it is of numbers that are 1e8 times its own size, were they subtracted."""
    rng = np.random.default_rng(2)
    entries, theta = rng.integers(0, 2, (50, 3)), 1e4 * rng.standard_normal((3, 2))
    x = np.float32(entries @ theta + rng.standard_normal((50, 2))).astype(float)
    rows = FeatureRows(jnp.asarray(x), jnp.asarray(entries.T), jnp.ones(50, bool))
    covariance = np.eye(50) + 1e8 * entries @ entries.T
    precise = np.linalg.slogdet(covariance)[1] + np.log(2 * np.pi) * 50
    mean = np.linalg.solve(entries.T @ entries + 1e-8 * np.eye(3), entries.T @ x)
    square = np.sum((x - entries @ mean) ** 2) + 1e-8 * np.sum(mean**2)
    family = LinearGaussian(2, 1.0, 1e4)
    got = family.logdensity(family.start(), jnp.zeros((3, 2)), rows)
    np.testing.assert_allclose(got, -precise - square / 2, rtol=1e-3)


def test_the_density_of_a_likelihood_of_ones_own():
    family = FeatureLikelihood(
        lambda theta, z, x: -0.5 * (x - z @ theta) ** 2,
        lambda theta: -0.5 * theta**2,
        lambda key: jax.random.normal(key),
    )
    theta, entries = np.array([1.0, -2.0, 7.0]), np.array([[1, 0], [1, 1], [0, 0]])
    x = np.array([0.5, 1.5])
    rows = FeatureRows(jnp.asarray(x), jnp.asarray(entries), jnp.ones(2, bool))
    # by Schwarz: two rows, and two numbers of features in use
    expected = -0.5 * np.sum((x - theta @ entries) ** 2) - 2 * np.log(2) / 2
    got = family.logdensity({}, jnp.asarray(theta), rows)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_the_density_counts_all_numbers_of_a_feature():
    family = FeatureLikelihood(
        lambda theta, z, x: -0.5 * jnp.sum((x - z @ theta["a"]) ** 2),
        lambda theta: 0.0,
        lambda key: {"a": jax.random.normal(key, (3,)), "b": jnp.zeros(())},
    )
    theta = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(2)}
    rows = FeatureRows(jnp.ones((5, 3)), jnp.ones((2, 5), int), jnp.ones(5, bool))
    # two features in use, of four numbers each
    np.testing.assert_allclose(family.logdensity({}, theta, rows), -7.5 - 8 * np.log(5) / 2)


@pytest.mark.parametrize("name", ["num_items", "num_chains", "num_steps", "capacity"])
def test_numbers_out_of_range_are_named(name):
    with pytest.raises(ValueError, match=name):
        seed_features(KEY, BetaBernoulli(1.0), LinearGaussian(12), jnp.zeros((5, 12)), **{name: 0})
