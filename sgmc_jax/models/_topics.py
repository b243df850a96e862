"""The topics of a document's words given those of the vocabulary."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, PyTree, Real

from .. import _checks
from .._types import Data, Position
from ..gradients.allocation import Allocation
from ._corpus import check_documents, check_topics
from ._sweep import relative_weights, sweep, word_counts

_MOST_TOPICS = 2**15 - 1  # that a word's topic, int16, can name


class TopicPrior(eqx.Module):
    """The sizes and the prior of a topic model; its arguments are those of `LDA`."""

    num_topics: int = eqx.field(static=True)
    vocabulary: int = eqx.field(static=True)
    alpha: Float[Array, ""] = eqx.field(converter=_checks.real("alpha"))
    beta: Float[Array, ""] = eqx.field(converter=_checks.real("beta"))
    lanes: int = eqx.field(static=True, default=16)

    def __check_init__(self):
        for name in ("num_topics", "vocabulary", "lanes"):
            _checks.whole(name, getattr(self, name))
        if self.num_topics > _MOST_TOPICS:
            raise ValueError(f"num_topics must be at most {_MOST_TOPICS}, got {self.num_topics}")
        for name in ("alpha", "beta"):
            _checks.positive(name, getattr(self, name))
            if jnp.ndim(getattr(self, name)):
                raise ValueError(
                    f"{name} must be one number, got shape {getattr(self, name).shape}"
                )


class DocumentTopics(Allocation):
    """The topics of a document's words, an array of shape (draws, length) a document.

    A draw from scratch has `burn_in` sweeps before the first that counts, one from others `sweeps`.
    """

    prior: TopicPrior
    sweeps: int = eqx.field(static=True)
    burn_in: int = eqx.field(static=True)
    draws: int = eqx.field(static=True)

    exact: ClassVar[bool] = False  # from scratch it takes sweeps

    def __check_init__(self):
        for name in ("sweeps", "draws"):
            _checks.whole(name, getattr(self, name))
        _checks.whole("burn_in", self.burn_in, 0)

    def draw(
        self, key: Any, position: Position, items: PyTree, previous: PyTree | None
    ) -> Int[Array, "n draws l"]:
        first, *rest = jax.random.split(key, self.draws) if self.draws > 1 else [key]
        if previous is None:
            nothing = jnp.full(items.shape, -1, jnp.int16)
            topics = self.swept(first, position, items, nothing, self.burn_in + 1)
        else:
            topics = self.swept(first, position, items, previous[:, -1], self.sweeps)
        if not rest:
            return topics[:, None]

        def again(topics: Array, key: Any) -> tuple[Array, Array]:
            topics = self.swept(key, position, items, topics, self.sweeps)
            return topics, topics

        others = jax.lax.scan(again, topics, jnp.stack(rest))[1]
        return jnp.concatenate([topics[None], others]).swapaxes(0, 1)

    def swept(
        self,
        key: Any,
        position: Float[Array, "k v"],
        words: Integer[Array | np.ndarray, "n l"],
        topics: Int[Array | np.ndarray, "n l"],
        num: int,
    ) -> Int[Array, "n l"]:
        """The words' topics after a number of sweeps."""
        weights = relative_weights(jax.nn.log_softmax(position))
        alpha = self.prior.alpha.astype(position.dtype)
        return sweep(key, weights, words, topics, alpha, num_sweeps=num, lanes=self.prior.lanes)

    def counts(
        self,
        items: PyTree,
        allocations: Int[Array, "n draws l"],
        weight: Float[Array, " n"] | Bool[Array, " n"],
    ) -> Real[Array, "k v"]:
        size = (self.prior.num_topics, self.prior.vocabulary)
        draws = allocations.shape[1]
        one_draw = lambda topics: word_counts(items, topics, weight, *size)
        if draws == 1:
            return one_draw(allocations[:, 0])
        return jnp.mean(jax.vmap(one_draw, 1)(allocations), axis=0)

    def check(self, position: Position, data: Data) -> None:
        """Raise unless the position is topics and the data are documents."""
        check_topics("position", position, self.prior.num_topics, self.prior.vocabulary)
        check_documents(data, self.prior.vocabulary)
