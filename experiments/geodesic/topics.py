"""Topics on the sphere, eight ways: log-perplexity of held-out documents by time (figure 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array
from scipy import sparse

from sgmc_jax import Full, Kernel, PolynomialDecay, Sphere, Uniform, gmc, gsgnht, sample, sggmc
from sgmc_jax.evaluation import top_words
from sgmc_jax.models import SphericalAdmixture

from .. import common
from ..common import Options, curves, table

LABELS = (0, 9, 14)  # atheism, baseball and space: "20News-different"
RARE = 5  # words of fewer training documents are left out
MOST = 20  # draws that a predictive is averaged over
EVERY = 12  # measurements of a run
CHOSEN_FOR = 1_667 * 1_000.0  # documents times concentration: the newsgroups'


class Corpus(NamedTuple):
    """Word counts of documents to be fitted and to judge, the words, and the documents' labels."""

    train: sparse.csr_matrix
    test: sparse.csr_matrix
    words: np.ndarray
    train_label: np.ndarray | None = None
    test_label: np.ndarray | None = None


class Settings(NamedTuple):
    """The model's sizes and concentrations, a batch, and how long every method may run."""

    topics: int
    batch: int
    concentration: float
    topic_concentration: float
    seconds: float
    seeds: int
    whole: bool = True  # whether methods that pass over all documents are run too


@dataclass
class Method:
    """A kernel, what it begins with given the topics, and the topics of a state.

    A sampler's predictive is averaged over its draws; a point's is its own.
    """

    kernel: Kernel
    begin: Callable
    topics: Callable
    averaged: bool = True
    steps: int = 50  # between two times of looking at the clock


def run(options: Options) -> Iterator[str]:
    """Figure 5a: a table, topics.png, and the topics of the last draw of gSGNHT."""
    seconds, seeds = (60.0, 3) if options.full else (20.0, 1)
    settings = Settings(20, 50, 1_000.0, 1_000.0, seconds, seeds)
    yield from compare(options, "topics.png", newsgroups(options), settings)


def compare(options: Options, picture: str, corpus: Corpus, settings: Settings) -> Iterator[str]:
    """All methods from one start a seed, each for as many seconds of the processor."""
    sam = SphericalAdmixture(
        settings.topics, corpus.train.shape[1], 1.0, *settings[2:4], prior_concentration=100.0
    )
    weights = sam.inverse_document_frequency(corpus.train)
    train, test = (sam.documents(part, word_weights=weights) for part in corpus[:2])
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    words = ""
    for seed in range(settings.seeds):
        key = jax.random.fold_in(options.key, seed)
        start = sam.warm_start(key, train)
        for name, method in methods(sam, settings, len(train.columns), key).items():
            seconds, draws = timed_draws(key, method, start, train, settings.seconds)
            measure = partial(sam.log_perplexity, options.key, documents=test)
            found.setdefault(name, []).append(perplexities(measure, method, seconds, draws))
            print(name, seed, found[name][-1][1][-1], flush=True)
            if name == "gSGNHT":
                words = listed(top_words(draws[-1], list(corpus.words), 6))
            yield report(found) + "\n" + words
    first = {name: runs[0] for name, runs in found.items()}
    axes = ("seconds of the processor", "log-perplexity")
    curves(options.out / picture, {"": first}, axes, log=True)


