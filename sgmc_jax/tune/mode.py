"""The mode of a posterior, for starting chains and centring control variates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from .. import _checks, _tree
from .._types import Data, Estimate, Keys, Position
from ..batching import Batcher, Full
from ..collective import as_shard
from ..gradients import Minibatch
from ..model import Model


def find_mode(
    key: Any,
    model: Model,
    position: Position,
    data: Data,
    *,
    batcher: Batcher | None = None,
    optimizer: optax.GradientTransformation | None = None,
    num_steps: int | None = None,
    tolerance: float = 1e-4,
) -> Position:
    """A position of (locally) maximal posterior density, by an optimiser of optax.

    With all of the data, L-BFGS with a line search runs until the norm of the gradient of the log
    posterior, divided by the number of items, is below `tolerance`; with a batcher, Adam with a
    cosine decay runs for `num_steps`. A control variate needs no exact mode.

    Args:
        key: a random key, for the minibatches.
        model: whose log posterior is maximised.
        position: where to begin.
        data: the data, a pytree of arrays with one leading item axis.
        batcher: minibatches instead of all data, e.g. `Uniform(1000)`; `Window(None)` for all of a
            series.
        optimizer: any gradient transformation of optax for minimising, in place of the default.
        num_steps: the most steps; 200 with all data and 2,000 with minibatches by default.
        tolerance: see above; only with all data and the default optimiser.

    Returns:
        the mode, a position.

    Raises:
        TypeError: if `model` is not a `Model`.
        FloatingPointError: if the optimiser diverged.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> mode = find_mode(jax.random.key(0), model, jnp.zeros(()), jnp.array([1.0, 2.0, 3.0]))
        >>> round(float(mode), 3)
        1.5

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2019), section 2.3, for why a mode is worth its price.
    """
    _checks.random_key(key)
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    if num_steps is not None:
        _checks.whole("num_steps", num_steps)
    if callable(data) or isinstance(data, Iterator):
        raise TypeError(
            f"data must be arrays, all of the data, got {type(data).__name__}: a mode of streamed "
            "batches is that of the arrays they are taken from"
        )
    _checks.arrays("position", position)
    _checks.arrays("data", data)
    position = _tree.strong(position)
    grad = Minibatch(model, Full() if batcher is None else batcher)
    _checks.real_position(position)
    grad.check(position, data)
    data = jax.tree.map(jnp.asarray, data)
    if grad.exact and optimizer is None:
        mode = _lbfgs(grad, position, data, num_steps or 200, tolerance)
    else:
        steps = num_steps or 2_000
        rule = optimizer or optax.adam(optax.cosine_decay_schedule(0.05, steps))
        mode = _descend(key, grad, position, data, steps, rule)
    if not bool(_tree.all_finite(mode)):
        raise FloatingPointError("find_mode diverged: give a better position or another optimizer")
    return mode


@partial(jax.jit, static_argnames="num_steps")
def _lbfgs(
    grad: Minibatch, position: Position, data: Data, num_steps: int, tolerance: Any
) -> Position:
    size, solver = max(as_shard(data).size, 1), optax.lbfgs()

    def loss(x: Position) -> Array:
        return -exact_estimate(grad, x, data).logdensity / size

    def unfinished(carry: tuple) -> Array:
        _, _, gradient_norm, step = carry
        return (gradient_norm > tolerance) & (step < num_steps)

    def one(carry: tuple) -> tuple:
        x, state, _, step = carry
        value, gradient = optax.value_and_grad_from_state(loss)(x, state=state)
        updates, state = solver.update(
            gradient, state, x, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(x, updates), state, optax.tree.norm(gradient), step + 1

    start = (position, solver.init(position), jnp.array(jnp.inf), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, one, start)[0]


def exact_estimate(grad: Minibatch, position: Position, data: Data) -> Estimate:
    """The gradient from all of the data, and the log posterior."""
    return optax.tree.add(grad.prior(position), grad.full(position, data))


@partial(jax.jit, static_argnames=("num_steps", "rule"))
def _descend(
    key: Any,
    grad: Minibatch,
    position: Position,
    data: Data,
    num_steps: int,
    rule: optax.GradientTransformation,
) -> Position:
    size = max(as_shard(data).size, 1)

    def one(carry: tuple, count: Array) -> tuple:
        x, state, estate = carry
        keys = Keys(key, jax.random.fold_in(key, count), count)
        estimate, estate = grad.estimate(keys, estate, x, data)
        gradient = jax.tree.map(lambda g: -g / size, estimate.value)
        updates, state = rule.update(gradient, state, x)
        return (optax.apply_updates(x, updates), state, estate), None

    start = (position, rule.init(position), grad.init(key, position, data))
    return jax.lax.scan(one, start, jnp.arange(num_steps))[0][0]
