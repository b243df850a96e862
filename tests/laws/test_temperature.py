"""Temperatures that change with the step, exactly, and what of a single step they scale."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Ball,
    Box,
    Cyclical,
    Full,
    FunctionModel,
    Minibatch,
    PolynomialDecay,
    PositiveMirror,
    Sphere,
    cycle,
    mirrored_sgld,
    projected_sgld,
    psgld,
    recipe,
    reflected_sgld,
    sample,
    sggmc,
    sghmc,
    sgld,
    sgrhmc,
    sgrld,
)
from sgmc_jax.splitting import Splitting
from sgmc_jax.transitions import EulerLangevin
from tests.laws.moments import check_law, check_mean, fault_is_seen, run_law
from tests.laws.registry import RECORD_TRACES

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(31)
CURVATURE, FRICTION, H, STEPS = 1.7, 1.3, 0.3, 5
GRAD = Minibatch(FunctionModel(lambda x: -0.5 * CURVATURE * jnp.sum(x**2)), Full())
MATRIX = jnp.array([[FRICTION]])
COOLING = PolynomialDecay(4.0, power=1.0)  # 4, 2, 4/3, 1, ...


def overdamped(temperatures):
    """Var x after each step from a point: P <- (1 - h L)^2 P + 2 h T."""
    variance, found = 0.0, []
    for t in temperatures:
        variance = (1 - H * CURVATURE) ** 2 * variance + 2 * H * t
        found.append(variance)
    return np.array(found)


def underdamped(temperatures):
    """The same of BAOAB, from v ~ N(0, T_0)."""
    decay = np.exp(-FRICTION * H)
    kick = np.array([[1, 0], [-H * CURVATURE / 2, 1]])
    half = kick, np.array([[1, H / 2], [0, 1]])
    before, after = half[1] @ half[0], half[0] @ half[1]
    law, found = np.diag([0.0, temperatures[0]]), []
    for t in temperatures:
        move = after @ np.diag([1, decay]) @ before
        fresh = after @ np.diag([0, t * (1 - decay**2)]) @ after.T
        law = move @ law @ move.T + fresh
        found.append(law[0, 0])
    return np.array(found)


KERNELS = {
    "sgld": (partial(sgld, GRAD, H), overdamped),
    "BAOAB": (partial(sghmc, GRAD, H, FRICTION, word="BAOAB"), underdamped),
    "BAOAB matrix": (partial(sghmc, GRAD, H, MATRIX, word="BAOAB"), underdamped),
}
FAST = ("sgld",)


def first_variances(kernel):
    run = sample(KEY, kernel, jnp.zeros(1), None, num_steps=STEPS, num_chains=24_000)
    return np.square(np.asarray(run.trace)[..., 0])


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.full) for n in KERNELS]
)
def test_the_variance_of_the_first_steps(name):
    make, exact = KERNELS[name]
    expected = exact([float(COOLING(k)) for k in range(STEPS)])
    values = first_variances(make(temperature=COOLING)) / expected
    check_mean(values, np.ones(STEPS), 0.06)


@pytest.mark.full
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.at_length
def test_a_schedule_that_is_a_step_late_is_seen(name, monkeypatch):
    honest = EulerLangevin.at
    for piece in KERNELS[name][0](temperature=COOLING).pieces.values():
        late = lambda self, count: honest(self, jnp.maximum(count - 1, 0))
        monkeypatch.setattr(type(piece), "at", late)
    fault_is_seen(test_the_variance_of_the_first_steps, name)


def settling(count):
    """3 at first, and then .8."""
    return jnp.where(count < 50, 3.0, 0.8)


@pytest.mark.parametrize("wrap", ["alone", pytest.param("cycle", marks=pytest.mark.full)])
def test_a_schedule_that_becomes_constant_ends_in_its_law(wrap):
    kernel = sgld(GRAD, H, temperature=settling)
    kernel = kernel if wrap == "alone" else cycle(kernel, kernel)
    square = lambda state, info: state.position[0] ** 2
    args = {"num_chains": 512, "num_steps": 2_100, "burn_in": 100, "reduce": square}
    run = run_law(KEY, kernel, jnp.zeros(1), None, **args)
    check_law(run.trace.mean, 2 * 0.8 / (CURVATURE * (2 - H * CURVATURE)), 0.02)


def test_a_momentum_that_is_drawn_anew_is_as_hot_as_its_step():
    """On a sphere a cycle draws it in each step, |v|^2 / 2 T ~ Exp(1), and other data let chains
    begin anew, whose own first step is not the first of the run."""
    flat = Minibatch(FunctionModel(lambda x: 0.0 * x[0]), Full())
    kernel = cycle(sggmc(flat, Sphere(), 0.01, temperature=settling))
    start, args = jnp.array([1.0, 0.0, 0.0]), {"num_chains": 8_000}
    before = sample(KEY, kernel, start, jnp.zeros(3), num_steps=50, **args)
    run = sample(KEY, kernel, before, jnp.ones(3), num_steps=2, **args)
    square = np.sum(np.square(run.state.states[0].momentum), axis=-1, keepdims=True)
    check_mean(square / (2 * 0.8), np.ones(1), 0.08)


# ------------------------------------------------------------------- a step, and one of another T


def metric(x):
    return 1 + x**2


def after_a_step(kernel, state, **options):
    return np.asarray(kernel(**options).step(KEY, state, None)[0].position)


WIDTH = 0.5  # the epsilon of psgld
DRIFTS = {  # what a metric that depends on x adds to a step at T = 1
    "recipe": (partial(recipe, GRAD, metric, None, H), lambda x: H * 2 * x),
    "sgrld": (partial(sgrld, GRAD, metric, H), lambda x: H * 2 * x),
    # div R' of v, R = (1 + x^2)^(1/2), and then h R v of x
    "sgrhmc": (partial(sgrhmc, GRAD, metric, H), lambda x: H**2 * x),
    "psgld gamma": (
        partial(psgld, GRAD, H, decay=0.0, epsilon=WIDTH, gamma=True),
        lambda x: -H * CURVATURE * np.sign(x) / (WIDTH + CURVATURE * np.abs(x)) ** 2,
    ),
}


@pytest.mark.parametrize("name", DRIFTS)
def test_what_a_metric_adds_to_a_step_is_linear_in_the_temperature(name, x64):
    """As the noise, of one key, is in its root."""
    kernel, drift = DRIFTS[name]
    state = kernel().init(KEY, jnp.array([0.7, -1.3]), None)
    cold, one, four = (after_a_step(kernel, state, temperature=t) for t in (0.0, 1.0, 4.0))
    linear = (four - 2 * one + cold) / 2
    np.testing.assert_allclose(linear, drift(np.asarray(state.position)), rtol=1e-9)


def euler(friction, t, v):
    return 2 * H * friction * t - H**2 * v


def ornstein_uhlenbeck(t, v):
    decay = np.exp(-FRICTION * H)
    return (1 - decay**2) * t - (1 + decay) ** 2 * H**2 * v / 4


WORDS = {"EA": partial(euler, FRICTION), "AFBNFA": partial(euler, FRICTION)}
WORDS |= {"ABOBA": ornstein_uhlenbeck}
NOISES = {  # the variance of what is drawn at a temperature, of V subtracted from it
    "sgld": (partial(sgld, GRAD, H), partial(euler, 1)),
    **{w: (partial(sghmc, GRAD, H, FRICTION, word=w), law) for w, law in WORDS.items()},
    **{f"{w} matrix": (partial(sghmc, GRAD, H, MATRIX, word=w), law) for w, law in WORDS.items()},
}


@pytest.mark.parametrize("name", NOISES)
def test_at_any_temperature_the_same_is_subtracted_from_the_noise(name, x64):
    """Of one key, by its size relative to that at T = 1 of which nothing is."""
    kernel, variance = NOISES[name]
    state = kernel().init(KEY, jnp.ones(1), None)
    cold = after_a_step(kernel, state, temperature=0.0)
    noise = lambda t, v: after_a_step(kernel, state, temperature=t, noise_covariance=v) - cold
    ratio = np.sqrt(variance(0.5, 1.5) / variance(1.0, 0.0))
    np.testing.assert_allclose(noise(0.5, 1.5) / noise(1.0, None), ratio, rtol=1e-6)


# ------------------------------------------------------------------------------- schedules


V = {"noise_covariance": 0.1}
EVERY = {
    "sgld": partial(sgld, GRAD, 0.1, **V),
    "psgld": partial(psgld, GRAD, 0.1),
    "projected": partial(projected_sgld, GRAD, 0.1, Ball(3.0)),
    "reflected": partial(reflected_sgld, GRAD, 0.1, Box(-1.0)),
    "mirrored": partial(mirrored_sgld, GRAD, 0.1, PositiveMirror()),
    "ABOBA": partial(sghmc, GRAD, 0.1, **V),
    "AFBNFA": partial(sghmc, GRAD, 0.1, word="AFBNFA"),
    "EA": partial(sghmc, GRAD, 0.1, word="EA"),
    "EA matrix": partial(sghmc, GRAD, 0.1, MATRIX, word="EA", **V),
    "ABOBA matrix": partial(sghmc, GRAD, 0.1, MATRIX),
    **{name: kernel for name, (kernel, _) in DRIFTS.items()},
}


@pytest.mark.parametrize(
    "name",
    [n if n in ("sgld", "ABOBA") else pytest.param(n, marks=pytest.mark.full) for n in EVERY],
)
def test_a_constant_schedule_is_that_number(name):
    """Of every kernel that takes a temperature, step for step."""
    ends = []
    for temperature in (0.7, lambda count: 0.7):
        kernel = EVERY[name](temperature=temperature)
        state = kernel.init(KEY, jnp.ones(1), None)
        for i in range(2):
            state, _ = kernel.step(jax.random.fold_in(KEY, i), state, None)
        ends.append(state.position)
    np.testing.assert_allclose(*ends, rtol=1e-6)
    other = EVERY[name](temperature=0.5).init(KEY, jnp.ones(1), None)
    assert jax.tree.structure(other) == jax.tree.structure(state)


def test_a_number_costs_nothing_and_schedules_share_one_program():
    kernel = sgld(GRAD, H, temperature=0.7)
    assert kernel.pieces["L"].at(jnp.zeros((), jnp.int32)) is kernel.pieces["L"]
    chex.clear_trace_counter()
    watch = chex.assert_max_traces(lambda state, info: state.position, n=RECORD_TRACES)
    for scale in np.linspace(1, 2, 6):
        kernel = sgld(GRAD, H, temperature=PolynomialDecay(scale))
        sample(KEY, kernel, jnp.zeros(1), None, num_steps=4, record=watch)


WRONG = {
    "at first": (lambda k: -1.0, r"temperature\(0\) must be finite and not negative"),
    "an array": (lambda k: jnp.ones(2), r"temperature\(count\) must be one number.*\(2,\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_schedules(name):
    schedule, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        sample(KEY, sgld(GRAD, H, temperature=schedule), jnp.zeros(1), None, num_steps=1)


@pytest.mark.parametrize("make", [sgld, lambda grad, *args, **kw: sgrld(grad, 1.0, *args, **kw)])
def test_a_covariance_beside_a_search_that_is_cold_at_first(make):
    """At T = 0 there is no noise to subtract it from: it is clipped."""
    schedule = Cyclical(0.01, 100, exploration=0.5)
    grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
    kernel = make(grad, schedule, temperature=schedule.temperature, noise_covariance=0.5)
    assert sample(KEY, kernel, jnp.ones(2), None, num_steps=3).info.finite.all()


def test_the_momentum_begins_at_the_first_temperature():
    kernel = sghmc(GRAD, H, temperature=lambda count: 4.0 - count)
    assert isinstance(kernel, Splitting)
    momentum = lambda t: sghmc(GRAD, H, temperature=t).init(KEY, jnp.zeros(1), None).momentum
    np.testing.assert_allclose(
        kernel.init(KEY, jnp.zeros(1), None).momentum, momentum(4.0), rtol=1e-6
    )


def test_a_momentum_is_as_hot_as_the_step_that_follows():
    """A new target leaves it as it is at the same temperatures, and scales it at others."""
    kernel, hotter = (sghmc(GRAD, H, temperature=lambda k, t=t: t * (k + 1.0)) for t in (1, 2))
    state, _ = kernel.step(KEY, kernel.init(KEY, jnp.zeros(3), None), None)
    for other, ratio in ((kernel, 1.0), (hotter, 2.0)):
        momentum = other.retarget(KEY, state, None).momentum
        np.testing.assert_allclose(momentum, np.sqrt(ratio) * state.momentum, rtol=1e-6)
