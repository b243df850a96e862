"""Latent Dirichlet allocation: its data, its sweeps, its perplexity, streams, and bad input."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from sgmc_jax import Full, Given, Uniform, sample, scir
from sgmc_jax.models import LDA, _evaluation, _topics
from sgmc_jax.models._sweep import relative_weights, sweep, word_counts
from tests.laws.moments import Z, check_mean, fewer, wider

KEY = jax.random.key(19)
K, V = 3, 6
lda = LDA(K, V, alpha=0.3, beta=0.5)
COUNTS = np.random.default_rng(2).poisson(0.8, (7, V)) * np.arange(7)[:, None]
DOCUMENTS = lda.documents(COUNTS)


def test_documents_hold_every_word_as_often_as_it_is_counted():
    again = np.stack([np.bincount(row[row >= 0], minlength=V) for row in DOCUMENTS])
    assert np.array_equal(again, COUNTS) and (DOCUMENTS[0] == -1).all()
    matrix = sparse.csr_matrix(COUNTS)
    parts = (matrix.data, matrix.indices, matrix.indptr)
    for same in (
        COUNTS.astype(float),
        matrix,
        sparse.coo_matrix(COUNTS),
        COUNTS.tolist(),
        parts,
        COUNTS.astype("u1"),
    ):
        assert np.array_equal(lda.documents(same), DOCUMENTS)
    longer = lda.documents(COUNTS, length=DOCUMENTS.shape[1] + 3)
    assert longer.shape[1] == DOCUMENTS.shape[1] + 3 and (longer[:, -3:] == -1).all()
    explicit_zero = (np.array([0, 2]), np.array([4, 1]), np.array([0, 2]))
    assert lda.documents(explicit_zero).tolist() == [[1, 1]]
    assert lda.documents(np.zeros((2, V), int)).tolist() == [[-1], [-1]]
    assert lda.documents(np.eye(V) > 0).tolist() == [[i] for i in range(V)]


@pytest.mark.parametrize("make", [lda.gibbs, lda.collapsed])
def test_a_chain_begins_with_documents_of_the_host(make):
    init, _ = make()
    state = init(KEY, jnp.zeros((K, V)), DOCUMENTS)
    assert state.topics.shape == DOCUMENTS.shape


def test_the_position_of_collapsed_gibbs_is_the_topics_mean():
    run = sample(KEY, lda.collapsed(), lda.start, DOCUMENTS, num_steps=2, record=lambda s, i: s)
    for position, topics in zip(*run.trace):
        mass, real = np.full((K, V), 0.5), DOCUMENTS >= 0
        np.add.at(mass, (topics[real], DOCUMENTS[real]), 1)
        mean = mass / mass.sum(1, keepdims=True)
        np.testing.assert_allclose(jax.nn.softmax(position), mean, rtol=1e-5)


@pytest.mark.parametrize(
    "counts,message",
    [
        (-COUNTS, "counts must not be negative, got -"),
        (COUNTS / 2, "counts must be whole numbers, got 0.5|1.5|2.5"),
        (COUNTS * np.nan, "counts must be finite"),
        (COUNTS[:, 1:], "counts must have 6 columns, the vocabulary, got 5"),
        (sparse.csr_matrix(COUNTS[:, 1:]), "counts must have 6 columns"),
        (COUNTS[0], r"counts must be a matrix.*\(6,\)"),
        ((np.ones(1), np.array([6]), np.array([0, 1])), "counts must be of words 0 to 5, got 6"),
        ((np.ones(2), np.array([1]), np.array([0, 1])), "counts must be .values, columns"),
        ((np.ones(2), np.arange(2), np.array([0, -1, 2])), "counts must have row starts in"),
        ((np.ones(2), np.arange(2), np.array([0, 5, 2])), "counts must have row starts in"),
        (np.full((2, V), 1 / V), "counts must be whole numbers, got 0.16"),
        (np.full((2, V), "a"), "counts must be whole numbers, got <U1"),
        (COUNTS * 1j, "counts must be whole numbers, got complex"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        lda.documents(counts)


def test_bad_input_is_refused():
    for kwargs, message in [
        ({"alpha": 0.0}, "alpha must be finite and positive, got 0.0"),
        ({"beta": -1.0}, "beta must be finite and positive, got -1.0"),
        ({"beta": np.ones(V)}, r"beta must be one number, got shape \(6,\)"),
        ({"num_topics": 0}, "num_topics must be a whole number of at least 1, got 0"),
        ({"vocabulary": 2.5}, "vocabulary must be a whole number.*2.5"),
    ]:
        with pytest.raises(ValueError, match=message):
            LDA(**{"num_topics": K, "vocabulary": V, "alpha": 0.3, "beta": 0.5} | kwargs)
    with pytest.raises(ValueError, match="length must be at least"):
        lda.documents(COUNTS, length=1)
    with pytest.raises(ValueError, match="method must be one of .*, got"):
        lda.counts(Uniform(2), method="saga")
    with pytest.raises(ValueError, match="draws must be 1 for a table, got 2"):
        lda.counts(Uniform(2), draws=2)
    with pytest.raises(ValueError, match="sweeps must be a whole number.*got 0"):
        lda.gibbs(sweeps=0)
    with pytest.raises(ValueError, match="burn_in must be a whole number of at least 0, got -1"):
        lda.counts(Uniform(2), burn_in=-1)
    with pytest.raises(ValueError, match="documents must have some with two words"):
        lda.perplexity(KEY, lda.start(KEY), DOCUMENTS[:1])
    with pytest.raises(ValueError, match="position must be a floating array.*int"):
        sample(KEY, lda.gibbs(), np.zeros((K, V), int), DOCUMENTS, num_steps=1)
    with pytest.raises(ValueError, match="data must have at least one item"):
        sample(KEY, lda.gibbs(), lda.start, DOCUMENTS[:0], num_steps=1)
    for kernel in (scir(lda.counts(Uniform(2)), 0.1), lda.gibbs(), lda.collapsed()):
        for position, data, message in [
            (
                np.zeros((K, V - 1), np.float32),
                DOCUMENTS,
                r"position must be a float.*\(3, 6\).*\(3, 5\)",
            ),
            (lda.start, DOCUMENTS + 1, "data must be of words 0 to 5, padded with -1, got 0 to 6"),
            (lda.start, COUNTS.astype(np.float32), "data must be rows of word indices.*float32"),
            (lda.start, DOCUMENTS[:, ::-1], "data must have padding at the end of its rows.*row 1"),
            (np.full((K, V), 1 / V), DOCUMENTS, "position must be logarithms, got probabilities"),
        ]:
            with pytest.raises(ValueError, match=message):
                sample(KEY, kernel, position, data, num_steps=1)


def test_a_stream_is_refused_by_samplers_that_need_all_documents():
    batch = lambda i: DOCUMENTS
    for kernel in (lda.gibbs(), lda.collapsed(), scir(lda.counts(Uniform(2)), 0.1)):
        with pytest.raises(TypeError, match="data is streamed, which needs the batcher Given"):
            sample(KEY, kernel, lda.start, batch, num_steps=1)


@pytest.mark.parametrize(
    "name", ["gibbs", "collapsed", pytest.param("scir", marks=pytest.mark.full), "warm start"]
)
def test_a_corpus_without_words_gives_the_prior(name):
    documents = lda.documents(np.zeros((2, V), int))
    if name == "warm start":
        assert np.allclose(jax.nn.softmax(lda.warm_start(KEY, documents, sweeps=2)), 1 / V)
        return
    kernels = {"scir": scir(lda.counts(Uniform(1)), 0.5), "gibbs": lda.gibbs()}
    kernel = kernels.get(name, lda.collapsed())
    run = sample(KEY, kernel, lda.start, documents, num_steps=2_000)
    topics = np.asarray(jax.nn.softmax(run.trace))
    assert np.isfinite(run.trace).all() and np.allclose(topics.mean((0, 1)), 1 / V, atol=0.04)
    if name != "collapsed":  # which tells their means
        # (beta + 1) / (V (V beta + 1)), by which another beta would be seen
        np.testing.assert_allclose(np.mean(topics**2), 1.5 / (V * (V / 2 + 1)), atol=0.01)


# ------------------------------------------------------------------------------------- sweeps


def swept(key, words, lanes=3):
    weights = relative_weights(lda.start(jax.random.key(1)))
    topics = jnp.full(words.shape, -1, jnp.int16)
    return sweep(key, weights, words, topics, lda.alpha, num_sweeps=2, lanes=lanes)


def test_draws_do_not_depend_on_lanes_nor_on_padding():
    words = jnp.asarray(DOCUMENTS)
    topics = swept(KEY, words)
    assert np.array_equal(topics >= 0, DOCUMENTS >= 0) and topics.max() == K - 1
    for lanes in (1, 4, 16):
        assert np.array_equal(swept(KEY, words, lanes), topics)
    padded = jnp.pad(words, ((0, 2), (0, 5)), constant_values=-1)
    assert np.array_equal(swept(KEY, padded)[:-2, :-5], topics)


def test_chains_with_batches_of_their_own_are_those_of_a_loop():
    batches = jnp.stack(
        [jnp.asarray(DOCUMENTS)[jnp.array(rows)] for rows in ([0, 1], [5, 6], [2, 0])]
    )
    keys = jax.random.split(KEY, 3)
    together = jax.jit(jax.vmap(swept))(keys, batches)
    apart = jnp.stack([swept(key, batch) for key, batch in zip(keys, batches)])
    assert np.array_equal(together, apart)


def test_topics_of_half_precision_are_drawn_as_those_of_single_precision():
    weights = jax.random.uniform(KEY, (V, K)).astype(jnp.bfloat16)
    args = DOCUMENTS, jnp.full(DOCUMENTS.shape, -1), jnp.float32(0.3)
    both = weights, weights.astype(jnp.float32)
    drawn = [np.asarray(sweep(KEY, w, *args, num_sweeps=2, lanes=4)) for w in both]
    assert np.array_equal(*drawn) and len(np.unique(drawn[0][DOCUMENTS >= 0])) == K


def test_little_time_goes_into_padding():
    """Lengths as skewed as those of abstracts: the groups' padding is below a fifth."""
    lengths = np.sort(np.random.default_rng(0).lognormal(5.0, 0.6, 300).astype(int))[::-1]
    lanes = LDA(2, 2, 1.0, 1.0).lanes
    visited = sum(lanes * lengths[i] for i in range(0, len(lengths), lanes))
    assert visited < 1.2 * lengths.sum() < 0.5 * len(lengths) * lengths[0]


