"""The law of new items, against the process, the collapsed likelihood and all entries."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy.special import logsumexp
from scipy.stats import norm, poisson

from sgmc_jax.bnp import BetaBernoulli, GammaPoisson, LinearGaussian
from sgmc_jax.evaluation import NewItems, new_items
from sgmc_jax.families import FeatureRows
from tests.laws.moments import check_mean

KEY = jax.random.key(0)
NOISE, SCALE = 0.5, 0.8
PROCESS, FAMILY = BetaBernoulli(1.5, 2.0), LinearGaussian(2, NOISE, SCALE)
COLUMNS = np.array([[1, 1, 0], [1, 0, 0]])
SEEN = np.array([[1.0, -0.5], [0.7, 0.2], [0.1, 0.0]], np.float32)
NEW = np.array([[0.9, -0.3], [-1.0, 1.0]], np.float32)
MOST = 7  # new columns
Z = np.array([(a, b) for a in (0, 1) for b in (0, 1) for _ in range(MOST + 1)])
BORN = np.tile(np.arange(MOST + 1), 4)
COUNTS = COLUMNS.sum(1)


def hyper(values):
    return {"parameters": values} | PROCESS.start() | FAMILY.start()


def law(values, process=PROCESS):
    return NewItems.of(process, hyper(jnp.asarray(values)), COUNTS, 3)


@jax.jit
@jax.vmap
def log_chances(z, born):
    """The next item's entries by the process: its new columns are alike, in no order."""
    new = (jnp.arange(MOST) < born).astype(int)
    counts, old = jnp.concatenate([COUNTS + z, new]), jnp.concatenate([COUNTS, 0 * new])
    gain = PROCESS.logdensity(PROCESS.start(), counts, 4)
    return gain - PROCESS.logdensity(PROCESS.start(), old, 3) - gammaln(born + 1.0)


def of_entries(made):
    w, births = np.asarray(made.weights), float(made.births)
    return np.log(np.where(Z, w, 1 - w)).sum(axis=1) + poisson.logpmf(BORN, births)


def test_entries_are_those_of_the_process():
    made, exact = law(np.zeros((2, 2))), log_chances(Z, BORN)
    np.testing.assert_allclose(of_entries(made), exact, atol=1e-4)
    wrong = replace(made, weights=COUNTS / 3.0)  # without c
    assert np.max(np.abs(of_entries(wrong) - exact)) > 0.1


@jax.jit
@jax.vmap
def collapsed(z, born):
    """log p(x | X, Z, z) of each new item, parameters integrated out; columns of zeros are none."""
    last = jnp.concatenate([z, jnp.arange(MOST) < born])
    columns = jnp.pad(jnp.asarray(COLUMNS), ((0, MOST), (0, 1))).at[:, 3].set(last)

    def density(item, real):
        rows = FeatureRows(jnp.vstack([SEEN, item]), columns * real, real)
        return FAMILY.logdensity(FAMILY.start(), jnp.zeros((MOST + 2, 2)), rows)

    four = jnp.ones(4, bool)
    return jax.vmap(lambda item: density(item, four) - density(item, four.at[3].set(False)))(NEW)


@jax.jit
def densities(feature_scale):
    """p(x | A) for draws of A given what was seen."""
    rows, zeros = (
        FeatureRows(jnp.asarray(SEEN), jnp.asarray(COLUMNS), jnp.ones(3, bool)),
        jnp.zeros((2, 2)),
    )
    stats = FAMILY.statistics(zeros, rows)

    def one(key):
        values = FAMILY.report(key, FAMILY.start(), zeros, stats, COUNTS)
        return replace(law(values), feature_scale=feature_scale).log_prob(NEW)

    return jnp.exp(jax.vmap(one)(jax.random.split(KEY, 20_000)))


def test_draws_average_to_the_predictive_density():
    exact = jnp.exp(log_chances(Z, BORN)[:, None] + collapsed(Z, BORN)).sum(axis=0)
    check_mean(densities(SCALE), exact, 0.05)
    with pytest.raises(AssertionError):  # new features without a variance of their own
        check_mean(densities(1e-6), exact, 0.05)


