"""Frames and series of pandas are data like their arrays, or are refused by the names in them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import FunctionModel, Given, Minibatch, Uniform, bnp, find_mode, sample, sgld, whiten
from sgmc_jax._frames import without_frames
from sgmc_jax.collective import Dist
from sgmc_jax.evaluation import top_words
from sgmc_jax.models import BayesianNetwork, LogisticRegression, MatrixFactorization
from sgmc_jax.tune import default_kernel, laplace

pd = pytest.importorskip("pandas")

KEY = jax.random.key(2)
X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
Y = (X[:, 0] + 0.1 * np.arange(40) > 2).astype(int)
FRAME = pd.DataFrame(X, columns=list("abc"), index=np.arange(40)[::-1])
SERIES = pd.Series(Y, name="label", index=FRAME.index)
MODEL = FunctionModel(lambda w: -0.5 * w @ w, lambda w, z: -0.5 * (z - w) @ (z - w))
MIXTURE = bnp.DirichletProcess(1.0), bnp.NormalInverseWishart(dim=3)


def trace(data, grad=None, model=MODEL):
    grad = Minibatch(model, Uniform(5)) if grad is None else grad
    return sample(KEY, sgld(grad, 1e-3), jnp.zeros(3), data, num_steps=4).trace


def same(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_frame_of_numbers_is_its_array():
    same(trace(FRAME), trace(X))
    mixed = FRAME.assign(b=Y > 0, c=pd.array(Y, dtype="Int64"))
    same(trace(mixed), trace(np.stack([X[:, 0], Y, Y], axis=1).astype(np.float32)))
    same(without_frames("data", {"y": SERIES, "n": None}), {"y": Y, "n": None})


def test_words_of_a_series_are_those_at_their_places():
    """Not those at the labels that the rows have kept from an earlier order."""
    topics, words = np.array([[0.6, 0.3, 0.1]]), pd.Series(["sea", "ship", "sun"], index=[2, 1, 0])
    assert top_words(topics, words, 2) == [["sea", "ship"]]


def test_batches_that_are_frames():
    grad = Minibatch(MODEL, Given(40))
    batch = lambda data: lambda i: data[5 * i : 5 * i + 5 - i % 2]
    same(trace(batch(FRAME), grad), trace(batch(X), grad))
    passes = lambda data: lambda: iter([data[:20], data[20:]])
    modes = [find_mode(KEY, MODEL, jnp.zeros(3), passes(data)) for data in (FRAME, X)]
    same(*modes)


def test_a_regression_of_a_frame_and_a_series():
    model, data, arrays = LogisticRegression(), (FRAME, SERIES), (X, Y)
    same(model.start(data), model.start(arrays))
    draws = trace(data, model=model)
    same(draws, trace(arrays, model=model))
    same(model.predict(draws, FRAME), model.predict(draws, X))
    same(model.log_loss(draws, data), model.log_loss(draws, arrays))
    same(model.curvature_bounds(data), model.curvature_bounds(arrays))


@pytest.mark.parametrize(
    "find",
    [
        lambda model, data: find_mode(KEY, model, jnp.zeros(3), data),
        lambda model, data: laplace(KEY, model, jnp.zeros(3), data),
        lambda model, data: whiten(model, jnp.zeros(3), data),
        lambda model, data: default_kernel(KEY, model, jnp.zeros(3), data),
    ],
    ids=["find_mode", "laplace", "whiten", "default_kernel"],
)
def test_what_tunes(find):
    model = LogisticRegression()
    ours, theirs = find(model, (FRAME, SERIES)), find(model, (X, Y))
    same(*(eqx.filter(tree, eqx.is_array) for tree in (ours, theirs)))


def test_networks_and_ratings():
    network = eqx.nn.MLP(3, 2, 4, 1, key=KEY)
    model = BayesianNetwork(network)
    kernel = sgld(Minibatch(model, Uniform(5)), 1e-3)
    draws = sample(KEY, kernel, model.start(network), (FRAME, SERIES), num_steps=2).trace
    same(model.predict(draws, FRAME), model.predict(draws, X))
    same(model.log_loss(draws, (FRAME, SERIES)), model.log_loss(draws, (X, Y)))
    ratings = MatrixFactorization(2, 2, 2)
    start, pairs = ratings.start(KEY), (SERIES, SERIES)
    same(ratings.rmse(start, (pairs, FRAME["a"])), ratings.rmse(start, ((Y, Y), X[:, 0])))


def test_mixtures():
    process, found = MIXTURE[0], []
    for data in (FRAME, X):
        family = bnp.NormalInverseWishart.from_data(data)
        _, start, choices = bnp.default_sampler(KEY, process, family, data)
        assert choices.startswith("1 block,")
        shared = {name: jnp.full(1, value) for name, value in process.start().items()}
        draws = Dist(shared, {"assignment": start.local["assignment"][None]})
        law = bnp.predictive(process, family, draws, data, data[:5])
        found.append((law.log_density, bnp.kmeans_plus_plus(KEY, data, 2)))
    same(*found)


@pytest.mark.full
def test_a_run_of_a_mixture():
    kernel = bnp.hybrid_mixture(*MIXTURE, blocks=2)
    same(*(sample(KEY, kernel, None, data, num_steps=3).trace for data in (FRAME, X)))


@pytest.mark.full
def test_features():
    parts = bnp.BetaBernoulli(1.0), bnp.LinearGaussian(3, 0.5, 1.0)
    args = {"num_items": 6, "num_chains": 2, "num_steps": 3, "capacity": 4}
    same(*(bnp.seed_features(KEY, *parts, data, **args) for data in (FRAME, X)))


def test_draws_with_the_data_of_a_frame():
    pytest.importorskip("arviz_base")
    run = sample(KEY, sgld(Minibatch(MODEL, Uniform(5)), 1e-3), jnp.zeros(3), FRAME, num_steps=4)
    logliks = [run.to_arviz(MODEL, data)["log_likelihood"]["items"] for data in (FRAME, X)]
    same(*map(np.asarray, logliks))


class Columns:
    """A frame of another library: columns by name, and no `items`."""

    def __init__(self, **columns):
        self.held, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return pd.Series(self.held[name])

    def __array__(self, dtype=None, copy=None):
        return np.array(list(self.held.values()), object).T

    to_numpy = __array__


def test_frames_of_other_libraries():
    frame = Columns(a=X[:, 0], b=Y)
    np.testing.assert_array_equal(
        without_frames("data", frame), np.stack([X[:, 0], Y.astype(float)], axis=1)
    )


TEXT = FRAME.assign(b="x", c=pd.Timestamp("2020"))
BAD = {
    "columns": (
        lambda: trace(TEXT),
        "data must be a frame of numbers, got other columns, 'b', 'c'",
    ),
    "in a pair": (lambda: trace((FRAME, TEXT)), r"data\[1\] must be a frame of numbers.*'b', 'c'"),
    "many": (
        lambda: trace(pd.DataFrame({i: ["x"] for i in range(9)})),
        r"got other columns, 0, 1, 2, 3, \.\.\.: drop them",
    ),
    "twice": (
        lambda: trace(pd.concat([FRAME, TEXT], axis=1)),
        "data must be a frame of numbers, got other columns, 'b', 'c'",
    ),
    "categories": (
        lambda: trace(FRAME.assign(b=pd.Categorical(["u", "v"] * 20))),
        "got other columns, 'b'",
    ),
    "missing": (
        lambda: trace(FRAME.assign(b=pd.array([None, *Y[1:]], dtype="Int64"))),
        "data must be finite, got NaN",
    ),
    "labels": (
        lambda: trace((FRAME, SERIES.map({0: "no", 1: "yes"})), model=LogisticRegression()),
        r"data\[1\] must be of numbers, got the series 'label' of .*: encode it as numbers",
    ),
    "a column of labels": (
        lambda: trace((FRAME, SERIES.to_frame()), model=LogisticRegression()),
        r"y must have one label an item, of shape \(40,\), got shape \(40, 1\)",
    ),
    "batches": (
        lambda: trace(lambda i: TEXT[:5], Minibatch(MODEL, Given(40))),
        "data must be a frame of numbers",
    ),
    "mixture": (
        lambda: bnp.default_sampler(KEY, *MIXTURE, TEXT),
        "data must be a frame of numbers",
    ),
    "mode": (lambda: find_mode(KEY, MODEL, jnp.zeros(3), TEXT), "data must be a frame of numbers"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_what_is_no_number_is_refused_by_its_name(name):
    make, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        make()
