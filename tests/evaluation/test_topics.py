"""Topics, proportions and held-out words, against closed forms, quadrature and loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import beta, gamma, poisson

from sgmc_jax import sample
from sgmc_jax.bnp import (
    BetaProcess,
    DirichletCategorical,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    Published,
    hybrid_hdp,
)
from sgmc_jax.evaluation import (
    bnb_proportions,
    dirichlet_proportions,
    hdp_concentrations,
    infer_proportions,
    perplexity,
    top_words,
    topic_counts,
    word_distributions,
    word_probabilities,
)
from sgmc_jax.models import LDA

KEY = jax.random.key(0)
FAMILY = DirichletCategorical(np.array([0.5, 1.0, 1.5]))
TOPICS = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
DOCUMENTS = Groups.from_list([np.array([0, 0, 1, 2]), np.array([2, 2]), np.array([], int)])


def test_words_of_topics_are_those_of_the_predictive():
    items, labels = jnp.array([0, 0, 1, 2, 2]), jnp.array([0, 0, 0, 2, 2])
    stats = FAMILY.label_statistics(items, labels, 3)
    found = word_distributions(FAMILY, stats, rest=True)
    each = jax.vmap(lambda w: FAMILY.log_predictive(stats, w), out_axes=1)(jnp.arange(3))
    np.testing.assert_allclose(found[:3], np.exp(each), rtol=1e-5)
    np.testing.assert_allclose(found[3], [1 / 6, 1 / 3, 1 / 2], rtol=1e-5)


def test_words_are_counted_but_for_padding():
    rng = np.random.default_rng(0)
    labels, size = rng.integers(0, 4, (6, 9)), rng.integers(0, 10, 6)
    exact = [np.bincount(row[:n], minlength=5) for row, n in zip(labels, size)]
    np.testing.assert_array_equal(topic_counts(labels, size, 5), exact)


@pytest.mark.full
def test_proportions_of_a_hierarchical_dirichlet_process():
    """All topics, with that of no word yet, have all mass, whichever died in the last sweep."""
    kernel = hybrid_hdp(HierarchicalDirichletProcess(1.0, 2.0), FAMILY, blocks=2, capacity=8)
    words = DOCUMENTS._replace(items=np.tile(DOCUMENTS.items, (4, 1)), size=np.tile([4, 2, 1], 4))

    def record(state, info):
        (shared, local), stats = state.position, state.sums.statistics
        a = hdp_concentrations(shared, stats.count)
        counts = topic_counts(local["assignment"], words.size, 8)
        return a, counts, dirichlet_proportions(a, counts)

    a, counts, shares = sample(KEY, kernel, None, words, num_steps=20, record=record).trace
    np.testing.assert_allclose(a.sum(axis=1), 2.0, rtol=1e-5)
    np.testing.assert_array_equal(a[:, :8] > 0, counts.sum(axis=1) > 0)
    total = 2.0 + np.tile([4, 2, 1], 4)[:, None]
    np.testing.assert_allclose(shares[..., :8] * total, counts + a[:, None, :8], rtol=1e-5)


def mean_rate(x, r, s, c):
    """E[pi | x] on a grid of theta ~ Beta(c s, c (1 - s)) and pi | theta."""
    theta, pi = (np.arange(400) + 0.5)[:, None] / 400, (np.arange(800) + 0.5) / 25
    rates = gamma.pdf(pi, r, scale=theta / (1 - theta))
    joint = beta.pdf(theta, c * s, c * (1 - s)) * rates * poisson.pmf(x, pi)
    return np.sum(pi * joint) / np.sum(joint)


def test_proportions_of_a_beta_negative_binomial_process():
    process, c, r = BetaProcess(0.8, 4.0), 4.0, 2.5
    theta, counts = np.array([0.7, 0.5, 0.3]), np.array([[3, 1, 0], [0, 2, 0]])
    exact = np.zeros((2, 3))
    for d, k in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        exact[d, k] = mean_rate(counts[d, k], r, 0.8 * theta[k], c)
    exact = exact / exact.sum(axis=1, keepdims=True)
    found = bnb_proportions(process, np.log(theta), counts, r)
    np.testing.assert_allclose(found, exact, atol=1e-3)
    naive = counts + 0.8 * theta * (counts.sum(0) > 0)  # in proportion to counts and weights
    assert np.max(np.abs(naive / naive.sum(axis=1, keepdims=True) - exact)) > 0.05
    of_size = bnb_proportions(process, np.log(theta), counts)
    exact = [
        bnb_proportions(process, np.log(theta), counts, n * 3 / 3.2)[d] for d, n in [(0, 4), (1, 2)]
    ]
    np.testing.assert_allclose(of_size, exact, rtol=1e-5)


def test_inferred_proportions_are_the_mode():
    """Of two topics, the mode in log theta on a fine grid; of no words, the prior's mean."""
    a = np.array([0.5, 1.5])
    found = infer_proportions(TOPICS, a, DOCUMENTS, sweeps=300)
    first = np.linspace(0, 1, 100_001)[1:-1]
    shares = np.stack([first, 1 - first])
    for d, size in enumerate(DOCUMENTS.size[:2]):
        words = DOCUMENTS.items[d][:size]
        value = np.log(TOPICS.T[words] @ shares).sum(axis=0) + a @ np.log(shares)
        np.testing.assert_allclose(found[d, 0], first[np.argmax(value)], atol=1e-4)
    np.testing.assert_allclose(found[2], a / 2, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 5, 9])
