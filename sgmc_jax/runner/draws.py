"""The draws of a run on the host."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import PyTree


class Draws:
    """Arrays made for all draws of a run, and filled a chunk at a time.

    Args:
        template: one draw of all chains.
        num_draws: how many draws there will be, unless the run is interrupted.
        axis: the axis of draws, after those of kernels and chains.
    """

    def __init__(self, template: PyTree, num_draws: int, axis: int):
        self.num_draws, self.axis, self.count = num_draws, axis, 0
        self.arrays = jax.tree.map(self._zeros, template)

    def fill(self, draws: PyTree, count: int) -> None:
        """More draws, `count` in all as soon as that is set; they may have fewer slots."""
        to = slice(self.count, count)

        def leaf(array: np.ndarray, x: np.ndarray) -> None:
            array[self._corner(x, to)] = x

        jax.tree.map(leaf, self.arrays, draws)

    def head(self, draws: PyTree, num: int) -> PyTree:
        """The first `num` of some draws."""
        return jax.tree.map(lambda x: x[self._at(slice(num))], draws)

    def grow(self, template: PyTree) -> None:
        """Make room for draws with more slots; the earlier ones have zeros there."""

        def leaf(array: np.ndarray, one: np.ndarray) -> np.ndarray:
            if one.shape == (*array.shape[: self.axis], *array.shape[self.axis + 1 :]):
                return array
            grown = self._zeros(one)
            grown[self._corner(array, slice(None))] = array
            return grown

        self.arrays = jax.tree.map(leaf, self.arrays, template)

    def result(self) -> PyTree:
        """All draws so far."""
        return self.arrays if self.count == self.num_draws else self.head(self.arrays, self.count)

    def _zeros(self, one: np.ndarray) -> np.ndarray:
        lead, rest = one.shape[: self.axis], one.shape[self.axis :]
        return np.zeros((*lead, self.num_draws, *rest), one.dtype)

    def _at(self, draws: slice) -> tuple[slice, ...]:
        return (*(slice(None),) * self.axis, draws)

    def _corner(self, x: np.ndarray, draws: slice) -> tuple[slice, ...]:
        return (*self._at(draws), *(slice(length) for length in x.shape[self.axis + 1 :]))
