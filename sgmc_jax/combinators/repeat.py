"""Several steps as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .. import _checks
from .._types import Data, Kernel, Key, Keys, Position, as_keys
from ..contract import Contract, merge_infos, times
from ._common import require_kernel


class Repeat(Kernel):
    """See `repeat` and `thin`."""

    kernel: Kernel
    num_steps: int = eqx.field(static=True)
    merge: bool = eqx.field(static=True)

    def init(self, key: Key, position: Position, data: Data) -> Any:
        return self.kernel.init(self._inner(key), position, data)

    def step(self, key: Key, state: Any, data: Data) -> tuple[Any, Any]:
        keys, n = as_keys(key), self.num_steps

        def one(state: Any, i: Int[Array, ""]) -> tuple[Any, Any]:
            count = None if keys.count is None else keys.count * n + i
            return self.kernel.step(keys.fold(i)._replace(count=count), state, data)

        state, infos = jax.lax.scan(one, state, jnp.arange(n, dtype=jnp.int32))
        return state, merge_infos(infos) if self.merge else infos

    def starter(self, data: Data) -> Callable[[Any], Position] | None:
        return self.kernel.starter(data)

    def refresh(self, key: Key, state: Any, data: Data) -> Any:
        return self.kernel.refresh(self._inner(key), state, data)

    def retarget(self, key: Key, state: Any, data: Data) -> Any:
        return self.kernel.retarget(self._inner(key), state, data)

    def _inner(self, key: Key) -> Keys:
        """The key, with the index of the next inner step."""
        keys = as_keys(key)
        return keys if keys.count is None else keys._replace(count=keys.count * self.num_steps)

    def made_with(self) -> Any:
        return self.kernel.made_with()

    def resize(self, capacity: int) -> Repeat:
        return replace(self, kernel=self.kernel.resize(capacity))

    def grow(self, state: Any, capacity: int) -> tuple[Repeat, Any]:
        kernel, state = self.kernel.grow(state, capacity)
        return replace(self, kernel=kernel), state

    def contract(self, position: Position) -> Contract:
        contract = self.kernel.contract(position)
        moves, cost = self.num_steps * contract.moves, times(self.num_steps, contract.cost)
        return contract._replace(moves=moves, cost=cost)

    def finite(self, state: Any) -> Bool[Array, ""]:
        return self.kernel.finite(state)

    def weight(self, info: Any, state: Any) -> Float[Array, "..."] | None:
        # of a stack of steps, unless they are merged: the last axis, steps around it coming first
        weight = self.kernel.weight(info, state)
        if self.merge or weight is None or jnp.ndim(weight) == 0:  # one number is that of each
            return weight
        # the position is the last one's: where that weighs nothing, what came before does not count
        return jnp.where(weight[..., -1] > 0, jnp.mean(weight, axis=-1), 0.0)

    def check(self, position: Position, data: Data) -> None:
        self.kernel.check(position, data)


def repeat(kernel: Kernel, num_steps: int) -> Repeat:
    """`num_steps` steps of a kernel as one step, whose info stacks theirs.

    Go on from a run of it with the same number: a step's index is that of the outer step times it,
    and schedules would be elsewhere.

    Args:
        kernel: any kernel.
        num_steps: how many of its steps make one. Of a stream all of them are given one batch.

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

    Truths are true if all are, integers are the last step's; a `SlotInfo` overflows if any does.
    Go on from a run of it with the same number, as of `repeat`.

    Args:
        kernel: any kernel.
        num_steps: how many of its steps make one. Of a stream all of them are given one batch.

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
