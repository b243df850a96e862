"""The noise of minibatches around a mode, and how large and of which items they should be."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .. import _tree
from .._types import Data
from ..batching import Uniform, Weighted
from ..model import Model
from .curvature import DENSE, num_items
from .laplace import Laplace
from .passes import Sample

_PILOT = 4_096  # items that noise is measured on, and that are worked on at once
_FEW = 64  # the same where the position is large
_DRAWS = 4
_SHARE = 0.1  # of equal probabilities, so that no weight is large
_SMALLEST = 32


def choose_batcher(
    key: Any, model: Model, fit: Laplace, data: Data, allowed: float
) -> Uniform | Weighted:
    """Batches of the least size that keeps the noise of control variates in bounds.

    With d_i the terms of items less those at the mode, at draws of the Laplace approximation whose
    distance from it is the root mean square, and in its coordinates, the covariance of the
    estimate is

        V = cov(N d_i) (1/n - 1/N)          of `Uniform` batches,
        V = cov(d_i / p_i) / n              of `Weighted` ones, i ~ p,

    with p_i proportional to the root mean square of |d_i|, nearly the best. n is the least for
    which the largest eigenvalue of V is `allowed`. Weights are chosen where they halve n.
    """
    size = num_items(data)
    draws_key, uniform_key, weighted_key = jax.random.split(key, 3)
    keys = jax.random.split(draws_key, 2 * _DRAWS)
    noise = _noise(uniform_key, model, fit, data, np.full(size, 1 / size), keys[_DRAWS:])
    uniform = Uniform(_in_bounds(noise / (allowed + noise / size), size))
    if _tree.size(fit.mode) > DENSE:
        return uniform
    lengths = np.asarray(_lengths(keys[:_DRAWS], model, fit, data), np.float64)
    chances = (1 - _SHARE) * lengths / max(lengths.sum(), 1e-300) + _SHARE / size
    chances = chances / chances.sum()
    noise = _noise(weighted_key, model, fit, data, chances, keys[_DRAWS:])
    num = _in_bounds(noise / allowed, size)
    return Weighted(num, chances) if 2 * num <= uniform.batch_size else uniform


def noise_of_batches(key: Any, model: Model, fit: Laplace, sample: Sample) -> float:
    """The largest eigenvalue of V, as above, in the mean over the batches of a pass."""
    items, size, batch_size = sample
    num = num_items(items)
    noise_key, draws_key = jax.random.split(key)
    keys = jax.random.split(draws_key, _DRAWS)
    noise = _noise(noise_key, model, fit, items, np.full(num, 1 / num), keys)
    return noise * (size / num) ** 2 * max(1 / batch_size - 1 / size, 0.0)


def _in_bounds(num: float, size: int) -> int:
    return min(size, max(_SMALLEST, math.ceil(num)))


def _noise(
    key: Any, model: Model, fit: Laplace, data: Data, chances: np.ndarray, keys: Any
) -> float:
    """The largest eigenvalue of the covariance of d_i / p_i, by items drawn with chances p_i."""
    num = _PILOT if _tree.size(fit.mode) <= DENSE else _FEW
    places = np.asarray(jax.random.uniform(key, (num,)), np.float64)
    index = np.minimum(np.searchsorted(np.cumsum(chances), places), len(chances) - 1)
    items = jax.tree.map(lambda x: jnp.asarray(x)[index], data)
    weight = jnp.asarray(1 / chances[index], jnp.result_type(float))
    moments = np.mean([np.asarray(_covariance(k, model, fit, items, weight)) for k in keys], axis=0)
    return float(np.linalg.eigvalsh(moments)[-1]) if moments.ndim == 2 else float(moments)


@eqx.filter_jit
def _covariance(key: Any, model: Model, fit: Laplace, items: Any, weight: Array) -> Array:
    """That of the weighted terms; of many coordinates the mean of their variances."""
    rows = weight[:, None] * _gaps(key, model, fit, items)
    if fit.space.cholesky is None:
        return jnp.mean(jnp.var(rows, axis=0))
    rows = rows - rows.mean(0)
    return rows.T @ rows / len(rows)


@eqx.filter_jit
def _lengths(keys: Any, model: Model, fit: Laplace, data: Data) -> Float[Array, " N"]:
    """The root mean square of |d_i| over draws, of every item."""

    def one(item: Any) -> Array:
        items = jax.tree.map(lambda x: x[None], item)
        square = jax.vmap(lambda key: jnp.sum(_gaps(key, model, fit, items) ** 2))(keys)
        return jnp.sqrt(jnp.mean(square))

    return jax.lax.map(one, jax.tree.map(jnp.asarray, data), batch_size=_PILOT)


def _gaps(key: Any, model: Model, fit: Laplace, items: Any) -> Float[Array, "n d"]:
    """The terms of items at a draw less those at the mode, in the coordinates S^-1 x: S' d_i."""
    mode, space = fit
    # noise grows as the square of the distance, which few draws would tell badly: d is its mean
    away = space.normal(key, mode)
    away = _tree.scale(jnp.sqrt(_tree.size(mode) / space.squared_norm(mode, away)), away)
    there = _tree.axpy(1.0, away, mode)
    gap = jax.tree.map(jnp.subtract, model.per_item(there, items), model.per_item(mode, items))
    rows = jax.vmap(lambda g: ravel_pytree(g)[0])(gap)
    if space.cholesky is None:
        return rows * ravel_pytree(space.scale)[0]
    return rows @ space.cholesky
