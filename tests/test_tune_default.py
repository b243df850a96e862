"""A kernel for any model: the mode, the scale, the batch, and what is said where there is none."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from sgmc_jax import (
    ControlVariate,
    Euclidean,
    Full,
    FunctionModel,
    LinearModel,
    Minibatch,
    Uniform,
    Weighted,
    Window,
    find_mode,
    hmc,
    sample,
    sghmc,
)
from sgmc_jax.combinators import Metropolis
from sgmc_jax.models import HiddenMarkov, LogisticRegression, NormalEmission
from sgmc_jax.tune import Laplace, default, default_kernel, full_pass, laplace, noise, whiten

KEY = jax.random.key(21)
SCALES = np.array([1e-3, 1.0, 30.0], np.float32)
_rng = np.random.default_rng(3)
X = (_rng.normal(size=(40_000, 3)) / SCALES).astype(np.float32)
WEIGHTS = np.array([1.0, -0.5, 0.3], np.float32) * SCALES
LABELS = (_rng.random(40_000) < 1 / (1 + np.exp(-X @ WEIGHTS))).astype(np.float32)
LOGISTIC = LinearModel(
    lambda w: -0.5 * jnp.sum((w / SCALES / 10) ** 2),
    lambda eta, y: y * eta - jnp.logaddexp(0.0, eta),
)


def exact_laplace(x, y):
    """Newton's method in double precision."""
    x, w = np.float64(x), np.zeros(3)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (y - p) - w / (10.0 * SCALES) ** 2
        precision = (x * (p * (1 - p))[:, None]).T @ x + np.diag(1 / (10.0 * SCALES) ** 2)
        w = w + np.linalg.solve(precision, gradient)
    return w, np.linalg.inv(precision)


@pytest.mark.parametrize("num", [pytest.param(300, marks=pytest.mark.full), 40_000])
def test_the_laplace_approximation(num):
    """Of scales that differ by 3e4; from a batch of 16,384 the scale has its own error."""
    mode, covariance = exact_laplace(X[:num], LABELS[:num])
    fit = laplace(KEY, LOGISTIC, jnp.zeros(3), (X[:num], LABELS[:num]))
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((np.asarray(fit.mode) - mode) / sd, 0, atol=0.1)
    found = np.asarray(fit.space.cholesky @ fit.space.cholesky.T)
    error = 0.02 if num <= 16_384 else 0.08
    np.testing.assert_allclose(found / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=error)


def test_draws_of_the_approximation():
    """Whitened by the known scale, they are standard normal, or twice as wide."""
    scale = jnp.array([1.0, 1e-3])
    model = FunctionModel(lambda x: -0.5 * jnp.sum(((x["w"] - 2) / scale) ** 2))
    fit = laplace(KEY, model, {"w": jnp.ones(2)}, None)
    for spread in (1.0, 2.0):
        draw = partial(fit.draw, spread=spread)
        z = (jax.vmap(draw)(jax.random.split(KEY, 4_000))["w"] - 2) / scale
        np.testing.assert_allclose(np.cov(z.T) / spread**2, np.eye(2), atol=6 / np.sqrt(2_000))
        assert np.all(np.abs(z.mean(0)) < 5.5 * spread / np.sqrt(4_000))
    kernel = hmc(Minibatch(model, Full()), 0.5, 3, space=fit.space)
    run = sample(KEY, kernel, fit.draw, None, num_steps=2, num_chains=3)
    assert len(np.unique(run.trace["w"][:, 0, 0])) == 3


