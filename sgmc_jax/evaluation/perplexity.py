"""Words of documents that topics have not seen."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import product
from ..bnp import Groups
from ._arrays import masses, shares, words

_NUMBERS = 2**22  # probabilities of words under topics at once


def infer_proportions(
    topics: Float[Array | np.ndarray, "K V"],
    concentrations: Float[Array | np.ndarray, " K"],
    documents: Groups,
    *,
    sweeps: int = 50,
) -> Float[Array, "G K"]:
    """The proportions of topics in documents that a chain has not seen, from words of theirs.

    From the prior's mean on,

        theta_k ~ a_k + sum_l q_lk,   q_lk ~ theta_k p(w_l | topic k),

    which never lowers sum_l log sum_k theta_k p(w_l | k) + sum_k a_k log theta_k: EM for the mode
    of theta's posterior in the basis log theta, or CVB0 but for the share of the word itself. It
    is no posterior mean; for perplexities it stands in for one, and costs K numbers a word.

    Args:
        topics: (K, V), `word_distributions(..., rest=True)`, or the softmax of `LDA` positions.
        concentrations: a > 0 or 0 for none, (K,), `hdp_concentrations`, or alpha of each topic.
        documents: the words that are seen; tell by others how good the proportions are.
        sweeps: how often proportions are set.

    Returns:
        (G, K), whose rows sum to 1. A document without words has the prior's mean.

    Raises:
        ValueError, TypeError: if a shape does not fit, a word is none of V, or what should be
            probabilities are logarithms or counts.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> topics = jnp.array([[0.9, 0.1], [0.1, 0.9]])
        >>> words = Groups.from_list([np.array([0, 0, 0, 1]), np.array([], int)])
        >>> shares = infer_proportions(topics, jnp.array([1.0, 1.0]), words)
        >>> [[round(x, 2) for x in row] for row in shares.tolist()]
        [[0.67, 0.33], [0.5, 0.5]]

    Reference:
        Asuncion, Welling, Smyth and Teh (2009), On smoothing and inference for topic models.
    """
    topics = shares("topics", topics, "K", "V")
    a = masses("concentrations", concentrations, len(topics)).astype(topics.dtype)
    _checks.whole("sweeps", sweeps)
    return _inferred(topics, a, *words("documents", documents, topics.shape[1]), sweeps)


def word_probabilities(
    topics: Float[Array | np.ndarray, "K V"],
    proportions: Float[Array | np.ndarray, "G K"],
    documents: Groups,
) -> Float[Array, "G L"]:
    """p(w_dl) = sum_k theta_dk p(w_dl | topic k) of every word; 1 past a document's end.

    Args:
        topics: (K, V).
        proportions: theta, (G, K).
        documents: the words to be told.

    Raises:
        ValueError, TypeError: if a shape does not fit, a word is none of V, or what should be
            probabilities are logarithms or counts.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> topics, shares = jnp.array([[0.5, 0.5], [0.1, 0.9]]), jnp.array([[0.5, 0.5]])
        >>> words = Groups(np.array([[1, 0, 0]]), np.array([2]))
        >>> word_probabilities(topics, shares, words).tolist()
        [[0.7, 0.3, 1.0]]
    """
    topics = shares("topics", topics, "K", "V")
    items, present = words("documents", documents, topics.shape[1])
    proportions = shares("proportions", proportions, len(items), len(topics))
    return _probabilities(topics, proportions.astype(topics.dtype), items, present)


def perplexity(
    topics: Float[Array | np.ndarray, "... K V"],
    proportions: Float[Array | np.ndarray, "... G K"],
    documents: Groups,
) -> Float[Array, ""]:
    """The perplexity of held-out words, their probabilities averaged over draws.

        exp(-mean_dl log(mean_s p_s(w_dl))),   p_s as of `word_probabilities`

    One draw's perplexity is that of a point; the average over draws is the model's, and
    lower than the geometric mean of theirs.

    Args:
        topics: (K, V), draws on any leading axes, such as those of chains and draws.
        proportions: (G, K), on the same axes: of these documents, given other words of theirs.
        documents: the words to be told.

    Returns:
        a number; NaN where there is no word.

    Raises:
        ValueError, TypeError: if a shape does not fit, a word is none of V, or what should be
            probabilities are logarithms or counts.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> topics = jnp.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # two draws of one topic
        >>> words = Groups(np.array([[0, 1, 1]]), np.array([3]))
        >>> float(perplexity(topics, jnp.ones((2, 1, 1)), words))
        2.0
        >>> float(perplexity(topics[0], jnp.ones((1, 1)), words))
        inf

    Reference:
        Wallach, Murray, Salakhutdinov and Mimno (2009), Evaluation methods for topic models.
    """
    _checks.number("topics", topics)
    shape = np.shape(topics)
    if len(shape) < 2:
        raise ValueError(f"topics must end in the shape (K, V), got shape {shape}")
    topics = shares("topics", topics, *shape)
    *lead, capacity, vocabulary = shape
    if not math.prod(lead):
        raise ValueError(f"topics must have one draw at least, got shape {shape}")
    items, present = words("documents", documents, vocabulary)
    proportions = shares("proportions", proportions, *lead, len(items), capacity)
    topics = topics.reshape(-1, capacity, vocabulary)
    proportions = proportions.reshape(-1, len(items), capacity)
    return _perplexity(topics, proportions.astype(topics.dtype), items, present)


@partial(jax.jit, static_argnames="sweeps")
def _inferred(topics: Array, a: Array, items: Array, present: Array, sweeps: int) -> Array:
    tiny = jnp.finfo(topics.dtype).tiny

    def one(document: tuple[Array, Array]) -> Array:
        items, present = document
        chance = topics[:, items]  # (K, L)

        def update(_: Any, mass: Array) -> Array:
            total = product(mass, chance)
            # a word that no topic has says nothing, and many of them would be infinite
            share = jnp.where(total >= tiny, present / jnp.maximum(total, tiny), 0)
            return a + mass * product(chance, share)

        return jax.lax.fori_loop(0, sweeps, update, a)

    mass = jax.lax.map(one, (items, present), batch_size=_together(topics, items))
    return mass / jnp.sum(mass, axis=1, keepdims=True)


@jax.jit
def _probabilities(topics: Array, shares: Array, items: Array, present: Array) -> Array:
    one = lambda document: product(document[0], topics[:, document[1]])
    chance = jax.lax.map(one, (shares, items), batch_size=_together(topics, items))
    return jnp.where(present, chance, 1)


@jax.jit
def _perplexity(topics: Array, shares: Array, items: Array, present: Array) -> Array:
    def add(total: Array, draw: tuple[Array, Array]) -> tuple[Array, None]:
        return total + _probabilities(*draw, items, present), None

    total, _ = jax.lax.scan(add, jnp.zeros(items.shape, topics.dtype), (topics, shares))
    return jnp.exp(-jnp.sum(jnp.log(total / len(topics))) / jnp.sum(present))


def _together(topics: Array, items: Array) -> int:
    """How many documents are looked at together."""
    return max(1, _NUMBERS // max(1, len(topics) * items.shape[1]))
