"""The fourth problem of `choosing`, by chains that are long enough for errors."""

from __future__ import annotations

from collections.abc import Iterator

from ..common import Options, table
from .choosing import HEADER, kernels, lines

SIZE = 2_000, 8, 5
TIMES = 40, 24, 12, 3  # steps of each kernel, in the order of `choosing`: as many hundreds


def run(options: Options) -> Iterator[str]:
    """A table."""
    size = SIZE if options.full else (200, *SIZE[1:])
    samplers = {
        name: (kernel, times)
        for times, (name, (kernel, _)) in zip(TIMES, kernels(*size[:2]).items())
    }
    yield table(HEADER, lines(options.key, size, samplers, 100 if options.full else 10))
