"""Refusing bad input, with messages that name the argument, what it got and what it wants."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Inexact, Int, PyTree, Real

from ._estimators import BatchEstimator, Estimator
from ._frames import dense, is_sparse
from ._functions import as_function
from ._returned import dtype_of, shortened

_WIDEST = 2**31  # integers of jax have 32 bits


def shown(value: Any) -> str:
    """A value in a message: on one line, and not too long."""
    is_array = isinstance(value, jax.Array | np.ndarray) and is_concrete(value)
    is_key = is_array and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return shortened(str(np.asarray(value)) if is_array and not is_key else repr(value))


def is_concrete(x: Any) -> bool:
    """Whether `x` has values to look at; inside a transformation it has none."""
    return not isinstance(x, jax.core.Tracer) and getattr(x, "is_fully_addressable", True)


def certainly(test: Callable[..., Any], *values: Any) -> bool:
    """Whether `test` is true somewhere, of numbers whose values are known.

    It is asked of numpy's arrays: jax's have no truth to tell while something else is traced.
    """
    known = all(map(is_concrete, values))
    with jax.ensure_compile_time_eval():  # of a test that is itself made of jax's functions
        return known and bool(np.any(test(*map(np.asarray, values))))


def number(name: str, value: Any) -> None:
    """Raise unless `value` is a real number, or an array of them."""
    if isinstance(value, list | tuple):
        for part in value:
            number(name, part)
        if len({np.shape(part) for part in value}) > 1:
            raise TypeError(f"{name} must have parts of one shape, got {shown(value)}")
        return
    dtype = getattr(value, "dtype", None)
    dtype = np.asarray(value).dtype if dtype is None else dtype
    if not any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer)):
        got = f"{dtype} of shape {np.shape(value)}" if np.ndim(value) else shown(value)
        raise TypeError(f"{name} must be a real number (or an array of them), got {got}")


def positive_pair(name: str, value: Any, parts: str, *, none: bool = True) -> Any:
    """A prior's two positive numbers, called `parts`; `None`, where allowed, for no prior."""
    if none and value is None:
        return None
    try:
        first, second = value
    except (TypeError, ValueError):
        wanted = "None or " * none + f"a pair {parts}"
        raise TypeError(f"{name} must be {wanted}, got {shown(value)}") from None
    pair = one_number(name, first), one_number(name, second)
    for part in (first, second, *pair):  # in their own precision, and in that which is kept
        positive(name, part)
    return pair


def one_number(name: str, value: Any) -> Float[Array, ""]:
    """A real number as an array; raise if it is none, or several."""
    value = as_real(value, name, wide=True)
    if value.ndim:
        raise ValueError(
            f"{name} must be one number, got shape {value.shape}; a stack of kernels is made by "
            "eqx.filter_vmap and run with kernel_axis=0"
        )
    return value


def as_real(x: Any, name: str = "a hyper-parameter", *, wide: bool = False) -> Float[Array, "..."]:
    """A strongly typed floating array, if `wide` of float32 at least: a weak or an integer leaf
    would retrace or promote."""
    number(name, x)
    x = jnp.asarray(unwrapped(x))
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.result_type(float)
    dtype = jnp.promote_types(dtype, jnp.float32) if wide else dtype
    return jax.lax.convert_element_type(x, jnp.dtype(dtype))


def unwrapped(x: Any) -> Any:
    """Whole numbers of the host that may be too long for int32 as floating ones."""
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        return float(x)
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "iu":
        return x
    narrowed = jax.dtypes.canonicalize_dtype(x.dtype) != x.dtype
    return x.astype(np.float64) if narrowed else x


def real(name: str, *, wide: bool = False) -> Callable[[Any], Float[Array, "..."]]:
    """`as_real` for a field of that name."""
    return partial(as_real, name=name, wide=wide)


def scalar(name: str) -> Callable[[Any], Float[Array, ""]]:
    """`one_number` for a field of that name."""
    return partial(one_number, name)


def real_tree(name: str, *, wide: bool = False) -> Callable[[PyTree], PyTree]:
    """`as_real` of every leaf, for a field of that name."""
    return lambda tree: jax.tree.map(real(name, wide=wide), tree)