def test_words_that_no_topic_in_use_has(length):
    """They say nothing; of five the weights were infinite."""
    impossible = Groups(np.ones((1, length), int), np.array([length]))
    found = infer_proportions(np.eye(2), np.array([1.0, 0.0]), impossible)
    np.testing.assert_allclose(found, [[1.0, 0.0]])


def test_probabilities_are_averaged_before_logarithms():
    rng = np.random.default_rng(0)
    topics, shares = rng.dirichlet(np.ones(3), (5, 2)), rng.dirichlet(np.ones(2), (5, 3))
    pairs = [(d, w) for d, n in enumerate(DOCUMENTS.size) for w in DOCUMENTS.items[d][:n]]
    chance = np.array([[shares[s, d] @ topics[s, :, w] for d, w in pairs] for s in range(5)])
    found = word_probabilities(topics[0], shares[0], DOCUMENTS)
    np.testing.assert_allclose(
        found[:2][[0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 1]], chance[0], rtol=1e-5
    )
    assert np.all(np.asarray(found)[1:, 2:] == 1)
    together = perplexity(topics, shares, DOCUMENTS)
    np.testing.assert_allclose(together, np.exp(-np.log(chance.mean(0)).mean()), rtol=1e-5)
    assert np.exp(-np.log(chance).mean()) > together * 1.01
    chains = perplexity(np.stack([topics, topics]), np.stack([shares, shares]), DOCUMENTS)
    np.testing.assert_allclose(chains, together, rtol=1e-6)  # of (chain, draw, K, V)
    one = jax.jit(lambda t, s: perplexity(t, s, DOCUMENTS))(topics[0], shares[0])
    np.testing.assert_allclose(one, np.exp(-np.log(chance[0]).mean()), rtol=1e-5)


