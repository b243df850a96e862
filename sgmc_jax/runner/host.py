"""The host's side of a run: chunk after chunk, draws kept and saved, errors told."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..advice import remarks
from ..arrays import over_rows
from ..checkpoint import Checkpoint
from ..contract import slot_infos
from ..run import Moments, Run, RunInfo
from ..transformed import holds_supports
from .chains import Chains, as_saved
from .draws import Draws
from .keys import require_key_data
from .made_with import MadeWith
from .plan import record_position
from .processes import Processes
from .stream import Resident, Stream

_FIRST_CHUNK = 64
_CROWDED = 0.9  # of the capacity in use: time to grow
_TARGET_SECONDS = 0.3  # of a chunk: often enough for a bar, rare enough to cost nothing


class Host:
    """One run: its chains, the data they are fed, and what has been kept of them.

    Args:
        chains: all chains, begun.
        source: the data.
        processes: those that make the run together.
        origin: the steps made by an earlier run that this one goes on from.
        length: the steps to make.
        burn_in: those of them that are not kept.
        made_with: what the run remembers of kernel and data.
    """

    def __init__(
        self,
        chains: Chains,
        source: Resident | Stream,
        processes: Processes,
        origin: int,
        length: int,
        burn_in: int,
        made_with: MadeWith,
    ):
        self.made_with, self.processes = made_with, processes
        self.chains, self.source = chains, source
        self.origin = self.num_steps = origin
        self.length, self.burn_in = int(length), origin + int(burn_in)
        self.checkpoint: Checkpoint | None = None
        num_draws = self._num_kept(origin + self.length)
        axis = len(chains.layout.axes) - 1
        self.draws = Draws(chains.layout.fetch(chains.template), num_draws, axis)

    def _num_kept(self, num_steps: int) -> int:
        """The draws kept of all steps up to that one."""
        return max(num_steps - self.burn_in, 0) // self.chains.plan.thin

    # ------------------------------------------------------------------------- checkpoints

    def resume(self, checkpoint: Checkpoint) -> None:
        """Save to `checkpoint` from now on, and go on from what is there."""
        require_key_data(self.chains.carry.state)
        self.checkpoint, found = checkpoint, self.processes.together(checkpoint.load)
        saved = 0 if found is None else found[2]["num_steps"]
        if not self.processes.alike(saved):
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
        if meta["capacity"] is not None and meta["capacity"] != self.chains.capacity:
            self.chains.grow(meta["capacity"])
            self._make_room()
        self.chains.load(state)
        kinds, structure = jax.tree.flatten(self.chains.template)
        for leaves, at in segments:
            pairs = zip(leaves, kinds, strict=True)
            draws = jax.tree.unflatten(structure, [as_saved(x, like) for x, like in pairs])
            count = self._num_kept(at["num_steps"])
            self.draws.fill(draws, count)
            self.draws.count = count
        self.num_steps = meta["num_steps"]
        if isinstance(self.source, Stream):
            self.processes.together(partial(self.source.skip, done))

    def _save(self, segment: PyTree) -> None:
        carry = None if self.checkpoint is None else self.chains.seen()
        meta = {"num_steps": self.num_steps, "capacity": self.chains.capacity}

        def write() -> None:
            if self.checkpoint is not None and self.processes.first:
                self.checkpoint.save(carry, segment, meta)

        self.processes.together(write)

    # --------------------------------------------------------------------------------- run

    def run(self, chunk: int | None, progress: bool | str, on_error: str) -> Run:
        """All steps from where the run is, and what they left."""
        num_steps, begin, end = self.length, self.origin, self.origin + self.length
        length, compiled = int(chunk or _FIRST_CHUNK), False
        if on_error == "raise":  # also of a checkpoint whose chain has stopped
            self._raise_stopped()
        bar = _bar(self.processes.first and progress, num_steps, self.num_steps - begin)
        try:
            with self.processes.interrupts():
                while self.num_steps < end:
                    began = time.perf_counter()
                    done = self._chunk(min(length, self._longest(), end - self.num_steps))
                    if bar is not None:
                        bar.update(done)
                    if on_error == "raise":
                        self._raise_stopped()
                    if chunk is None and compiled:  # the first chunk's time is the compiler's
                        wanted = _wanted(length, done, time.perf_counter() - began)
                        length = self.processes.least(wanted)
                    compiled = True
        except KeyboardInterrupt:
            if not self.processes.agreed:
                raise
            warnings.warn(
                f"interrupted: {self.num_steps - begin} of {num_steps} steps", stacklevel=3
            )
        except StopIteration:
            warnings.warn(f"the data ended after {self.num_steps - begin} steps", stacklevel=3)
        except Exception as error:  # of the data's reader, or a chain that shall raise
            _leave_drawn(self, error)
            raise
        finally:
            for open_one in (bar, self.checkpoint):
                if open_one is not None:
                    open_one.close()
        return self.result()

    def _longest(self) -> int:
        """The most steps whose draws fit the buffers, and whose batches fit in memory."""
        before = max(self.burn_in - self.num_steps, 0)
        reduced = self.chains.plan.reduce is not None
        longest = self.chains.max_steps + (0 if reduced else before)
        return min(longest, self.source.max_batches)

    def _chunk(self, num_steps: int) -> int:
        """One compiled call; the number of steps it made."""
        chains, capacity, batches = self.chains, self.chains.capacity, self.chains.first_data
        if isinstance(self.source, Stream):
            wanted = self.num_steps, num_steps, self.source.max_batches
            num_steps, batches = self.processes.together(partial(self.source.take, *wanted))
            num_steps = self.processes.least(num_steps)  # where the data of one end before others'
            batches = chains.layout.put_data(batches, chains.plan.num_rows, axis=1)
        carry, buffers = chains.advance((self.num_steps, num_steps, self.burn_in), batches)
        if chains.capacity != capacity:
            self._make_room()

        made = self.num_steps + num_steps
        count = self._num_kept(made)
        segment = self.draws.head(buffers, count - self.draws.count)
        self.draws.fill(segment, count)
        # without a call between, so that Ctrl-C comes before all or after
        chains.carry, self.num_steps, self.draws.count = carry, made, count
        self._save(segment)
        if self.num_steps < self.origin + self.length and self._crowded(segment[1]):
            chains.grow(2 * chains.capacity)  # before a chunk is lost to it
            self._make_room()
        return num_steps

    def _crowded(self, info: Any) -> bool:
        """Whether a chain that goes on has hardly a slot left."""
        infos, most = slot_infos(info), 0
        if not infos:
            return False
        going = self.chains.stopped() < 0
        for slots in infos:
            ahead = over_rows(going, slots.active)
            most = max(most, int(np.max(np.where(ahead, slots.active, 0), initial=0)))
        return most > _CROWDED * self.chains.capacity

    def _make_room(self) -> None:
        """Room for draws with as many slots as the chains have now."""
        self.draws.grow(self.chains.layout.fetch(self.chains.template))

    # ------------------------------------------------------------------------------ result

    def _raise_stopped(self) -> None:
        stopped = self.chains.stopped()
        if np.any(stopped >= 0):
            self.processes.agreed = True  # all see the same chains
            raise FloatingPointError(_stopped_message(self, stopped))

    def result(self) -> Run:
        """What the run has left so far."""
        carry, axes = self.chains.seen(), self.chains.layout.axes
        stopped = np.asarray(carry.stopped)
        if np.any(stopped >= 0):
            warnings.warn(_stopped_message(self, stopped), stacklevel=4)
        positions, each = self.chains.plan.record is record_position, self.chains.plan.thin
        if self.chains.plan.reduce is not None:
            trace, info = jax.tree.map(np.asarray, (carry.moments.moments, carry.info))
            trace = _of_draws(trace)
            each = max(1, self.num_steps - self.burn_in)
        else:
            self._make_room()  # where an interrupt came just after chains had grown
            trace, info = self.draws.result()
            info = RunInfo(self._finite(stopped), info)
        for remark in remarks(info.kernel, axes, each):
            warnings.warn(remark, stacklevel=4)
        return Run(
            trace,
            info,
            carry.state,
            stopped,
            self.num_steps,
            axes,
            self.chains.capacity,
            begun=self.origin,
            made_with=self.made_with,
            slotted=self.chains.slotted(),
            thin=self.chains.plan.thin,
            unconstrained=positions and holds_supports(self.chains.kernel),
        )

    def _finite(self, stopped: np.ndarray) -> np.ndarray:
        """Whether each chain was still finite at each kept draw."""
        made = self.burn_in + (np.arange(self.draws.count) + 1) * self.chains.plan.thin
        return (stopped[..., None] < 0) | (made <= stopped[..., None])


def _wanted(length: int, done: int, seconds: float) -> int:
    """The length of the next chunk, if `done` steps of one of `length` took this long.

    It stays as it is where it is nearly right: of a stream as many batches have been read ahead.
    """
    wanted = max(1, int(done * min(_TARGET_SECONDS / max(seconds, 1e-4), 8)))
    return length if 2 * length < 3 * wanted < 5 * length else wanted


def _stopped_message(host: Host, stopped: np.ndarray) -> str:
    flat = np.atleast_1d(stopped)
    where = tuple(int(i) for i in np.argwhere(flat >= 0)[0])
    names = host.chains.layout.axes[:-1] or ("chain",)
    first = ", ".join(f"{name} {i}" for name, i in zip(names, where, strict=True))
    why = ": its step size may be too large"
    if host.chains.capacity is not None:  # a kernel of items and slots, of which few have one
        why = ": an item may be outside of its law, in this precision, or a step size too large"
    if flat[where] < host.origin:
        why = " of an earlier run, and stays so: give its position as a start"
    elif isinstance(host.source, Stream):  # of which the first batch alone has been looked at
        why += ", or its batch unfit"
    return (
        f"{int(np.sum(flat >= 0))} of {flat.size} chains became non-finite; {first} at step "
        f"{int(flat[where])}{why}"
    )


def _of_draws(moments: Moments) -> Moments:
    """Without a mean and a variance where no draw counts."""
    nothing = moments.weight == 0

    def told(x: np.ndarray) -> np.ndarray:
        x = np.array(x)
        x[nothing] = np.nan
        return x

    mean, variance = jax.tree.map(told, (moments.mean, moments.variance))
    return Moments(mean, variance, moments.weight)


def _leave_drawn(host: Host, error: Any) -> None:
    """Let an exception tell what was drawn before it, if no process is left to wait for."""
    done = host.num_steps - host.origin
    if done and host.processes.agreed:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error.run = host.result()
            error.add_note(f"the {done} steps before it are in its `run`")


def _bar(progress: bool | str, total: int, done: int) -> Any:
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from error
    title = progress if isinstance(progress, str) else None
    return tqdm(total=total, initial=done, unit="step", desc=title)
