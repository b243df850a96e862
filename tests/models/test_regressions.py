"""Logistic and softmax regression: gradients, curvature, posterior means, log losses, bad input."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import SAGA, ControlVariate, Minibatch, Uniform, sample, sgld
from sgmc_jax.models import LogisticRegression, SoftmaxRegression
from tests.laws.moments import chain_means, check_mean, fault_is_seen

KEY = jax.random.key(23)
LOGISTIC, SOFTMAX = LogisticRegression(2.0), SoftmaxRegression(3, 2.0)
_rng = np.random.default_rng(4)
X = _rng.normal(size=(12, 2))
BINARY, LABELS = _rng.integers(0, 2, 12), _rng.integers(0, 3, 12)


def dense_logistic(w, x, y):
    p = 1 / (1 + jnp.exp(-x @ w))
    return jnp.sum(jnp.log(jnp.where(y == 1, p, 1 - p))) - jnp.sum(w**2) / 4


def dense_softmax(w, x, y):
    p = jnp.exp(x @ w) / jnp.sum(jnp.exp(x @ w), axis=1, keepdims=True)
    return jnp.sum(jnp.log(p[jnp.arange(len(y)), y])) - jnp.sum(w**2) / 4


CASES = [
    (LOGISTIC, dense_logistic, BINARY, (2,)),
    pytest.param(SOFTMAX, dense_softmax, LABELS, (2, 3), marks=pytest.mark.full),
]


@pytest.mark.parametrize("model,dense,y,shape", CASES)
def test_gradients_and_curvature_are_those_of_the_dense_formula(model, dense, y, shape, x64):
    data = jnp.asarray(X), jnp.asarray(y)
    low, high = model.curvature_bounds(data)
    curvature = jax.jit(jax.hessian(dense))
    for scale in (0.0, 1.0, 5.0):
        w = scale * jnp.asarray(_rng.normal(size=shape))
        score = model.prior(w).value + model.weighted_sum(w, data, jnp.ones(12)).value
        np.testing.assert_allclose(score, jax.grad(dense)(w, *data), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.logdensity(w, data), dense(w, *data), rtol=1e-9)
        hessian = -curvature(w, *data).reshape(w.size, w.size)
        eigenvalues = jnp.linalg.eigvalsh(hessian)
        assert low <= eigenvalues[0] * (1 + 1e-9) and eigenvalues[-1] <= high
    if model is LOGISTIC:  # at zero an item's curvature is 1/4, so that the bound is reached
        reached = jnp.linalg.eigvalsh(-curvature(jnp.zeros(2), *data))[-1]
        np.testing.assert_allclose(high, reached, rtol=1e-6)


def test_labels_may_be_whole_floating_or_truths():
    gradient = lambda y: LOGISTIC.weighted_sum(jnp.ones(2), (X, jnp.asarray(y)), jnp.ones(12))
    for kind in (float, bool):
        np.testing.assert_array_equal(gradient(BINARY.astype(kind)).value, gradient(BINARY).value)


def quadrature(model, data):
    """The posterior mean in two dimensions, on a grid."""
    grid = jnp.linspace(-6, 6, 241)
    points = jnp.stack(jnp.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    log = jax.vmap(lambda w: model.logdensity(w, data))(points)
    weight = jnp.exp(log - log.max())
    return np.asarray(weight @ points / weight.sum(), np.float32)


def check_posterior_mean(model):
    """SGLD with control variates, of batches of 20; false alarms below 1e-6."""
    truth = LogisticRegression(1.0)
    _, data = truth.simulate(jax.random.key(2), 40, 2, position=jnp.array([1.0, -0.5]))
    expected = quadrature(truth, data)
    kernel = sgld(ControlVariate(Minibatch(model, Uniform(20)), expected), 0.01)
    args = {"num_steps": 700, "burn_in": 100, "num_chains": 200, "thin": 5}
    run = sample(KEY, kernel, expected, data, **args)
    check_mean(chain_means(run.trace, lambda w: w), expected, 0.06)


def test_the_posterior_mean_is_that_of_a_quadrature():
    check_posterior_mean(LogisticRegression(1.0))


@pytest.mark.full
@pytest.mark.at_length
def test_the_posterior_mean_sees_a_prior_of_the_batch():
    """A prior counted N/n times, once an item of the batch, shrinks the weights."""
    fault_is_seen(check_posterior_mean, LogisticRegression(0.5))


def test_saga_keeps_one_number_an_item_or_one_a_class():
    for model, y, shape in ((LOGISTIC, BINARY, (12,)), (SOFTMAX, LABELS, (12, 3))):
        data = X.astype(np.float32), y
        kernel = sgld(SAGA(Minibatch(model, Uniform(4))), 1e-3)
        state = jax.eval_shape(kernel.init, KEY, model.start(data), data)
        assert state.estimator.kept.table.value.shape == shape


def check_log_loss(log_loss):
    """Against the average of probabilities in float64."""
    for model, y, shape in ((LOGISTIC, BINARY, (2,)), (SOFTMAX, LABELS, (2, 3))):
        draws = _rng.normal(size=(2, 4, *shape))
        eta = np.einsum("nj,cdj...->cdn...", X, draws)
        p = 1 / (1 + np.exp(-eta))
        both = np.stack([1 - p, p], -1) if model is LOGISTIC else np.exp(eta)
        both = (both / both.sum(-1, keepdims=True)).mean((0, 1))
        expected = -np.mean(np.log(both[np.arange(12), y]))
        np.testing.assert_allclose(log_loss(model, draws, (X, y)), expected, rtol=1e-5)
        predicted = model.predict(draws, X)
        np.testing.assert_allclose(predicted, both[:, 1] if model is LOGISTIC else both, rtol=1e-5)


def test_the_log_loss_is_of_the_mean_probability():
    check_log_loss(lambda model, draws, data: model.log_loss(draws, data))
    one = LOGISTIC.log_loss(jnp.array([3.0, 0.0]), (X, BINARY))
    two = LOGISTIC.log_loss(jnp.array([[3.0, 0.0]] * 2), (X, BINARY))
    # on a GPU they may differ in the last place
    np.testing.assert_allclose(one, two, rtol=1e-7 if jax.default_backend() == "cpu" else 3e-7)
    far = LOGISTIC.log_loss(jnp.array([500.0, 0.0]), (jnp.array([[1.0, 0.0]]), jnp.array([0])))
    assert float(far) == 500.0  # where 1 - p is 0 in float32


def test_the_log_loss_sees_a_sign_and_a_mean_of_logarithms():
    with pytest.raises(AssertionError):
        check_log_loss(lambda model, draws, data: -model.log_loss(draws, data))

    def each(model, draws, data):
        flat = draws.reshape(-1, *draws.shape[2:])
        return np.mean([model.log_loss(draw, data) for draw in flat])

    with pytest.raises(AssertionError):
        check_log_loss(each)


def test_simulated_data_have_the_law_of_the_model():
    """x has variance one, and y the probabilities that theta gives; false alarms below 1e-6.

    Errors of labels are weighed by the predictors: without, a theta of the other sign would pass.
    """
    keys = jax.random.split(KEY, 200)
    for model in (LOGISTIC, SOFTMAX):
        draw = jax.jit(jax.vmap(lambda key, model=model: model.simulate(key, 50, 4)))
        theta, (x, y) = jax.tree.map(np.asarray, draw(keys))
        check_mean((theta**2).reshape(200, -1).mean(1), 2.0, 0.5)
        check_mean((x**2).mean(1), np.ones(4), 0.2)
        # of independent predictors 1/50, and .16/3 more by the model
        assert np.mean(np.mean(x[..., 0] * x[..., 1], axis=1) ** 2) > 0.04
        p = np.asarray(jax.vmap(model.response)(theta, x))
        label = y if model is LOGISTIC else np.eye(3)[y]
        predictor = np.einsum("cnj,cj...->cn...", x, theta)
        wrong = ((label - p) * predictor).reshape(200, -1).mean(1)
        error = wrong.mean() / (wrong.std(ddof=1) / math.sqrt(200))
        assert abs(error) < 5.5, error


@pytest.mark.full
def test_correlations_fall_with_the_distance():
    """|S_ij| is at most rho^|i-j|, and S is refused where it is no covariance."""
    x = np.asarray(LOGISTIC.simulate(KEY, 20_000, 4)[1][0])
    covariance = np.cov(x.T)
    for i, j in itertools.combinations(range(4), 2):
        assert abs(covariance[i, j]) < 0.4 ** (j - i) + 0.05
    with pytest.raises(ValueError, match="correlation must be smaller: with 3.0 this key"):
        LOGISTIC.simulate(KEY, 10, 20, correlation=3.0)


def door(model, y, x=X, position=None):
    position = model.start((x, y)) if position is None else position
    return sample(KEY, sgld(Minibatch(model, Uniform(4)), 1e-3), position, (x, y), num_steps=1)


BAD = [
    (lambda: LogisticRegression(0.0), "prior_variance must be finite and positive"),
    (lambda: LogisticRegression([1.0, 2.0]), "prior_variance must be one number"),
    (lambda: SoftmaxRegression(1), "num_classes must be a whole number of at least 2"),
    (lambda: door(LOGISTIC, BINARY + 1), "y must be labels 0 to 1, got 2"),
    (lambda: door(LOGISTIC, np.where(BINARY, 1.0, -1.0)), r"y must be labels 0 to 1, got -1"),
    (lambda: door(LOGISTIC, BINARY * 0.5), "y must be labels 0 to 1, got 0.5"),
    (lambda: door(SOFTMAX, LABELS + 1), "y must be labels 0 to 2, got 3"),
    (lambda: door(SOFTMAX, LABELS.astype(float)), "y must be whole numbers, got float"),
    (lambda: SOFTMAX.log_loss(np.zeros((2, 3)), (X, [0.5] * 12)), "y must be whole numbers"),
    (lambda: door(LOGISTIC, BINARY[:, None]), r"y must have one label an item, of shape \(12,\)"),
    (lambda: door(LOGISTIC, BINARY, X[:, 0], np.zeros(2)), r"x must be of shape \(n, d\)"),
    (lambda: door(LOGISTIC, BINARY, position=np.zeros(3)), r"position must be of shape \(2,\)"),
    (lambda: door(SOFTMAX, LABELS, position=np.zeros(2)), r"position must be of shape \(2, 3\)"),
    (lambda: LOGISTIC.start(X), r"data must be a pair \(x, y\) for LogisticRegression"),
    (
        lambda: door(LOGISTIC, BINARY, position=LOGISTIC.start),
        r"takes the data and no key, so that the position of sample is model.start\(data\)",
    ),
    (lambda: LOGISTIC.predict(np.zeros(3), X), r"draws must be positions of shape \(2,\)"),
    (lambda: LOGISTIC.predict({"w": np.zeros(2)}, X), "draws must have the structure of the pos"),
    (lambda: LOGISTIC.log_loss(np.zeros(2), (X, BINARY - 1)), "y must be labels 0 to 1, got -1"),
]


@pytest.mark.parametrize("make,message", BAD)
def test_bad_input_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize("dtype", [bool, "uint8", float])
def test_two_labels_of_any_type_are_labels(dtype):
    """Of two columns the softmax is a logistic function of their difference."""
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(6, 2)), rng.integers(0, 2, 6), rng.normal(size=(2, 2))
    loss = SoftmaxRegression(2).log_loss(w, (x, y.astype(dtype)))
    wanted = LogisticRegression().log_loss(w[:, 1] - w[:, 0], (x, y))
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    slopes = [SoftmaxRegression(2).slopes(w, (x, z))[1] for z in (y.astype(dtype), y)]
    np.testing.assert_allclose(*slopes, rtol=1e-5)


def test_labels_in_a_list():
    for model, y, w in ((LOGISTIC, BINARY, np.ones(2)), (SOFTMAX, LABELS, np.eye(2, 3))):
        assert model.log_loss(w, (X, y.tolist())) == model.log_loss(w, (X, y))


def test_a_start_for_features_of_half_precision():
    """Positions of which small steps would be rounded away."""
    data = np.ones((100_000, 3), np.float16), np.zeros(100_000, int)
    assert LogisticRegression().start(data).dtype == jnp.float32
    np.testing.assert_allclose(LogisticRegression().curvature_bounds(data)[1], 75_000, rtol=1e-3)
