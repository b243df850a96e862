"""The noise of minibatches around a mode, and how large and of which items they should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .. import _tree
from .._types import Data, Position
from ..arrays import product as full_product
from ..batching import Given, Uniform, Weighted
from ..engines import whole
from ..gradients import Minibatch
from ..model import Model
from .curvature import DENSE, along, diagonal, num_items, on_batch, power_method
from .laplace import Laplace
from .passes import Sample

_PILOT = 4_096  # items that noise is measured on, and that are worked on at once
_DRAWS = 16  # of four, weights leave twice the noise that they can, and its measure varies by half
_FEW_DRAWS = 4  # where the terms of items are not kept, and every draw is part of one program
_SHARE = 0.1  # of equal probabilities, so that no weight is large
_SMALLEST = 32


def choose_batcher(
    key: Any, model: Model, fit: Laplace, data: Data, allowed: float
) -> Uniform | Weighted:
    """Batches of the least size that keeps the noise of control variates in bounds.

    With d_i the terms of items less those at the mode, in the coordinates of the Laplace
    approximation and at draws x of it whose distance from the mode m is the root mean square,
    (x - m)' H (x - m) = d, the covariance of the estimate is

        V = cov(N d_i) (1/n - 1/N)          of `Uniform` batches,
        V = cov(d_i / p_i) / n              of `Weighted` ones, i ~ p,

    with p_i proportional to the root mean square of |d_i|, nearly the best. n is the least for
    which the largest eigenvalue of V is `allowed`. Weights are chosen where they halve n.
    """
    size = num_items(data)
    draws_key, uniform_key, weighted_key = jax.random.split(key, 3)
    num = _num_draws(fit)
    points = _points(draws_key, fit, on_batch(model, data), data, 2 * num)  # half for weights
    noise = _noise(uniform_key, model, fit, data, np.full(size, 1 / size), points[num:])
    uniform = Uniform(_in_bounds(noise / (allowed + noise / size), size))
    if _tree.size(fit.mode) > DENSE:
        return uniform
    lengths = whole(_lengths(points[:num], model, fit, data)).astype(np.float64)
    chances = (1 - _SHARE) * lengths / max(lengths.sum(), 1e-300) + _SHARE / size
    chances = chances / chances.sum()
    noise = _noise(weighted_key, model, fit, data, chances, points[num:])
    least = _in_bounds(noise / allowed, size)
    return Weighted(least, chances) if 2 * least <= uniform.batch_size else uniform


def noise_of_batches(key: Any, model: Model, fit: Laplace, sample: Sample) -> float:
    """The largest eigenvalue of V, as above, in the mean over the batches of a pass."""
    items, size, batch_size = sample
    num = num_items(items)
    noise_key, draws_key = jax.random.split(key)
    points = _points(draws_key, fit, Minibatch(model, Given(size)), items, _num_draws(fit))
    noise = _noise(noise_key, model, fit, items, np.full(num, 1 / num), points)
    return noise * (size / num) ** 2 * max(1 / batch_size - 1 / size, 0.0)


def _num_draws(fit: Laplace) -> int:
    return _DRAWS if _tree.size(fit.mode) <= DENSE else _FEW_DRAWS


def _in_bounds(num: float, size: int) -> int:
    return min(size, max(_SMALLEST, math.ceil(num)))


def _noise(
    key: Any, model: Model, fit: Laplace, data: Data, chances: np.ndarray, points: list[Position]
) -> float:
    """The largest eigenvalue of the covariance of d_i / p_i, by items drawn with chances p_i."""
    places = np.asarray(jax.random.uniform(key, (_PILOT,)), np.float64)
    index = np.minimum(np.searchsorted(np.cumsum(chances), places), len(chances) - 1)
    power_key = jax.random.fold_in(key, _PILOT)  # past the words that chose the items
    items = jax.tree.map(lambda x: jnp.asarray(x)[index], data)
    weight = jnp.asarray(1 / chances[index], jnp.result_type(float))
    if fit.space.cholesky is None:
        noise = float(_largest(power_key, model, fit, items, weight, points))
    else:
        moments = np.mean([_covariance(model, fit, items, weight, x) for x in points], axis=0)
        noise = float(np.linalg.eigvalsh(moments)[-1]) if np.isfinite(moments).all() else np.nan
    if not math.isfinite(noise):
        raise FloatingPointError(
            "the gradients of items are not finite where the Laplace approximation has its draws: "
            "it reaches beyond the support, where coordinates do not (Transformed)"
        )
    return noise


@eqx.filter_jit
def _covariance(
    model: Model, fit: Laplace, items: Any, weight: Float[Array, " n"], there: Position
) -> Float[Array, "d d"]:
    """That of the weighted terms."""
    rows = weight[:, None] * _gaps(model, fit, items, there)
    rows = rows - rows.mean(0)
    return full_product(rows.T, rows) / len(rows)


@eqx.filter_jit
def _largest(
    key: Any,
    model: Model,
    fit: Laplace,
    items: Any,
    weight: Float[Array, " n"],
    points: list[Position],
) -> Float[Array, ""]:
    """The largest eigenvalue of its mean over points, without the terms, a gradient an item.

    The direction is that of one half of the items, and is judged by the other: by the same ones it
    would be too large, as of more dimensions than items a sample covariance has large eigenvalues.
    """
    flat, unravel = ravel_pytree(fit.mode)
    scale, half = diagonal(fit.space, fit.mode), len(weight) // 2
    first = jax.tree.map(lambda x: x[:half], (items, weight))
    second = jax.tree.map(lambda x: x[half : 2 * half], (items, weight))

    def transposed(there: Position, some: Any) -> Callable[[Array], Array]:
        """a -> sum_i a_i d_i / p_i."""
        some, weight = some
        logliks = lambda x: model.loglik_batch(unravel(x), some)
        far, near = (jax.vjp(logliks, x)[1] for x in (ravel_pytree(there)[0], flat))
        own = lambda a: (weight * a).astype(jax.eval_shape(logliks, flat).dtype)
        return lambda a: scale * (far(own(a))[0] - near(own(a))[0])

    def lengths(there: Position, some: Any, v: Float[Array, " d"]) -> Float[Array, " n"]:
        """v' d_i / p_i about their mean."""
        lengths = jax.vjp(transposed(there, some), jnp.zeros(half, flat.dtype))[1](v)[0]
        return lengths - lengths.mean()

    def product(v: Float[Array, " d"]) -> Float[Array, " d"]:
        each = [transposed(x, first)(lengths(x, first, v)) for x in points]
        return sum(each[1:], each[0]) / (half * len(points))

    direction, _ = power_method(key, product, flat.size, flat.dtype)
    return jnp.mean(jnp.stack([lengths(x, second, direction) for x in points]) ** 2)


