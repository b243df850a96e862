"""What the processes of a run settle among them: each must make the same calls, in one order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import jax
import numpy as np

from ..checkpoint import fingerprint
from ..engines import Engine

T = TypeVar("T")
_OTHERS = "num_steps, chunk, on_error, checkpoint, chains_at_once, kernel_axis or engine"
_WELL, _ENDED, _INTERRUPTED, _FAILED = range(4)


class Processes:
    """The processes that hold an engine's shards; of a run without an engine, this one alone.

    Every method is called by all of them at the same point, where they wait for one another. One
    that failed alone would leave the others waiting for ever, so errors are settled too.

    Args:
        engine: an engine, or `None`.

    Attributes:
        agreed: whether the last error was raised on all processes, who may then still fetch
            results together.

    Raises:
        ValueError: if the engine has no shard on this process.
    """

    def __init__(self, engine: Engine | None):
        here = jax.process_index()
        held = frozenset({here}) if engine is None else engine.processes
        if here not in held:
            raise ValueError(
                "engine must have a device of every process that calls sample, got none of process "
                f"{here}, but of {sorted(held)}"
            )
        self.several, self.first = len(held) > 1, here == min(held)
        self._engine, self._interrupted, self.agreed = engine, False, not self.several

    def least(self, number: int) -> int:
        """The least of the numbers that they have."""
        return int(min(self._numbers(number)))

    def alike(self, number: int) -> bool:
        """Whether all have the same number."""
        return len(self._numbers(number)) == 1

    def require_same(self, prints: dict[str, str], *others: object) -> None:
        """Raise unless all have the same digests of what a run is made of, and other arguments."""
        parts = prints | fingerprint(**{_OTHERS: others})
        other = [name for name in parts if not self.alike(int(parts[name][:7], 16))]
        if other:
            raise ValueError(
                f"processes must call sample with the same arguments, but have another "
                f"{', '.join(other)}; rows that each has for itself become one array by "
                "jax.make_array_from_process_local_data"
            )

    def together(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns; if it fails on one, all raise: it its own error, others its kind.

        Here all stop, too, where one was interrupted.
        """
        if not self.several:
            return attempt()
        made, error = None, KeyboardInterrupt() if self._interrupted else None
        try:
            made = attempt()
        except Exception as own:
            error = own
        worst = -self.least(-_kind(error))
        self.agreed = worst != _WELL
        if error is not None or self.agreed:
            raise error or _of_another(worst)
        return made  # type: ignore[return-value]

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """Let Ctrl-C wait for the others, up to the next `together`; a second one does not."""
        ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)  # of another language
        main = threading.current_thread() is threading.main_thread()
        if not self.several or ignored or not main:
            yield
            return

        def later(*_: object) -> None:
            signal.signal(signal.SIGINT, before)
            self._interrupted = True

        before = signal.signal(signal.SIGINT, later)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _numbers(self, number: int) -> np.ndarray:
        """The different numbers that the processes have."""
        if not self.several or self._engine is None:
            return np.array([number])
        engine = self._engine
        numbers = _gather(engine)(engine.put(np.full(engine.size, number, np.int32)))
        return np.unique(engine.fetch(numbers, None))


def _kind(error: BaseException | None) -> int:
    if error is None:
        return _WELL
    kinds = {StopIteration: _ENDED, KeyboardInterrupt: _INTERRUPTED}
    return kinds.get(type(error), _FAILED)


def _of_another(kind: int) -> BaseException:
    failed = RuntimeError("another process of this run has failed, and says at what")
    return {_ENDED: StopIteration(), _INTERRUPTED: KeyboardInterrupt(), _FAILED: failed}[kind]


@lru_cache(maxsize=8)
def _gather(engine: Engine) -> Callable:
    """Numbers of all shards, compiled once."""
    return engine.map(engine.comm.gather, (0,))
