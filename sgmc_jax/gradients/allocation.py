"""Latent variables of items: allocations, whose counts add to gamma shapes, are the one case."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from .._functions import function_of
from .._types import Data, Position
from ..arrays import weighted_sum


class Latent(eqx.Module):
    """How the latent variables of a batch of items are drawn given a position.

    They are a pytree of arrays with a leading item axis.

    Example: the labels of a mixture of two normals, far from each other.
        >>> import jax, jax.numpy as jnp
        >>> class Labels(Latent):
        ...     def draw(self, key, position, items, previous):
        ...         return jax.random.categorical(key, -0.5 * (items[:, None] - position) ** 2)
        >>> means = jnp.array([-20.0, 20.0])
        >>> Labels().draw(jax.random.key(0), means, jnp.array([20.0, -20.0, 20.0]), None).tolist()
        [1, 0, 1]
    """

    exact: ClassVar[bool] = True
    """Whether a draw from scratch is one from the latents' law given the position."""

    @abstractmethod
    def draw(self, key: Any, position: Position, items: PyTree, previous: PyTree | None) -> PyTree:
        """The items' latents given the position.

        Args:
            previous: the latents that the items have; a move that leaves their law given the
                position invariant will do. `None` asks for draws from scratch.
        """

    def check(self, position: Position, data: Data) -> None:
        """Raise if a concrete position or data is unfit."""


class Allocation(Latent):
    """How the allocations of a batch of items are drawn, and what they count.

    They are in whatever form is small; see `FunctionAllocation` for those whose form is the counts
    themselves.

    Example: labels, which are smaller than the counts they stand for.
        >>> import jax, jax.numpy as jnp
        >>> class Labels(Allocation):
        ...     def draw(self, key, position, items, previous):
        ...         return jax.random.categorical(key, position - 0.5 * (items[:, None] - 3.0) ** 2)
        ...
        ...     def counts(self, items, allocations, weight):
        ...         return jnp.zeros(2).at[allocations].add(weight)
        >>> Labels().counts(None, jnp.array([0, 1, 1]), weight=jnp.full(3, 10.0)).tolist()
        [10.0, 20.0]
    """

    @property
    def name(self) -> str:
        """What to call its counts in a message."""
        return f"counts of {type(self).__name__}"

    @abstractmethod
    def counts(
        self, items: PyTree, allocations: PyTree, weight: Float[Array, " n"] | Bool[Array, " n"]
    ) -> PyTree:
        """The sum over items of their counts, each times its weight: shaped like the position.

        Weights that are truths tell which items count; theirs may be whole numbers.
        """


class FunctionAllocation(Allocation):
    """The allocations of a function that draws an item's counts.

    Args:
        allocate: `(key, position, item) -> counts`, shaped like the position: a draw of what one
            item adds to the shapes, given the position. Sums of whole numbers are exact up to 2^24.
    """

    allocate: Callable = eqx.field(converter=function_of("allocate", "key", "position", "item"))

    @property
    def name(self) -> str:
        return "allocate"

    def draw(self, key: Any, position: Position, items: PyTree, previous: PyTree | None) -> PyTree:
        keys = jax.random.split(key, len(jax.tree.leaves(items)[0]))
        return jax.vmap(self.allocate, (0, None, 0))(keys, position, items)

    def counts(
        self, items: PyTree, allocations: PyTree, weight: Float[Array, " n"] | Bool[Array, " n"]
    ) -> PyTree:
        weight = weight.astype(jnp.result_type(weight, jnp.float32))
        return jax.tree.map(lambda z: weighted_sum(weight, z.astype(weight.dtype)), allocations)


def as_allocation(allocate: Allocation | Callable) -> Allocation:
    """An allocation as it is; that of a function."""
    if isinstance(allocate, Allocation):
        return allocate
    if not callable(allocate):
        raise TypeError(
            f"allocate must be a function of (key, position, item) or an Allocation, got "
            f"{type(allocate).__name__}"
        )
    return FunctionAllocation(allocate)
