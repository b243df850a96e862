"""Laws of the Cox-Ingersoll-Ross transition."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from sgmc_jax.random import cir

FALSE_ALARM = 1e-6  # of each test of a law, all its cases together; the seeds are fixed
CORNERS = [  # shape, log theta, h
    (1e-4, 0.0, 0.5),
    (1e-4, -1e4, 0.1),
    (1e-4, np.log(1e3), 0.01),  # a Poisson rate of 1e5
    (1e-4, 3.0, np.inf),
    (0.01, -30.0, 1e-3),
    (0.1, -2.0, 0.1),
    (0.1, np.log(10.0), 1.0),
    (0.1, np.log(1e3), 1e-2),
    (0.3, np.log(0.5), np.inf),
    (0.49, np.log(2e4), 0.2),
    (0.499, -200.0, 1e-6),
    (0.5, 0.0, 0.3),
    (0.5, -1e4, 2.0),
    (0.5, np.log(1e3), 1e-2),
    (0.6, -3.0, 0.05),
    (1.0, 0.5, 1e-6),
    (1.2, np.log(5e4), 0.5),
    (30.0, np.log(30.0), 0.1),
    (1e3, np.log(900.0), 1e-4),
    (1e6, np.log(1e6), 0.7),
]

DRAWS = 100_000


def draw(seed, log_theta, a, h, **promise):
    """Float32 draws of one shape, so that one compilation serves most tests."""
    arrays = (jnp.broadcast_to(jnp.float32(x), DRAWS) for x in (log_theta, a, h))
    return cir(jax.random.key(seed), *arrays, **promise)


def theory(a, log_theta, h, y):
    """P(log theta' < y), by the noncentral chi-square and, where it underflows, its first term."""
    log_b = np.log(-np.expm1(-h))
    rate, y = np.exp(log_theta - h - log_b), y - log_b
    far = np.exp(np.minimum(a * y - special.gammaln(a + 1) - rate, 0))
    x = 2 * np.exp(np.maximum(y, -40))
    near = stats.ncx2.cdf(x, 2 * a, 2 * rate) if rate > 0 else stats.chi2.cdf(x, 2 * a)
    return np.where(y < -40, far, near)


def deviation(draws, cdf, cases, points=2000):
    """Distance at some order statistics over the bound of Dvoretzky, Kiefer and Massart."""
    x = np.sort(np.asarray(draws, np.float64))
    after = np.unique(np.linspace(1, x.size, points).astype(int))
    c = cdf(x[after - 1])
    distance = max(np.max(after / x.size - c), np.max(c - (after - 1) / x.size))
    return distance / np.sqrt(np.log(2 * cases / FALSE_ALARM) / (2 * x.size))


def check_corners(dtype, corners, first_seed=0, **promise):
    for seed, corner in enumerate(corners):
        a, log_theta, h = (jnp.full(DRAWS, x, dtype) for x in corner)
        draws = cir(jax.random.key(first_seed + seed), log_theta, a, h, **promise)
        assert draws.dtype == dtype and bool(jnp.isfinite(draws).all())
        rounded = (float(x[0]) for x in (a, log_theta, h))
        assert deviation(draws, partial(theory, *rounded), 3 * len(CORNERS)) < 1, corner


def test_law_float32():
    check_corners(jnp.float32, CORNERS)


@pytest.mark.full
def test_law_float64(x64):
    check_corners(jnp.float64, CORNERS)


def test_law_of_the_branch_without_poisson():
    above = [corner for corner in CORNERS if corner[0] >= 0.5]
    check_corners(jnp.float32, above, first_seed=100, minimum_shape=0.5)


@pytest.mark.parametrize("corner", [CORNERS[i] for i in (1, 8, 10, 14, 17, 19)], ids=str)
def test_the_law_test_sees_a_shape_wrong_by_two_per_cent(corner):
    a, log_theta, h = corner
    draws = [draw(seed, log_theta, 1.02 * a, h) for seed in range(10)]
    assert deviation(np.concatenate(draws), partial(theory, *corner), 1) > 1


def test_moments():
    """Means and variances at three points; alarm at 5.6 standard errors."""
    for i, (a, theta, h) in enumerate([(0.2, 0.5, 0.3), (0.5, 4.0, 1.0), (3.0, 50.0, 0.05)]):
        x = np.exp(np.float64(draw(i, np.log(theta), a, h)))
        b = -np.expm1(-h)
        mean = theta * np.exp(-h) + a * b
        variance = 2 * theta * (np.exp(-h) - np.exp(-2 * h)) + a * b**2
        assert abs(x.mean() - mean) < 5.6 * np.sqrt(variance / DRAWS)
        assert abs(x.var() - variance) < 5.6 * np.std((x - mean) ** 2) / np.sqrt(DRAWS)


def test_two_steps_are_one_longer_step():
    for i, a in enumerate((0.05, 0.4, 0.8, 6.0)):
        whole = draw(2 * i + 1, draw(2 * i, -1.0, a, 0.2), a, 0.4)
        assert deviation(whole, partial(theory, float(np.float32(a)), -1.0, 0.6), 4) < 1


def test_stationary_law_is_kept():
    log_theta = draw(5, 0.0, 0.1, np.inf)
    for seed in range(6, 11):
        log_theta = draw(seed, log_theta, 0.1, 0.05)
    assert deviation(log_theta, partial(theory, float(np.float32(0.1)), 0.0, np.inf), 1) < 1


def test_no_zeros():
    a = jnp.repeat(jnp.array([1e-4, 0.1, 0.5, 1e6]), DRAWS // 4)
    for h in (1e-6, 0.1, np.inf):
        for log_theta in (-1e5, -100.0, 0.0, 14.0, 80.0):
            assert bool(jnp.isfinite(draw(7, log_theta, a, h)).all()), (h, log_theta)


def test_huge_theta_follows_the_flow():
    a = jnp.resize(jnp.array([0.1, 0.7]), DRAWS)
    np.testing.assert_allclose(draw(8, 500.0, a, 1.0), 499.0, rtol=1e-6)


def test_vmap_is_a_loop():
    keys = jax.random.split(jax.random.key(10), 3)
    log_theta = jnp.linspace(-5, 8, 3000).reshape(1000, 3).T
    a = jnp.linspace(0.05, 2.0, 1000)
    batched = jax.jit(jax.vmap(cir, in_axes=(0, 0, None, None)))(keys, log_theta, a, 0.1)
    loop = [cir(k, x, a, 0.1) for k, x in zip(keys, log_theta)]
    np.testing.assert_allclose(batched, np.stack(loop), rtol=1e-4, atol=1e-4)


def test_promise_of_large_shapes():
    key, a = jax.random.key(12), jnp.array([0.5, 0.7, 20.0, 0.4])
    draws = cir(key, 0.0, a, 0.1, minimum_shape=0.5)
    np.testing.assert_array_equal(jnp.isnan(draws), [False, False, False, True])
    np.testing.assert_array_equal(draws, cir(key, 0.0, a, 0.1, minimum_shape=1))

    def loops(minimum_shape):
        function = partial(cir, minimum_shape=minimum_shape)
        return str(jax.make_jaxpr(function)(key, jnp.zeros(999), 1.0, 0.1)).count("while[")

    # A loop and the loop inside it for the gamma part, as many for the Poisson part.
    assert (loops(0.0), loops(0.5)) == (4, 2)
    with pytest.raises(TypeError, match="Python number"):
        cir(key, 0.0, 1.0, 0.1, minimum_shape=jnp.float32(0.5))  # type: ignore


def test_broadcasting_types_keys_and_bad_values():
    key, raw = jax.random.key(13), jax.random.PRNGKey(13)
    assert cir(raw, jnp.zeros((4, 1)), jnp.ones(3), 0.1).shape == (4, 3)
    scalar = cir(jax.random.key(13, impl="rbg"), 0, 1, 1)
    assert scalar.shape == () and scalar.dtype == jnp.float32
    log_theta = jnp.array([-3.0, 2.0, 0.0, 0.0, 0.0, jnp.nan, 0.0, 0.0, 0.0])
    a = jnp.array([0.1, 2.0, -1.0, 0.0, jnp.nan, 0.1, 0.1, 1.0, jnp.inf])
    h = jnp.array([0.0, 0.0, 0.1, 0.1, 0.1, 0.1, -0.1, jnp.nan, 0.1])
    np.testing.assert_array_equal(cir(key, log_theta, a, h), [-3.0, 2.0] + 7 * [jnp.nan])
    with pytest.raises(TypeError, match="log_theta must be real"):
        cir(key, 1j, 1.0, 0.1)
