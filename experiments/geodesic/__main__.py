"""Sampling on manifolds: circles, frames, covariances and trees, with tables and pictures."""

from __future__ import annotations

from ..common import main

PARTS = (
    "circle",
    "two_means",
    "components",
    "covariance",
    "tree",
    "sphere",
    "topics",
    "abstracts",
    "against_lda",
)

if __name__ == "__main__":
    raise SystemExit(main(PARTS, __package__, __doc__))
