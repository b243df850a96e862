"""Misprints that no sampler here could meet: as printed a formula fails, and ours holds."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from tests.laws.moments import check_mean


def test_a_softmax_of_one_term_is_constant():
    """exp(x_i) / sum_j exp(x_i) is 1 / K whatever x is."""
    x = np.array([0.3, -1.0, 2.0])
    printed = np.exp(x) / np.sum([np.exp(x) for _ in x], axis=0)
    np.testing.assert_allclose(printed, 1 / 3)
    assert np.ptp(np.exp(x) / np.exp(x).sum()) > 0.5


def test_sticks_break_what_earlier_ones_leave():
    v = np.array([0.4, 0.2, 0.7, 0.5])
    left = np.cumprod(np.append(1, 1 - v))
    np.testing.assert_allclose(np.sum(v * left[:-1]) + left[-1], 1)
    printed = v * (1 - v) ** np.arange(4)  # v_j prod_{l < j} (1 - v_j)
    assert abs(printed.sum() + left[-1] - 1) > 0.1


def concentrations(last):
    """Of Gamma(2, 3) concentrations, drawn given sticks: a shape of two, a rate of `last`."""
    rng = np.random.default_rng(5)
    a = rng.gamma(2, 1 / 3, 100_000)
    sticks = rng.beta(1, a[:, None], (len(a), 5))
    rate = 3 - np.log1p(-np.minimum(sticks, 1 - 1e-16))[:, :last].sum(1)
    return rng.gamma(2 + 2, 1 / rate)


def test_the_rate_of_a_concentration_has_as_many_sticks_as_its_shape():
    """Else the law of the prior is not kept."""
    check_mean(concentrations(2), 2 / 3, 0.02)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(concentrations(5), 2 / 3, 0.02)


def test_the_mass_of_the_tail_of_a_beta_process_counts_its_members():
    """Three items, c = 2, mass .7, one atom that two of them have and nobody has instantiated."""
    n, c, mass, members = 3, 2.0, 0.7, 2
    new = quad(lambda x: mass * c * (1 - x) ** (n + c - 1), 0, 1)[0]  # theta nu(d theta) (1 - x)^n
    known = beta(members, n - members + c).mean()
    np.testing.assert_allclose(new + known, (c * mass + members) / (c + n))
    assert abs(new + known - c * mass / (c + n)) > 0.3  # as printed


def test_a_sum_over_all_rows_has_no_integral():
    """That over the rows but the empty one has: a beta process of c = 1 and three items."""
    nu, h0 = lambda x: 1 / x, lambda x: (1 - x) ** 3
    some = [quad(lambda x: (1 - h0(x)) * nu(x), low, 1)[0] for low in (1e-4, 1e-8)]
    np.testing.assert_allclose(some, 1 + 1 / 2 + 1 / 3, rtol=1e-3)
    every = [quad(nu, low, 1, limit=500)[0] for low in (1e-4, 1e-8)]
    assert every[1] > 1.9 * every[0]
