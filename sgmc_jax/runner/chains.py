"""All chains of a run on their devices: how they begin, go on, grow, and are seen from outside."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import _checks
from .._types import Kernel
from ..checkpoint import shapes
from ..collective import with_collective
from ..engines import numpy_of
from ..run import Run
from .keys import Roots, require_key_data
from .loop import block_length
from .made_with import MadeWith
from .plan import Carry, Plan
from .programs import Layout, Programs, Static, growth, programs, wider_draw
from .shards import is_alike
from .start import Start

_BUFFER_BYTES = 16 * 2**20
_MAX_SLOTS = 2**16


class Chains:
    """The kernel and every chain's carry, of one capacity at a time.

    Attributes:
        capacity: the kernel's slots, or `None`.
        carry: what all chains carry, with the axes of the layout, sharded by the engine.
        template: one kept draw of all chains.
    """

    carry: Carry
    template: PyTree
    stacked = False  # whether each chain began at a position of its own

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        layout: Layout,
        data: PyTree,
        roots: Roots,
        capacity: int | None,
    ):
        num_chains = layout.num_chains
        if layout.over == "data":
            kernel = with_collective(kernel, plan.comm)
        if layout.over == "chains" and (num_chains is None or num_chains % layout.engine.size):
            raise ValueError(
                f"num_chains must be a multiple of the engine's {layout.engine.size} shards, "
                f"got {num_chains}"
            )
        self.kernel, self.plan, self.layout, self.roots = kernel, plan, layout, roots
        self.capacity: Any = capacity
        self.first_data = layout.put_data(data, plan.num_rows)
        index = 0 if num_chains is None else np.arange(num_chains)
        self.index = layout.put_chains(jnp.asarray(index, jnp.int32), axis=0)

    # ------------------------------------------------------------------------------- begin

    def start(self, start: Start, data: PyTree, made_with: MadeWith) -> None:
        """Initialise every chain, or take up a run where it ended."""
        run, wanted = start.run, self.capacity
        if run is not None and run.capacity is not None and run.capacity != self.capacity:
            self.kernel, self.capacity = self.kernel.resize(run.capacity), run.capacity
        kernel = one_kernel(self.kernel, 0 if self.layout.kernels else None)
        kernel.check(start.one, data)
        if run is not None:
            self._restart(run, not made_with.agrees(run.made_with))
            if self.capacity is not None and wanted > self.capacity:
                self.grow(wanted)
            return
        start.check_others(kernel, data)
        _checks.finite("position", start.value)
        self.stacked, put = start.stacked, self.layout.everywhere
        value = self.layout.put_chains(start.value, 0) if self.stacked else put(start.value)
        self.carry, self.template = self._programs().init(
            self._params, value, self.index, self.first_data, self.roots
        )
        self._plan_buffers()

    def _restart(self, run: Run, changed: bool) -> None:
        _check_fit(run, self.layout, self._params)
        if not changed:
            self._begin_at(run.state, run.stopped)
            return
        # what the states hold besides their positions is of another target, as is what stopped them
        (position,) = self._put_seen(run.state.position)
        rest = (self.index, self.first_data, self.roots, np.int32(run.num_steps))
        self.carry, self.template = self._programs().anew(self._params, position, *rest)
        self._plan_buffers()

    def _put_seen(self, *seen: PyTree) -> PyTree:
        """What belongs to each chain, as seen from outside, as the shards get it."""
        return self.layout.put_chains(jax.tree.map(jnp.asarray, seen), int(self.layout.kernels))

    def _begin_at(self, state: Any, stopped: Any) -> None:
        """The carry of a state as seen from outside."""
        seen = self._put_seen(state, stopped)
        programs = self._programs()
        self.carry, self.template = programs.restart(self._params, *seen, self.first_data)
        self._plan_buffers()

    def _plan_buffers(self) -> None:
        """As many draws a chunk as fit the buffer, seen from the size of one of all chains."""
        if self.layout.engine is not None:
            require_key_data(self.carry.state)
        sizes = [x.nbytes for x in jax.tree.leaves(self.template)]
        slots = int(np.clip(_BUFFER_BYTES // max(sum(sizes), 1), 1, _MAX_SLOTS))
        block = min(slots, block_length(max(sizes, default=1)))
        self.plan = self.plan._replace(slots=slots, block=block)

    @property
    def max_steps(self) -> int:
        """The most steps of a chunk, after the burn-in."""
        return _MAX_SLOTS if self.plan.reduce is not None else self.plan.slots * self.plan.thin

    # --------------------------------------------------------------------------------- run

    def advance(self, span: tuple[int, int, int], batches: PyTree) -> tuple[Carry, PyTree]:
        """A chunk of steps, made again with more slots where a step ran out of them.

        Args:
            span: the index of the first step, the number of steps, and that of the burn-in.
            batches: the data, or a batch for each step.

        Returns:
            the carry after it, not yet that of these chains, and buffers of the draws kept, filled
            from the front.
        """
        traced = tuple(np.int32(x) for x in span)
        first, num_steps, burn_in = span
        kept = lambda end: max(end - burn_in, 0) // self.plan.thin
        while True:
            carry, buffers = self._programs().chunk(
                self._params, self.carry, self.index, batches, self.roots, traced
            )
            if not self.layout.fetch(carry.overflow).any():
                return carry, self.layout.fetch(buffers)
            self.grow(2 * self.capacity)  # the chunk again, from its start, with its keys
            # draws are larger now, but there are as many
            slots = max(self.plan.slots, kept(first + num_steps) - kept(first))
            self.plan = self.plan._replace(slots=slots)

    def grow(self, capacity: int) -> None:
        """The kernel and every chain's state, with room for `capacity` slots."""
        before, static = self.carry, eqx.filter(self.kernel, eqx.is_array, inverse=True)
        grow = growth(Static(static), self.plan, self.layout, capacity)
        grown = before._replace(state=grow(self._params, before.state, self.first_data))
        seen = self._seen(grown)
        smaller = self.kernel, self.capacity, before, self.template, self.plan
        self.kernel, self.capacity = self.kernel.resize(capacity), capacity
        try:
            self._begin_at(seen.state, seen.stopped)
            kept = lambda carry: (carry.info, carry.moments)
            wider = lambda x, y: _pad_to(x, y.shape)
            info, moments = jax.tree.map(wider, kept(before), kept(self.carry))
            self.carry = self.carry._replace(info=info, moments=moments)
        except BaseException:  # Ctrl-C while it compiles: nothing has grown
            self.kernel, self.capacity, self.carry, self.template, self.plan = smaller
            raise

    def slotted(self) -> tuple[bool, ...] | None:
        """Which leaves of a draw have slots: those that would be larger if there were more.

        `None` where there are none, or if `record` knows how many there are and fails with more.
        """
        if self.capacity is None or self.plan.reduce is not None:
            return None
        static = Static(eqx.filter(self.kernel, eqx.is_array, inverse=True))
        wider = wider_draw(static, self.plan, self.layout, 2 * self.capacity)
        try:
            draw = jax.eval_shape(wider, self._params, self.carry, self.first_data)
        except Exception:  # whatever a user's function says to it, at the end of a run
            return None
        pairs = zip(jax.tree.leaves(self.template[0]), jax.tree.leaves(draw), strict=True)
        return tuple(one.shape != more.shape for one, more in pairs)

    # -------------------------------------------------------------------------------- seen

    def seen(self) -> Carry:
        """The carry as seen from outside: host arrays, items in their order."""
        return self._seen(self.carry)

    def _seen(self, carry: Carry) -> Carry:
        if is_alike(carry.state, self.plan) and self.layout.engine is None:
            return carry
        seen = self._programs().unload(carry)
        return seen if self.layout.engine is None else self.layout.fetch(seen)

    def load(self, leaves: list) -> None:
        """The inverse of `seen`, from its leaves.

        Raises:
            ValueError: if they are not those of such a state.
        """
        likes, structure = jax.tree.flatten(self.carry)
        loaded = None
        if len(leaves) == len(likes):
            pairs = zip(leaves, likes, strict=True)
            carry = jax.tree.unflatten(structure, [as_saved(x, like) for x, like in pairs])
            carry = self.layout.put_chains(carry, axis=int(self.layout.kernels))
            loaded = self._programs().load(jax.tree.map(jnp.asarray, carry))
        if loaded is None or shapes(loaded) != shapes(self.carry):
            raise ValueError(
                "checkpoint must hold a state as this kernel has, got other arrays: another "
                "version may have written it; give another folder"
            )
        self.carry = loaded

    def stopped(self) -> np.ndarray:
        """The step at which each chain turned non-finite, or -1."""
        return self.layout.fetch(self.carry.stopped)

    @property
    def _params(self) -> PyTree:
        return self.layout.everywhere(eqx.filter(self.kernel, eqx.is_array))

    def _programs(self) -> Programs:
        static = eqx.filter(self.kernel, eqx.is_array, inverse=True)
        return programs(Static(static), self.plan, self.layout, self.stacked)


