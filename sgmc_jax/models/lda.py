"""Latent Dirichlet allocation."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer

from .. import _checks
from .._types import Kernel
from ..arrays import word_rows
from ..batching import Batcher
from ..gradients import MinibatchCounts, TableCounts
from ..random.gamma import log_gamma
from ._corpus import check_documents, check_topics
from ._evaluation import mean_proportions, perplexity
from ._lda_kernels import CollapsedGibbs, TopicGibbs
from ._start import warm_start
from ._topics import DocumentTopics, TopicPrior

_START = 100.0  # gamma shape of a start: nearly flat topics


class LDA(TopicPrior):
    """Latent Dirichlet allocation: documents are bags of words, each word of one of K topics.

        phi_k ~ Dirichlet(beta),   theta_d ~ Dirichlet(alpha),
        z_di ~ theta_d,            w_di ~ phi_{z_di}.

    The proportions theta_d are integrated out, and the position of every sampler is the logarithm
    of K x V gammas, whose softmax along the words gives the topics. Four samplers of one posterior:

        scir(lda.counts(Uniform(50)), h)           minibatches; without bias, as its table is exact
        sgrld_simplex(lda.counts(Uniform(50)), h)  minibatches; biased at the simplices' boundary
        lda.gibbs()                                all documents each step
        lda.collapsed()                            all documents, one word after another

    Args:
        num_topics: K.
        vocabulary: V, the number of words; those that no document has keep their prior mass.
        alpha: the parameter of the proportions' symmetric Dirichlet prior, positive.
        beta: that of the topics' symmetric Dirichlet prior, positive.
        lanes: how many documents are swept at once. They are sorted by length, so that few lanes
            waste little on padding; an accelerator wants hundreds.

    Raises:
        ValueError: if a number is out of its range; at `sample`'s door, if the data are not
            documents.

    Example:
        >>> import jax, numpy as np
        >>> from sgmc_jax import Uniform, sample, scir
        >>> lda = LDA(num_topics=2, vocabulary=5, alpha=0.1, beta=0.5)
        >>> documents = lda.documents(np.random.default_rng(0).poisson(1.0, (20, 5)))
        >>> kernel = scir(lda.counts(Uniform(4)), step_size=0.5)
        >>> run = sample(jax.random.key(0), kernel, lda.start, documents, num_steps=10)
        >>> run.trace.shape
        (10, 2, 5)
        >>> lda.perplexity(jax.random.key(1), run.trace, documents) < 7
        True

    Reference:
        Blei, Ng and Jordan (2003), Latent Dirichlet allocation; Patterson and Teh (2013) and Baker
        et al. (2018) for minibatches of documents with Gibbs sampled words.
    """

    def documents(self, counts: Any, *, length: int | None = None) -> Int[np.ndarray, "n l"]:
        """The data of the samplers, word indices padded with -1, from word counts.

        Args:
            counts: whole numbers, a row a document and a column a word: a dense matrix, a sparse
                one of SciPy, or its parts (values, columns, row starts). Empty documents are legal.
            length: to how many words rows are padded; by default the longest document's. Streamed
                batches must all have one length.

        Raises:
            ValueError: if counts are negative or fractional, or of words past the vocabulary.
        """
        rows = word_rows(counts, self.vocabulary, length)
        if length is None and rows.shape[1] == self.vocabulary and np.all(rows >= 0):
            return np.pad(rows, [(0, 0), (0, 1)], constant_values=-1)  # not to look like counts
        return rows

    def start(self, key: Any) -> Float[Array, "k v"]:
        """A position to begin from: nearly flat topics, from which no word is far."""
        _checks.random_key(key)
        return log_gamma(key, jnp.full((self.num_topics, self.vocabulary), _START))

    def warm_start(
        self, key: Any, documents: Integer[Array | np.ndarray, "n l"], *, sweeps: int = 500
    ) -> Float[Array, "k v"]:
        """A position where the posterior is high, found by approximate collapsed sweeps.

        With a small beta a drawn topic all but excludes the words that it lacks, so that chains
        from `start` take very long to find good topics. Here topics are integrated out, and the
        documents swept side by side with the counts of the last sweep. The result is a start: it
        is no draw, and the samplers' law does not depend on it.

        Reference:
            Newman, Asuncion, Smyth and Welling (2009), Distributed algorithms for topic models,
            algorithm 1, with one document a processor.
        """
        _checks.random_key(key)
        check_documents(documents, self.vocabulary)
        _checks.whole("sweeps", sweeps)
        return warm_start(self, key, jnp.asarray(documents), int(sweeps))

    def counts(
        self,
        batcher: Batcher,
        *,
        method: Literal["table", "fresh"] = "table",
        sweeps: int = 1,
        burn_in: int = 20,
        draws: int = 1,
    ) -> MinibatchCounts | TableCounts:
        """The estimator of beta plus the words' counts by topic, for `scir` and `sgrld_simplex`.

        Args:
            batcher: which documents a step sees.
            method: `"table"` keeps the topics of all words, and sweeps over those of the batch:
                exact, whatever the batch. `"fresh"` draws the batch's from scratch, for streams and
                for corpora whose table does not fit into memory.
            sweeps: at least 1: the Gibbs sweeps of a step over its batch, between draws for
                `"fresh"`.
            burn_in: at least 0: the sweeps of a draw from scratch before the first that counts.
            draws: at least 1: the draws of `"fresh"` to be averaged. More than one lower the
                variance, but are right only with `scir(..., scale="fixed")`, as h -> 0.

        Example: documents that are read batch by batch, 1,000 in all.
            >>> import jax, numpy as np
            >>> from sgmc_jax import Given, sample, scir
            >>> lda = LDA(num_topics=2, vocabulary=5, alpha=0.1, beta=0.5)
            >>> def batch(i):
            ...     counts = np.random.default_rng(i).poisson(1.0, (20, 5))
            ...     return lda.documents(counts, length=30)
            >>> kernel = scir(lda.counts(Given(total=1000), method="fresh"), step_size=0.1)
            >>> run = sample(jax.random.key(0), kernel, lda.start, batch, num_steps=3)
        """
        _checks.choice("method", method, ("table", "fresh"))
        if method == "table" and draws != 1:
            raise ValueError(f'draws must be 1 for a table, got {draws}; method="fresh" averages')
        allocation = DocumentTopics(self, sweeps, burn_in, draws)
        estimator = TableCounts if method == "table" else MinibatchCounts
        return estimator(allocation, self.beta, batcher)

    def gibbs(self, *, sweeps: int = 1) -> Kernel:
        """The kernel that sweeps over all documents, then draws the topics from their Dirichlet.

        Targets the posterior exactly. `state.topics` are the words' topics, -1 for padding.

        Args:
            sweeps: Gibbs sweeps between two draws of the topics. Draws cost little beside sweeps,
                and long corpora are fitted in fewest sweeps with one.
        """
        return TopicGibbs(DocumentTopics(self, sweeps, 0, 1))

    def collapsed(self) -> Kernel:
        """Collapsed Gibbs: one step draws each word's topic in turn, topics integrated out.

        Targets the posterior exactly, word by word: a reference. The position is the logarithm of
        the topics' posterior mean given `state.topics`.

        Reference:
            Griffiths and Steyvers (2004), Finding scientific topics, equation 5.
        """
        return CollapsedGibbs(DocumentTopics(self, 1, 0, 1))

    def perplexity(
        self,
        key: Any,
        log_topics: Float[Array | np.ndarray, "... k v"],
        documents: Integer[Array | np.ndarray, "n l"],
        *,
        burn_in: int = 20,
        draws: int = 20,
    ) -> float:
        """The perplexity of held-out documents by document completion.

        Each document's words are halved at random; from the first half come draws of its topics,
        `theta_dk = mean (n_dk + alpha) / (n_d + K alpha)`, and for each word of the second half
        `p(w) = sum_k theta_dk phi_kw`, which is averaged over the draws of phi. The result is
        `exp(-mean log p(w))`.

        Args:
            log_topics: positions of a sampler, draws on the leading axes; logarithms of topics up
                to a constant each. A word of no topic makes the perplexity infinite.
            documents: held-out documents.
            burn_in: at least 0: Gibbs sweeps over a first half before those that count.
            draws: at least 1: the number of sweeps that count.

        Reference:
            Wallach et al. (2009), Evaluation methods for topic models, section 5.1.
        """
        settings = self._checked(key, log_topics, documents, burn_in, draws)
        if np.all(np.sum(np.asarray(documents) >= 0, axis=1) < 2):
            raise ValueError("documents must have some with two words or more, to be halved")
        return float(perplexity(self, key, *settings))

    def transform(
        self,
        key: Any,
        log_topics: Float[Array | np.ndarray, "... k v"],
        documents: Integer[Array | np.ndarray, "n l"],
        *,
        burn_in: int = 20,
        draws: int = 50,
    ) -> Float[Array, "n k"]:
        """The proportions of new documents: their posterior mean, averaged over drawn topics.

            E[theta_dk | w_d, phi] = E[(n_dk + alpha) / (n_d + K alpha) | w_d, phi],

        by Gibbs sweeps over the topics of a document's words, from scratch for each draw of phi.
        Topics of chains of their own have names of their own: average over draws of one chain.

        Args:
            log_topics: positions of a sampler, draws on the leading axes, as of `perplexity`.
            documents: of `documents(counts)`; one without words has the prior's mean, 1 / K.
            burn_in: at least 0: Gibbs sweeps before those that count.
            draws: at least 1: the number of sweeps that count, for each draw of the topics.

        Returns:
            (n, K), whose rows sum to 1.

        Raises:
            ValueError, TypeError: if a shape or a number does not fit, or a word is none of V.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> lda = LDA(num_topics=2, vocabulary=3, alpha=0.5, beta=0.5)
            >>> log_topics = jnp.log(jnp.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]))
            >>> new = lda.documents([[9, 1, 0], [0, 0, 0]])
            >>> shares = lda.transform(jax.random.key(0), log_topics, new)
            >>> bool(shares[0, 0] > 0.8), shares[1].tolist()
            (True, [0.5, 0.5])
        """
        return mean_proportions(
            self, key, *self._checked(key, log_topics, documents, burn_in, draws)
        )

    def _checked(
        self,
        key: Any,
        log_topics: Float[Array | np.ndarray, "... k v"],
        documents: Integer[Array | np.ndarray, "n l"],
        burn_in: int,
        draws: int,
    ) -> tuple[Float[Any, "s k v"], Integer[Array, "n l"], int, int]:
        """Draws of topics on one axis, documents and numbers, if they fit."""
        _checks.random_key(key)
        check_topics("log_topics", log_topics, self.num_topics, self.vocabulary)
        check_documents(documents, self.vocabulary)
        _checks.whole("burn_in", burn_in, 0)
        _checks.whole("draws", draws)
        log_topics = jnp.reshape(log_topics, (-1, self.num_topics, self.vocabulary))
        return log_topics, jnp.asarray(documents), int(burn_in), int(draws)
