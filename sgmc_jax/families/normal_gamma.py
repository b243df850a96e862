"""Normal items with independent coordinates of unknown mean and precision."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import columns_by_chunks, product
from ..random.slots import slot_log_gamma, slot_normal
from ..special import log_rising_factorial
from ._from_data import Spread
from ._inputs import positive_vector, row, rows, vector
from ._moments import SecondMoments, first_moments
from .family import LocatedFamily, cast


class DiagonalNormals(NamedTuple):
    """Means and logarithms of precisions, (K, D) each."""

    mean: Float[Array, "k d"]
    log_precision: Float[Array, "k d"]


class Posterior(NamedTuple):
    """kappa_n, the mean less the centre, a_n and b_n, (K, D) each: what the predictive needs."""

    strength: Float[Array, "k d"]
    mean: Float[Array, "k d"]
    shape: Float[Array, "k d"]
    rate: Float[Array, "k d"]


class NormalGamma(LocatedFamily):
    """Normal items with a diagonal covariance: a normal-gamma prior for every coordinate.

        x | mu, tau ~ N(mu, 1 / tau),   mu | tau ~ N(m, 1 / (kappa tau)),   tau ~ Gamma(a, b)

    with rate b. With n items, t and q the sums of x - c and of (x - c)^2, and g = t / n + c - m,
    the posterior has the parameters kappa + n, m + n g / (kappa + n), a + n / 2 and

        b + (q - t^2 / n + g^2 kappa n / (kappa + n)) / 2;

    the predictive of a coordinate is a Student t with 2 a_n degrees of freedom. Nothing is left out
    of the log marginal (`log_base` is 0), the sum over the coordinates of

        log Gamma(a_n) - log Gamma(a) + a log b - a_n log b_n
        + log(kappa / (kappa + n)) / 2 - (n / 2) log(2 pi).

    The statistics are the count, t and q; for the centre c (m, or another by `about`) see
    `NormalInverseWishart`. Precisions are drawn on the log scale, and kept where they and their
    inverses are finite in the dtype.

    Args:
        dim: D, the size of an item.
        mean: m, a number or of shape (D,); zero if None.
        mean_strength: kappa > 0, a number or of shape (D,).
        shape: a > 0, a number or of shape (D,).
        rate: b > 0, a number or of shape (D,), in squared units of the items.

    Raises:
        ValueError: a shape does not fit, or a hyper-parameter is outside its support.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> family = NormalGamma(dim=2)
        >>> stats = family.statistics(jnp.array([[1.0, 0.0], [3.0, 2.0]]), jnp.ones((1, 2)))
        >>> family.draw(jax.random.key(0), stats).log_precision.shape
        (1, 2)
        >>> family.log_predictive(stats, jnp.zeros(2)).tolist()
        [-3.21011]

    Reference:
        Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, section 3.
    """

    mean: Float[Array, " d"]
    mean_strength: Float[Array, " d"]
    shape: Float[Array, " d"]
    rate: Float[Array, " d"]
    centre: Float[Array, " d"]

    def __init__(
        self,
        dim: int,
        mean: Any = None,
        mean_strength: Any = 1.0,
        shape: Any = 1.0,
        rate: Any = 1.0,
    ):
        _checks.whole("dim", dim)
        self.mean = vector("mean", 0.0 if mean is None else mean, dim)
        self.mean_strength = positive_vector("mean_strength", mean_strength, dim)
        self.shape = positive_vector("shape", shape, dim)
        self.rate = positive_vector("rate", rate, dim)
        self.centre = self.mean

    @classmethod
    def _from_spread(cls, place: Spread) -> NormalGamma:
        mean, covariance, share = place
        return cls(len(mean), mean, share, 2.0, share * np.diag(covariance))

    def statistics(self, items: Any, weights: Float[Array, "k n"]) -> SecondMoments:
        x = self._centred(rows(items, self.dim))
        square = product(weights.astype(x.dtype), x * x)
        return SecondMoments(*first_moments(weights, x), square)

    def item_statistics(self, item: Any) -> SecondMoments:
        x = self._centred(row(item, self.dim))
        return SecondMoments(jnp.ones((), x.dtype), x, x * x)

    def draw(self, key: Any, stats: SecondMoments) -> DiagonalNormals:
        key_gamma, key_normal = jax.random.split(key)
        strength, mean, shape, rate = self.predictive(stats)
        log_precision = slot_log_gamma(key_gamma, shape) - jnp.log(rate)
        noise = slot_normal(key_normal, mean.shape, mean.dtype)
        mean = mean + noise * jnp.exp(-0.5 * log_precision) / jnp.sqrt(strength)
        mean = self.centre.astype(mean.dtype) + mean
        return DiagonalNormals(mean, log_precision)

    def scores(self, params: DiagonalNormals, items: Any) -> Float[Array, "k n"]:
        k, d = params.mean.shape
        root = jnp.exp(0.5 * params.log_precision)
        constant = 0.5 * jnp.sum(params.log_precision - math.log(2 * math.pi), axis=1)

        # not expanded into products: x^2 tau - 2 x mu tau + mu^2 tau cancels in float32
        def chunk(x: Float[Array, "n d"]) -> Float[Array, "k n"]:
            def one(args: tuple[Float[Array, " d"], Float[Array, " d"]]) -> Float[Array, " n"]:
                mean, root = args
                return jnp.sum(((columns - mean[:, None]) * root[:, None]) ** 2, axis=0)

            columns = x.T
            return constant[:, None] - 0.5 * jax.lax.map(one, (params.mean, root))

        return columns_by_chunks(chunk, rows(items, d).astype(root.dtype), k, 8 * d)

    def predictive(self, stats: SecondMoments) -> Posterior:
        own = cast(self, stats.total)
        count, total, square = stats.count[:, None], stats.total, stats.square
        strength, mean = own.mean_strength + count, total / jnp.where(count > 0, count, 1)
        gap, share = mean + (own.centre - own.mean), own.mean_strength / strength
        # by Cauchy and Schwarz not negative, but for rounding
        spread = jnp.maximum(square - total * mean, 0) + share * count * gap**2
        return Posterior(strength, mean - share * gap, own.shape + count / 2, own.rate + spread / 2)

    def log_predictive_of(self, predictive: Posterior, item: Any) -> Float[Array, " k"]:
        strength, mean, shape, rate = predictive
        x = self._centred(row(item, self.dim)).astype(mean.dtype)
        ratio = strength / (strength + 1) / (2 * rate)
        constant = log_rising_factorial(shape, 0.5) + 0.5 * jnp.log(ratio / jnp.pi)
        terms = constant - (shape + 0.5) * jnp.log1p(ratio * (x - mean) ** 2)
        return jnp.sum(terms, axis=1)

    def log_marginal(self, stats: SecondMoments) -> Float[Array, " k"]:
        own = cast(self, stats.total)
        strength, _, _, rate = self.predictive(stats)
        n = stats.count[:, None]
        half = jnp.log(own.mean_strength / strength) - n * math.log(2 * math.pi)
        change = -own.shape * jnp.log(rate / own.rate) - 0.5 * n * jnp.log(rate)
        terms = log_rising_factorial(own.shape, n / 2) + change + 0.5 * half
        return jnp.where(stats.count > 0, jnp.sum(terms, axis=1), 0)  # exactly 0 where empty
