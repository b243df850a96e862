"""Tables of clusters and features: by loops over items, with names that stay."""

import numpy as np
import pytest

from sgmc_jax.bnp import cluster_table, feature_table, similarity

RNG = np.random.default_rng(0)
LABELS = np.array([7, 2, 2, 7, 2, 5])
X = RNG.normal(size=(6, 2))
DRAWS = RNG.integers(0, 3, (2, 9, 6))


def test_clusters():
    table = cluster_table(LABELS, X, draws=DRAWS, columns=["a", "b"])
    assert table.names == ("2", "7", "5")
    shared = similarity(DRAWS)
    for i, name in enumerate(table.names):
        members = np.flatnonzero(int(name) == LABELS)
        row = {column: x[i] for column, x in table.columns.items()}
        assert row["size"] == len(members) and row["share"] == len(members) / 6
        np.testing.assert_allclose([row["a mean"], row["b mean"]], X[members].mean(0))
        np.testing.assert_allclose([row["a sd"], row["b sd"]], X[members].std(0), atol=1e-12)
        others = [shared[j, k] for j in members for k in members if j != k]
        np.testing.assert_allclose(row["together"], np.mean(others) if others else 1, rtol=1e-6)
    assert table.to_dict()["7"]["size"] == 2


def test_a_frame_of_columns_of_several_kinds():
    """As samplers take it: its array is of objects."""
    frame = pytest.importorskip("pandas").DataFrame({"a": [1.0, 2.0], "b": [True, False]})
    table = cluster_table([0, 0], frame)
    assert (table.columns["a mean"], table.columns["b mean"]) == (1.5, 0.5)


def test_a_frame_keeps_its_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["width", "height"])
    table = cluster_table(LABELS, frame)
    assert {"width mean", "height sd"} <= set(table.columns)
    again = pandas.DataFrame.from_dict(table.to_dict(), orient="index")
    assert again.loc["2", "size"] == 3


def test_features():
    features, parameters = np.array([[2, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 3]]), np.eye(4)
    table = feature_table(features, parameters)
    assert table.names == ("0", "3")
    np.testing.assert_allclose(table.columns["size"], [2, 2])
    np.testing.assert_allclose(table.columns["mean count"], [1.5, 2])
    np.testing.assert_allclose(table.columns["x[3]"], [0, 1])
    none = feature_table(np.zeros((3, 4), int), parameters)
    assert none.names == () and len(str(none).splitlines()) == 1


def test_one_column_and_many_rows():
    table = cluster_table(np.arange(100), np.arange(100.0))
    assert str(table).endswith("... and 40 more") and "x[0] mean" in table.columns


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: cluster_table(LABELS[:3], X), "label for each of 6 items"),
        (lambda: cluster_table(LABELS + 0.5, X), "whole numbers"),
        (lambda: cluster_table(LABELS, X, columns=["a"]), "2 names"),
        (lambda: cluster_table(LABELS, X, columns=["a", "a"]), "names of their own"),
        (lambda: cluster_table(LABELS, X, draws=DRAWS[..., :5]), "draws must have a label"),
        (lambda: cluster_table(LABELS, np.ones((6, 2, 2))), "shape"),
        (lambda: cluster_table(LABELS, np.array(["a"] * 6)), "numbers"),
        (lambda: feature_table(np.full((3, 4), 0.5), np.eye(4)), "whole numbers"),
        (lambda: feature_table(np.ones((3, 2)), np.eye(4)), "column for each of 4"),
        (lambda: feature_table(-np.ones((3, 4)), np.eye(4)), "no negative entries, got -1"),
        (
            lambda: feature_table([[1, 0], [1, 1]], np.eye(2), columns=["size", "tip"]),
            r"must not be called \['size'\]",
        ),
    ],
)
def test_it_refuses(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_clusters_of_one_size_stay_in_their_order():
    table = cluster_table([5, 3, 3, 5, 9, 9, 1], np.zeros((7, 1)))
    assert table.names == ("3", "5", "9", "1")


def test_shares_of_features_are_of_all_items():
    table = feature_table(np.array([[1, 0], [1, 1], [0, 1], [1, 0]]), np.eye(2))
    np.testing.assert_allclose(table.columns["share"], [0.75, 0.5])
