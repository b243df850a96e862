"""Distributed, partially collapsed samplers on synthetic and real data: tables and pictures."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

import jax

from .common import Options

PARTS = ("schedules", "dimensions", "warm", "cambridge", "cifar", "speedup", "faces", "topics")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.distributed_bnp", description=__doc__
    )
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all if none")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("SGMC_JAX_DATA", "data"))
    )
    given = parser.parse_args(arguments)
    for part in given.parts:
        if part not in PARTS:
            parser.error(f"parts must be some of {', '.join(PARTS)}, got {part!r}")
    given.out.mkdir(parents=True, exist_ok=True)
    key = jax.random.key(given.seed)
    options = Options(key, given.size == "full", given.data_dir, given.out)
    for part in given.parts or PARTS:
        text = importlib.import_module(f".{part}", __package__).run(options)
        (given.out / f"{part}.md").write_text(text)
        print(f"## {part}\n\n{text}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
