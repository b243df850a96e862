"""The two corpora: 20 Newsgroups, and abstracts of computer science."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from .. import common

LONGEST = 500  # words of a document; those past it are left out
RARE = 5  # words in fewer training documents are left out


class Corpus(NamedTuple):
    """Documents as rows of word indices, padded with -1.

    `tune` chooses the step sizes, `test` judges.
    """

    vocabulary: int
    train: Int[np.ndarray, "n l"]
    tune: Int[np.ndarray, "m l"]
    test: Int[np.ndarray, "m l"]


def newsgroups(folder: Path, num_documents: int | None, num_held_out: int) -> Corpus:
    """The bydate split, with the words of the online LDA vocabulary."""
    data, rng = common.newsgroups(folder), np.random.default_rng(0)
    train = rng.permutation(data.train.shape[0])[:num_documents]
    held_out = rng.permutation(data.test.shape[0])[: 2 * num_held_out]
    words = common.word_lists
    return _corpus(words(data.train[train]), words(data.test[held_out]), data.known)


def abstracts(folder: Path, num_documents: int | None, num_held_out: int) -> Corpus:
    """A random split, all words; stop words were left out by the corpus."""
    rows, _ = common.abstracts(folder)
    order = np.random.default_rng(0).permutation(rows.shape[0])
    held_out, train = np.split(order, [2 * num_held_out])
    known = np.ones(rows.shape[1], bool)
    words = common.word_lists
    return _corpus(words(rows[train[:num_documents]]), words(rows[held_out]), known)


CORPORA = {"newsgroups": newsgroups, "abstracts": abstracts}


def _corpus(train: list[np.ndarray], held_out: list[np.ndarray], known: np.ndarray) -> Corpus:
    """Words that are known and not rare, numbered anew."""
    frequency = np.zeros(len(known), int)
    for words in train:
        frequency[np.unique(words)] += 1
    kept = known & (frequency >= RARE)
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    half = len(held_out) // 2
    sets = (_padded(part, number) for part in (train, held_out[:half], held_out[half:]))
    return Corpus(int(kept.sum()), *sets)


def _padded(documents: list[np.ndarray], number: np.ndarray) -> Int[np.ndarray, "n l"]:
    """Rows of one length; a random choice of the words of a document that is too long."""
    rng = np.random.default_rng(1)
    renumbered = [number[words] for words in documents]
    shuffled = [rng.permutation(words[words >= 0])[:LONGEST] for words in renumbered]
    rows = np.full((len(shuffled), max(map(len, shuffled))), -1, np.int32)
    for row, words in zip(rows, shuffled):
        row[: len(words)] = words
    return rows
