"""Figures of the SCIR paper: Dirichlet posteriors, a mixture of web visits, topics."""

from __future__ import annotations

from ..common import main
from .topics import add_arguments

PARTS = ("dirichlet", "msweb", "topics")
SIZES = ("small", "medium", "full")  # medium is of topics alone: the others run at full size

if __name__ == "__main__":
    raise SystemExit(main(PARTS, __package__, __doc__, sizes=SIZES, add=add_arguments))
