"""Held-out documents under drawn topics."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Integer

from ._sweep import largest_weight, relative_weights
from ._topics import DocumentTopics, TopicPrior


@eqx.filter_jit
def perplexity(
    prior: TopicPrior,
    key: Any,
    log_topics: Float[Array, "s k v"],
    documents: Integer[Array, "n l"],
    burn_in: int,
    draws: int,
) -> Float[Array, ""]:
    """By document completion; see `LDA.perplexity`."""
    halves_key, sweeps_key = jax.random.split(key)
    seen, held = _halves(halves_key, documents)
    allocation = DocumentTopics(prior, 1, burn_in, draws)

    def log_likelihood(key: Any, position: Array) -> Array:
        share = _shares(allocation, key, position, seen)
        log_phi = jax.nn.log_softmax(position)
        largest = largest_weight(log_phi)  # rare words underflow in all topics
        phi = relative_weights(log_phi)
        return largest[held] + jnp.log(
            jnp.einsum("nk,nlk->nl", share, phi[held], precision="highest")
        )

    keys = jax.random.split(sweeps_key, len(log_topics))
    add = lambda total, draw: (jnp.logaddexp(total, log_likelihood(*draw)), None)
    start = jnp.full(held.shape, -jnp.inf, log_topics.dtype)
    total, _ = jax.lax.scan(add, start, (keys, log_topics))
    mean = total - jnp.log(len(log_topics))
    real = held >= 0
    return jnp.exp(-jnp.sum(jnp.where(real, mean, 0)) / jnp.sum(real))


@eqx.filter_jit
def mean_proportions(
    prior: TopicPrior,
    key: Any,
    log_topics: Float[Array, "s k v"],
    documents: Integer[Array, "n l"],
    burn_in: int,
    draws: int,
) -> Float[Array, "n k"]:
    """See `LDA.transform`."""
    allocation = DocumentTopics(prior, 1, burn_in, draws)

    def add(total: Array, draw: tuple[Any, Array]) -> tuple[Array, None]:
        key, position = draw
        return total + _shares(allocation, key, position, documents), None

    start = jnp.zeros((len(documents), prior.num_topics), log_topics.dtype)
    total, _ = jax.lax.scan(add, start, (jax.random.split(key, len(log_topics)), log_topics))
    return total / len(log_topics)


def _shares(
    allocation: DocumentTopics,
    key: Any,
    position: Float[Array, "k v"],
    documents: Integer[Array, "n l"],
) -> Float[Array, "n k"]:
    """E[theta | words] given topics, as the mean of E[theta | z] over draws of z."""
    prior, topics = allocation.prior, allocation.draw(key, position, documents, None)
    counts = jax.vmap(lambda z: jnp.bincount(z.ravel() + 1, length=prior.num_topics + 1))(topics)
    mass = counts[:, 1:].astype(position.dtype) / allocation.draws + prior.alpha
    mass = mass.astype(position.dtype)
    return mass / jnp.sum(mass, axis=1, keepdims=True)


def _halves(
    key: Any, documents: Integer[Array, "n l"]
) -> tuple[Int[Array, "n l"], Int[Array, "n l"]]:
    """The words of each document in two random halves; the second has the odd one."""
    documents = documents.astype(jnp.int32)  # padding is -1, which whole numbers without sign lack
    mark = jnp.where(documents >= 0, jax.random.uniform(key, documents.shape), jnp.inf)
    shuffled = jnp.take_along_axis(documents, jnp.argsort(mark, axis=1), axis=1)
    place, length = jnp.arange(documents.shape[1]), jnp.sum(documents >= 0, axis=1, keepdims=True)
    first = place < length // 2
    last = jnp.sort(jnp.where(first, -1, shuffled), axis=1, descending=True)
    return jnp.where(first, shuffled, -1), last
