"""Two posteriors of real data: logistic regression, whitened, and softmax regression."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sgmc_jax import Full, LinearModel, Minibatch, find_mode


class Split(NamedTuple):
    """Design matrices, the intercept first, and labels: to learn from and held out."""

    x: Float[np.ndarray, "n d"]
    y: Int[np.ndarray, " n"]
    test_x: Float[np.ndarray, "m d"]
    test_y: Int[np.ndarray, " m"]
    names: list[str]


class Problem(NamedTuple):
    """A posterior over z, where w = mode + factor @ z are the coefficients."""

    model: LinearModel
    data: tuple
    mode: Float[np.ndarray, " d"]
    factor: Float[np.ndarray, "d d"]

    def coefficients(self, z: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        return self.mode + np.asarray(z) @ self.factor.T

    def score(self, z: Float[Array, "k d"]) -> Float[Array, "k d"]:
        """The exact gradients of the log posterior."""
        return _scores(Minibatch(self.model, Full()), z, self.data)


def breast_cancer() -> Split:
    """569 tumours with 30 features, standardised by the training items; 1 is benign."""
    from sklearn.datasets import load_breast_cancer

    source = load_breast_cancer()
    return _split(source.data, source.target, list(source.feature_names), standardise=True)


def digits() -> Split:
    """1,797 images of 64 pixels, scaled to [0, 1], in 10 classes."""
    from sklearn.datasets import load_digits

    source = load_digits()
    return _split(source.data / 16, source.target, list(source.feature_names), standardise=False)


def logistic(split: Split) -> Problem:
    """The posterior of binary logistic regression, w ~ N(0, I), whitened at its mode.

    With H the Hessian of minus the log posterior at the mode and H = L L^T its Cholesky factor,
    w = mode + L^-T z: z is near standard normal, so one step size fits all coordinates. A row x
    becomes L^-1 x with the offset x . mode.
    """
    num_items, dim = split.x.shape
    plain = LinearModel(partial(_log_prior, mode=jnp.zeros(dim), factor=jnp.eye(dim)), _bernoulli)
    data = (split.x, (np.zeros(num_items, np.float32), split.y))
    mode = find_mode(jax.random.key(0), plain, jnp.zeros(dim), data, tolerance=1e-6)
    offset = split.x @ np.asarray(mode)
    chance = 1 / (1 + np.exp(-offset.astype(float)))
    hessian = split.x.T @ ((chance * (1 - chance))[:, None] * split.x) + np.eye(dim)
    factor = np.linalg.inv(np.linalg.cholesky(hessian)).T.astype(np.float32)
    model = LinearModel(partial(_log_prior, mode=mode, factor=jnp.asarray(factor)), _bernoulli)
    return Problem(model, (split.x @ factor, (offset, split.y)), np.asarray(mode), factor)


def softmax_model() -> LinearModel:
    """Softmax regression with w ~ N(0, I); the position has a column for each class."""
    return LinearModel(_standard_normal, _categorical)


def _split(x: np.ndarray, y: np.ndarray, names: list[str], *, standardise: bool) -> Split:
    """A fixed 80/20 split."""
    order = np.random.default_rng(0).permutation(len(x))
    train, test = np.split(order, [round(0.8 * len(x))])
    if standardise:
        x = (x - x[train].mean(0)) / x[train].std(0)
    x = np.concatenate([np.ones((len(x), 1)), x], axis=1).astype(np.float32)
    y = y.astype(np.int32)
    return Split(x[train], y[train], x[test], y[test], ["intercept", *map(str, names)])


@jax.jit
def _scores(exact: Minibatch, z: Array, data: tuple) -> Array:
    return jax.vmap(lambda z: exact.prior(z).value + exact.full(z, data).value)(z)


def _log_prior(z: Array, mode: Array, factor: Array) -> Array:
    return _standard_normal(mode + factor @ z)


def _standard_normal(w: Array) -> Array:
    return -jnp.sum(w**2) / 2


def _bernoulli(predictor: Array, item: tuple) -> Array:
    offset, y = item
    return y * (predictor + offset) - jnp.logaddexp(0.0, predictor + offset)


def _categorical(predictor: Array, y: Array) -> Array:
    return predictor[y] - jax.nn.logsumexp(predictor)
