"""The mode, the scale and the default kernel of data that come in batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Euclidean, LinearModel, find_mode, sample
from sgmc_jax.models import HiddenMarkov, NormalEmission
from sgmc_jax.tune import Laplace, default_kernel, laplace, noise, whiten
from sgmc_jax.tune.passes import Sample, sample_of_pass
from tests.test_tune_default import KEY, LABELS, LOGISTIC, X, exact_laplace


def batches_of(size, num):
    """Pass after pass in random orders, the last batch of each being shorter."""
    rng = np.random.default_rng(5)

    def passes():
        order = rng.permutation(num)
        return ((X[some], LABELS[some]) for some in np.split(order, range(size, num, size)))

    return passes


# ---------------------------------------------------------------------------- items of a pass


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.full), 5, 11])
def test_each_set_of_items_is_as_probable(size):
    """Of 11 items 3, by their inclusion alone and in pairs; false alarms below 1e-6."""
    items, num = np.arange(11.0), 3_000
    passes = lambda: ({"x": items[i : i + size]} for i in range(0, 11, size))
    seen = np.zeros((num, 11), bool)
    for seed in range(num):
        drawn, total, _ = sample_of_pass(jax.random.key(seed), passes, 3)
        seen[seed, drawn["x"].astype(int)] = True
        assert total == 11 and drawn["x"].shape == (3,)
    assert np.all(seen.sum(1) == 3)
    both = seen.T.astype(float) @ seen / num
    expected = np.where(np.eye(11), 3 / 11, 3 / 11 * 2 / 10)
    assert np.all(np.abs(both - expected) < 5.5 * np.sqrt(expected / num))


def test_fewer_items_are_all_drawn_and_rows_stay_together():
    (x, y), total, mean = sample_of_pass(KEY, batches_of(7, 300), 500)
    assert total == 300 and mean == pytest.approx(43 / (42 / 7 + 1 / 6))
    own = {tuple(row): label for row, label in zip(X[:300], LABELS[:300])}
    assert len(np.unique(x, axis=0)) == 300
    assert all(own[tuple(row)] == label for row, label in zip(x, y))


# ------------------------------------------------------------------------------- the posterior


@pytest.mark.parametrize("num", [300, pytest.param(40_000, marks=pytest.mark.full)])
def test_the_approximation_is_that_of_the_arrays(num):
    mode, covariance = exact_laplace(X[:num], LABELS[:num])
    sd = np.sqrt(np.diag(covariance))
    fit = laplace(KEY, LOGISTIC, jnp.zeros(3), batches_of(128, num))
    space = whiten(LOGISTIC, jnp.asarray(mode, jnp.float32), batches_of(128, num))
    np.testing.assert_allclose((np.asarray(fit.mode) - mode) / sd, 0, atol=0.1)
    for cholesky in (fit.space.cholesky, space.cholesky):
        found = np.asarray(cholesky @ cholesky.T)
        error = 0.02 if num <= 16_384 else 0.08
        np.testing.assert_allclose(
            found / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=error
        )


def ratios(size):
    """Of the default kernel's variances to those of the normal approximation."""
    data = batches_of(size, 40_000)
    fit = laplace(KEY, LOGISTIC, jnp.zeros(3), (X, LABELS))
    kernel = default_kernel(KEY, LOGISTIC, jnp.zeros(3), data, fit=fit)
    run = sample(KEY, kernel, fit.mode, data, num_steps=8_000, burn_in=500, num_chains=64)
    mode, covariance = exact_laplace(X, LABELS)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((run.trace.mean((0, 1)) - mode) / sd, 0, atol=0.1)
    return kernel, run.trace.var((0, 1)) / sd**2


@pytest.mark.full
def test_large_batches_leave_the_kernel_as_it_is():
    kernel, ratio = ratios(300)
    assert (kernel.step_size, kernel.pieces["O"].friction) == (0.5, 1.0)
    np.testing.assert_allclose(ratio, 1, atol=0.05)


