"""Topics by a hierarchical Dirichlet process: Reuters, or Newsgroups at full size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from sgmc_jax import sample
from sgmc_jax.bnp import DirichletCategorical, Groups, HierarchicalDirichletProcess, hybrid_hdp
from sgmc_jax.evaluation import (
    hdp_concentrations,
    infer_proportions,
    top_words,
    word_distributions,
    word_probabilities,
)

from .. import common
from ..common import ROWS, Options, active, clocked, load, table, word_lists

ETA, DRAWS, THIN, LONGEST = 0.1, 10, 5, 200


def run(options: Options) -> Iterator[str]:
    """A table, and the largest topics' first words."""
    documents, vocabulary = _newsgroups(options) if options.full else _reuters(options)
    order = np.random.default_rng(0).permutation(len(documents))
    held = [documents[i] for i in order[: len(order) // 5]]
    train = [documents[i] for i in order[len(order) // 5 :]]
    groups = Groups.from_list(train)
    process = HierarchicalDirichletProcess(1.0, 1.0, (1.0, 1.0), (1.0, 1.0))
    kernel = hybrid_hdp(
        process, DirichletCategorical(ETA, size=len(vocabulary)), blocks=64, capacity=128
    )
    first = np.random.default_rng(1).integers(0, 60, groups.items.shape).astype(np.int32)
    burn_in = 200 if options.full else 150
    go = partial(sample, options.key, kernel, data=groups, record=active)
    run, seconds = clocked(go, go(position=first, num_steps=1), burn_in)
    num_words = sum(map(len, train))
    speed = num_words * burn_in / seconds / 1e6
    header = ["documents", "words", "topics", "draws", "perplexity", "Mtok / CPU-s"]
    densities = []
    for _ in range(DRAWS):
        run = go(position=run, num_steps=THIN)
        densities.append(predictive(run.state, held))
        perplexity = np.exp(-np.log(np.mean(densities, axis=0)).mean())
        row = [len(train), num_words, int(run.trace[-1]), len(densities), f"{perplexity:,.0f}"]
        text = table(header, [[*row, f"{speed:.2f}"]])
        yield text + "\n" + _first_words(run.state, vocabulary)


def predictive(state: Any, documents: list[np.ndarray]) -> np.ndarray:
    """The probability of every second word of documents given their other words."""
    stats = state.sums.statistics
    family = DirichletCategorical(ETA, size=stats.total.shape[1])
    topics = word_distributions(family, stats, rest=True)
    shuffled = [np.random.default_rng(i).permutation(d) for i, d in enumerate(documents)]
    seen, told = (Groups.from_list([d[i::2] for d in shuffled]) for i in (0, 1))
    prior = hdp_concentrations(state.position.shared, stats.count)
    shares = infer_proportions(topics, prior, seen)
    chances = np.asarray(word_probabilities(topics, shares, told))
    return np.concatenate([row[:size] for row, size in zip(chances, told.size)])


def _first_words(state: Any, vocabulary: np.ndarray) -> str:
    stats = state.sums.statistics
    words = top_words(stats.total, vocabulary, counts=stats.count)[:10]
    return "\n".join("- " + " ".join(row) for row in words) + "\n"


def _reuters(options: Options) -> tuple[list[np.ndarray], np.ndarray]:
    what = "395 documents of Reuters-21578 (reuters.ldac of the Python package lda)"
    holds = f"{ROWS}, a document each, and the words `vocab` (4258,) (reuters.tokens there)"
    data = load(options, "reuters395.npz", what, holds)
    cells = data["data"], data["indices"], data["indptr"]
    shape = len(data["indptr"]) - 1, len(data["vocab"])
    return word_lists(sparse.csr_matrix(cells, shape=shape)), data["vocab"]


def _newsgroups(options: Options) -> tuple[list[np.ndarray], np.ndarray]:
    """20 Newsgroups, of the words of the Gutenberg list; all groups are as wide as the longest."""
    data = common.newsgroups(options.data_dir)
    rows = word_lists(data.train[:, data.known])
    return [row for row in rows if 1 < len(row) <= LONGEST], data.words[data.known]
