"""Sums over all items of data that come in batches, and the mode that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from .. import _checks, _tree
from .._estimators import BatchEstimator, Estimate
from .._types import Data, Position
from ..batching import Given
from ..collective import Shard, leading_axis
from ..gradients import Minibatch
from ..model import Model
from ..runner.passes import passes_of
from ..runner.stream import as_batch, check_like, of_one_item, padded
from .curvature import ENOUGH

_TRIALS = 12  # of a step's length
_SHORTEST = 1e-3  # of the one before
_ALIKE = 1e-6  # of two sums over many items in single precision


def full_pass(grad: BatchEstimator, centre: Position, data: Data) -> Estimate:
    """The exact sum over all items at a position, of data in batches: `grad.full` in one pass.

    Every item weighs 1, whatever the size of its batch. Batches are read one at a time and padded
    to the longest so far, so that a shorter last one compiles nothing; their sums add up in double
    precision.

    Args:
        grad: the estimator, e.g. `Minibatch(model, Given(total))`.
        centre: where the sum is evaluated, e.g. the mode.
        data: the batches of one pass: an iterator, or what gives one for each pass, a function
            without arguments or a loader; or all of the data as arrays.

    Returns:
        the sum, the `anchor` of a `ControlVariate` around `centre`.

    Raises:
        TypeError: if the data has no passes, as a function of the step has none.
        ValueError: if the pass has more or fewer items than the `total` of `Given`.
        FloatingPointError: if the sum is not finite.

    Example: a control variate of batches, of which the last is shorter.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import ControlVariate, FunctionModel, Given, Minibatch, sample, sgld
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> data = jnp.arange(10.0)
        >>> loader = lambda: (data[i : i + 4] for i in range(0, 10, 4))
        >>> grad = Minibatch(model, Given(total=10))
        >>> anchor = full_pass(grad, jnp.array(4.0), loader)
        >>> float(anchor.value)
        5.0
        >>> kernel = sgld(ControlVariate(grad, jnp.array(4.0), anchor=anchor), 1e-2)
        >>> run = sample(jax.random.key(0), kernel, jnp.array(4.0), loader, num_steps=7)
        >>> run.trace.shape
        (7,)

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC,
        section 2.2, for what the sum is for.
    """
    _checks.batch_estimator("grad", grad, "full_pass")
    _checks.arrays("centre", centre)
    _checks.real_position(centre)
    centre, passes = _tree.strong(centre), passes_of(data)
    if passes is None and callable(data):
        raise TypeError(
            "data must be batches of one pass, or give an iterator of them as a function without "
            "arguments, got a function of the step, which has no end"
        )
    resident = passes is None and not isinstance(data, Iterator)
    batches = data if isinstance(data, Iterator) else [data] if passes is None else passes()
    total, num_items = sum_of_pass(grad, centre, batches, resident=resident)
    is_given = lambda x: isinstance(x, Given)
    for given in filter(is_given, jax.tree.leaves(grad, is_leaf=is_given)):
        if given.total != num_items:
            raise ValueError(
                f"total must be the number of items of a pass, got {given.total} for {num_items}"
            )
    if not _tree.all_finite(total):
        raise FloatingPointError("the sum over the data is not finite at this centre")
    return _rounded(grad, centre, total)


def _rounded(grad: BatchEstimator, position: Position, total: Estimate) -> Estimate:
    form = jax.eval_shape(grad.prior, position)
    whole = lambda like: not jnp.issubdtype(like.dtype, jnp.inexact)  # as a prior may be
    real = lambda like: jnp.result_type(float) if whole(like) else like.dtype
    return jax.tree.map(lambda x, like: jnp.asarray(x, real(like)), total, form)


def exact_of_passes(
    grad: BatchEstimator, passes: Callable[[], Iterator], position: Position
) -> Estimate:
    """The gradient from all of the data, and the log posterior, in one pass."""
    total, _ = sum_of_pass(grad, position, passes())
    return optax.tree.add(grad.prior(position), _rounded(grad, position, total))


class Sample(NamedTuple):
    """Items drawn from a pass, how many it has, and the harmonic mean of its batches' sizes."""

    items: PyTree
    size: int
    batch_size: float