@pytest.mark.parametrize("num", [pytest.param(300, marks=pytest.mark.full), 40_000])
def test_it_samples_the_posterior(num):
    """Means and variances against those of the normal approximation, exact to a few per cent here.

    False alarms below 1e-6: the errors of 16 chains of 1,000 steps are about a hundredth.
    """
    data = (X[:num], LABELS[:num])
    fit = laplace(KEY, LOGISTIC, jnp.zeros(3), data)
    kernel = default_kernel(KEY, LOGISTIC, jnp.zeros(3), data, fit=fit)
    run = sample(KEY, kernel, fit.mode, data, num_steps=1_200, burn_in=200, num_chains=16)
    mode, covariance = exact_laplace(*data)
    sd = np.sqrt(np.diag(covariance))
    skew = 0.25 if num == 300 else 0.08
    np.testing.assert_allclose((run.trace.mean((0, 1)) - mode) / sd, 0, atol=skew)
    ratio = run.trace.var((0, 1)) / sd**2
    assert np.all(ratio > 0.9) and np.all(ratio < (1.35 if num == 300 else 1.2))
    if num == 300:
        assert isinstance(kernel, Metropolis) and run.info.acceptance.mean() > 0.8
    else:
        assert isinstance(kernel.grad, ControlVariate)
        assert kernel.grad.inner.batcher.batch_size < 1_000


def test_the_noise_of_batches_makes_variances_too_large_by_a_twentieth():
    """h V / 2 C. Of items a x^2 / 2 where x has the variance 1/N, V is Var a (1/n - 1/N)."""
    spread, num = 20.0, 40_000
    items = 1 + spread * np.tile([-1.0, 1.0], num // 2)
    model = FunctionModel(lambda x: 0.0 * x, lambda x, a: -0.5 * a * x**2)
    fit = Laplace(jnp.zeros(()), Euclidean(cholesky=jnp.full((1, 1), num**-0.5)))
    kernel = default_kernel(KEY, model, fit.mode, items, fit=fit)
    size, friction = kernel.grad.inner.batcher.batch_size, kernel.pieces["O"].friction
    noise = spread**2 * (1 / size - 1 / num)
    np.testing.assert_allclose(kernel.step_size * noise / (2 * friction), 0.05, rtol=0.01)


@pytest.mark.full
def test_a_target_without_data():
    model = FunctionModel(lambda p: -0.5 * jnp.sum((p["a"] / 1e3) ** 2) - 0.5 * (p["b"] - 2) ** 2)
    start = {"a": jnp.ones(2), "b": jnp.zeros(())}
    kernel = default_kernel(KEY, model, start, None)
    run = sample(KEY, kernel, start, None, num_steps=600, burn_in=100, num_chains=8)
    np.testing.assert_allclose(run.trace["a"].std((0, 1)), 1e3, rtol=0.15)
    np.testing.assert_allclose(run.trace["b"].mean(), 2.0, atol=0.1)


@pytest.mark.full
def test_many_dimensions_have_a_diagonal_scale():
    sd = jnp.geomspace(0.1, 10.0, 300)
    model = FunctionModel(lambda x: -0.5 * jnp.sum((x / sd) ** 2))
    fit = laplace(KEY, model, jnp.ones(300), None)
    np.testing.assert_allclose(fit.space.scale, sd, rtol=1e-4)


@pytest.mark.full
def test_a_series_is_one_item():
    """By all of it, its Hessian included: windows have gradients with weights that stand still."""
    model = HiddenMarkov(2, NormalEmission())
    emission = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.zeros(2)}
    start = model.position(jnp.array([[0.9, 0.1], [0.2, 0.8]]), emission)
    _, series = model.simulate(KEY, start, 400)
    fit = laplace(KEY, model, start, series)
    flat, unravel = ravel_pytree(fit.mode)
    minus_hessian = -jax.hessian(lambda x: model.logdensity(unravel(x), series))(flat)
    covariance = np.linalg.inv(np.asarray(minus_hessian))
    found = np.asarray(fit.space.cholesky @ fit.space.cholesky.T)
    np.testing.assert_allclose(found, covariance, rtol=0.02, atol=1e-3 * covariance.max())
    metric = whiten(model, fit.mode, series)
    np.testing.assert_allclose(metric.cholesky, fit.space.cholesky, rtol=1e-3, atol=1e-4)
    kernel = default_kernel(KEY, model, start, series, fit=fit)
    run = sample(KEY, kernel, fit.mode, series, num_steps=150, num_chains=4)
    assert run.info.acceptance.mean() > 0.8


