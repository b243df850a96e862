"""The spherical admixture: its data, its gradient by differences, big corpora, and bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats

from sgmc_jax import Full, Given, LatentTable, Sphere, Uniform, gmc, gsgnht, sample, sggmc
from sgmc_jax.models import SphericalAdmixture
from sgmc_jax.models.spherical import UnitVectors, density, variational
from sgmc_jax.models.spherical.density import GivenProportions
from sgmc_jax.models.spherical.documents import dense

KEY = jax.random.key(23)
K, V, D = 3, 7, 9
SAM = SphericalAdmixture(K, V, 1.0, 30.0, 4.0, 2.0)
COUNTS = np.random.default_rng(5).poisson(0.7, (D, V))
COUNTS[4] = 0  # an empty document
DOCUMENTS = SAM.documents(COUNTS)
FULL = np.asarray(dense(DOCUMENTS, V, jnp.float32))
_rng = np.random.default_rng(6)  # no program is compiled where modules are only collected
_normal = _rng.normal(size=(K, V))
TOPICS = jnp.asarray(_normal / np.linalg.norm(_normal, axis=1, keepdims=True), jnp.float32)
THETA = jnp.asarray(_rng.dirichlet(np.ones(K), (D, 2)), jnp.float32)


def test_documents_are_tf_idf_of_length_one():
    idf = np.log(D / np.maximum((COUNTS > 0).sum(0), 1)) * (COUNTS > 0).any(0)
    weights = COUNTS * idf
    norm = np.linalg.norm(weights, axis=1, keepdims=True)
    np.testing.assert_allclose(FULL, weights / np.where(norm > 0, norm, 1), atol=1e-6)
    assert not FULL[4].any()
    np.testing.assert_allclose(SAM.inverse_document_frequency(COUNTS), idf)
    matrix = sparse.csr_matrix(COUNTS)
    for same in (matrix, (matrix.data, matrix.indices, matrix.indptr), COUNTS.tolist()):
        np.testing.assert_array_equal(SAM.documents(same).values, DOCUMENTS.values)
    assert SAM.documents(COUNTS, length=11).columns.shape == (D, 11)
    plain = SAM.documents(COUNTS / 4, word_weights=np.ones(V))
    again = np.asarray(dense(plain, V, jnp.float32))
    np.testing.assert_allclose(again[0], COUNTS[0] / np.linalg.norm(COUNTS[0]), atol=1e-6)


def test_a_word_that_a_sparse_matrix_has_twice_is_one():
    """In two parts, and in no order: squares of parts are not the square of the sum."""
    values, columns = np.array([2, 1, 1, 3, 1.0]), np.array([3, 0, 3, 5, 5])
    twice = sparse.csr_matrix((values, columns, np.array([0, 3, 5])), shape=(2, V))
    assert not twice.has_canonical_format
    for same in (twice, (values, columns, np.array([0, 3, 5]))):
        found, wanted = SAM.documents(same), SAM.documents(twice.toarray())
        np.testing.assert_array_equal(dense(found, V, jnp.float32), dense(wanted, V, jnp.float32))
    idf = SAM.inverse_document_frequency(twice)
    np.testing.assert_array_equal(idf, SAM.inverse_document_frequency(twice.toarray()))
    assert not twice.has_canonical_format  # the user's matrix is as it was


# by the words of documents, as where a vocabulary is large, and in full
BY_WORDS_OR_FULL = pytest.mark.parametrize("few", [0, 32])


@BY_WORDS_OR_FULL
def test_the_gradient_given_proportions_is_the_derivative(few, monkeypatch):
    monkeypatch.setattr(density, "_FEW", few)
    model, weight = GivenProportions(SAM.prior), jnp.linspace(0.0, 3.0, D)

    def total(topics):
        return jnp.sum(weight * model.loglik_batch(topics, (DOCUMENTS, THETA)))

    value, gradient = jax.value_and_grad(total)(TOPICS)
    found = model.weighted_sum(TOPICS, (DOCUMENTS, THETA), weight)
    np.testing.assert_allclose(found.logdensity, value, rtol=1e-5)
    np.testing.assert_allclose(found.value, gradient, atol=2e-4)
    mean = np.einsum("dnk,kv->dnv", THETA, TOPICS)
    cosine = np.sum(mean * FULL[:, None], -1) / np.linalg.norm(mean, axis=-1)
    np.testing.assert_allclose(value, np.sum(weight * 30 * cosine.mean(1)), rtol=1e-5)
    one = jax.tree.map(lambda x: x[2], (DOCUMENTS, THETA))
    np.testing.assert_allclose(model.loglik(TOPICS, one), 30 * cosine.mean(1)[2], rtol=1e-5)


@BY_WORDS_OR_FULL
def test_sums_over_documents_of_several_chains(few, monkeypatch):
    """Padding stands for the first word, which documents have too."""
    monkeypatch.setattr(density, "_FEW", few)
    topics = jnp.stack([TOPICS, TOPICS[::-1]])
    products = jax.vmap(density.inner_products, (0, None))(topics, DOCUMENTS)
    np.testing.assert_allclose(products, FULL @ np.asarray(topics).mT, atol=1e-6)
    weights = jnp.stack([THETA[:, 0], THETA[:, 1]])
    sums = jax.vmap(lambda w: density.weighted_sums(w, DOCUMENTS, V))(weights)
    np.testing.assert_allclose(sums, np.asarray(weights).mT @ FULL, atol=1e-6)
    assert FULL[:, 0].any() and np.any(np.asarray(DOCUMENTS.values) == 0)


def log_sinh(x):
    """log I_nu of order 1/2, that of three words, over the first term of its series."""
    return np.log(np.sinh(x) / x)


DIRECTION, TOPIC = np.array([0.6, 0.0, 0.8]), jnp.array([[0.0, 0.6, 0.8]])
ONE = SphericalAdmixture(1, 3, 1.0, 4.0, 2.5, 1.5, DIRECTION)  # topic, whose proportion is 1
BOTH = ONE.documents(np.array([[1, 2, 0], [3, 0, 4]]), word_weights=np.ones(3))


def test_densities_of_three_words():
    resultant = np.linalg.norm(1.5 * DIRECTION + 2.5 * TOPIC[0])
    np.testing.assert_allclose(ONE.prior.logdensity(TOPIC), log_sinh(resultant), rtol=1e-5)
    cosine = np.asarray(dense(BOTH, 3, jnp.float32)) @ TOPIC[0]
    wanted = np.log(4 * np.pi) + log_sinh(4.0) - 4.0 * cosine.mean()
    np.testing.assert_allclose(ONE.log_perplexity(KEY, TOPIC, BOTH), wanted, rtol=1e-5)


def test_a_step_of_variational_inference_of_three_words():
    """A quarter of the way to the gradient of the bound, at means in closed form."""
    kernel = ONE.variational(Full(), 0.25)
    state = kernel.init(KEY, TOPIC, BOTH)
    new, info = jax.jit(kernel.step)(KEY, state, BOTH)
    ratio = lambda x: 1 / np.tanh(x) - 1 / x
    s, total = 2.5 + 2 * 4.0, np.asarray(dense(BOTH, 3, jnp.float32)).sum(0)
    np.testing.assert_allclose(state.concentration, s)
    mean = ratio(s) * np.asarray(TOPIC[0])
    resultant = 1.5 * DIRECTION + 2.5 * mean
    length = np.linalg.norm(resultant)
    gradient = 2.5 * ratio(length) * resultant / length + 4.0 * total
    natural = 0.75 * s * TOPIC[0] + 0.25 * gradient
    np.testing.assert_allclose(new.concentration * new.position[0], natural, rtol=1e-5)
    bound = log_sinh(length) + 4.0 * total @ mean + log_sinh(s) - s * ratio(s)
    np.testing.assert_allclose(info.bound, bound, rtol=1e-5)


def test_a_documents_part_of_the_bound_is_that_of_quadrature(x64):
    """Of two topics, whose proportions have a beta law a posteriori and a priori."""
    sam = SphericalAdmixture(2, 3, 1.3, 4.0, 2.5)
    means, vector = np.array([[0.5, 0.1, 0.3], [-0.2, 0.6, 0.0]]), np.array([0.48, 0.6, 0.64])
    law, prior = stats.beta(2.0, 0.7), stats.beta(1.3, 1.3)
    inner = means @ means.T
    share = law.expect(lambda t: t)
    # topics themselves, of which these are the means, have length one
    square = law.expect(lambda t: t**2 + (1 - t) ** 2 + 2 * t * (1 - t) * inner[0, 1])
    cosine = vector @ (share * means[0] + (1 - share) * means[1]) / np.sqrt(square)
    divergence = law.expect(lambda t: law.logpdf(t) - prior.logpdf(t))
    products, log_a = (means @ vector)[None], np.log([[2.0, 0.7]])
    found = variational.document_bound(sam.prior, products, jnp.asarray(inner), jnp.asarray(log_a))
    np.testing.assert_allclose(found, [4.0 * cosine - divergence], rtol=1e-6)


@pytest.mark.full
@BY_WORDS_OR_FULL
def test_a_corpus_is_taken_in_parts_where_it_is_large(few, monkeypatch, x64):
    """Nine documents in parts of two, with one left over."""
    topics, theta = jnp.asarray(TOPICS, float), jnp.asarray(THETA, float)
    documents = DOCUMENTS._replace(values=np.asarray(DOCUMENTS.values, float))
    monkeypatch.setattr(density, "_FEW", few)
    jax.clear_caches()
    weight, grad = jnp.linspace(0.0, 3.0, D), SAM.marginal(KEY, draws=50)
    model = GivenProportions(SAM.prior)
    whole = model.weighted_sum(topics, (documents, theta), weight)
    scores = grad.model.loglik_batch(topics, documents)
    start = SAM.warm_start(KEY, documents, sweeps=3)
    monkeypatch.setattr(density, "_NUMBERS", 2 * V)
    jax.clear_caches()
    parts = model.weighted_sum(topics, (documents, theta), weight)
    assert parts.value.dtype == float
    np.testing.assert_allclose(parts.value, whole.value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.logdensity, whole.logdensity, rtol=1e-12)
    np.testing.assert_allclose(grad.model.loglik_batch(topics, documents), scores, rtol=1e-12)
    np.testing.assert_allclose(SAM.warm_start(KEY, documents, sweeps=3), start, atol=1e-12)


def test_documents_without_words_say_nothing():
    few = SAM.documents(COUNTS[4:5], word_weights=np.ones(V))
    latent = SAM.proportions(draws=400, num_steps=5, step_size=0.2)
    share = SAM.transform(KEY, TOPICS, few, proportions=latent)
    np.testing.assert_allclose(share, np.full((1, K), 1 / K), atol=0.1)
    grad = GivenProportions(SAM.prior).weighted_sum(TOPICS, (few, THETA[:1]), jnp.ones(1))
    assert not np.any(np.asarray(grad.value))
    rest = np.delete(np.arange(D), 4)
    others = jax.tree.map(lambda x: x[rest], DOCUMENTS)
    with_it, without = (SAM.log_perplexity(KEY, TOPICS, part) for part in (DOCUMENTS, others))
    assert abs(with_it - without) < 1e-4


def test_sums_of_directions_that_are_nothing():
    """Of opposite topics, with a flat prior of the mean: no NaN, and no direction."""
    model = SphericalAdmixture(2, 3, 1.0, 5.0, 2.0, 0.0)
    given = GivenProportions(model.prior)
    topics = jnp.array([[0.6, 0.8, 0.0], [-0.6, -0.8, 0.0]])
    np.testing.assert_array_equal(given.prior(topics).value, 0.0)
    theta = jnp.array([[[0.5, 0.5]], [[0.75, 0.25]]])
    lengths = density.lengths(density.gram(topics), theta)[:, 0]
    assert 0 < lengths[0] < 1e-3
    np.testing.assert_allclose(lengths[1], 0.5, rtol=1e-6)


def test_documents_that_are_read_batch_by_batch():
    def batch(i):
        counts = np.random.default_rng(i).poisson(1.0, (6, V))
        return SAM.documents(counts, word_weights=np.ones(V), length=V)

    grad = SAM.topics(Given(total=100), fresh=True)
    run = sample(KEY, gsgnht(grad, Sphere(), 0.01), SAM.start, batch, num_steps=4)
    np.testing.assert_allclose(np.linalg.norm(run.trace, axis=-1), 1, atol=1e-5)


def test_chains_of_proportions_go_on_from_where_they_were():
    grad = SAM.topics(Uniform(4), proportions=SAM.proportions(draws=2))
    assert isinstance(grad, LatentTable)
    estate, step = eqx.filter_jit(grad.init)(KEY, TOPICS, DOCUMENTS), eqx.filter_jit(grad.estimate)
    assert estate.table.value.shape == (D, 2, K)
    seen = np.zeros(D, bool)
    for i in range(6):
        before = estate
        _, estate = step(jax.random.fold_in(KEY, i), estate, TOPICS, DOCUMENTS)
        seen[np.asarray(estate.index)] = True
        others = ~np.isin(np.arange(D), estate.index)
        table = before.table.value.at[before.index].set(before.rows)
        np.testing.assert_array_equal(estate.table.value[others], table[others])
    assert seen.all()
    np.testing.assert_allclose(np.sum(estate.table.value, -1), 1, atol=1e-5)


def test_a_schedule_of_several_step_sizes_is_refused():
    kernel = SAM.variational(Uniform(4), lambda count: jnp.full((K, 1), 0.3))
    with pytest.raises(ValueError, match=r"step_size\(count\) must be one number, got shape"):
        sample(KEY, kernel, TOPICS, DOCUMENTS, num_steps=1)


def test_stochastic_variational_inference_goes_up():
    kernel = SAM.variational(Uniform(4), 0.3)
    run = sample(KEY, kernel, TOPICS, DOCUMENTS, num_steps=100, record=lambda s, i: i.bound)
    assert np.mean(run.trace[-30:]) > np.mean(run.trace[:5])
    np.testing.assert_allclose(np.linalg.norm(run.state.position, axis=1), 1, atol=1e-5)
    with pytest.raises(TypeError, match="Variational is a fit"):
        kernel.refresh(KEY, run.state, DOCUMENTS)


@pytest.mark.parametrize(
    "arguments,message",
    [
        ((0, V, 1.0, 1.0, 1.0), "num_topics must be a whole number of at least 1, got 0"),
        ((K, 1, 1.0, 1.0, 1.0), "vocabulary must be a whole number of at least 2, got 1"),
        ((K, V, 0.0, 1.0, 1.0), "alpha must be finite and positive"),
        ((K, V, 1.0, -1.0, 1.0), "concentration must be finite and positive"),
        ((K, V, 1.0, 1.0, -1.0), "topic_concentration must be finite and positive"),
        ((K, V, 1.0, 1.0, 1.0, -1.0), "prior_concentration must be"),
        ((K, V, np.ones(2), 1.0, 1.0), "alpha must be one number"),
        ((K, V, 1.0, 1.0, 1.0, 1.0, np.ones(3)), r"mean_direction must be of shape \(7,\)"),
        ((K, V, 1.0, 1.0, 1.0, 1.0, np.ones(V)), "mean_direction must have unit length"),
    ],
)
def test_bad_numbers_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SphericalAdmixture(*arguments)


def test_a_small_alpha_warns():
    with pytest.warns(UserWarning, match="alpha is 0.1: below 1/2"):
        SphericalAdmixture(K, V, 0.1, 1.0, 1.0)


@pytest.mark.parametrize(
    "data,message",
    [
        (FULL, "data must be documents as SphericalAdmixture.documents makes them"),
        (DOCUMENTS._replace(values=2 * DOCUMENTS.values), "vectors of length one, or zero"),
        (DOCUMENTS._replace(values=DOCUMENTS.values[:, 1:]), "columns and values of one shape"),
        (DOCUMENTS._replace(columns=DOCUMENTS.columns + V), "of words 0 to 6"),
        (
            DOCUMENTS._replace(values=DOCUMENTS.values * np.nan),
            r"data(.values)? must be finite",
        ),
    ],
)
def test_bad_documents_are_refused(data, message):
    for kernel in (
        sggmc(SAM.topics(Uniform(2)), Sphere(), 0.01),
        SAM.variational(Full()),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            sample(KEY, kernel, TOPICS, data, num_steps=1)


def test_other_bad_input_is_refused():
    kernel = sggmc(SAM.topics(Uniform(2)), Sphere(), 0.01)
    with pytest.raises(ValueError, match="position must have unit length"):
        sample(KEY, kernel, 2 * TOPICS, DOCUMENTS, num_steps=1)
    with pytest.raises(TypeError, match="LatentTable needs all of the data"):
        sample(KEY, sggmc(SAM.topics(Given(9)), Sphere(), 0.01), TOPICS, DOCUMENTS, num_steps=1)
    marginal = gmc(SAM.marginal(KEY), Sphere(), 0.1, 2)
    with pytest.raises(TypeError, match="data must be documents as SphericalAdmixture.documents"):
        sample(KEY, marginal, TOPICS, COUNTS, num_steps=1)
    for other in (kernel, marginal, SAM.variational(Full())):
        with pytest.raises(ValueError, match=r"position must be topics, of shape \(3, 7\), got"):
            sample(KEY, other, TOPICS[:2], DOCUMENTS, num_steps=1)
    start = {"topics": TOPICS, "proportions": np.full((D - 1, K), 1 / K, np.float32)}
    with pytest.raises(ValueError, match=r"position\['proportions'\] must be of shape \(9, 3\)"):
        sample(KEY, SAM.block_gibbs(0.1), start, DOCUMENTS, num_steps=1)
    with pytest.raises(ValueError, match=r"topics must end in the shape \(3, 7\)"):
        SAM.log_perplexity(KEY, TOPICS.T, DOCUMENTS)
    with pytest.raises(ValueError, match="topics must have one draw at least"):
        SAM.transform(KEY, TOPICS[None][:0], DOCUMENTS)
    with pytest.raises(ValueError, match="topics must have unit length along its last axis"):
        SAM.log_perplexity(KEY, 0.9 * TOPICS, DOCUMENTS)
    with pytest.raises(ValueError, match="step_size must be at most 1, got 5"):
        SAM.variational(Full(), 5.0)
    with pytest.raises(ValueError, match="documents must have some with words"):
        SAM.log_perplexity(KEY, TOPICS, SAM.documents(np.zeros((2, V))))
    with pytest.raises(ValueError, match="documents must be at least as many as topics, 3, got 0"):
        SAM.warm_start(KEY, SAM.documents(np.zeros((2, V))))
    with pytest.raises(ValueError, match="counts must be finite numbers that are not negative"):
        SAM.documents(-COUNTS)
    with pytest.raises(ValueError, match="counts must have 7 columns"):
        SAM.documents(COUNTS[:, 1:])
    with pytest.raises(ValueError, match="word_weights must be 7 finite numbers"):
        SAM.documents(COUNTS, word_weights=np.ones(3))
    with pytest.raises(ValueError, match="length must be at least"):
        SAM.documents(COUNTS, length=1)
    with pytest.raises(TypeError, match="batcher must be a Batcher"):
        SAM.variational(10)
    with pytest.raises(ValueError, match="^step_size must be finite and positive"):
        SAM.proportions(step_size=-1.0)
    with pytest.raises(ValueError, match="burn_in must be a whole number of at least 0, got -1"):
        SAM.proportions(burn_in=-1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_documents_and_the_mean_direction_have_the_precision_that_is_set(dtype, request):
    """And topics keep their own beside them."""
    if dtype == "float64":
        request.getfixturevalue("x64")
    model = SphericalAdmixture(K, V, 1.0, 20.0, topic_concentration=2.0)
    documents = model.documents(COUNTS)
    assert model.prior.mean_direction.dtype == documents.values.dtype == dtype
    np.testing.assert_allclose(np.sum(documents.values**2, axis=1).max(), 1, rtol=1e-6)
    grad = model.topics(Full())
    state = jax.eval_shape(lambda: grad.init(KEY, TOPICS, documents))
    found = jax.eval_shape(lambda state: grad.estimate(KEY, state, TOPICS, documents), state)
    assert found[0].value.dtype == TOPICS.dtype


def test_the_first_trajectory_may_count():
    """Of a burn-in of b the last draws are those of a chain of as many more that has none."""
    draws = lambda **numbers: SAM.proportions(**numbers).draw(KEY, TOPICS, DOCUMENTS, None)
    every = draws(burn_in=0, draws=5)
    np.testing.assert_array_equal(draws(burn_in=3, draws=2), every[:, 3:])


def test_a_document_of_negative_numbers_counts():
    sam, topics = SphericalAdmixture(2, 2, 1.0, 5.0, 1.0), np.array([[1.0, 0.0]] * 2, np.float32)
    columns, values = np.tile([0, 1], (3, 1)), np.array([[1, 0], [-1, 0], [0, 0]], np.float32)
    of = lambda n: sam.log_perplexity(KEY, topics, UnitVectors(columns[n], values[n]))
    assert of([0]) < of([0, 1]) < of([1]) and of([0, 1]) == pytest.approx(of([0, 1, 2]))
