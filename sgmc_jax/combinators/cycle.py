"""Kernels on one position, in turn."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._types import Data, Kernel, Key, Position, as_keys
from ._common import require_kernel, with_position


class CycleState(NamedTuple):
    """The position and each kernel's own state."""

    position: Position
    states: tuple[Any, ...]


class Cycle(Kernel):
    """See `cycle`."""

    kernels: tuple[Kernel, ...]

    def init(self, key: Key, position: Position, data: Data) -> CycleState:
        keys = as_keys(key)
        states = tuple(
            kernel.init(keys.fold(i), position, data) for i, kernel in enumerate(self.kernels)
        )
        return CycleState(states[-1].position, states)

    def step(self, key: Key, state: CycleState, data: Data) -> tuple[CycleState, tuple[Any, ...]]:
        keys, position, states, infos = as_keys(key), state.position, [], []
        for i, (kernel, inner) in enumerate(zip(self.kernels, state.states, strict=True)):
            moved = kernel.refresh(keys.fold(2 * i), with_position(inner, position), data)
            moved, info = kernel.step(keys.fold(2 * i + 1), moved, data)
            position = moved.position
            states.append(moved)
            infos.append(info)
        return CycleState(position, tuple(states)), tuple(infos)

    def refresh(self, key: Key, state: CycleState, data: Data) -> CycleState:
        return state  # every step refreshes each kernel before it moves

    def check(self, position: Position, data: Data) -> None:
        for kernel in self.kernels:
            kernel.check(position, data)


def cycle(*kernels: Kernel) -> Cycle:
    """Kernels on one and the same position, one after the other in every step.

    Targets:
        what all of them leave invariant.

    Args:
        *kernels: in their order; each one's caches are refreshed before it moves.

    Raises:
        TypeError: if one is not a kernel.

    Example:
        >>> import jax
        >>> from sgmc_jax import draw
        >>> kernel = cycle(
        ...     draw(lambda key, data: jax.random.normal(key)), draw(lambda key, data: 1.0)
        ... )
        >>> state = kernel.init(jax.random.key(0), jax.numpy.zeros(()), None)
        >>> float(kernel.step(jax.random.key(1), state, None)[0].position)
        1.0
    """
    if not kernels:
        raise ValueError("cycle needs at least one kernel")
    for kernel in kernels:
        require_kernel(kernel)
    return Cycle(kernels)