def five(births=0.3):
    values = np.random.default_rng(1).normal(size=(5, 3))
    return NewItems(values, np.array([0.7, 0.4, 0.2, 0.05, 0.0]), NOISE, births, SCALE)


@pytest.mark.parametrize("births", [None, 0.3])
def test_entries_are_summed_out(births, x64):
    made, items = five(births), np.random.default_rng(0).normal(size=(6, 3))
    terms = []
    for z in itertools.product((0, 1), repeat=4):
        for born in range(1 if births is None else 40):
            w, scale = np.asarray(made.weights)[:4], np.sqrt(NOISE**2 + born * SCALE**2)
            chance = np.sum(np.log(np.where(z, w, 1 - w))) + poisson.logpmf(born, births or 0)
            mean = np.array(z) @ np.asarray(made.parameters)[:4]
            terms.append(chance + norm.logpdf(items, mean, scale).sum(axis=1))
    np.testing.assert_allclose(made.log_prob(items), logsumexp(terms, axis=0), rtol=1e-9)
    np.testing.assert_allclose(made.largest(4).log_prob(items), made.log_prob(items), rtol=1e-9)


def ratios():
    made, items = five(), np.random.default_rng(2).normal(size=(3, 3))
    args = {"particles": 1, "temperatures": 4}
    each = jax.vmap(lambda key: made.estimate(key, items, **args))(jax.random.split(KEY, 4_000))
    return np.exp(each - made.log_prob(items))


def test_estimates_are_unbiased(monkeypatch):
    check_mean(ratios(), np.ones(3), 0.2)
    monkeypatch.setattr(new_items, "_ladder", lambda num: 0.9 * jnp.arange(num + 1) / num)
    with pytest.raises(AssertionError):
        check_mean(ratios(), np.ones(3), 0.2)


@pytest.mark.full
def test_estimates_are_close_with_many_features():
    values = np.random.default_rng(2).normal(size=(12, 36)).astype(np.float32)
    made = NewItems(values, np.linspace(0.05, 0.6, 12), NOISE)
    items = made.draw(KEY, 10)[0]
    error = made.estimate(KEY, items, temperatures=64) - made.log_prob(items)
    assert abs(np.mean(error)) < 0.5


@pytest.mark.full
def test_draws_have_the_moments_of_the_law():
    made = five()
    values, w = np.asarray(made.parameters, float), np.asarray(made.weights, float)
    items, z = (np.asarray(x, float) for x in made.draw(KEY, 20_000))
    check_mean(z[:, :4], w[:4], 0.05)
    rest = items - w @ values
    check_mean(items, w @ values, 0.05)
    spread = values.T @ np.diag(w * (1 - w)) @ values + (NOISE**2 + 0.3 * SCALE**2) * np.eye(3)
    check_mean(rest[:, :, None] * rest[:, None], spread, 0.1)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: NewItems(np.ones((2, 3)), np.ones(3), 1.0), ValueError, r"weights must have .*2,"),
        (lambda: NewItems(np.ones((2, 3)), [0.5, 1.5], 1.0), ValueError, "weights must be at most"),
        (lambda: NewItems(np.ones((2, 3)), [0.5, 0.5], 0.0), ValueError, "noise_scale must be"),
        (lambda: law(np.zeros((2, 2)), GammaPoisson(1.0)), TypeError, "must be a BetaBernoulli"),
        (
            lambda: NewItems.of(PROCESS, {"parameters": np.zeros((2, 2))}, np.ones(2), 3),
            ValueError,
            "shared must be of a sampler .* lacks concentration, mass",
        ),
        (lambda: law(np.zeros((2, 2))).log_prob(np.ones((4, 3))), ValueError, r"\(n, 2\), got"),
        (
            lambda: NewItems(np.ones((17, 1)), np.ones(17) / 2, 1.0).log_prob(np.ones((1, 1))),
            ValueError,
            "parameters must have at most 16 rows to be summed out, got 17",
        ),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
