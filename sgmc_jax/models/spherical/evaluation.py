"""What drawn topics say of documents, and a start for them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...directional import von_mises_fisher_log_prob
from ...spaces import Sphere
from .density import Marginal, Prior, in_parts, inner_products, weighted_sums
from .documents import UnitVectors, dense
from .proportions import Proportions


@eqx.filter_jit
def log_perplexity(
    prior: Prior, key: Any, topics: Float[Array, "s k v"], vectors: UnitVectors, draws: int
) -> Float[Array, ""]:
    """See `SphericalAdmixture.log_perplexity`."""
    alpha = jnp.broadcast_to(prior.alpha, (prior.num_topics,))
    marginal = Marginal(prior, jax.random.dirichlet(key, alpha, (draws,)))
    by_draw = jax.lax.map(lambda beta: marginal.loglik_batch(beta, vectors), topics)
    pole = jnp.zeros(prior.vocabulary).at[0].set(1.0)
    peak = von_mises_fisher_log_prob(pole, pole, prior.concentration) - prior.concentration
    scores = jax.nn.logsumexp(by_draw, axis=0) - jnp.log(len(topics)) + peak
    real = jnp.any(vectors.values != 0, axis=1)
    return -jnp.sum(jnp.where(real, scores, 0)) / jnp.sum(real)


@eqx.filter_jit
def mean_proportions(
    latent: Proportions, key: Any, topics: Float[Array, "s k v"], vectors: UnitVectors
) -> Float[Array, "n k"]:
    """See `SphericalAdmixture.transform`."""

    def add(total: Array, draw: tuple[Any, Array]) -> tuple[Array, None]:
        mean = jnp.mean(latent.draw(*draw, vectors, None), axis=1)
        return total + mean.astype(total.dtype), None

    start = jnp.zeros((len(vectors.columns), latent.prior.num_topics), topics.dtype)
    total, _ = jax.lax.scan(add, start, (jax.random.split(key, len(topics)), topics))
    return total / len(topics)


@eqx.filter_jit
def spherical_means(
    key: Any, vectors: UnitVectors, num_topics: int, vocabulary: int, sweeps: int
) -> Float[Array, "k v"]:
    """Directions of clusters of documents, by Lloyd's algorithm from as many documents."""
    vectors = jax.tree.map(jnp.asarray, vectors)
    real = jnp.any(vectors.values != 0, axis=1)
    rows = jax.random.choice(key, len(real), (num_topics,), replace=False, p=real / jnp.sum(real))
    start = dense(jax.tree.map(lambda x: x[rows], vectors), vocabulary, vectors.values.dtype)

    def sums(topics: Array, vectors: UnitVectors) -> Array:
        nearest = jnp.argmax(inner_products(topics, vectors), axis=1)
        mine = jax.nn.one_hot(nearest, num_topics, dtype=topics.dtype)
        return weighted_sums(mine, vectors, vocabulary)

    def sweep(_: Any, topics: Array) -> Array:
        total = in_parts(sums, topics, vectors)
        empty = jnp.linalg.norm(total, axis=1, keepdims=True) == 0
        return Sphere().nearest(jnp.where(empty, topics, total))

    return jax.lax.fori_loop(0, sweeps, sweep, start)
