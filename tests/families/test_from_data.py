"""Priors from data: in the data's own units, and of the size that they say."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import sample
from sgmc_jax.bnp import (
    DirichletCategorical,
    DirichletMultinomial,
    DirichletProcess,
    Groups,
    LinearGaussian,
    NormalGamma,
    NormalInverseWishart,
    NormalKnownCovariance,
    PoissonGamma,
    default_sampler,
    point_estimate,
)

KEY = jax.random.key(4)
NORMAL = [NormalInverseWishart, NormalGamma, NormalKnownCovariance]
SCALE, SHIFT = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -100.0, 1e5])
_rng = np.random.default_rng(1)
CENTRES = _rng.normal(size=(4, 3)) * 6
TRUTH = np.arange(400) % 4
X = CENTRES[TRUTH] + _rng.normal(size=(400, 3))


def log_marginal(make, data):
    """Of three clusters of the first items, and the family's base."""
    family = make.from_data(data)
    labels = jnp.arange(12) % 3
    stats = family.label_statistics(jnp.asarray(data[:12]), labels, 3)
    return jnp.sum(family.log_marginal(stats)) + jnp.sum(family.log_base(jnp.asarray(data[:12])))


@pytest.mark.parametrize("make", NORMAL)
def test_units_do_not_matter(make, x64):
    """p(c x + b) = p(x) / c^n, of every partition: other units have the same posterior."""
    there = log_marginal(make, X * SCALE + SHIFT) + 12 * np.sum(np.log(SCALE))
    np.testing.assert_allclose(there, log_marginal(make, X), rtol=1e-8)


def covariances(family):
    """Of a cluster, in the prior mean, and of the means of clusters."""
    if isinstance(family, NormalKnownCovariance):
        return family.covariance, family.prior_covariance
    if isinstance(family, NormalGamma):
        one = np.diag(family.rate / (family.shape - 1))
        return one, one / family.mean_strength
    one = family.scale / (family.degrees_of_freedom - family.dim - 1)
    return one, one / family.mean_strength


def check_volume(make):
    one, every = covariances(make.from_data(X, clusters=4))
    sample_covariance = np.cov(X.T, bias=True)
    shrunk = sample_covariance - 3 / 403 * (sample_covariance - np.diag(np.diag(sample_covariance)))
    shrunk = shrunk * np.eye(3) if make is NormalGamma else shrunk
    np.testing.assert_allclose(every, shrunk, rtol=1e-4)
    np.testing.assert_allclose(one, shrunk / 4 ** (2 / 3), rtol=1e-4)  # a fourth of the volume


@pytest.mark.parametrize("make", NORMAL)
def test_clusters_have_their_share_of_the_volume(make):
    check_volume(make)


@pytest.mark.parametrize("make", NORMAL)
def test_a_share_of_each_side_is_seen(make, monkeypatch):
    module = importlib.import_module("sgmc_jax.families.family")
    honest = module.spread
    faulty = lambda data, clusters: honest(data, clusters)._replace(share=1 / clusters)
    monkeypatch.setattr(module, "spread", faulty)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_volume(make)


def test_more_dimensions_than_items():
    family = NormalInverseWishart.from_data(_rng.normal(size=(5, 20)))
    assert np.linalg.eigvalsh(family.scale)[0] > 0


@pytest.mark.parametrize("make", NORMAL)
@pytest.mark.parametrize(
    "data, message",
    [
        (np.stack([np.arange(5.0), np.ones(5)], 1), r"constant columns \[1\]"),
        (np.stack([np.arange(9.0), np.full(9, 0.1)], 1), r"constant columns \[1\]"),
        (np.ones((1, 2)), "got 1 items"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), "data must be finite"),
        (np.zeros((0, 2)), r"shape \(n, d\)"),
        (np.zeros((2, 2, 2)), r"shape \(n, d\)"),
    ],
    ids=["constant", "rounded", "one", "nan", "none", "three axes"],
)
def test_data_that_make_no_prior(make, data, message):
    with pytest.raises(ValueError, match=message):
        make.from_data(data)


def test_counts_and_features():
    family = PoissonGamma.from_data(np.array([[3, 0], [4, 0]]))
    np.testing.assert_allclose(family.shape, 1)
    np.testing.assert_allclose(family.shape / family.rate, [8 / 3, 1 / 3], rtol=1e-6)
    pd = pytest.importorskip("pandas")
    framed = PoissonGamma.from_data(pd.DataFrame({"x": [3, 4], "y": [0, 0]}))
    assert np.array_equal(framed.rate, family.rate)
    with pytest.raises(ValueError, match="data must"):
        PoissonGamma.from_data(np.array([[0.5, 1.0]]))
    with pytest.raises(ValueError, match="all zero"):
        LinearGaussian.from_data(np.zeros((3, 2)))
    family = LinearGaussian.from_data(np.array([[2.0, -2.0], [0.0, 4.0]]))  # of mean square 6
    scales, priors = jax.tree.leaves((family.start(), family.priors)), (1, 6, 1, 6 / 4)
    np.testing.assert_allclose(scales, [6**0.5, 1.5**0.5, *priors], rtol=1e-6)
    big, small = (LinearGaussian.from_data(c * X) for c in (1e3, 1.0))
    assert big.noise_scale / small.noise_scale == pytest.approx(1e3, rel=1e-5)
    assert big.priors["noise_scale"][1] / small.priors["noise_scale"][1] == pytest.approx(1e6)


