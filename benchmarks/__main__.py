"""The command `python -m benchmarks [--suite a,b,...] [--quick] [--out FILE]`."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Iterable
from pathlib import Path

_SUITES = (
    "a",
    "b",
    "c",
    "d",
    "e",
    "mixture",
    "clusters",
    "features",
    "slices",
    "geodesic",
    "topics",
    "compile",
    "memory",
    "memmap",
    "gpu",
)
_LARGE = "memmap"  # on disk, and named where it is wanted
_QUICK, _WHOLE = (0.05, 3), (1.0, 9)  # the share of the work, and the rounds
_OUT = Path(__file__).parent / "output.md"
_INTRO = """# Benchmarks

Written by `python -m benchmarks{arguments}`.

Each round times every case once, in turn; a figure is the median over {rounds} rounds, a ratio the
median of the rounds' ratios, with its quartiles. {clock} `sample` is timed with
all that a user gets: the trace as numpy arrays, the infos, the guard against non-finite chains.
Floors keep every position too. The seconds of the first call beyond the median one, mostly
compilation, stand apart.

{machine}
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the suites, print their tables and write them to a file."""
    options = _options(arguments)
    if not options.all_cores and hasattr(os, "sched_setaffinity"):
        # one core, so that CPU time is not spent on threads that wait for each other
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    importlib.import_module("sgmc_jax")  # tells XLA how to compile, which JAX must not have begun
    scale, rounds = _QUICK if options.quick else _WHOLE
    report = [_INTRO.format(arguments=_spelled(options), rounds=rounds, **_where())]
    print(report[0], flush=True)
    for name in options.suite.split(",") if options.suite else _default_suites():
        for table in run_suite(name, scale, rounds):
            print(table, flush=True)
            report.append(str(table))
            if options.out:  # what is known so far
                Path(options.out).write_text("\n".join(report))
    return 0


def run_suite(name: str, scale: float, rounds: int, **sizes: int) -> Iterable:
    """The tables of one suite; of several, one after the other."""
    if name not in _SUITES:
        raise ValueError(f"suite must be one of {', '.join(_SUITES)}, got {name!r}")
    return importlib.import_module(f".suite_{name}", __package__).run(scale, rounds, **sizes)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--suite", default="", help=f"a list of {','.join(_SUITES)}")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the work, 3 rounds")
    parser.add_argument("--out", default=None, help="the file to write; output.md for a full run")
    parser.add_argument("--all-cores", action="store_true", help="do not pin to one core")
    options = parser.parse_args(arguments)
    for name in filter(None, options.suite.split(",")):
        if name not in _SUITES:
            parser.error(f"suite must be some of {', '.join(_SUITES)}, got {name!r}")
    if options.out is None and not options.quick and not options.suite:
        options.out = str(_OUT)
    if options.out:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    return options


def _spelled(options: argparse.Namespace) -> str:
    words = [f" --suite {options.suite}" if options.suite else ""]
    words += [
        f" --{name.replace('_', '-')}" for name in ("quick", "all_cores") if options.__dict__[name]
    ]
    return "".join(words)


def _default_suites() -> list[str]:
    import jax

    asked = {_LARGE} if jax.default_backend() == "gpu" else {_LARGE, "gpu"}
    return [name for name in _SUITES if name not in asked]


def _where() -> dict[str, str]:
    """Which machine this is, and which clock its figures are by."""
    import jax

    on_cpu = jax.default_backend() == "cpu"
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("jax", "jaxlib", "blackjax", "numpy")
        if importlib.util.find_spec(name)  # a suite has not all peers
    )
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    kind = _cpu_model() if on_cpu else jax.devices()[0].device_kind
    clock = "Time is the process's CPU time." if on_cpu else "Time is the wall clock's."
    return {
        "clock": clock,
        "machine": f"{versions}; Python {platform.python_version()}; {kind}, "
        f"{os.cpu_count()} cores of which {usable} used.",
    }


def _cpu_model() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    raise SystemExit(main())
