"""The likelihood of clusters' counts in many groups: sums that must not be lost in larger ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln

from sgmc_jax.bnp import BetaProcess
from sgmc_jax.bnp.bnb import Failures, shapes
from sgmc_jax.collective import Collective
from sgmc_jax.special import log_rising_factorial

LOG_THETA = np.append(np.linspace(-25, -0.01, 60), -1e-5)
GROUPS = 2_000
MASS, CONCENTRATION = 0.9, 2.5
SIZE = np.random.default_rng(0).integers(1, 2_000, GROUPS)


def counts():
    """Of a cluster for each weight, in a tenth of the groups."""
    rng = np.random.default_rng(1)
    x = rng.poisson(20, (len(LOG_THETA), GROUPS)) + 1
    return x * (rng.random(x.shape) < 0.1)


def made(mass=MASS, failures=SIZE, dtype=jnp.float32):
    process = BetaProcess(np.asarray(mass, dtype), np.asarray(CONCENTRATION, dtype))
    return Failures.of(process, jnp.asarray(failures, dtype), Collective())


def log_bnb(x, mass=MASS, failures=SIZE):
    """sum_d log x_d! BNB(x_d; r_d, A, B) in float64."""
    A = CONCENTRATION * mass * np.exp(LOG_THETA)[:, None]
    B = CONCENTRATION - A
    ratio = betaln(A + x, B + failures) - betaln(A, B)
    return np.sum(gammaln(x + failures) - gammaln(failures) + ratio, axis=1)


def check_absent(law):
    exact, value = (
        log_bnb(np.zeros((1, GROUPS))),
        np.asarray(law.log_absent(jnp.float32(LOG_THETA))),
    )
    seen = exact > -20  # of the others e^value is nothing
    assert seen.sum() > 20
    np.testing.assert_allclose(value[seen], exact[seen], rtol=1e-3, atol=1e-6)


def test_the_chance_of_no_item_in_float32():
    check_absent(made())


def test_a_difference_of_two_large_sums_is_seen():
    """Planted: the sums over all groups of either Gamma function, subtracted at the end."""

    class Subtracted(Failures):
        def log_absent(self, log_theta):
            c, r = self.process.concentration, self.failures
            B = c * (1 - self.process.mass * jnp.exp(log_theta))
            return jnp.sum(log_rising_factorial(B[:, None], r), 1) - jnp.sum(
                log_rising_factorial(c, r)
            )

    law = made()
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_absent(Subtracted(law.process, law.failures, law.comm, law.sums))


@pytest.mark.full
def test_columns_by_their_weights_and_the_mass(x64):
    """Up to what knows of neither theta nor the mass, whose failures may know it."""
    x = counts()
    theta = jnp.asarray(LOG_THETA)
    column = made(dtype=jnp.float64).log_column(jnp.asarray(x[:1]), None, theta)
    exact = log_bnb(x[:1])
    np.testing.assert_allclose(column - column[0], exact - exact[0], rtol=1e-4, atol=1e-4)
    law = lambda mass: made(mass, SIZE / mass, jnp.float64).log_all(jnp.asarray(x), theta)
    same = lambda mass: log_bnb(x, mass, SIZE / mass)
    np.testing.assert_allclose(law(0.4) - law(0.9), same(0.4) - same(0.9), rtol=1e-4)


@pytest.mark.full
def test_the_number_of_clusters_by_quadrature():
    s = np.linspace(-60, 40, 20_001)  # log odds of theta
    slope = (
        MASS * CONCENTRATION * np.sum(np.log((CONCENTRATION + SIZE) / CONCENTRATION))
    )  # as large as it must be for the nodes to begin early enough
    assert slope > 1e4
    theta = 1 / (1 + np.exp(-s))
    A = CONCENTRATION * MASS * theta
    sizes, times = np.unique(SIZE, return_counts=True)
    log_absent = np.zeros(len(s))
    for r, num in zip(sizes, times):
        log_absent += num * (betaln(A, CONCENTRATION - A + r) - betaln(A, CONCENTRATION - A))
    every = CONCENTRATION * np.exp(-CONCENTRATION * np.logaddexp(0, s))
    exact = np.sum(-np.expm1(log_absent) * every) * (s[1] - s[0])
    np.testing.assert_allclose(made().exposure(), exact, rtol=1e-3)


def test_the_chance_of_no_item_of_few_groups():
    """In float32, on both sides of where a series in A takes over: its second term is seen."""
    size, log_theta = np.array([1.0, 2.0, 5.0]), np.linspace(-14, -0.1, 200)
    A = CONCENTRATION * MASS * np.exp(log_theta)[:, None]
    B = CONCENTRATION - A
    exact = np.sum(betaln(A, B + size) - betaln(A, B), axis=1)
    found = jax.jit(lambda x: made(failures=size).log_absent(x))(jnp.float32(log_theta))
    np.testing.assert_allclose(found, exact, rtol=1e-3)


def test_weights_that_float32_rounds_to_zero_or_one():
    process = BetaProcess(np.float32(1.0), np.float32(CONCENTRATION))
    counts, log_theta = jnp.array([[1, 0], [3, 2]]), jnp.array([-200.0, 0.0])
    assert all(np.all(x > 0) for x in shapes(process, log_theta))
    column = lambda: Failures.of(process, jnp.ones(2), Collective()).log_column
    assert np.isfinite(jax.jit(lambda: column()(counts, None, log_theta))()).all()
