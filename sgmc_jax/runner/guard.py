"""Failure is a value: a chain that leaves the finite numbers stays where it last was."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import _tree
from .._functions import with_keys
from .._types import Data, Kernel, Keys, Ungated
from ..run import RunInfo


def guarded_step(
    kernel: Kernel, keys: Keys, state: Any, stopped: Array, data: Data
) -> tuple[Any, Array, RunInfo]:
    """One step of a chain that stays for ever at its last finite state once it leaves it."""
    result = with_keys(kernel.step, keys, state, data)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"step must return a pair (state, info), got {type(result).__name__}")
    moved, info = result
    _same_avals(state, moved)
    info = _tree.strong(info)
    finite = kernel.finite(moved)
    stopped = jnp.where((stopped < 0) & ~finite, keys.count, stopped)
    going = stopped < 0
    return _gate(going, moved, state), stopped, RunInfo(going, info)


def _gate(going: Array, moved: Any, state: Any) -> Any:
    """`moved` where the chain goes on, else `state`; what is `Ungated` is taken as moved."""

    def part(moved: Any, state: Any) -> Any:
        return moved if isinstance(moved, Ungated) else jnp.where(going, moved, state)

    return jax.tree.map(part, moved, state, is_leaf=lambda x: isinstance(x, Ungated))


def _same_avals(before: Any, after: Any) -> None:
    """Raise unless a step returns a state of the structure, shapes and dtypes it was given."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise TypeError(
            "step must return a state of the structure that init returns, got "
            f"{jax.tree.structure(after)} for {jax.tree.structure(before)}"
        )
    pairs = zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True)
    for (path, x), y in pairs:
        if jnp.shape(x) != jnp.shape(y) or jnp.result_type(x) != jnp.result_type(y):
            raise TypeError(
                f"step must keep the shape and dtype of state{jax.tree_util.keystr(path)}, got "
                f"{jnp.result_type(y)}{jnp.shape(y)} for {jnp.result_type(x)}{jnp.shape(x)}"
            )
