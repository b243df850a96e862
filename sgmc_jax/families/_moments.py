"""Counts, sums and squares of items: the sufficient statistics of several families."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..arrays import product
from ._counts import by_size
from ._inputs import check_counts, check_sums_of_counts, row, rows
from .family import Family


class FirstMoments(NamedTuple):
    """Counts of items (K,) and sums over them (K, D), of which some prior mean was subtracted."""

    count: Float[Array, "*k"]
    total: Float[Array, "*k d"]


class SecondMoments(NamedTuple):
    """Counts (K,), sums (K, D), and sums of squares (K, D) or of outer products (K, D, D)."""

    count: Float[Array, "*k"]
    total: Float[Array, "*k d"]
    square: Float[Array, "*k d"] | Float[Array, "*k d d"]


def first_moments(weights: Float[Array, "k n"], x: Float[Array, "n d"]) -> FirstMoments:
    """Weighted counts and sums of rows."""
    weights = weights.astype(x.dtype)
    return FirstMoments(weights.sum(1), product(weights, x))


class CountVectors(Family):
    """A family of vectors of counts, whose statistics are their number and their sum."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The length of a vector."""

    @abstractmethod
    def log_base_of_deviances(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """What `scores` leave out of rows of large counts."""

    def loglik(self, params: Any, items: Any) -> Float[Array, "k n"]:
        x = rows(items, self.size)
        large, small = lambda: self.log_base_of_deviances(x), lambda: self.log_base(x)
        return self.scores(params, x) + by_size(x, large, small)

    def check(self, data: Any) -> None:
        check_counts(data, self.size)

    def check_marginals(self, data: Any) -> None:
        check_sums_of_counts(data)

    def statistics(self, items: Any, weights: Float[Array, "k n"]) -> FirstMoments:
        return first_moments(weights, rows(items, self.size))

    def item_statistics(self, item: Any) -> FirstMoments:
        x = row(item, self.size)
        return FirstMoments(jnp.ones((), x.dtype), x)
