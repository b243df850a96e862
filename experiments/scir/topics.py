"""Figures 3a and 4a of the SCIR paper: LDA on two corpora, perplexity against passes and time."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import Epoch, Kernel, PolynomialDecay, sample, scir, sgrld_simplex
from sgmc_jax.models import LDA

from ..common import Missing, Options
from ..common import table as markdown
from . import pictures
from .corpora import CORPORA, Corpus

ALPHA, BETA = 0.1, 0.1
SWEEPS = 5  # over a minibatch from scratch, of which the last counts
MOST_DRAWS = 5  # of the last half of the passes, which the predictive is averaged over


class Size(NamedTuple):
    """How much is run; `passes` are those after which the perplexity is measured."""

    documents: int | None
    held_out: int
    topics: int
    batch_size: int
    passes: tuple[int, ...]
    tuning_passes: int
    seeds: int


SIZES = {
    "full": Size(None, 1_000, 50, 500, (1, 2, 5, 10, 20, 50), 10, 5),
    "medium": Size(None, 500, 20, 500, (1, 2, 5, 10, 20), 5, 5),
    "small": Size(500, 100, 20, 50, (1, 2, 5, 10, 20), 10, 2),
}
STEP_SIZES = {
    "scir": np.geomspace(0.1, 100, 7),
    "scir, fresh": np.geomspace(0.01, 10, 7),
    "sgrld, fresh": np.geomspace(1e-3, 1, 7),
}
SAMPLERS = (*STEP_SIZES, "gibbs", "collapsed", "tomotopy")


class Curve(NamedTuple):
    """Perplexities by seed and pass, the seconds of a pass of one chain, and the step size.

    `inside` tells whether the step size is inside the grid, not at one of its ends.
    """

    perplexity: Float[np.ndarray, "seed passes"]
    seconds: float
    step_size: float = np.nan
    inside: bool = True


def kernel(name: str, lda: LDA, batch_size: int, step_size: Any = None) -> Kernel:
    """A sampler; each step size decays as published for its method, h (1 + m / tau)^-kappa."""
    batches = Epoch(batch_size)
    if name == "gibbs":
        return lda.gibbs()
    if name == "collapsed":
        return lda.collapsed()
    tau, kappa = (1_000.0, 0.6) if name.startswith("sgrld") else (10.0, 0.33)
    decay = PolynomialDecay(step_size * tau**kappa, tau, kappa)
    if name == "scir":
        return scir(lda.counts(batches), decay)
    fresh = lda.counts(batches, method="fresh", burn_in=SWEEPS - 1)
    return scir(fresh, decay) if name == "scir, fresh" else sgrld_simplex(fresh, decay)


def curve(
    key: Array, name: str, lda: LDA, corpus: Corpus, size: Size, tuned: tuple[float, bool]
) -> Curve:
    """The perplexity of a sampler's seeds after each of `size.passes`."""
    sampler = kernel(name, lda, size.batch_size, tuned[0])
    chains = {"num_chains": size.seeds}
    _draws(key, sampler, name, lda, corpus, size, 1, **chains)  # compiles
    began = time.process_time()
    draws = _draws(key, sampler, name, lda, corpus, size, size.passes[-1], **chains)
    seconds = (time.process_time() - began) / (size.passes[-1] * size.seeds)
    return Curve(_perplexities(lda, draws, corpus.test, size.passes), seconds, *tuned)


def tune(key: Array, name: str, lda: LDA, corpus: Corpus, size: Size) -> tuple[float, bool]:
    """The step size of the grid with the least perplexity on the documents for tuning."""
    if name not in STEP_SIZES:
        return np.nan, True
    grid = STEP_SIZES[name]
    kernels = eqx.filter_vmap(lambda h: kernel(name, lda, size.batch_size, h))(jnp.asarray(grid))
    draws = _draws(key, kernels, name, lda, corpus, size, size.tuning_passes, kernel_axis=0)
    found = _perplexities(lda, draws, corpus.tune, (size.tuning_passes,))[:, 0]
    best = int(np.argmin(np.nan_to_num(found, nan=np.inf)))
    return float(grid[best]), 0 < best < len(grid) - 1


