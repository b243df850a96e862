"""The mode of a posterior, for starting chains and centring control variates."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from .. import _checks, _tree
from .._estimators import Estimate
from .._frames import without_frames
from .._types import Data, Keys, Position
from ..batching import Batcher, Full, Given
from ..collective import as_shard, leading_axis
from ..gradients import Minibatch
from ..model import Model
from ..runner.passes import passes_of
from ..runner.stream import Stream, open_data, resident
from .passes import mode_of_passes


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

    Data may come in batches, the last of a pass being shorter. From what gives an iterator of them
    for each pass, L-BFGS finds the same mode as from the arrays: an evaluation is a
    pass. With `batcher=Given(total)` Adam takes a batch a step.

    Args:
        key: a random key, for the minibatches.
        model: whose log posterior is maximised.
        position: where to begin.
        data: the data, a pytree of arrays with one leading item axis; or what gives an iterator of
            batches for each pass, a function without arguments or a loader; or, for `Given`, all
            that `sample` takes.
        batcher: minibatches instead of all data, e.g. `Uniform(1000)`, or `Given(total)` for those
            of a stream; `Window(None)` for all of a series.
        optimizer: any gradient transformation of optax for minimising, in place of the default;
            one that searches along a line, `optax.lbfgs()`, does so on the batch of its step.
        num_steps: the most steps; 200 of L-BFGS and 2,000 of an optimizer by default.
        tolerance: see above; only with all data and the default optimiser.

    Returns:
        the mode, a position.

    Raises:
        TypeError: if `model` is not a `Model`, `optimizer` is no rule of optax, or streamed data
            has no passes and no `Given`.
        FloatingPointError: if the optimiser diverged, or where the default one ended the density is
            zero.

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
    _checks.positive("tolerance", _checks.one_number("tolerance", tolerance), zero=True)
    _checks.instance("optimizer", optax.GradientTransformation, optimizer, none=True)
    _checks.arrays("position", position)
    position = _tree.strong(position)
    _checks.real_position(position)
    grad, passes = Minibatch(model, Full() if batcher is None else batcher), passes_of(data)
    streamed = callable(data) or isinstance(data, Iterator) or passes is not None
    if streamed and not grad.streams and (passes is None or batcher or optimizer):
        raise TypeError(
            "data must be arrays, or give an iterator for each pass of the default optimizer, as a "
            f"function without arguments, got {type(data).__name__}: batcher=Given(total) takes a "
            "batch a step"
        )
    if optimizer is None and passes is not None and not grad.streams:
        mode = mode_of_passes(grad, position, passes, num_steps or 200, tolerance)
    elif optimizer is None and grad.exact:
        data = checked(grad, position, data)
        mode = _lbfgs(grad, position, data, num_steps or 200, jnp.asarray(tolerance))
    else:
        steps = num_steps or 2_000
        rule = optimizer or optax.adam(optax.cosine_decay_schedule(0.05, steps))
        source = open_data(data, 0, steps) if streamed else checked(grad, position, data)
        mode = _descend(key, grad, position, source, steps, rule)
    if not bool(_tree.all_finite(mode)):
        raise FloatingPointError("find_mode diverged: give a better position or another optimizer")
    return mode


@eqx.filter_jit
def _lbfgs(
    grad: Minibatch, position: Position, data: Data, num_steps: int, tolerance: Float[Array, ""]
) -> Position:
    size, solver = max(as_shard(data).size, 1), optax.lbfgs()
    dtype = jnp.result_type(*jax.tree.leaves(position))

    def loss(x: Position) -> Float[Array, ""]:
        return (-exact_estimate(grad, x, data).logdensity / size).astype(dtype)

    def unfinished(carry: tuple) -> Bool[Array, ""]:
        _, _, gradient_norm, step = carry
        return (gradient_norm > tolerance) & (step < num_steps)

    def one(carry: tuple) -> tuple:
        x, state, _, step = carry
        value, gradient = optax.value_and_grad_from_state(loss)(x, state=state)
        updates, state = solver.update(
            gradient, state, x, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(x, updates), state, optax.tree.norm(gradient), step + 1

    start = (position, solver.init(position), jnp.array(jnp.inf, dtype), jnp.zeros((), jnp.int32))
    x = jax.lax.while_loop(unfinished, one, start)[0]
    # where the density is zero no gradient leads away
    return optax.tree.where(jnp.isfinite(loss(x)), x, optax.tree.full_like(x, jnp.nan))


def exact_estimate(grad: Minibatch, position: Position, data: Data) -> Estimate:
    """The gradient from all of the data, and the log posterior."""
    return optax.tree.add(grad.prior(position), grad.full(position, data))


def checked(grad: Minibatch, position: Position, data: Data) -> Data:
    """All of the data, as arrays that are fit."""
    data = without_frames("data", data)
    _checks.arrays("data", data)
    grad.check(position, data)
    return resident(data)


def _descend(
    key: Any,
    grad: Minibatch,
    position: Position,
    source: Data | Stream,
    num_steps: int,
    rule: optax.GradientTransformation,
) -> Position:
    """Steps of an optimiser of optax, each by an estimate of the gradient."""
    streamed = isinstance(source, Stream)
    first = source.first if streamed else source
    if streamed:
        grad.check(position, first)
    size = grad.batcher.total if isinstance(grad.batcher, Given) else leading_axis(first)
    carry = position, rule.init(position), grad.init(key, position, first)
    scale = jnp.asarray(max(size, 1), jnp.result_type(float))
    run = partial(_steps, key, grad, rule=rule, size=scale, streamed=streamed)
    if not streamed:
        return run(carry, source, jnp.array([0, num_steps]))[0]
    done = 0
    while done < num_steps:
        most = source.max_batches
        try:
            num, batches = source.take(done, min(most, num_steps - done), most)
        except StopIteration:
            warnings.warn(f"the data ended after {done} steps of {num_steps}", stacklevel=3)
            break
        carry, done = run(carry, batches, jnp.array([done, num])), done + num
    return carry[0]


@eqx.filter_jit
def _steps(
    key: Any,
    grad: Minibatch,
    carry: tuple,
    data: Data,
    span: Int[Array, "2"],
    rule: optax.GradientTransformation,
    size: Float[Array, ""],
    streamed: bool,
) -> tuple:
    """The steps of `span`; of a stream, `data` has a batch for each."""

    def one(i: Int[Array, ""], carry: tuple) -> tuple:
        x, state, before = carry
        batch = jax.tree.map(lambda x: x[i], data) if streamed else data
        count = span[0] + i
        keys = Keys(key, jax.random.fold_in(key, count), count)
        estimate, estate = grad.estimate(keys, before, x, batch)
        gradient = jax.tree.map(lambda g, x: (-g / size).astype(x.dtype), estimate.value, x)

        def value_fn(x: Position) -> Float[Array, ""]:  # of the same batch
            return -grad.estimate(keys, before, x, batch)[0].logdensity / size

        told = {"value": -estimate.logdensity / size, "grad": gradient, "value_fn": value_fn}
        updates, state = optax.with_extra_args_support(rule).update(gradient, state, x, **told)
        return optax.apply_updates(x, updates), state, estate

    return jax.lax.fori_loop(0, span[1], one, carry)
