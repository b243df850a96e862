"""Several steps as one."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .. import _checks
from .._types import Data, Kernel, Key, Position, as_keys
from ._common import require_kernel


class Repeat(Kernel):
    """See `repeat` and `thin`."""

    kernel: Kernel
    num_steps: int = eqx.field(static=True)
    merge: bool = eqx.field(static=True)

    def init(self, key: Key, position: Position, data: Data) -> Any:
        return self.kernel.init(key, position, data)

    def step(self, key: Key, state: Any, data: Data) -> tuple[Any, Any]:
        keys, n = as_keys(key), self.num_steps

        def one(state: Any, i: Array) -> tuple[Any, Any]:
            count = None if keys.count is None else keys.count * n + i
            return self.kernel.step(keys.fold(i)._replace(count=count), state, data)

        state, infos = jax.lax.scan(one, state, jnp.arange(n))
        return state, merge_infos(infos) if self.merge else infos

    def refresh(self, key: Key, state: Any, data: Data) -> Any:
        return self.kernel.refresh(key, state, data)

    def check(self, position: Position, data: Data) -> None:
        self.kernel.check(position, data)


def merge_infos(infos: PyTree) -> PyTree:
    """The infos of several steps as one: numbers averaged, truths all true, integers the last."""

    def leaf(x: Array) -> Array:
        if x.dtype == bool:
            return jnp.all(x, axis=0)
        return jnp.mean(x, axis=0) if jnp.issubdtype(x.dtype, jnp.inexact) else x[-1]

    return jax.tree.map(leaf, infos)


def repeat(kernel: Kernel, num_steps: int) -> Repeat:
    """`num_steps` steps of a kernel as one step, whose info stacks theirs.

    Args:
        kernel: any kernel.
        num_steps: how many of its steps make one.

    Example:
        >>> import jax
        >>> from sgmc_jax import draw
        >>> kernel = repeat(draw(lambda key, data: jax.random.normal(key)), 3)
        >>> state = kernel.init(jax.random.key(0), jax.numpy.zeros(()), None)
        >>> state, infos = kernel.step(jax.random.key(1), state, None)
    """
    require_kernel(kernel)
    _checks.whole("num_steps", num_steps)
    return Repeat(kernel, num_steps, False)


def thin(kernel: Kernel, num_steps: int) -> Repeat:
    """`num_steps` steps of a kernel as one step, whose info averages theirs.

    Truths are true if all are, integers are the last step's.

    Args:
        kernel: any kernel.
        num_steps: how many of its steps make one.

    Example:
        >>> import jax
        >>> from sgmc_jax import draw
        >>> kernel = thin(draw(lambda key, data: jax.random.normal(key)), 3)
        >>> state = kernel.init(jax.random.key(0), jax.numpy.zeros(()), None)
        >>> state, info = kernel.step(jax.random.key(1), state, None)
    """
    require_kernel(kernel)
    _checks.whole("num_steps", num_steps)
    return Repeat(kernel, num_steps, True)