def test_words_are_counted_by_topic_and_weight():
    words = jnp.array([[0, 0, 5], [1, -1, -1]])
    topics = jnp.array([[2, 1, 1], [0, -1, -1]], jnp.int16)
    counts = word_counts(words, topics, jnp.array([1.0, 10.0]), K, V)
    expected = np.zeros((K, V))
    expected[2, 0] = expected[1, 0] = expected[1, 5] = 1
    expected[0, 1] = 10
    np.testing.assert_array_equal(counts, expected)


def test_float64(x64):
    kernel = scir(lda.counts(Uniform(3)), 0.5)
    run = sample(KEY, kernel, lda.start(KEY).astype(jnp.float64), DOCUMENTS, num_steps=3)
    assert run.trace.dtype == np.float64 and np.isfinite(run.trace).all()


# --------------------------------------------------------------------------------- perplexity


def planted(num_documents=60, seed=3):
    """Topics with two words each, and documents of one topic."""
    phi = np.kron(np.eye(K), np.full(2, 0.5))
    rng = np.random.default_rng(seed)
    return phi, rng.multinomial(20, phi[rng.integers(0, K, num_documents)])


@pytest.mark.parametrize("alpha", [1e-3, 0.3])
def test_perplexity_of_known_topics(alpha):
    """Words tell their topic, so that proportions are exact, and alike for all halves.

    Of documents of the words (0, 1, 0, 1, 1), (0, 2, 4), (3), each word half of its topic:
    three words given two of their topic, two given one of another, and one given none.
    """
    model, truth = LDA(K, V, alpha=alpha, beta=0.1), np.log(planted()[0] + 1e-30)
    documents = np.full((4, 6), -1)
    documents[0, :5], documents[1, :3], documents[2, 0] = (0, 1, 0, 1, 1), (0, 2, 4), 3
    seen, of_topic = np.array([2, 2, 2, 1, 1, 0]), np.array([2, 2, 2, 0, 0, 0])
    chance = (of_topic + alpha) / (seen + K * alpha) / 2
    perplexity = lambda topics: model.perplexity(KEY, topics, documents)
    assert perplexity(truth) == pytest.approx(np.exp(-np.log(chance).mean()), rel=1e-4)
    # averaged over draws before the logarithm; by flat topics a word has 1 / V
    both, mean = np.stack([truth, np.zeros((K, V))]), (chance + 1 / V) / 2
    assert perplexity(both) == pytest.approx(np.exp(-np.log(mean).mean()), rel=1e-4)


