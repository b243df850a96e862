"""What topics tell of newsgroups: directions of a spherical admixture against LDA's words."""

from __future__ import annotations

import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.linear_model import LogisticRegression

from sgmc_jax import Epoch, Sphere, Uniform, gsgnht, sample, scir
from sgmc_jax.bnp import Groups
from sgmc_jax.evaluation import infer_proportions, top_words
from sgmc_jax.models import LDA, SphericalAdmixture

from ..common import Options, table
from .topics import listed, newsgroups


def run(options: Options) -> Iterator[str]:
    """How well 20 proportions tell the three groups of held-out documents, and some topics."""
    corpus = newsgroups(options)
    steps = 20_000 if options.full else 3_000
    header = ["model", "groups told right", "topics in a document", "seconds, compilation included"]
    rows, words = [], ""
    for name, shares in (("spherical admixture", _spherical), ("LDA", _lda)):
        began = time.process_time()
        train, test, topics = shares(options.key, corpus, steps)
        seconds = time.process_time() - began
        fit = LogisticRegression(C=10.0, max_iter=1_000).fit(train, corpus.train_label)
        right = fit.score(test, corpus.test_label)
        used = np.exp(-np.sum(test * np.log(np.maximum(test, 1e-9)), axis=1)).mean()
        rows.append([name, f"{100 * right:.1f} %", f"{used:.1f}", f"{seconds:.0f}"])
        words += f"\n{name}:\n\n" + listed(top_words(topics, list(corpus.words), 6)[:8])
        yield table(header, rows) + words


def _spherical(key: jax.Array, corpus, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sam = SphericalAdmixture(20, corpus.train.shape[1], 1.0, 1_000.0, 1_000.0, 100.0)
    weights = sam.inverse_document_frequency(corpus.train)
    train, test = (
        sam.documents(part, word_weights=weights) for part in (corpus.train, corpus.test)
    )
    kernel = gsgnht(sam.topics(Uniform(50)), Sphere(), 2e-3, 1_000.0)
    start = sam.warm_start(key, train)
    thin = steps // 10
    run = sample(key, kernel, start, train, num_steps=steps, thin=thin, burn_in=0)
    last = run.trace[-1]
    return *(np.asarray(sam.transform(key, last, part)) for part in (train, test)), last


def _lda(key: jax.Array, corpus, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lda = LDA(20, corpus.train.shape[1], alpha=0.1, beta=0.1)
    documents = lda.documents(corpus.train)
    start = lda.warm_start(key, documents, sweeps=100)
    kernel = scir(lda.counts(Epoch(100)), 1.0)
    run = sample(key, kernel, start, documents, num_steps=steps // 10, thin=steps // 10)
    topics = jax.nn.softmax(jnp.asarray(run.trace[-1]))
    alpha = jnp.full(20, 0.1)

    def shares(counts) -> np.ndarray:
        rows = [row[row >= 0] for row in lda.documents(counts)]
        return np.asarray(infer_proportions(topics, alpha, Groups.from_list(rows)))

    return shares(corpus.train), shares(corpus.test), np.asarray(topics)
