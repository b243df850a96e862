"""Refusing bad input, with messages that name the argument, what it got and what it wants."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ._types import BatchEstimator, Estimator, as_function


def is_concrete(x: Any) -> bool:
    """Whether `x` has values to look at; inside a transformation it has none."""
    return not isinstance(x, jax.core.Tracer) and getattr(x, "is_fully_addressable", True)


def certainly(test: Callable[..., Any], *values: Any) -> bool:
    """Whether `test` is true somewhere, of numbers whose values are known.

    It is asked of numpy's arrays: jax's have no truth to tell while something else is traced.
    """
    return all(map(is_concrete, values)) and bool(np.any(test(*map(np.asarray, values))))


def number(name: str, value: Any) -> None:
    """Raise unless `value` is a real number, or an array of them."""
    if isinstance(value, list | tuple):
        for part in value:
            number(name, part)
        if len({np.shape(part) for part in value}) > 1:
            raise TypeError(f"{name} must have parts of one shape, got {value!r}")
        return
    dtype = getattr(value, "dtype", None)
    dtype = np.asarray(value).dtype if dtype is None else dtype
    if not any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer)):
        got = f"{dtype} of shape {np.shape(value)}" if np.ndim(value) else repr(value)
        raise TypeError(f"{name} must be a real number (or an array of them), got {got}")


def positive_pair(name: str, value: Any, parts: str) -> tuple[Array, Array] | None:
    """A prior's two positive numbers, called `parts`; `None` for no prior."""
    if value is None:
        return None
    try:
        first, second = value
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be None or a pair {parts}, got {value!r}") from None
    for part in (first, second):
        positive(name, part)
    return as_real(first, name), as_real(second, name)


def one_number(name: str, value: Any) -> Array:
    """A real number as an array; raise if it is none, or several."""
    value = as_real(value, name)
    if value.ndim:
        raise ValueError(
            f"{name} must be one number, got shape {value.shape}; a stack of kernels is made by "
            "eqx.filter_vmap and run with kernel_axis=0"
        )
    return value


def as_real(x: Any, name: str = "a hyper-parameter") -> Array:
    """A strongly typed floating array: a weak or an integer leaf would retrace or promote."""
    number(name, x)
    x = jnp.asarray(x)
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.result_type(float)
    return jax.lax.convert_element_type(x, jnp.dtype(dtype))


def real(name: str) -> Callable[[Any], Array]:
    """`as_real` for a field of that name."""
    return partial(as_real, name=name)


def real_tree(name: str) -> Callable[[PyTree], PyTree]:
    """The same for a field that is a pytree."""
    return lambda tree: jax.tree.map(real(name), tree)


def as_schedule(name: str, value: Any) -> Array | Callable:
    """A number as an array leaf; a schedule, a function of the step index, as it is."""
    return as_function(value, name) if callable(value) else as_real(value, name)


def schedule(name: str) -> Callable[[Any], Array | Callable]:
    """`as_schedule` for a field of that name."""
    return partial(as_schedule, name)


def scheduled(name: str, value: Any, count: Array) -> Array:
    """What a schedule, or a number, is at a step: one number, or it would be one a coordinate."""
    if callable(value):
        return one_number(f"{name}(count)", value(count))
    return one_number(name, value)


def positive(name: str, value: Any, *, zero: bool = False) -> None:
    """Raise unless `value` is positive (or zero, where allowed) and finite."""
    if callable(value) or not is_concrete(value):
        return
    number(name, value)
    array = np.asarray(value)
    if not (np.all(array >= 0 if zero else array > 0) and np.all(np.isfinite(array))):
        wanted = "finite and not negative" if zero else "finite and positive"
        raise ValueError(f"{name} must be {wanted}, got {value}")


def whole(name: str, value: Any, minimum: int = 1) -> None:
    """Raise unless `value` is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")


def estimator(name: str, value: Any) -> None:
    """Raise unless `value` is an estimator."""
    if not isinstance(value, Estimator):
        raise TypeError(
            f"{name} must be an estimator such as Minibatch(model, Uniform(100)), "
            f"got {type(value).__name__}"
        )


def batch_estimator(name: str, value: Any, wrapper: str) -> None:
    """Raise unless `value` is an estimator that the wrapper of that name can ask for batches."""
    estimator(name, value)
    if not isinstance(value, BatchEstimator):
        kind = type(value).__name__
        raise TypeError(
            f"{name} must be an estimator of batches (a BatchEstimator) such as Minibatch(model, "
            f"Uniform(100)), got {kind}: {wrapper} evaluates its batches; put {kind} outside of it"
        )


def real_position(position: PyTree) -> None:
    """Raise unless every leaf of the position is a floating array."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(position):
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            where = jax.tree_util.keystr(path)
            raise TypeError(f"position{where} must be floating for a gradient kernel, got {dtype}")


def arrays(name: str, tree: PyTree) -> None:
    """Raise unless every leaf is an array of numbers, or a number."""
    is_sparse = lambda x: hasattr(x, "todense")
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_sparse):
        where = f"{name}{jax.tree_util.keystr(path)}"
        if is_sparse(leaf):
            raise TypeError(
                f"{where} must be an array of numbers, got the sparse {type(leaf).__name__}: "
                "make it dense by its method toarray or todense"
            )
        if not isinstance(leaf, jax.Array) and np.asarray(leaf).dtype.kind in "OSUMm":
            raise TypeError(f"{where} must be an array of numbers, got {type(leaf).__name__}")


def finite(name: str, tree: PyTree) -> None:
    """Raise if a concrete floating leaf holds a NaN or an infinity."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not is_concrete(leaf) or not jnp.issubdtype(jnp.result_type(leaf), jnp.inexact):
            continue
        if not bool(_all_finite(leaf)):
            where = jax.tree_util.keystr(path)
            raise ValueError(f"{name}{where} must be finite, got NaN or infinity")


@jax.jit
def _all_finite(x: Array) -> Array:
    return jnp.all(jnp.isfinite(x))  # compiled, so that no array of truths as large as x is made


def some_items(num_items: int | None) -> None:
    """Raise if there is data, but no item in it."""
    if num_items == 0:
        raise ValueError("data must have at least one item, got leading axes of length 0")


def with_keys(function: Callable, *args: Any) -> Any:
    """What `function` returns of a first argument `Keys`, which it may have taken for a key."""
    try:
        return function(*args)
    except TypeError as error:
        if "PRNG key" not in str(error) or "Keys" not in str(error):
            raise
        frames = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        owner = [x for x in frames if isinstance(x, eqx.Module)][-1:]
        name = type(owner[0]).__name__ if owner else "this function"
        raise TypeError(
            f"{name} takes its key for a JAX key, but it is Keys(noise, batch, count): draw "
            "with as_keys(key).noise, and a batcher with as_keys(key).batch"
        ) from error


def probabilities(where: str, x: Any, tolerance: float) -> None:
    """Raise unless concrete numbers are positive and sum to one along their last axis."""
    value = np.asarray(x, np.float64)
    if value.ndim == 0:
        raise ValueError(f"{where} must be a vector to lie on a simplex, got a scalar")
    error = np.max(np.abs(np.sum(value, axis=-1) - 1), initial=0.0)
    if error > tolerance or np.min(value, initial=1.0) <= 0:
        raise ValueError(
            f"{where} must be positive and sum to one along its last axis, got a least entry of "
            f"{np.min(value):.2g} and a sum off by {error:.2g}"
        )
