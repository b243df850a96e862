"""Normal items of unknown mean and covariance, with a normal-inverse-Wishart prior."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from .. import _checks
from ..arrays import Tiles, columns_by_chunks, outer_products, product
from ..random.slots import slot_log_gamma, slot_normal
from ..special import log_rising_factorial
from ._from_data import Spread
from ._inputs import (
    covariance_matrix,
    positive_number,
    row,
    rows,
    vector,
)
from ._moments import SecondMoments, first_moments
from .family import LocatedFamily, cast, gained_less_lost


class Normals(NamedTuple):
    """K normal laws: means (K, D) and lower triangular U (K, D, D) with S^-1 = U' U."""

    mean: Float[Array, "k d"]
    whitener: Float[Array, "k d d"]

    @property
    def covariance(self) -> Float[Array, "*k d d"]:
        """The covariance matrices (K, D, D)."""
        root = _inverse(self.whitener)
        return product(root, root.mT)


class StudentT(NamedTuple):
    """K Student laws: degrees of freedom plus D (K,), U (K, D, D), u (K, D), and a constant (K,).

    The squared distance of an item is |U (x - c) - u|^2, where c is the family's centre.
    """

    power: Float[Array, " k"]
    whitener: Float[Array, "k d d"]
    shift: Float[Array, "k d"]
    constant: Float[Array, " k"]


class Scatter(NamedTuple):
    """kappa_n and nu_n (K,); t / n and t / n + c - m (K, D), and the Cholesky factor of A."""

    kappa: Float[Array, " k"]
    nu: Float[Array, " k"]
    mean: Float[Array, "k d"]
    gap: Float[Array, "k d"]
    factor: Float[Array, "k d d"]


