"""Streams as data: passes of batches of which the last is shorter, for modes, sums and chains."""

import time
import warnings
from itertools import islice, permutations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    AllReduce,
    ControlVariate,
    Full,
    FunctionModel,
    Given,
    Kernel,
    LinearModel,
    Minibatch,
    Sphere,
    Splitting,
    Summand,
    Vmap,
    cycle,
    draw,
    find_mode,
    full_pass,
    gibbs,
    metropolis,
    repeat,
    sample,
    scir,
    sggmc,
    sgld,
    thin,
)
from sgmc_jax.collective import Shard
from sgmc_jax.models import (
    LDA,
    LogisticRegression,
    MatrixFactorization,
    SoftmaxRegression,
    SphericalAdmixture,
)
from sgmc_jax.models._labels import log_probability
from sgmc_jax.models.spherical import UnitVectors
from sgmc_jax.runner.passes import passes_of
from sgmc_jax.runner.stream import Stream, open_data, padded
from sgmc_jax.transitions import GeodesicFlow, GradientKick
from tests.laws.moments import check_law, fault_is_seen, run_law

KEY = jax.random.key(0)
N, BATCH, DIM = 250, 64, 4  # a last batch of 58
X = np.random.default_rng(0).normal(size=(N, DIM)).astype(np.float32)
Y = (X @ np.arange(DIM) + np.random.default_rng(1).normal(size=N)).astype(np.float32)
RIDGE = LinearModel(lambda w: -0.5 * w @ w, lambda eta, y: -0.5 * (y - eta) ** 2)
LOGISTIC = LinearModel(lambda w: -0.5 * w @ w, lambda eta, y: y * eta - jnp.logaddexp(0.0, eta))
SOLVED = np.linalg.solve(X.T.astype(float) @ X + np.eye(DIM), X.T.astype(float) @ Y)


class Moved(NamedTuple):
    position: jax.Array


def passes(*data, size=BATCH):
    return lambda: (tuple(x[i : i + size] for x in data) for i in range(0, len(data[0]), size))


class Loader:
    """As PyTorch's: it may be iterated over again, its batches are lists of tensors."""

    def __iter__(self):
        return (list(map(Tensor, batch)) for batch in passes(X, Y)())


