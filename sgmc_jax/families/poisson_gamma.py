"""Vectors of independent Poisson counts, with gamma priors on their rates."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import product
from ..count_densities import log_factorial, log_negative_binomial
from ..random import log_gamma
from ..special import log_rising_factorial
from ._counts import at_their_means, by_size, less_deviances
from ._from_data import items_of
from ._inputs import positive_vector, row, rows
from ._moments import CountVectors, FirstMoments
from .family import cast


class Poissons(NamedTuple):
    """Logarithms of the Poisson means (K, D)."""

    log_mean: Float[Array, "k d"]


class Gammas(NamedTuple):
    """Shapes and rates (K, D) of gamma laws."""

    shape: Float[Array, "k d"]
    rate: Float[Array, "k d"]


class PoissonGamma(CountVectors):
    """Vectors of independent Poisson counts, with gamma priors on their means.

        x_d | l_d ~ Poisson(l_d),   l_d ~ Gamma(a_d, b_d)

    with rate b. With n items of sum s the posterior is Gamma(a + s, b + n), and the predictive is
    negative binomial. With r(a, s) = log Gamma(a + s) - log Gamma(a), the log marginal is

        sum_d r(a_d, s_d) - a_d log(1 + n / b_d) - s_d log(b_d + n);

    it leaves out the factorials (`log_base`, -sum_d log x_d!), and so do `scores`, or, where a row
    of counts has a sum above 10^4, all that there is at means x. The statistics are the count of
    items and s. Means are drawn on the log scale.

    Args:
        shape: a > 0, a number or of shape (D,).
        rate: b > 0, a number or of shape (D,).
        size: D, where both are numbers; 1 if None.

    Raises:
        ValueError: a shape does not fit, or a hyper-parameter is not positive.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> family = PoissonGamma(shape=0.5, rate=1.0, size=2)
        >>> stats = family.statistics(jnp.array([[2, 0], [1, 1]]), jnp.ones((1, 2)))
        >>> stats.total.tolist()
        [[3.0, 1.0]]
        >>> family.log_predictive(stats, jnp.array([0, 0])).tolist()  # 5 log(3 / 4)
        [-1.43841]

    Reference:
        Gelman et al. (2013), Bayesian Data Analysis, section 2.6.
    """

    shape: Float[Array, " d"]
    rate: Float[Array, " d"]

    def __init__(self, shape: Any, rate: Any, size: int | None = None):
        shape, rate = _checks.as_real(shape, "shape"), _checks.as_real(rate, "rate")
        if size is not None:
            _checks.whole("size", size)
        elif shape.ndim or rate.ndim:
            size = max(shape.size, rate.size)
        self.shape = positive_vector("shape", shape, size)
        self.rate = positive_vector("rate", rate, size)

    @classmethod
    def from_data(cls, data: Any) -> PoissonGamma:
        """A weak prior from all items: the mean of each column is exponential around that of all.

        Shape 1 and rate 1 / x_d, with the mean count x_d of a column, (sum + 1) / (N + 1): it is
        worth 1 / x_d items.

        Args:
            data: all items (N, D), whole numbers.

        Raises:
            ValueError: if the data are no rows of counts.

        Example:
            >>> import numpy as np
            >>> PoissonGamma.from_data(np.array([[3, 0], [4, 1]])).rate.round(3).tolist()
            [0.375, 1.5]
        """
        counts = items_of(data)
        rate = (len(counts) + 1) / (counts.sum(0) + 1)
        family = cls(1.0, rate, counts.shape[1])
        family.check(counts)
        return family

    @property
    def size(self) -> int:
        return self.shape.shape[-1]

    def draw(self, key: Any, stats: FirstMoments) -> Poissons:
        shape, rate = self.predictive(stats)
        return Poissons(log_gamma(key, shape) - jnp.log(rate))

    def scores(self, params: Poissons, items: Any) -> Float[Array, "k n"]:
        log_mean = params.log_mean
        x = rows(items, self.size).astype(log_mean.dtype)
        small = lambda: product(log_mean, x.T) - jnp.sum(jnp.exp(log_mean), axis=1)[:, None]
        return by_size(x, lambda: less_deviances(x, log_mean, jnp.ones(len(x), x.dtype)), small)

    def log_base_of_deviances(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        return at_their_means(x)

    def log_base(self, items: Any) -> Float[Array, " n"]:
        return -jnp.sum(log_factorial(rows(items, self.size)), axis=1)

    def predictive(self, stats: FirstMoments) -> Gammas:
        own = cast(self, stats.total)
        return Gammas(own.shape + stats.total, own.rate + stats.count[:, None])

    def log_predictive_of(self, predictive: Gammas, item: Any) -> Float[Array, " k"]:
        shape, rate = predictive
        x = row(item, self.size).astype(shape.dtype)
        return jnp.sum(log_negative_binomial(x, shape, rate), axis=-1)

    def log_marginal(self, stats: FirstMoments) -> Float[Array, " k"]:
        own = cast(self, stats.total)
        return _log_ratio(own.shape, own.rate, stats.total, stats.count[:, None])


def _log_ratio(
    shape: Float[Array, " d"],
    rate: Float[Array, " d"],
    total: Float[Array, "k d"],
    count: Float[Array, "k 1"],
) -> Float[Array, " k"]:
    """The log marginal of `count` items of sum `total`, less their factorials."""
    terms = log_rising_factorial(shape, total) - shape * jnp.log1p(count / rate)
    return jnp.sum(terms - total * jnp.log(rate + count), axis=-1)