class NormalInverseWishart(LocatedFamily):
    """Normal items of unknown mean and covariance, with a normal-inverse-Wishart prior.

        x | mu, S ~ N(mu, S),   mu | S ~ N(m, S / kappa),   S ~ IW(nu, Psi)

    With n items, t and Q the sums of x - c and of (x - c)(x - c)', the posterior has the
    parameters kappa + n, nu + n, m + n g / (kappa + n) and

        Psi_n = A + (kappa n / (kappa + n)) g g',   A = Psi + Q - t t' / n,   g = t / n + c - m;

    the predictive is a Student t with nu + n - D + 1 degrees of freedom. Nothing is left out of
    the log marginal (`log_base` is 0):

        -(n D / 2) log pi + (D / 2) log(kappa / (kappa + n)) + (nu / 2) log |Psi|
        - ((nu + n) / 2) log |Psi_n| + sum_i log [Gamma((nu + n - i) / 2) / Gamma((nu - i) / 2)],

    i = 0, ..., D - 1. The statistics are the count, t and Q. The centre c (m, or another by
    `about`) is there for precision alone: in float32 the difference Q - t t' / n needs items within
    some hundred standard deviations of c. Samplers put it amid the data. Where m is far from them,
    g g' would drown A: what is made of Psi_n is made of the factor of A, and of g.

    Args:
        dim: D, the size of an item.
        mean: m, of shape (D,) or a number; zero if None.
        mean_strength: kappa > 0, the number of items that the prior mean is worth.
        degrees_of_freedom: nu > D - 1; D + 2 if None, where the prior mean of S is Psi.
        scale: Psi, positive definite of shape (D, D), or a number times the identity (1 if None).

    Raises:
        ValueError: a shape does not fit, or a hyper-parameter is outside its support.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> family = NormalInverseWishart(dim=2)
        >>> stats = family.statistics(jnp.array([[1.0, 0.0], [3.0, 2.0]]), jnp.ones((1, 2)))
        >>> family.draw(jax.random.key(0), stats).covariance.shape
        (1, 2, 2)
        >>> family.log_predictive(stats, jnp.zeros(2)).tolist()
        [-2.40724]

    Reference:
        Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, section 9; Odell
        and Feiveson (1966) for the draw, with factors reversed so that U is triangular.
    """

    mean: Float[Array, " d"]
    mean_strength: Float[Array, ""]
    degrees_of_freedom: Float[Array, ""]
    scale: Float[Array, "d d"]
    centre: Float[Array, " d"]

    def __init__(
        self,
        dim: int,
        mean: Any = None,
        mean_strength: Any = 1.0,
        degrees_of_freedom: Any = None,
        scale: Any = None,
    ):
        _checks.whole("dim", dim)
        freedom = dim + 2.0 if degrees_of_freedom is None else degrees_of_freedom
        self.mean = vector("mean", 0.0 if mean is None else mean, dim)
        self.mean_strength = positive_number("mean_strength", mean_strength)
        self.degrees_of_freedom = positive_number("degrees_of_freedom", freedom)
        if _checks.is_concrete(self.degrees_of_freedom) and not freedom > dim - 1:
            raise ValueError(f"degrees_of_freedom must exceed dim - 1 = {dim - 1}, got {freedom}")
        self.scale = covariance_matrix("scale", 1.0 if scale is None else scale, dim)
        self.centre = self.mean

    @classmethod
    def _from_spread(cls, place: Spread) -> NormalInverseWishart:
        mean, covariance, share = place
        return cls(len(mean), mean, share, None, share * covariance)

    def statistics(self, items: Any, weights: Float[Array, "k n"]) -> SecondMoments:
        x = self._centred(rows(items, self.dim))
        return SecondMoments(*first_moments(weights, x), outer_products(weights, x))

    def label_statistics(
        self, items: Any, labels: Int[Array, " n"], capacity: int
    ) -> SecondMoments:
        tiles = Tiles.of(labels, capacity)  # n D^2 operations, where a one-hot product has n D^2 K
        weights = tiles.real[:, None, :].astype(jnp.result_type(self.mean))
        each = jax.vmap(self.statistics)(tiles.take(rows(items, self.dim)), weights)
        return tiles.sum(jax.tree.map(lambda x: x[:, 0], each))

    def moved_statistics(
        self, items: Any, old: Int[Array, " n"], new: Int[Array, " n"], capacity: int
    ) -> SecondMoments:
        return gained_less_lost(self, items, old, new, capacity)

    def item_statistics(self, item: Any) -> SecondMoments:
        x = self._centred(row(item, self.dim))
        return SecondMoments(jnp.ones((), x.dtype), x, jnp.outer(x, x))

    def draw(self, key: Any, stats: SecondMoments) -> Normals:
        own = cast(self, stats.total)
        key_gamma, key_normal = jax.random.split(key)
        kappa, nu, mean, gap, factor = own._scatter(stats)
        d, n = self.dim, stats.count
        along = solve_triangular(factor, gap[..., None], lower=True)[..., 0]
        whitener = _rank_one(factor, jnp.sqrt(own.mean_strength * n / kappa)[:, None] * along)
        # W ~ Wishart(nu, I) as T'T, T lower triangular with chi variates on its diagonal
        freedom = nu[:, None] - (d - 1) + jnp.arange(d, dtype=nu.dtype)
        chi = jnp.exp(0.5 * (slot_log_gamma(key_gamma, freedom / 2) + math.log(2)))
        noise = slot_normal(key_normal, (*mean.shape, d + 1), mean.dtype)
        bartlett = jnp.tril(noise[..., :d], -1) + chi[..., None] * jnp.eye(d, dtype=chi.dtype)
        whitener = product(bartlett, whitener)
        spread = solve_triangular(whitener, noise[..., d:], lower=True)[..., 0]
        mean = mean - (own.mean_strength / kappa)[:, None] * gap
        mean = own.centre + mean + spread / jnp.sqrt(kappa)[:, None]
        return Normals(mean, whitener)

    def scores(self, params: Normals, items: Any) -> Float[Array, "k n"]:
        k, d = params.mean.shape
        centre = self.centre.astype(params.mean.dtype)
        shift = product(params.whitener, (params.mean - centre)[..., None])
        constant = _log_diagonal(params.whitener) - 0.5 * d * math.log(2 * math.pi)
        bands = _bands(params.whitener)

        def chunk(x: Float[Array, "n d"]) -> Float[Array, "k n"]:
            distance = jnp.zeros((k, x.shape[0]), x.dtype)
            x = (x - centre).T
            for begin, end, band in bands:
                y = product(band, x[:end]).reshape(k, end - begin, -1) - shift[:, begin:end]
                distance = distance + jnp.sum(y * y, axis=1)
            return constant[:, None] - 0.5 * distance

        x = rows(items, d).astype(centre.dtype)
        return columns_by_chunks(chunk, x, k, k * d)

    def predictive(self, stats: SecondMoments) -> StudentT:
        own = cast(self, stats.total)
        kappa, nu, mean, gap, factor = own._scatter(stats)
        d, prior = self.dim, own.mean_strength
        weight, ratio = prior * stats.count / kappa, kappa / (kappa + 1)
        # U_A, w = U_A g and U_A t / n in one solve: a product each would cost as much again
        right = jnp.concatenate([_identities(factor), gap[..., None], mean[..., None]], axis=2)
        solved = solve_triangular(factor, right, lower=True)
        along = solved[..., d]
        across = product(along[:, None, :], solved)
        # R = I - p w' makes R U_A whiten Psi_n; R w, a small part of w, is known without cancelling
        square = 1 + weight * across[:, 0, d]
        root, scale = jnp.sqrt(square), jnp.sqrt(ratio)[:, None]
        less = (weight / (square + root))[:, None] * along
        solved = scale[..., None] * (solved - less[..., None] * across)
        shift = solved[..., d + 1] - scale * (prior / (kappa * root))[:, None] * along
        constant = log_rising_factorial((nu + 1 - d) / 2, d / 2) - _log_diagonal(factor)
        constant = constant + 0.5 * (d * (jnp.log(ratio) - math.log(math.pi)) - jnp.log(square))
        whitener = solved[..., :d]
        return StudentT(nu + 1, whitener, shift, constant)

    def log_predictive_of(self, predictive: StudentT, item: Any) -> Float[Array, " k"]:
        power, whitener, shift, constant = predictive
        offset = self._centred(row(item, self.dim)).astype(shift.dtype)
        distance = jnp.sum((product(whitener, offset) - shift) ** 2, axis=1)
        return constant - 0.5 * power * jnp.log1p(distance)

    def log_marginal(self, stats: SecondMoments) -> Float[Array, " k"]:
        own = cast(self, stats.total)
        kappa, _, _, gap, factor = own._scatter(stats)
        n, d = stats.count, self.dim
        along = solve_triangular(factor, gap[..., None], lower=True)[..., 0]
        far = jnp.log1p(own.mean_strength * n / kappa * jnp.sum(along**2, axis=1))
        prior = _log_diagonal(jnp.linalg.cholesky(own.scale))
        posterior = _log_diagonal(factor) + 0.5 * far
        half = (own.degrees_of_freedom - jnp.arange(d, dtype=n.dtype)) / 2
        gammas = jnp.sum(log_rising_factorial(half, n[:, None] / 2), axis=1)
        spread = 0.5 * d * (n * math.log(math.pi) + jnp.log1p(n / own.mean_strength))
        change = own.degrees_of_freedom * (prior - posterior) - n * posterior
        return jnp.where(n > 0, gammas - spread + change, 0)  # exactly 0 where empty

    def _scatter(self, stats: SecondMoments) -> Scatter:
        count, total, square = stats
        mean = total / jnp.where(count > 0, count, 1)[:, None]
        scale = self.scale + square - total[:, :, None] * mean[:, None, :]
        return Scatter(
            self.mean_strength + count,
            self.degrees_of_freedom + count,
            mean,
            mean + (self.centre - self.mean),
            jnp.linalg.cholesky(scale),
        )


