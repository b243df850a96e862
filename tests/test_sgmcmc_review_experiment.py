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


def test_settings_at_an_end_of_their_grids_are_named():
    from experiments.sgmcmc_review.table2 import in_the_grid

    grid = {"step_size": [0.1, 0.2, 0.3], "friction": [1.0, 2.0, 3.0]}
    assert in_the_grid({"step_size": 0.2, "friction": 2.0}, grid) == "yes"
    assert in_the_grid({"step_size": 0.2, "friction": 3.0}, grid) == "NO: C"
    assert in_the_grid({"step_size": 0.1, "friction": 1.0}, grid) == "NO: h, C"


def test_moments_of_many_draws_in_double_precision():
    """Of 192,000 draws, a thousand deviations from zero, of which half are one up or down."""
    from experiments.sgmcmc_review.table2 import moments

    x = np.full((16, 12_000, 4), 1_000.0, np.float32)
    x[:, ::2] += 1
    mean, sd = moments(x)
    assert mean == pytest.approx(1_000.5, abs=1e-9) and sd == pytest.approx(0.5, abs=1e-9)


def test_a_recording_is_standardised_by_the_rows_that_are_learned_from(tmp_path):
    from experiments.sgmcmc_review.ion_channel import EVERY, recording

    rows = np.concatenate([np.tile([10.0, 14.0], 50), np.full(20, 40.0)])
    np.savez(tmp_path / "ion_channel_gramA.npz", conductance_pS=np.repeat(rows, EVERY))
    train, test, to_pS = recording(common.Options(KEY, "small", tmp_path, tmp_path))
    assert to_pS == (12.0, 2.0) and set(np.asarray(train)) == {-1.0, 1.0}
    assert set(np.asarray(test)) == {14.0} and (len(train), len(test)) == (100, 20)
