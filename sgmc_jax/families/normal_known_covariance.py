"""Normal items of known covariance, with a normal prior on the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from ..arrays import columns_by_chunks, largest_of_batch, product
from ..random.slots import slot_normal
from ._from_data import Spread
from ._inputs import covariance_matrix, lost_from, row, rows, vector
from ._moments import FirstMoments, first_moments
from .family import LocatedFamily, cast

_FAR = 1e4  # squared deviations from the centre, of which float32 has lost a thousandth


class Location(NamedTuple):
    """The means of K clusters (K, D)."""

    mean: Float[Array, "k d"]


class Predictive(NamedTuple):
    """Mean and variance (K, D) of the whitened item, whose coordinates are independent."""

    mean: Float[Array, "k d"]
    variance: Float[Array, "k d"]


class Whitening(NamedTuple):
    """W with W S W' = I and W V W' = diag(d), the vector d, and log |det W|."""

    matrix: Float[Array, "d d"]
    prior_variance: Float[Array, " d"]
    log_determinant: Float[Array, ""]


class NormalKnownCovariance(LocatedFamily):
    """Normal items of known covariance S, with a normal prior on the mean.

        x | mu ~ N(mu, S),   mu ~ N(m, V)

    One W makes both W S W' = I and W V W' = diag(d), so that in y = W (x - c) all is independent
    by coordinates; with n items of sum s, and g = W (c - m), the posterior of a coordinate of
    W (mu - c) is normal of variance d / (1 + n d) and mean (s d - g) / (1 + n d). Costs O(D^2) a
    cluster, without factorisations.

    `log_base` is log N(x; c, S), and the log marginal is the sum over the coordinates of
    ((s^2 d - g (2 s + n g)) / (1 + n d) - log(1 + n d)) / 2. The statistics are the count and the
    sum of x - c; for the centre c (m, or another by `about`) see `NormalInverseWishart`.

    Args:
        mean: m, of shape (D,); a number for D = 1.
        covariance: S, positive definite of shape (D, D), or a number times the identity.
        prior_covariance: V, likewise.

    Raises:
        ValueError: a shape does not fit, or a covariance is not symmetric positive definite.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> family = NormalKnownCovariance(jnp.zeros(2), 1.0, 4.0)
        >>> stats = family.statistics(jnp.array([[1.0, 0.0], [3.0, 2.0]]), jnp.ones((1, 2)))
        >>> family.draw(jax.random.key(0), stats).mean.shape
        (1, 2)
        >>> family.log_predictive(stats, jnp.zeros(2)).tolist()
        [-3.57312]

    Reference:
        Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, section 2.
    """

    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]
    prior_covariance: Float[Array, "d d"]
    whitening: Whitening
    centre: Float[Array, " d"]

    def __init__(self, mean: Any, covariance: Any, prior_covariance: Any):
        self.mean = vector("mean", mean, None)
        self.covariance = covariance_matrix("covariance", covariance, self.dim)
        self.prior_covariance = covariance_matrix("prior_covariance", prior_covariance, self.dim)
        self.whitening = _whitening(self.covariance, self.prior_covariance)
        self.centre = self.mean

    @classmethod
    def _from_spread(cls, place: Spread) -> NormalKnownCovariance:
        mean, covariance, share = place
        return cls(mean, share * covariance, covariance)

    def statistics(self, items: Any, weights: Float[Array, "k n"]) -> FirstMoments:
        return first_moments(weights, self._centred(rows(items, self.dim)))

    def item_statistics(self, item: Any) -> FirstMoments:
        x = self._centred(row(item, self.dim))
        return FirstMoments(jnp.ones((), x.dtype), x)

    def draw(self, key: Any, stats: FirstMoments) -> Location:
        own = cast(self, stats.total)
        mean, variance = own._posterior(stats)
        noise = slot_normal(key, mean.shape, mean.dtype)
        back = product(own.whitening.matrix, own.covariance)  # the inverse of W is S W'
        return Location(own.centre + product(mean + jnp.sqrt(variance) * noise, back))

    def scores(self, params: Location, items: Any) -> Float[Array, "k n"]:
        return self._scored(params, items)[0]

    def loglik(self, params: Location, items: Any) -> Float[Array, "k n"]:
        scores, base = self._scored(params, items)
        return scores + base

    def _scored(
        self, params: Location, items: Any
    ) -> tuple[Float[Array, "k n"], Float[Array, " n"]]:
        """Scores, and what they leave out: of items far from the centre, a constant."""
        own = cast(self, params.mean)
        mean, constant = own._whiten(params.mean), own._constant()
        y = own._whiten(rows(items, self.dim).astype(mean.dtype))
        squares = jnp.sum(y**2, axis=1)
        far = squares > lost_from(_FAR, squares.dtype)

        def apart(y: Float[Array, "n d"]) -> Float[Array, "k n"]:
            return -0.5 * jax.lax.map(lambda m: jnp.sum((y - m) ** 2, axis=1), mean)

        def near() -> tuple[Array, Array]:
            scores = product(mean, y.T) - 0.5 * jnp.sum(mean**2, axis=1)[:, None]
            return scores, constant - 0.5 * squares

        def both() -> tuple[Array, Array]:
            # expanded into products large squares would cancel
            scores, base = near()
            direct = columns_by_chunks(apart, y, len(mean), 8 * self.dim)
            return jnp.where(far, direct, scores), jnp.where(far, constant, base)

        return jax.lax.cond(largest_of_batch(jnp.any(far)), both, near)

    def log_base(self, items: Any) -> Float[Array, " n"]:
        x = rows(items, self.dim)
        own = cast(self, x)
        return own._constant() - 0.5 * jnp.sum(own._whiten(x) ** 2, axis=1)

    def _constant(self) -> Float[Array, ""]:
        return self.whitening.log_determinant - 0.5 * self.dim * math.log(2 * math.pi)

    def predictive(self, stats: FirstMoments) -> Predictive:
        mean, variance = cast(self, stats.total)._posterior(stats)
        return Predictive(mean, 1 + variance)

    def log_predictive_of(self, predictive: Predictive, item: Any) -> Float[Array, " k"]:
        mean, variance = predictive
        own = cast(self, mean)
        y = own._whiten(row(item, self.dim).astype(mean.dtype))
        terms = jnp.log(2 * jnp.pi * variance) + (y - mean) ** 2 / variance
        return own.whitening.log_determinant - 0.5 * jnp.sum(terms, axis=1)

    def log_marginal(self, stats: FirstMoments) -> Float[Array, " k"]:
        own = cast(self, stats.total)
        mean, _ = own._posterior(stats)
        total, gap, n = (
            product(stats.total, own.whitening.matrix.T),
            own._gap(),
            stats.count[:, None],
        )
        far = gap * (total + n * gap) / (1 + n * own.whitening.prior_variance)
        spread = jnp.log1p(n * own.whitening.prior_variance)
        return 0.5 * jnp.sum(total * mean - far - spread, axis=1)

    def _whiten(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        return product(self._centred(x), self.whitening.matrix.T)

    def _gap(self) -> Float[Array, " d"]:
        return product((self.centre - self.mean)[None], self.whitening.matrix.T)[0]

    def _posterior(self, stats: FirstMoments) -> tuple[Float[Array, "k d"], Float[Array, "k d"]]:
        """Mean and variance (K, D) of the whitened means."""
        d = self.whitening.prior_variance
        less = 1 + stats.count[:, None] * d
        total = product(stats.total, self.whitening.matrix.T)
        return (d * total - self._gap()) / less, d / less


def _whitening(covariance: Float[Array, "d d"], prior_covariance: Float[Array, "d d"]) -> Whitening:
    """The simultaneous diagonalisation of two covariances."""
    factor = jnp.linalg.cholesky(covariance)
    inverse = solve_triangular(factor, jnp.eye(len(factor), dtype=factor.dtype), lower=True)
    prior = product(product(inverse, prior_covariance.astype(factor.dtype)), inverse.T)
    variance, rotation = jnp.linalg.eigh((prior + prior.T) / 2)
    floor = jnp.finfo(variance.dtype).tiny  # rounding may leave a tiny one negative
    log_determinant = -jnp.sum(jnp.log(jnp.diagonal(factor)))
    return Whitening(product(rotation.T, inverse), jnp.maximum(variance, floor), log_determinant)