class Tensor:
    """What numpy may read."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, "tensor.float32"

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


# ----------------------------------------------------------------------------- passes and modes


@pytest.mark.parametrize("data", [passes(X, Y), Loader()])
def test_the_mode_of_a_regression_is_the_closed_form(data):
    mode = find_mode(KEY, RIDGE, jnp.zeros(DIM), data, tolerance=1e-6)
    np.testing.assert_allclose(mode, SOLVED, atol=3e-6)


def test_the_sum_of_a_pass_is_that_of_all_items(monkeypatch):
    grad, centre = Minibatch(RIDGE, Given(N)), jnp.arange(DIM) + 0.5
    expected = X.T.astype(float) @ (Y - X.astype(float) @ np.asarray(centre, float))
    check = lambda got: np.testing.assert_allclose(got.value, expected, rtol=1e-5)
    check(full_pass(grad, centre, passes(X, Y)))
    check(full_pass(grad, centre, passes(X, Y)()))
    check(full_pass(grad, centre, (X, Y)))
    monkeypatch.setattr(Shard, "mask", property(lambda self: jnp.arange(self.capacity) >= 0))
    with pytest.raises(AssertionError, match="Not equal"):
        check(full_pass(grad, centre, passes(X, Y, size=60)))  # compiled with the padding counted


def ragged_estimates(y, order, sizes):
    """The plain estimate at 0.3 of each batch, padded to the longest one, of every order."""
    grad, rows = Minibatch(LOCATION, Given(len(y))), max(sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    batches = np.stack(
        [
            [padded(y[index[s : s + n]], rows) for s, n in zip(starts, sizes, strict=True)]
            for index in order
        ]
    )

    def estimate(items, size):
        return grad.estimate(KEY, (), jnp.array(0.3), Shard(items, size, 0, size))[0].value

    return jax.vmap(jax.vmap(estimate), (0, None))(batches, jnp.array(sizes))


LOCATION = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)


def test_a_short_batch_is_unbiased_over_all_orders(monkeypatch):
    y = np.array([1.0, -2.0, 0.5, 4.0, 1.5], np.float32)
    order = np.array(list(permutations(range(5))))
    exact = np.sum(y - 0.3) - 0.3
    check = lambda: np.testing.assert_allclose(
        ragged_estimates(y, order, (2, 2, 1)).mean(0), exact, rtol=1e-5
    )
    check()
    plant_the_nominal_size(monkeypatch)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 3"):
        check()


def plant_the_nominal_size(monkeypatch):
    """N / B with the B of whole batches, for the items of a shorter one too."""
    honest = Given.draw

    def draw(self, key, bstate, data):
        if isinstance(data, Shard):
            data = data._replace(total=data.capacity)
        return honest(self, key, bstate, data)

    monkeypatch.setattr(Given, "draw", draw)


@pytest.mark.full
def test_the_mode_of_a_logistic_regression_is_that_of_the_array():
    y = (Y > 0).astype(np.float32)
    modes = [
        find_mode(KEY, LOGISTIC, jnp.zeros(DIM), data, tolerance=1e-6)
        for data in ((X, y), passes(X, y))
    ]
    np.testing.assert_allclose(*modes, atol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize("data", [passes(X, Y), lambda i: (X, Y), lambda: iter([(X, Y)])])
def test_a_mode_by_a_batch_a_step(data):
    mode = find_mode(KEY, RIDGE, jnp.zeros(DIM), data, batcher=Given(N))
    np.testing.assert_allclose(mode, SOLVED, atol=0.05)


@pytest.mark.full
def test_a_mode_of_a_stream_that_ends():
    with pytest.warns(UserWarning, match="the data ended after 4 steps of 9"):
        find_mode(KEY, RIDGE, jnp.zeros(DIM), passes(X, Y)(), batcher=Given(N), num_steps=9)


# ---------------------------------------------------------------------------------------- chains


def test_shorter_batches_compile_one_more_program():
    traces = []

    def loglik(x, y):
        traces.append(1)
        return -0.5 * (y - x) ** 2

    kernel = sgld(Minibatch(FunctionModel(lambda x: -0.5 * x**2, loglik), Given(40)), 1e-3)
    y = np.arange(40, dtype=np.float32)
    run = lambda sizes, chunk: sample(
        KEY, kernel, jnp.zeros(()), lambda i: y[: sizes[i % len(sizes)]], num_steps=24, chunk=chunk
    )
    first = run([8], 4).trace
    whole = len(traces)
    ragged = run([8, 8, 8, 8, 8, 3, 5, 1, 2, 7], 4).trace
    assert len(traces) <= 2 * whole
    np.testing.assert_array_equal(first[:5], ragged[:5])
    np.testing.assert_array_equal(run([8, 8, 8, 8, 8, 3, 5, 1, 2, 7], 24).trace, ragged)
    assert len(traces) <= 2 * whole


LAW_N, LAW_STEP, LAW_Y = 10, 0.08, np.linspace(-2, 4, 10).astype(np.float32)


COMPOSED = {
    "alone": lambda kernel: kernel,
    "thin": lambda kernel: thin(kernel, 2),
    "repeat": lambda kernel: repeat(kernel, 3),
    "cycle": lambda kernel: cycle(kernel, kernel),
}


def check_the_law_of_a_stream(composed):
    """Items of one curvature: with control variates the gradient is exact, if the weights are."""
    rng = np.random.default_rng(3)

    def shuffled():
        order = rng.permutation(LAW_N)
        return (LAW_Y[order[i : i + 4]] for i in range(0, LAW_N, 4))  # 4, 4 and 2 of them

    grad, centre = Minibatch(LOCATION, Given(LAW_N)), jnp.array(2.0)  # two deviations off the mode
    kernel = sgld(ControlVariate(grad, centre, anchor=full_pass(grad, centre, shuffled)), LAW_STEP)
    curvature, mode = LAW_N + 1.0, LAW_Y.sum() / (LAW_N + 1)
    run = run_law(
        KEY,
        COMPOSED[composed](kernel),
        jnp.array(mode),
        shuffled,
        num_steps=3_200,
        num_chains=1024,
        burn_in=80,
        reduce=lambda state, info: jnp.stack([state.position, (state.position - mode) ** 2]),
    )
    mean, square = np.asarray(run.trace.mean).T
    check_law(mean, mode, 0.005)
    check_law(square, 2 / (curvature * (2 - LAW_STEP * curvature)), 0.01)


@pytest.mark.full
@pytest.mark.runs_long
@pytest.mark.parametrize("composed", COMPOSED)
def test_the_law_of_control_variates_of_a_stream(composed):
    check_the_law_of_a_stream(composed)


@pytest.mark.full
@pytest.mark.at_length
@pytest.mark.runs_long
@pytest.mark.parametrize("composed", COMPOSED)
def test_the_law_sees_the_nominal_size(composed, monkeypatch):
    plant_the_nominal_size(monkeypatch)
    fault_is_seen(check_the_law_of_a_stream, composed)


@pytest.mark.full
def test_shards_of_short_batches_and_another_start(tmp_path):
    """On two shards, and resumed in the middle of a pass, the chain is the same."""
    grad = Minibatch(RIDGE, Given(N))
    anchor = full_pass(grad, jnp.asarray(SOLVED, jnp.float32), passes(X, Y))
    kernel = sgld(ControlVariate(AllReduce(grad), anchor=anchor, centre=SOLVED), 1e-4)
    go = lambda num_steps=11, **args: (
        sample(KEY, kernel, jnp.zeros(DIM), passes(X, Y), num_steps=num_steps, **args).trace
    )
    alone = go()
    np.testing.assert_allclose(go(engine=Vmap(2)), alone, rtol=1e-5)
    go(6, checkpoint=tmp_path)
    np.testing.assert_array_equal(go(checkpoint=tmp_path), alone)


def test_no_batch_beyond_the_last_step_is_read():
    batches = [X[i : i + 5] for i in range(6)]
    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
    kernel = sgld(Minibatch(model, Given(6)), 1e-3)
    assert sample(KEY, kernel, np.zeros(DIM, np.float32), batches.__getitem__, num_steps=6, chunk=4)


@pytest.mark.parametrize("sizes", [[3], [3, 2]])
def test_what_is_read_ahead_is_used_whatever_is_asked_for_next(sizes):
    reads = np.zeros(60, int)

    def batches(i):
        reads[i] += 1
        return np.full((sizes[i % len(sizes)], 2), i, np.float32)

    stream, begin = Stream(batches, 0, 60), 0
    reads[0] = 0  # the first has been looked at
    for asked in (4, 8, 8, 3, 1, 8, 2, 8, 8, 60):
        made, taken = stream.take(begin, asked, 8)
        items, size = (taken.items, taken.size) if isinstance(taken, Shard) else (taken, [3] * 8)
        assert 0 < made <= asked and items.shape == (8, 3, 2)
        assert np.array_equal(items[:made, 0, 0], np.arange(begin, begin + made))
        assert list(size[:made]) == [sizes[i % len(sizes)] for i in range(begin, begin + made)]
        begin += made
    assert (reads[:begin] == 1).all() and begin > 40


def test_what_is_read_ahead_is_in_the_callers_precision(x64):
    """What JAX's context managers set is of a thread, and another one reads."""
    kernel = Kernel.from_functions(
        lambda key, position, data: Moved(position),
        lambda key, state, data: (state, jnp.asarray(data["x"][0])),
    )
    batches = lambda i: {"x": np.array([1 / 3]), "n": np.array([2**40])}
    seen = sample(KEY, kernel, jnp.zeros(()), batches, num_steps=200, chunk=50).info.kernel
    assert seen.dtype == np.float64 and (seen == 1 / 3).all()