def test_halves_of_documents_are_drawn_at_random():
    """Of five words two are seen, each pair as often; no word is in both halves."""
    documents = np.tile(np.array([[0, 1, 1, 4, 5, -1, -1]]), (4_000, 1))
    seen, held = map(np.asarray, _evaluation._halves(KEY, documents))
    assert np.all((seen >= 0).sum(1) == 2) and np.all(seen[:, 2:] == -1)
    both = np.sort(np.concatenate([seen, held], axis=1), axis=1)
    assert np.array_equal(both[:, -5:], documents[:, :5]) and np.all(both[:, :-5] == -1)
    pairs, count = np.unique(np.sort(seen[:, :2], axis=1), axis=0, return_counts=True)
    assert pairs.tolist() == [[0, 1], [0, 4], [0, 5], [1, 1], [1, 4], [1, 5], [4, 5]]
    expected = np.array([2, 1, 1, 1, 2, 2, 1]) / 10
    error = np.sqrt(expected * (1 - expected) / 4_000)
    assert np.all(np.abs(count / 4_000 - expected) < Z * error)


def test_perplexity_of_topics_of_any_scale_and_of_words_that_none_has():
    log_topics = np.array(lda.start(KEY))
    scaled = log_topics + np.array([[3.0], [-40.0], [0.0]], np.float32)
    value = lda.perplexity(KEY, log_topics, DOCUMENTS)
    assert abs(lda.perplexity(KEY, scaled, DOCUMENTS) - value) < 1e-3
    scaled[0, 2] = -np.inf
    assert np.isfinite(lda.perplexity(KEY, scaled, DOCUMENTS))
    scaled[:, 2] = -np.inf
    assert lda.perplexity(KEY, scaled, DOCUMENTS) == np.inf
    for wrong, message in [
        (log_topics[:2], r"log_topics must be a floating array of shape \(3, 6\).*\(2, 6\)"),
        (log_topics * np.nan, "log_topics must be less than infinity, got NaN"),
        (np.asarray(jax.nn.softmax(log_topics)), "log_topics must be logarithms"),
    ]:
        with pytest.raises(ValueError, match=message):
            lda.perplexity(KEY, wrong, DOCUMENTS)