@pytest.mark.full
def test_the_noise_of_small_batches_is_brought_down():
    """To a twentieth of the variances; the posterior's own skewness makes up some hundredths."""
    kernel, ratio = ratios(5)
    h, friction = float(kernel.step_size), float(kernel.pieces["O"].friction)
    assert h < 0.5 and friction == pytest.approx(1 / h)
    np.testing.assert_allclose(ratio, 1.05, atol=0.08)


@pytest.mark.full
@pytest.mark.at_length
def test_the_noise_of_the_sample_taken_for_that_of_all_items_is_seen(monkeypatch):
    honest = noise.noise_of_batches

    def of_the_sample(key, model, fit, drawn):
        return honest(key, model, fit, drawn) * (len(drawn.items[1]) / drawn.size) ** 2

    monkeypatch.setattr("sgmc_jax.tune.default.noise_of_batches", of_the_sample)
    assert np.all(ratios(5)[1] > 1.15)


def test_the_noise_of_more_items_than_were_kept():
    """Of M items like n it is (M / n)^2 (1 / b - 1 / M) of the terms' variance."""
    fit = Laplace(jnp.zeros(3), Euclidean(cholesky=0.1 * jnp.eye(3)))
    items, of = (X[:400], LABELS[:400]), lambda size, b: Sample(items, size, b)
    small, large, all_ = (
        noise.noise_of_batches(KEY, LOGISTIC, fit, of(*each))
        for each in ((400, 20.0), (2_000, 20.0), (400, 400.0))
    )
    assert small > 0 and all_ == 0
    np.testing.assert_allclose(large / small, 25 * (1 / 20 - 1 / 2_000) / (1 / 20 - 1 / 400))


# --------------------------------------------------------------------------------- wrong use


@pytest.mark.parametrize("call", [laplace, default_kernel])
def test_what_has_no_passes_is_refused(call):
    for data in (lambda i: (X, LABELS), iter([(X, LABELS)])):
        with pytest.raises(TypeError, match="data must be arrays, or give an iterator of batches"):
            call(KEY, LOGISTIC, jnp.zeros(3), data)
    with pytest.raises(ValueError, match="data must have batches, got a pass without any"):
        call(KEY, LOGISTIC, jnp.zeros(3), lambda: iter([]))


def test_a_series_has_no_passes():
    model = HiddenMarkov(2, NormalEmission())
    for call in (
        lambda data: laplace(KEY, model, jnp.zeros(3), data),
        lambda data: whiten(model, jnp.zeros(3), data),
    ):
        with pytest.raises(TypeError, match="must be arrays for HiddenMarkov, whose rows have"):
            call(batches_of(10, 20))


LINE = LinearModel(lambda w: -0.0 * jnp.sum(w), lambda eta, y: -0.5 * (y - eta) ** 2)


def test_a_mode_that_is_nearer_than_the_shortest_halving():
    """w = 1e-4, of x about 1e4: halved twelve times a step of length 1 goes five times too far."""
    x = np.where(np.arange(40) % 2, 1e4, -1e4).astype(np.float32)[:, None]
    passes = lambda: iter([(x[:20], 1e-4 * x[:20, 0]), (x[20:], 1e-4 * x[20:, 0])])
    mode = find_mode(KEY, LINE, jnp.zeros(1), passes)
    np.testing.assert_allclose(mode, [1e-4], rtol=1e-4)


def test_a_start_whose_gradient_is_no_number_is_no_mode():
    model = LinearModel(lambda w: -jnp.sqrt(w @ w), lambda eta, y: -0.5 * (y - eta) ** 2)
    passes = lambda: iter([(X[:50], LABELS[:50])])
    with pytest.raises(FloatingPointError, match="find_mode diverged"):
        find_mode(KEY, model, jnp.zeros(3), passes)