def test_batches_of_other_names_are_refused():
    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * jnp.sum((z["a"] - x) ** 2))
    kernel = sgld(Minibatch(model, Given(6)), 1e-3)
    batches = lambda i: {"a" if i < 5 else "b": X[:5]}
    with pytest.raises(ValueError, match=r"got ...'b'. .4,. float32.. for batch 5"):
        sample(KEY, kernel, np.zeros(DIM, np.float32), batches, num_steps=10)


def test_a_metropolis_test_is_not_given_batches():
    """Its two energies would be of two of them."""
    grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * z @ z), Given(6))
    word = Splitting("BAB", {"A": GeodesicFlow(), "B": GradientKick()}, grad, 0.3)
    energy = lambda s: -s.gradient.logdensity + 0.5 * s.momentum @ s.momentum
    redraw = lambda key, s: s._replace(momentum=jax.random.normal(key, (DIM,)))
    kernel = metropolis(word, energy, redraw)
    with pytest.raises(TypeError, match="data is streamed"):
        sample(KEY, kernel, np.zeros(DIM, np.float32), lambda i: X[:5], num_steps=10)


def test_a_slow_stream_is_read_once():
    """Its chunks become short: what is read ahead is not in vain."""
    reads = np.zeros(250, int)

    def batches(i):
        reads[i] += 1
        time.sleep(0.01)
        return X[:5]

    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
    kernel = sgld(Minibatch(model, Given(6)), 1e-3)
    sample(KEY, kernel, np.zeros(DIM, np.float32), batches, num_steps=250)
    assert reads[0] == 2 and (reads[1:] == 1).all()  # the first is looked at before


