"""Topic models on Reuters: full-batch LDA against tomotopy, speed and perplexity in one run.

The corpus is `reuters395.npz` in the folder SGMC_JAX_DATA, compressed rows of counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.distributed_bnp.topics import ETA, predictive
from sgmc_jax import sample
from sgmc_jax.bnp import DirichletCategorical, Groups, HierarchicalDirichletProcess, hybrid_hdp
from sgmc_jax.models import LDA

from .table import Table, plain
from .timing import clock

_ALPHA, _BETA = 0.1, 0.01  # tomotopy's own
_HELD_OUT, _SAMPLES, _SEEDS = 79, 10, 3
_SLOWEST, _WORST = 2.0, 1.02  # Mtok a CPU-second; perplexity over tomotopy's
_HDP_SLOWEST, _HDP_WORST = 1.0, 1_500  # and perplexity itself
_HEADER = ["case", "Mtok / CPU-s; perplexity of each seed", "bar", "met"]

Fit = Callable[[LDA, np.ndarray, int, int], tuple[Any, float]]


class Size(NamedTuple):
    """Sweeps before the first sample, and between samples."""

    burn_in: int
    thin: int


def run(scale: float, rounds: int, topics: int = 0) -> Iterator[Table]:
    """A table for each number of topics, and one without any; `topics` asks for one number only."""
    size = Size(max(5, int(500 * scale)), max(1, int(20 * scale)))
    seeds = min(rounds, _SEEDS)
    yield from (_table(k, size, seeds) for k in ([topics] if topics else [20, 50]))
    if not topics:
        yield _hdp_table(size, seeds)


def reuters() -> tuple[tuple[np.ndarray, ...], int] | None:
    """The parts of the compressed matrix of counts, and its columns; None where there is none."""
    path = Path(os.environ.get("SGMC_JAX_DATA", "")) / "reuters395.npz"
    if not path.is_file():
        return None
    with np.load(path) as file:
        return tuple(file[name] for name in ("data", "indices", "indptr")), int(file["shape"][1])


def _table(num_topics: int, size: Size, seeds: int) -> Table:
    title = f"Topics. LDA with {num_topics} topics, Reuters, all documents each sweep"
    corpus = reuters()
    if corpus is None:
        return Table(title, "SGMC_JAX_DATA names no folder with reuters395.npz.", _HEADER, [])
    counts, vocabulary = corpus
    lda = LDA(num_topics, vocabulary, _ALPHA, _BETA)
    documents = lda.documents(counts)
    order = np.random.default_rng(0).permutation(len(documents))
    held, train = documents[order[:_HELD_OUT]], documents[order[_HELD_OUT:]]
    rows = [["unigram", f"-; {_unigram(train, held, vocabulary):,.0f}", "", ""]]
    peer = _peer(lda, train, held, size, seeds)
    rows.append(["tomotopy", "not installed" if peer is None else _figures(*peer), "", ""])
    rows += _rows(_fits(_warm_gibbs, lda, train, held, size, seeds), peer)
    note = (
        f"{len(train)} training documents, {(train >= 0).sum():,} words; document completion of "
        f"{len(held)} others, predictive averaged over {_SAMPLES} samples {size.thin} sweeps apart "
        f"after {size.burn_in}; alpha {_ALPHA}, beta {_BETA}, which neither adapts. Time is the "
        "whole fit's, after compilation. `gibbs` begins at `warm_start`."
    )
    return Table(title, note, _HEADER, rows)


def _hdp_table(size: Size, seeds: int) -> Table:
    """The hierarchical Dirichlet process, which needs no number of topics."""
    title = "Topics. Hierarchical Dirichlet process, Reuters"
    corpus = reuters()
    if corpus is None:
        return Table(title, "SGMC_JAX_DATA names no folder with reuters395.npz.", _HEADER, [])
    counts, vocabulary = corpus
    documents = [row[row >= 0] for row in LDA(1, vocabulary, _ALPHA, _BETA).documents(counts)]
    order = np.random.default_rng(0).permutation(len(documents))
    held, train = ([documents[i] for i in part] for part in np.split(order, [_HELD_OUT]))
    groups, sweeps = Groups.from_list(train), 2
    process = HierarchicalDirichletProcess(1.0, 1.0, (1.0, 1.0), (1.0, 1.0))
    kernel = hybrid_hdp(
        process,
        DirichletCategorical(ETA, size=vocabulary),
        blocks=64,
        local_sweeps=sweeps,
        capacity=128,
    )
    active = lambda state, info: info.active
    speeds, perplexities, topics = [], [], []
    for seed in range(seeds):
        key = jax.random.key(seed)
        first = np.random.default_rng(seed).integers(0, 60, groups.items.shape).astype(np.int32)
        run = sample(key, kernel, first, groups, num_steps=1, record=active)
        seconds, densities = 0.0, []
        for num_steps in [size.burn_in // sweeps] + [size.thin // sweeps] * _SAMPLES:
            began = clock()
            run = sample(key, kernel, run, groups, num_steps=max(1, num_steps), record=active)
            seconds += clock() - began
            densities.append(predictive(run.state, held))
        num_words = sum(map(len, train)) * sweeps * (run.num_steps - 1)
        speeds.append(num_words / seconds / 1e6)
        perplexities.append(np.exp(-np.log(np.mean(densities[1:], axis=0)).mean()))
        topics.append(int(run.trace[-1]))
    speed, worst = float(np.median(speeds)), max(perplexities)
    bar = f">= {_HDP_SLOWEST:g} Mtok / CPU-s: {speed:.2f}; each <= {_HDP_WORST:,}: {worst:,.0f}"
    met = speed >= _HDP_SLOWEST and worst <= _HDP_WORST
    note = (
        f"`hybrid_hdp`, 64 blocks, {sweeps} sweeps a step, from 60 random topics, concentrations "
        f"and all; {', '.join(map(str, topics))} topics at the end. Another random half of each "
        f"document's words is completed, from proportions at their mode, and a word's prior is "
        f"{ETA}: not to be compared with the perplexities above."
    )
    row = plain("hybrid_hdp", _figures(speeds, perplexities), bar, met)
    return Table(title, note, _HEADER, [row])


def _rows(ours: tuple[list, list], peer: tuple[list, list] | None) -> list[list[str]]:
    speed, perplexity = float(np.median(ours[0])), float(np.mean(ours[1]))
    bar = f">= {_SLOWEST:g} Mtok / CPU-s: {speed:.2f}"
    rows = [plain("warm_start, gibbs", _figures(*ours), bar, speed >= _SLOWEST)]
    if peer is not None:
        share = perplexity / float(np.mean(peer[1]))
        bar = f"<= {_WORST:g} x tomotopy's perplexity: {share:.3f}"
        rows.append(plain("", f"mean perplexity {perplexity:,.0f}", bar, share <= _WORST))
    return rows


def _figures(speeds: list, perplexities: list) -> str:
    return f"{np.median(speeds):.1f}; " + ", ".join(f"{p:,.0f}" for p in perplexities)


def _fits(
    fit: Fit, lda: LDA, train: np.ndarray, held: np.ndarray, size: Size, seeds: int
) -> tuple[list, list]:
    """Speeds and perplexities by seed, after one fit that compiles."""
    fit(lda, train, 0, size)
    num_words = (train >= 0).sum() * (size.burn_in + _SAMPLES * size.thin) / 1e6
    speeds, perplexities = [], []
    for seed in range(1, seeds + 1):
        began = clock()
        log_topics = fit(lda, train, seed, size)
        speeds.append(num_words / (clock() - began))
        perplexities.append(lda.perplexity(jax.random.key(0), log_topics, held))
    return speeds, perplexities


def _warm_gibbs(lda: LDA, train: np.ndarray, seed: int, size: Size) -> Any:
    warm_key, key = jax.random.split(jax.random.key(seed))
    start = lda.warm_start(warm_key, jnp.asarray(train), sweeps=size.burn_in)
    num_steps = _SAMPLES * size.thin
    return sample(key, lda.gibbs(), start, train, num_steps=num_steps, thin=size.thin).trace


def _peer(
    lda: LDA, train: np.ndarray, held: np.ndarray, size: Size, seeds: int
) -> tuple[list, list] | None:
    """tomotopy's collapsed Gibbs sampler, one thread, its hyperparameters kept."""
    try:
        import tomotopy
    except ImportError:
        return None

    def fit(lda: LDA, train: np.ndarray, seed: int, size: Size) -> Any:
        k, v = lda.num_topics, lda.vocabulary
        model = tomotopy.LDAModel(k=k, alpha=_ALPHA, eta=_BETA, seed=seed)
        model.optim_interval = 0
        for row in train:
            model.add_doc([str(word) for word in row[row >= 0]])
        model.train(size.burn_in, workers=1)
        seen = np.array([int(word) for word in model.used_vocabs])
        draws = np.full((_SAMPLES, k, v), _BETA, np.float32)
        for draw in draws:
            model.train(size.thin, workers=1)
            draw[:, seen] = [model.get_topic_word_dist(i, normalize=False) for i in range(k)]
        return jnp.log(draws)

    return _fits(fit, lda, train, held, size, seeds)


def _unigram(train: np.ndarray, held: np.ndarray, vocabulary: int) -> float:
    """The perplexity of one topic: its words' shares of the training corpus, smoothed."""
    counts = np.bincount(train[train >= 0], minlength=vocabulary) + _BETA
    one = LDA(1, vocabulary, _ALPHA, _BETA)
    log_topics = jnp.log(jnp.asarray(counts, jnp.float32))[None]
    return one.perplexity(jax.random.key(0), log_topics, held)
