"""Figures 4a and 4b: topics of papers, by slices in a series and in rounds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import sparse

from sgmc_jax import sample
from sgmc_jax.bnp import BetaProcess, DirichletCategorical, Groups, slice_bnb
from sgmc_jax.bnp.slice_bnb import SliceBNB
from sgmc_jax.evaluation import bnb_proportions, perplexity, topic_counts, word_distributions

from ..common import (
    ABSTRACTS,
    ROWS,
    Options,
    clocked,
    curves,
    effective,
    load,
    shown,
    table,
    word_lists,
)
from .superposition import superposition_bnb

PROCESS, ETA = BetaProcess(1.0, 1.1), 0.1
RAREST, HELD_OUT, LONGEST = 50, 0.3, 1_000
START = 20
CORPORA = {
    "nips_1987_1999": (
        "the 1,740 papers of NIPS 0 to 12 (the word counts nips12raw of Roweis)",
        f"{ROWS}, a paper each, and the words `vocab` (13649,)",
    ),
    "cs_abstracts_2015_2020": ABSTRACTS,
}


class Corpus(NamedTuple):
    """Words of documents to learn from, and of the same documents to be told."""

    train: Groups
    test: Groups
    words: np.ndarray


def corpus(options: Options, name: str, num: int, venue: str | None = None) -> Corpus:
    """The first `num` documents of a random order, of words with more than 50 occurrences in them.

    All documents of a set, or those of one venue. Of longer documents a thousand words are kept,
    at random; of all words 30 % are held out. Documents of fewer than ten such words are left out.
    """
    data = load(options, f"{name}.npz", *CORPORA[name])
    counts = sparse.csr_matrix(tuple(data[part] for part in ("data", "indices", "indptr")))
    rng = np.random.default_rng(0)
    of_venue = np.arange(counts.shape[0])
    if venue is not None:
        of_venue = np.flatnonzero(data["venue_name"][data["venue"]] == venue)
    chosen = rng.permutation(of_venue)[:num]
    documents = [rng.permutation(words)[:LONGEST] for words in word_lists(counts[chosen])]
    often = np.bincount(np.concatenate(documents)) > RAREST * min(1, num / 200)
    place = np.cumsum(often) - 1
    kept = [place[words[often[words]]].astype(np.int32) for words in documents]
    kept = [words for words in kept if len(words) > 9]
    ends = [int((1 - HELD_OUT) * len(words)) for words in kept]
    train = Groups.from_list([words[:end] for words, end in zip(kept, ends)])
    test = Groups.from_list([words[end:] for words, end in zip(kept, ends)])
    return Corpus(train, test, data["vocab"][: len(often)][often])


def kernels(size: int, capacity: int) -> dict[str, SliceBNB]:
    """The same model twice."""
    family = DirichletCategorical(ETA, size=size)
    return {
        "slice": slice_bnb(PROCESS, family, decay=3.0, capacity=capacity),
        "superposition": superposition_bnb(PROCESS, family, decay=3.0, capacity=capacity),
    }


class Kept(NamedTuple):
    """Of a step: parity of the pairs of documents and topics, topics, perplexity."""

    even: Array
    active: Array
    perplexity: Array


def recorder(data: Corpus, kernel: SliceBNB) -> Any:
    """What is kept of a step of a kernel."""
    size = jnp.asarray(data.train.size)

    def record(state: Any, info: Any) -> Kept:
        stats, (shared, local) = state.sums.statistics, state.position
        x = topic_counts(local["assignment"], size, len(stats.count))
        share = bnb_proportions(PROCESS, kernel.log_theta(shared), x)
        told = perplexity(word_distributions(kernel.family, stats), share, data.test)
        return Kept(jnp.sum(x > 0) % 2 == 0, info.active, told)

    return record


class Curve(NamedTuple):
    """Seconds a step, effective samples a step of two functions, topics, and perplexities."""

    seconds: float
    parity: float
    number: float
    active: float
    perplexity: np.ndarray

    def told(self, draws: int) -> float:
        """The mean, over the last quarter of so many draws, of the perplexity of one draw."""
        return float(self.perplexity[draws - max(1, draws // 4) : draws].mean())


def measure(key: Array, name: str, data: Corpus, num: int, thin: int) -> Curve:
    """A run from random topics, then half as many steps, as many timed ones, as many judged ones.

    What the chain does not tell has no effective samples.
    """
    width = data.train.items.shape
    start = jax.random.randint(key, width, 0, START)
    kernel = kernels(len(data.words), 64)[name]
    record = recorder(data, kernel)

    go = partial(sample, key, kernel, data=data.train)
    short = partial(go, chunk=num // 2)
    first = go(position=start, num_steps=num, thin=thin, record=record, chunk=num)
    bare = partial(short, record=lambda state, info: info.active)
    run, seconds = clocked(bare, bare(position=first, num_steps=num // 2), num // 2)
    judged = short(position=run, num_steps=num // 2, record=record).trace
    per_step = lambda x: float(effective(x[None], kind="batch_means")) / len(x)
    speeds = per_step(judged.even), per_step(judged.active)
    told = np.asarray(first.trace.perplexity, float)
    return Curve(seconds / (num // 2), *speeds, judged.active.mean(), told)


def run(options: Options) -> Iterator[str]:
    """A table, figure4a.png and figure4b.png."""
    sets = {
        "nips_1987_1999": (None, (25, 100, 500) if options.full else (25,)),
        "cs_abstracts_2015_2020": ("nips", (250, 1_000, 3_685) if options.full else (100,)),
    }
    num, thin = (100, 5) if options.full else (40, 5)
    header = ["corpus", "documents", "words", "sampler", "ms a step", "topics"]
    header += ["ESS a second of the parity", "of the number of topics"]
    header += ["perplexity", "in equal time"]
    rows, rates, told = [], {}, {}
    for corpus_name, (venue, sizes) in sets.items():
        for n in sizes:
            data = corpus(options, corpus_name, n, venue)
            kept, num_words = len(data.train.size), int(np.sum(data.train.size))
            made = {name: measure(options.key, name, data, num, thin) for name in kernels(2, 2)}
            both = num * min(curve.seconds for curve in made.values())
            for name, curve in made.items():
                by_then = max(1, int(both / curve.seconds) // thin)
                ends = curve.told(num // thin), curve.told(by_then)
                speed = [curve.parity / curve.seconds, curve.number / curve.seconds]
                row = [corpus_name, kept, f"{num_words:,}", name, f"{1e3 * curve.seconds:.0f}"]
                row += [
                    f"{curve.active:.0f}",
                    *(shown(x) for x in speed),
                    *(f"{x:,.0f}" for x in ends),
                ]
                rows.append(row)
                yield table(header, rows)
                rates.setdefault(corpus_name, {}).setdefault(name, []).append((kept, speed[0]))
                steps = thin * np.arange(1, len(curve.perplexity) + 1)
                lines = told.setdefault(f"{corpus_name}, {kept} documents", {})
                lines[name] = curve.seconds * steps, curve.perplexity
    panels = {
        title: {name: tuple(np.array(points).T) for name, points in lines.items()}
        for title, lines in rates.items()
    }
    curves(options.out / "figure4a.png", panels, ("documents", "ESS a second"), log=True)
    curves(options.out / "figure4b.png", told, ("seconds", "perplexity"))