def test_a_mapped_array_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = open_data(mapped, 0, 1)
    assert np.shares_memory(source.first, mapped)
    source.on_device()
    data = source.first
    assert data.unsafe_buffer_pointer() == mapped.ctypes.data
    np.testing.assert_array_equal(data, X)


# ----------------------------------------------------------------------------- what is no stream


def test_what_has_passes():
    assert all(map(passes_of, [passes(X), Loader(), lambda: iter([X]), lambda size=3: iter([X])]))
    for other in (
        X,
        [X, Y],
        {"x": X},
        iter([X]),
        lambda i: X,
        [X].__getitem__,
        "x",
        None,
        range(3),
    ):
        assert passes_of(other) is None


GRAD = Minibatch(RIDGE, Given(N))
ANCHORED = ControlVariate(GRAD, SOLVED, anchor=GRAD.prior(jnp.asarray(SOLVED, jnp.float32)))
START = np.zeros(DIM, np.float32)


def anchored(anchor):
    return sample(
        KEY, sgld(ControlVariate(GRAD, SOLVED, anchor=anchor), 0.1), START, (X, Y), num_steps=1
    )


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: full_pass(GRAD, START, lambda i: (X, Y)),
            TypeError,
            "data must be batches of one",
        ),
        (lambda: full_pass(GRAD, START, lambda: 3), TypeError, "data must give an iterator.*int"),
        (lambda: full_pass(GRAD, START, lambda i=0: (X, Y)), TypeError, "data must give.*tuple"),
        (lambda: full_pass(GRAD, START, lambda: iter(())), ValueError, "a pass without any"),
        (lambda: full_pass(GRAD, START, passes(X[1:], Y[1:])), ValueError, "total.*250 for 249"),
        (lambda: full_pass(RIDGE, START, (X, Y)), TypeError, "grad must be an estimator"),
        (lambda: full_pass(GRAD, START + np.inf, (X, Y)), FloatingPointError, "not finite"),
        (lambda: anchored(3.0), TypeError, "anchor must be an Estimate.*float"),
        (
            lambda: anchored(GRAD.prior(jnp.zeros(3))),
            TypeError,
            "anchor must have the structure.*sum over the items",
        ),
        (
            lambda: find_mode(KEY, RIDGE, START, passes(X, Y), batcher=Full()),
            TypeError,
            "data must be arrays, or give an iterator for each pass",
        ),
        (
            lambda: sample(
                KEY,
                gibbs(x=lambda rest: sgld(ANCHORED, 0.1)),
                {"x": START},
                passes(X, Y),
                num_steps=1,
            ),
            TypeError,
            "given anchor cannot be a block of gibbs",
        ),
        (
            lambda: sample(
                KEY, sgld(GRAD, 1e-3), START, (lambda it: lambda: it)(passes(X, Y)()), num_steps=9
            ),
            ValueError,
            "data must have batches in every pass",
        ),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_iterator_is_read_no_further_than_it_is_used():
    batches = iter([(X[:5], Y[:5])] * 9)
    sample(KEY, sgld(GRAD, 1e-3), START, batches, num_steps=6, chunk=2)
    assert len(list(islice(batches, 9))) == 3


