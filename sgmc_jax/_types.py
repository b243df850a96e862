"""The protocol of kernels, and the keys and states that travel between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from . import _tree
from ._functions import as_function
from .collective import holds_collective, shared_part
from .contract import Contract

Position = PyTree
Data = PyTree
Key = Any  # a typed key, a raw uint32 key, or Keys


class Keys(NamedTuple):
    """The randomness of one step.

    `noise` drives the sampler, `batch` the minibatch (unbatched when chains share it), and `count`
    is the index of the step. `count` is never batched over chains, so that a schedule or a periodic
    refresh stays one scalar branch under `vmap`; it is `None` where nobody counts.

    Example:
        >>> Keys(jax.random.key(0), jax.random.key(1), count=7).fold(2).count
        7
    """

    noise: Any
    batch: Any
    count: Any = None

    def fold(self, index: Any) -> Keys:
        """The keys of the `index`-th part of a step."""
        return self._replace(
            noise=jax.random.fold_in(self.noise, index), batch=jax.random.fold_in(self.batch, index)
        )


def as_keys(key: Key) -> Keys:
    """`Keys` as they are; a bare key split into its noise and its batch half.

    Example:
        >>> as_keys(jax.random.key(0)).count is None
        True
    """
    if isinstance(key, Keys):
        return key
    noise, batch = jax.random.split(key)
    return Keys(noise, batch)


def split(key: Any, num: int) -> list[Any]:
    """`num` keys from one; a single one costs nothing."""
    return [key] if num == 1 else list(jax.random.split(key, num))


class Empty(NamedTuple):
    """An info, or a state, with nothing in it."""


class Ungated(NamedTuple):
    """A part of a state, too large for a `where`, that the runner keeps also of discarded steps.

    A step may only change it in a way that is right, or harmless, if the step is discarded.
    """

    value: PyTree


class Kernel(eqx.Module):
    """A Markov kernel: a frozen pytree of hyperparameters with two pure functions.

    `init(key, position, data) -> State` and `step(key, state, data) -> (State, Info)`, where
    `state.position` always exists. It unpacks as that pair, `init, step = kernel`. Under `jax.jit`
    its hyperparameters are constants of the program; `eqx.filter_jit(kernel.step)` makes them
    arguments. The data is an argument of both and is never captured.

    Others may move the position: what else a state holds, `refresh` and `retarget` bring up to
    date. What a runner or a combinator must know beyond that is declared: on the kernel the class
    attributes below, which a subclass sets or makes fields of its own, and on its info `SlotInfo`.

    Attributes:
        capacity: the number of slots, for a kernel of states whose arrays have slots; or `None`. It
            is a field, in place of which a larger number is put as slots are added.
        blocks: the number of blocks of items that it works in; or `None`.
        streams: whether the data of a step may be a batch that stands for more.
        keeps_weights: whether the weights of features or clusters are part of its chain (`True`) or
            drawn given the items' in every step (`False`); `None` if it moves no item among them.

    Example:
        >>> import jax
        >>> from typing import NamedTuple
        >>> class State(NamedTuple):
        ...     position: jax.Array
        >>> def init(key, position, data):
        ...     return State(position)
        >>> def step(key, state, data):
        ...     return State(0.5 * state.position + jax.random.normal(key)), None
        >>> kernel = Kernel.from_functions(init, step)
        >>> state = kernel.init(jax.random.key(0), jax.numpy.zeros(()), None)
        >>> state, info = kernel.step(jax.random.key(1), state, None)
        >>> init, step = kernel
        >>> state, info = jax.jit(step)(jax.random.key(1), state, None)
    """

    # with annotations they would come first among the fields of a subclass
    capacity = None  # type: int | None
    blocks = None  # type: int | None
    streams: ClassVar[bool] = False
    keeps_weights = None  # type: bool | None

    @abstractmethod
    def init(self, key: Key, position: Position, data: Data) -> Any:
        """The state at `position`."""

    @abstractmethod
    def step(self, key: Key, state: Any, data: Data) -> tuple[Any, Any]:
        """One transition: the new state and an info."""

    def starter(self, data: Data) -> Callable[[Any], Position] | None:
        """A function `key -> position` where chains begin that `sample` is given `None` for, or
        `from_init`; `None` of kernels to which it is all the same."""
        return None

    def refresh(self, key: Key, state: Any, data: Data) -> Any:
        """`state` after another kernel has moved its position.

        All but the position is brought up to date, and what is random drawn from its law given the
        position: a chain that lives on more than its position is biased in a `cycle` otherwise.
        """
        return state

    def retarget(self, key: Key, state: Any, data: Data) -> Any:
        """`refresh`, after the target or the data have changed too, as for a block of `gibbs`."""
        return self.refresh(key, state, data)

    def made_with(self) -> PyTree:
        """What of the kernel a state was made with: where it is another one, or the data are, a run
        that goes on takes over the position alone. The number of slots changes no chain."""
        with suppress(ValueError):  # of a kernel that must have more
            return self.resize(1)
        return self

    def resize(self, capacity: int) -> Kernel:
        """The kernel with `capacity` slots, or as it is if it has none."""
        return self if self.capacity is None else replace(self, capacity=capacity)  # type: ignore

    def grow(self, state: Any, capacity: int) -> tuple[Kernel, Any]:
        """The kernel and the state with more slots, as they would be had there been so many before.

        Arrays may be left as they are: the runner appends zeros, up to the shapes of `init`.
        """
        return self.resize(capacity), state

    def contract(self, position: Position) -> Contract:
        """What the kernel declares; for a position of `None`, as far as it is known without one."""
        if self.capacity is not None and not self._can_grow():
            raise TypeError(
                f"{type(self).__name__} must have its capacity as a field, in place of which a "
                "larger one is put as it grows, got a class attribute"
            )
        return Contract(
            capacity=None if self.capacity is None else int(self.capacity),
            blocks=frozenset(() if self.blocks is None else (self.blocks,)),
            streams=self.streams,
            shards=True if holds_collective(self) else None,
            keeps_weights=self.keeps_weights,
        )

    def _can_grow(self) -> bool:
        own = type(self).resize is not Kernel.resize
        return own or any(field.name == "capacity" for field in fields(self))

    def finite(self, state: Any) -> Bool[Array, ""]:
        """Whether the chain may go on: whether all that shards have in common is finite."""
        return _tree.all_finite(shared_part(state.position))

    def weight(self, info: Any, state: Any) -> Float[Array, "..."] | None:
        """What a step that led to `state` counts for in an average over steps, its step size, or
        `None` for one."""
        return None

    def check(self, position: Position, data: Data) -> None:
        """Raise if a concrete position or data is unfit; called once at the door of `sample`."""

    def __iter__(self) -> Iterator[Callable]:
        # not the bound methods, which have no hash while something is traced
        yield lambda key, position, data: self.init(key, position, data)
        yield lambda key, state, data: self.step(key, state, data)

    def __hash__(self) -> int:
        # `jax.jit` hashes a method by its kernel, and compares arrays where hashes agree, which
        # cannot be done with what is traced
        if isinstance(jnp.zeros(()), jax.core.Tracer):
            return super().__hash__()  # of its fields: none, if there are arrays
        return hash((type(self), jax.tree.structure(self)))

    @staticmethod
    def from_functions(init: Callable, step: Callable, refresh: Callable | None = None) -> Kernel:
        """The kernel of a user's own functions.

        Args:
            init: `(key, position, data) -> state`; the state has an attribute `position`.
            step: `(key, state, data) -> (state, info)`; `key` is one ordinary JAX key.
            refresh: `(key, state, data) -> state` after another kernel has moved its position: see
                `Kernel.refresh`. By default a state that has more than its position is made anew by
                `init`, counters and scales that it has adapted too: what is right whatever the
                position needs a `refresh` that keeps it.
        """
        return FunctionKernel(
            as_function(init, "init", ("key", "position", "data")),
            as_function(step, "step", ("key", "state", "data")),
            None if refresh is None else as_function(refresh, "refresh", ("key", "state", "data")),
        )


class FunctionKernel(Kernel):
    """The kernel of a pair of functions; see `Kernel.from_functions`."""

    streams: ClassVar[bool] = True  # they may make of the data what they like

    init_function: Callable = eqx.field(converter=as_function)
    step_function: Callable = eqx.field(converter=as_function)
    refresh_function: Callable | None = None

    def init(self, key: Key, position: Position, data: Data) -> Any:
        state = self.init_function(as_keys(key).noise, position, data)
        if not hasattr(state, "position"):
            raise TypeError(
                f"init must return a state with a `position`, got {type(state).__name__}"
            )
        return state

    def step(self, key: Key, state: Any, data: Data) -> tuple[Any, Any]:
        result = self.step_function(as_keys(key).noise, state, data)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"step must return a pair (state, info), got {type(result).__name__}")
        return result

    def refresh(self, key: Key, state: Any, data: Data) -> Any:
        if self.refresh_function is not None:
            return self.refresh_function(as_keys(key).noise, state, data)
        more = len(jax.tree.leaves(state)) > len(jax.tree.leaves(state.position))
        return self.init(key, state.position, data) if more else state
