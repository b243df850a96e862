"""Tables of timings against their bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .timing import Timing, ratio

_UNITS = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}


class Line(NamedTuple):
    """One case: what it is compared with, and the largest ratio to others that its bar allows."""

    case: str
    floor: str | None = None
    peer: str | None = None
    bars: Mapping[str, float] = {}


class Table(NamedTuple):
    """A suite's result: rows of text under a title."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"## {self.title}\n\n{self.note}\n\n{body}\n"


def compare(
    title: str, note: str, unit: str, per: str, timings: Mapping[str, Timing], lines: Sequence[Line]
) -> Table:
    """The table of timed cases, one line each, in `unit` per `per`."""
    header = [
        "case",
        f"{unit} / {per}",
        "/ its floor (quartiles)",
        "/ peer",
        "bar",
        "met",
        "compile s",
    ]
    return Table(title, note, header, [_row(line, timings, _UNITS[unit]) for line in lines])


def plain(case: str, value: str, bar: str, met: bool) -> list[str]:
    """A row of a suite that counts instead of timing."""
    return [case, value, bar, _yes(met)]


def _row(line: Line, timings: Mapping[str, Timing], scale: float) -> list[str]:
    own = timings[line.case]
    floor = "" if line.floor is None else str(ratio(own, timings[line.floor]))
    peer = "" if line.peer is None else f"{ratio(own, timings[line.peer]).median:.2f}"
    measured = {name: ratio(own, timings[name]).median for name in line.bars}
    bar = "; ".join(
        f"<= {limit:.3g} x {name}: {measured[name]:.2f}" for name, limit in line.bars.items()
    )
    met = all(measured[name] <= limit for name, limit in line.bars.items())
    time = f"{own.median * scale:.3g}"
    verdict = _yes(met) if line.bars else ""
    return [line.case, time, floor, peer, bar, verdict, f"{own.compile_seconds:.2f}"]


def _yes(met: bool) -> str:
    return "yes" if met else "**no**"
