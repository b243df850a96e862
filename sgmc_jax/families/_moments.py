"""Counts, sums and squares of items: the sufficient statistics of several families."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float

from ..arrays import product


class FirstMoments(NamedTuple):
    """Counts of items (K,) and sums over them (K, D), of which some prior mean was subtracted."""

    count: Array
    total: Array


class SecondMoments(NamedTuple):
    """Counts (K,), sums (K, D), and sums of squares (K, D) or of outer products (K, D, D)."""

    count: Array
    total: Array
    square: Array


def first_moments(weights: Array, rows: Float[Array, "n d"]) -> FirstMoments:
    """Weighted counts and sums of rows."""
    weights = weights.astype(rows.dtype)
    return FirstMoments(weights.sum(1), product(weights, rows))