@eqx.filter_jit
def _lengths(points: list[Position], model: Model, fit: Laplace, data: Data) -> Float[Array, " N"]:
    """The root mean square of |d_i| over draws, of every item."""
    every = jax.tree.map(lambda *x: jnp.stack(x), *points)

    def one(item: Any) -> Float[Array, ""]:
        items = jax.tree.map(lambda x: x[None], item)
        square = lambda x: jnp.sum(_gaps(model, fit, items, x) ** 2)
        return jnp.sqrt(jnp.mean(jax.lax.map(square, every)))

    return jax.lax.map(one, jax.tree.map(jnp.asarray, data), batch_size=_PILOT)


def _gaps(model: Model, fit: Laplace, items: Any, there: Position) -> Float[Array, "n d"]:
    """The terms of items at a point less those at the mode, in the coordinates S^-1 x: S' d_i."""
    mode, space = fit
    gap = jax.tree.map(jnp.subtract, model.per_item(there, items), model.per_item(mode, items))
    rows = jax.vmap(lambda g: ravel_pytree(g)[0])(gap)
    if space.cholesky is None:
        return rows * diagonal(space, mode)
    return full_product(rows, space.cholesky)


def _points(key: Any, fit: Laplace, grad: Minibatch, data: Data, number: int) -> list[Position]:
    """Draws around the mode whose distance from it, in the metric of H, is the mean one."""
    batch_key, mode, space = jax.random.fold_in(key, number), *fit

    def one(key: Any) -> Position:
        # noise grows as the square of the distance, which few draws would tell badly
        away = space.normal(key, mode)
        square = space.squared_norm(mode, away)
        if space.cholesky is None:  # S S' is not the inverse of H, which need not be positive here
            curved = along(batch_key, grad, mode, data, away)
            square = jnp.where(curved > 0, curved, square)
        return _tree.axpy(jnp.sqrt(_tree.size(mode) / square), away, mode)

    return [one(key) for key in jax.random.split(key, number)]