@pytest.mark.parametrize("name", ["gibbs", "collapsed", "counts"])
@pytest.mark.parametrize("dtype, vocabulary", [("uint8", 256), ("int8", 128), ("int16", 40_000)])
def test_a_vocabulary_that_the_type_of_its_words_does_not_hold(name, dtype, vocabulary):
    """Its size was 0, or negative, and no word one of it: the chain had the law of the prior."""
    lda = LDA(num_topics=2, vocabulary=vocabulary, alpha=0.5, beta=0.5)
    words = np.random.default_rng(0).integers(97, 123, (4, 10))
    make = {"counts": lambda: scir(lda.counts(Uniform(2)), 0.5)}
    kernel = make.get(name, getattr(lda, name))()
    args = {"num_steps": 3, "record": lambda state, info: jnp.argmax(state.position, axis=1)}
    start = jnp.zeros((2, vocabulary))
    wide, narrow = (
        sample(KEY, kernel, start, words.astype(each), **args).trace for each in ("int32", dtype)
    )
    np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_words_of_any_whole_type_are_those_words(dtype):
    """Of documents as long as each other, which need no padding."""
    words = np.random.default_rng(4).integers(0, V, (6, 5))
    log_topics = lda.start(KEY)
    value = lda.perplexity(KEY, log_topics, words.astype(np.int32))
    assert lda.perplexity(KEY, log_topics, words.astype(dtype)) == value


WORDS = [0, 0, 3, 5]
TOPICS = np.log(np.random.default_rng(5).dirichlet(np.full(V, 0.4), (2, K)).astype(np.float32))


