"""What several combinators need."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _returned
from .._types import Kernel, Position


def with_position(state: Any, position: Position) -> Any:
    """`state` moved to `position`, its caches untouched."""
    if hasattr(state, "_replace"):
        return state._replace(position=position)
    return eqx.tree_at(lambda state: state.position, state, position)


def alike(one: Position, other: Position) -> bool:
    """Whether two positions have the same structure, shapes and dtypes."""
    dtypes = [[jnp.result_type(x) for x in jax.tree.leaves(each)] for each in (one, other)]
    return _returned.same_form(one, other) and dtypes[0] == dtypes[1]


def mean_weight(weights: Iterable[Float[Array, "..."] | None]) -> Float[Array, "..."] | None:
    """What a step of several kernels counts for: the mean of what they tell, if any does; nothing
    if one of them moved its part as in a search."""
    told = [weight for weight in weights if weight is not None]
    if not told:
        return None
    return jnp.where(reduce(jnp.minimum, told) > 0, sum(told[1:], told[0]) / len(told), 0.0)


def require_kernel(kernel: Any) -> None:
    """Raise unless it is a `Kernel`.

    Example:
        >>> require_kernel(lambda key: None)
        Traceback (most recent call last):
        ...
        TypeError: kernel must be a Kernel, got function; ...
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"kernel must be a Kernel, got {type(kernel).__name__}; "
            "Kernel.from_functions(init, step) makes one of two functions"
        )
