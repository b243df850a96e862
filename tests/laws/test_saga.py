"""SAGA: replayed by hand, its law over all batches, and the exact stationary law of its chain."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    SAGA,
    SVRG,
    Epoch,
    FunctionModel,
    Given,
    Keys,
    LinearModel,
    Minibatch,
    Stratified,
    Uniform,
    sgld,
)
from sgmc_jax.collective import Shard
from sgmc_jax.runner import guard
from tests.laws.moments import check_law, fault_is_seen, run_law

KEY = jax.random.key(21)
N, STEPS = 5, 12
_rng = np.random.default_rng(2)
X, Y = _rng.normal(size=(N, 2)), _rng.normal(size=N)
DATA = (jnp.asarray(X), jnp.asarray(Y))
PRIOR = lambda w: -0.5 * w @ w
LINEAR = LinearModel(PRIOR, lambda eta, y: -0.5 * (y - eta) ** 2)
FUNCTION = FunctionModel(PRIOR, lambda w, z: -0.5 * (z[1] - z[0] @ w) ** 2)
PATH = jnp.asarray(_rng.normal(size=(STEPS + 1, 2)))
terms = lambda w: X * (Y - X @ np.asarray(w))[:, None]


def follow(grad, state=None, path=PATH, begin=0):
    """The estimates along a path, the weights of items in each batch, and the states."""

    def step(state, i):
        keys = Keys(KEY, jax.random.fold_in(KEY, i), begin + i)
        estimate, state = grad.estimate(keys, state, path[i + 1], DATA)
        return state, (estimate.value, state.kept.index, state.total)

    state = jax.jit(lambda key: grad.init(key, path[0], DATA))(KEY) if state is None else state
    steps = jnp.arange(len(path) - 1)
    return state, *jax.jit(lambda state: jax.lax.scan(step, state, steps))(state)


def table(state):
    """The table of a state with the rows that are still to be written."""
    kept = state.kept
    write = lambda table, rows: table.at[kept.index].set(rows, mode="drop")
    return jax.tree.map(write, kept.table.value, kept.rows)


def check_replay(grad):
    """Each estimate and each sum, by hand from the batches."""
    _, state, (values, index, totals) = follow(grad)
    kept = terms(PATH[0])
    for i, w in enumerate(np.asarray(PATH[1:])):
        batch = np.asarray(index[i])
        batch, new = batch[batch < N], terms(w)
        change = (new - kept)[batch]
        expected = kept.sum(0) + N / len(batch) * change.sum(0) - w
        np.testing.assert_allclose(values[i], expected, rtol=1e-4, atol=1e-4, err_msg="estimate")
        kept[batch] = new[batch]
        np.testing.assert_allclose(totals[i], kept.sum(0), rtol=1e-4, atol=1e-4, err_msg="sum")
    rows = np.asarray(table(state))
    rows = rows[:, None] * X if rows.ndim == 1 else rows
    np.testing.assert_allclose(rows, kept, rtol=1e-4, atol=1e-5)
    return values


def test_a_replay_by_hand():
    """Batches of two; the sum is never made anew."""
    check_replay(SAGA(Minibatch(LINEAR, Uniform(2)), refresh_every=1_000))


@pytest.mark.full
def test_a_table_of_slopes_is_one_of_terms():
    slopes = check_replay(SAGA(Minibatch(LINEAR, Uniform(2)), refresh_every=1_000))
    general = check_replay(SAGA(Minibatch(FUNCTION, Uniform(2)), refresh_every=1_000))
    np.testing.assert_allclose(slopes, general, rtol=1e-4, atol=1e-5)


class Early(SAGA):
    """Brings its sum up to date before the estimate."""

    def estimate(self, key, estate, position, data):
        estimate, after = super().estimate(key, estate, position, data)
        change = after.total - estate.total
        return estimate._replace(value=estimate.value + change), after


class Repeats(Uniform):
    """With replacement, and says that items are distinct."""

    distinct = True


@pytest.mark.full
@pytest.mark.parametrize(
    ("grad", "what"),
    [
        (lambda: Early(Minibatch(LINEAR, Uniform(2)), 1_000), "estimate"),
        (lambda: SAGA(Minibatch(LINEAR, Repeats(4, replace=True)), 1_000), "sum"),
    ],
)
@pytest.mark.at_length
def test_the_replay_sees_faults(grad, what):
    with pytest.raises(AssertionError, match=what):
        check_replay(grad())


def check_all_batches(grad, number, weight):
    """Given a table, over all batches: unbiased, of the covariance of term_i - t_i."""
    _, state, _ = follow(grad)
    point = jnp.array([0.7, -0.4])
    one = lambda key: grad.estimate(key, state, point, DATA)
    estimate, after = jax.jit(jax.vmap(one))(jax.random.split(KEY, 2_000))
    _, first = np.unique(np.sort(after.kept.index, axis=1), axis=0, return_index=True)
    assert len(first) == number
    values = np.asarray(estimate.value)[first]
    full, gaps = terms(point).sum(0) - point, terms(point) - np.asarray(table(state))[:, None] * X
    np.testing.assert_allclose(values.mean(0), full, rtol=1e-4, atol=1e-5, err_msg="biased")
    deviations = values - values.mean(0)
    spread = deviations.T @ deviations / number
    np.testing.assert_allclose(spread, weight(gaps), rtol=1e-3, atol=1e-6)


def test_all_batches_given_a_table():
    check_all_batches(
        SAGA(Minibatch(LINEAR, Uniform(2))), 10, lambda g: N**2 / 2 * (1 - 2 / N) * np.cov(g.T)
    )


@pytest.mark.full
def test_all_stratified_batches_given_a_table():
    grad = SAGA(Minibatch(LINEAR, Stratified([2, 2], [1, 0, 1, 0, 1])))
    check_all_batches(grad, 3, lambda g: 9 / 2 * (1 - 2 / 3) * np.cov(g[::2].T))


@pytest.mark.full
def test_the_sum_of_the_table_is_made_anew():
    """Every third step mends a wrong sum, and no other does."""
    grad = SAGA(Minibatch(LINEAR, Uniform(2)), refresh_every=3)
    start = grad.init(KEY, PATH[0], DATA)
    wrong = start._replace(total=start.total + 1)
    honest, mended = (follow(grad, state, begin=1)[-1][-1] for state in (start, wrong))
    np.testing.assert_allclose(mended[:2] - honest[:2], 1, rtol=1e-4)
    np.testing.assert_allclose(mended[2:], honest[2:], rtol=1e-4, atol=1e-5)
    default = SAGA(Minibatch(LINEAR, Uniform(2)))
    assert default._every(2, DATA) == 3 and grad._every(2, DATA) == 3


def test_a_discarded_step_leaves_no_trace():
    """Steps that are taken and discarded between those that count."""
    grad = SAGA(Minibatch(LINEAR, Uniform(2)))
    step = jax.jit(lambda key, state, w: grad.estimate(key, state, w, DATA))
    plain = disturbed = jax.jit(lambda key: grad.init(key, PATH[0], DATA))(KEY)
    for i, w in enumerate(PATH[1:5]):
        key = Keys(KEY, jax.random.fold_in(KEY, i), i)
        lost = Keys(KEY, jax.random.fold_in(KEY, 100 + i), i)
        broken = step(lost, disturbed, w * jnp.nan)[1]
        disturbed = guard._gate(jnp.array(False), broken, disturbed)
        (a, plain), (b, disturbed) = step(key, plain, w), step(key, disturbed, w)
        assert np.array_equal(a.value, b.value)
    assert np.array_equal(table(plain), table(disturbed))


def test_what_fills_up_a_batch_is_in_no_sum():
    """Batches of four of a shard with three items."""
    shard = Shard(DATA, 3, 0, 3)
    grad = SAGA(Minibatch(LINEAR, Uniform(4)), refresh_every=1_000)
    state = grad.init(KEY, PATH[0], shard)
    for w in PATH[1:4]:
        _, state = grad.estimate(KEY, state, w, shard)
    held = np.asarray(table(state))[:3, None] * X[:3]
    np.testing.assert_allclose(state.total, held.sum(0), rtol=1e-4, atol=1e-5)


def test_the_table_stays_where_it_is_unless_the_target_changes():
    grad = SAGA(Minibatch(LINEAR, Uniform(2)))
    state = grad.init(KEY, PATH[0], DATA)
    assert grad.refresh(KEY, state, PATH[1], DATA) is state
    anew = grad.retarget(KEY, state, PATH[1], DATA)
    np.testing.assert_allclose(anew.total, terms(PATH[1]).sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(table(anew)[:, None] * X, terms(PATH[1]), rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------- the stationary law of a chain

H, BATCH = 0.1, 2


def exact_variance(saga=True):
    """Of y_i ~ N(x, 1), x ~ N(0, 1) by `sgld`, from the linear map of x and the points phi_i.

    Less the mode, x' = x + h (-x - sum_i phi_i - (N/n) sum_S (x - phi_i)) + noise and phi_i' = x
    for i in S; the mean over all S of its action on covariances is solved for what stays. The
    data drop out of it. Without a table there is the noise of the data besides.
    """
    if not saga:
        noise = N**2 / BATCH * (1 - BATCH / N) * Y.var(ddof=1)
        return (2 + H * noise) / ((N + 1) * (2 - H * (N + 1)))
    maps = []
    for batch in itertools.combinations(range(1, N + 1), BATCH):
        move = np.eye(N + 1)
        move[0] = -H
        move[0, 0] = 1 - H - H * N
        for i in batch:
            move[0, i] += H * N / BATCH
            move[i], move[i, 0] = 0, 1
        maps.append(np.kron(move, move))
    noise = np.zeros((N + 1) ** 2)
    noise[0] = 2 * H
    return np.linalg.solve(np.eye((N + 1) ** 2) - np.mean(maps, 0), noise)[0]


def check_chain(grad, variance):
    data = (jnp.ones((N, 1)), jnp.asarray(Y))
    mode = Y.sum() / (N + 1)
    args = {"num_chains": 512, "num_steps": 2_500, "burn_in": 100}
    square = lambda state, info: (state.position[0] - mode) ** 2
    run = run_law(KEY, sgld(grad, H), np.zeros(1), data, reduce=square, **args)
    check_law(run.trace.mean, variance, 0.03)


MODEL = LinearModel(PRIOR, lambda eta, y: -0.5 * (y - eta) ** 2)


@pytest.mark.full
@pytest.mark.runs_long
def test_the_stationary_law_of_a_chain():
    check_chain(SAGA(Minibatch(MODEL, Uniform(BATCH))), exact_variance())


@pytest.mark.full
@pytest.mark.runs_long
def test_it_is_nearer_to_that_of_all_items():
    plain, all_items = exact_variance(saga=False), 2 / ((N + 1) * (2 - H * (N + 1)))
    assert abs(exact_variance() - all_items) < 0.5 * abs(plain - all_items)
    check_chain(Minibatch(MODEL, Uniform(BATCH)), plain)


@pytest.mark.full
@pytest.mark.runs_long
@pytest.mark.at_length
def test_the_stationary_law_sees_a_sum_brought_up_to_date_too_early():
    fault_is_seen(check_chain, Early(Minibatch(MODEL, Uniform(BATCH))), exact_variance())


# ----------------------------------------------------------------------------- refusals

REFUSED = {
    "repeated items": (lambda: Minibatch(LINEAR, Uniform(2, replace=True)), "SAGA needs all.*Unif"),
    "streams": (lambda: Minibatch(LINEAR, Given(5)), "SAGA needs all of the data.*Given"),
    "wrapped": (lambda: SVRG(Minibatch(LINEAR, Uniform(2)), 3), "inner must be a Minibatch.*SVRG"),
    "model": (lambda: LINEAR, "inner must be an estimator.*LinearModel"),
    "epochs": (lambda: Minibatch(LINEAR, Epoch(2)), "batches that do not depend on earlier.*Epoch"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_has_no_table_is_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(TypeError, match=message):
        SAGA(make())


def test_an_unfit_number_of_steps_is_refused():
    make = partial(SAGA, Minibatch(LINEAR, Uniform(2)))
    with pytest.raises(ValueError, match="refresh_every must be a whole number.*0"):
        make(0)