def test_the_sum_of_a_pass_is_no_whole_number_for_a_prior_that_is():
    data, centre = jnp.arange(10.0), jnp.array(4.45)
    grad = Minibatch(Summand(0, lambda x, y: y - x), Given(10))
    np.testing.assert_allclose(full_pass(grad, centre, data).value, 0.5, rtol=1e-4)


def test_an_anchor_beside_a_number_for_a_prior():
    """Which stands for itself everywhere."""
    data, centre = jnp.ones((10, 3)), jnp.zeros(())
    grad = Minibatch(Summand(0.0, lambda x, y: y), Given(10))
    anchored = ControlVariate(grad, centre, anchor=full_pass(grad, centre, data))
    anchored.check(centre, data)
    vector = Minibatch(Summand(jnp.zeros(2), lambda x, y: y[:2]), Given(10))
    with pytest.raises(TypeError, match="anchor must have the structure"):
        ControlVariate(vector, centre, anchor=anchored.anchor).check(centre, data)


@pytest.mark.parametrize("shift", [2, -2])
def test_a_stray_label_of_a_later_batch_stops_the_chain(shift):
    def batch(i):
        return X[:8, :2], np.arange(8) % 3 + shift * (i == 2)

    kernel = sgld(Minibatch(SoftmaxRegression(3), Given(80)), 1e-3)
    with pytest.warns(UserWarning, match="at step 2: .* or its batch unfit"):
        run = sample(KEY, kernel, jnp.zeros((2, 3)), batch, num_steps=4)
    assert run.stopped == 2
    outputs = jnp.array([0.1, 0.5, -0.2])
    for y in (3, -1):
        assert np.isnan(jax.grad(log_probability)(outputs, y)).all()
    np.testing.assert_allclose(log_probability(outputs, True), jax.nn.log_softmax(outputs)[1])


@pytest.mark.parametrize("users, items", [(4, 0), (0, 5), (4, 5), (-1, 0)])
def test_a_stray_index_of_a_later_batch_stops_the_chain(users, items):
    model = MatrixFactorization(4, 5, rank=2)

    def batch(i):
        stray = np.arange(8) == 3 if i == 2 else np.zeros(8, bool)
        pairs = np.where(stray, users, np.arange(8) % 4), np.where(stray, items, np.arange(8) % 5)
        return pairs, np.ones(8, np.float32)

    kernel = sgld(Minibatch(model, Given(80)), 1e-3)
    with pytest.warns(UserWarning, match="at step 2"):
        run = sample(KEY, kernel, model.start(KEY), batch, num_steps=4)
    assert run.stopped == 2


@pytest.mark.parametrize("stray", [2, -1])
def test_a_stray_answer_of_a_later_batch_stops_the_chain(stray):
    kernel = sgld(Minibatch(LogisticRegression(), Given(80)), 1e-3)
    batch = lambda i: (X[:8], np.where(i == 2, stray, np.arange(8) % 2))
    with pytest.warns(UserWarning, match="at step 2"):
        run = sample(KEY, kernel, jnp.zeros(4), batch, num_steps=4)
    assert run.stopped == 2


