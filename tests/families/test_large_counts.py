"""Counts so large that float32 does not hold log probabilities to a tenth."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln

from sgmc_jax import sample
from sgmc_jax.bnp import DirichletProcess, collapsed_mixture, predictive
from sgmc_jax.families import DirichletMultinomial, LinearPoisson, NormalGamma, PoissonGamma
from sgmc_jax.processes import BetaBernoulli

KEY = jax.random.key(0)


@pytest.mark.parametrize("total", [0, 1, 1_000, 10**6, 10**7])
def test_rows_of_any_total_have_their_predictive_density(total):
    """Sums of log factorials had errors of a nat at 10^6, and of 200 at 10^8."""
    rng, family = np.random.default_rng(0), DirichletMultinomial(0.5, size=50)
    *rows, x = rng.multinomial(total, rng.dirichlet(np.ones(50)), size=4)
    stats = family.statistics(jnp.asarray(np.stack(rows)), jnp.ones((1, 3)))
    for given, alpha in ((stats, 0.5 + np.sum(rows, 0)), (family.zero_statistics(1, x), 0.5)):
        alpha = np.broadcast_to(alpha, 50).astype(float)
        wanted = (
            gammaln(total + 1) - gammaln(x + 1).sum() + (gammaln(alpha + x) - gammaln(alpha)).sum()
        )
        wanted -= gammaln(alpha.sum() + total) - gammaln(alpha.sum())
        got = float(family.log_predictive(given, jnp.asarray(x))[0])
        assert got == pytest.approx(wanted, rel=1e-6, abs=1e-4)


@pytest.mark.parametrize(
    "family", [DirichletMultinomial(0.5, 2), PoissonGamma(1.0, 1.0, 2), LinearPoisson(2)]
)
def test_they_are_warned_of(family):
    with pytest.warns(UserWarning, match="counts so large"):
        family.check(np.full((3, 2), 10**6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        family.check(np.full((3, 2), 10**4))
        family.check(np.zeros((0, 2), int))


def test_in_double_precision_they_are_not(x64):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PoissonGamma(1.0, 1.0, 2).check(np.full((3, 2), 10**6))


@pytest.mark.parametrize("name", ["data", "items"])
def test_predictions_from_whole_numbers_of_64_bits_are_refused(name):
    """They wrapped around."""
    data = {"data": np.array([[1], [2]]), "items": np.array([[1]])}
    family, process = NormalGamma(1), DirichletProcess(1.0)
    run = sample(
        KEY, collapsed_mixture(process, family, capacity=8), None, data["data"], num_steps=2
    )
    data[name] = data[name] + 3 * 10**9
    with pytest.raises(ValueError, match=f"{name} must fit into 32 bits"):
        predictive(process, family, run.trace, data["data"], data["items"])


@pytest.mark.parametrize("num_items", [1, 3, 1_000_000])
@pytest.mark.parametrize("concentration", [1e-30, 1e-8, 1e-5, 0.3, 0.999, 1.0, 7.0])
def test_a_column_that_all_items_have_under_any_concentration(num_items, concentration):
    """log B(n, c) / B(n, 1) was infinite at c = 1e-8, and a chain that came there stayed."""
    column = BetaBernoulli(1.0).log_column(
        jnp.float32(concentration), jnp.array([num_items]), num_items
    )
    wanted = betaln(num_items, concentration) - betaln(num_items, 1.0)
    assert float(column[0]) == pytest.approx(wanted, rel=1e-5, abs=1e-4)