@pytest.mark.full
def test_perplexity_is_near_that_of_lda():
    """Whose Gibbs sweeps see other halves of the documents."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.2), 3)
    words = [rng.choice(30, 80, p=p @ topics) for p in rng.dirichlet(np.full(3, 0.5), 60)]
    lda = LDA(3, 30, alpha=0.5, beta=0.1)
    exact = lda.perplexity(
        KEY, jnp.log(topics), np.pad(words, ((0, 0), (0, 1)), constant_values=-1)
    )
    seen, told = (Groups.from_list([row[i::2] for row in words]) for i in (0, 1))
    shares = infer_proportions(topics, np.full(3, 0.5), seen)
    assert abs(perplexity(topics, shares, told) / exact - 1) < 0.05


def test_the_likeliest_words_come_first():
    vocabulary = np.array(["a", "b", "c"])
    assert top_words(TOPICS, vocabulary, 2) == [["a", "b"], ["c", "b"]]
    for dtype in (float, np.uint8):
        assert top_words(TOPICS, vocabulary, 1, counts=np.array([2, 5], dtype)) == [["c"], ["a"]]


def test_a_document_without_words_has_the_topics_of_the_rates():
    """To which the proportions of ever shorter ones tend."""
    process, log_theta = BetaProcess(1.0, 2.0), jnp.log(jnp.array([0.5, 0.1, 0.3]))
    counts = np.array([[3, 1, 0], [0, 0, 0]])
    found = np.asarray(bnb_proportions(process, log_theta, counts))[1]
    shortest = bnb_proportions(process, log_theta, counts, failures=1e-6)[1]
    np.testing.assert_allclose(found, shortest, rtol=1e-4)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (
            lambda: infer_proportions(TOPICS, np.ones(3), DOCUMENTS),
            ValueError,
            "concentrations .*2,",
        ),
        (
            lambda: infer_proportions(TOPICS, np.ones(2), [[0]]),
            TypeError,
            "documents must be Groups",
        ),
        (
            lambda: perplexity(TOPICS[:, :2], np.ones((3, 2)), DOCUMENTS),
            ValueError,
            "documents must have words 0 to 1, got 0 to 2",
        ),
        (
            lambda: perplexity(TOPICS[None], np.ones((2, 3, 2)), DOCUMENTS),
            ValueError,
            r"proportions must have the shape \(1, 3, 2\), got \(2, 3, 2\)",
        ),
        (
            lambda: perplexity(TOPICS[0], np.ones((3, 2)), DOCUMENTS),
            ValueError,
            r"topics must end in the shape \(K, V\), got shape \(3,\)",
        ),
        (lambda: topic_counts(np.ones((2, 3)), [1, 1], 2), TypeError, "assignment must be whole"),
        (lambda: topic_counts([[0, 2, 9]], [2], 2), ValueError, "assignment must be of slots 0 to"),
        (lambda: topic_counts([[0, 1]], [3], 2), ValueError, "size must be between 0 and 2, got 3"),
        (
            lambda: infer_proportions(TOPICS, np.ones(2), DOCUMENTS._replace(size=-DOCUMENTS.size)),
            ValueError,
            "documents.size must be between 0 and",
        ),
        (
            lambda: infer_proportions(TOPICS, np.zeros(2), DOCUMENTS),
            ValueError,
            "concentrations must be positive for some topic, got 0 for all 2",
        ),
        (
            lambda: dirichlet_proportions(np.zeros(2), np.zeros((1, 2), int)),
            ValueError,
            "concentrations must be positive for some topic",
        ),
        (
            lambda: dirichlet_proportions(csr_matrix(np.eye(2)), np.zeros((1, 2), int)),
            TypeError,
            "concentrations must be an array of numbers, got the sparse csr_matrix",
        ),
        (
            lambda: dirichlet_proportions(np.ones(2), np.ones((1, 4), int)),
            ValueError,
            "counts must",
        ),
        (lambda: hdp_concentrations({"weights": 1}, np.ones(1)), ValueError, "lacks rest, group"),
        (lambda: word_distributions(LinearGaussian(2), None), TypeError, "a DirichletCategorical"),
        (lambda: bnb_proportions(FAMILY, np.ones(2), np.ones((1, 2))), TypeError, "a BetaProcess"),
        (
            lambda: top_words(TOPICS, {"a": 0, "b": 1, "c": 2}),
            TypeError,
            "a list of words, got dict",
        ),
        (lambda: top_words(TOPICS, ["a", "b"]), ValueError, r"topics must have .*K, 2"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_logarithms_and_counts_are_no_probabilities():
    words, half = Groups(np.array([[0, 1]]), np.array([2])), np.full((2, 2), 0.5)
    for topics in (np.log(half), np.full((2, 2), 4.6)):
        with pytest.raises(ValueError, match="topics must be probabilities along the last axis"):
            perplexity(topics, half[:1], words)
        with pytest.raises(ValueError, match="topics must be probabilities along the last axis"):
            infer_proportions(topics, np.ones(2), words)
    for call in (perplexity, word_probabilities):
        with pytest.raises(ValueError, match="proportions must be probabilities.*sums up to 40"):
            call(half, np.array([[30, 10]]), words)
    with pytest.raises(ValueError, match="concentrations must be finite and not negative"):
        infer_proportions(half, np.array([1.0, -1.0]), words)
    assert float(perplexity(0.9 * half, half[:1], words)) > 2  # free slots may have a share


@pytest.mark.full
def test_all_topics_have_all_mass_under_published_topics_too():
    """Of which those that die in a step keep their weight to its end."""
    kernel = hybrid_hdp(
        HierarchicalDirichletProcess(1.0, 2.0), FAMILY, blocks=2, capacity=8, schedule=Published()
    )
    words = DOCUMENTS._replace(items=np.tile(DOCUMENTS.items, (4, 1)), size=np.tile([4, 2, 1], 4))
    record = lambda state, info: hdp_concentrations(
        state.position.shared, state.sums.statistics.count
    )
    a = sample(KEY, kernel, None, words, num_steps=50, record=record).trace
    np.testing.assert_allclose(a.sum(axis=1), 2.0, rtol=1e-5)


@pytest.mark.parametrize("dtype, vocabulary", [("int8", 200), ("uint8", 256)])
def test_words_of_a_type_that_does_not_hold_the_vocabulary(dtype, vocabulary):
    topics = np.random.default_rng(0).dirichlet(np.ones(vocabulary), 2)
    words = [np.array([3, 120, 7]), np.array([126, 5])]
    narrow, wide = (Groups.from_list([w.astype(t) for w in words]) for t in (dtype, np.int32))
    a = np.ones(2)
    found, wanted = (infer_proportions(topics, a, each) for each in (narrow, wide))
    np.testing.assert_array_equal(found, wanted)
    assert perplexity(topics, wanted, narrow) == perplexity(topics, wanted, wide)
    family = DirichletCategorical(0.5, size=vocabulary)
    labels = jnp.array([0, 1, 0])
    one, other = (family.label_statistics(words[0].astype(t), labels, 2) for t in (dtype, int))
    np.testing.assert_array_equal(one.total, other.total)
    each = [family.scores(family.draw(KEY, other), words[0].astype(t)) for t in (dtype, int)]
    np.testing.assert_array_equal(*each)
    last = jnp.asarray(words[0].astype(dtype))[1]
    assert family.item_statistics(last).total[120] == 1
