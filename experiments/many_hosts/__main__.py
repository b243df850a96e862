"""A mixture on the devices of many hosts: starts processes, and says so when one has died."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import agent


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.many_hosts", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="a folder all hosts share")
    parser.add_argument("--of", type=int, default=1, help="the number of processes")
    parser.add_argument("--process", type=int, help="the one to start here; by default all")
    parser.add_argument("--coordinator", help="HOST:PORT of process 0; by default on this machine")
    parser.add_argument("--devices", type=int, help="virtual CPU devices for each process")
    parser.add_argument("--patience", type=int, default=20, help="seconds a host may be silent")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--chunk", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file for the trace, from process 0")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.process is not None and not 0 <= options.process < options.of:
        parser.error(f"--process must be one of 0 ... {options.of - 1}, got {options.process}")
    if options.process is not None and options.coordinator is None:
        parser.error("--process needs --coordinator, alike for all")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it all."""
    options = parse(arguments)
    return agent.watch(options) if options.worker is None else agent.work(options)


if __name__ == "__main__":
    sys.exit(main())
