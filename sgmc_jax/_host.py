"""The host's side of a run: chunks, growth, checkpoints, and errors."""

from __future__ import annotations

import time
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from . import _checks, _loop
from ._kept import Kept
from ._loop import Carry, Plan, Roots, RunInfo
from ._programs import Layout, Programs, Static, growth, programs
from ._start import Start
from ._stream import Resident, Stream
from ._types import Kernel
from .checkpoint import Checkpoint
from .collective import with_collective
from .contract import slot_infos
from .run import Run

_BUFFER_BYTES = 16 * 2**20
_MAX_SLOTS = 2**16
_FIRST_CHUNK = 64
_CROWDED = 0.9  # of the capacity in use: time to grow
_TARGET_SECONDS = 0.3  # of a chunk: often enough for a bar, rare enough to cost nothing


class Host:
    """One run: what it is made of, where it is, and what it has kept."""

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        layout: Layout,
        source: Resident | Stream,
        roots: Roots,
        span: tuple[int, int],
        capacity: int | None,
    ):
        if layout.over == "data":
            kernel = with_collective(kernel, plan.comm)
        if layout.over == "chains" and (layout.num_chains or 1) % layout.engine.size:
            raise ValueError(
                f"num_chains must be a multiple of the engine's {layout.engine.size} shards, "
                f"got {layout.num_chains}"
            )
        self.kernel, self.plan, self.layout = kernel, plan, layout
        self.source, self.roots = source, roots
        self.length, self.burn_in = span
        self.origin = self.num_steps = 0
        self.checkpoint: Checkpoint | None = None
        self.capacity: Any = capacity
        self.first_data = layout.put_data(source.first, plan.num_rows)
        self.data = None if plan.streamed else self.first_data
        chains = 0 if layout.num_chains is None else np.arange(layout.num_chains)
        self.chains = layout.put_chains(jnp.asarray(chains, jnp.int32), axis=0)

    # ------------------------------------------------------------------------------- begin

    def start(self, start: Start) -> None:
        """Initialise every chain, or take up a run where it ended."""
        if start.run is not None:
            self._restart(start.run)
            return
        axis = 0 if self.layout.kernels else None
        one_kernel(self.kernel, axis).check(start.one, self.source.first)
        _checks.finite("position", start.value)
        value, self.stacked = start.value, start.stacked
        if self.stacked:
            value = self.layout.put_chains(value, axis=0)
        self.carry, self.template = self._programs().init(
            self._params, value, self.chains, self.first_data, self.roots
        )
        self._plan_slots()
        self._make_room()

    def _restart(self, run: Run) -> None:
        if run.axes != self.layout.axes:
            raise ValueError(
                f"position has the axes {run.axes}, but this run has {self.layout.axes}"
            )
        self.stacked = False
        self.origin = self.num_steps = run.num_steps
        if run.capacity is not None and run.capacity != self.capacity:
            self.kernel, self.capacity = self.kernel.resize(run.capacity), run.capacity
        self.burn_in += self.origin
        self._begin_at(run.state, run.stopped)
        self._make_room()

    def _begin_at(self, state: Any, stopped: Any) -> None:
        """The carry of a state as seen from outside."""
        seen = self.layout.put_chains((state, jnp.asarray(stopped)), int(self.layout.kernels))
        programs = self._programs()
        self.carry, self.template = programs.restart(self._params, *seen, self.first_data)
        self._plan_slots()

    def _plan_slots(self) -> None:
        """As many slots as fit the buffer, seen from the size of one draw of all chains."""
        sizes = [x.nbytes for x in jax.tree.leaves(self.template)]
        slots = int(np.clip(_BUFFER_BYTES // max(sum(sizes), 1), 1, _MAX_SLOTS))
        block = min(slots, _loop.block_length(max(sizes, default=1)))
        self.plan = self.plan._replace(slots=slots, block=block)

    def _make_room(self) -> None:
        """Arrays for all draws to come."""
        num_draws = self._num_kept(self.origin + self.length)
        axis = len(self.layout.axes) - 1
        self.kept = Kept(self.layout.fetch(self.template), num_draws, axis)

    def _num_kept(self, num_steps: int) -> int:
        """The draws kept of all steps up to that one."""
        return max(num_steps - self.burn_in, 0) // self.plan.thin

    @property
    def _params(self) -> PyTree:
        return eqx.filter(self.kernel, eqx.is_array)

    def _programs(self) -> Programs:
        static = eqx.filter(self.kernel, eqx.is_array, inverse=True)
        return programs(Static(static), self.plan, self.layout, self.stacked)

    # ------------------------------------------------------------------------- checkpoints

    def resume(self, checkpoint: Checkpoint) -> None:
        """Save to `checkpoint` from now on, and go on from what is there."""
        self.checkpoint = checkpoint
        found = checkpoint.load()
        saved = 0 if found is None else found[2]["num_steps"]
        if self.layout.engine is not None and not self.layout.engine.agree(saved):
            raise ValueError(
                f"checkpoint {checkpoint.path} must be a folder that all processes share, but "
                f"they found different runs there; this process one of {saved} steps"
            )
        if found is None:
            return
        state, segments, meta = found
        done = meta["num_steps"] - self.origin
        if done > self.length:
            raise ValueError(
                f"num_steps must be at least {done}, the steps in checkpoint {checkpoint.path}, "
                f"got {self.length}"
            )
        if meta["capacity"] is not None and meta["capacity"] != self.capacity:
            self._grow(meta["capacity"])
        carry = jax.tree.unflatten(jax.tree.structure(self.carry), state)
        carry = self.layout.put_chains(carry, axis=int(self.layout.kernels))
        self.carry = self._programs().load(jax.tree.map(jnp.asarray, carry))
        structure = jax.tree.structure(self.template)
        for leaves, at in segments:
            draws = jax.tree.unflatten(structure, leaves)
            self.kept.append(draws, self._num_kept(at["num_steps"]))
        self.num_steps = meta["num_steps"]
        if isinstance(self.source, Stream):
            self.source.skip(self.num_steps)

    def _save(self, segment: PyTree) -> None:
        if self.checkpoint is None:
            return
        carry = self._seen(self.carry)
        meta = {"num_steps": self.num_steps, "capacity": self.capacity}
        if jax.process_index() == 0:
            self.checkpoint.save(carry, segment, meta)

    # --------------------------------------------------------------------------------- run

    def run(self, chunk: int | None, progress: bool | str, on_error: str) -> Run:
        """All steps from where the run is, and what they left."""
        num_steps, begin, end = self.length, self.origin, self.origin + self.length
        length, compiled = chunk or _FIRST_CHUNK, False
        bar = _bar(progress, num_steps, self.num_steps - begin) if progress else None
        try:
            while self.num_steps < end:
                began = time.perf_counter()
                done = self._chunk(min(length, self._longest(), end - self.num_steps))
                if bar is not None:
                    bar.update(done)
                if on_error == "raise":
                    self._raise_stopped()
                if chunk is None and compiled:  # the first chunk's time is the compiler's
                    ratio = _TARGET_SECONDS / max(time.perf_counter() - began, 1e-4)
                    length = max(1, int(done * min(ratio, 8)))
                compiled = True
        except KeyboardInterrupt:
            warnings.warn(
                f"interrupted: {self.num_steps - begin} of {num_steps} steps", stacklevel=3
            )
        except StopIteration:
            warnings.warn(f"the data ended after {self.num_steps - begin} steps", stacklevel=3)
        finally:
            if bar is not None:
                bar.close()
        return self.result()

    def _longest(self) -> int:
        """The most steps whose draws fit the slots, and whose batches fit in memory."""
        before = max(self.burn_in - self.num_steps, 0)
        longest = before + self.plan.slots * self.plan.thin
        if self.plan.reduce is not None:
            longest = _MAX_SLOTS
        return min(longest, self.source.max_batches)

    def _chunk(self, num_steps: int) -> int:
        """One compiled call; the number of steps it made."""
        batches = self.data
        if isinstance(self.source, Stream):
            num_steps, batches = self.source.take(
                self.num_steps, num_steps, self.source.max_batches
            )
            batches = self.layout.put_data(batches, self.plan.num_rows, axis=1)
        span = tuple(np.int32(x) for x in (self.num_steps, num_steps, self.burn_in))
        while True:
            carry, buffers = self._programs().chunk(
                self._params, self.carry, self.chains, batches, self.roots, span
            )
            if not self.layout.fetch(carry.overflow).any():
                break
            self._grow(2 * self.capacity)  # and do the chunk again, from its start, with its keys

        self.carry = carry
        self.num_steps += num_steps
        count = self._num_kept(self.num_steps)
        segment = self.kept.head(self.layout.fetch(buffers), count - self.kept.count)
        self.kept.append(segment, count)
        self._save(segment)
        active = [np.max(slots.active, initial=0) for slots in slot_infos(segment[1])]
        if active and max(active) > _CROWDED * self.capacity:
            self._grow(2 * self.capacity)  # before a chunk is lost to it
        return num_steps

    def _grow(self, capacity: int) -> None:
        """The kernel and every chain's state, with room for `capacity` slots."""
        before, static = self.carry, eqx.filter(self.kernel, eqx.is_array, inverse=True)
        grow = growth(Static(static), self.plan, self.layout, capacity)
        grown = before._replace(state=grow(self._params, before.state, self.first_data))
        seen = self._seen(grown)
        self.kernel, self.capacity = self.kernel.resize(capacity), capacity
        self._begin_at(seen.state, seen.stopped)
        moments = jax.tree.map(lambda x, y: _pad_to(x, y.shape), before.moments, self.carry.moments)
        self.carry = self.carry._replace(info=before.info, moments=moments)
        self.kept.grow(self.layout.fetch(self.template))

    def _seen(self, carry: Carry) -> Carry:
        """The carry as seen from outside."""
        seen = self._programs().unload(carry)
        return seen if self.layout.engine is None else self.layout.fetch(seen)

    def _raise_stopped(self) -> None:
        stopped = self.layout.fetch(self.carry.stopped)
        if np.any(stopped >= 0):
            raise FloatingPointError(_stopped_message(stopped, self.layout.axes))

    def result(self) -> Run:
        """What the run has left so far."""
        carry = self._seen(self.carry)
        stopped = np.asarray(carry.stopped)
        if np.any(stopped >= 0):
            warnings.warn(_stopped_message(stopped, self.layout.axes), stacklevel=4)
        if self.plan.reduce is not None:
            trace, info = jax.tree.map(np.asarray, (carry.moments, carry.info))
        else:
            trace, info = self.kept.result()
            info = RunInfo(self._finite(stopped), info)
        axes = self.layout.axes
        return Run(trace, info, carry.state, stopped, self.num_steps, axes, self.capacity)

    def _finite(self, stopped: np.ndarray) -> np.ndarray:
        """Whether each chain was still finite at each kept draw."""
        made = self.burn_in + (np.arange(self.kept.count) + 1) * self.plan.thin
        return (stopped[..., None] < 0) | (made <= stopped[..., None])


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


def _pad_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` with zeros appended up to `shape`: growth only appends slots."""
    padding = [(0, b - a) for a, b in zip(x.shape, shape, strict=True)]
    return np.pad(x, padding) if any(after for _, after in padding) else x


def _stopped_message(stopped: np.ndarray, axes: tuple[str, ...]) -> str:
    flat = np.atleast_1d(stopped)
    where = tuple(int(i) for i in np.argwhere(flat >= 0)[0])
    names = axes[:-1] or ("chain",)
    first = ", ".join(f"{name} {i}" for name, i in zip(names, where, strict=True))
    return (
        f"{int(np.sum(flat >= 0))} of {flat.size} chains became non-finite; {first} at step "
        f"{int(flat[where])}: its step size may be too large"
    )


def _bar(progress: bool | str, total: int, done: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from error
    title = progress if isinstance(progress, str) else None
    return tqdm(total=total, initial=done, unit="step", desc=title)