def exact_shares():
    """E[theta | words] under both draws of the topics, over all topics of the words."""
    means = []
    for log_phi in TOPICS.astype(np.float64):
        total, mean = 0.0, np.zeros(K)
        for z in itertools.product(range(K), repeat=len(WORDS)):
            n = np.bincount(z, minlength=K)
            log_prior = gammaln(0.3 + n).sum()
            chance = np.exp(log_prior + log_phi[list(z), WORDS].sum())
            total, mean = total + chance, mean + chance * (n + 0.3) / (len(WORDS) + 3 * 0.3)
        means.append(mean / total)
    return np.array(means)


def shares(log_topics, model=lda, draws=20, copies=8_000):
    """Of copies of the document, each with sweeps of its own."""
    documents = np.tile(np.array([[*WORDS, -1]]), (fewer(copies), 1))
    return model.transform(KEY, log_topics, documents, draws=draws)


@pytest.mark.runs_long
def test_proportions_of_a_new_document():
    exact = exact_shares()
    assert np.abs(exact[0] - exact[1]).max() > 0.1
    check_mean(shares(TOPICS), exact.mean(0), wider(0.015))
    check_mean(shares(TOPICS[0] + np.array([[3.0], [-9.0], [0.0]], np.float32)), exact[0], 0.1)
    empty = lda.transform(KEY, TOPICS, lda.documents(np.zeros((2, V), int)))
    np.testing.assert_allclose(empty, np.full((2, K), 1 / K), rtol=1e-6)


