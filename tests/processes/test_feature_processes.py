"""Beta-Bernoulli and gamma-Poisson processes: sums, conditionals and hyper-parameters."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from scipy.special import betaln, gammaln

from sgmc_jax import sample
from sgmc_jax.bnp import LinearGaussian, slice_crm
from sgmc_jax.collective import Dist
from sgmc_jax.processes import (
    Bernoulli,
    BetaBernoulli,
    BetaProcess,
    GammaPoisson,
    OddsBernoulli,
    Poisson,
    delayed_bondesson,
)
from tests.laws.moments import Z, check_mean

KEY = jax.random.key(1)
BOTH = [BetaBernoulli, GammaPoisson]


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("c", [0.3, 1.0, 2.5])
def test_births_are_the_growth_of_the_expected_number(make, c, x64):
    process = make(1.7, c)
    hyper = process.start()
    for n in (1, 2, 10, 1000):
        grown = process.exposure(hyper["concentration"], n)
        if n > 1:
            grown = grown - process.exposure(hyper["concentration"], n - 1)
        np.testing.assert_allclose(process.birth_rate(hyper, n), 1.7 * grown, rtol=1e-5)


def test_the_expected_number_of_columns(x64):
    expected = sum(0.4 / (0.4 + i) for i in range(50))
    np.testing.assert_allclose(BetaBernoulli(1.0).exposure(jnp.array(0.4), 50), expected, rtol=1e-6)


def test_births_among_many_items_in_float32():
    """A difference of two expected numbers would have no digit left."""
    rate = BetaBernoulli(2.0, 3.0).birth_rate(BetaBernoulli(2.0, 3.0).start(), 10**7)
    np.testing.assert_allclose(rate, 6 / (10**7 + 2), rtol=1e-6)


@pytest.mark.parametrize("c", [0.3, 15.9, 16.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [1, 10, 1000])
def test_the_expected_number_of_columns_in_float32(c, n):
    """A difference of two digammas of a million would be off by a tenth."""
    expected = sum(c / (c + i) for i in range(n))
    np.testing.assert_allclose(BetaBernoulli(1.0).exposure(jnp.float32(c), n), expected, rtol=1e-5)


def test_a_small_concentration_beside_many_items():
    """Else the odds of the last item are infinite, and no item can ever lose the feature."""
    process, n = BetaBernoulli(1.0, 0.01), 10**6
    step = process.log_tail_step(process.start(), jnp.array(n - 1), n, 0)
    np.testing.assert_allclose(step, np.log((n - 1) / 0.01), rtol=1e-6)


def test_columns_of_weights_that_are_rounded():
    """A weight of 1 in float32, and odds that overflow: of items that all have the atom."""
    one, inf = jnp.zeros(3), jnp.full(3, jnp.inf)
    counts = jnp.array([2, 1, 0])
    expected = [0, -np.inf, -np.inf]
    np.testing.assert_array_equal(Bernoulli().log_column(counts, 2, one), expected)
    np.testing.assert_array_equal(OddsBernoulli().log_column(counts, 2, inf), expected)
    np.testing.assert_array_equal(OddsBernoulli().log_prob(counts > 1, inf), expected)
    log_odds = jnp.array([-2.0, 0.3, 4.0])
    each = counts * log_odds - 2 * np.log1p(np.exp(np.asarray(log_odds)))
    np.testing.assert_allclose(OddsBernoulli().log_column(counts, 2, log_odds), each, rtol=1e-5)


@pytest.mark.at_length
@pytest.mark.full
def test_atoms_of_a_small_concentration_that_all_items_have():
    """Two items that say nothing: a / (1 + c) features of both. Some 18 % of weights round to 1."""
    process = delayed_bondesson(BetaProcess(1.0, 0.1))
    kernel = slice_crm(process, Bernoulli(), LinearGaussian(1, 1e3, 1e-3), capacity=32)
    start = Dist({}, {"features": jnp.zeros((2, 1), bool)})
    both = lambda state, info: jnp.sum(jnp.all(state.position.local["features"], axis=0))
    args = {"num_chains": 256, "num_steps": 400, "burn_in": 150, "position_axis": None}
    reduce = lambda state, info: both(state, info).astype(float)
    run = sample(KEY, kernel, start, jnp.zeros((2, 1)), reduce=reduce, **args)
    check_mean(run.trace.mean, 1 / 1.1, 0.3)


@pytest.mark.parametrize("c", [0.3, 1.0, 2.5])
def test_columns_of_the_beta_process(c, x64):
    """K log(a c) - a e + sum log B(m, n - m + c)."""
    counts, n = np.array([7, 1, 0, 20]), 20
    process = BetaBernoulli(1.7, c)
    m = counts[counts > 0]
    expected = 3 * math.log(1.7 * c) + betaln(m, n - m + c).sum()
    expected -= 1.7 * sum(c / (c + i) for i in range(n))
    got = eqx.filter_jit(process.logdensity)(process.start(), jnp.asarray(counts), n)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("c", [0.3, 2.5])
def test_columns_of_the_gamma_process(c, x64):
    """K log(a c) - a c log(1 + n / c) + sum log Gamma(m) - m log(c + n)."""
    counts, n = np.array([7, 1, 0, 35]), 20
    process = GammaPoisson(1.7, c)
    m = counts[counts > 0]
    expected = 3 * math.log(1.7 * c) + np.sum(gammaln(m) - m * math.log(c + n))
    expected -= 1.7 * c * math.log1p(n / c)
    got = eqx.filter_jit(process.logdensity)(process.start(), jnp.asarray(counts), n)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_columns_in_float32_tell_concentrations_apart():
    """The part that knows of c is small, though the whole is of the order of n log n."""
    counts, n = np.array([400_000, 3]), 1_000_000
    process = BetaBernoulli(1.0)
    high, low = jax.jit(jax.vmap(lambda c: process.log_column(c, counts, n)))(jnp.array([1.3, 1.1]))
    exact = betaln(counts, n - counts + 1.3) - betaln(counts, n - counts + 1.1)
    np.testing.assert_allclose(high - low, exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("n", "c"), [(10, 300.0), (10, 1e3), (10, 1e4), (100, 1e4)])
def test_columns_of_large_concentrations_in_float32(n, c):
    """Of neighbouring concentrations, as a walk compares them, and of all numbers of items."""
    counts, at = np.arange(1, n + 1), c * np.linspace(1, 1.01, 50)
    found = jax.jit(jax.vmap(lambda c: BetaBernoulli(1.0).log_column(c, counts, n)))(at)
    exact = betaln(counts, n - counts + at[:, None]) - betaln(counts, n - counts + 1)
    np.testing.assert_allclose(found, exact, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("process", [BetaBernoulli, GammaPoisson])
@pytest.mark.parametrize("c", [1e-3, 1e-6, 1e-20])
def test_births_of_one_item_of_small_concentrations(process, c):
    """a of one item's features that are there or not; a c log(1 + 1 / c) that are counted."""
    rate = process(2.0, c).birth_rate({"mass": jnp.array(2.0), "concentration": jnp.array(c)}, 1)
    exact = 2.0 if process is BetaBernoulli else 2 * c * np.log1p(1 / c)
    np.testing.assert_allclose(rate, exact, rtol=1e-5)