def _rank_one(factor: Float[Array, "k d d"], w: Float[Array, "k d"]) -> Float[Array, "k d d"]:
    """U with U' U = (L (I + w w') L')^-1, lower triangular like L (K, D, D), in closed form.

    With s_i^2 = 1 + w_1^2 + ... + w_i^2 the Cholesky factor of I + w w' has the inverse with
    s_{i-1} / s_i on the diagonal and -w_i w_j / (s_{i-1} s_i) below it.
    """
    now = jnp.sqrt(1 + jnp.cumsum(w**2, axis=1))
    before = jnp.concatenate([jnp.ones_like(now[:, :1]), now[:, :-1]], axis=1)
    diagonal = (before / now)[..., None] * _identities(factor)
    left = (w / (before * now))[..., None] * w[:, None, :]
    return solve_triangular(factor.mT, (diagonal - jnp.tril(left, -1)).mT, lower=False).mT


def _bands(factor: Float[Array, "k d d"]) -> list[tuple[int, int, Float[Array, "_ _"]]]:
    """Lower triangular matrices (K, D, D) as up to four bands of rows without their zeros.

    Rows `begin` to `end` of all K in one matrix, (K (end - begin), end): five eighths of the
    operations of a product with the whole.
    """
    k, d, _ = factor.shape
    height = max(16, -(-d // 4))
    edges = [(begin, min(begin + height, d)) for begin in range(0, d, height)]
    return [(a, b, factor[:, a:b, :b].reshape(k * (b - a), b)) for a, b in edges]


def _inverse(factor: Float[Array, "*k d d"]) -> Float[Array, "*k d d"]:
    """The inverses of lower triangular matrices (K, D, D)."""
    return solve_triangular(factor, _identities(factor), lower=True)


def _identities(like: Float[Array, "*k d d"]) -> Float[Array, "*k d d"]:
    return jnp.broadcast_to(jnp.eye(like.shape[-1], dtype=like.dtype), like.shape)


def _log_diagonal(factor: Float[Array, "*k d d"]) -> Float[Array, "*k"]:
    """The log determinants of triangular matrices."""
    return jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
