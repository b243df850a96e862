"""A start for topic models: approximate collapsed sweeps over all documents at once."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Integer

from ._sweep import sweep, word_counts
from ._topics import TopicPrior


@eqx.filter_jit
def warm_start(
    prior: TopicPrior, key: Any, documents: Integer[Array, "n l"], num_sweeps: int
) -> Float[Array, "k v"]:
    """Log gammas of the topics; see `LDA.warm_start`."""

    def shapes(topics: Int[Array, "n l"]) -> Float[Array, "k v"]:
        size, each = (prior.num_topics, prior.vocabulary), jnp.ones(len(documents), bool)
        counts = word_counts(documents, topics, each, *size)
        return prior.beta + counts.astype(prior.beta.dtype)

    def one(topics: Int[Array, "n l"], key: Any) -> tuple[Int[Array, "n l"], None]:
        gammas = shapes(topics)
        total = jnp.sum(gammas, axis=1)
        swept = sweep(
            key,
            gammas.T / total,
            documents,
            topics,
            prior.alpha,
            num_sweeps=1,
            lanes=prior.lanes,
            own=1 / total,
        )
        return swept, None

    nothing = jnp.full(documents.shape, -1, jnp.int16)
    topics, _ = jax.lax.scan(one, nothing, jax.random.split(key, num_sweeps))
    return jnp.log(shapes(topics))
