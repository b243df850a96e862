"""Blocks updated in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._functions import as_function
from .._types import Data, Kernel, Key, Position, as_keys
from ..collective import Collective, with_collective
from ..contract import Contract
from ._common import mean_weight, with_position


class GibbsState(NamedTuple):
    """The position by block, and each block's own state.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import draw, gibbs
        >>> one = lambda rest: draw(lambda key, data: 1.0)
        >>> kernel = gibbs(x=one, y=one)
        >>> state = kernel.init(jax.random.key(0), {"x": jnp.zeros(()), "y": jnp.zeros(())}, None)
        >>> float(state.position["y"]), list(state.blocks)
        (0.0, ['x', 'y'])
    """

    position: dict[str, Position]
    blocks: dict[str, Any]


class Gibbs(Kernel):
    """See `gibbs`.

    The kernels of the blocks are built anew in every step: `capacity`, once the runner has made
    room, and `comm` are what it has told them.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    builders: tuple[Callable, ...]
    capacity: int | None = eqx.field(static=True, default=None)
    comm: Collective = Collective()

    def init(self, key: Key, position: dict[str, Position], data: Data) -> GibbsState:
        self._check_names(position)
        keys, position, blocks = as_keys(key), dict(position), {}
        for i, name in enumerate(self.names):
            blocks[name] = self._kernel(i, position).init(keys.fold(i), position[name], data)
            position[name] = blocks[name].position
        return GibbsState({name: position[name] for name in self.names}, blocks)

    def step(self, key: Key, state: GibbsState, data: Data) -> tuple[GibbsState, dict[str, Any]]:
        keys, position, blocks, infos = as_keys(key), dict(state.position), {}, {}
        for i, name in enumerate(self.names):
            kernel = self._kernel(i, position)
            # the other blocks have moved since this one last stepped: its target is another one
            block = with_position(state.blocks[name], position[name])
            block = kernel.retarget(keys.fold(2 * i), block, data)
            blocks[name], infos[name] = kernel.step(keys.fold(2 * i + 1), block, data)
            position[name] = blocks[name].position
        return GibbsState(position, blocks), infos

    def refresh(self, key: Key, state: GibbsState, data: Data) -> GibbsState:
        return state  # every step brings each block up to date before it moves

    def finite(self, state: GibbsState) -> Bool[Array, ""]:
        each = [kernel.finite(state.blocks[x]) for x, kernel in self._kernels(state)]
        return reduce(jnp.logical_and, each, super().finite(state))

    def weight(self, info: dict[str, Any], state: GibbsState) -> Float[Array, "..."] | None:
        kernels = self._kernels(state)
        return mean_weight(kernel.weight(info[x], state.blocks[x]) for x, kernel in kernels)

    def resize(self, capacity: int) -> Gibbs:
        return replace(self, capacity=capacity)

    def grow(self, state: GibbsState, capacity: int) -> tuple[Gibbs, GibbsState]:
        blocks = {
            name: self._kernel(i, state.position).grow(state.blocks[name], capacity)[1]
            for i, name in enumerate(self.names)
        }
        position = {name: blocks[name].position for name in self.names}
        return self.resize(capacity), GibbsState(position, blocks)

    def contract(self, position: Any) -> Contract:
        if position is None:
            return Contract(self.capacity)
        self._check_names(position)
        contracts = []

        def build(position: dict[str, Position]) -> None:
            for i, name in enumerate(self.names):
                contract = self._kernel(i, position).contract(position[name])
                contracts.append(contract.after(contract.retargeting))

        jax.eval_shape(build, position)  # builders may compute with what only a trace has
        # each block has weights of its own
        return Contract.join(contracts)._replace(keeps_weights=None)

    def check(self, position: Position, data: Data) -> None:
        self._check_names(position)
        for i, name in enumerate(self.names):
            self._kernel(i, position).check(position[name], data)

    def _kernels(self, state: GibbsState) -> list[tuple[str, Kernel]]:
        """What the blocks are after a step: of the form that they were of in it."""
        return [(name, self._kernel(i, state.position)) for i, name in enumerate(self.names)]

    def _kernel(self, i: int, position: dict[str, Position]) -> Kernel:
        name = self.names[i]
        rest = {other: x for other, x in position.items() if other != name}
        try:
            kernel = self.builders[i](rest)
        except Exception as error:
            if unknown := [other for other, x in rest.items() if x is None]:
                raise ValueError(
                    f"position must have values of the blocks {unknown}, got None: block {name!r} "
                    "is built from them (the function `kernel.starter(data)` may draw one)"
                ) from error
            raise
        if not isinstance(kernel, Kernel):
            raise TypeError(f"block {name!r} must build a kernel, got {type(kernel).__name__}")
        own = kernel.contract(position[name]).capacity
        if own is not None and self.capacity is not None and own < self.capacity:
            kernel = kernel.resize(self.capacity)
        return kernel if self.comm.axis is None else with_collective(kernel, self.comm)

    def _check_names(self, position: Any) -> None:
        if not isinstance(position, dict) or set(position) != set(self.names):
            got = sorted(position) if isinstance(position, dict) else type(position).__name__
            raise ValueError(
                f"position must be a dict of the blocks {sorted(self.names)}, got {got}"
            )


def gibbs(**blocks: Callable) -> Gibbs:
    """Blocks updated in turn, each by a kernel built from the other blocks' values.

    The position is a dict by block name; a step runs through the blocks in the order given. Each
    block's kernel is built inside the step from `rest`, the dict of the other blocks' current
    values, and its state is brought up to date before it steps (`Kernel.retarget`): a gradient that
    it carries, or the full pass of a control variate, is computed anew in every step, and a
    momentum under a mass matrix drawn anew, as the letter R would: friction then has no memory.

    Targets:
        the joint law, if each block's kernel leaves its full conditional invariant.

    Args:
        **blocks: for each name a function `rest -> Kernel`.

    Raises:
        ValueError: if the position's keys are not the blocks' names.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import draw, sample
        >>> kernel = gibbs(
        ...     x=lambda rest: draw(lambda key, data: 0.5 * rest["y"] + jax.random.normal(key)),
        ...     y=lambda rest: draw(lambda key, data: 0.5 * rest["x"] + jax.random.normal(key)),
        ... )
        >>> start = {"x": jnp.zeros(()), "y": jnp.zeros(())}
        >>> run = sample(jax.random.key(0), kernel, start, None, num_steps=10)
        >>> run.trace["x"].shape
        (10,)

    Reference:
        Geman and Geman (1984), Stochastic relaxation, Gibbs distributions, and the Bayesian
        restoration of images.
    """
    if not blocks:
        raise ValueError("gibbs needs at least one block")
    for name, build in blocks.items():
        if not callable(build):
            raise TypeError(
                f"block {name!r} must be a function of the other blocks that builds a kernel, got "
                f"{type(build).__name__}"
            )
    builders = [as_function(build, f"block {name!r}", ("rest",)) for name, build in blocks.items()]
    return Gibbs(tuple(blocks), tuple(builders))
