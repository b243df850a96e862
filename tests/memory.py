"""What a process holds."""

import contextlib
import ctypes
import gc
import os
from pathlib import Path

_STATM = Path("/proc/self/statm")


def held() -> float:
    """Resident memory in MiB, once the allocator has given back what is free."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # of another C library than GNU's
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return resident()


def installed() -> float:
    """The machine's memory in MiB; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (ValueError, OSError, AttributeError):
        return 0.0


def resident() -> float:
    """Resident memory in MiB; 0 where the system does not tell."""
    if not _STATM.exists():
        return 0.0
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
