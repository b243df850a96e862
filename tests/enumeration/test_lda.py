"""Samplers of latent Dirichlet allocation against all topics of the words of three documents."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

import sgmc_jax.models._sweep as sweeps
from sgmc_jax import Full, Uniform, scir, sgrld_simplex
from sgmc_jax.models import LDA
from sgmc_jax.models._lda_kernels import CollapsedGibbs
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(17)
TOPICS, WORDS, ALPHA, BETA = 2, 3, 0.7, 0.4
COUNTS = np.array([[2, 0, 1], [0, 0, 0], [0, 1, 1]])
TOKENS = [(d, w) for d, row in enumerate(COUNTS) for w, n in enumerate(row) for _ in range(n)]
PAIRS = list(itertools.combinations(range(len(TOKENS)), 2))
ARGS = {"num_chains": 512, "num_steps": 1_500, "burn_in": 100}

lda = LDA(TOPICS, WORDS, ALPHA, BETA, lanes=2)
DOCUMENTS = lda.documents(COUNTS)


def log_dirichlet_multinomial(counts, parameter):
    total = counts.sum(-1) + parameter * counts.shape[-1]
    return (gammaln(counts + parameter).sum(-1) - gammaln(total)).sum()


def exact():
    """E sum_k phi_kw^2 for each word, and the probability that two words have one topic."""
    weights, squares, together = [], [], []
    for z in itertools.product(range(TOPICS), repeat=len(TOKENS)):
        by_document, by_word = np.zeros((len(COUNTS), TOPICS)), np.zeros((TOPICS, WORDS))
        for (d, w), k in zip(TOKENS, z):
            by_document[d, k] += 1
            by_word[k, w] += 1
        log = log_dirichlet_multinomial(by_document, ALPHA)
        weights.append(np.exp(log + log_dirichlet_multinomial(by_word, BETA)))
        shape, total = by_word + BETA, by_word.sum(1, keepdims=True) + WORDS * BETA
        squares.append((shape * (shape + 1) / (total * (total + 1))).sum(0))
        together.append([z[i] == z[j] for i, j in PAIRS])
    weights = np.array(weights) / np.sum(weights)
    return weights @ np.array(squares), weights @ np.array(together, float)


def squares(state, info):
    return jnp.sum(jax.nn.softmax(state.position) ** 2, axis=0)


def together(state, info):
    z = state.topics[DOCUMENTS >= 0]
    return jnp.stack([z[i] == z[j] for i, j in PAIRS]).astype(jnp.float32)


def check(kernel, statistic, expected, tolerance=0.02, **args):
    run = run_law(KEY, kernel, lda.start, DOCUMENTS, reduce=statistic, **ARGS | args)
    check_law(run.trace.mean, expected, tolerance)


def test_gibbs_over_all_documents():
    both = lambda state, info: jnp.concatenate([squares(state, info), together(state, info)])
    check(lda.gibbs(sweeps=1), both, np.concatenate(exact()))


def test_collapsed_gibbs():
    check(lda.collapsed(), together, exact()[1])


@pytest.mark.full
def test_scir_with_a_table_and_one_document_a_step():
    check(scir(lda.counts(Uniform(1)), 1.0), squares, exact()[0], num_steps=3_000)


@pytest.mark.full
@pytest.mark.parametrize("sweeps", [1, 3])
def test_scir_with_all_documents(sweeps):
    check(scir(lda.counts(Full(), sweeps=sweeps), 1.0), squares, exact()[0])
    fresh = lda.counts(Full(), method="fresh", burn_in=15, sweeps=sweeps)
    check(scir(fresh, 1.0), squares, exact()[0])


@pytest.mark.full
@pytest.mark.at_length
def test_minibatches_from_scratch_are_biased_and_so_is_sgrld():
    for kernel in (
        scir(lda.counts(Uniform(1), method="fresh"), 1.0),
        sgrld_simplex(lda.counts(Full()), 0.1),
    ):
        fault_is_seen(check, kernel, squares, exact()[0])


@pytest.mark.full
@pytest.mark.at_length
def test_averages_need_fixed_totals_and_a_small_step_size():
    averaged = lda.counts(Full(), method="fresh", burn_in=5, draws=10)
    args = {"num_steps": 8_000, "burn_in": 500, "tolerance": 0.05}
    check(scir(averaged, 0.02, scale="fixed", total=5.0), squares, exact()[0], **args)
    fault_is_seen(check, scir(averaged, 1.0), squares, exact()[0])


# ------------------------------------------------------------------------------ planted faults


@pytest.mark.parametrize(
    "fault",
    [
        "own word counted",
        pytest.param("own word counted in its weight", marks=pytest.mark.full),
    ],
)
@pytest.mark.at_length
def test_a_word_that_counts_itself_is_seen(monkeypatch, fault):
    honest = sweeps._sweep_group

    def faulty(key, weights, group, alpha, num_sweeps, own):
        if fault == "own word counted":  # the word's topic loses 1 of its weight, not of its count
            return honest(key, weights, group, alpha + 1, num_sweeps, own)
        return honest(key, weights, group, alpha, num_sweeps, jnp.full(TOPICS, 0.05))

    monkeypatch.setattr(sweeps, "_sweep_group", faulty)
    fault_is_seen(check, lda.gibbs(sweeps=1), together, exact()[1])


@pytest.mark.full
@pytest.mark.at_length
def test_collapsed_words_that_count_one_more(monkeypatch):
    honest = CollapsedGibbs.shapes
    monkeypatch.setattr(CollapsedGibbs, "shapes", lambda *args: honest(*args) + 1)
    fault_is_seen(check, lda.collapsed(), together, exact()[1])
