"""Slice sampling of completely random measures: tables and pictures."""

from __future__ import annotations

from ..common import main

PARTS = ("images", "features", "truncation", "choosing", "longer", "documents")

if __name__ == "__main__":
    raise SystemExit(main(PARTS, __package__, __doc__))
