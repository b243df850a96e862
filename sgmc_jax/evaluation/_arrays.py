"""Arrays as arguments, refused where their shape does not fit."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import _checks
from .._frames import dense
from ..arrays import as_indices, real_array
from ..bnp import Groups

_ROUNDING = 1e-2  # of sums of probabilities, in half precision


def floating(name: str, value: Any, *shape: str | int) -> Array:
    """The argument as a floating array of these lengths, a name being any length."""
    dense(name, value)
    _checks.number(name, value)
    _checks.shaped(name, value, *shape)
    return real_array(value)


def shares(name: str, value: Any, *shape: str | int) -> Array:
    """The argument as probabilities along its last axis, which may add up to less than 1."""
    value = floating(name, value, *shape)
    if _checks.is_concrete(value) and value.size:
        least, most = np.asarray(jnp.min(value)), np.asarray(jnp.max(jnp.sum(value, axis=-1)))
        if least < 0 or most > 1 + _ROUNDING:
            raise ValueError(
                f"{name} must be probabilities along the last axis, got numbers from {least:.3g} "
                f"on with sums up to {most:.3g}: logarithms and counts are none yet"
            )
    return value


def whole(name: str, value: Any, *shape: str | int) -> Array:
    """The argument as an array of whole numbers or truths, of these lengths."""
    value = _checks.on_host(name, value) if isinstance(value, list | tuple) else value
    _checks.shaped(name, value, *shape)
    _checks.arrays(name, value)
    dtype = jnp.result_type(value)
    if not (jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.bool_)):
        raise TypeError(f"{name} must be whole numbers, got {dtype}")
    return jnp.asarray(value)


def masses(name: str, value: Any, *shape: str | int) -> Array:
    """The argument as a floating array of concentrations, of which some may be 0."""
    value = floating(name, value, *shape)
    _checks.positive(name, value, zero=True)
    if _checks.certainly(lambda a: not np.any(a > 0), value):
        raise ValueError(f"{name} must be positive for some topic, got 0 for all {value.size}")
    return value


def sizes(name: str, value: Any, groups: int, width: int) -> Array:
    """The argument as the number of items of each group, of which there is room for `width`."""
    value = whole(name, value, groups)
    if _checks.certainly(lambda n: np.any((n < 0) | (n > width)), value):
        least, most = np.min(value), np.max(value)
        raise ValueError(f"{name} must be between 0 and {width}, got {least} to {most}")
    return value


def words(name: str, documents: Any, vocabulary: int) -> tuple[Array, Array]:
    """The words of documents, (G, L), and which of them are no padding."""
    if not isinstance(documents, Groups):
        raise TypeError(f"{name} must be Groups(items, size), got {type(documents).__name__}")
    items = whole(f"{name}.items", documents.items, "G", "L")
    size = sizes(f"{name}.size", documents.size, *items.shape)
    present = Groups(items, size).present
    if _checks.is_concrete(present) and _checks.is_concrete(items) and items.size:
        seen = np.asarray(items)[np.asarray(present)]
        if seen.size and not 0 <= seen.min() <= seen.max() < vocabulary:
            raise ValueError(
                f"{name} must have words 0 to {vocabulary - 1}, got {seen.min()} to {seen.max()}"
            )
    return jnp.where(present, as_indices(items, vocabulary), 0), present
