"""blackjax, as its user would write it: a scan over split keys, minibatches by `randint`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blackjax
import jax
from blackjax.sgmcmc.gradients import control_variates, grad_estimator
from jax import Array

from .problems import item_loglik, log_prior


def estimator(num_items: int) -> Callable:
    return grad_estimator(log_prior, item_loglik, num_items)


def anchored(num_items: int, centre: Array, data: tuple) -> Callable:
    return control_variates(estimator(num_items), centre, data)


def minibatch(key: Any, data: tuple, batch_size: int) -> tuple:
    x, y = data
    index = jax.random.randint(key, (batch_size,), 0, len(y))
    return x[index], y[index]


def sgld(gradient: Callable, h: float, num_steps: int, batch_size: int) -> Callable:
    """`(key, x, data) -> positions` of one chain."""
    algorithm = blackjax.sgld(gradient)

    def run(key: Any, x: Array, data: tuple) -> Array:
        def one(x: Array, key: Any) -> tuple:
            batch_key, step_key = jax.random.split(key)
            x = algorithm.step(step_key, x, minibatch(batch_key, data, batch_size), h)
            return x, x

        return jax.lax.scan(one, algorithm.init(x), jax.random.split(key, num_steps))[1]

    return run


def sgnht(gradient: Callable, h: float, num_steps: int, batch_size: int) -> Callable:
    """The same by the thermostat."""
    algorithm = blackjax.sgnht(gradient, alpha=1.0)

    def run(key: Any, x: Array, data: tuple) -> Array:
        def one(state: Any, key: Any) -> tuple:
            batch_key, step_key = jax.random.split(key)
            state = algorithm.step(step_key, state, minibatch(batch_key, data, batch_size), h)
            return state, state.position

        init_key, key = jax.random.split(key)
        state = algorithm.init(x, init_key)
        return jax.lax.scan(one, state, jax.random.split(key, num_steps))[1]

    return run


def many(h: float, num_steps: int, batch_size: int, num_items: int, shared: bool) -> Callable:
    """`(key, positions, data) -> positions` of SGLD chains: the step vmapped inside the scan."""
    algorithm = blackjax.sgld(estimator(num_items))

    def run(key: Any, x: Array, data: tuple) -> Array:
        def one(x: Array, key: Any) -> tuple:
            batch_key, step_key = jax.random.split(key)
            step_keys = jax.random.split(step_key, len(x))
            if shared:
                items = minibatch(batch_key, data, batch_size)
            else:
                batch_keys = jax.random.split(batch_key, len(x))
                items = jax.vmap(minibatch, (0, None, None))(batch_keys, data, batch_size)
            step = jax.vmap(algorithm.step, (0, 0, None if shared else 0, None))
            x = step(step_keys, x, items, h)
            return x, x

        return jax.lax.scan(one, x, jax.random.split(key, num_steps))[1]

    return run


def exact(gradient: Callable, h: float, num_steps: int) -> Callable:
    """`(key, x) -> positions` of SGLD with an exact gradient, which sees no data."""
    algorithm = blackjax.sgld(lambda x, _: gradient(x))

    def run(key: Any, x: Array) -> Array:
        def one(x: Array, key: Any) -> tuple:
            x = algorithm.step(key, x, None, h)
            return x, x

        return jax.lax.scan(one, algorithm.init(x), jax.random.split(key, num_steps))[1]

    return run
