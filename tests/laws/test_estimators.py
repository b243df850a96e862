"""Batchers by their inclusion frequencies, estimators by unbiasedness and covariance."""

import inspect
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax import (
    SVRG,
    AllReduce,
    Batcher,
    Collective,
    ControlVariate,
    Epoch,
    Estimate,
    Estimator,
    Full,
    FunctionModel,
    Given,
    Keys,
    LinearModel,
    Minibatch,
    Splitting,
    Summand,
    Uniform,
    as_keys,
    sample,
    sgld,
)
from sgmc_jax.collective import Shard, as_shard
from sgmc_jax.random import normal
from sgmc_jax.random.feistel import permute, random_subset, round_words
from sgmc_jax.transitions import GeodesicFlow, GradientKick
from tests.laws.moments import check_mean, fault_is_seen

KEY = jax.random.key(5)
FALSE_ALARM = 1e-7


def subsets(num, size, draws):
    draw = jax.jit(jax.vmap(lambda key: random_subset(key, num, size)))
    return np.asarray(draw(jax.random.split(KEY, draws)))


def check_uniform(counts, degrees_lost=1):
    """Chi-square of counts that should be equal, two-sided: neither too uneven nor too even."""
    counts = np.ravel(counts).astype(float)
    statistic = np.sum((counts - counts.mean()) ** 2) / counts.mean()
    p = stats.chi2.cdf(statistic, counts.size - degrees_lost)
    assert FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2, (statistic, counts.size)


@pytest.mark.parametrize("size", [2, 3, 5, 60, 1000, 65_537])
def test_inclusion_and_pairs(size):
    num = {2: 1, 3: 2, 5: 3, 60: 7, 1000: 10, 65_537: 64}[size]
    draws = {1000: 100_000, 65_537: 20_000}.get(size, 40_000)
    picked = subsets(num, size, draws)
    assert picked.min() >= 0 and picked.max() < size
    assert all(len(set(row)) == num for row in picked[:200])
    # the first entries are independent over draws, so that their counts are multinomial
    check_uniform(np.bincount(picked[:, 0], minlength=size))
    check_uniform(np.bincount(picked[:, -1], minlength=size))
    if num > 1:
        check_pairs(picked[:, :2], size)


