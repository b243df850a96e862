"""Gibbs samplers of latent Dirichlet allocation that use all documents."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._types import Data, Empty, Kernel, Key, Position, as_keys
from ..arrays import as_indices
from ..contract import Contract
from ..random.gamma import log_gamma
from ._topics import DocumentTopics


class TopicState(NamedTuple):
    """Log gammas (or log means) of the topics, and the topic of each word.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.models import LDA
        >>> lda = LDA(num_topics=2, vocabulary=2, alpha=0.1, beta=0.5)
        >>> words = lda.documents([[2, 0], [0, 1]])
        >>> init = lambda key: lda.gibbs().init(key, jnp.zeros((2, 2)), words)
        >>> jax.eval_shape(init, jax.random.key(0)).topics.shape  # those of two documents
        (2, 2)
    """

    position: Float[Array, "k v"]
    topics: Int[Array, "n l"]


class _Gibbs(Kernel):
    """What both kernels have in common."""

    allocation: DocumentTopics

    def init(self, key: Key, position: Position, data: Data) -> TopicState:
        topics = self.allocation.draw(as_keys(key).noise, position, data, None)
        return TopicState(position, topics[:, 0])

    def refresh(self, key: Key, state: TopicState, data: Data) -> TopicState:
        raise TypeError(
            f"{type(self).__name__} cannot go on from a position that another kernel has moved: "
            "the chain lives on the words' topics, which have no exact draw given the position"
        )

    def contract(self, position: Position) -> Contract:
        return Contract(shards=False)

    def check(self, position: Position, data: Data) -> None:
        self.allocation.check(position, data)

    def shapes(self, topics: Int[Array, "n l"], data: Data, dtype: Any) -> Float[Array, "k v"]:
        """beta plus the counts of the words by topic."""
        counts = self.allocation.counts(data, topics[:, None], jnp.ones(len(data), bool))
        return self.allocation.prior.beta.astype(dtype) + counts.astype(dtype)


class TopicGibbs(_Gibbs):
    """See `LDA.gibbs`."""

    def step(self, key: Key, state: TopicState, data: Data) -> tuple[TopicState, Empty]:
        sweep_key, topic_key = jax.random.split(as_keys(key).noise)
        position, allocation = state.position, self.allocation
        topics = allocation.swept(sweep_key, position, data, state.topics, allocation.sweeps)
        position = log_gamma(topic_key, self.shapes(topics, data, position.dtype))
        return TopicState(position, topics), Empty()


class CollapsedGibbs(_Gibbs):
    """See `LDA.collapsed`."""

    def init(self, key: Key, position: Position, data: Data) -> TopicState:
        topics = super().init(key, position, data).topics
        return TopicState(self._log_means(topics, data, position.dtype), topics)

    def step(self, key: Key, state: TopicState, data: Data) -> tuple[TopicState, Empty]:
        dtype, prior = state.position.dtype, self.allocation.prior
        each = jnp.arange(prior.num_topics, dtype=state.topics.dtype)
        alpha, beta = prior.alpha.astype(dtype), prior.beta.astype(dtype)
        real = data.ravel() >= 0
        places = jnp.argsort(~real)  # those of words, in order, then those of padding
        words = as_indices(data, prior.vocabulary).ravel()[places]
        olds = state.topics.ravel()[places]
        documents = places // data.shape[1]
        marks = jax.random.uniform(as_keys(key).noise, data.shape, dtype).ravel()[places]
        before = jnp.sum(state.topics[:, :, None] == each, axis=1, dtype=dtype)

        def word(i: Array, carry: tuple[Array, Array, Array, Array]) -> tuple:
            topics, in_document, by_word, total = carry
            d, w, mine = documents[i], words[i], (olds[i] == each).astype(dtype)
            enters = (i == 0) | (d != documents[jnp.maximum(i - 1, 0)])
            in_document = jnp.where(enters, before[d], in_document) - mine
            of_word = by_word[w] - mine
            mass = (alpha + in_document) * (beta + of_word)
            mass = jnp.cumsum(mass / (prior.vocabulary * beta + total - mine))
            new = jnp.sum(mass < (1 - marks[i]) * mass[-1], dtype=topics.dtype)
            now = (each == new).astype(dtype)
            by_word = by_word.at[w].set(of_word + now)
            return topics.at[i].set(new), in_document + now, by_word, total - mine + now

        by_word = (self.shapes(state.topics, data, dtype) - beta).T
        start = (olds, jnp.zeros_like(before[0]), by_word, jnp.sum(by_word, axis=0))
        topics = jax.lax.fori_loop(0, jnp.sum(real), word, start)[0]
        topics = jnp.zeros_like(topics).at[places].set(topics, unique_indices=True)
        topics = topics.reshape(data.shape)
        return TopicState(self._log_means(topics, data, dtype), topics), Empty()

    def _log_means(self, topics: Int[Array, "n l"], data: Data, dtype: Any) -> Float[Array, "k v"]:
        shapes = self.shapes(topics, data, dtype)
        return jnp.log(shapes / jnp.sum(shapes, axis=1, keepdims=True))
