"""Letters, schedules and steps of users are checked where they are traced."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Batch,
    Box,
    Estimate,
    Full,
    FunctionModel,
    Kernel,
    LinearModel,
    Minibatch,
    MinibatchCounts,
    Summand,
    Uniform,
    bijectors,
    cycle,
    draw,
    find_mode,
    metropolis,
    scan_kernel,
    scir,
    sghmc,
    sgld,
    sgnht,
    transitions,
    tune,
)
from sgmc_jax.bnp import BetaBernoulli, FeatureLikelihood, hybrid_features
from sgmc_jax.kernels import Splitting
from sgmc_jax.transitions import (
    Friction,
    GradientKick,
    OrnsteinUhlenbeck,
    Phase,
    Thermostat,
    Transition,
)
from tests.wrong import KEY, LIKE, ONE, VECTOR, ZERO, Case, X, check, loglik, prior, trace

GRAD = Minibatch(FunctionModel(prior, loglik), Uniform(5))
SIMPLE = Minibatch(Summand(jnp.ones(2), lambda x, z: jnp.abs(z)), Uniform(5))


def scheduled(schedule, kernel=sgld, grad=GRAD):
    return lambda: trace(kernel(grad, schedule))


def alphas(alpha):
    return scir(MinibatchCounts(lambda key, position, z: z, alpha, Uniform(5)), 0.1)


class NoBatch(Uniform):
    def draw(self, key, bstate, data):
        return super().draw(key, bstate, data)[0]


class OneWeight(Uniform):
    def draw(self, key, bstate, data):
        batch, bstate = super().draw(key, bstate, data)
        return Batch(batch.items, batch.weight[0], batch.index), bstate


class Flat(Minibatch):
    """An estimator that forgets the axes of the position."""

    def items(self, batch, position):
        return Estimate(jnp.sum(super().items(batch, position).value), jnp.zeros(()))

    def prior(self, position):
        return Estimate(jnp.zeros(()), jnp.zeros(()))


STEPS = [
    Case("h array", scheduled(jnp.ones(2)), r"step_size must be one number.*\(2,\)", ValueError),
    Case(
        "batch",
        lambda: trace(sgld(Minibatch(FunctionModel(prior, loglik), NoBatch(5)), 0.1)),
        "draw of NoBatch must return a Batch and the next state, got Batch",
    ),
    Case(
        "weights",
        lambda: trace(sgld(Minibatch(FunctionModel(prior, loglik), OneWeight(5)), 0.1)),
        r"weight must have one number an item, of shape \(5,\), got shape \(\)",
    ),
    Case(
        "alpha",
        lambda: alphas(jnp.ones(3)).check(ZERO, X),
        r"alpha must be a number, or.*float32\(2,\), got float32\(3,\)",
        ValueError,
    ),
    Case(
        "alpha tree",
        lambda: alphas({"a": 1.0}).check(ZERO, X),
        r"alpha must be a number, or.*float32\(2,\), got {a: float32\(\)}",
        ValueError,
    ),
    Case(
        "covariance tree",
        lambda: sgld(GRAD, 0.1, noise_covariance={"a": 1.0}).check(ZERO, X),
        r"noise_covariance must have the shape .*\(2,\), got {a",
        ValueError,
    ),
    Case(
        "temperatures",
        lambda: trace(sgld(GRAD, 0.1, temperature=[1.0, 2.0])),
        r"temperature must be one number, got shape \(2,\)",
        ValueError,
    ),
    Case(
        "thermostats",
        lambda: trace(sgnht(GRAD, 0.1, [1.0, 2.0])),
        r"^friction must be one number, got shape \(2,\)",
        ValueError,
    ),
    Case("start of a thermostat", lambda: Thermostat("a"), "^start must be", TypeError),
    Case(
        "schedule array",
        scheduled(lambda k: 0.1 * jnp.ones(2)),
        r"step_size\(count\) must be one number, got shape \(2,\)",
        ValueError,
    ),
    Case("schedule None", scheduled(lambda k: None), r"step_size\(count\) must be a real.*None"),
    Case("schedule text", scheduled(lambda k: "a"), r"step_size\(count\) must be a real.*'a'"),
    Case("schedule complex", scheduled(lambda k: 1j), r"step_size\(count\) must be a real.*1j"),
    Case(
        "estimator",
        lambda: trace(sgld(Flat(FunctionModel(prior, loglik), Uniform(5)), 0.1)),
        f"the estimate of Flat {LIKE}the position",
    ),
]


class Drift(Transition):
    """Moves the position, and does not say so."""

    speed: jax.Array = eqx.field(default=1.0, converter=jnp.asarray)

    def __call__(self, key, phase, h, field):
        return phase._replace(position=phase.position + h * self.speed)


class Wide(Transition):
    moves = True

    def __call__(self, key, phase, h, field):
        return phase._replace(position=phase.position + jnp.zeros((3, 1)))


class Half(Transition):
    def __call__(self, key, phase, h, field):
        return phase._replace(momentum=phase.momentum.astype(jnp.float16))


class Forgetful(Transition):
    def __call__(self, key, phase, h, field):
        return Phase(phase.position)


class Bare(Transition):
    def __call__(self, key, phase, h, field):
        return phase.position


def word(piece, letters="BXB"):
    pieces = {"B": GradientKick(), "X": piece}
    return lambda: trace(Splitting(letters, pieces, GRAD, 0.1))


LETTERS = [
    Case("moves in silence", word(Drift()), "piece 'X', Drift, moves the position.*moves = True"),
    Case("moves at the end", word(Drift(), "BX"), "piece 'X', Drift, moves the position"),
    Case("another shape", word(Wide()), f"piece 'X', Wide, {LIKE}the position.*2.*3, 2"),
    Case("another dtype", word(Half()), "piece 'X', Half, must keep the dtype of the mom.*float16"),
    Case("no momentum", word(Forgetful()), f"piece 'X', Forgetful, {LIKE}the momentum.*None"),
    Case("no phase", word(Bare()), "piece 'X', Bare, must return a Phase, got"),
]


# ------------------------------------------------------------------------- other functions


def of_features(loglik=lambda theta, z, x: -jnp.sum((x - z @ theta) ** 2), prior=jnp.sum):
    family = FeatureLikelihood(loglik, prior, lambda key: jax.random.normal(key, (2,)))
    kernel = hybrid_features(BetaBernoulli(1.0), family, capacity=2)
    return lambda: trace(kernel, None)


def alone(key, state, data):
    return state.position


class State(NamedTuple):
    position: jax.Array


begins = lambda key, position, data: State(position)
REST = [
    Case("features", of_features(lambda theta, z, x: -((x - z @ theta) ** 2)), f"log_lik.*{ONE}"),
    Case("features' prior", of_features(prior=lambda theta: theta), f"log_prior {ONE}float32"),
    Case(
        "energy",
        lambda: trace(metropolis(sgld(GRAD, 0.1), lambda s: s.position, lambda key, s: s)),
        f"energy {ONE}float32",
    ),
    Case(
        "step in a cycle",
        lambda: trace(cycle(sgld(GRAD, 0.1), Kernel.from_functions(begins, alone))),
        r"step must return a pair \(state, info\)",
    ),
    Case("init", lambda: Kernel.from_functions(None, alone), "init must be a function.*NoneType"),
    Case("step", lambda: Kernel.from_functions(alone, 3), "step must be a function, got int"),
    Case("logprior", lambda: FunctionModel(3), "logprior must be a function, got int"),
    Case("loglik", lambda: FunctionModel(prior, 3), "loglik must be a function, got int"),
    Case("slope", lambda: LinearModel(prior, loglik, 3), "slope must be a function, got int"),
    Case("term of none", lambda: Summand(1.0, None), "term must be a function, got NoneType"),
    Case("draw of none", lambda: draw(None), "function must be a function, got NoneType"),
    Case(
        "prior of features",
        lambda: FeatureLikelihood(lambda theta, z, x: 0.0, 3, prior),
        "log_prior must be a function, got int",
    ),
    Case(
        "likelihood of features",
        lambda: FeatureLikelihood(prior, prior, prior),
        r"log_likelihood must be a function of \(params, entries, item\)",
    ),
    Case(
        "letter of another covariance",
        lambda: transitions.EulerLangevin(1.0, 0.1),
        "noise_covariance must be a NoiseCovariance, got float",
    ),
    Case(
        "letters that are none",
        lambda: Splitting("A", {"A": 1}, Minibatch(VECTOR, Full()), 0.1),
        r"pieces\['A'\] must be a Transition, got int",
    ),
    Case(
        "support wider than its leaf",
        lambda: bijectors.Interval(jnp.zeros(3), 1.0).forward(jnp.zeros(())),
        r"lower must broadcast to its leaf, of shape \(\), got shape \(3,\)",
        ValueError,
    ),
    Case(
        "box wider than its leaf",
        lambda: Box(jnp.zeros(3), 1.0).project(ZERO),
        r"lower must broadcast to its leaf, of shape \(2,\), got shape \(3,\)",
        ValueError,
    ),
    Case(
        "inner loop from no state",
        lambda: scan_kernel(KEY, draw(lambda key, data: ZERO), ZERO, None, 2),
        "state must be one that kernel.init made",
    ),
    Case(
        "grid of a number",
        lambda: tune.grid_search(
            *(KEY, FunctionModel(prior, loglik), lambda h: None, {"h": 0.1}, ZERO, X), budget=10.0
        ),
        r"grid\['h'\] must be the values to be tried, got 0.1",
    ),
    Case(
        "setting for another kernel",
        lambda: tune.grid_search(
            *(KEY, FunctionModel(prior, loglik), lambda h: None, {"step_size": [0.1]}, ZERO, X),
            budget=10.0,
        ),
        r"make_kernel must be a function of \(step_size\)",
    ),
    Case(
        "mode in no steps",
        lambda: find_mode(KEY, VECTOR, ZERO, X, num_steps=0),
        "num_steps must be a whole number.*0",
        ValueError,
    ),
]


@pytest.mark.parametrize("case", [*STEPS, *LETTERS, *REST], ids=lambda case: case.name)
def test_wrong_returns_are_refused(case: Case):
    check(case)


def test_right_returns_pass_in_float64(x64):
    position, data = jnp.zeros(2), jnp.ones((10, 2))
    assert position.dtype == jnp.float64
    trace(sghmc(GRAD, 0.1), position, data)
    trace(scir(SIMPLE, 0.1), position, data)


def test_a_letter_that_says_it_moves_is_given_a_fresh_gradient():
    class Honest(Drift):
        moves = True

    pieces = {"B": GradientKick(), "X": Honest()}
    model = FunctionModel(prior)
    init, step = Splitting("BXB", pieces, Minibatch(model, Full()), 0.1)
    state = init(KEY, ZERO, None)
    moved = step(KEY, state._replace(momentum=jnp.zeros(2)), None)[0]
    np.testing.assert_allclose(moved.momentum, -0.05 * (ZERO + moved.position), rtol=1e-6)


def test_letters_of_the_library_say_what_they_move():
    pieces = {"F": Friction(jnp.array(1.0)), "B": GradientKick(), "O": OrnsteinUhlenbeck(1.0)}
    trace(Splitting("BFOB", pieces, GRAD, 0.1))
    for scale, total in [("none", None), ("refresh", None), ("fixed", 3.0)]:
        trace(scir(SIMPLE, 0.1, scale, total))


@pytest.mark.parametrize("number", [1, 0.1, np.float32(0.1)])
@pytest.mark.parametrize("kernel", [sgld, scir, sghmc], ids=lambda kernel: kernel.__name__)
def test_a_schedule_may_return_any_number(kernel, number):
    scheduled(lambda k: number, kernel, SIMPLE if kernel is scir else GRAD)()