@pytest.mark.full
def test_the_same_key_gives_the_same_kernel():
    one, two = (default_kernel(KEY, LOGISTIC, jnp.zeros(3), (X, LABELS)) for _ in range(2))
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(left, right)


def test_where_there_is_no_mode():
    for model, message in [
        (FunctionModel(lambda x: x[0] - 0.5 * x[1] ** 2), "not curved downwards|diverged"),
        (
            FunctionModel(lambda x: -0.5 * (x[0] + x[1]) ** 2),
            "not curved downwards.*sample without a metric.*successive_halving",
        ),
        (FunctionModel(lambda x: jnp.sum(x**2) - 1.0), "not curved downwards|diverged"),
    ]:
        with pytest.raises((ValueError, FloatingPointError), match=message):
            default_kernel(KEY, model, jnp.ones(2), None)


def test_a_fit_is_what_laplace_returns():
    with pytest.raises(TypeError, match="fit must be None or a Laplace, got ArrayImpl"):
        default_kernel(KEY, LOGISTIC, jnp.zeros(3), (X, LABELS), fit=jnp.zeros(3))


def test_all_of_the_data_is_looked_at():
    """A mode is sought from 16,384 items first."""
    x = np.random.default_rng(0).normal(size=(200_000, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32)
    x[7] = np.nan
    for search in (laplace, default_kernel):
        with pytest.raises(ValueError, match=r"data\[0\] must be finite"):
            search(KEY, LOGISTIC, jnp.zeros(2), (x, y))


@pytest.mark.parametrize("batcher", [None, Uniform(100)])
def test_a_line_search_of_optax_finds_the_mode(batcher):
    x = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    y = np.round(x[:, 0] + np.random.default_rng(1).normal(size=400)).astype(np.float32)
    wanted = np.linalg.solve(x.T @ x + np.eye(2), x.T @ y)
    args = {"optimizer": optax.lbfgs(), "num_steps": 40, "batcher": batcher}
    mode = find_mode(KEY, LINEAR, jnp.zeros(2), (x, y), **args)
    np.testing.assert_allclose(mode, wanted, atol=1e-3 if batcher is None else 0.3)


def correlated(num, dim, seed=0):
    """Rows whose columns have correlations of a half, and the sum of a linear model's curvature."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(num, 1)) + rng.normal(size=(num, dim))) / np.sqrt(2)
    x = x.astype(np.float32)
    return x, np.float64(x).T @ x + np.eye(dim)


LINEAR = LinearModel(lambda w: -0.5 * jnp.sum(w**2), lambda eta, y: -0.5 * (y - eta) ** 2)


def test_the_step_of_a_diagonal_scale_is_stable(monkeypatch):
    """Directions that it leaves much curved: with h = .5 the chain would be thrown out of them."""
    x, minus_hessian = correlated(2_000, 400)
    data = x, x.sum(1)
    fit = laplace(KEY, LINEAR, jnp.zeros(400), data)
    scale = np.asarray(fit.space.scale)
    steepest = np.linalg.eigvalsh(scale * minus_hessian * scale[:, None])[-1]
    assert steepest > 4 / 0.5**2
    monkeypatch.setattr(default, "choose_batcher", lambda *args: Uniform(50))
    kernel = default_kernel(KEY, LINEAR, fit.mode, data, fit=fit)
    np.testing.assert_allclose(kernel.step_size, 1.2 / np.sqrt(steepest), rtol=0.01)


@pytest.mark.full
def test_a_chain_of_that_step_has_the_variances_of_the_posterior():
    """Of its steepest direction, and in the mean; at h = .5 it is thrown out."""
    x, minus_hessian = correlated(2_000, 400)
    data = x, x.sum(1)
    fit = laplace(KEY, LINEAR, jnp.zeros(400), data)
    steepest = np.linalg.eigvalsh(fit.space.scale * minus_hessian * fit.space.scale[:, None])[-1]
    values, vectors = np.linalg.eigh(minus_hessian)

    def run(step_size):
        kernel = sghmc(Minibatch(LINEAR, Full()), step_size, 1.0, space=fit.space)
        return sample(KEY, kernel, fit.draw, data, num_steps=300, burn_in=150, num_chains=128)

    made = run(1.2 / np.sqrt(steepest))
    ratio = ((made.trace - fit.mode) @ vectors).var((0, 1)) * values
    assert made.info.finite.all() and 0.85 < ratio[-1] < 1.15 and 0.95 < ratio.mean() < 1.05
    with pytest.warns(UserWarning, match="became non-finite|too hot"):
        thrown = run(0.5)
    wide = ((thrown.trace - fit.mode) @ vectors).var((0, 1)) * values
    assert not wide[-1] < 2


def test_the_noise_of_a_diagonal_scale(monkeypatch):
    """The largest eigenvalue of its covariance, at points as far away as draws of the posterior."""
    dim, num = 30, noise._PILOT
    x, minus_hessian = correlated(num, dim)
    data, scale = (x, x.sum(1)), 1 / np.sqrt(np.linalg.norm(minus_hessian, axis=1))
    fit = Laplace(jnp.ones(dim), Euclidean(jnp.asarray(scale, jnp.float32)))
    points = noise._points(KEY, fit, Minibatch(LINEAR, Full()), data, 2)
    moments = []
    for there in points:
        away = np.float64(there) - 1
        np.testing.assert_allclose(away @ minus_hessian @ away, dim, rtol=1e-3)
        rows = num * x * (x @ away)[:, None] * scale
        moments.append([np.cov(half.T, bias=True) for half in np.split(rows, 2)])
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape: (np.arange(num) + 0.5) / num)
    found = noise._noise(KEY, LINEAR, fit, data, np.full(num, 1 / num), points)
    one, other = np.mean(moments, axis=0)
    direction = np.linalg.eigh(one)[1][:, -1]
    np.testing.assert_allclose(found, direction @ other @ direction, rtol=0.02)


def test_weights_are_chosen_where_a_few_items_carry_the_noise():
    """And as many of them as keep V = cov(d_i / p_i) / n in bounds."""
    x = np.random.default_rng(0).normal(size=(20_000, 2)).astype(np.float32)
    x[:100] *= 30
    data, allowed = (x, x.sum(1)), 0.005
    fit = laplace(KEY, LINEAR, jnp.zeros(2), data)
    found = noise.choose_batcher(KEY, LINEAR, fit, data, allowed)
    assert isinstance(found, Weighted) and 100 < found.batch_size < 10_000
    chances = np.asarray(found.probabilities, float)
    every = noise._points(
        jax.random.split(KEY, 3)[0], fit, noise.on_batch(LINEAR, data), data, 2 * noise._DRAWS
    )
    covariances = []
    for there in every[noise._DRAWS :]:
        gaps = -x * (x @ (np.asarray(there, float) - np.asarray(fit.mode, float)))[:, None]
        rows = gaps @ np.asarray(fit.space.cholesky, float)
        total = rows.sum(0)
        covariances.append((rows / chances[:, None]).T @ rows - np.outer(total, total))
    largest = np.linalg.eigvalsh(np.mean(covariances, axis=0))[-1]
    assert 0.8 < found.batch_size * allowed / largest < 1.25  # by a pilot of some thousands
    even = noise.choose_batcher(KEY, LINEAR, fit, (x[100:], x[100:].sum(1)), allowed)
    assert isinstance(even, Uniform)


def check_that_sizes_agree():
    """Of data of which few items, those near the boundary, carry the noise."""
    _, data = LogisticRegression().simulate(KEY, 20_000, 20)
    fit = laplace(KEY, LogisticRegression(), jnp.zeros(20), data)
    choose = partial(noise.choose_batcher, model=LogisticRegression(), fit=fit, data=data)
    sizes = [choose(key, allowed=0.2).batch_size for key in jax.random.split(KEY, 8)]
    assert max(sizes) < 1.25 * min(sizes), sizes


def test_the_size_of_batches_hardly_depends_on_the_key():
    check_that_sizes_agree()


def test_a_noise_that_is_measured_at_few_draws_is_seen(monkeypatch):
    monkeypatch.setattr(noise, "_DRAWS", 4)
    with pytest.raises(AssertionError):
        check_that_sizes_agree()


def test_a_valley_beyond_the_inflection_has_a_kernel():
    """Heavy tails, where the curvature along a draw may be of the other sign."""
    x, _ = correlated(2_000, 300)
    heavy = LinearModel(lambda w: -0.5 * w @ w, lambda eta, y: -1.5 * jnp.log1p((y - eta) ** 2))
    fit = Laplace(jnp.zeros(300), Euclidean(jnp.full(300, 0.01)))
    data = x, jnp.full(2_000, 3.0)
    assert np.isfinite(
        default_kernel(KEY, heavy, fit.mode, data, fit=fit).contract(fit.mode).cost.items
    )


@pytest.mark.full
def test_a_search_that_ends_far_from_the_mode_is_told():
    """Of many coordinates there are no Newton steps, and Adam goes some fifty units at most."""
    rng = np.random.default_rng(0)
    x = (1e-3 * rng.normal(size=(17_000, 260))).astype(np.float32)
    y = (rng.random(17_000) < 1 / (1 + np.exp(-x @ rng.choice([-400.0, 400.0], 260)))).astype(float)
    wide = LinearModel(lambda w: -0.5e-6 * w @ w, lambda eta, y: y * eta - jnp.logaddexp(0.0, eta))
    with pytest.warns(UserWarning, match="the search for a mode ended where the gradient is"):
        laplace(KEY, wide, jnp.zeros(260), (x, y.astype(np.float32)))


@pytest.mark.parametrize("of", [np.asarray, lambda y: lambda: iter(y.reshape(50, 100))])
def test_draws_beyond_the_support_are_told(of):
    model = FunctionModel(lambda x: -x[0], lambda x, y: -0.5 * (y - jnp.sqrt(x[0])) ** 2)
    fit = Laplace(jnp.ones(1), Euclidean(cholesky=jnp.array([[2.0]])))
    with pytest.raises(FloatingPointError, match="gradients of items are not finite .*Transformed"):
        default_kernel(KEY, model, fit.mode, of(np.ones(5_000, np.float32)), fit=fit)


@pytest.mark.full
def test_data_of_double_precision_beside_a_position_of_single(x64):
    x = _rng.normal(size=(400, 300))
    data = x, (x[:, 0] > 0).astype(float)
    kernel = default_kernel(KEY, LogisticRegression(), jnp.zeros(300, jnp.float32), data)
    assert sample(KEY, kernel, jnp.zeros(300, jnp.float32), data, num_steps=2).info.finite.all()


def test_a_pass_over_all_rows_of_a_series():
    model = FunctionModel(lambda x: -(x**2), lambda x, w: -0.5 * w.share @ (w.rows - x) ** 2)
    rows = jnp.arange(20.0)
    whole = full_pass(Minibatch(model, Window(5)), jnp.zeros(()), rows)
    assert float(whole.value) == pytest.approx(float(rows.sum()))
    with pytest.raises(ValueError, match="must not be in shards for Window"):
        full_pass(Minibatch(model, Window(5)), jnp.zeros(()), lambda: iter(rows.reshape(2, 10)))
