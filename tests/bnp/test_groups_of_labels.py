"""Labels of items in groups: similarities and point estimates, against loops over the items."""

import numpy as np
import pytest

from sgmc_jax.bnp import Groups, _draws, cluster_table, point_estimate, similarity
from sgmc_jax.collective import Dist
from tests.bnp.test_point_estimates import ALL, binder, losses

RNG = np.random.default_rng(3)
SIZES = [[3, 0, 2], [1, 1, 3], [2, 2, 1], [0, 3, 2]]  # five items in three groups of up to three
SEEN = [RNG.choice(52, p=RNG.dirichlet(np.full(52, 0.1)), size=(2, 12)) for _ in SIZES]


def grouped(draws, size):
    """Five labels a draw in their groups; what lies past a group's size has labels of its own."""
    groups = RNG.integers(0, 5, (*draws.shape[:-1], 3, 3))
    items = iter(range(5))
    for group, length in enumerate(size):
        for place in range(length):
            groups[..., group, place] = draws[..., next(items)]
    return groups


def check():
    for seen, size in zip(SEEN, SIZES):
        draws = ALL[seen]
        labels = grouped(draws, size)
        shared = np.mean(draws[..., :, None] == draws[..., None, :], axis=(0, 1))
        np.testing.assert_allclose(similarity(labels, size=size), shared, rtol=1e-6)
        np.testing.assert_allclose(similarity(labels[0], [3], size=size)[0, 3], 1)
        estimate, value = point_estimate(labels, "binder", max_clusters=5, starts=4, size=size)
        risk = losses(binder)[:, seen].mean((1, 2))
        np.testing.assert_allclose(value, risk.min(), atol=1e-9)
        np.testing.assert_allclose(value, risk[(ALL == estimate).all(1)], atol=1e-9)


def test_by_brute_force():
    check()


@pytest.mark.parametrize(
    "fault",
    [
        lambda there: np.roll(there, 1, axis=1),  # a group's items are shifted
        lambda there: np.sort(there, axis=0),  # items are those of other groups
        lambda there: np.ones_like(there),  # padding counts
        lambda there: there | np.roll(there, 1, axis=1),
    ],
)
def test_faults_are_seen(monkeypatch, fault):
    """Planted."""
    honest = _draws.present
    monkeypatch.setattr(_draws, "present", lambda *args: fault(honest(*args)))
    with pytest.raises((AssertionError, IndexError)):
        check()


def test_groups_tell_their_sizes_and_positions_their_axes():
    draws, size = ALL[SEEN[0]], np.array(SIZES[0])
    labels, items = grouped(draws, size), RNG.normal(size=(3, 3, 2))
    groups = Groups(items, size)
    expected = similarity(draws)
    position = Dist({"mass": np.zeros((2, 12))}, {"assignment": labels})
    np.testing.assert_array_equal(similarity(labels, size=groups), expected)
    np.testing.assert_array_equal(similarity(position, size=groups), expected)
    one = Dist({"mass": np.zeros(12)}, {"assignment": labels[0]})
    np.testing.assert_array_equal(similarity(one, size=size), similarity(draws[0]))
    with pytest.raises(ValueError, match=r"size= is then needed.*\(12, 3, 3\) without size"):
        similarity(one)
    plain = Dist({"mass": np.zeros((2, 12)), "w": np.zeros((2, 12, 7))}, {"assignment": draws})
    np.testing.assert_array_equal(similarity(plain), expected)
    with pytest.raises(ValueError, match="with size"):
        similarity(plain, size=[5] * 12)


def test_a_table_of_groups():
    draws, size = ALL[SEEN[0]], np.array(SIZES[0])
    items = RNG.normal(size=(3, 3, 2))
    flat = np.concatenate([group[:length] for group, length in zip(items, size)])
    table = cluster_table([0, 1, 1, 0, 2], Groups(items, size), draws=grouped(draws, size))
    by_hand = cluster_table([0, 1, 1, 0, 2], flat, draws=draws)
    assert str(table) == str(by_hand) and "together" in table.columns
    words = cluster_table([0, 1, 1, 0, 2], Groups(np.arange(9).reshape(3, 3), size))
    np.testing.assert_allclose(words.columns["x[0] mean"], [3, 1.5, 7])


def test_what_may_be_something_else_is_said():
    with pytest.warns(UserWarning, match="taken for those of 40 chains.*size=.*feature_similarity"):
        similarity(np.zeros((40, 3, 2), int))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: similarity(np.zeros((2, 9, 3, 4), int)), ValueError, "without size.*feature_sim"),
        (lambda: similarity(np.zeros((9, 3), int), size=[2]), ValueError, r"\(9, 3\) with size"),
        (
            lambda: similarity(np.zeros((2, 3, 4), int), size=[2]),
            ValueError,
            "of the 3 groups",
        ),
        (lambda: similarity(np.zeros((2, 1, 4), int), size=[5]), ValueError, "between 0 and 4"),
        (lambda: similarity(np.zeros((2, 1, 4), int), size=[-1]), ValueError, "between 0 and 4"),
        (
            lambda: similarity(np.zeros((2, 1, 4), int), size=[0.5]),
            TypeError,
            "got float",
        ),
        (lambda: similarity(np.zeros((2, 1, 4), int), size=[0]), ValueError, "a draw and an item"),
        (lambda: similarity(np.zeros((2, 3), bool)), TypeError, "got bool; .*feature_similarity"),
        (
            lambda: similarity(Dist({}, {"features": np.zeros((2, 3, 4), int)})),
            TypeError,
            "'assignment', got .*'features'.*feature_similarity",
        ),
    ],
)
def test_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
