"""The estimator of one stochastic log density: over all batches, and beside that of a model."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    ControlVariate,
    Epoch,
    Full,
    FunctionModel,
    Given,
    Minibatch,
    StochasticDensity,
    Stratified,
    Uniform,
    Weighted,
    Window,
    hmc,
    sample,
    sghmc,
    sgld,
)
from sgmc_jax.collective import Shard

KEY = jax.random.key(31)
N, DIM = 6, 2
_rng = np.random.default_rng(4)
X, Y = _rng.normal(size=(N, DIM)), _rng.normal(size=N)
POINT = {"w": np.array([0.7, -0.4]), "c": np.array(0.3)}
LABELS = np.array([0, 0, 0, 1, 1, 1])


def logprior(p):
    return -0.5 * p["w"] @ p["w"] - jnp.cosh(p["c"])


def loglik(p, item):
    return -0.5 * (item[1] - p["c"] - jnp.tanh(item[0] @ p["w"])) ** 2


MODEL = FunctionModel(logprior, loglik)


def logliks(p, items):
    return jax.vmap(loglik, (None, 0))(p, items)


def plain(p, items):
    return logprior(p) + N * jnp.mean(logliks(p, items))


def weighted(p, items, weight):
    return logprior(p) + weight @ logliks(p, items)


def check_all_batches(grad, size, padding=0):
    """The mean over all subsets of that size is the gradient, and the log density, of all data."""
    point = jax.tree.map(jnp.asarray, POINT)
    estimates = []
    for subset in map(list, itertools.combinations(range(N), size)):
        rows = np.array(subset + padding * [0])
        items = (jnp.asarray(X[rows]), jnp.asarray(Y[rows]))
        data = Shard(items, size, 0, size) if padding else items
        estimates.append(grad.estimate(KEY, (), point, data)[0])
    mean = jax.tree.map(lambda *each: np.mean(each, axis=0), *estimates)
    exact = jax.value_and_grad(MODEL.logdensity)(point, (X, Y))
    np.testing.assert_allclose(mean.logdensity, exact[0], rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), mean.value, exact[1])


@pytest.mark.parametrize("size", [1, 4, N])
def test_it_is_unbiased_over_all_batches(size):
    check_all_batches(StochasticDensity(plain, Given(N)), size)
    check_all_batches(StochasticDensity(weighted, Given(N), weighted=True), size, padding=2)


def test_the_law_sees_a_missing_scale_a_prior_too_many_and_padding_that_counts():
    unscaled = lambda p, items: logprior(p) + jnp.sum(logliks(p, items))
    scaled_prior = lambda p, items: N / 4 * unscaled(p, items)
    counted = lambda p, items, weight: logprior(p) + N * jnp.mean(logliks(p, items))
    for wrong in (unscaled, scaled_prior):
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            check_all_batches(StochasticDensity(wrong, Given(N)), 4)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_all_batches(StochasticDensity(counted, Given(N), weighted=True), 4, padding=2)


def chains(grad, data=(X, Y), kernel=sgld, **kwargs):
    run = sample(KEY, kernel(grad, 0.05), POINT, data, num_steps=8, **kwargs)
    return np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(run.trace)])


@pytest.mark.parametrize("batcher", [Uniform(2), Epoch(3), Full(), Uniform(2, replace=True)])
def test_the_chain_is_that_of_a_model(batcher):
    expected = chains(Minibatch(MODEL, batcher), num_chains=2)
    got = chains(StochasticDensity(plain, batcher), num_chains=2)
    np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize(
    "batcher", [Epoch(4), Weighted(2, np.arange(1.0, 7.0)), Stratified((2, 1), LABELS)]
)
def test_the_chain_is_that_of_a_model_with_any_weights(batcher):
    got = chains(StochasticDensity(weighted, batcher, weighted=True))
    np.testing.assert_allclose(got, chains(Minibatch(MODEL, batcher)), rtol=1e-4)


def test_in_float64_and_with_momenta(x64):
    got, expected = (
        chains(grad, kernel=sghmc)
        for grad in (StochasticDensity(plain, Uniform(2)), Minibatch(MODEL, Uniform(2)))
    )
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def stream(sizes):
    def batch(i):
        size = sizes[i % len(sizes)]
        return X[i % 3 : i % 3 + size], Y[i % 3 : i % 3 + size]

    return batch


def test_streams_of_batches():
    got = chains(StochasticDensity(plain, Given(N)), stream([2]))
    np.testing.assert_allclose(got, chains(Minibatch(MODEL, Given(N)), stream([2])), rtol=1e-4)
    got = chains(StochasticDensity(weighted, Given(N), weighted=True), stream([3, 1, 2]))
    expected = chains(Minibatch(MODEL, Given(N)), stream([3, 1, 2]))
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_windows_of_a_series():
    on_windows = FunctionModel(
        lambda x: -0.5 * x**2, lambda x, z: -0.5 * z.share @ (z.rows - x) ** 2
    )
    density = lambda x, z: -0.5 * x**2 - 1.5 * jnp.sum(z.share * (z.rows - x) ** 2)
    got, expected = (
        sample(KEY, sgld(grad, 0.05), jnp.zeros(()), Y, num_steps=8).trace
        for grad in (StochasticDensity(density, Window(2)), Minibatch(on_windows, Window(2)))
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_all_data_are_exact_and_metropolis_takes_them():
    make = lambda grad, h: hmc(grad, h, 3)
    got, expected = (
        chains(grad, kernel=make)
        for grad in (StochasticDensity(plain, Full()), Minibatch(MODEL, Full()))
    )
    np.testing.assert_allclose(got, expected, rtol=1e-3)
    with pytest.raises((TypeError, ValueError), match="exact|Full"):
        chains(StochasticDensity(plain, Uniform(2)), kernel=make)


BAD = [
    (lambda: StochasticDensity(None, Full()), "logdensity must be a function, got NoneType"),
    (
        lambda: StochasticDensity(weighted, Full()),
        r"logdensity must be a function of \(position, items\), got one of",
    ),
    (
        lambda: StochasticDensity(plain, Full(), weighted=True),
        r"logdensity must be a function of \(position, items, weight\)",
    ),
    (lambda: StochasticDensity(plain, 10), "batcher must be a Batcher such as .*got int"),
    (lambda: StochasticDensity(plain, Full(), weighted=1), "weighted must be True or False, got 1"),
    (
        lambda: chains(StochasticDensity(plain, Epoch(4))),
        r"equal weights.*got Epoch, which does not say so of 6 items: let it take \(position, it",
    ),
    (lambda: chains(StochasticDensity(plain, Weighted(2, Y**2))), "got Weighted, which does not"),
    (
        lambda: chains(StochasticDensity(plain, Given(N)), stream([3, 2])),
        "data must be in batches of one length.*got shorter ones, which are padded: let it take",
    ),
    (lambda: chains(StochasticDensity(plain, Uniform(9))), "batch_size must be at most the number"),
    (lambda: chains(StochasticDensity(plain, Full()), (X * np.nan, Y)), "data.* must be finite"),
    (
        lambda: chains(StochasticDensity(lambda p, items: logliks(p, items), Full())),
        r"logdensity must return one floating number, of shape \(\), got float32\(6,\)",
    ),
    (
        lambda: ControlVariate(StochasticDensity(plain, Full()), POINT),
        "must be an estimator of batches .*got StochasticDensity",
    ),
]


@pytest.mark.parametrize("make,message", BAD)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