def as_schedule(name: str, value: Any) -> Float[Array, ""] | Callable:
    """A number as an array leaf; a schedule, a function of the step index, as it is."""
    return as_function(value, name, ("step",)) if callable(value) else one_number(name, value)


def schedule(name: str) -> Callable[[Any], Float[Array, ""] | Callable]:
    """`as_schedule` for a field of that name."""
    return partial(as_schedule, name)


def scheduled(name: str, value: Any, count: Int[Array, ""] | int | None) -> Float[Array, ""]:
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
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}")


def whole(name: str, value: Any, minimum: int = 1, *, wide: bool = False) -> None:
    """Raise unless `value` is a whole number of at least `minimum`, of 32 bits if not `wide`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {shown(value)}")
    if value >= _WIDEST and not wide:
        raise ValueError(f"{name} must fit into 32 bits, got {value}")


def choice(name: str, value: Any, choices: Collection[str], otherwise: str = "") -> None:
    """Raise unless `value` is one of the texts; `otherwise` tells what else the caller takes."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {tuple(choices)}{otherwise}, got {shown(value)}")


def truth(name: str, value: Any) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")


def instance(name: str, kind: type, value: Any, *, none: bool = False) -> Any:
    """`value`; raise unless it is of a kind, or `None` where that is allowed."""
    if isinstance(value, kind) or (none and value is None):
        return value
    wanted = ("an " if kind.__name__[0] in "AEIO" else "a ") + kind.__name__
    raise TypeError(f"{name} must be {'None or ' * none}{wanted}, got {type(value).__name__}")


def of_kind(name: str, kind: type, *, none: bool = False) -> Callable[[Any], Any]:
    """`instance` for a field of that name."""
    return partial(instance, name, kind, none=none)


def numbers(name: str, value: Any) -> Float[Array, "..."]:
    """The argument as an array of float32 or wider; a TypeError that names it if it is none."""
    try:
        array = jnp.asarray(unwrapped(value))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be an array of numbers, got {shown(value)}") from None
    if not jnp.issubdtype(array.dtype, np.number) or jnp.iscomplexobj(array):
        raise TypeError(f"{name} must be real, got {array.dtype}")
    return array.astype(jnp.promote_types(jnp.result_type(array, float), jnp.float32))


def several(**named: Any) -> list[Real[Array, "..."]]:
    """Arguments as arrays of real numbers; a Python number stays without a precision of its own."""
    for name, value in named.items():
        numbers(name, value)
    return [jnp.asarray(unwrapped(x)) for x in named.values()]


def broadcasting(**named: Any) -> list[Real[Array, "..."]]:
    """`several` that broadcast against one another."""
    arrays = several(**named)
    fitting(**dict(zip(named, arrays, strict=True)))
    return arrays


