"""Laws of the Poisson draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from sgmc_jax.random import poisson
from sgmc_jax.random.poisson import _ALL_STEPS, _search, _transformed_rejection

FALSE_ALARM = 1e-6  # of each test of a law, all its cases together; the seeds are fixed
RATES = (0.1, 1.0, 9.99, 10.0, 50.0, 1e3, 1e5, 1e6, 1e7)

DRAWS = 500_000


def p_value(draws, rate, bins=300):
    """Chi-square test in about `bins` cells of equal probability, each of 50 draws or more."""
    draws = np.asarray(draws, np.int64)
    levels = np.linspace(0, 1, min(bins, draws.size // 100) + 1)[1:-1]
    edges = np.unique(stats.poisson.ppf(levels, rate))
    expected = np.diff(np.r_[0, stats.poisson.cdf(edges, rate), 1]) * draws.size
    observed = np.bincount(np.searchsorted(edges, draws), minlength=edges.size + 1)
    kept = expected >= 50
    observed = np.r_[observed[kept], observed[~kept].sum()]
    expected = np.r_[expected[kept], expected[~kept].sum()]
    few = expected[-1] < 50
    observed, expected = (x[:-1] if few else x for x in (observed, expected))
    statistic = np.sum((observed - expected) ** 2 / expected)
    return stats.chi2.sf(statistic, max(expected.size - 1, 1))


def check_law(dtype, draws):
    for seed, rate in enumerate(RATES):
        rates = jnp.full(draws, rate, dtype)
        assert p_value(poisson(jax.random.key(seed), rates), float(rates[0])) > 1e-7, rate


def test_law_float32():
    check_law(jnp.float32, DRAWS)


@pytest.mark.full
def test_law_float64(x64):
    check_law(jnp.float64, 100_000)


@pytest.mark.full
@pytest.mark.parametrize("rate", [10.0, 1e5])
def test_law_with_many_draws(rate):
    """Enough draws to see the cancellation of k log(rate) - rate - log k! in float32."""
    rates = jnp.full(DRAWS, rate, jnp.float32)
    draws = [np.asarray(poisson(jax.random.key(seed), rates)) for seed in range(8)]
    assert p_value(np.concatenate(draws), rate, bins=1000) > FALSE_ALARM / 2


@pytest.mark.parametrize("rate, factor", [(0.1, 1.05), (9.99, 1.005), (50.0, 1.005), (1e5, 1.0001)])
def test_the_law_test_sees_a_wrong_rate(rate, factor):
    draws = poisson(jax.random.key(20), jnp.full(DRAWS, rate, jnp.float32))
    assert p_value(draws, rate * factor) < FALSE_ALARM


def test_the_law_test_sees_a_cancelling_ratio():
    """The same proposal, accepted by the plain formula in float32, is found out at rate 1e5."""

    def faulty(key, rate):
        u, v = jax.random.uniform(key, (2, 3_000_000))
        b = 0.931 + 2.53 * np.sqrt(rate)
        a = -0.059 + 0.02483 * b
        edge = 0.5 - jnp.abs(u - 0.5)
        k = jnp.floor((2 * a / edge + b) * (u - 0.5) + rate + 0.43)
        log_hat = jnp.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / edge**2 + b))
        log_ratio = k * jnp.log(jnp.float32(rate)) - rate - jax.scipy.special.gammaln(k + 1)
        return jnp.where(log_hat <= log_ratio, k, -1)

    k = np.asarray(jax.jit(faulty, static_argnums=1)(jax.random.key(21), 1e5))
    assert p_value(k[k >= 0], 1e5, bins=1000) < FALSE_ALARM


def test_moments_of_mixed_rates():
    """Standardised mean and variance over rates of every branch; alarm at 5.2 deviations."""
    rate = jnp.geomspace(0.5, 1e6, DRAWS, dtype=jnp.float32)
    z = (np.asarray(poisson(jax.random.key(22), rate)) - np.float64(rate)) / np.sqrt(
        np.float64(rate)
    )
    assert abs(z.mean()) < 5.2 / np.sqrt(z.size)
    fourth = 3 + np.mean(1 / np.float64(rate))
    assert abs(np.mean(z**2) - 1) < 5.2 * np.sqrt((fourth - 1) / z.size)


def test_acceptance_rate_is_the_hats():
    """PTRS accepts 1 / inverse_alpha of its proposals, whatever its ratio's common factor."""
    lane, key = jnp.arange(200_000, dtype=jnp.uint32), (jnp.uint32(1), jnp.uint32(2))
    for rate in (10.0, 300.0, 1e5):
        k = jax.jit(_transformed_rejection)(key, lane, 0, jnp.full(lane.shape, rate))
        expected = 1 / (1.1239 + 1.1328 / (0.931 + 2.53 * np.sqrt(rate) - 3.4))
        assert abs(np.mean(~np.isnan(k)) - expected) < 5.2 * 0.5 / np.sqrt(lane.size)


