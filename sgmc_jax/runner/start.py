"""Where the chains of a run begin: at one position, at one each, or where another run ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import _checks, _tree
from .._functions import must_take
from .._types import Kernel
from ..checkpoint import contents, fingerprint
from ..contract import from_init
from ..run import Run
from .code import code_by_version
from .keys import require_key_data
from .keys import root as root_key
from .stream import Resident, Stream, data_fingerprint

_LOOKED_AT = 64  # chains
_KEEP_OUT = (
    ": keep what is no array out of it, eqx.partition(position, eqx.is_inexact_array), and combine "
    "the two in the log likelihood"
)


class Start:
    """The argument `position` of `sample`, read once.

    Attributes:
        run: the run to go on from, or `None`.
        value: the position, or those of all chains.
        stacked: which of the two.
        one: the position of one chain.
        function: what drew the positions, if they were drawn.
        num_chains: how many chains there are, of a run those that it has.
        num_steps: how many steps have been made before.
    """

    def __init__(
        self, position: Any, axis: Any, num_chains: int | None, root: Array | np.ndarray, impl: str
    ):
        self.run, self.num_chains, self.num_steps = None, num_chains, 0
        self.function: Callable | None = None
        if isinstance(position, Run):
            self.run, self.num_steps = position, position.num_steps
            if num_chains is None and "chain" in position.axes:
                self.num_chains = position.stopped.shape[-1]
            require_key_data(position.state)
            lead = len(position.axes) - 1
            self.one = jax.tree.map(lambda x: np.asarray(x)[(0,) * lead], position.state).position
            return
        if position is from_init:
            position = None
        if _is_function(position):
            self.function = position
            keys = _keys(root, impl, num_chains or 1)
            drawn = position(keys[0]) if num_chains is None else jax.vmap(position)(keys)
            self.value, self.stacked = _tree.strong(drawn), num_chains is not None
        else:
            _checks.arrays("position", position, _KEEP_OUT)
            self.value = _tree.strong(position)
            self.stacked = _is_stack(self.value, axis, num_chains)
        self.one = jax.tree.map(lambda x: x[0], self.value) if self.stacked else self.value

    def check_others(self, kernel: Kernel, data: PyTree) -> None:
        """Raise unless the chains but the first may begin where they are to, or as many of them,
        evenly spread, as do not take long to look at."""
        if not self.stacked or self.num_chains is None:
            return
        each = np.linspace(0, self.num_chains - 1, min(self.num_chains, _LOOKED_AT)).astype(int)
        position = lambda i: jax.tree.map(lambda x: x[i], self.value)
        for i in each[1:]:
            try:
                kernel.check(position(i), data)
            except Exception as error:
                error.add_note(f"position is that of chain {i}")
                raise

    def contents(self) -> list[Any]:
        """What tells the start from others: its values, unless they follow from key and data."""
        if self.run is not None:
            return [self.num_steps, *contents(self.run.state)]
        return [0, *(contents(self.value) if self.function is None else [])]


def identity_of_run(
    roots: Any,
    kernel: Kernel,
    functions: tuple,
    start: Start,
    source: Resident | Stream,
    settings: dict[str, Any],
) -> dict[str, str]:
    """What tells a run from others: from that of a checkpoint, or those of other processes."""
    parts = code_by_version((kernel, *functions, start.function)) | {"position": start.contents()}
    own = fingerprint(key=tuple(roots), kernel=kernel, **settings, **parts)
    return own | data_fingerprint(source)


def _is_function(position: Any) -> bool:
    """Whether to call it: a plain function or method; a module is a pytree of arrays."""
    if not callable(position):
        return False
    bound = hasattr(position, "__func__") or isinstance(position, partial)
    if not (bound or jax.tree_util.treedef_is_leaf(jax.tree.structure(position))):
        return False
    if hasattr(position, "init") and hasattr(position, "apply"):
        name = type(position).__name__
        raise TypeError(
            f"position must be the parameters of {name}, as its method `init` returns them, got "
            "the module itself"
        )
    must_take(position, "position", ("key",))
    return True


def _keys(root: Array | np.ndarray, impl: str, num: int) -> Any:
    key = root_key(root, 2**31 - 1, impl)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(num))


def _is_stack(position: PyTree, axis: Any, num_chains: int | None) -> bool:
    """Whether the leaves have a leading axis of chains; raises where that has to be said."""
    leaves = jax.tree.leaves(position)
    lengths = {x.shape[0] if x.ndim else None for x in leaves}
    if axis == 0:
        if num_chains is None or lengths != {num_chains}:
            raise ValueError(
                "position_axis=0 needs a position for each of num_chains chains, got leading axes "
                f"of lengths {sorted(map(str, lengths))} for {num_chains}"
            )
        return True
    fits = num_chains is not None and lengths == {num_chains} and any(x.ndim > 1 for x in leaves)
    if axis == "unsaid" and fits:
        raise ValueError(
            f"position may be one for all {num_chains} chains or one for each, got leading axes of "
            f"length {num_chains}: say position_axis=None or position_axis=0"
        )
    return False
