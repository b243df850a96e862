"""What sizes of clusters say of the concentration and the discount, in float32 of many items."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

from sgmc_jax.bnp import PitmanYor

PROCESS = PitmanYor(1.0, 0.3, prior=(1.0, 1.0))
HYPER = [(-0.05, 0.1), (0.5, 0.1), (1.0, 0.3), (1.1, 0.3), (5.0, 0.55)]
COUNTS = np.array([2_000_000, 700_001, 90_000, 12_345, 800, 77, 16, 3, 1, 1, 0, 0])
FEW = np.array([4, 2, 1, 1, 0])


def exact(a, d, counts):
    m = counts[counts > 0].astype(float)
    births = np.sum(np.log(a + d * np.arange(1, len(m))))
    joins = np.sum(gammaln(m - d) - gammaln(1 - d))
    return births + joins - gammaln(a + m.sum()) + gammaln(a + 1)


def check_differences(logdensity, counts=COUNTS):
    args = [{"concentration": jnp.float32(a), "discount": jnp.float32(d)} for a, d in HYPER]
    value = np.array([logdensity(hyper, jnp.asarray(counts)) for hyper in args])
    truth = np.array([exact(a, d, counts) for a, d in HYPER])
    np.testing.assert_allclose(np.diff(value), np.diff(truth), rtol=1e-4, atol=1e-3)


def test_of_three_million_items():
    check_differences(PROCESS._log_hyper)
    check_differences(PROCESS._log_hyper, FEW)
    check_differences(PROCESS.logdensity, FEW)


def test_factorials_that_swamp_the_rest_are_seen():
    """With them sums of thirty million leave steps of two in float32."""
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_differences(PROCESS.logdensity)


def test_it_is_the_probability_of_a_partition(x64):
    hyper = {"concentration": jnp.float64(1.0), "discount": jnp.float64(0.3)}
    # two together, one alone, one with the two: (1 - d) / 2, (a + d) / 3 and (2 - d) / 4
    value = PROCESS.logdensity(hyper, jnp.array([3, 1, 0]))
    np.testing.assert_allclose(value, np.log(0.7 * 1.3 * 1.7 / 24), rtol=1e-12)
    assert float(PROCESS.logdensity(hyper, jnp.zeros(3, int))) == 0.0
