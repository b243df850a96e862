"""The targets: logistic regression in three spellings, and a Gaussian."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgmc_jax import FunctionModel, LinearModel

STEP_SIZE = 1e-5
VARIANCES = np.linspace(0.5, 2.0, 10, dtype=np.float32)


def logistic_data(num_items: int, dim: int) -> tuple[Array, Array]:
    """Standard normal rows, and labels of a random coefficient vector."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num_items, dim), dtype=np.float32)
    chance = 1 / (1 + np.exp(-x @ rng.standard_normal(dim, dtype=np.float32) / np.sqrt(dim)))
    return jnp.asarray(x), jnp.asarray((rng.random(num_items) < chance).astype(np.float32))


def log_prior(w: Array) -> Array:
    return -0.5 * jnp.sum(w**2)


def predictor_loglik(eta: Array, y: Array) -> Array:
    return y * eta - jnp.logaddexp(0.0, eta)


def predictor_slope(eta: Array, y: Array) -> Array:
    return y - jax.nn.sigmoid(eta)


def item_loglik(w: Array, item: tuple[Array, Array]) -> Array:
    return predictor_loglik(item[0] @ w, item[1])


def batch_loglik(w: Array, items: tuple[Array, Array]) -> Array:
    """The sum over a batch, in matrix form."""
    return jnp.sum(predictor_loglik(items[0] @ w, items[1]))


def gaussian(x: Array) -> Array:
    return -0.5 * jnp.sum(x**2 / VARIANCES)


LINEAR = LinearModel(log_prior, predictor_loglik, predictor_slope)
FUNCTION = FunctionModel(log_prior, item_loglik)
GAUSSIAN = FunctionModel(gaussian)


def take(data: tuple, index: Array) -> tuple:
    """The rows at `index`, which is in bounds."""
    return jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), data)