def test_a_word_that_no_topic_has_tells_nothing_of_a_document():
    """Of given topics; it was taken for one of the first."""
    model = LDA(2, 3, alpha=0.5, beta=0.5)
    with np.errstate(divide="ignore"):
        log_topics = np.log(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], np.float32))
    found = model.transform(KEY, log_topics, np.array([[2, 2, 2, 2], [0, 2, 2, -1]]))
    np.testing.assert_allclose(found[0], [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("fault", ["alpha", "words", "draws"])
def test_wrong_proportions_are_seen(monkeypatch, fault):
    """Planted: another prior; a word left out of the counts; the first draw of the topics alone."""
    if fault == "alpha":
        values = shares(TOPICS, LDA(K, V, alpha=0.6, beta=0.5))
    elif fault == "draws":
        values = shares(TOPICS[:1])
    else:
        swept = _topics.sweep
        last = lambda *args, **kwargs: swept(*args, **kwargs).at[:, 3].set(-1)
        monkeypatch.setattr(_topics, "sweep", last)
        values = shares(TOPICS, draws=19)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(values, exact_shares().mean(0), wider(0.015))


def test_transform_refuses():
    for kwargs, message in [
        ({"log_topics": TOPICS[..., 1:]}, "log_topics must be a floating array of shape"),
        ({"log_topics": np.exp(TOPICS)}, "log_topics must be logarithms"),
        ({"documents": DOCUMENTS + V}, "data must be of words 0 to 5"),
        ({"burn_in": -1}, "burn_in must be a whole number of at least 0"),
        ({"draws": 0}, "draws must be a whole number"),
    ]:
        with pytest.raises(ValueError, match=message):
            lda.transform(KEY, **{"log_topics": TOPICS, "documents": DOCUMENTS} | kwargs)


@pytest.mark.parametrize("burn_in, draws", [(0, 1), (3, 1), (0, 2), (2, 3)])
def test_a_burn_in_is_of_the_sweeps_before_the_first_that_counts(burn_in, draws, monkeypatch):
    """And of these there are `sweeps` between two that count; alike where documents are new."""
    swept, made = _topics.sweep, []

    def counted(*args, num_sweeps, **kwargs):
        made.append(num_sweeps)
        return swept(*args, num_sweeps=num_sweeps, **kwargs)

    monkeypatch.setattr(_topics, "sweep", counted)
    grad = lda.counts(Full(), method="fresh", burn_in=burn_in, draws=draws, sweeps=4)
    grad.estimate(KEY, (), TOPICS[0], DOCUMENTS)
    assert made[0] == burn_in + 1 and set(made[1:]) <= {4}
    made.clear()
    lda.transform(KEY, TOPICS[:1], DOCUMENTS[:2, :7], burn_in=burn_in, draws=draws)
    assert made[0] == burn_in + 1 and set(made[1:]) <= {1}


def test_unseen_words_keep_their_prior_mass():
    documents = lda.documents(np.array([[3, 2, 1, 0, 0, 0]] * 4))
    held_out = lda.documents(np.array([[1, 1, 1, 1, 1, 1]] * 4))
    run = sample(KEY, lda.gibbs(), lda.start, documents, num_steps=300, burn_in=100)
    mean = jax.nn.softmax(run.trace).mean((0, 1))
    assert (mean[3:] > 0.02).all()
    assert lda.perplexity(KEY, run.trace, held_out) < 30
    rare = np.array(run.trace)
    rare[:, :, 5] = -300.0  # underflows, and yet the logarithm is finite
    assert np.isfinite(np.log(lda.perplexity(KEY, rare, held_out)))


@pytest.mark.parametrize(
    "name",
    [
        *("gibbs", "collapsed", "table"),
        *(pytest.param(name, marks=pytest.mark.full) for name in ("fresh", "stream", "warm start")),
    ],
)
def test_planted_topics_are_found(name):
    phi, counts = planted()
    model = LDA(K, V, alpha=0.1, beta=0.1)
    documents, held_out = model.documents(counts[:40]), model.documents(counts[40:])
    start, data = model.start, documents
    kernel = {
        "gibbs": model.gibbs(),
        "collapsed": model.collapsed(),
        "table": scir(model.counts(Uniform(10)), 0.5),
        "fresh": scir(model.counts(Uniform(20), method="fresh"), 0.05),
        "stream": scir(model.counts(Given(40), method="fresh"), 0.05),
        "warm start": model.gibbs(),
    }[name]
    if name == "stream":
        data = lambda i: documents[(np.arange(20) + 20 * i) % 40]
    if name == "warm start":
        start = model.warm_start(KEY, documents, sweeps=100)
    run = sample(KEY, kernel, start, data, num_steps=400, burn_in=300, thin=10)
    assert model.perplexity(KEY, run.trace, held_out) < 2.3


def test_a_corpus_on_disk(tmp_path):
    """Compressed rows in files that are mapped, not read: every step loads its documents alone."""
    phi, counts = planted(500)
    matrix = sparse.csr_matrix(counts)
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(matrix, name))
    model = LDA(K, V, alpha=0.1, beta=0.1)
    data, indices, indptr = (
        np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")
    )

    def batch(i):
        first = i * 25 % 500
        starts = indptr[first : first + 26]
        rows = slice(starts[0], starts[-1])
        return model.documents((data[rows], indices[rows], starts - starts[0]), length=20)

    kernel = scir(model.counts(Given(500), method="fresh", burn_in=10), 0.01)
    run = sample(KEY, kernel, model.start, batch, num_steps=400, burn_in=300, thin=10)
    held_out = model.documents(planted(20, seed=4)[1])
    assert model.perplexity(KEY, run.trace, held_out) < 2.2


def test_whole_numbers_of_numpy():
    """Inside of jit they are arrays, unless they are made numbers at the door."""
    five, topics = np.int64(5), jnp.zeros((K, V))
    documents = lda.documents(COUNTS)
    assert np.array_equal(
        lda.transform(KEY, topics, documents, draws=five, burn_in=np.int64(1)),
        lda.transform(KEY, topics, documents, draws=5, burn_in=1),
    )
    assert lda.perplexity(KEY, topics, documents, draws=five) == pytest.approx(V, rel=1e-4)
    assert lda.warm_start(KEY, documents, sweeps=five).shape == (K, V)
    with pytest.raises(ValueError, match="burn_in must be a whole number .* got -1"):
        lda.perplexity(KEY, topics, documents, burn_in=-1)


def test_a_small_alpha_is_not_lost_beside_a_word():
    """A word alone in its document: its topic is redrawn by alpha alone, of any size."""
    log_topics = jnp.log(jnp.array([[0.9, 0.1], [0.1, 0.9]]))
    words, topics = jnp.zeros((4_000, 1), int), jnp.zeros((4_000, 1), jnp.int16)
    for alpha in (1e-1, 1e-8):
        swept = _topics.DocumentTopics(LDA(2, 2, alpha, 0.5), 1, 0, 1).swept(
            KEY, log_topics, words, topics, 1
        )
        assert abs(float(jnp.mean(swept)) - 0.1) < 6 * np.sqrt(0.09 / 4_000)
