"""What users' functions return is checked where it is traced: a wrong shape must not broadcast."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    AnchoredCounts,
    ControlVariate,
    Estimate,
    Full,
    FunctionModel,
    Kernel,
    LinearModel,
    Minibatch,
    MinibatchCounts,
    Model,
    Summand,
    TableCounts,
    Uniform,
    cycle,
    draw,
    find_mode,
    geometric_ornstein_uhlenbeck,
    hmc,
    metropolis,
    scir,
    sghmc,
    sgld,
    sgrld_simplex,
)
from sgmc_jax.bnp import BetaBernoulli, FeatureLikelihood, hybrid_features
from sgmc_jax.gradients import Allocation
from sgmc_jax.kernels import Splitting
from sgmc_jax.transitions import Friction, GradientKick, OrnsteinUhlenbeck, Phase, Transition

KEY = jax.random.key(0)
ZERO = jnp.zeros(2)
X = jnp.asarray(np.random.default_rng(0).normal(size=(40, 2)), jnp.float32)
PAIRS = (X, X[:, 0])


class Case(NamedTuple):
    name: str
    make: Callable[[], Any]
    message: str  # a pattern
    error: type = TypeError


def trace(kernel, position=ZERO, data=X):
    """`init` and `step` as the runner traces them, without a run."""

    def both(key, position, data):
        state = kernel.init(key, position, data)
        return kernel.step(key, state, data)

    return jax.eval_shape(both, KEY, position, data)


def prior(x):
    return -0.5 * x @ x


def loglik(x, z):
    return -0.5 * (z - x) @ (z - x)


def estimated(model, batcher=None, data=X):
    """The estimate of a model, on a batch and on all of the data."""
    grad = Minibatch(model, Uniform(5) if batcher is None else batcher)
    return lambda: jax.eval_shape(lambda: grad.estimate(KEY, (), ZERO, data))


def model(logprior=prior, loglik=loglik, loglik_batch=None):
    return estimated(FunctionModel(logprior, loglik, loglik_batch))


class MyModel(Model):
    """Sums over its items already in `loglik_batch`."""

    def logprior(self, position):
        return prior(position)

    def loglik(self, position, item):
        return loglik(position, item)

    def loglik_batch(self, position, items):
        return jnp.sum(jax.vmap(self.loglik, (None, 0))(position, items))


class MyVectorModel(MyModel):
    def logprior(self, position):
        return position

    def loglik(self, position, item):
        return item - position

    def loglik_batch(self, position, items):
        return super(MyModel, self).loglik_batch(position, items)


of_vector = lambda x, z: loglik(x, z)[None]
VECTOR = FunctionModel(prior, of_vector)
ONE = r"must return one floating number, of shape \(\), got "
MODELS = [
    Case("loglik (1,)", model(loglik=of_vector), f"loglik of FunctionModel {ONE}float32\\(1,\\)"),
    Case("loglik int", model(loglik=lambda x, z: 1), f"loglik of FunctionModel {ONE}int32"),
    Case("loglik None", model(loglik=lambda x, z: None), f"loglik of FunctionModel {ONE}None"),
    Case("loglik text", model(loglik=lambda x, z: "a"), f"loglik of FunctionModel {ONE}str"),
    Case("logprior (2,)", model(lambda x: x), f"logprior of FunctionModel {ONE}float32\\(2,\\)"),
    Case("logprior int", model(lambda x: 0), f"logprior of FunctionModel {ONE}int32"),
    Case("logprior pair", model(lambda x: (prior(x), x)), f"logprior of FunctionModel {ONE}\\("),
    Case(
        "batch scalar",
        model(prior, None, lambda x, z: jnp.sum(z @ x)),
        r"loglik_batch of FunctionModel must return one .* \(5,\), got float32\(\)",
    ),
    Case(
        "batch (n, 1)",
        model(loglik_batch=lambda x, z: (z @ x)[:, None]),
        r"loglik_batch of FunctionModel must return one .* \(5,\), got float32\(5, 1\)",
    ),
    Case(
        "batch int",
        model(loglik_batch=lambda x, z: jnp.arange(len(z))),
        r"loglik_batch of FunctionModel must return one floating number an item.* got int32",
    ),
    Case("own batch", estimated(MyModel()), r"loglik_batch of MyModel .* \(5,\), got float32\(\)"),
    Case("own vector", estimated(MyVectorModel()), f"logprior of MyVectorModel {ONE}float32"),
    Case("full", estimated(VECTOR, Full()), f"loglik of FunctionModel {ONE}"),
    Case("per item", lambda: MyVectorModel().per_item(ZERO, X), f"loglik of MyVectorModel {ONE}"),
    Case("logdensity", lambda: VECTOR.logdensity(ZERO, X), f"loglik of FunctionModel {ONE}"),
    Case("score", lambda: VECTOR.score(ZERO, X), f"loglik of FunctionModel {ONE}"),
    Case("mode", lambda: find_mode(KEY, VECTOR, ZERO, X), f"loglik of FunctionModel {ONE}"),
    Case(
        "centre",
        lambda: trace(sgld(ControlVariate(Minibatch(VECTOR, Uniform(5)), ZERO), 0.1)),
        f"loglik of FunctionModel {ONE}",
    ),
    Case("hmc", lambda: trace(hmc(Minibatch(VECTOR, Full()), 0.1)), f"loglik of Func.* {ONE}"),
    Case("sghmc", lambda: trace(sghmc(Minibatch(VECTOR, Uniform(5)), 0.1)), f"loglik .* {ONE}"),
]


def linear(loglik=lambda eta, y: y * eta, slope=None, data=PAIRS):
    return estimated(LinearModel(prior, loglik, slope), data=data)


LINEAR = [
    Case("linear (1,)", linear(lambda eta, y: (y * eta)[None]), f"loglik of LinearModel {ONE}"),
    Case("linear int", linear(lambda eta, y: 1), f"loglik of LinearModel {ONE}int32"),
    Case(
        "linear with slope",
        linear(lambda eta, y: (y * eta)[None], lambda eta, y: y),
        f"loglik of LinearModel {ONE}",
    ),
    Case(
        "slope (1,)",
        linear(slope=lambda eta, y: y[None]),
        r"slope of LinearModel must return .*predictor's shape, \(\), got float32\(1,\)",
    ),
    Case("slope int", linear(slope=lambda eta, y: 1), "slope of LinearModel must .*, got int32"),
    Case("no pair", linear(data=X), r"data must be a pair \(x, y\).*got float32\(5, 2\)"),
    Case(
        "columns",
        linear(data=(X[:, :1], X[:, 0])),
        r"position must be of shape \(d,\).* got \(2,\) and rows x of shape \(1,\)",
        ValueError,
    ),
    Case(
        "flat x",
        linear(data=(X[:, 0], X[:, 0])),
        r"position must be of shape \(d,\).* got \(2,\) and rows x",
        ValueError,
    ),
]

# ------------------------------------------------------------------- other sums over the items


def summand(prior, term, kernel=scir, position=ZERO):
    counts = Minibatch(Summand(prior, term), Uniform(5))
    return lambda: trace(kernel(counts, 0.1), position)


def allocated(allocate, estimator=MinibatchCounts):
    return lambda: trace(scir(estimator(allocate, 1.0, Uniform(5)), 0.1))


def anchored(expect, centre=ZERO):
    ones = lambda key, position, item: jnp.ones(2)
    return lambda: trace(scir(AnchoredCounts(ones, 1.0, Uniform(5), centre, expect), 0.1))


class OneCount(Allocation):
    def draw(self, key, position, items, previous):
        return jnp.zeros(len(items), jnp.int32)

    def counts(self, items, allocations, weight):
        return jnp.sum(weight)


lognormal = lambda location, h: geometric_ornstein_uhlenbeck(location, 1.0, h)
LIKE = r"must have the structure and the shapes of "
SUMS = [
    Case("term", summand(jnp.ones(2), lambda x, z: z[:1]), f"term {LIKE}the prior.*2.*got.*1"),
    Case("term wide", summand(jnp.ones(2), lambda x, z: z[:, None]), f"term {LIKE}the prior"),
    Case("term tree", summand(jnp.ones(2), lambda x, z: {"a": z}), f"term {LIKE}.*{{a: float32"),
    Case("term text", summand(jnp.ones(2), lambda x, z: "a"), f"term {LIKE}the prior.* got str"),
    Case("prior", summand(lambda x: jnp.ones(3), lambda x, z: z), f"term {LIKE}the prior.*3.*2"),
    Case("prior text", lambda: Summand("a", lambda x, z: z), "prior must return arrays.*got str"),
    *[
        Case(
            f"{name} of one number",
            summand(1.0, lambda x, z: z[0], kernel),
            f"estimate of Minibatch {LIKE}the position.*2.*got float32\\(\\)",
        )
        for name, kernel in [("scir", scir), ("sgrld", sgrld_simplex), ("lognormal", lognormal)]
    ],
    Case("allocate", allocated(lambda key, x, z: jnp.ones(1)), f"allocate {LIKE}the position"),
    Case("allocate scalar", allocated(lambda key, x, z: 1.0), f"allocate {LIKE}the position"),
    Case(
        "allocate to a table",
        allocated(lambda key, x, z: jnp.ones((1, 2)), TableCounts),
        f"allocate {LIKE}the position",
    ),
    Case("allocation", allocated(OneCount()), f"counts of OneCount {LIKE}the position"),
    Case("expect", anchored(lambda x, z: jnp.ones(1)), f"expect {LIKE}the position"),
    Case("expect tree", anchored(lambda x, z: [jnp.ones(2)]), f"expect {LIKE}the position"),
    Case("expect nothing", anchored(None), "expect must be a function of .*NoneType"),
    Case(
        "draw shape",
        lambda: trace(draw(lambda key, data: jnp.ones(1))),
        f"draw's function {LIKE}the position.*2.*got float32\\(1,\\)",
    ),
    Case(
        "draw tree", lambda: trace(draw(lambda key, data: {"x": ZERO})), f"draw's function {LIKE}"
    ),
    Case(
        "draw whole numbers",
        lambda: trace(draw(lambda key, data: 0.5 + ZERO), jnp.zeros(2, int)),
        "draw's function must return the position's dtype, int32, got float32",
    ),
]

# ------------------------------------------------------- schedules, estimators, letters, kernels


GRAD = Minibatch(FunctionModel(prior, loglik), Uniform(5))
SIMPLE = Minibatch(Summand(jnp.ones(2), lambda x, z: jnp.abs(z)), Uniform(5))


def scheduled(schedule, kernel=sgld, grad=GRAD):
    return lambda: trace(kernel(grad, schedule))


class Flat(Minibatch):
    """An estimator that forgets the axes of the position."""

    def items(self, batch, position):
        return Estimate(jnp.sum(super().items(batch, position).value), jnp.zeros(()))

    def prior(self, position):
        return Estimate(jnp.zeros(()), jnp.zeros(()))


STEPS = [
    Case("h array", scheduled(jnp.ones(2)), r"step_size must be one number.*\(2,\)", ValueError),
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
    Case("slope", lambda: LinearModel(prior, prior, 3), "slope must be a function, got int"),
    Case("term of none", lambda: Summand(1.0, None), "term must be a function, got NoneType"),
    Case("draw of none", lambda: draw(None), "function must be a function, got NoneType"),
    Case(
        "prior of features",
        lambda: FeatureLikelihood(prior, 3, prior),
        "log_prior must be a function, got int",
    ),
    Case(
        "mode in no steps",
        lambda: find_mode(KEY, VECTOR, ZERO, X, num_steps=0),
        "num_steps must be a whole number.*0",
        ValueError,
    ),
]


@pytest.mark.parametrize(
    "case", [*MODELS, *LINEAR, *SUMS, *STEPS, *LETTERS, *REST], ids=lambda case: case.name
)
def test_wrong_returns_are_refused(case: Case):
    with pytest.raises(case.error, match=re.compile(case.message, re.DOTALL)) as caught:
        case.make()
    assert len(str(caught.value)) < 400, "the message is one of ours, not of the machinery"


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


def test_whole_terms_keep_the_fractions_of_the_weights():
    """40 items in batches of 16 weigh 2.5 each."""
    ones = lambda kind: lambda x, z: jnp.ones(2, kind)
    for kind in (int, bool, jnp.float32):
        counts = Minibatch(Summand(jnp.zeros(2), ones(kind)), Uniform(16))
        estimate, _ = counts.estimate(KEY, (), ZERO, X)
        assert estimate.value.tolist() == [40.0, 40.0]


def test_expected_counts_may_be_a_tree():
    centre = {"a": jnp.zeros(2), "b": jnp.zeros(3)}
    counts = lambda *args: {"a": jnp.ones(2), "b": jnp.ones(3)}
    kernel = scir(AnchoredCounts(counts, 1.0, Uniform(5), centre, counts), 0.1)
    trace(kernel, centre, jnp.zeros((20_000, 1)))


def test_a_centre_may_be_a_number():
    square = FunctionModel(lambda x: -0.5 * x**2, lambda x, z: -0.5 * (z - x) ** 2)
    kernel = sgld(ControlVariate(Minibatch(square, Uniform(5)), 0.0), 0.1)
    trace(kernel, jnp.zeros(()), X[:, 0])
