"""The thread that reads a stream's batches while steps are made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import jax

if hasattr(jax, "enable_x64"):  # jax >= 0.8
    _enable_x64 = jax.enable_x64
else:
    from jax.experimental import enable_x64 as _enable_x64  # type: ignore

# one thread for all runs, since a new one each would leave its memory behind; who finds it at work
# reads by itself
_READER, _FREE = ThreadPoolExecutor(1), Lock()


def read_ahead(read: Callable, *args: Any) -> Future | None:
    """`read` of these arguments in the thread, or `None` where it is at work.

    What JAX's context managers set is of a thread: precision and device are the caller's.
    """
    config: Any = jax.config
    x64, device = config.jax_enable_x64, config.jax_default_device
    if not _FREE.acquire(blocking=False):
        return None

    def in_context() -> Any:
        with _enable_x64(x64), jax.default_device(device):
            return read(*args)

    future = _READER.submit(in_context)
    future.add_done_callback(lambda _: _FREE.release())
    return future
