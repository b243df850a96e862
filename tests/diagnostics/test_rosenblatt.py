"""The Kolmogorov-Smirnov distance from a Dirichlet."""

import numpy as np
import pytest
from scipy import stats

from sgmc_jax import rosenblatt_ks

SPARSE = np.array([800.1, 100.1, 100.1] + [0.1] * 7)
WIDE = np.array([1e16, 0.7, 1.2])  # of which differences of sums have no digits


def exact(alpha, size, seed=0):
    return np.random.default_rng(seed).dirichlet(alpha, size)


def log_exact(alpha, size, seed=0):
    """Unnormalised log gammas, which do not underflow."""
    rng = np.random.default_rng(seed)
    shape = (*size, len(alpha))
    return np.log(rng.gamma(alpha + 1, size=shape)) + np.log(rng.random(shape)) / alpha


@pytest.mark.parametrize(
    "alpha",
    [SPARSE, np.array([2.0, 3.0]), np.full(5, 0.7), np.array([1.0, 0.01, 0.01]), WIDE],
    ids=["sparse", "a beta", "alike", "near 1", "far apart"],
)
def test_the_level_of_exact_draws(alpha):
    """.8687 / sqrt(M), within 5.5 standard errors over 300 sets of 1,000 draws."""
    distances = rosenblatt_ks(log_exact(alpha, (300, 1000)), alpha, log=True)
    standard = distances.std(ddof=1) / np.sqrt(300)
    # at M = 1,000 the mean is smaller than its limit by about 1/(6 M)
    assert abs(distances.mean() - (0.8687 / np.sqrt(1000) - 1 / 6000)) < 5.5 * standard
    assert standard < 0.02 * distances.mean()


def test_a_beta_is_the_distance_of_scipy():
    draws = exact([2.0, 5.0], 200)
    wanted = stats.kstest(draws[:, 0], stats.beta(2.0, 5.0).cdf).statistic
    np.testing.assert_allclose(rosenblatt_ks(draws, [2.0, 5.0]), wanted, rtol=1e-10)


def test_gammas_points_and_logarithms_agree():
    points = exact([2.0, 0.5, 1.0], (3, 50))
    distances = rosenblatt_ks(points, [2.0, 0.5, 1.0])
    assert distances.shape == (3,)
    np.testing.assert_allclose(rosenblatt_ks(7 * points, [2.0, 0.5, 1.0]), distances)
    logs = np.log(points) - 1e4  # far below underflow
    np.testing.assert_allclose(rosenblatt_ks(logs, [2.0, 0.5, 1.0], log=True), distances, rtol=1e-6)


@pytest.mark.parametrize("wrong", [SPARSE + 0.1, 1.2 * SPARSE, SPARSE[::-1]], ids=str)
def test_a_wrong_parameter_is_far(wrong):
    draws = log_exact(SPARSE, (20, 1000))
    near = rosenblatt_ks(draws, SPARSE, log=True)
    assert rosenblatt_ks(draws, wrong, log=True).mean() > near.mean() + 5.5 * near.std()


def test_bad_input_is_refused():
    draws = exact([1.0, 1.0], 10)
    for alpha in ([1.0, 0.0], [1.0], [[1.0, 1.0]], [1.0, np.nan]):
        with pytest.raises(ValueError, match="alpha must be a vector of two or more positive"):
            rosenblatt_ks(draws, alpha)
    for bad in (draws[0], draws[:0], np.ones((10, 3))):
        with pytest.raises(ValueError, match=r"draws must have the shape \(..., M, 2\), got"):
            rosenblatt_ks(bad, [1.0, 1.0])
    with pytest.raises(ValueError, match="draws must not be negative"):
        rosenblatt_ks(-draws, [1.0, 1.0])
    assert np.isnan(rosenblatt_ks(np.where(draws > 0.9, np.nan, draws), [1.0, 1.0]))
