"""The prior of topics that are directions, their data, and where chains begin."""

from __future__ import annotations

import math
import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from ... import _checks
from ...random import von_mises_fisher
from .density import Prior
from .documents import UnitVectors, as_unit_vectors, check_vectors, document_frequency
from .evaluation import spherical_means


class Directions(eqx.Module):
    """What a spherical topic model is before a sampler: see `SphericalAdmixture`."""

    prior: Prior

    def __init__(
        self,
        num_topics: int,
        vocabulary: int,
        alpha: Any,
        concentration: Any,
        topic_concentration: Any,
        prior_concentration: Any = 1.0,
        mean_direction: Any = None,
    ):
        _checks.whole("num_topics", num_topics)
        _checks.whole("vocabulary", vocabulary, 2)
        numbers = {
            "alpha": alpha,
            "concentration": concentration,
            "topic_concentration": topic_concentration,
            "prior_concentration": prior_concentration,
        }
        for name, value in numbers.items():
            _checks.positive(name, value, zero=name == "prior_concentration")
            _checks.one_number(name, value)
        if _checks.is_concrete(alpha) and float(alpha) < 0.5:
            warnings.warn(
                f"alpha is {float(alpha):.3g}: below 1/2 the proportions' density is infinite at "
                "the faces of the simplex, which their chains reach slowly",
                stacklevel=2,
            )
        if mean_direction is None:
            mean_direction = np.full(vocabulary, 1 / math.sqrt(vocabulary))
        mean_direction = _checks.real("mean_direction")(mean_direction)
        sizes = (int(num_topics), int(vocabulary))
        self.prior = Prior(*sizes, **numbers, mean_direction=mean_direction)

    def documents(
        self, counts: Any, *, word_weights: Any = None, length: int | None = None
    ) -> UnitVectors:
        """The data of the samplers: words' counts times their weights, scaled to length one.

        Args:
            counts: a row a document and a column a word, not negative: a dense matrix, a sparse
                one of SciPy, or its parts (values, columns, row starts). A document without words
                of a weight is legal, and tells nothing.
            word_weights: (V,), by default `inverse_document_frequency(counts)`, which makes it
                tf-idf. Held-out documents want those of the documents that are fitted.
            length: to how many words rows are padded; by default the longest document's. Streamed
                batches must all have one length.

        Raises:
            ValueError: if counts are negative, not finite, or of words past the vocabulary.
        """
        if word_weights is None:
            word_weights = self.inverse_document_frequency(counts)
        weights, vocabulary = np.asarray(word_weights, np.float64), self.prior.vocabulary
        if weights.shape != (vocabulary,) or not np.all((weights >= 0) & (weights < np.inf)):
            raise ValueError(
                f"word_weights must be {vocabulary} finite numbers that are not negative, got "
                f"shape {weights.shape}"
            )
        return as_unit_vectors(counts, vocabulary, weights, length)

    def inverse_document_frequency(self, counts: Any) -> Float[np.ndarray, " v"]:
        """log(D / the number of documents that have the word), 0 for one that none has."""
        frequency, num = document_frequency(counts, self.prior.vocabulary)
        return np.where(frequency > 0, np.log(max(num, 1) / np.maximum(frequency, 1)), 0.0)

    def start(self, key: Any) -> Float[Array, "k v"]:
        """A position to begin from: topics of the prior."""
        _checks.random_key(key)
        mean_key, topics_key = jax.random.split(key)
        prior = self.prior
        mean = von_mises_fisher(mean_key, prior.mean_direction, prior.prior_concentration)
        shape = (prior.num_topics,)
        return von_mises_fisher(topics_key, mean, prior.topic_concentration, shape)

    def warm_start(
        self, key: Any, documents: UnitVectors, *, sweeps: int = 10
    ) -> Float[Array, "k v"]:
        """A position where the posterior is high: directions of clusters of documents.

        From K documents on, each is put to the topic nearest to it, and a topic becomes the
        direction of its documents' sum. It is a start, no draw.

        Reference:
            Dhillon and Modha (2001), Concept decompositions for large sparse text data.
        """
        _checks.random_key(key)
        check_vectors(documents, self.prior.vocabulary)
        _checks.whole("sweeps", sweeps)
        num = int(np.sum(np.any(np.asarray(documents.values) != 0, axis=1)))
        if num < self.prior.num_topics:
            raise ValueError(
                f"documents must be at least as many as topics, {self.prior.num_topics}, got {num} "
                "that have words"
            )
        sizes = (self.prior.num_topics, self.prior.vocabulary)
        return spherical_means(key, documents, *sizes, int(sweeps))