def sample_of_pass(key: Any, passes: Callable[[], Iterator], number: int = ENOUGH) -> Sample:
    """A uniform sample without replacement of `number` items, or all if they are fewer.

    Each item has a random number, and those of the least numbers so far are held.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    places, sizes, held, item, tree = np.full(number, np.inf), [], [], [], None
    for index, batch in enumerate(map(as_batch, passes())):
        rows = [np.asarray(x) for x in jax.tree.leaves(batch)]
        if index == 0:
            _checks.arrays("data", batch)
            item, tree = of_one_item(batch), jax.tree.structure(batch)
            held = [np.empty((number, *x.shape[1:]), x.dtype) for x in rows]
        check_like(batch, item, index)
        sizes.append(leading_axis(batch))
        drawn = rng.random(sizes[-1])
        least = np.argpartition(np.append(places, drawn), number - 1)[:number]
        new = least[least >= number] - number
        free = np.setdiff1d(np.arange(number), least)
        places[free] = drawn[new]
        for kept, x in zip(held, rows):
            kept[free] = x[new]
    if tree is None:
        raise ValueError("data must have batches, got a pass without any")
    some, each = places < np.inf, np.asarray(sizes)
    items = jax.tree.unflatten(tree, [x[some] for x in held])
    return Sample(items, int(each.sum()), float(len(each) / np.sum(1 / each)))


def passes_to_tune(model: Model, data: Data) -> Callable[[], Iterator] | None:
    """The passes over streamed data, or `None` if the data are arrays.

    Raises:
        TypeError: if the model is none, or the data are streamed and have no passes, or are a
            series.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    passes = passes_of(data)
    if passes is not None and model.of_series:
        raise TypeError(f"data must be arrays for {type(model).__name__}, whose rows have an order")
    if passes is None and (callable(data) or isinstance(data, Iterator)):
        raise TypeError(
            "data must be arrays, or give an iterator of batches for each pass, as a function "
            f"without arguments or a loader, got {type(data).__name__}"
        )
    return passes


def sum_of_pass(
    grad: BatchEstimator, position: Position, batches: Iterable, *, resident: bool = False
) -> tuple[Estimate, int]:
    """The sum over all items of the batches, in double precision, and how many items they are.

    If `resident`, the one batch is all of the data, a series perhaps, which no part is.
    """
    total, item, num_items, num_rows = None, [], 0, 0
    for index, batch in enumerate(map(as_batch, batches)):
        if index == 0:
            _checks.arrays("data", batch)
            grad.check(position, batch)
            item = of_one_item(batch)
        check_like(batch, item, index)
        size = leading_axis(batch)
        num_items, num_rows = num_items + size, max(num_rows, size)
        items = jax.tree.map(partial(padded, num_rows=num_rows), batch)
        given = items if resident else Shard(items, size, 0, size)
        part = _full(grad, position, jax.tree.map(jnp.asarray, given))
        part = jax.tree.map(lambda x: np.asarray(x, np.float64), part)
        total = part if total is None else jax.tree.map(np.add, total, part)
    if total is None:
        raise ValueError("data must have batches, got a pass without any")
    return total, num_items


@eqx.filter_jit
def _full(grad: BatchEstimator, position: Position, data: Data) -> Estimate:
    return grad.full(position, data)


def mode_of_passes(
    grad: Minibatch,
    position: Position,
    passes: Callable[[], Iterator],
    num_steps: int,
    tolerance: Any,
) -> Position:
    """The mode by L-BFGS, an evaluation of which is a pass over the batches."""
    solver = optax.scale_by_lbfgs()
    evaluate = partial(_loss, grad, passes)
    update = jax.jit(solver.update)
    x, state, (value, gradient) = position, solver.init(position), evaluate(position)
    for _ in range(num_steps):
        if _dot(gradient, gradient) ** 0.5 <= tolerance:
            break
        step, state = update(gradient, state, x)
        if not _dot(step, gradient) > 0:  # not downhill: forget what is known of curves
            step, state = update(gradient, solver.init(x), x)
        moved = _line_search(evaluate, x, step, value, gradient)
        if moved is None:  # as near as the precision lets it
            break
        x, value, gradient = moved
    sound = np.isfinite(value) and _tree.all_finite(gradient)
    return x if sound else optax.tree.full_like(x, np.nan)


def _loss(
    grad: Minibatch, passes: Callable[[], Iterator], position: Position
) -> tuple[float, Position]:
    """Minus the log posterior divided by the number of items, and its gradient."""
    items, size = sum_of_pass(grad, position, passes())
    add = lambda x, y: -(np.asarray(x, np.float64) + y) / size
    both = jax.tree.map(add, grad.prior(position), items)
    gradient = jax.tree.map(lambda g, x: jnp.asarray(g, x.dtype), both.value, position)
    return float(both.logdensity), gradient


def _line_search(
    evaluate: Callable, x: Position, step: Position, value: float, gradient: Position
) -> tuple[Position, float, Position] | None:
    """The first of x - t step, t = 1, ..., that is low enough, with its loss and gradient.

    Each t is where the parabola through the last one is least, at most half and at least a
    thousandth of it. Where two losses are alike in single precision, the slopes tell (Hager and
    Zhang, 2005).
    """
    slope, rate = _dot(step, gradient), 1.0
    for _ in range(_TRIALS):
        there = _tree.axpy(-rate, step, x)
        new, turned = evaluate(there)
        alike = abs(new - value) <= _ALIKE * abs(value)
        level = alike and abs(_dot(step, turned)) < 0.9 * slope
        if new <= value - 1e-4 * rate * slope or level:
            return there, new, turned
        least = slope * rate**2 / (2 * (new - value + slope * rate))
        shortest, longest = _SHORTEST * rate, rate / 2
        rate = min(max(least, shortest), longest) if np.isfinite(new) else 0.1 * rate
    return None


def _dot(x: Position, y: Position) -> float:
    return float(np.asarray(optax.tree.vdot(x, y)))
