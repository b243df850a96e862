"""Distributed, partially collapsed samplers on synthetic and real data: tables and pictures."""

from __future__ import annotations

from ..common import main

PARTS = ("schedules", "dimensions", "warm", "cambridge", "cifar", "speedup", "faces", "topics")

if __name__ == "__main__":
    raise SystemExit(main(PARTS, __package__, __doc__))