def outside(key: Array, lda: LDA, corpus: Corpus, size: Size) -> Curve | None:
    """tomotopy's collapsed Gibbs sampler on one thread, if it is installed."""
    try:
        import tomotopy
    except ImportError:
        print("tomotopy is left out: pip install tomotopy", file=sys.stderr)
        return None
    draws = np.full((size.seeds, size.passes[-1], lda.num_topics, lda.vocabulary), BETA, np.float32)
    seconds, seeds = 0.0, jax.random.randint(key, (size.seeds,), 1, 2**30)
    for seed, chain in zip(seeds.tolist(), draws):
        model = tomotopy.LDAModel(k=lda.num_topics, alpha=ALPHA, eta=BETA, seed=seed)
        model.optim_interval = 0
        for row in corpus.train:
            if row[0] >= 0:
                model.add_doc([str(word) for word in row[row >= 0]])
        model.train(0)
        seen = np.array([int(word) for word in model.used_vocabs])
        for draw in chain:
            began = time.process_time()
            model.train(1, workers=1)
            seconds += time.process_time() - began
            counts = [model.get_topic_word_dist(k, normalize=False) for k in range(lda.num_topics)]
            draw[:, seen] = counts
    found = _perplexities(lda, np.log(draws), corpus.test, size.passes)
    return Curve(found, seconds / (size.passes[-1] * size.seeds))


def _draws(
    key: Array,
    sampler: Any,
    name: str,
    lda: LDA,
    corpus: Corpus,
    size: Size,
    passes: int,
    **axes: Any,
) -> np.ndarray:
    """The position after each pass."""
    whole = name in ("gibbs", "collapsed")
    steps = 1 if whole else -(-len(corpus.train) // size.batch_size)
    run = sample(
        key, sampler, lda.start, corpus.train, num_steps=passes * steps, thin=steps, **axes
    )
    return run.trace


def _perplexities(
    lda: LDA, draws: np.ndarray, documents: np.ndarray, passes: Sequence[int]
) -> np.ndarray:
    """By chain and pass: the predictive averaged over draws of the last half of the passes."""

    def one(chain: np.ndarray, last: int) -> float:
        which = np.unique(np.linspace(last // 2, last - 1, MOST_DRAWS).astype(int))
        return lda.perplexity(jax.random.key(0), jnp.asarray(chain[which]), documents)

    return np.array([[one(chain, last) for last in passes] for chain in draws])


def curves(
    key: Array, corpus: Corpus, size: Size, samplers: Sequence[str]
) -> Iterator[tuple[str, Curve]]:
    """Some samplers on one corpus, one after the other; tomotopy only if it is installed."""
    lda = LDA(size.topics, corpus.vocabulary, ALPHA, BETA)
    for name in samplers:
        tune_key, run_key = jax.random.split(jax.random.fold_in(key, SAMPLERS.index(name)))
        if name == "tomotopy":
            found = outside(run_key, lda, corpus, size)
        else:
            tuned = tune(tune_key, name, lda, corpus, size)
            found = curve(run_key, name, lda, corpus, size, tuned)
        if found is not None:
            yield name, found


def table(results: dict[str, dict[str, Curve]], size: Size) -> str:
    """One line for each corpus and sampler."""
    header = ["corpus", "sampler", "step size", "in the grid", "s / pass"]
    header += [f"pass {p}" for p in size.passes] + ["/ collapsed"]
    rows = []
    for corpus, curves in results.items():
        exact = curves["collapsed"].perplexity[:, -1].mean() if "collapsed" in curves else np.nan
        for name, found in curves.items():
            tuned = np.isfinite(found.step_size)
            chosen = [f"{found.step_size:.2g}", "yes" if found.inside else "NO"]
            mean = found.perplexity.mean(axis=0)
            values = [
                f"{found.seconds:.2g}",
                *(f"{p:,.0f}" for p in mean),
                f"{mean[-1] / exact:.3f}",
            ]
            rows.append([corpus, name, *(chosen if tuned else ["", ""]), *values])
    return markdown(header, rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which curves of topics to draw."""
    parser.add_argument("--corpus", choices=CORPORA, help="of topics, one of the two")
    parser.add_argument(
        "--samplers", nargs="+", choices=SAMPLERS, default=SAMPLERS, help="of topics"
    )
    parser.add_argument("--seeds", type=int, help="of topics; by default those of the size")


def run(options: Options) -> Iterator[str]:
    """A table and topics.png, of the corpora that are there."""
    given, size, results = options.given, SIZES[options.size], {}
    size = size._replace(seeds=given.seeds or size.seeds)
    for i, name in enumerate(CORPORA):
        if given.corpus not in (None, name):
            continue
        try:
            corpus = CORPORA[name](options.data_dir, size.documents, size.held_out)
        except Missing as error:
            print(error, file=sys.stderr)
            continue
        words = (corpus.train >= 0).sum()
        print(f"{name}: {len(corpus.train):,} documents, {words:,} words of {corpus.vocabulary:,}")
        results[name] = {}
        for sampler, found in curves(
            jax.random.fold_in(options.key, i), corpus, size, given.samplers
        ):
            results[name][sampler] = found
            print(f"{sampler}: {found.perplexity.mean(axis=0).round()}", flush=True)
            yield table(results, size)
    if not results:
        raise Missing("no corpus is there")
    if not all(results.values()):
        raise Missing("none of these samplers is there")
    pictures.draw_topics(results, size.passes, options.out / "topics.png")
