"""Topics on the sphere from 27,520 abstracts (figure 5b, whose Wikipedia they stand in for)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import common
from ..common import Options
from .topics import RARE, Corpus, Settings, compare

TEST = 1_000


def run(options: Options) -> Iterator[str]:
    """Figure 5b: a table and abstracts.png."""
    seconds = 200.0 if options.full else 30.0
    settings = Settings(50, 100, 3_000.0, 3_000.0, seconds, 1, whole=options.full)
    yield from compare(options, "abstracts.png", abstracts(options), settings)


def abstracts(options: Options) -> Corpus:
    """A random split; stop words were left out by the corpus."""
    counts, words = common.abstracts(options.data_dir)
    order = np.random.default_rng(0).permutation(counts.shape[0])
    if not options.full:
        order = order[: 5 * TEST]
    test, train = counts[order[:TEST]], counts[order[TEST:]]
    kept = np.asarray((train > 0).sum(0)).ravel() >= RARE
    return Corpus(train[:, kept], test[:, kept], words[kept])