@pytest.mark.parametrize("c", [1.0, 1e-6, 1e-8, 1e-20])
def test_sizes_of_births_of_one_item(c):
    """Kemp's mixture of a logarithmic law, whose p may be 1 to every digit."""
    u, v = np.random.default_rng(0).uniform(size=(2, 200)).astype(np.float32)
    hyper = {"mass": jnp.array(2.0), "concentration": jnp.array(c)}
    sizes = np.asarray(GammaPoisson(2.0, c).birth_size(hyper, 1, jnp.asarray(u), jnp.asarray(v)))
    lost = u.astype(float) * np.log1p(1 / c)
    exact = 1 + np.floor(np.log(v.astype(float)) / np.log1p(-np.exp(-lost)))
    few = exact < 1_000
    assert np.mean(sizes[few] == exact[few]) > 0.99
    np.testing.assert_allclose(sizes[~few], np.minimum(exact[~few], 2**30), rtol=1e-3)


def test_weights():
    """Beta(m, n - m + c), and Gamma(m, c + n)."""
    counts, n, num = jnp.array([3, 9]), 10, 20_000
    keys = jax.random.split(KEY, num)
    for process, law in [
        (BetaBernoulli(1.0, 2.0), st.beta([3, 9], [9.0, 3.0])),
        (GammaPoisson(1.0, 2.0), st.gamma([3, 9], scale=1 / 12)),
    ]:
        hyper = process.start()
        drawn = jax.vmap(process.draw_weights, (0, None, None, None))(keys, hyper, counts, n)
        values = np.exp(drawn) if isinstance(process, GammaPoisson) else jax.nn.sigmoid(drawn)
        error = np.abs(np.mean(values, axis=0) - law.mean())
        assert np.all(error < Z * law.std() / np.sqrt(num)), error


