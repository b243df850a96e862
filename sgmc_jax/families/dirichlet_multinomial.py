"""Vectors of counts, multinomial given their sum, with a Dirichlet prior."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import product
from ..count_densities import log_factorial, log_negative_binomial
from ..random import log_gamma
from ..special import log_rising_factorial
from ._counts import at_their_means, by_size, less_deviances
from ._from_data import items_of, shared_concentration
from ._inputs import check_counts, positive_vector, row, rows
from ._moments import CountVectors, FirstMoments
from .family import Family, cast

_LARGE = 100.0  # the sum of a row from which on factorials cost its predictive its fourth digit


class Multinomials(NamedTuple):
    """Logarithms of K probability vectors (K, V)."""

    log_probability: Float[Array, "k v"]


class Dirichlets(NamedTuple):
    """Concentrations (K, V)."""

    concentration: Float[Array, "k v"]


class DirichletFamily(Family):
    """Counts c of categories, with a Dirichlet prior of their probabilities."""

    concentration: Float[Array, " v"]

    def __init__(self, concentration: Any, size: int | None = None):
        concentration = _checks.as_real(concentration, "concentration")
        if size is not None:
            _checks.whole("size", size)
        elif concentration.ndim == 0:
            raise ValueError("size must be given where concentration is a number, got None")
        self.concentration = positive_vector("concentration", concentration, size)

    @property
    def size(self) -> int:
        return self.concentration.shape[-1]

    def draw(self, key: Any, stats: FirstMoments) -> Multinomials:
        logs = log_gamma(key, self.predictive(stats).concentration)
        return Multinomials(jax.nn.log_softmax(logs, axis=1))

    def log_marginal(self, stats: FirstMoments) -> Float[Array, " k"]:
        return log_ratio(cast(self, stats.total).concentration, stats.total)


class DirichletMultinomial(DirichletFamily, CountVectors):
    """Vectors of counts, multinomial given their sum, with a Dirichlet prior.

        x | p ~ Multinomial(sum(x), p),   p ~ Dirichlet(alpha)

    With c the sum of the cluster's items the posterior is Dirichlet(alpha + c). With
    r(a, n) = log Gamma(a + n) - log Gamma(a), A the sum of alpha and C that of c, the log marginal
    is sum_v r(alpha_v, c_v) - r(A, C); it leaves out the multinomial coefficients (`log_base`,
    log [sum(x)! / prod_v x_v!]), and so do `scores`, or, where a row of counts has a sum X above
    10^4, all that there is at p = x / X. The statistics are the count of items and c.

    Args:
        concentration: alpha > 0, of shape (V,), or a number with `size`.
        size: V, the number of categories, where the concentration is a number.

    Raises:
        ValueError: a shape does not fit, or a concentration is not positive.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> family = DirichletMultinomial(0.5, size=3)
        >>> stats = family.statistics(jnp.array([[2, 0, 1], [1, 1, 0]]), jnp.ones((1, 2)))
        >>> stats.total.tolist()
        [[3.0, 1.0, 1.0]]
        >>> family.log_predictive(stats, jnp.array([1, 0, 0])).tolist()  # log(3.5 / 6.5)
        [-0.61904]

    Reference:
        Minka (2012), Estimating a Dirichlet distribution, section 3.
    """

    def __init__(self, concentration: Any, size: int | None = None):
        super().__init__(concentration, size)

    @classmethod
    def from_data(cls, data: Any, *, clusters: float = 10.0) -> DirichletMultinomial:
        """A prior from all items: clusters that have a share of the categories of all of them.

        That of `DirichletCategorical.from_data`, of the counts of all items together: with H the
        entropy of these, a draw of V probabilities has the mean entropy max(H - log K, H / 2).

        Args:
            data: all items (N, V), whole numbers.
            clusters: K > 0, about how many clusters are expected, of which one may use all.

        Raises:
            ValueError: if the data are no rows of counts, or have one category alone.

        Example:
            >>> import numpy as np
            >>> family = DirichletMultinomial.from_data(np.eye(1000, dtype=int), clusters=20)
            >>> family.size, round(float(family.concentration[0]), 4)
            (1000, 0.0289)
        """
        number = float(_checks.one_number("clusters", clusters))
        _checks.positive("clusters", number)
        counts = items_of(data)
        check_counts(counts, counts.shape[1])
        return cls(shared_concentration(counts.sum(0), number), size=counts.shape[1])

    def scores(self, params: Multinomials, items: Any) -> Float[Array, "k n"]:
        logs = params.log_probability
        x = rows(items, self.size).astype(logs.dtype)
        large = lambda: less_deviances(x, logs, jnp.sum(x, axis=1))
        return by_size(x, large, lambda: product(logs, x.T))

    def log_base_of_deviances(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        return at_their_means(x) - at_their_means(jnp.sum(x, axis=1, keepdims=True))

    def log_base(self, items: Any) -> Float[Array, " n"]:
        x = rows(items, self.size)
        return log_factorial(jnp.sum(x, axis=1)) - jnp.sum(log_factorial(x), axis=1)

    def predictive(self, stats: FirstMoments) -> Dirichlets:
        return Dirichlets(cast(self, stats.total).concentration + stats.total)

    def log_predictive_of(self, predictive: Dirichlets, item: Any) -> Float[Array, " k"]:
        concentration = predictive.concentration
        x = row(item, self.size).astype(concentration.dtype)

        def large() -> Float[Array, " k"]:
            # negative binomial counts of one rate are Dirichlet-multinomial given their sum; here
            # they sum to it on average, so that large terms do not cancel
            all_ = concentration.sum(-1)
            rate = all_ / jnp.maximum(x.sum(), 1)
            terms = log_negative_binomial(x, concentration, rate[:, None]).sum(-1)
            return terms - log_negative_binomial(x.sum(), all_, rate)

        small = lambda: log_ratio(concentration, x) + self.log_base(x[None])
        return by_size(x[None], large, small, _LARGE)


def log_ratio(
    concentration: Float[Array, "... v"], counts: Float[Array, "... v"]
) -> Float[Array, " k"]:
    """The log probability of any one sequence with these counts."""
    terms = jnp.sum(log_rising_factorial(concentration, counts), axis=-1)
    return terms - log_rising_factorial(concentration.sum(-1), counts.sum(-1))