def _check_fit(run: Run, layout: Layout, params: PyTree) -> None:
    """Raise unless a run to go on from has as many kernels and chains."""
    if run.axes != layout.axes:
        raise ValueError(f"position has the axes {run.axes}, but this run has {layout.axes}")
    number, shape = layout.num_chains, run.stopped.shape
    kernels = len(jax.tree.leaves(params)[0]) if layout.kernels else None
    if kernels is not None and shape[0] != kernels:
        raise ValueError(
            f"kernel must be a stack of {shape[0]}, as that of the run in `position`, got one of "
            f"{kernels}"
        )
    if number is not None and shape[-1] != number:
        raise ValueError(
            f"num_chains must be {shape[-1]}, those of the run in `position`, got {number}"
        )


def one_kernel(kernel: Kernel, axis: int | None) -> Kernel:
    """The kernel, or the first one of a stack."""
    if axis is None:
        return kernel
    leaves = jax.tree.leaves(eqx.filter(kernel, eqx.is_array))
    lengths = {x.shape[0] if x.ndim else None for x in leaves}
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            "kernel_axis=0 needs a stack of kernels, as eqx.filter_vmap makes one: arrays with "
            f"one leading axis, got the lengths {sorted(map(str, lengths))}"
        )
    return jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, kernel)


def as_saved(x: np.ndarray, like: Any) -> np.ndarray:
    """What a file holds, in its own dtype: NumPy takes those of others, bfloat16, for raw bytes."""
    return x.view(like.dtype) if x.dtype.kind == "V" else x


def _pad_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` with zeros appended up to `shape`: growth only appends slots."""
    padding = [(0, b - a) for a, b in zip(x.shape, shape, strict=True)]
    return numpy_of(x).pad(x, padding) if any(after for _, after in padding) else x
