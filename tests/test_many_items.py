"""Sums, differences and counts of so many items that single precision has few digits for them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from scipy import stats as st

from sgmc_jax import SAGACounts, TableCounts, Uniform, sample
from sgmc_jax.bnp import FeatureLikelihood
from sgmc_jax.collective import Collective
from sgmc_jax.count_densities import log_negative_binomial
from sgmc_jax.diagnostics import counts_variance
from sgmc_jax.evaluation import NewItems
from sgmc_jax.families import FeatureRows
from sgmc_jax.families.explicit_features import _Posterior
from sgmc_jax.models import LDA, MatrixFactorization, SphericalAdmixture
from sgmc_jax.models._sweep import word_counts
from sgmc_jax.processes import Bernoulli, NegativeBinomial, OddsBernoulli, Poisson
from sgmc_jax.special import digamma_step, trigamma_step
from sgmc_jax.transitions import OrnsteinUhlenbeck, Phase

KEY = jax.random.key(31)
MANY = 2**24 + 100  # more than float32 counts by ones


@pytest.mark.parametrize(
    "counts, mode, log_column",
    [
        (
            Bernoulli(),
            lambda m, n: m / n,
            lambda m, n, t: m * t + (n - m) * np.log(-np.expm1(t)),
        ),
        (
            OddsBernoulli(),
            lambda m, n: m / (n - m),
            lambda m, n, t: m * t - n * np.log1p(np.exp(t)),
        ),
        (Poisson(), lambda m, n: m / n, lambda m, n, t: m * t - n * np.exp(t)),
        (
            NegativeBinomial(2.0),
            lambda m, n: m / (m + 2 * n),
            lambda m, n, t: m * t + 2 * n * np.log(-np.expm1(t)),
        ),
    ],
)
@pytest.mark.parametrize("m, n", [(30_000_000, 100_000_000), (100, 300), (31, 62), (5, 10**8)])
def test_differences_of_columns(counts, mode, log_column, m, n):
    """From where they are greatest to a deviation off: of 1e8 items both are 6e7, known to 4."""
    begin = np.log(mode(m, n))
    ends = [np.float32(begin), np.float32(begin + 1 / np.sqrt(m))]
    low, high = (counts.log_column(jnp.array([m]), n, jnp.array([t]))[0] for t in ends)
    exact = np.subtract(*(log_column(m, n, float(t)) for t in ends[::-1]))
    np.testing.assert_allclose(high - low, exact, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("k, n, rate", [(1e6, 1.0, 1e-6), (1e6, 0.3, 1e-3), (1e4, 20.0, 2e-3)])
def test_negative_binomials_of_large_counts_and_small_sizes(k, n, rate):
    exact = st.nbinom.logpmf(k, n, rate / (1 + rate))
    np.testing.assert_allclose(log_negative_binomial(k, n, rate), exact, rtol=1e-5)


@pytest.mark.parametrize("x, n", [(1e7, 1.0), (1e6, 10.0), (20.0, 3.0), (5.0, 2.0), (1e3, 1e5)])
def test_steps_of_digammas(x, n):
    first = special.digamma(x + n) - special.digamma(x)
    second = special.polygamma(1, x + n) - special.polygamma(1, x)
    np.testing.assert_allclose(digamma_step(jnp.float32(x), n), first, rtol=3e-6)
    np.testing.assert_allclose(trigamma_step(jnp.float32(x), n), second, rtol=3e-6)


@pytest.mark.parametrize("x, n", [(16.0, 1.0), (17.0, 40.0), (100.0, 3.0)])
def test_steps_of_digammas_to_the_digits_of_their_series(x, n, x64):
    """Whose first terms that are left out are 1 / 252 x^6, and 1 / 42 x^7."""
    first = special.digamma(x + n) - special.digamma(x)
    second = special.polygamma(1, x + n) - special.polygamma(1, x)
    np.testing.assert_allclose(digamma_step(jnp.asarray(x), n), first, rtol=1e-7)
    np.testing.assert_allclose(trigamma_step(jnp.asarray(x), n), second, rtol=1e-6)


def test_the_variance_of_a_count_of_nearly_all():
    counts = jnp.array([100_000_000, 1])
    np.testing.assert_allclose(counts_variance(counts, 100, replace=True), 1e6, rtol=1e-5)


def test_words_are_counted_in_whole_numbers():
    words = jnp.zeros((1, MANY), jnp.int8)
    counts = word_counts(words, words, jnp.ones(1, bool), 1, 2)
    np.testing.assert_array_equal(counts, [[MANY, 0]])


@pytest.mark.parametrize("make", [TableCounts, SAGACounts])
def test_a_running_count_loses_nobody(make):
    """Of 4e7 one item less is none less, in float32, and so would it be for ever."""
    allocate = lambda key, position, item: jax.nn.one_hot((position[0] > 0).astype(int), 2)
    counts, data = make(allocate, 1.0, Uniform(1)), jnp.zeros(30)
    state = counts.init(KEY, jnp.array([-1.0, 0.0]), data)
    state = state._replace(counts=state.counts + jnp.array([4e7, 4e7]))
    begun = np.asarray(state.counts, float)
    estimate = jax.jit(lambda *args: counts.estimate(*args))
    for i in range(20):
        key = jax.random.fold_in(KEY, i)
        state = estimate(key, state, jnp.array([1.0, 0.0]), data)[1]
    moved = np.sum(np.asarray(state.kept.table.value)[:, 1])
    total = np.asarray(state.counts, float) + np.asarray(state.rest, float)
    assert 5 < moved < 20
    np.testing.assert_array_equal(total - begun, [-moved, moved])


def test_energies_of_many_rows_are_about_their_start():
    """Each of 1,000 rows has -1e4: of the sum, -1e7, the last digit is 1."""
    family = FeatureLikelihood(
        lambda theta, z, x: -1e4 - 0.5 * (x - z @ theta) ** 2,
        lambda theta: -0.5 * theta**2,
        lambda key: jax.random.normal(key),
    )
    rng = np.random.default_rng(0)
    z, x = rng.integers(0, 2, (2, 1_000)), rng.normal(size=1_000)
    rows = FeatureRows(jnp.asarray(x), jnp.asarray(z), jnp.ones(1_000, bool))
    start, active = jnp.array([0.1, -0.2]), jnp.ones(2, bool)
    end = start + 1e-3
    reference = family.loglik(start, rows.features, rows.items)
    at = lambda posterior, theta: posterior.estimate(KEY, (), theta, rows)[0].logdensity
    about = _Posterior(family, active, Collective(), reference)
    exact = lambda t: -np.sum((x - np.asarray(t, float) @ z) ** 2) / 2 - np.sum(t**2) / 2
    gain = at(about, end) - at(about, start)
    assert abs(gain - (exact(np.asarray(end)) - exact(np.asarray(start)))) < 0.1
    _, moved = family.redraw(KEY, {}, start, (), jnp.full(2, 500), rows, 1_000, Collective())
    assert not np.array_equal(moved, start)


@pytest.mark.parametrize("h", [1e-6, 1e-2])
def test_friction_and_noise_have_one_rounding(h, x64):
    """With a step size in float64 and momenta in float32: c^2 and the variance add up to T."""
    phase = lambda v: Phase(0 * v.astype(jnp.float32), momentum=v.astype(jnp.float32))
    step = jnp.asarray(h, jnp.float64)
    cold, warm = OrnsteinUhlenbeck(1.0, 0.0), OrnsteinUhlenbeck(1.0, 1.0)
    c = float(cold(KEY, phase(jnp.ones(1)), step, None).momentum[0])
    noise = np.asarray(warm(KEY, phase(jnp.zeros(4_000_000)), step, None).momentum, float)
    assert noise.dtype == float and abs(noise.var() / (1 - c**2) - 1) < 5.5 * (2 / 4e6) ** 0.5


def test_new_items_with_features_that_may_be_many_times_there():
    law = NewItems(np.ones((1, 2)), [0.1], 1.0, births=1.0, birth_ratio=0.99999)
    y, z = law.draw(KEY, 20_000)
    assert np.all(np.isfinite(y)) and np.all(z <= 1)


def test_variational_topics_begin_in_single_precision(x64):
    model = SphericalAdmixture(2, 5, 1.0, 20.0, 3.0, 1.0)
    documents = model.documents(np.random.default_rng(0).poisson(0.8, (8, 5)))
    start = model.warm_start(KEY, documents).astype(jnp.float32)
    run = sample(KEY, model.variational(Uniform(4)), start, documents, num_steps=3)
    assert run.trace.dtype == np.float32


def test_ratings_of_factors_in_single_precision(x64):
    model = MatrixFactorization(3, 3, 2)
    position = jax.tree.map(lambda x: x.astype(jnp.float32), model.start(KEY))
    data = (jnp.array([0, 1, 2]), jnp.array([0, 1, 1])), jnp.array([1.0, 2.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.weighted_sum(position, data, jnp.ones(3))
    assert {x.dtype for x in jax.tree.leaves(found.value["factors"])} == {jnp.dtype("float32")}


@pytest.mark.full
def test_a_table_of_many_words():
    """One word, every time of one topic."""
    words, ones = jnp.zeros((1, MANY), jnp.int8), jnp.ones(1, bool)
    table = LDA(1, 2, 0.1, 0.5).counts(Uniform(1))
    counts = table._counts(jnp.zeros((1, 2)), words, jnp.zeros((1, 1, MANY), jnp.int16), ones)
    assert counts.dtype == jnp.float32 and counts.tolist() == [[MANY, 0]]
