"""Categories, with a Dirichlet prior: words under topics."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import _checks
from .._returned import describe, dtype_of
from ..arrays import as_indices
from ._from_data import shared_concentration
from ._moments import FirstMoments
from .dirichlet_multinomial import DirichletFamily, Multinomials
from .family import cast, gained_less_lost


class Urns(NamedTuple):
    """Concentrations (K, V), and their sums (K,)."""

    concentration: Float[Array, "k v"]
    total: Float[Array, " k"]


class DirichletCategorical(DirichletFamily):
    """Categories, with a Dirichlet prior.

        x | p ~ Categorical(p),   p ~ Dirichlet(alpha)

    It is the `DirichletMultinomial` of single draws, whose items are indices and no vectors: the
    tokens of a corpus. With c_v the number of a cluster's items in category v, the predictive
    probability of v is (alpha_v + c_v) / (A + C), A and C being the sums. The statistics are the
    count of items and c.

    Args:
        concentration: alpha > 0, of shape (V,), or a number with `size`.
        size: V, the number of categories, where the concentration is a number.

    Raises:
        ValueError: a shape does not fit, or a concentration is not positive.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> family = DirichletCategorical(0.5, size=3)
        >>> stats = family.statistics(jnp.array([0, 0, 2]), jnp.ones((1, 3)))
        >>> stats.total.tolist()
        [[2.0, 0.0, 1.0]]
        >>> family.log_predictive(stats, jnp.array(0)).tolist()  # log(2.5 / 4.5)
        [-0.58779]

    Reference:
        Minka (2012), Estimating a Dirichlet distribution, section 3.
    """

    def __init__(self, concentration: Any, size: int | None = None):
        super().__init__(concentration, size)

    @classmethod
    def from_data(
        cls, data: Any, *, topics: float = 20.0, size: int | None = None
    ) -> DirichletCategorical:
        """A prior from all items: topics that have a share of the words that all of them have.

        A corpus whose words have the entropy H is as varied as one of e^H words alike. Each topic
        is expected to be as varied as one of e^H / K of them: with a symmetric prior, eta is such
        that a draw of V probabilities has the mean entropy

            digamma(V eta + 1) - digamma(eta + 1) = max(H - log K, H / 2).

        Args:
            data: all items: category indices, or `Groups` of them.
            topics: K > 0, about how many clusters are expected, of which one may use all.
            size: V; by default the largest index and one.

        Raises:
            ValueError: if the data are no indices below V, or have one category alone.

        Example:
            >>> import numpy as np
            >>> family = DirichletCategorical.from_data(np.arange(1000), topics=20)
            >>> family.size, round(float(family.concentration[0]), 4)
            (1000, 0.0289)

        Reference:
            Wallach, Mimno and McCallum (2009), Rethinking LDA: why priors matter, for a symmetric
            prior of topics; Wolpert and Wolf (1995), Estimating functions of probability
            distributions from a finite set of samples, for the mean entropy.
        """
        number = float(_checks.one_number("topics", topics))
        _checks.positive("topics", number)
        if size is not None:
            _checks.whole("size", size)
        counts = np.bincount(_tokens(data), minlength=size or 0)
        family = cls(1.0, size=len(counts) if size is None else size)
        family.check(np.array([0, len(counts) - 1]))
        return cls(shared_concentration(counts, number), size=family.size)

    def statistics(self, items: Any, weights: Float[Array, "k n"]) -> FirstMoments:
        zeros = jnp.zeros((weights.shape[0], self.size), weights.dtype)
        return FirstMoments(weights.sum(1), zeros.at[:, self._of(items)].add(weights))

    def label_statistics(self, items: Any, labels: Int[Array, " n"], capacity: int) -> FirstMoments:
        place = jnp.where(labels < 0, capacity, labels)
        # whole numbers, as one more than 2^24 is 2^24 in float32, and so for ever
        whole = jnp.zeros((capacity, self.size), jnp.int32)
        whole = whole.at[place, self._of(items)].add(1, mode="drop")
        total = whole.astype(self.concentration.dtype)
        return FirstMoments(total.sum(1), total)

    def moved_statistics(
        self, items: Any, old: Int[Array, " n"], new: Int[Array, " n"], capacity: int
    ) -> FirstMoments:
        return gained_less_lost(self, items, old, new, capacity)

    def item_statistics(self, item: Any) -> FirstMoments:
        x = (jnp.arange(self.size) == self._of(item)).astype(self.concentration.dtype)
        return FirstMoments(jnp.ones((), x.dtype), x)

    def move(
        self,
        stats: FirstMoments,
        predictive: Urns,
        k: Int[Array, ""],
        count: Int[Array, ""],
        item: Any,
        sign: Any,
    ) -> tuple[FirstMoments, Urns]:
        own, item = cast(self, stats.total).concentration, self._of(item)
        total = stats.total.at[k, item].add(sign)
        # from whole numbers, which are exact, and not by adding to what has been rounded
        concentration = predictive.concentration.at[k, item].set(own[item] + total[k, item])
        size = predictive.total.at[k].set(own.sum() + count)
        return FirstMoments(stats.count.at[k].add(sign), total), Urns(concentration, size)

    def scores(self, params: Multinomials, items: Any) -> Float[Array, "k n"]:
        return params.log_probability.T[self._of(items)].T

    def log_base(self, items: Any) -> Float[Array, " n"]:
        return jnp.zeros(jnp.shape(items), self.concentration.dtype)

    def predictive(self, stats: FirstMoments) -> Urns:
        concentration = cast(self, stats.total).concentration + stats.total
        return Urns(concentration, concentration.sum(1))

    def log_predictive_of(self, predictive: Urns, item: Any) -> Float[Array, " k"]:
        return jnp.log(predictive.concentration[:, self._of(item)]) - jnp.log(predictive.total)

    def _of(self, items: Any) -> Int[Array, "*n"]:
        return as_indices(items, self.size)

    def check(self, data: Any) -> None:
        dtype = dtype_of(data)
        if dtype is None or not jnp.issubdtype(dtype, jnp.integer):
            raise TypeError(f"data must be indices of categories, integers, got {describe(data)}")
        if np.ndim(data) != 1:
            raise ValueError(f"data must be a vector of indices, got shape {np.shape(data)}")
        if _checks.is_concrete(data) and np.size(data):
            low, high = np.min(data), np.max(data)
            if low < 0 or high >= self.size:
                raise ValueError(
                    f"data must be indices below {self.size}, got values from {low} to {high}"
                )


def _tokens(data: Any) -> Int[np.ndarray, " n"]:
    """The indices of all items; of groups, those that are there."""
    if isinstance(data, tuple) and len(data) == 2:
        items, size = map(_checks.on_host, ("data.items", "data.size"), data)
        if items.ndim != 2 or size.shape != items.shape[:1]:
            raise ValueError(
                "data must be groups of indices (S, L), of sizes (S,), got shapes "
                f"{items.shape} and {size.shape}"
            )
        data = items[np.arange(items.shape[1]) < size[:, None]]
    tokens = _checks.on_host("data", data)
    if tokens.ndim != 1 or not tokens.size or not np.issubdtype(tokens.dtype, np.integer):
        raise ValueError(
            "data must be indices of categories, integers of shape (n,), or groups of them, got "
            f"{tokens.dtype} of shape {tokens.shape}"
        )
    if tokens.min() < 0:
        raise ValueError(f"data must be indices, got {tokens.min()}")
    return tokens.astype(np.int64)  # numpy counts no unsigned ones of 64 bits
