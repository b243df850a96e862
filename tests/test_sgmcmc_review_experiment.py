"""What the experiments of the review compare with, and what they say when data is missing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.models import MatrixFactorization, RowPrior
from tests.laws.moments import check_mean, fault_is_seen

pytest.importorskip("matplotlib")
common = pytest.importorskip("experiments.common")

KEY = jax.random.key(37)
MODEL = MatrixFactorization(3, 2, 2, noise_precision=2.0, centre=3.0)
PAIRS = np.array([0, 0, 1, 0, 1]), np.array([0, 1, 1, 0, 0])
RATING = np.array([4.0, 2.0, 5.0, 1.0, 3.0])


def check_rows(noise_precision):
    """The users' rows: means and second moments of their conditional, by linear algebra."""
    from experiments.sgmcmc_review.gibbs_rows import Rows

    prior = RowPrior(jnp.array([0.3, -0.2]), jnp.log(jnp.array([1.5, 0.7])))
    items = np.array([[1.0, 0.5], [-0.4, 2.0]])
    kernel = Rows(MODEL, {"users": prior, "items": prior})
    users, others = jnp.asarray(PAIRS[0]), jnp.asarray(items[PAIRS[1]])
    own = jax.vmap(lambda key: kernel.rows(key, "users", users, others, RATING - 3.0))
    draws = np.asarray(jax.jit(own)(jax.random.split(KEY, 10_000)))
    for user in range(3):
        x, r = items[PAIRS[1]][PAIRS[0] == user], (RATING - 3.0)[PAIRS[0] == user]
        weight = np.array([1.5, 0.7])
        covariance = np.linalg.inv(np.diag(weight) + noise_precision * x.T @ x)
        mean = covariance @ (weight * np.array([0.3, -0.2]) + noise_precision * x.T @ r)
        check_mean(draws[:, user], mean, 0.3)
        gap = draws[:, user] - mean
        check_mean(gap[:, :, None] * gap[:, None, :], covariance, 0.15)


@pytest.mark.full
def test_rows_are_drawn_of_their_conditional():
    check_rows(2.0)


@pytest.mark.full
@pytest.mark.at_length
def test_the_law_of_rows_sees_another_precision():
    fault_is_seen(check_rows, 2.2)


@pytest.mark.parametrize("name,file", [("mnist", "mnist.npz"), ("movielens", "ml100k.npz")])
def test_missing_data_is_named(name, file, tmp_path):
    from importlib import import_module

    part = import_module(f"experiments.sgmcmc_review.{name}")
    with pytest.raises(SystemExit, match=f"{file} is missing: put M.* --data-dir or SGMC_JAX_DATA"):
        next(part.run(common.Options(KEY, "small", tmp_path, tmp_path)))
