"""The law of new items, against all partitions with one item more."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.bnp import DirichletMultinomial, NormalKnownCovariance, PitmanYor, predictions
from sgmc_jax.bnp import predictive as predictive_
from sgmc_jax.collective import Dist
from tests.enumeration.partitions import likelihoods, partitions, prior
from tests.enumeration.partitions import normal_marginal as marginal

A, D = 0.8, 0.3
PROCESS, FAMILY = PitmanYor(A, D), NormalKnownCovariance(0.0, 0.5, 1.5)
X = np.array([-1.2, -0.7, 0.4, 1.5])
NEW = np.array([-3.0, -0.5, 1.1])
ALL = np.array(list(partitions(4)))
MORE = list(partitions(5))


def positions(labels, a=A, d=D):
    shape = np.shape(labels)[:-1]
    shared = {"concentration": np.full(shape, a), "discount": np.full(shape, d)}
    return Dist(jax.tree.map(jnp.asarray, shared), {"assignment": np.asarray(labels)})


def predictive(labels, items=NEW, **kwargs):
    items = jnp.asarray(items)[:, None]
    return predictive_(PROCESS, FAMILY, positions(labels), jnp.asarray(X)[:, None], items, **kwargs)


def enumerated(labels, item):
    """p(x, z = k | labels) of the next item, for each cluster and a new one."""
    old = prior(A, D, 4) * likelihoods(marginal, X)
    new = prior(A, D, 5) * likelihoods(marginal, np.append(X, item)) / (A + 4)
    joint = np.zeros(max(labels) + 2)
    for z, weight in zip(MORE, new):
        if z[:4] == tuple(labels):
            joint[z[4]] = weight
    return joint / old[(ALL == labels).all(1)]


def check_draws(draws=ALL):
    joint = [np.array([enumerated(labels, x) for x in NEW]) for labels in draws]
    density = np.array([each.sum(1) for each in joint])
    for labels, exact in zip(draws, joint):
        law = predictive(labels[None], partition=labels)
        np.testing.assert_allclose(law.log_density, np.log(exact.sum(1)), atol=2e-5)
        rows = exact / exact.sum(1, keepdims=True)
        np.testing.assert_allclose(law.membership, rows, atol=2e-5)
    mean = np.log(density.mean(0))
    np.testing.assert_allclose(predictive(draws[None]).log_density, mean, atol=2e-5)


def test_draws_have_the_density_of_one_item_more():
    check_draws(ALL[[1, 6, 9]])


@pytest.mark.full
def test_all_draws_have_the_density_of_one_item_more():
    check_draws()


def test_draws_have_hyper_parameters_of_their_own():
    """The mean of densities, each of the constants of one draw."""
    draws, a, d = ALL[[1, 6, 9]], np.array([0.2, 3.0, 1.1]), np.array([0.6, 0.1, 0.4])
    data, items = jnp.asarray(X)[:, None], jnp.asarray(NEW)[:, None]

    def of(process, draws, a, d):
        position = positions(draws, a, d)
        return predictive_(process, FAMILY, position, data, items, partition=ALL[7])

    law = of(PROCESS, draws, a, d)
    each = [of(PitmanYor(*own), z[None], *own) for z, *own in zip(draws, a, d)]
    density = np.mean([np.exp(one.log_density) for one in each], axis=0)
    np.testing.assert_allclose(np.exp(law.log_density), density, rtol=1e-5)
    membership = np.mean([one.membership for one in each], axis=0)
    np.testing.assert_allclose(law.membership, membership, atol=1e-6)


@pytest.mark.parametrize("fault", ["discount", "births", "total"])
def test_faults_are_seen(monkeypatch, fault):
    """Planted: a rule without the discount, or new clusters alike, or the item counted twice."""

    def wrong(hyper, counts):
        used, last = counts > 0, jnp.arange(len(counts)) == len(counts) - 1
        d = 0 if fault == "discount" else D
        births = A + d * (fault != "births") * jnp.sum(used)
        joins = jnp.where(used, counts - d, last * births)
        return jnp.log(joins) - jnp.log(jnp.sum(counts) + A + (fault == "total"))

    monkeypatch.setattr(predictions, "_log_prior", wrong)
    traced = predictions._predicted.__wrapped__
    monkeypatch.setattr(predictions, "_predicted", eqx.filter_jit(lambda *args: traced(*args)))
    with pytest.raises(AssertionError):
        check_draws(ALL[[5]])


def test_the_density_integrates_to_one():
    grid = np.linspace(-15, 15, 601)
    log_density = predictive(ALL.reshape(3, 5, 4), grid).log_density
    assert np.exp(log_density).sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-4)


def test_membership_is_that_of_a_companion():
    labels, partition = np.array([0, 0, 1, 0]), np.array([7, 2, 2, 2])
    own = predictive(labels[None], partition=labels).membership
    told = predictive(labels[None], partition=partition).membership
    hand = np.stack([own[:, 0] * 2 / 3 + own[:, 1], own[:, 0] / 3, own[:, 2]], axis=1)
    np.testing.assert_allclose(told, hand, atol=1e-5)
    among = predictive(ALL, partition=partition).membership
    np.testing.assert_allclose(among.sum(axis=1), 1, atol=1e-5)
    assert predictive(ALL).membership is None


def test_many_new_items_are_looked_at_in_parts(monkeypatch):
    items = np.linspace(-3, 3, 11)
    law = predictive(ALL, items, partition=ALL[7])
    traced = predictions._predicted.__wrapped__  # anew: the program is kept
    monkeypatch.setattr(predictions, "_predicted", eqx.filter_jit(lambda *args: traced(*args)))
    monkeypatch.setattr(predictions, "_NUMBERS", 32)  # four items by eight slots
    parts = predictive(ALL, items, partition=ALL[7])
    np.testing.assert_allclose(parts.log_density, law.log_density, atol=1e-6)
    np.testing.assert_allclose(parts.membership, law.membership, atol=1e-6)


def test_names_of_clusters_do_not_matter():
    names = np.array([5, 0, 9, 3])
    first, second = predictive(ALL, partition=ALL[7]), predictive(names[ALL], partition=ALL[7])
    np.testing.assert_allclose(first.log_density, second.log_density, atol=1e-5)
    np.testing.assert_allclose(first.membership, second.membership, atol=1e-5)


def test_draws_of_many_chains_are_known_by_their_positions(recwarn):
    many = predictive(np.broadcast_to(ALL[7], (17, 2, 4)))
    np.testing.assert_allclose(many.log_density, predictive(ALL[[7]]).log_density, atol=1e-5)
    assert not recwarn.list


def test_counts_are_items_too():
    family, data = DirichletMultinomial(0.5, size=2), np.array([[3, 0], [0, 2]])
    new = np.array([[1, 0], [0, 1]])
    law = predictive_(PROCESS, family, positions([[0, 0]]), data, new)
    assert np.exp(law.log_density).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: predictive([[0, 1]]), ValueError, "positions must have a label for each of 4"),
        (lambda: predictive([[0.5] * 4]), TypeError, "labels must be whole numbers"),
        (
            lambda: predictive(ALL, partition=[0]),
            ValueError,
            "partition must have a label",
        ),
        (lambda: predictive(ALL, [np.nan]), ValueError, "data must be finite"),
        (
            lambda: predictive_(PROCESS, FAMILY, Dist({}, {"assignment": ALL}), X, NEW),
            ValueError,
            r"positions must have \['concentration', 'discount'\]",
        ),
        (
            lambda: predictive_(PROCESS, FAMILY, ALL, X, NEW),
            TypeError,
            "positions must be Dist.*run.trace",
        ),
        (
            lambda: predictive_(FAMILY, FAMILY, positions(ALL), X, NEW),
            TypeError,
            "process must be a PitmanYor",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
