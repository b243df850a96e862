"""Stochastic gradient MCMC as reviewed by Nemeth and Fearnhead, with tables and pictures."""

from __future__ import annotations

from ..common import main

PARTS = ("figure1", "table2", "tuner", "mnist", "movielens", "ion_channel", "volatility")

if __name__ == "__main__":
    raise SystemExit(main(PARTS, __package__, __doc__))