WORDS = Groups(np.array([[0, 1, 2, 9], [3, 3, 9, 9]]), np.array([3, 2]))


@pytest.mark.parametrize("topics", [1.0, 4.0])
def test_topics_have_their_share_of_the_entropy(topics):
    counts = np.tile([50, 30, 20, 0], 30)
    tokens = np.repeat(np.arange(120), counts)
    family = DirichletCategorical.from_data(tokens, topics=topics, size=120)
    draws = np.random.default_rng(0).dirichlet(np.asarray(family.concentration, float), 20_000)
    of = lambda p: -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), axis=-1)
    every = of(counts / counts.sum())
    np.testing.assert_allclose(of(draws).mean(), every - np.log(topics), rtol=0.01)
    assert family.size == 120


def test_documents_as_counts_have_the_prior_of_their_words():
    counts = np.random.default_rng(0).poisson(np.linspace(0, 4, 30), (20, 30))
    family = DirichletMultinomial.from_data(counts, clusters=4)
    tokens = np.repeat(np.tile(np.arange(30), 20), counts.ravel())
    words = DirichletCategorical.from_data(tokens, topics=4, size=30)
    np.testing.assert_allclose(family.concentration, words.concentration, rtol=1e-6)
    for wrong, message in [
        (-counts, "counts, got a negative number"),
        (counts[:, :1], "of several categories"),
        (counts + 0.5, "counts, got a fraction"),
    ]:
        with pytest.raises(ValueError, match=message):
            DirichletMultinomial.from_data(wrong)
    with pytest.raises(ValueError, match="clusters must be finite and positive"):
        DirichletMultinomial.from_data(counts, clusters=0)


@pytest.mark.parametrize("topics", [0.5, 1.0])
def test_words_that_are_all_alike_and_no_topics_to_share_them(topics):
    """No finite concentration has their entropy: the largest that is thought of."""
    family = DirichletCategorical.from_data(np.arange(10), topics=topics)
    np.testing.assert_allclose(family.concentration, 1e6, rtol=1e-6)


def test_few_words_of_a_vast_vocabulary():
    """Whose entropy even the smallest concentration exceeds."""
    words = np.repeat([0, 1], [99_900, 100])
    family = DirichletCategorical.from_data(words, size=50_000)
    np.testing.assert_allclose(family.concentration, 1e-6, rtol=1e-6)


def test_words_of_groups():
    """What lies past a group's size is no word of it."""
    family = DirichletCategorical.from_data(WORDS)
    alone = DirichletCategorical.from_data(np.array([0, 1, 2, 3, 3]))
    assert family.size == alone.size == 4
    assert np.array_equal(family.concentration, alone.concentration)
    assert DirichletCategorical.from_data(WORDS, size=10).size == 10


@pytest.mark.parametrize(
    "data, kwargs, message",
    [
        (np.zeros(5, int), {}, "of several categories"),
        (np.array([0.5]), {}, "integers of shape"),
        (np.array([[0, 1]]), {}, "integers of shape"),
        (np.array([], int), {}, "integers of shape"),
        (np.array([-1, 2]), {}, "indices, got -1"),
        (np.arange(5), {"size": 3}, "indices below 3"),
        (np.arange(5), {"topics": 0}, "topics must be finite and positive"),
    ],
)
def test_words_that_make_no_prior(data, kwargs, message):
    with pytest.raises(ValueError, match=message):
        DirichletCategorical.from_data(data, **kwargs)


@pytest.mark.full
@pytest.mark.parametrize("make", NORMAL[:2])
def test_four_clusters_of_any_units_are_found(make):
    data = X * SCALE + SHIFT
    parts = DirichletProcess(1.0), make.from_data(data)
    kernel, start, _ = default_sampler(KEY, *parts, data)
    run = sample(KEY, kernel, start, data, num_steps=120, burn_in=60, num_chains=2)
    found, _ = point_estimate(run.trace.local["assignment"])
    table = np.zeros((4, found.max() + 1))
    np.add.at(table, (TRUTH, np.asarray(found)), 1)
    assert table.max(1).sum() >= 396 and (table.sum(0) > 4).sum() == 4