def test_search_ends_where_the_sum_stops_short_of_one():
    """A uniform of exactly 1 gives a count of the far tail, not the bound of the search."""
    for r in (0.1, 1.0, 5.0, 9.99):
        k = float(_search(jnp.float32(1), jnp.float32(r), _ALL_STEPS))
        assert special.pdtrc(k, r) < 1e-6 and special.pdtrc(k - 2, r) > 1e-12


def test_edges():
    key, most = jax.random.key(23), 2**31 - 1
    rate = jnp.array([0.0, -0.0, -1.0, jnp.nan, -jnp.inf, jnp.inf, 1e20, 3e9, 2147483520.0])
    counts = np.asarray(poisson(key, rate))
    np.testing.assert_array_equal(counts[:-1], [0, 0, -1, -1, -1, most, most, most])
    assert abs(counts[-1] - 2147483520.0) < 5.5 * 2**15.5
    assert not np.any(poisson(key, jnp.zeros(DRAWS)))
    np.testing.assert_array_equal(poisson(jax.random.PRNGKey(23), rate), counts)
    scalar = poisson(jax.random.key(23, impl="rbg"), 3)
    assert scalar.dtype == jnp.int32 and scalar.shape == ()
    assert poisson(key, jnp.ones((0, 2))).shape == (0, 2)
    with pytest.raises(TypeError, match="rate must be real, got complex"):
        poisson(key, 1j)


def test_large_rates_stay_whole_numbers_in_float32():
    """Above 2^24 a float32 sum would make every count even."""
    k = np.asarray(poisson(jax.random.key(24), jnp.full(DRAWS, 1e8, jnp.float32)))
    assert abs(np.mean(k % 2) - 0.5) < 5.2 * 0.5 / np.sqrt(DRAWS)
    assert abs(np.mean(k - 100_000_000) / 1e4) < 5.2 / np.sqrt(DRAWS)


def test_vmap_is_a_loop_and_few_are_the_first_of_many():
    keys = jax.random.split(jax.random.key(26), 3)
    rate = jnp.geomspace(0.1, 1e4, 3000).reshape(1000, 3).T
    batched = jax.jit(jax.vmap(poisson))(keys, rate)
    loop = [poisson(k, r) for k, r in zip(keys, rate)]
    np.testing.assert_array_equal(batched, loop)
    few = poisson(keys[0], rate[0, :100])
    np.testing.assert_array_equal(few, loop[0][:100])


@pytest.mark.parametrize("rate", [2e-8, 1e-6, 1e-4, 9e-3])
def test_rare_counts_have_their_probabilities(rate):
    """Near 1 float32 has steps of 6e-8, in which the probability of no count would be rounded."""
    for most in range(1, 4):
        chance = float(stats.poisson.sf(most - 1, rate))
        if chance < 1e-12:
            break
        below, above = (
            float(_search(jnp.float32(f * chance), jnp.float32(rate), 16)) for f in (0.999, 1.001)
        )
        assert below == most and above == most - 1


@pytest.mark.parametrize("rate", [2e-3, 9.9e-3])
def test_the_law_of_rare_counts(rate):
    num = 4_000_000
    draws = np.asarray(poisson(jax.random.key(5), jnp.full(num, rate, jnp.float32)))
    for k in range(3):
        chance = stats.poisson.pmf(k, np.float32(rate))
        error = np.sqrt(num * chance * (1 - chance))
        assert abs(np.sum(draws == k) - num * chance) < 5.5 * error + 1
