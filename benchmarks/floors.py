"""Hand-written floors: one `scan` over a step written out, which keeps every position.

The key rule is the runner's: the steps' keys come from one vmapped `fold_in`, as the inputs of the
scan. A state is a tuple whose first part is the position; a step is
`(noise key, batch key, state, data) -> state`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sgmc_jax.random.feistel import random_subset

from .problems import batch_loglik, log_prior, predictor_slope, take

Step = Callable[[Any, Any, tuple, Any], tuple]


def scanned(step: Step, num_steps: int) -> Callable:
    """`(noise key, batch key, state, data) -> positions` of `num_steps` steps of one chain."""

    def run(noise: Any, batch: Any, state: tuple, data: Any) -> Array:
        fold = jax.vmap(jax.random.fold_in, (None, 0))
        counts = jnp.arange(num_steps)

        def one(state: tuple, keys: tuple) -> tuple:
            state = step(*keys, state, data)
            return state, state[0]

        return jax.lax.scan(one, state, (fold(noise, counts), fold(batch, counts)))[1]

    return run


def carried_split(step: Step, num_steps: int) -> Callable:
    """The same with one key that is carried and split at every step, as scans are often written."""

    def run(noise: Any, batch: Any, state: tuple, data: Any) -> Array:
        def one(carry: tuple, _: None) -> tuple:
            key, state = carry
            key, noise, batch = jax.random.split(key, 3)
            state = step(noise, batch, state, data)
            return (key, state), state[0]

        return jax.lax.scan(one, (noise, state), None, num_steps)[1]

    return run


def feistel(key: Any, batch_size: int, num_items: int) -> Array:
    """The default index rule of `Uniform`, without replacement."""
    return random_subset(key, batch_size, num_items)


def randint(key: Any, batch_size: int, num_items: int) -> Array:
    """Indices with replacement."""
    return jax.random.randint(key, (batch_size,), 0, num_items)


def minibatch_gradient(index_rule: Callable, batch_size: int) -> Callable:
    """`(key, x, data) -> gradient` by automatic differentiation of the matrix form."""

    def gradient(key: Any, x: Array, data: tuple) -> Array:
        num_items = len(data[1])
        items = take(data, index_rule(key, batch_size, num_items))
        scale = num_items / batch_size
        return jax.grad(lambda x: log_prior(x) + scale * batch_loglik(x, items))(x)

    return gradient


def slope_gradient(batch_size: int) -> Callable:
    """The same, by who knows the slope of an item's log likelihood, as a `LinearModel` may."""

    def gradient(key: Any, x: Array, data: tuple) -> Array:
        num_items = len(data[1])
        rows, y = take(data, feistel(key, batch_size, num_items))
        return num_items / batch_size * (predictor_slope(rows @ x, y) @ rows) - x

    return gradient


def control_variate_slope(batch_size: int, centre: Array, full: Array) -> Callable:
    """The same with a control variate."""

    def gradient(key: Any, x: Array, data: tuple) -> Array:
        num_items = len(data[1])
        rows, y = take(data, feistel(key, batch_size, num_items))
        slopes = predictor_slope(rows @ jnp.stack([x, centre], axis=1), y[:, None])
        return full - x + num_items / batch_size * ((slopes[:, 0] - slopes[:, 1]) @ rows)

    return gradient


def control_variate_gradient(batch_size: int, centre: Array, full: Array) -> Callable:
    """The same with a control variate: both points under one `vmap`."""

    def gradient(key: Any, x: Array, data: tuple) -> Array:
        num_items = len(data[1])
        items = take(data, feistel(key, batch_size, num_items))
        at = jax.vmap(jax.grad(batch_loglik), (0, None))(jnp.stack([x, centre]), items)
        return jax.grad(log_prior)(x) + full + num_items / batch_size * (at[0] - at[1])

    return gradient


def sgld(gradient: Callable, h: float) -> Step:
    def step(noise: Any, batch: Any, state: tuple, data: Any) -> tuple:
        (x,) = state
        normal = jax.random.normal(noise, x.shape)
        return (x + h * gradient(batch, x, data) + jnp.sqrt(2 * h) * normal,)

    return step


def sghmc(gradient: Callable, h: float, friction: float = 1.0) -> Step:
    """The word ABOBA."""
    decay = jnp.exp(-friction * h)

    def step(noise: Any, batch: Any, state: tuple, data: Any) -> tuple:
        x, v = state
        x = x + h / 2 * v
        kick = h / 2 * gradient(batch, x, data)
        normal = jax.random.normal(noise, x.shape)
        v = decay * (v + kick) + jnp.sqrt(1 - decay**2) * normal + kick
        return x + h / 2 * v, v

    return step


def sgnht(gradient: Callable, h: float, friction: float = 1.0) -> Step:
    """The word ATFBNFTA."""

    def half(x: Array, v: Array, xi: Array) -> Array:
        return xi + h / 2 * (jnp.sum(v**2) / x.size - 1)

    def step(noise: Any, batch: Any, state: tuple, data: Any) -> tuple:
        x, v, xi = state
        x = x + h / 2 * v
        xi = half(x, v, xi)
        v = jnp.exp(-xi * h / 2) * v + h * gradient(batch, x, data)
        v = v + jnp.sqrt(2 * friction * h) * jax.random.normal(noise, x.shape)
        v = jnp.exp(-xi * h / 2) * v
        xi = half(x, v, xi)
        return x + h / 2 * v, v, xi

    return step
