"""The densities of spherical admixtures: of topics given proportions, and of topics alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import _checks, _returned
from ..._estimators import Estimate
from ..._types import Position
from ...arrays import product
from ...bessel import log_bessel_series
from ...model import Model
from ...spaces.sphere import length as length_of
from .._labels import if_known
from .documents import UnitVectors, check_vectors, dense

_NUMBERS = 2**25  # of documents in full at once
_FEW = 32  # words of a vocabulary for one of a document, from which on most of it is left out
_TOLERANCE = 1e-3


class Prior(eqx.Module):
    """The sizes and the concentrations; its arguments are those of `SphericalAdmixture`."""

    num_topics: int = eqx.field(static=True)
    vocabulary: int = eqx.field(static=True)
    alpha: Float[Array, ""] = eqx.field(converter=_checks.real("alpha"))
    concentration: Float[Array, ""] = eqx.field(converter=_checks.real("concentration"))
    topic_concentration: Float[Array, ""] = eqx.field(converter=_checks.real("topic_concentration"))
    prior_concentration: Float[Array, ""] = eqx.field(converter=_checks.real("prior_concentration"))
    mean_direction: Float[Array, " v"]

    def __check_init__(self):
        direction = self.mean_direction
        if direction.shape != (self.vocabulary,):
            raise ValueError(
                f"mean_direction must be of shape ({self.vocabulary},), got {direction.shape}"
            )
        if _checks.is_concrete(direction):
            error = abs(float(np.linalg.norm(np.asarray(direction))) - 1)
            if not error <= _TOLERANCE:
                raise ValueError(
                    f"mean_direction must have unit length, got a length off by {error:.2g}"
                )

    def resultant(self, topics: Float[Array, "k v"]) -> Float[Array, " v"]:
        """kappa0 m + sigma sum_k beta_k, the corpus mean's natural parameter."""
        own = self.prior_concentration * self.mean_direction
        return (own + self.topic_concentration * jnp.sum(topics, axis=0)).astype(topics.dtype)

    def logdensity(self, topics: Float[Array, "k v"]) -> Float[Array, ""]:
        """log p(topics), the corpus mean integrated out: -log c(|resultant|) up to a constant."""
        length = length_of(self.resultant(topics))[..., 0]  # a derivative at 0 too
        return log_bessel_series(self.vocabulary / 2 - 1, length)


class TopicModel(Model):
    """A model of topics whose likelihood is that of a batch: what its subclasses have in common."""

    prior_law: Prior

    def logprior(self, position: Position) -> Float[Array, ""]:
        return self.prior_law.logdensity(position)

    def loglik(self, position: Position, item: Any) -> Float[Array, ""]:
        return self.loglik_batch(position, jax.tree.map(lambda x: x[None], item))[0]

    def check(self, position: Position, data: Any) -> None:
        wanted = self.prior_law.num_topics, self.prior_law.vocabulary
        if isinstance(position, tuple | list | dict) or jnp.shape(position) != wanted:
            raise ValueError(
                f"position must be topics, of shape {wanted}, got {_returned.describe(position)}"
            )


class GivenProportions(TopicModel):
    """log p(topics, v | theta): items are pairs of a document and its proportions (draws, K).

    The log likelihood kappa v'beta theta / |beta theta|, its mean over the draws, needs documents
    and topics only by beta'v, (n, K), and beta'beta, (K, K): so does all that is done with theta.
    """

    def loglik_batch(self, position: Position, items: Any) -> Float[Array, " n"]:
        vectors, theta = items
        along, length = projections(inner_products(position, vectors), gram(position), theta)
        return self.prior_law.concentration.astype(position.dtype) * jnp.mean(
            along / length, axis=1
        )

    def weighted_sum(self, position: Position, items: Any, weight: Float[Array, " n"]) -> Estimate:
        """The gradient in closed form: one product with the documents, one with the topics.

            grad_k = kappa sum_d w_d mean_n theta_k (v_d - (v_d'u) u) / |beta theta|,

        u = beta theta / |beta theta|.
        """
        return in_parts(self._part, position, *items, weight)

    def _part(
        self,
        position: Float[Array, "k v"],
        vectors: UnitVectors,
        theta: Float[Array, "n m k"],
        weight: Float[Array, " n"],
    ) -> Estimate:
        dtype, products = position.dtype, inner_products(position, vectors)
        along, length = projections(products, gram(position), theta)
        share = (self.prior_law.concentration * weight / theta.shape[1]).astype(dtype)[:, None]
        direct = jnp.sum((share / length)[..., None] * theta, axis=1)  # (n, K)
        curl = (share * along / length**3)[..., None] * theta
        back = product(curl.reshape(-1, curl.shape[-1]).T, theta.reshape(-1, theta.shape[-1]))
        value = weighted_sums(direct, vectors, position.shape[1]) - product(back, position)
        return Estimate(value, jnp.sum(share * along / length))


