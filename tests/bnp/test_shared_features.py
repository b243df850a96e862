"""What items share of features, against loops over five items, and the draw nearest to that."""

import numpy as np
import pytest

from sgmc_jax.bnp import feature_similarity, representative_draw, shared_features
from sgmc_jax.collective import Dist

RNG = np.random.default_rng(0)
BINARY = RNG.random((2, 9, 5, 4)) < 0.4
COUNTS = RNG.poisson(0.7, (3, 7, 5, 3))


def by_hand(features):
    """Of every draw and pair, the sum over features of what both have."""
    pairs = np.zeros((*features.shape[:2], 5, 5))
    for c, d, i, j in np.ndindex(pairs.shape):
        pairs[c, d, i, j] = sum(
            int(x) * int(y) for x, y in zip(features[c, d, i], features[c, d, j])
        )
    return pairs


def check():
    for features in (BINARY, COUNTS):
        pairs = by_hand(features)
        mean = pairs.mean((0, 1))
        np.testing.assert_allclose(feature_similarity(features), mean, rtol=1e-6)
        np.testing.assert_allclose(feature_similarity(features, [4, 1]), mean[[4, 1]], rtol=1e-6)
        distance = np.linalg.norm(pairs - mean, axis=(2, 3)) / 5
        found = representative_draw(features)
        np.testing.assert_allclose(found.distance, distance.min(), rtol=1e-5)
        assert found.index == np.unravel_index(np.argmin(distance), distance.shape)
        np.testing.assert_array_equal(found.features, features[found.index])


def test_by_brute_force(monkeypatch):
    check()
    monkeypatch.setattr(shared_features, "_ROWS", 2)
    monkeypatch.setattr(shared_features, "_COLUMNS", 7)
    check()


def test_faults_are_seen(monkeypatch):
    """Planted: a feature is had or not; a draw's own features alone count."""
    honest = shared_features._in_use
    monkeypatch.setattr(shared_features, "_in_use", lambda draw: honest(draw > 0))
    with pytest.raises(AssertionError):
        check()
    monkeypatch.undo()
    inner = shared_features._inner_products
    shifted = lambda some, every: np.roll(inner(some, every), 1, axis=1)
    monkeypatch.setattr(shared_features, "_inner_products", shifted)
    with pytest.raises(AssertionError):
        check()


def test_features_have_no_names():
    order = np.argsort(RNG.random(COUNTS.shape[:2] + (6,)), axis=-1)
    wide = np.concatenate([COUNTS, np.zeros_like(COUNTS)], axis=-1)
    renamed = np.take_along_axis(wide, order[:, :, None], axis=-1)
    np.testing.assert_array_equal(feature_similarity(renamed), feature_similarity(COUNTS))
    assert representative_draw(renamed).index == representative_draw(COUNTS).index
    assert representative_draw(np.tile(COUNTS[:1, :1], (1, 4, 1, 1))).index == (0, 0)


def test_draws_of_a_position():
    position = Dist({"mass": np.zeros((3, 7))}, {"features": COUNTS})
    np.testing.assert_array_equal(feature_similarity(position), feature_similarity(COUNTS))
    assert representative_draw(COUNTS[0]).index == representative_draw(COUNTS[:1]).index[1:]
    none = representative_draw(np.zeros((2, 5, 0), int))
    assert none.index == (0,) and none.distance == 0
    assert not feature_similarity(np.zeros((2, 5, 3), bool)).any()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: feature_similarity(COUNTS[0, 0]), ValueError, r"a draw and an item.*\(5, 3\)"),
        (lambda: feature_similarity(COUNTS[:, :0]), ValueError, "a draw and an item"),
        (lambda: feature_similarity(COUNTS - 1), ValueError, "no negative entries, got -1"),
        (lambda: feature_similarity(COUNTS * 0.5), TypeError, "whole numbers, got float64"),
        (lambda: feature_similarity(COUNTS, [5]), ValueError, "rows must be from 0 to 4"),
        (
            lambda: representative_draw(Dist({}, {"assignment": COUNTS[..., 0]})),
            TypeError,
            "'features', got .*'assignment'.*: similarity",
        ),
    ],
)
def test_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
