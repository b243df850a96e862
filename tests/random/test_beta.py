"""Beta variates and the Metropolis test against their laws; each bound is a false alarm of 1e-6."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax.random import accept, log_beta

NUM = 20_000
KS = 2.7 / np.sqrt(NUM)  # exceeded with probability 2 exp(-2 * 2.7^2) = 9e-7


def distance(a, b, law):
    drawn = log_beta(jax.random.key(3), jnp.full(NUM, a), b)[0]
    return stats.kstest(np.exp(np.asarray(drawn, float)), law.cdf).statistic


@pytest.mark.parametrize("a,b", [(0.7, 0.3), (2.5, 1.0), (1.0, 40.0)])
def test_the_law(a, b):
    assert distance(a, b, stats.beta(a, b)) < KS
    assert distance(a, b, stats.beta(b, a)) > KS  # the shapes exchanged


def test_both_logarithms_belong_together():
    logs = np.array(log_beta(jax.random.key(4), jnp.full((3, 100), 1e-3), jnp.array(1e-3)))
    assert logs.shape == (2, 3, 100) and np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs).sum(0), 1.0, rtol=1e-5)


@pytest.mark.parametrize("log_ratio", [-2.0, -0.1, 0.5])
def test_proposals_are_taken_with_their_probability(log_ratio):
    taken = accept(jax.random.key(5), jnp.full(NUM, log_ratio)).mean()
    p = min(1.0, np.exp(log_ratio))
    assert abs(taken - p) <= 5 * np.sqrt(p * (1 - p) / NUM)


def test_a_uniform_of_zero_is_not_taken_for_certain(monkeypatch):
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape, dtype: jnp.zeros(shape, dtype))
    taken = accept(jax.random.key(6), jnp.array([-1e3, -50.0, -1.0]))
    np.testing.assert_array_equal(taken, [False, False, True])
