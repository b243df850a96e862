"""Problems of `choosing`, and one like them, by chains that are long enough for errors."""

from __future__ import annotations

from collections.abc import Iterator

from ..common import Options, table
from .choosing import HEADER, Size, kernels, lines

# steps of each kernel, in the order of `choosing`: as many hundreds
PROBLEMS = {
    Size(200, 8, 5): (200, 500, 50, 100),
    Size(200, 32, 12, noise=2.5): (200, 500, 50, 100),
    Size(2_000, 8, 5): (40, 240, 24, 30),
}


def run(options: Options) -> Iterator[str]:
    """A table."""
    rows: list[list[str]] = []
    for size, times in list(PROBLEMS.items())[: None if options.full else 1]:
        samplers = {
            name: (kernel, own) for own, (name, (kernel, _)) in zip(times, kernels(size).items())
        }
        rows += lines(options.key, size, samplers, 100 if options.full else 2)
        yield table(HEADER, rows)