def test_a_stray_word_of_a_later_batch_stops_the_chain():
    """It would be one of the next topic, or of none."""
    words = np.array([[0, 1, 1, 4], [2, 3, 0, -1]])
    lda = LDA(2, 5, alpha=0.5, beta=0.5)
    kernel = scir(lda.counts(Given(80), method="fresh", burn_in=2), 0.1)
    batch = lambda i: np.where((i == 2) & (words == 4), 5, words)
    with pytest.warns(UserWarning, match="at step 2"):
        run = sample(KEY, kernel, jnp.zeros((2, 5)), batch, num_steps=4)
    assert run.stopped == 2


@pytest.mark.parametrize("vocabulary", [5, 100])  # in full, and by the words
def test_a_stray_word_on_the_sphere_stops_the_chain(vocabulary):
    sam = SphericalAdmixture(2, vocabulary, 1.0, 30.0, 4.0, 2.0)
    topics = np.eye(vocabulary, dtype=np.float32)[:2]
    columns, values = np.array([[0, 1], [2, 4]]), np.full((2, 2), np.sqrt(0.5), np.float32)
    batch = lambda i: UnitVectors(np.where((i == 2) & (columns == 4), vocabulary, columns), values)
    kernel = sggmc(sam.topics(Given(80), fresh=True), Sphere(), 1e-3)
    with pytest.warns(UserWarning, match="at step 2"):
        run = sample(KEY, kernel, topics, batch, num_steps=4)
    assert run.stopped == 2


def test_a_draw_of_all_data_is_not_given_batches():
    """A conditional that sums over the data would sum over a batch, as if there were no others."""
    mean = sgld(Minibatch(FunctionModel(lambda x: -0.5 * x**2), Given(80)), 1e-3)

    def run(**said):
        noise = draw(lambda key, data: jnp.sum(data**2), **said)
        kernel = gibbs(mean=lambda rest: mean, noise=lambda rest: noise)
        start = {"mean": jnp.zeros(()), "noise": jnp.ones(())}
        return sample(KEY, kernel, start, lambda i: Y[:8], num_steps=2)

    with pytest.raises(TypeError, match=r"Gibbs would take each .*draw\(\.\.\., streams="):
        run()
    np.testing.assert_allclose(run(streams=True).trace["noise"], np.sum(Y[:8] ** 2), rtol=1e-5)
    with pytest.raises(TypeError, match="streams must be True or False, got 1"):
        draw(lambda key, data: 0.0, streams=1)


def test_an_iterator_is_taken_for_no_tree():
    """JAX will make an error of it."""
    kernel = sgld(
        Minibatch(FunctionModel(lambda w: -0.5 * w @ w, lambda w, x: w @ x), Given(80)), 0.1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        sample(KEY, kernel, jnp.zeros(DIM), (X[i : i + 8] for i in range(9)), num_steps=4)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda k: cycle(k, k),
        pytest.param(lambda k: k, marks=pytest.mark.full),
        pytest.param(lambda k: thin(k, 2), marks=pytest.mark.full),
    ],
)
def test_one_batch_for_all_steps_is_warned_of(wrap):
    """Its rows would be taken for all of the items in every step."""
    kernel = wrap(sgld(AllReduce(Minibatch(RIDGE, Given(N))), 1e-4))
    args = {"num_steps": 4, "share_batch": True}
    with pytest.warns(UserWarning, match=f"64 items that stand for {N} .*the same ones in every"):
        sample(KEY, kernel, jnp.zeros(DIM), (X[:BATCH], Y[:BATCH]), **args)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*stand for")
        sample(KEY, kernel, jnp.zeros(DIM), (X, Y), **args)  # all of them
        sample(KEY, kernel, jnp.zeros(DIM), lambda i: (X[:BATCH], Y[:BATCH]), **args)