def methods(sam: SphericalAdmixture, settings: Settings, num: int, key: Array) -> dict[str, Method]:
    """The eight of the figure, of which five pass over all documents in each step.

    The law of a topic is narrower by the root of documents times concentration: step sizes go with
    its width, and frictions against it.
    """
    width = float(np.sqrt(CHOSEN_FOR / (num * settings.concentration)))
    batches, friction = Uniform(settings.batch), 1_000.0 / width
    decay = PolynomialDecay(1.0, 1.0, 0.6)
    as_is, position = lambda topics: topics, lambda state: state.position
    equal = np.full((num, settings.topics), 1 / settings.topics, np.float32)
    both = lambda topics: {"topics": topics, "proportions": equal}
    sgg = lambda part, h: sggmc(sam.topics(part), Sphere(), h * width, friction)
    thermostat = lambda part, h: gsgnht(sam.topics(part), Sphere(), h * width, friction)
    few = {
        "SGGMC": Method(sgg(batches, 1e-3), as_is, position),
        "gSGNHT": Method(thermostat(batches, 2e-3), as_is, position),
        "StoVI": Method(sam.variational(batches, decay), as_is, position, averaged=False),
    }
    if not settings.whole:
        return few
    return few | {
        "SGGMC, all": Method(sgg(Full(), 2e-3), as_is, position, steps=4),
        "gSGNHT, all": Method(thermostat(Full(), 2e-3), as_is, position, steps=4),
        "GMC-bGibbs": Method(
            sam.block_gibbs(1e-3 * width, 10), both, lambda state: state.position["topics"], steps=4
        ),
        "GMC-apprMH": Method(
            gmc(sam.marginal(key), Sphere(), 7e-4 * width, 10), as_is, position, steps=4
        ),
        "VI": Method(sam.variational(Full()), as_is, position, averaged=False, steps=4),
    }


def timed_draws(
    key: Array, method: Method, start: Any, data: Any, budget: float
) -> tuple[np.ndarray, np.ndarray]:
    """A draw of the topics after each piece of a run, and the processor's seconds until then.

    All is compiled before the run begins anew and the clock with it.
    """
    record = lambda state, info: method.topics(state)
    go = partial(sample, key, method.kernel, data=data, record=record, num_steps=method.steps)
    go = partial(go, thin=method.steps)
    go(position=go(position=method.begin(start)))
    seconds, draws, run = [0.0], [np.asarray(start)], method.begin(start)
    while seconds[-1] < budget:
        began = time.process_time()
        run = go(position=run)
        seconds.append(seconds[-1] + time.process_time() - began)
        draws.append(run.trace[0])
    return np.array(seconds), np.array(draws)


def perplexities(
    measure: Callable, method: Method, seconds: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """At some times: of the last draw, or of the mixture of draws of the last half until then."""
    ends = np.unique(np.geomspace(1, len(draws) - 1, EVERY).astype(int))
    scores = []
    for end in ends:
        first = (end + 1) // 2 if method.averaged else end
        which = np.unique(np.linspace(first, end, MOST).astype(int))
        scores.append(measure(draws[which]))
    return seconds[ends], np.array(scores)


def report(found: dict[str, list[tuple[np.ndarray, np.ndarray]]]) -> str:
    """The level at the end by seed, and, once known, seconds until variational inference's last."""
    judge = "VI" if "VI" in found else "StoVI"
    bars = [runs[1][-1] for runs in found.get(judge, [])]
    rows = []
    for name, runs in found.items():
        until = []
        for (seconds, scores), bar in zip(runs, bars):
            below = np.flatnonzero(scores <= bar)
            until.append(f"{seconds[below[0]]:.1f}" if below.size else "-")
        last = [scores[-1] for _, scores in runs]
        each = ", ".join(f"{score:,.1f}" for score in last)
        rows.append([name, f"{np.mean(last):,.1f}", each, ", ".join(until)])
    return table(["method", "log-perplexity", "by seed", f"s until {judge}'s last"], rows)


def listed(topics: list[list[str]]) -> str:
    """Topics as lines."""
    return "\n".join("- " + ", ".join(words) for words in topics) + "\n"


def newsgroups(options: Options) -> Corpus:
    """Three groups, the words of the online LDA vocabulary that are in five documents or more."""
    data = common.newsgroups(options.data_dir)
    ours = [np.isin(label, LABELS) for label in (data.train_label, data.test_label)]
    train, test = data.train[ours[0]], data.test[ours[1]]
    kept = data.known & (np.asarray((train > 0).sum(0)).ravel() >= RARE)
    labels = data.train_label[ours[0]], data.test_label[ours[1]]
    return Corpus(train[:, kept], test[:, kept], data.words[kept], *labels)
