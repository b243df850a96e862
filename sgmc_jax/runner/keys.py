"""The keys of a run: one for each chain and step, so that no chunk, chain or stop changes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import _checks
from .._types import Keys


class Roots(NamedTuple):
    """The raw keys that a run's random numbers descend from."""

    init: Array | np.ndarray
    noise: Array | np.ndarray
    batch: Array | np.ndarray


def roots_of(key: Any) -> tuple[Roots, str]:
    """The root keys of a run, raw, and the name of their generator."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    raw = jax.random.key_data(jax.random.split(key, 3))
    if _checks.is_concrete(raw):
        raw = np.asarray(raw)  # to take rows of a device's array is a program of its own
    return Roots(*raw), str(jax.random.key_impl(key))


def root(raw: Any, chain: Any, impl: str) -> Any:
    """The key of one chain."""
    return jax.random.fold_in(jax.random.wrap_key_data(raw, impl=impl), chain)


def step_keys(noise: Any, batch: Any, counts: Array) -> Keys:
    """The keys of several steps of one chain, by their index: any chunk gives the same."""
    counts = counts.astype(jnp.int32)  # `arange` is int64 under x64
    fold = jax.vmap(jax.random.fold_in, (None, 0))
    return Keys(fold(noise, counts), fold(batch, counts), counts)


def must_be_index(name: str, value: Any) -> None:
    """Raise unless it is a whole number of at least 0, which may be traced."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.integer) and not value.ndim:
        if not _checks.is_concrete(value):
            return
        value = int(value)
    _checks.whole(name, value, 0)


def require_key_data(state: PyTree) -> None:
    """Raise if a state that comes to the host holds keys of JAX, which are no arrays there."""
    leaves = [x for x in jax.tree.leaves(state) if hasattr(x, "dtype")]
    if any(jnp.issubdtype(x.dtype, jax.dtypes.prng_key) for x in leaves):
        raise TypeError(
            "state must hold no keys where an engine, a checkpoint or a run that goes on takes it: "
            "keep jax.random.key_data(key) in it, and jax.random.wrap_key_data that in the step"
        )