def check_pairs(pairs, size):
    """Ordered pairs are uniform: each one where they are few, else by residue, part and gap."""
    first, second = pairs.astype(np.int64).T
    if size <= 60:
        codes = first * (size - 1) + second - (second > first)
        check_uniform(np.bincount(codes, minlength=size * (size - 1)))
        return
    for of in (lambda x: x % 8, lambda x: x * 8 // size, lambda x: x // 8 % 8):
        table = np.histogram2d(of(first), of(second), bins=(np.arange(9), np.arange(9)))[0]
        check_two_way(table, size, of)
    check_uniform_gaps((second - first) % size, size)


def check_two_way(table, size, of):
    cells = np.bincount(of(np.arange(size)), minlength=8).astype(float)
    expected = np.outer(cells, cells) - np.diag(cells)
    expected *= table.sum() / expected.sum()
    statistic = np.sum((table - expected) ** 2 / expected)
    p = stats.chi2.cdf(statistic, 63)
    assert FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2, statistic


def check_uniform_gaps(gaps, size):
    """Gaps are uniform on 1..size-1; the small ones tell most about a weak hash."""
    assert gaps.min() > 0
    near = np.sum((gaps <= 16) | (gaps >= size - 16))
    p = stats.binom.cdf(near, len(gaps), 32 / (size - 1))
    assert FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2, near


def test_all_pairs_of_a_thousand():
    """Every one of 499,500 pairs, over a million subsets of five."""
    picked = np.concatenate([subsets(5, 1000, 500_000)])
    low, high = np.sort(picked[:, :2], axis=1).T.astype(np.int64)
    counts = np.bincount(low * 1000 + high, minlength=10**6).reshape(1000, 1000)
    check_uniform(counts[np.triu_indices(1000, 1)])


def test_the_pair_law_sees_a_cyclic_shift():
    """A random rotation includes every item equally, and yet its pairs are far from uniform."""
    shift = np.asarray(jax.random.randint(KEY, (40_000, 1), 0, 60))
    rotated = (shift + np.arange(7)) % 60
    check_uniform(np.bincount(rotated[:, 0], minlength=60))
    with pytest.raises(AssertionError):
        check_pairs(rotated[:, :2], 60)


@pytest.mark.parametrize("size", [1, 2, 60, 257, 1000, 4097, 100_000])
def test_permutations_are_bijections(size):
    values = permute(round_words(KEY), jnp.arange(size), size)
    assert np.array_equal(np.sort(values), np.arange(size))
    traced = jax.jit(lambda size: permute(round_words(KEY), jnp.arange(50) % size, size, 5000))
    many = size % 5000 + 1
    found = np.asarray(traced(jnp.array(many)))
    assert 0 <= found.min() and found.max() < many and len(set(found.tolist())) == min(50, many)


# -------------------------------------------------------------------------------- estimators

N, BATCH, DIM = 10, 3, 2
_rng = np.random.default_rng(1)
X, Y = _rng.normal(size=(N, DIM)), _rng.normal(size=N)
PRIOR = lambda w: -0.5 * w @ w
FUNCTION = FunctionModel(PRIOR, lambda w, z: -0.5 * (z[1] - z[0] @ w) ** 2)
LINEAR = LinearModel(PRIOR, lambda eta, y: -0.5 * (y - eta) ** 2)
SUM = Summand(lambda w: -w, lambda w, z: z[0] * (z[1] - z[0] @ w))
POINT, CENTRE = np.array([0.7, -0.4]), np.array([0.2, 0.1])
TERMS = X * (Y - X @ POINT)[:, None]
ANCHORED_TERMS = TERMS - X * (Y - X @ CENTRE)[:, None]
FULL = -POINT + TERMS.sum(0)


def spread(terms, replace=False):
    centred = terms - terms.mean(0)
    covariance = centred.T @ centred / (N - 1)
    factor = N**2 / BATCH * ((N - 1) / N if replace else 1 - BATCH / N)
    return factor * covariance


def estimates(grad, draws=100_000, point=POINT, start=CENTRE, data=(X, Y)):
    data = jax.tree.map(jnp.asarray, data)
    estate = grad.init(KEY, jnp.asarray(start), data)
    one = lambda key: grad.estimate(key, estate, jnp.asarray(point), data)[0]
    return jax.jit(jax.vmap(one))(jax.random.split(KEY, draws))


def check_estimator(grad, covariance):
    values = np.asarray(estimates(grad).value, np.float64)
    check_mean(values, FULL, 0.05)
    centred = values - FULL
    check_mean(centred[:, :, None] * centred[:, None, :], covariance, 0.06)


@pytest.mark.parametrize("model", [FUNCTION, LINEAR, SUM], ids=["function", "linear", "sum"])
@pytest.mark.parametrize("replace", [False, True])
def test_minibatch(model, replace):
    check_estimator(Minibatch(model, Uniform(BATCH, replace=replace)), spread(TERMS, replace))


@pytest.mark.parametrize("model", [FUNCTION, LINEAR, SUM], ids=["function", "linear", "sum"])
def test_control_variate_and_svrg(model):
    inner = Minibatch(model, Uniform(BATCH))
    check_estimator(ControlVariate(inner, CENTRE), spread(ANCHORED_TERMS))
    check_estimator(SVRG(inner, every=5), spread(ANCHORED_TERMS))
    at_centre = estimates(ControlVariate(inner, CENTRE), 10, point=CENTRE).value
    np.testing.assert_allclose(at_centre, np.tile(at_centre[0], (10, 1)), atol=1e-4)


def test_the_estimator_law_sees_a_prior_counted_twice():
    twice = FunctionModel(lambda w: 2 * PRIOR(w), FUNCTION.loglik_function)
    fault_is_seen(check_estimator, Minibatch(twice, Uniform(BATCH)), spread(TERMS))


def test_svrg_recentres_every_few_steps():
    data, grad = (jnp.asarray(X), jnp.asarray(Y)), SVRG(Minibatch(FUNCTION, Uniform(BATCH)), 3)
    for counted in (True, False):
        estate, centres = grad.init(KEY, jnp.asarray(CENTRE), data), []
        for i in range(7):
            position = jnp.full(2, float(i))
            key = Keys(KEY, jax.random.fold_in(KEY, i), jnp.array(i) if counted else None)
            _, estate = grad.estimate(key, estate, position, data)
            centres.append(float(estate.centre[0]))
            np.testing.assert_allclose(
                estate.full.value, X.T @ (Y - X @ np.asarray(estate.centre)), rtol=1e-4
            )
        assert centres[1:] == [centres[0]] * 2 + [3.0] * 3 + [6.0]


def test_log_densities_are_those_of_the_full_data():
    data = (jnp.asarray(X), jnp.asarray(Y))
    exact = FUNCTION.logprior(POINT) + FUNCTION.loglik_batch(jnp.asarray(POINT), data).sum()
    full = estimates(Minibatch(FUNCTION, Full()), 1).logdensity[0]
    np.testing.assert_allclose(full, exact, rtol=1e-5)
    for grad in [ControlVariate(Minibatch(LINEAR, Uniform(BATCH)), CENTRE)]:
        check_mean(np.asarray(estimates(grad).logdensity), exact, 0.05)


def test_a_full_pass_in_pieces(monkeypatch):
    import sgmc_jax.gradients.minibatch as minibatch

    data, grad = (jnp.asarray(X), jnp.asarray(Y)), Minibatch(FUNCTION, Full())
    whole = grad.full(jnp.asarray(POINT), data)
    monkeypatch.setattr(minibatch, "_FULL_CHUNK", 4)
    pieces = grad.full(jnp.asarray(POINT), data)
    np.testing.assert_allclose(whole.value, pieces.value, rtol=1e-5)
    np.testing.assert_allclose(whole.logdensity, pieces.logdensity, rtol=1e-5)
    padded = Shard(tuple(jnp.concatenate([x[:7], 9 + x[:3]]) for x in data), 7, 0, 7)
    pieces = grad.full(jnp.asarray(POINT), padded)
    monkeypatch.undo()
    real = grad.full(jnp.asarray(POINT), tuple(x[:7] for x in data))
    np.testing.assert_allclose(pieces.value, real.value, rtol=1e-5)


def test_an_epoch_sees_every_item_once():
    data, batcher, n = jnp.arange(N), Epoch(4), 3
    bstate, seen = batcher.init(KEY, data), []
    for i in range(2 * n):
        batch, bstate = batcher.draw(jax.random.fold_in(KEY, i), bstate, data)
        real = np.asarray(batch.weight) > 0
        np.testing.assert_allclose(batch.weight[real], N / real.sum())
        seen.append(np.asarray(batch.items)[real])
    epochs = [np.concatenate(seen[:n]), np.concatenate(seen[n:])]
    assert all(sorted(epoch) == list(range(N)) for epoch in epochs)
    assert not np.array_equal(*epochs)


def test_an_epoch_goes_on_within_a_step():
    """Two kicks of half a step, each by a half of the items: together a kick by all of them."""
    model, y = FunctionModel(lambda x: 0.0, lambda x, y: x * y), 2.0 ** jnp.arange(8)
    pieces = {"A": GeodesicFlow(), "B": GradientKick()}
    kernel = Splitting("ABABA", pieces, Minibatch(model, Epoch(4)), 0.1)
    args = {"num_steps": 5, "record": lambda state, info: state.momentum}
    trace = sample(KEY, kernel, jnp.zeros(()), y, **args).trace
    np.testing.assert_allclose(np.diff(trace), 0.1 * float(y.sum()), rtol=1e-4)


def test_given_weighs_a_streamed_batch():
    batch, _ = Given(total=10**10).draw(KEY, (), jnp.arange(5.0))  # more than 32 bits hold
    np.testing.assert_allclose(batch.weight, np.full(5, 2e9))
    batch, _ = Given(total=100).draw(KEY, (), jnp.arange(5.0))
    np.testing.assert_allclose(batch.weight, 20.0)


@pytest.mark.parametrize("sizes", [(4, 4, 2), (4, 0, 6), (0, 1, 9)])
def test_all_reduce_over_ragged_shards(sizes):
    """Shards of any size, empty ones too: unbiased, and the prior counted once."""
    rows, starts = max(sizes), np.concatenate([[0], np.cumsum(sizes)])
    index = np.minimum(starts[:-1, None] + np.arange(rows), N - 1)
    grad = AllReduce(Minibatch(FUNCTION, Uniform(2)), comm=Collective("shard", 3))

    def on_shard(x, y, size, start, key):
        data = Shard((x, y), size, start, N)
        estate = grad.init(key, jnp.asarray(POINT), data)
        return grad.estimate(key, estate, jnp.asarray(POINT), data)[0].value

    shards = jax.vmap(on_shard, (0, 0, 0, 0, None), axis_name="shard")
    args = (X[index], Y[index], jnp.array(sizes), jnp.array(starts[:-1]))
    values = jax.jit(jax.vmap(lambda key: shards(*args, key)))(jax.random.split(KEY, 50_000))
    np.testing.assert_allclose(values[:, 0], values[:, 1], rtol=1e-5)
    check_mean(np.asarray(values[:, 0]), FULL, 0.1)


def check_independent_shards():
    """Of two shards with the same rows the noise adds up as that of independent batches does."""
    terms = np.array([-3.0, 0.0, 1.0, 4.0], np.float32)
    model = Summand(lambda w: 0 * w, lambda w, y: y + 0 * w)
    grad = AllReduce(Minibatch(model, Uniform(1)), comm=Collective("shard", 2))

    def on_shard(start, key):
        data = Shard(jnp.asarray(terms), 4, start, 8)
        estate = grad.init(key, jnp.zeros(()), data)
        return grad.estimate(key, estate, jnp.zeros(()), data)[0].value

    shards = jax.vmap(on_shard, (0, None), axis_name="shard")
    draw = jax.jit(jax.vmap(lambda key: shards(jnp.array([0, 4]), key)[0]))
    values = np.asarray(draw(jax.random.split(KEY, 20_000)), float)
    check_mean((values - 2 * terms.sum()) ** 2, 2 * 16 * terms.var(), 0.1)


def test_batches_of_shards_are_independent():
    check_independent_shards()


def test_batches_that_shards_share_are_seen(monkeypatch):
    monkeypatch.setattr(Collective, "local_key", lambda self, key: key)
    fault_is_seen(check_independent_shards)


class Antithetic(Estimator):
    """The gradient at a noisy point and at its mirror image, of a normal posterior: linear."""

    scale: float = 0.5

    def estimate(self, key, estate, position, data):
        noise = self.scale * jax.random.normal(as_keys(key).noise, position.shape)
        gradient = jax.grad(FUNCTION.logdensity)
        there, back = (gradient(position + sign * noise, data) for sign in (1, -1))
        return Estimate((there + back) / 2), estate


def test_an_estimator_of_ones_own_is_an_estimate():
    """In at most 15 lines; the noise cancels, so that the chain is that of all data."""
    assert len(inspect.getsource(Antithetic).splitlines()) <= 15
    assert Antithetic().init(KEY, POINT, (X, Y)) == ()
    np.testing.assert_allclose(estimates(Antithetic(), 3).value, np.tile(FULL, (3, 1)), rtol=1e-4)
    traces = [
        sample(KEY, sgld(grad, 0.01), POINT, (X, Y), num_steps=20).trace
        for grad in (Antithetic(), Minibatch(FUNCTION, Full()))
    ]
    np.testing.assert_allclose(*traces, rtol=1e-3)


class Windows(Batcher):
    """Batches of windows of a series: item i is rows i, ..., i + width - 1."""

    width: int = eqx.field(static=True)
    inner: Batcher

    def population(self, shard):
        return self._windows(shard)

    def draw(self, key, bstate, data):
        return self.inner.draw(key, bstate, self._windows(as_shard(data)))

    def _windows(self, shard):
        rows = jnp.arange(shard.capacity - self.width + 1)[:, None] + jnp.arange(self.width)
        items = jax.tree.map(lambda x: x[rows], shard.items)
        return Shard(items, shard.size - self.width + 1, shard.start, shard.total)


def check_windows():
    """Terms of three rows each: the full pass, and estimators with and without an anchor."""
    series = np.concatenate([X, Y[:, None]], axis=1)
    items = np.stack([series[i : i + 3] for i in range(N - 2)])
    model = Summand(lambda w: -w, lambda w, z: z[0] * z[2] * jnp.sin(w + z[1]))
    here, there = jnp.array([0.3, -0.2, 0.1]), jnp.zeros(3)
    exact = (items[:, 0] * items[:, 2] * np.sin(here + items[:, 1])).sum(0)
    grad = Minibatch(model, Windows(3, Uniform(BATCH)))
    for estimator in (grad, ControlVariate(grad, there), SVRG(grad, 3)):
        values = estimates(estimator, 50_000, here, there, series).value
        check_mean(np.asarray(values), exact - here, 0.1)
    np.testing.assert_allclose(
        grad.full(here, jnp.asarray(series)).value, exact, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("chunk", [16_384, 5])
def test_an_item_may_be_a_window_of_a_series(chunk, monkeypatch):
    """Of the 8 windows of 10 rows a full pass sees all, also in pieces that do not divide them."""
    import sgmc_jax.gradients.minibatch as minibatch

    monkeypatch.setattr(minibatch, "_FULL_CHUNK", chunk)
    check_windows()


def test_a_pass_over_rows_in_place_of_windows_is_seen(monkeypatch):
    monkeypatch.setattr(Windows, "population", Batcher.population)
    fault_is_seen(check_windows)


def test_per_item_terms_add_up():
    data = (jnp.asarray(X), jnp.asarray(Y))
    for model in (FUNCTION, LINEAR, SUM):
        grad = Minibatch(model, Full())
        batch, _ = grad.draw(KEY, grad.init(KEY, POINT, data), data)
        np.testing.assert_allclose(grad.per_item(batch, jnp.asarray(POINT)), TERMS, rtol=1e-4)


def test_estimates_differ_by_their_terms_near_a_centre_and_far_from_it():
    """Those of two batches, as `EmpiricalFisher` takes it for granted of what it measures."""
    data, second = (jnp.asarray(X), jnp.asarray(Y)), CENTRE + 0.1
    switched = ControlVariate(Minibatch(FUNCTION, Uniform(BATCH)), CENTRE, radius=0.4)
    for grad, point in (
        (switched, POINT),
        (switched, second),
        (ControlVariate(switched, second), POINT),
    ):
        estate, point = grad.init(KEY, CENTRE, data), jnp.asarray(point)
        batches = [grad.draw(key, estate, data)[0] for key in jax.random.split(KEY)]
        sums = [grad.items(batch, point).value for batch in batches]
        terms = [N / BATCH * np.sum(grad.per_item(batch, point), axis=0) for batch in batches]
        np.testing.assert_allclose(sums[0] - sums[1], terms[0] - terms[1], rtol=1e-4)


def test_a_matrix_valued_linear_model():
    """Softmax regression: the linear hook, the function, and their differences agree."""
    labels = np.arange(N) % 3
    loglik = lambda eta, y: jax.nn.log_softmax(eta)[y]
    linear = LinearModel(lambda w: -0.5 * jnp.sum(w**2), loglik)
    slope = lambda eta, y: jax.nn.one_hot(y, 3) - jax.nn.softmax(eta)
    closed = LinearModel(linear.logprior_function, loglik, slope)
    function = FunctionModel(linear.logprior_function, lambda w, z: loglik(z[0] @ w, z[1]))
    here, there = jnp.asarray(_rng.normal(size=(2, DIM, 3)))
    items, weight = (jnp.asarray(X), jnp.asarray(labels)), jnp.arange(1.0, N + 1)
    for a, b in itertools.combinations([linear, closed, function], 2):
        np.testing.assert_allclose(a.per_item(here, items), b.per_item(here, items), rtol=1e-4)
        gaps = [m.difference(here, there, items, weight) for m in (a, b)]
        np.testing.assert_allclose(gaps[0].value, gaps[1].value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gaps[0].logdensity, gaps[1].logdensity, rtol=1e-4)
        sums = [m.weighted_sum(here, items, weight) for m in (a, b)]
        np.testing.assert_allclose(sums[0].value, sums[1].value, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(sums[0].logdensity, sums[1].logdensity, rtol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_a_centre_in_a_wider_dtype_than_the_position(dtype):
    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, y: -0.5 * (x - y) @ (x - y))
    for radius in (None, 0.1, 10.0):
        grad = ControlVariate(Minibatch(model, Uniform(5)), jnp.zeros(2), radius=radius)
        run = sample(KEY, sgld(grad, 1e-3), jnp.zeros(2, dtype), jnp.ones((20, 2)), num_steps=3)
        assert run.trace.dtype == dtype and np.all(run.info.finite)


def test_a_centre_is_where_differences_know_it():
    """Rounded as the position is: at c itself the sum is off by N H (c - round(c))."""
    model, y = FunctionModel(lambda x: 0.0 * x, lambda x, y: -0.5 * (y - x) ** 2), jnp.full(9, 0.3)
    grad, x = ControlVariate(Minibatch(model, Full()), jnp.float32(0.3)), jnp.bfloat16(0.3)
    for estate in (grad.init(KEY, x, y), grad.retarget(KEY, grad.init(KEY, x, y), x, y)):
        value = grad.estimate(KEY, estate, x, y)[0].value
        np.testing.assert_allclose(np.float32(value), 9 * (0.3 - np.float32(x)), rtol=1e-2)


@pytest.mark.parametrize("kind", ["function", "linear"])
def test_log_likelihoods_of_half_precision_are_summed_in_single(kind):
    """The sum is about -697, near which numbers of eight bits are four nats apart."""
    loglik = lambda eta, y: (-0.5 * (y - eta) ** 2).astype(jnp.bfloat16)
    model, y = LinearModel(lambda x: -0.5 * x @ x, loglik), jnp.full(1001, 1.18)
    data = jnp.zeros((1001, 1)), y
    if kind == "function":
        model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: loglik(z[0] @ x, z[1]))
    expected = 1001 * float(loglik(0.0, y[0]))
    for found in (
        Minibatch(model, Full()).full(jnp.zeros(1), data).logdensity,
        model.logdensity(jnp.zeros(1), data),
    ):
        assert found.dtype == jnp.float32 and float(found) == pytest.approx(expected, rel=1e-5)


class Noisy(Estimator):
    """A gradient of -x^2 / 2 with noise of its own, sd 4, drawn with the key that authors have."""

    def init(self, key, position, data):
        return ()

    def estimate(self, key, estate, position, data):
        noise = 4 * normal(as_keys(key).noise, position.shape)
        return Estimate(noise - position), estate


@pytest.mark.filterwarnings("ignore:the chains are .* too hot")
def test_the_noise_of_an_estimate_is_none_of_the_steps():
    """x' = (1 - h) x + sqrt(2 h) E + 4 h E': were E' = E the variance would be 3.8, not 1.9."""
    args = {"num_steps": 400, "num_chains": 256, "burn_in": 100}
    square = lambda state, info: state.position**2
    run = sample(KEY, sgld(Noisy(), 0.1), jnp.zeros(()), None, reduce=square, **args)
    check_mean(run.trace.mean, (0.2 + 0.16) / (1 - 0.9**2), 0.2)
