"""Stochastic gradient MCMC as reviewed by Nemeth and Fearnhead, with tables and pictures."""

from __future__ import annotations

from importlib.util import find_spec

from ..common import main

ALL = ("figure1", "table2", "mnist", "movielens", "ion_channel", "volatility", "dependent_data")
PARTS = tuple(name for name in ALL if find_spec(f"{__package__}.{name}"))

if __name__ == "__main__":
    raise SystemExit(main(PARTS, __package__, __doc__))
