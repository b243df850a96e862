"""Traces that do not depend on names: by loops, and by the R-hat of chains with other names."""

import numpy as np
import pytest

from sgmc_jax import rhat
from sgmc_jax.bnp import Groups, label_free, traces
from sgmc_jax.collective import Dist

RNG = np.random.default_rng(1)
LABELS = RNG.integers(0, 4, (2, 30, 5))
ENTRIES = RNG.poisson(0.3, (2, 30, 5, 4))
SCALARS = {"concentration": RNG.random((2, 30)), "weights": RNG.random((2, 30, 9))}


def by_hand(labels):
    """Of each draw, from the clusters as sets of items."""
    made = {name: np.zeros(labels.shape[:-1]) for name in ("active", "largest", "entropy")}
    for at in np.ndindex(labels.shape[:-1]):
        own = list(labels[at])
        shares = [own.count(label) / len(own) for label in set(own)]
        made["active"][at], made["largest"][at] = len(shares), max(shares)
        made["entropy"][at] = -sum(share * np.log(share) for share in shares)
    return made


def check(labels=LABELS, size=None, flat=LABELS):
    made = traces(Dist(SCALARS, {"assignment": labels}), size=size)
    assert list(made) == ["active", "largest", "entropy", "concentration"]
    for name, hand in by_hand(flat).items():
        np.testing.assert_allclose(made[name], hand, atol=1e-12, err_msg=name)
    np.testing.assert_array_equal(made["concentration"], SCALARS["concentration"])


def test_labels():
    check()
    one = traces(Dist({}, {"assignment": LABELS[0]}))
    np.testing.assert_allclose(one["largest"], by_hand(LABELS)["largest"][0])


def test_labels_in_groups():
    size = [3, 0, 2]
    groups = RNG.integers(0, 9, (2, 30, 3, 3))
    groups[..., 0, :], groups[..., 2, :2] = LABELS[..., :3], LABELS[..., 3:]
    check(groups, size)
    check(groups, Groups(np.zeros((3, 3)), np.array(size)))
    with pytest.raises(AssertionError):  # planted: a size that is one too large
        check(groups, [3, 1, 2])


def test_features():
    made = traces(Dist(SCALARS, {"features": ENTRIES}))
    assert list(made) == ["active", "entries", "concentration"]
    for at in np.ndindex(2, 30):
        columns = [list(column) for column in ENTRIES[at].T]
        assert made["active"][at] == sum(any(column) for column in columns)
        assert made["entries"][at] == sum(map(sum, columns))
    binary = traces(Dist({}, {"features": ENTRIES[0] > 0}))
    np.testing.assert_array_equal(binary["active"], made["active"][0])


def chains():
    """Chains that agree on a mixture of three clusters, each with names of its own for them."""
    clusters = RNG.choice(3, p=[0.6, 0.3, 0.1], size=(4, 500, 100))
    names = np.stack([RNG.permutation(8)[:3] for _ in range(4)])
    return np.take_along_axis(names[:, None], clusters.reshape(4, 1, -1), 2).reshape(clusters.shape)


def worst(labels):
    made = traces(Dist({}, {"assignment": labels}))
    return max(float(rhat(made[name])) for name in ("largest", "entropy"))


def test_chains_with_other_names_agree():
    """R-hat - 1 is about chi-square(7) / 3500, and above .03 with probability below 1e-9."""
    labels = chains()
    slots = np.stack([np.mean(labels == k, axis=-1) for k in range(8)], axis=-1)
    assert np.nanmax(np.asarray(rhat(slots))) > 1.5
    assert worst(labels) < 1.03


def test_traces_that_know_names_are_seen(monkeypatch):
    """Planted: the share of the cluster in the first slot that any chain uses."""
    labels = chains()
    first = labels.min()
    fault = lambda own: np.array([1.0, np.mean(own == first), np.mean(own <= first)])
    monkeypatch.setattr(label_free, "_of_labels", fault)
    assert worst(labels) > 1.5


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: traces(LABELS), TypeError, r"positions must be Dist\(shared, local\)"),
        (lambda: traces(Dist({}, {"z": LABELS})), TypeError, r"labels or features.*\['z'\]"),
        (lambda: traces(Dist({}, {"assignment": LABELS * 0.5})), TypeError, "whole numbers"),
        (lambda: traces(Dist({}, {"assignment": LABELS[..., :0]})), TypeError, "of an item"),
        (
            lambda: traces(Dist({"mass": np.zeros(2)}, {"assignment": LABELS})),
            ValueError,
            "size must be given with labels in groups: those of a draw have 2 axes",
        ),
        (
            lambda: traces(
                Dist({"mass": np.zeros((2, 30))}, {"assignment": LABELS}), size=[5] * 30
            ),
            ValueError,
            "size must be left out",
        ),
        (
            lambda: traces(Dist({"mass": np.zeros(2)}, {"assignment": LABELS}), size=[5]),
            ValueError,
            "each of the 30 groups",
        ),
    ],
)
def test_it_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