def test_steps_of_entries_are_ratios_of_probabilities():
    """The weight given: Bernoulli and Poisson. Integrated out: m / (n - 1 + c - m), and Polya."""
    bernoulli, poisson = BetaBernoulli(1.0, 2.0), GammaPoisson(1.0, 2.0)
    np.testing.assert_allclose(bernoulli.log_step(0.7, jnp.array(0)), 0.7)
    others, lower, n = jnp.array(4), jnp.arange(5), 10
    odds = bernoulli.log_tail_step(bernoulli.start(), others, n, jnp.array(0))
    np.testing.assert_allclose(odds, math.log(4 / (n - 1 + 2 - 4)), rtol=1e-6)
    pmf = st.poisson(math.exp(0.7)).logpmf
    np.testing.assert_allclose(
        poisson.log_step(0.7, lower), pmf(lower + 1) - pmf(lower), rtol=1e-5, atol=1e-6
    )
    pmf = st.nbinom(4, 1 - 1 / 12).logpmf
    steps = poisson.log_tail_step(poisson.start(), others, n, lower)
    np.testing.assert_allclose(steps, pmf(lower + 1) - pmf(lower), rtol=1e-5)


def test_pairs_of_neighbours():
    """A count's pair is drawn by a fair coin, which leaves a uniform unused."""
    uniform = (jnp.arange(1000) + 0.5) / 1000
    lower, unused = GammaPoisson(1.0).lower(jnp.full(1000, 3), uniform)
    assert np.array_equal(np.unique(lower, return_counts=True)[1], [500, 500])
    for pair in (2, 3):
        np.testing.assert_allclose(unused[lower == pair], (np.arange(500) + 0.5) / 500, atol=1e-6)
    assert GammaPoisson(1.0).lower(jnp.array(0), jnp.array(0.8))[0] == -1
    assert BetaBernoulli(1.0).lower(jnp.array(1), jnp.array(0.2))[0] == 0


@pytest.mark.parametrize("counts", [GammaPoisson(1.0), Poisson()], ids=["feature", "count"])
def test_a_step_up_of_small_odds_in_float32(counts):
    """Of an entry among a million of a column: uniforms that are left must be fine near 0."""
    few, odds = 2.0 ** -np.arange(20, 31), 3e-9
    lower, unused = counts.lower(jnp.zeros(11, jnp.int32), jnp.asarray(few, jnp.float32))
    assert np.array_equal(lower, np.zeros(11))
    assert np.array_equal(np.asarray(unused) <= odds, 2 * few <= odds)


