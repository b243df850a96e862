"""Blocks updated in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx

from .._types import Data, Kernel, Key, Position, as_function, as_keys
from ._common import with_position


class GibbsState(NamedTuple):
    """The position by block, and each block's own state."""

    position: dict[str, Position]
    blocks: dict[str, Any]


class Gibbs(Kernel):
    """See `gibbs`."""

    names: tuple[str, ...] = eqx.field(static=True)
    builders: tuple[Callable, ...]

    def init(self, key: Key, position: dict[str, Position], data: Data) -> GibbsState:
        self._check_names(position)
        keys = as_keys(key)
        blocks = {
            name: self._kernel(i, position).init(keys.fold(i), position[name], data)
            for i, name in enumerate(self.names)
        }
        return GibbsState({name: blocks[name].position for name in self.names}, blocks)

    def step(self, key: Key, state: GibbsState, data: Data) -> tuple[GibbsState, dict[str, Any]]:
        keys, position, blocks, infos = as_keys(key), dict(state.position), {}, {}
        for i, name in enumerate(self.names):
            kernel = self._kernel(i, position)
            # the other blocks have moved since this one last stepped: its caches are stale
            block = kernel.refresh(keys.fold(2 * i), state.blocks[name], data)
            blocks[name], infos[name] = kernel.step(keys.fold(2 * i + 1), block, data)
            position[name] = blocks[name].position
        return GibbsState(position, blocks), infos

    def refresh(self, key: Key, state: GibbsState, data: Data) -> GibbsState:
        keys, blocks = as_keys(key), {}
        for i, name in enumerate(self.names):
            block = with_position(state.blocks[name], state.position[name])
            blocks[name] = self._kernel(i, state.position).refresh(keys.fold(i), block, data)
        return GibbsState(state.position, blocks)

    def check(self, position: Position, data: Data) -> None:
        self._check_names(position)
        for i, name in enumerate(self.names):
            self._kernel(i, position).check(position[name], data)

    def _kernel(self, i: int, position: dict[str, Position]) -> Kernel:
        rest = {name: x for name, x in position.items() if name != self.names[i]}
        kernel = self.builders[i](rest)
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"block {self.names[i]!r} must build a kernel, got {type(kernel).__name__}"
            )
        return kernel

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
    values, and its caches are refreshed before it steps.

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
    """
    if not blocks:
        raise ValueError("gibbs needs at least one block")
    for name, build in blocks.items():
        if not callable(build):
            raise TypeError(
                f"block {name!r} must be a function of the other blocks that builds a kernel, got "
                f"{type(build).__name__}"
            )
    return Gibbs(tuple(blocks), tuple(as_function(build) for build in blocks.values()))
