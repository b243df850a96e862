"""Samplers of gammas, of simplices and of lognormals, with observed counts."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Full,
    Given,
    Minibatch,
    Summand,
    Uniform,
    geometric_ornstein_uhlenbeck,
    sample,
    scan_kernel,
    scir,
    sgrld_simplex,
)
from sgmc_jax.diagnostics import counts_variance, scir_inflation, scir_moments
from sgmc_jax.random import cir
from sgmc_jax.transitions import GeometricOrnsteinUhlenbeck
from tests.laws.moments import check_law, fewer, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(12)
ARGS = {"num_chains": 512, "num_steps": 1_500, "burn_in": 100}


fails = partial(pytest.raises, AssertionError, match="standard errors")

# --------------------------------------------------------------------------- observed counts

ALPHA, COUNTS, BATCH, STEP, NUM_MOVES = 0.3, np.array([0, 2, 8, 30]), 4, 0.4, 5
ITEMS = np.repeat(np.eye(4, dtype=np.float32), COUNTS, axis=0)
SHAPE = ALPHA + COUNTS


def observed(batcher):
    return Minibatch(Summand(jnp.full(4, ALPHA), lambda position, z: z), batcher)


@pytest.fixture(
    params=[False, pytest.param(True, marks=pytest.mark.full)],
    ids=["without", "with replacement"],
)
def moved(request):
    """Where many chains are after some moves from one point, and the theory of it."""
    theta, replace = np.array([0.2, 1.0, 10.0, 20.0], np.float32), request.param
    kernel = scir(observed(Uniform(BATCH, replace=replace)), STEP, scale="none")

    def last(key):
        state = kernel.init(key, jnp.log(theta), ITEMS)
        return scan_kernel(key, kernel, state, ITEMS, NUM_MOVES, lambda s, i: ())[0].position

    draws = jax.jit(jax.vmap(last))(jax.random.split(KEY, fewer(400_000)))
    noise = counts_variance(COUNTS, BATCH, replace=replace)
    return np.exp(np.asarray(draws, np.float64)), theta, noise


def check_moved(draws, mean, variance):
    for j in range(4):
        check_law(draws[:, j], mean[j], 0.03)
        check_law((draws[:, j] - mean[j]) ** 2, variance[j], 0.03 if j else 0.05)


def test_moments_of_scir_after_some_moves(moved):
    draws, theta, noise = moved
    check_moved(draws, *scir_moments(theta, SHAPE, STEP, NUM_MOVES, noise))


@pytest.mark.at_length
def test_misprinted_moments_are_seen(moved):
    draws, theta, noise = moved
    mean, variance = scir_moments(theta, SHAPE, STEP, NUM_MOVES, noise)
    exact = scir_moments(theta, SHAPE, STEP, NUM_MOVES).variance
    for wrong in [
        exact,  # the noise of the counts left out
        exact + 2 * (variance - exact),  # tanh(h) for tanh(h/2), about
        scir_moments(theta, 2 * SHAPE, STEP, NUM_MOVES, noise).variance,  # a = 2 (alpha + counts)
    ]:
        with fails():
            check_moved(draws, mean, wrong)


def test_what_a_move_adds_decays_in_the_moves_after_it():
    """E theta_M = theta_0 e^(-M h) + (1 - e^-h) sum_m e^(-(M - m) h) a_m, with a shape a move."""
    shapes, theta, kept = np.array([6.0, 2.0, 0.3]), 1.5, np.exp(-STEP)

    def moved(key):
        move = lambda log_theta, x: (cir(x[0], log_theta, x[1], STEP), None)
        keys = jax.random.split(key, len(shapes))
        return jax.lax.scan(move, jnp.log(theta), (keys, jnp.asarray(shapes)))[0]

    draws = np.exp(np.asarray(jax.jit(jax.vmap(moved))(jax.random.split(KEY, 100_000)), float))
    later = np.arange(len(shapes))[::-1]
    mean = lambda power: theta * kept ** len(shapes) + (1 - kept) * np.sum(kept**power * shapes)
    check_law(draws, mean(later), 0.03)
    with fails():  # as printed, the other way round
        check_law(draws, mean(later[::-1]), 0.03)


def dirichlet_moments(state, info):
    w = [jax.nn.softmax(leaf, axis=-1).ravel() for leaf in jax.tree.leaves(state.position)]
    w = jnp.concatenate(w)
    return jnp.stack([w, w**2])


def exact_moments(shapes):
    mean = np.concatenate([(a / a.sum(-1, keepdims=True)).ravel() for a in shapes])
    total = np.concatenate(
        [np.broadcast_to(a.sum(-1, keepdims=True), a.shape).ravel() for a in shapes]
    )
    return mean, mean * (mean * total + 1) / (total + 1)


SIMPLICES = {"a": np.array([[0.2, 0.5, 3.0], [5.0, 1.0, 0.1]]), "b": np.array([0.4, 2.0])}


def of_simplices(h, scale):
    prior = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), SIMPLICES)
    nothing = lambda position, item: jax.tree.map(jnp.zeros_like, prior)
    return scir(Minibatch(Summand(prior, nothing), Given(1)), h, scale=scale)


def check_simplices(kernel):
    start, one = jax.tree.map(jnp.zeros_like, SIMPLICES), np.zeros((1, 1), np.float32)
    run = run_law(KEY, kernel, start, one, reduce=dirichlet_moments, **ARGS)
    mean, square = exact_moments(list(SIMPLICES.values()))
    check_law(run.trace.mean[:, 0], mean, 0.01)
    check_law(run.trace.mean[:, 1], square, 0.01)


@pytest.mark.full
@pytest.mark.parametrize("scale", ["refresh", pytest.param("none", marks=pytest.mark.full)])
def test_several_simplices_are_dirichlet_for_every_step_size(scale):
    for h in (0.5, 3.0):
        check_simplices(of_simplices(h, scale))


def test_sgrld_is_right_as_its_step_size_vanishes_and_not_before():
    """Shapes of 2 and more, away from the boundary, where its bias is of order h."""
    shape = jnp.array([2.0, 3.0, 5.0])
    data, prior = np.tile(np.float32([1, 2, 3]), (2, 1)) / 2, shape - jnp.array([1.0, 2.0, 3.0])
    counts = Minibatch(Summand(prior, lambda position, z: z), Full())
    mean, square = exact_moments([np.asarray(shape)])
    args = ARGS | {"num_steps": 6_000, "burn_in": 1_000, "reduce": dirichlet_moments}
    fine = run_law(KEY, sgrld_simplex(counts, 4e-3), np.log(shape), data, **args).trace.mean
    check_law(fine[:, 0], mean, 0.03)
    check_law(fine[:, 1], square, 0.03)
    coarse = run_law(KEY, sgrld_simplex(counts, 0.2), np.log(shape), data, **args).trace.mean
    with fails():
        check_law(coarse[:, 1], square, 0.02)


@pytest.mark.full
@pytest.mark.parametrize("n,h", [(100, 0.2), (100, 0.02), (10, 0.02)])
@pytest.mark.at_length
def test_minibatches_widen_a_simplex_by_what_theory_says(n, h):
    """1.897, 1.090 and 1.990 times the exact variance."""
    counts = np.array([500, 300, 200])
    items = np.repeat(np.eye(3, dtype=np.float32), counts, axis=0)
    shape = counts + 1.0
    mean = shape / shape.sum()
    kernel = scir(
        Minibatch(Summand(jnp.ones(3), lambda position, z: z), Uniform(n)), h, scale="none"
    )
    spread = lambda state, info: (jax.nn.softmax(state.position) - mean) ** 2
    steps = int(400 / h)
    run = run_law(
        KEY,
        kernel,
        np.log(shape),
        items,
        num_chains=256,
        num_steps=steps,
        burn_in=steps // 50,
        reduce=spread,
    )
    exact = mean * (1 - mean) / (shape.sum() + 1)
    ratio = run.trace.mean / exact
    widened = 1 + float(scir_inflation(h, 1000, n))
    check_law(ratio, widened, 0.03)
    with fails():
        check_law(ratio, 1 + np.tanh(h) * (1000 - n) / n, 0.03)


# ------------------------------------------------------------------------------- lognormals

SIGMA, VALUES = 0.3, np.array([-1.0, 0.3, 0.4, 2.0, 2.5], np.float32)
LOCATION = Minibatch(Summand(0.2, lambda position, y: 0.1 * y), Uniform(2))
MU = 0.2 + 0.1 * VALUES.sum()
NOISE = 0.01 * 25 / 2 * (1 - 2 / 5) * VALUES.var(ddof=1)


def check_lognormal(kernel, variance):
    moments = lambda state, info: jnp.stack([state.position, (state.position - MU) ** 2])
    run = run_law(KEY, kernel, np.float32(0), VALUES, reduce=moments, **ARGS)
    check_law(run.trace.mean[:, 0], MU, 0.02)
    check_law(run.trace.mean[:, 1], variance, 0.03)


def test_the_variance_of_the_geometric_ornstein_uhlenbeck_process():
    for h in (0.3, 2.0):
        widened = SIGMA**2 + np.tanh(h / 2) * NOISE
        kernel = geometric_ornstein_uhlenbeck(LOCATION, SIGMA, h)
        check_lognormal(kernel, widened)
        with fails():
            check_lognormal(kernel, SIGMA**2 + np.tanh(h) * NOISE)


def test_the_noise_of_the_location_is_subtracted():
    corrected = geometric_ornstein_uhlenbeck(LOCATION, SIGMA, 0.3, noise_covariance=NOISE)
    check_lognormal(corrected, SIGMA**2)
    assert NOISE > SIGMA**2 / np.tanh(1.0)
    with pytest.raises(ValueError, match="noise_covariance exceeds"):
        geometric_ornstein_uhlenbeck(LOCATION, SIGMA, 2.0, noise_covariance=NOISE)


@pytest.mark.full
@pytest.mark.at_length
def test_the_lognormal_law_sees_noise_too_large_by_a_twentieth(monkeypatch):
    honest = GeometricOrnsteinUhlenbeck.variance
    louder = lambda self, h, v: 1.05**2 * honest(self, h, v)
    monkeypatch.setattr(GeometricOrnsteinUhlenbeck, "variance", louder)
    with fails():
        kernel = geometric_ornstein_uhlenbeck(LOCATION, SIGMA, 0.3)
        check_lognormal(kernel, SIGMA**2 + np.tanh(0.15) * NOISE)


# --------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("scale", ["refresh", "none"])
def test_positions_in_half_precision(scale):
    kernel = scir(observed(Full()), 0.1, scale=scale)
    run = sample(KEY, kernel, jnp.zeros(4, jnp.bfloat16), ITEMS, num_steps=5)
    assert run.trace.dtype == jnp.bfloat16 and np.all(run.info.finite) and np.ptp(run.trace) > 0


def test_a_number_is_no_prior_of_several_arrays():
    counts = Minibatch(Summand(0.5, lambda position, item: {"a": item}), Full())
    with pytest.raises(TypeError, match="prior must be of the form of term, {a: float32"):
        sample(KEY, scir(counts, 0.1), {"a": jnp.zeros(3)}, np.eye(3, dtype="f"), num_steps=1)


def test_bad_input_is_refused():
    for kwargs, message in [
        ({"scale": "fix"}, "scale must be one of .'refresh', 'none', 'fixed'., got 'fix'"),
        ({"scale": "fixed"}, 'total goes with scale="fixed", got total=None'),
        ({"total": 3.0}, "total goes with.*got total=3.0 and scale='refresh'"),
        ({"scale": "fixed", "total": -1.0}, "total must be finite and positive, got -1.0"),
    ]:
        with pytest.raises(ValueError, match=message):
            scir(observed(Full()), 0.1, **kwargs)
    with pytest.raises(TypeError, match="counts must be an estimator"):
        sgrld_simplex(np.ones(3), 0.1)
    with pytest.raises(ValueError, match="scale must be finite and positive, got 0.0"):
        geometric_ornstein_uhlenbeck(LOCATION, 0.0, 0.1)
    with pytest.raises(ValueError, match=r"scale must be one number.*got shape \(2,\)"):
        geometric_ornstein_uhlenbeck(LOCATION, np.ones(2), 0.1, noise_covariance=np.eye(2))
    with pytest.raises(ValueError, match="position must have a last axis, the simplex"):
        sample(KEY, scir(observed(Full()), 0.1), np.float32(0), ITEMS, num_steps=1)
