"""Similarities and point estimates, against all partitions of five items."""

from functools import cache

import numpy as np
import pytest

from sgmc_jax.bnp import point_estimate, point_estimates, similarities, similarity
from tests.enumeration.partitions import partitions

ALL = np.array(list(partitions(5)))
RNG = np.random.default_rng(0)
SEEN = [RNG.choice(52, p=RNG.dirichlet(np.full(52, 0.1)), size=(2, 20)) for _ in range(20)]
DRAWS = [ALL[seen] for seen in SEEN]


def together(labels):
    return labels[..., :, None] == labels[..., None, :]


def entropy(*labels):
    """Of the joint law of labels, of an item drawn at random, in nats."""
    share = np.unique(np.stack(labels), axis=1, return_counts=True)[1] / len(labels[0])
    return -np.sum(share * np.log(share))


def binder(a, b):
    return np.mean(together(a) != together(b))


def vi(a, b):
    return 2 * entropy(a, b) - entropy(a) - entropy(b)


@cache
def losses(function):
    """Of all pairs of partitions."""
    return np.array([[function(a, b) for b in ALL] for a in ALL])


def check_minimum(loss, most=5):
    few = ALL.max(axis=1) < most
    for seen, draws in zip(SEEN, DRAWS):
        labels, value = point_estimate(draws, loss, max_clusters=most, starts=4)
        risk = losses({"binder": binder, "vi": vi}[loss])[:, seen].mean((1, 2))
        np.testing.assert_allclose(value, risk[few].min(), atol=1e-9)
        np.testing.assert_allclose(value, risk[(ALL == labels).all(1)], atol=1e-9)


@pytest.mark.parametrize("most", [2, 5])
@pytest.mark.parametrize("loss", ["binder", "vi"])
def test_no_partition_has_a_smaller_loss(loss, most):
    check_minimum(loss, most)


def test_searches_that_do_not_move_items_are_seen(monkeypatch):
    """Planted."""
    monkeypatch.setattr(point_estimates._Search, "improve", lambda self: self._place())
    with pytest.raises(AssertionError):
        check_minimum("vi")


def test_items_that_count_among_their_companions_are_seen(monkeypatch):
    """Planted: the gain of staying is that of an item more."""
    honest = point_estimates._Search._move

    def move(self, i):
        if self.labels[i] < 0:
            return honest(self, i)
        cost = self.gain[self.sizes] - 2 * (self.mean @ self.gains[self.rows[i]])
        return np.argmin(cost) != self.labels[i] and honest(self, i)

    monkeypatch.setattr(point_estimates._Search, "_move", move)
    with pytest.raises(AssertionError):
        for most in (2, 5):
            check_minimum("binder", most)


def test_similarities_are_those_by_hand(monkeypatch):
    monkeypatch.setattr(similarities, "_ROWS", 2)
    draws = RNG.integers(-3, 300, (2, 300, 7)) // 60
    hand = together(draws).mean((0, 1))
    np.testing.assert_allclose(similarity(draws), hand, rtol=1e-6)
    np.testing.assert_allclose(similarity(draws, rows=[6, 0, 3]), hand[[6, 0, 3]], rtol=1e-6)
    monkeypatch.setattr(similarities, "_MOST", 600)  # planted: a byte that overflows
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(similarity(draws), hand, rtol=1e-6)


def test_labels_are_names_only():
    draws = DRAWS[0]
    names = RNG.permuted(np.arange(5) * 1000 - 7, axis=0)
    renamed = np.stack([RNG.permutation(names)[row] for row in draws.reshape(-1, 5)])
    np.testing.assert_array_equal(similarity(draws), similarity(renamed))
    first, second = point_estimate(draws), point_estimate(renamed)
    assert first.labels.tolist() == second.labels.tolist()
    assert first.expected_loss == pytest.approx(second.expected_loss)


def test_a_key_gives_one_answer():
    draws = RNG.integers(0, 4, (30, 40))
    first, second = point_estimate(draws), point_estimate(draws)
    assert first.labels.tolist() == second.labels.tolist()


def test_a_known_partition_is_found():
    truth = np.arange(60) % 3
    draws = np.where(RNG.random((50, 60)) < 0.1, RNG.integers(0, 3, (50, 60)), truth)
    for loss in ("binder", "vi"):
        assert point_estimate(draws, loss).labels.tolist() == truth.tolist()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: similarity([0, 1]), ValueError, r"labels must have leading axes of draws.*\(2,\)"),
        (lambda: similarity([[0.5, 1.0]]), TypeError, "labels must be whole numbers, got float64"),
        (lambda: similarity(np.zeros((0, 3), int)), ValueError, "must have a draw and an item"),
        (lambda: similarity([[0, 1]], rows=[2]), ValueError, "rows must be from 0 to 1, got 2"),
        (lambda: similarity([[0, 1]], rows=[0.5]), TypeError, "rows must be whole numbers"),
        (lambda: point_estimate([[0, 1]], "rand"), ValueError, "loss must be one of .*'rand'"),
        (lambda: point_estimate([[0, 1]], starts=0), ValueError, "starts must be a whole number"),
        (lambda: point_estimate([[0, 1]], max_clusters=0), ValueError, "max_clusters must be a w"),
        (lambda: point_estimate([[0, 1]], key=0), TypeError, "key must be one JAX key"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
