"""Gibbs sweeps over the topics of the words of many documents, several documents at a time."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Integer, Num, UInt32

from ..arrays import as_indices, largest_of_batch
from ..random.words import uniform, word_keys, word_pair


def sweep(
    key: Any,
    weights: Float[Array, "v k"],
    words: Integer[Array | np.ndarray, "n l"],
    topics: Int[Array | np.ndarray, "n l"],
    alpha: Float[Array, ""],
    *,
    num_sweeps: int,
    lanes: int,
    own: Float[Array, " k"] | None = None,
) -> Int[Array, "n l"]:
    """The words' topics after some Gibbs sweeps, the topics' word probabilities given.

    Word by word within each document, with the document's proportions integrated out,

        P(z_i = k) ~ (alpha + n_dk without i) weight_{w_i k}.

    Documents are sorted by length and swept `lanes` at a time, so that little time goes into
    padding. A draw depends on the key, the document's row and the word's place, not on the lanes.

    Args:
        weights: phi, up to a factor for each word; see `relative_weights`.
        words: word indices; negative ones are padding, and stand at the end of a row.
        topics: the topics to begin with; -1 for none yet, which leaves the word out of the counts.
        own: what to subtract from a word's weight in the topic that it has, if anything.
    """
    words, topics = as_indices(words, len(weights)), jnp.asarray(topics)
    # counts of words are numbers of eight bits in bfloat16
    weights = weights.astype(jnp.promote_types(weights.dtype, jnp.float32))
    num, length = words.shape
    num_groups = max(1, -(-num // lanes))
    rows = jnp.argsort(-jnp.sum(words >= 0, axis=1)).astype(jnp.uint32)
    rows = jnp.concatenate([rows, jnp.arange(num, num_groups * lanes, dtype=jnp.uint32)])

    def grouped(x: Array) -> Array:
        padded = x.at[rows].get(mode="fill", fill_value=-1)
        return padded.reshape(num_groups, lanes, length).transpose(0, 2, 1)

    (words_key,) = word_keys(key, 1)
    groups = (grouped(words), grouped(topics), rows.reshape(num_groups, lanes))
    swept = lax.map(
        lambda group: _sweep_group(words_key, weights, group, alpha, num_sweeps, own), groups
    )
    swept = swept.transpose(0, 2, 1).reshape(-1, length)
    return topics.at[rows].set(swept, mode="drop", unique_indices=True)


def relative_weights(log_topics: Float[Array, "k v"]) -> Float[Array, "v k"]:
    """Word probabilities divided by the largest over topics: a rare word's would underflow."""
    return jnp.exp(log_topics - largest_weight(log_topics)).T


def largest_weight(log_topics: Float[Array, "k v"]) -> Float[Array, " v"]:
    """The largest over topics of each word's, 0 for a word of no topic."""
    largest = jnp.max(log_topics, axis=0)
    return jnp.where(jnp.isfinite(largest), largest, 0)


def _sweep_group(
    key: Any,
    weights: Float[Array, "v k"],
    group: tuple[Integer[Array, "l lane"], Int[Array, "l lane"], UInt32[Array, " lane"]],
    alpha: Float[Array, ""],
    num_sweeps: int,
    own: Float[Array, " k"] | None,
) -> Int[Array, "l lane"]:
    """`sweep` of one group of documents, transposed so that one place of all is contiguous."""
    words, topics, rows = group
    each, dtype = jnp.arange(weights.shape[1], dtype=topics.dtype), weights.dtype
    # a product with a triangle of ones is faster than `cumsum`
    triangle = jnp.triu(jnp.ones((len(each), len(each)), dtype))
    longest = largest_of_batch(jnp.max(jnp.sum(words >= 0, axis=0)))

    def place(t: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        counts, topics = carry
        turn, i = jnp.divmod(t, longest)
        word, mine = words[i], (topics[i][:, None] == each).astype(dtype)
        weight = weights[word] if own is None else weights[word] - mine * own
        mass = (alpha + (counts - mine)) * weight  # a small alpha would be lost beside a one
        mass = jnp.matmul(mass, triangle, precision="highest")
        count = i * num_sweeps + turn  # alike in every group and however long its padding
        level = uniform(word_pair(key, rows, count, dtype)[0], dtype) * mass[:, -1]
        new = jnp.sum(mass < level[:, None], axis=1, dtype=topics.dtype)
        # a word that no topic has says nothing, and has no topic
        new = jnp.where((word >= 0) & (mass[:, -1] > 0), new, -1)
        return counts - mine + (new[:, None] == each), topics.at[i].set(new)

    counts = jnp.sum(topics[:, :, None] == each, axis=0, dtype=dtype)
    return lax.fori_loop(0, longest * num_sweeps, place, (counts, topics))[1]


def word_counts(
    words: Integer[Array | np.ndarray, "n l"],
    topics: Int[Array, "n l"],
    weight: Float[Array, " n"] | Bool[Array, " n"],
    num_topics: int,
    vocabulary: int,
) -> Num[Array, "k v"]:
    """How often each word has each topic, each document counted by its weight.

    If that is a truth they are whole numbers: one more than 2^24 is 2^24 in float32. Other ones are
    NaN if a word is out of the vocabulary, as in a later batch of a stream it may be.
    """
    words = as_indices(words, vocabulary)
    known, cell = words < vocabulary, topics.astype(jnp.int32) * vocabulary + words
    cell = jnp.where((words >= 0) & known & (cell >= 0), cell, num_topics * vocabulary)
    spread = jnp.broadcast_to(weight[:, None], words.shape)
    whole = weight.dtype == jnp.bool_
    zeros = jnp.zeros(num_topics * vocabulary, jnp.int32 if whole else weight.dtype)
    counts = zeros.at[cell].add(spread.astype(zeros.dtype), mode="drop")
    counts = counts if whole else counts + jnp.where(jnp.all(known), 0.0, jnp.nan)
    return counts.reshape(num_topics, vocabulary)