class Marginal(TopicModel):
    """log p(topics, v), the proportions integrated out by draws of their prior.

        log p(v | beta) ~ log mean_n exp(kappa v'beta theta_n / |beta theta_n|),   theta_n ~ Dir

    the draws being the same for all documents and every position: it is the density of a law of its
    own, near that of the topics.
    """

    theta: Float[Array, "n k"]

    def check(self, position: Position, data: Any) -> None:
        super().check(position, data)
        check_vectors(data, self.prior_law.vocabulary)

    def loglik_batch(self, position: Position, items: Any) -> Float[Array, " n"]:
        theta = self.theta.astype(position.dtype)
        length = lengths(gram(position), theta)
        cosine = product(inner_products(position, items), theta.T) / length
        scores = self.prior_law.concentration.astype(position.dtype) * cosine
        return jax.nn.logsumexp(scores, axis=1) - jnp.log(len(theta))


def in_parts(function: Any, position: Float[Array, "k v"], *arguments: Any) -> Any:
    """The sum of `function(position, *parts)` over parts of the arguments' rows that fit."""
    n = jax.tree.leaves(arguments)[0].shape[0]
    size = max(1, _NUMBERS // position.shape[1])
    if n <= size:
        return function(position, *arguments)
    whole = n // size * size
    cut = lambda part: jax.tree.map(lambda x: part(jnp.asarray(x)), arguments)
    blocks = cut(lambda x: x[:whole].reshape(-1, size, *x.shape[1:]))

    def add(total: Any, block: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, function(position, *block)), None

    rest = function(position, *cut(lambda x: x[whole:]))
    return jax.lax.scan(add, rest, blocks)[0]


def inner_products(topics: Float[Array, "k v"], vectors: UnitVectors) -> Float[Array, "n k"]:
    """v'beta_k of each document."""

    def by_words(topics: Array, vectors: UnitVectors) -> Array:
        columns, values = vectors
        among = topics[:, columns]
        return jnp.einsum("knl,nl->nk", among, values, precision=jax.lax.Precision.HIGHEST)

    def in_full(topics: Array, vectors: UnitVectors) -> Array:
        return product(dense(vectors, topics.shape[1], topics.dtype), topics.T)

    def some(vectors: UnitVectors) -> Array:
        vectors = vectors._replace(values=vectors.values.astype(topics.dtype))
        products = _as_suits(by_words, in_full, vectors, topics.shape[1], topics)
        known = if_known(vectors.columns, topics.shape[1])
        known = jnp.min(known, axis=1, keepdims=True, initial=1.0)
        return products * known.astype(products.dtype)

    n, size = vectors.columns.shape[0], max(1, _NUMBERS // topics.shape[1])
    vectors = jax.tree.map(jnp.asarray, vectors)
    if n <= size:
        return some(vectors)
    one = lambda vector: some(jax.tree.map(lambda x: x[None], vector))[0]
    return jax.lax.map(one, vectors, batch_size=size)


def weighted_sums(
    weights: Float[Array, "n k"], vectors: UnitVectors, vocabulary: int
) -> Float[Array, "k v"]:
    """sum_d weights_dk v_d."""

    def by_words(weights: Array, vectors: UnitVectors) -> Array:
        columns, values = vectors
        terms = weights[:, None, :] * values[..., None].astype(weights.dtype)
        zeros = jnp.zeros((vocabulary, weights.shape[1]), weights.dtype)
        return zeros.at[columns].add(terms).T

    def in_full(weights: Array, vectors: UnitVectors) -> Array:
        return product(weights.T, dense(vectors, vocabulary, weights.dtype))

    vectors = jax.tree.map(jnp.asarray, vectors)
    return _as_suits(by_words, in_full, vectors, vocabulary, weights)


def _as_suits(
    by_words: Callable,
    in_full: Callable,
    vectors: UnitVectors,
    vocabulary: int,
    matrix: Float[Array, "_ _"],
) -> Float[Array, "_ _"]:
    """By the words that documents have, where these are few and a processor has no better way."""
    if vocabulary < _FEW * vectors.columns.shape[1]:
        return in_full(matrix, vectors)
    return jax.lax.platform_dependent(matrix, vectors, cpu=by_words, default=in_full)


def gram(topics: Float[Array, "k v"]) -> Float[Array, "k k"]:
    """beta_j'beta_k."""
    return product(topics, topics.T)


def lengths(gram: Float[Array, "k k"], theta: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    """|beta theta|, whose square is off by the rounding of a sum that may be 0."""
    square, rounding = theta * product(theta, gram), jnp.finfo(theta.dtype).eps * theta * theta
    return jnp.sqrt(jnp.maximum(jnp.sum(square, axis=-1), jnp.sum(rounding, axis=-1)))


def projections(
    products: Float[Array, "n k"], gram: Float[Array, "k k"], theta: Float[Array, "n m k"]
) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
    """v'beta theta and |beta theta|, (n, m), of every document's proportions."""
    return jnp.sum(theta * products[:, None], axis=-1), lengths(gram, theta)
