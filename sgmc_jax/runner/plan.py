"""What is static in a run, and what one chain carries through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array

from .._types import Position
from ..collective import Collective


def record_position(state: Any, info: Any) -> Position:
    """What `sample` keeps by default: the position."""
    return state.position


class Plan(NamedTuple):
    """What is static in a run."""

    record: Callable
    reduce: Any  # a function or None
    thin: int
    slots: int  # of the buffers that a chunk fills
    block: int  # steps whose keys are derived, and whose draws are written, at once
    # whether they are compiled apart from a last one of fewer steps: a GPU is asked after each step
    # of a loop of unknown length whether it was the last
    whole_blocks: bool
    impl: str
    share_batch: bool
    streamed: bool
    num_items: Any  # an int, or None where there is no data
    num_rows: Any  # of a shard, padding included
    has_slots: bool  # whether the runner can make room for more
    comm: Collective

    @property
    def settings(self) -> dict[str, Any]:
        """What must agree for a run to be continued, by name: devices may be others."""
        names = "record", "reduce", "thin", "share_batch"
        told = {name: getattr(self, name) for name in names}
        return told | {"kind of key": self.impl, "streamed data": self.streamed}


class Carry(NamedTuple):
    """What one chain carries from step to step.

    `stopped` is the step at which the chain turned non-finite, or -1; `overflow` whether a step ran
    out of slots; `info` the average since the last kept draw; `moments` those of `reduce`.
    """

    state: Any
    stopped: Array
    overflow: Array
    info: Any
    moments: Any
