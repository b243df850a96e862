"""Functions of users: what they take is checked, and numbers bound to them are leaves."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def as_function(
    function: Callable, name: str = "this argument", arguments: tuple[str, ...] | None = None
) -> Callable:
    """A callable that is a pytree: bound numbers are leaves, the function itself is static.

    Raise unless it is a function, which takes `arguments` where these are told.
    """
    must_take(function, name, arguments)
    if isinstance(function, eqx.Module | jax.tree_util.Partial):
        return cast(Callable, function)
    if not isinstance(function, partial):  # whatever attributes it has
        return jax.tree_util.Partial(function)
    args, keywords = jax.tree.map(_as_leaf, (function.args, function.keywords))
    return jax.tree_util.Partial(function.func, *args, **keywords)


def function_of(name: str, *arguments: str) -> Callable[[Callable], Callable]:
    """`as_function` for a field of that name, a function of these arguments."""
    return partial(as_function, name=name, arguments=arguments)


def as_optional(function: Callable | None, *told: Any) -> Callable | None:
    """`as_function`, or `None` as it is."""
    return None if function is None else as_function(function, *told)


def must_take(function: Callable, name: str, arguments: tuple[str, ...] | None) -> None:
    """Raise unless it is a function that can be called with these arguments, as far as is known."""
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    if arguments is None:
        return
    try:
        signature = inspect.signature(function)
    except ValueError:  # of some that are written in C
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise TypeError(
            f"{name} must be a function of ({', '.join(arguments)}), got one of {signature}"
        ) from None


def _as_leaf(x: Any) -> Any:
    """A number as a strongly typed array, which is an argument of a program and no part of it."""
    if not isinstance(x, float | np.ndarray | np.generic | jax.Array):
        return x
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return x
    return jax.lax.convert_element_type(x, jnp.dtype(x.dtype))


def with_keys(function: Callable, *args: Any) -> Any:
    """What `function` returns of a first argument `Keys`, which it may have taken for a key."""
    try:
        return function(*args)
    except TypeError as error:
        if not mistook_keys(error):
            raise
        frames = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        owner = [x for x in frames if isinstance(x, eqx.Module)][-1:]
        name = type(owner[0]).__name__ if owner else "this function"
        raise TypeError(
            f"{name} takes its key for a JAX key, but it is Keys(noise, batch, count): draw "
            "with as_keys(key).noise, and a batcher with as_keys(key).batch"
        ) from error


def mistook_keys(error: TypeError) -> bool:
    """Whether it is JAX's, of `Keys` where it wants a key."""
    return "PRNG key" in str(error) and "Keys" in str(error)
