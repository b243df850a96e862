"""Kernels on one position, in turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._types import Data, Kernel, Key, Position, as_keys
from ..contract import Contract, Cost, SlotInfo, from_init, slot_infos
from ._common import alike, mean_weight, require_kernel, with_position


class CycleState(NamedTuple):
    """The position and each kernel's own state.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import cycle, draw
        >>> kernel = cycle(draw(lambda key, data: 1.0), draw(lambda key, data: 2.0))
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(()), None)
        >>> float(state.position), len(state.states)
        (0.0, 2)
    """

    position: Position
    states: tuple[Any, ...]


class CycleInfo(NamedTuple):
    """Each kernel's info; of the slots, if they have any, whether one overflowed, and the most.

    Example:
        >>> from sgmc_jax import SlotInfo
        >>> info = CycleInfo((None, SlotInfo(3, overflow=False), SlotInfo(5, overflow=True)))
        >>> int(info.active), bool(info.overflow)
        (5, True)
    """

    kernels: tuple[Any, ...]

    @property
    def overflow(self) -> Any:
        return reduce(jnp.logical_or, [slots.overflow for slots in self._slots("overflow")])

    @property
    def active(self) -> Any:
        return reduce(jnp.maximum, [slots.active for slots in self._slots("active")])

    def _slots(self, name: str) -> list[SlotInfo]:
        if not (slots := slot_infos(self.kernels)):
            raise AttributeError(f"the infos of a cycle without slots have no {name!r}")
        return slots


class Cycle(Kernel):
    """See `cycle`."""

    kernels: tuple[Kernel, ...]

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
        # a kernel with slots may have given the position another form, in which those before it,
        # a draw by the user's function, say, begin as well
        for i, kernel in enumerate(self.kernels):
            if not alike(states[i].position, position):
                states[i] = kernel.init(keys.fold(i), position, data)
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

    def starter(self, data: Data) -> Callable[[Any], Position] | None:
        each = [kernel.starter(data) for kernel in self.kernels]
        return from_init if from_init in each else next(filter(None, each), None)

    def refresh(self, key: Key, state: CycleState, data: Data) -> CycleState:
        return state  # every step refreshes each kernel before it moves

    def retarget(self, key: Key, state: CycleState, data: Data) -> CycleState:
        # a kernel writes what its new target fixes into the position, from which all others go on
        keys, position, states = as_keys(key), state.position, []
        for i, (kernel, inner) in enumerate(zip(self.kernels, state.states, strict=True)):
            states.append(kernel.retarget(keys.fold(i), with_position(inner, position), data))
            position = states[-1].position
        return CycleState(position, tuple(states))

    def made_with(self) -> Any:
        return Cycle, *(kernel.made_with() for kernel in self.kernels)

    def finite(self, state: CycleState) -> Bool[Array, ""]:
        parts = zip(self.kernels, state.states, strict=True)
        each = [kernel.finite(inner) for kernel, inner in parts]
        return reduce(jnp.logical_and, each, super().finite(state))

    def weight(self, info: CycleInfo, state: CycleState) -> Float[Array, "..."] | None:
        parts = zip(self.kernels, info.kernels, state.states, strict=True)
        return mean_weight(kernel.weight(*part) for kernel, *part in parts)

    def resize(self, capacity: int) -> Cycle:
        return Cycle(tuple(kernel.resize(capacity) for kernel in self.kernels))

    def grow(self, state: CycleState, capacity: int) -> tuple[Cycle, CycleState]:
        states = tuple(
            kernel.grow(inner, capacity)[1]
            for kernel, inner in zip(self.kernels, state.states, strict=True)
        )
        return self.resize(capacity), CycleState(states[-1].position, states)

    def contract(self, position: Position) -> Contract:
        contracts = [kernel.contract(position) for kernel in self.kernels]
        capacities = [c.capacity for c in contracts if c.capacity is not None]
        if len(set(capacities)) > 1:
            raise ValueError(f"the capacity of kernels in a cycle must agree, got {capacities}")
        keeps = [contract.keeps_weights for contract in contracts]
        if True in keeps and False in keeps:
            names = [type(self.kernels[keeps.index(kept)]).__name__ for kept in (True, False)]
            raise ValueError(
                f"kernels of a cycle must not move items and leave the weights of features or "
                f"clusters, which are part of the chain of {names[0]} and not of {names[1]}: in "
                "place of slice_crm take slice_features, which draws them given the items"
            )
        moves = sum(contract.moves for contract in contracts)  # of one and the same position
        joined = Contract.join(contract.after(contract.refreshing) for contract in contracts)
        retargeting = reduce(Cost.plus, [contract.retargeting for contract in contracts])
        return joined._replace(moves=moves, retargeting=retargeting)

    def check(self, position: Position, data: Data) -> None:
        for i, kernel in enumerate(self.kernels):
            if i == 0 or position is not None:
                kernel.check(position, data)


def cycle(*kernels: Kernel) -> Cycle:
    """Kernels on one and the same position, one after the other in every step.

    Targets:
        what all of them leave invariant.

    Args:
        *kernels: in their order; each one's state is brought up to date before it moves
            (`Kernel.refresh`). Those that have slots must have as many; on shards, those that work
            in blocks of items as many blocks.

    Info:
        `kernels`, a tuple of their infos.

    Raises:
        TypeError: if one is not a kernel.
        ValueError: if there is none, their capacities differ, or one goes on from weights of
            features or clusters that another leaves behind.

    Example:
        >>> import jax
        >>> from sgmc_jax import draw
        >>> kernel = cycle(
        ...     draw(lambda key, data: jax.random.normal(key)), draw(lambda key, data: 1.0)
        ... )
        >>> state = kernel.init(jax.random.key(0), jax.numpy.zeros(()), None)
        >>> float(kernel.step(jax.random.key(1), state, None)[0].position)
        1.0

    Reference:
        Tierney (1994), Markov chains for exploring posterior distributions, section 2.4.
    """
    if not kernels:
        raise ValueError("cycle needs at least one kernel")
    for kernel in kernels:
        require_kernel(kernel)
    made = Cycle(kernels)
    made.contract(None)
    return made
