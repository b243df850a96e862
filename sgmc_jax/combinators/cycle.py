"""Kernels on one position, in turn."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp

from .._types import Data, Kernel, Key, Position, as_keys
from ._common import require_kernel, with_position


class CycleState(NamedTuple):
    """The position and each kernel's own state."""

    position: Position
    states: tuple[Any, ...]


class CycleInfo(NamedTuple):
    """Each kernel's info; for a runner, whether one overflowed, and the most slots in use."""

    kernels: tuple[Any, ...]

    @property
    def overflow(self) -> Any:
        return reduce(jnp.logical_or, _those(self.kernels, "overflow"), jnp.zeros((), bool))

    @property
    def active(self) -> Any:
        return reduce(jnp.maximum, _those(self.kernels, "active"), jnp.zeros((), jnp.int32))


class Cycle(Kernel):
    """See `cycle`."""

    kernels: tuple[Kernel, ...]

    @property
    def capacity(self) -> int | None:
        """The number of slots of the kernels that have slots."""
        return next(iter(_those(self.kernels, "capacity")), None)

    @property
    def blocks(self) -> int | None:
        """The number of blocks of the kernels that work in blocks."""
        return next(iter(_those(self.kernels, "blocks")), None)

    def init(self, key: Key, position: Position, data: Data) -> CycleState:
        keys, states = as_keys(key), []
        for i, kernel in enumerate(self.kernels):
            states.append(kernel.init(keys.fold(i), position, data))
            position = states[-1].position  # one that may begin from `None` gives it to the others
            if position is None:
                raise ValueError(
                    f"position must not be None, from which {type(kernel).__name__}, number {i} of "
                    "the cycle, cannot start: give one, or put a kernel that can before it"
                )
        return CycleState(position, tuple(states))

    def step(self, key: Key, state: CycleState, data: Data) -> tuple[CycleState, CycleInfo]:
        keys, position, states, infos = as_keys(key), state.position, [], []
        for i, (kernel, inner) in enumerate(zip(self.kernels, state.states, strict=True)):
            moved = kernel.refresh(keys.fold(2 * i), with_position(inner, position), data)
            moved, info = kernel.step(keys.fold(2 * i + 1), moved, data)
            position = moved.position
            states.append(moved)
            infos.append(info)
        return CycleState(position, tuple(states)), CycleInfo(tuple(infos))

    def refresh(self, key: Key, state: CycleState, data: Data) -> CycleState:
        return state  # every step refreshes each kernel before it moves

    def grow(self, state: CycleState, capacity: int) -> tuple[Cycle, CycleState]:
        pairs = [
            (kernel, inner)
            if getattr(kernel, "capacity", None) is None
            else kernel.grow(inner, capacity)
            for kernel, inner in zip(self.kernels, state.states, strict=True)
        ]
        kernels, states = zip(*pairs, strict=True)
        return Cycle(kernels), CycleState(states[-1].position, states)

    def check(self, position: Position, data: Data) -> None:
        for i, kernel in enumerate(self.kernels):
            if i == 0 or position is not None:
                kernel.check(position, data)


def cycle(*kernels: Kernel) -> Cycle:
    """Kernels on one and the same position, one after the other in every step.

    Targets:
        what all of them leave invariant.

    Args:
        *kernels: in their order; each one's caches are refreshed before it moves. Those that have
            slots must have as many, and those that work in blocks of items as many blocks.

    Info:
        `kernels`, a tuple of their infos.

    Raises:
        TypeError: if one is not a kernel.
        ValueError: if there is none, or their capacities or blocks differ.

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
    for name in ("capacity", "blocks"):
        values = _those(kernels, name)
        if len(set(values)) > 1:
            raise ValueError(f"the {name} of kernels in a cycle must agree, got {values}")
    return Cycle(kernels)


def _those(parts: tuple[Any, ...], name: str) -> list[Any]:
    """The values of an attribute, of those that have it."""
    values = [getattr(part, name, None) for part in parts]
    return [value for value in values if value is not None]
