"""Answers and counts that add up from features: their densities, draws and checks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import bernoulli, kstest, loggamma, norm, poisson

from sgmc_jax import sample
from sgmc_jax.bnp import BetaBernoulli, LinearLogistic, LinearPoisson, hybrid_features

INTERCEPT, BACKGROUND = np.array([-1.0, 0.5]), np.array([0.3, 2.0])
SHAPE, RATE = np.array([0.2, 3.0]), np.array([1.0, 0.5])
LOGISTIC = LinearLogistic(2, 1.5, INTERCEPT)
FACTORS = LinearPoisson(2, SHAPE, RATE, BACKGROUND)
PARAMS, ENTRIES = np.array([[0.3, -2.0], [1.0, 0.7], [-0.4, 0.1]]), np.array([2, 0, 1])


def test_the_density_of_answers():
    odds = INTERCEPT + ENTRIES @ PARAMS
    for item in ([0, 0], [1, 0], [1, 1]):
        expected = bernoulli.logpmf(item, 1 / (1 + np.exp(-odds))).sum()
        got = LOGISTIC.log_item(jnp.asarray(PARAMS), jnp.asarray(ENTRIES), jnp.asarray(item))
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_the_density_of_counts_but_for_what_depends_on_them_alone():
    mean = BACKGROUND + ENTRIES @ np.exp(PARAMS)
    log = lambda x: FACTORS.log_item(jnp.asarray(PARAMS), jnp.asarray(ENTRIES), jnp.asarray(x))
    expected = poisson.logpmf([4, 1], mean).sum() - poisson.logpmf([0, 0], mean).sum()
    base = np.log(24) - (4 * np.log(4) - 4 - 1)  # log x! - (x log x - x)
    np.testing.assert_allclose(log([4, 1]) - log([0, 0]), expected + base, rtol=1e-5)


def test_large_counts_keep_what_a_column_adds():
    """Differences of log likelihoods of 1e7 in float32 were off by whole numbers."""
    counts, params = np.array([1_003_000.0, 998_500.0]), np.log([[1e6, 1e6], [3e3, 40.0]])
    mean = lambda z: 0.1 + z @ np.exp(params.astype(np.float32).astype(float))
    of = lambda z: poisson.logpmf(counts, mean(np.array(z))).sum()
    log = lambda z: LinearPoisson(2).log_item(*map(jnp.float32, (params, z, counts)))
    np.testing.assert_allclose(log([1, 1]) - log([1, 0]), of([1, 1]) - of([1, 0]), atol=0.01)


def test_an_answer_far_from_its_odds_keeps_its_gradient():
    """Of a difference of two large numbers in float32 nothing would be left."""
    far = jnp.full((1, 2), 60.0)
    log = lambda u: LOGISTIC.log_item(u, jnp.ones(1, int), jnp.zeros(2))
    np.testing.assert_allclose(log(far), -np.sum(60 + INTERCEPT), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(log)(far), -1.0, rtol=1e-6)


def test_draws_and_densities_of_priors_are_of_one_law():
    keys = jax.random.split(jax.random.key(0), 4_000)
    normals, logs = (np.asarray(jax.vmap(f.draw_theta)(keys)) for f in (LOGISTIC, FACTORS))
    laws = [loggamma(a, loc=-np.log(r)) for a, r in zip(SHAPE, RATE)]
    for draws, law in [*zip(normals.T, [norm(scale=1.5)] * 2), *zip(logs.T, laws)]:
        assert kstest(draws, law.cdf).pvalue > 1e-6
    near, far = jnp.array([0.1, 0.4]), jnp.array([-1.0, 0.9])
    for family, each in ((LOGISTIC, [norm(scale=1.5)] * 2), (FACTORS, laws)):
        expected = sum(law.logpdf(a) - law.logpdf(b) for law, a, b in zip(each, far, near))
        got = family.log_theta(far) - family.log_theta(near)
        np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize(
    "family,data,message",
    [
        (LOGISTIC, [[0, 2]], "answers, 0 or 1, got 2"),
        (LOGISTIC, [[0, 1, 1]], r"shape \(n, 2\)"),
        (FACTORS, [[0.5, 1.0]], "counts, got a fraction"),
        (FACTORS, [[-1, 1]], "negative"),
    ],
)
def test_other_data_are_refused(family, data, message):
    with pytest.raises(ValueError, match=message):
        kernel = hybrid_features(BetaBernoulli(1.0), family)
        sample(jax.random.key(0), kernel, None, np.array(data), num_steps=1)


def test_answers_may_be_true_or_false():
    kernel = hybrid_features(BetaBernoulli(1.0), LOGISTIC, capacity=4)
    answers = np.random.default_rng(0).random((5, 2)) < 0.4
    run = lambda data: sample(jax.random.key(0), kernel, None, data, num_steps=3).trace
    jax.tree.map(np.testing.assert_array_equal, run(answers), run(answers.astype(int)))


@pytest.mark.parametrize("name", ["shape", "rate", "background"])
def test_what_must_be_positive(name):
    with pytest.raises(ValueError, match=name):
        LinearPoisson(2, **{name: np.array([1.0, 0.0])})