def on_host(name: str, value: Any) -> np.ndarray:
    """The argument as an array of NumPy; a TypeError that names it if it is none."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got {shown(value)}") from None


def doubles(name: str, value: Any) -> np.ndarray:
    """`on_host` of real numbers, in double precision."""
    array = on_host(name, value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of real numbers, got {array.dtype}")
    return array.astype(np.float64)


def fitting(**named: Any) -> None:
    """Raise unless the arrays broadcast against one another."""
    shapes = [jnp.shape(value) for value in named.values()]
    try:
        jnp.broadcast_shapes(*shapes)
    except ValueError:
        names, got = " and ".join(named), ", ".join(map(str, shapes))
        raise ValueError(f"{names} must broadcast, got shapes {got}") from None


def within(name: str, value: Any, leaf: Any) -> None:
    """Raise unless an array broadcasts to the shape of a leaf of the position."""
    own, whole = jnp.shape(value), jnp.shape(leaf)
    if len(own) > len(whole) or any(a not in (1, b) for a, b in zip(own[::-1], whole[::-1])):
        raise ValueError(f"{name} must broadcast to its leaf, of shape {whole}, got shape {own}")


def shaped(name: str, value: Any, *shape: str | int) -> None:
    """Raise unless the array has these lengths, a name being any length, and no other axes."""
    try:
        got = np.shape(value)
    except ValueError:
        raise ValueError(f"{name} must be one array, got {shown(value)}") from None
    same = [a == b for a, b in zip(got, shape) if not isinstance(b, str)]
    if len(got) != len(shape) or not all(same):
        wanted = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        raise ValueError(f"{name} must have the shape ({wanted}), got {got}")


def random_key(value: Any) -> None:
    """Raise unless `value` is one JAX key, typed or raw."""
    dtype, ndim = getattr(value, "dtype", None), getattr(value, "ndim", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (ndim == 0 if typed else dtype == jnp.uint32 and ndim == 1):
        got = type(value).__name__ if dtype is None else f"{dtype} of shape {value.shape}"
        raise TypeError(f"key must be one JAX key, such as jax.random.key(0), got {got}")


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
    """Raise unless every leaf of the position is a floating array, and there is one."""
    if not sum(map(np.size, jax.tree.leaves(position))):
        raise ValueError(f"position must have at least one number, got {shown(position)}")
    floating("position", position, " for a gradient kernel")


def floating(name: str, tree: PyTree, purpose: str = "") -> None:
    """Raise unless every leaf is a floating array."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        dtype = dtype_of(leaf)
        if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
            where, got = jax.tree_util.keystr(path), shown(leaf) if dtype is None else dtype
            raise TypeError(f"{name}{where} must be floating{purpose}, got {got}")


def arrays(name: str, tree: PyTree, hint: str = "") -> None:
    """Raise unless every leaf is an array of numbers, or a number."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_sparse):
        where = f"{name}{jax.tree_util.keystr(path)}"
        dense(where, leaf)
        value = np.asarray(() if isinstance(leaf, jax.Array) else leaf)  # JAX has no others
        if value.dtype.kind in "OSUMm":
            raise TypeError(f"{where} must be an array of numbers, got {type(leaf).__name__}{hint}")
        kept = jax.dtypes.canonicalize_dtype(value.dtype)  # 32 bits of 64
        if value.dtype.kind in "iu" and value.dtype != kept and value.size:
            if not np.iinfo(kept).min <= value.min() <= value.max() <= np.iinfo(kept).max:
                raise ValueError(f"{where} must fit into 32 bits, got {shown(leaf)}")


def finite(name: str, tree: PyTree) -> None:
    """Raise if a concrete floating leaf holds a NaN or an infinity."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not is_concrete(leaf) or not jnp.issubdtype(jnp.result_type(leaf), jnp.inexact):
            continue
        with jax.ensure_compile_time_eval():  # of what is known while something else is traced
            known = bool(_all_finite(leaf))
        if not known:
            where = jax.tree_util.keystr(path)
            raise ValueError(f"{name}{where} must be finite, got NaN or infinity")


@jax.jit
def _all_finite(x: Inexact[Array, "..."]) -> Bool[Array, ""]:
    return jnp.all(jnp.isfinite(x))  # compiled, so that no array of truths as large as x is made


def some_items(num_items: int | None) -> None:
    """Raise if there is data, but no item in it."""
    if num_items == 0:
        raise ValueError("data must have at least one item, got leading axes of length 0")


def slack(x: Any) -> float:
    """How far a space's own points may be off it: 1e-3, or a few roundings of a coarser dtype."""
    return max(1e-3, 4 * float(jnp.finfo(jnp.result_type(x, 0.0)).eps))


def probabilities(where: str, x: Any, tolerance: float | None = None) -> None:
    """Raise unless concrete numbers are positive and sum to one along their last axis."""
    value = np.asarray(x, np.float64)
    if value.ndim == 0:
        raise ValueError(f"{where} must be a vector to lie on a simplex, got a scalar")
    error = np.max(np.abs(np.sum(value, axis=-1) - 1), initial=0.0)
    if error > (tolerance or slack(x)) or np.min(value, initial=1.0) <= 0:
        raise ValueError(
            f"{where} must be positive and sum to one along its last axis, got a least entry of "
            f"{np.min(value):.2g} and a sum off by {error:.2g}"
        )
