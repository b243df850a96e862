"""The metric of the curvature at a mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Full, FunctionModel, Minibatch, Transformed, hmc, sghmc, whiten
from sgmc_jax.models import SeriesModel
from tests.laws.moments import check_law, run_law

COVARIANCE = np.array([[1.0, 18.0], [18.0, 400.0]])
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE))
NORMAL = FunctionModel(lambda x: -0.5 * x @ PRECISION @ x)
MODE = jnp.zeros(2)


def test_a_dense_one_has_the_covariance_and_a_diagonal_one_the_conditional_scales():
    dense = whiten(NORMAL, MODE, None)
    np.testing.assert_allclose(dense.cholesky @ dense.cholesky.T, COVARIANCE, rtol=1e-3)
    diagonal = whiten(NORMAL, MODE, None, dense=False)
    np.testing.assert_allclose(diagonal.scale, np.diag(PRECISION) ** -0.5, rtol=1e-4)


def test_of_many_coordinates_the_scales_are_of_the_rows_lengths():
    """Of pairs with the curvature (2, 1; 1, 2), whose rows have the length sqrt 5."""
    pairs = FunctionModel(lambda x: -0.5 * jnp.sum(x * (2 * x + x[:, ::-1])))
    scale = whiten(pairs, jnp.zeros((300, 2)), None, dense=False).scale
    assert abs(np.mean(scale**-4.0) - 5) < 0.3


def check_variance(space, num_steps=3_300):
    """The variances of `sghmc` without noise are exact whatever h: here at one for unit scales."""
    square = lambda state, info: state.position**2
    kernel = sghmc(Minibatch(NORMAL, Full()), 0.5, space=space)
    args = {"num_chains": 256, "num_steps": num_steps, "burn_in": 100}
    run = run_law(jax.random.key(3), kernel, MODE, None, reduce=square, **args)
    check_law(run.trace.mean, np.diag(COVARIANCE), 0.02)


def test_one_step_size_suits_all_directions():
    check_variance(whiten(NORMAL, MODE, None))


def test_without_the_metric_chains_hardly_move_along_the_longer_axis():
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(None, num_steps=500)  # they need some 800 to forget where they began


def test_of_a_transformed_model_it_is_that_of_the_unconstrained_numbers():
    gamma = FunctionModel(lambda x: 8.0 * jnp.log(x["rate"]) - 3.0 * x["rate"])
    model = Transformed(gamma, {"rate": "positive"})
    space = whiten(model, {"rate": jnp.log(3.0)}, None)  # 9 z - 3 exp(z), whose mode is log 3
    np.testing.assert_allclose(space.cholesky, [[1 / 3]], rtol=1e-5)
    hmc(Minibatch(model, Full()), 0.5, space=space)


VALLEY = FunctionModel(lambda w: 0.5 * w @ w)
WRONG = {
    "model": (lambda: whiten(lambda x: x, MODE, None), TypeError, "model must be a Model"),
    "valley": (lambda: whiten(VALLEY, MODE, None), ValueError, "not curved downwards in every"),
    "diagonal": (
        lambda: whiten(VALLEY, MODE, None, dense=False),
        ValueError,
        "not curved downwards at the position",
    ),
    "valley in many": (
        lambda: whiten(VALLEY, jnp.zeros(300), None, dense=False),
        ValueError,
        "not curved downwards at the position: its scaled Hessian has a trace above 0",
    ),
    "large": (
        lambda: whiten(FunctionModel(lambda x: -x @ x), jnp.zeros(300), None),
        ValueError,
        "dense must be False for a mode of more than 256 numbers, got 300",
    ),
    "whole": (lambda: whiten(NORMAL, jnp.zeros(2, int), None), TypeError, "must be floating"),
    "NaN": (lambda: whiten(NORMAL, MODE * jnp.nan, None), ValueError, "mode must be finite"),
}


@pytest.mark.parametrize("call, error, message", WRONG.values(), ids=WRONG)
def test_wrong_use_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_series_in_other_coordinates():
    """Of a model of series with a support, and of what it does not take."""

    class Rows(SeriesModel):
        def logprior(self, position):
            return -position["rate"]

        def log_likelihood(self, position, series):
            return jnp.sum(jnp.log(position["rate"]) - position["rate"] * series)

        def window_loglik(self, position, window):
            return window.share @ (jnp.log(position["rate"]) - position["rate"] * window.rows)

        def check(self, position, data):
            if np.any(np.asarray(data) < 0):
                raise ValueError("rows must not be negative")

    model, series = Transformed(Rows(), {"rate": "positive"}), jnp.full(99, 2.0)
    # 100 z - (1 + 198) exp(z), whose curvature is 100 at the mode
    space = whiten(model, {"rate": jnp.log(100 / 199)}, series)
    np.testing.assert_allclose(space.cholesky, [[0.1]], rtol=1e-4)
    with pytest.raises(ValueError, match="rows must not be negative"):
        whiten(model, {"rate": jnp.zeros(())}, -series)