def test_entries_of_columns_that_no_other_has():
    """The logarithmic law P(z) ~ p^z / z, p = 1 / (c + n)."""
    num, p = 100_000, 1 / 1.4
    process = GammaPoisson(1.0, 0.4)
    u, v = jax.random.uniform(KEY, (2, num), minval=1e-7)
    sizes = np.asarray(process.birth_size(process.start(), 1, u, v))
    frequency = np.bincount(sizes, minlength=5)[:5] / num
    expected = st.logser(p).pmf(np.arange(5))
    assert np.all(np.abs(frequency - expected) < Z * np.sqrt(expected / num) + 1e-12)
    assert np.all(BetaBernoulli(1.0).birth_size({}, 1, u, v) == 1)


@pytest.mark.parametrize("make", BOTH)
def test_hyper_parameters_given_columns(make):
    """The chain of redraws against quadrature over the concentration."""
    counts, n, prior, other = jnp.array([5, 1, 2, 0]), 6, (2.0, 1.0), (3.0, 2.0)
    process = make(1.0, 1.0, prior=prior, concentration_prior=other)

    def log_target(log_c):
        hyper = {"mass": jnp.array(1.0), "concentration": jnp.exp(log_c)}
        exposure = process.exposure(hyper["concentration"], n)
        log = process.logdensity(hyper, counts, n) + exposure  # at mass 1, without its exponent
        shape, rate = prior[0] + 3, prior[1] + exposure
        log = log - shape * jnp.log(rate) + other[0] * log_c - other[1] * jnp.exp(log_c)
        return log, shape / rate

    grid = jnp.linspace(-7, 3.5, 2_000)
    log, mass = jax.jit(jax.vmap(log_target))(grid)
    weight = np.exp(log - log.max())
    weight = weight / weight.sum()
    expected = np.array([weight @ mass, weight @ np.asarray(grid)])

    def chain(key):
        def step(hyper, key):
            hyper = process.redraw(key, hyper, counts, n)
            return hyper, jnp.stack([hyper["mass"], jnp.log(hyper["concentration"])])

        return jax.lax.scan(step, process.start(), jax.random.split(key, 600))[1][100:].mean(0)

    means = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(KEY, 300)))
    standard = means.std(0, ddof=1) / np.sqrt(300)
    assert np.all(np.abs(means.mean(0) - expected) < Z * standard), (means.mean(0), expected)
    assert np.all(standard < 0.01)


def test_the_beta_process_of_one_item_is_poisson():
    """P(K = k) of one item, summed over k, is 1 and has mean a."""
    process = BetaBernoulli(1.3, 0.6)
    num = np.arange(12)
    counts = (num < num[:, None]).astype(np.int32)
    log = jax.jit(jax.vmap(lambda counts: process.logdensity(process.start(), counts, 1)))(counts)
    np.testing.assert_allclose(np.exp(log - gammaln(num + 1)), st.poisson(1.3).pmf(num), rtol=1e-4)


def test_bad_input():
    for make in BOTH:
        for arguments in [(-1.0,), (0.0,), (1.0, 0.0), (1.0, np.inf)]:
            with pytest.raises(ValueError, match="mass|concentration"):
                make(*arguments)
        with pytest.raises(ValueError, match="prior"):
            make(1.0, prior=(1.0, -1.0))


@pytest.mark.parametrize("make", BOTH)
def test_weights_of_columns_alike(make):
    """Beta(m, n - m + c) and Gamma(m, c + n), of five thousand columns each."""
    process, n, num = make(1.0, 2.0), 10, 5_000
    drawn = process.draw_weights(KEY, process.start(), jnp.repeat(jnp.array([3, 9]), num), n)
    values = np.asarray(jnp.exp(process.log_size(drawn)), float).reshape(2, num)
    for m, column in zip((3, 9), values):
        law = st.beta(m, n - m + 2.0) if make is BetaBernoulli else st.gamma(m, scale=1 / 12)
        assert st.kstest(column, law.cdf).pvalue > 5e-7
