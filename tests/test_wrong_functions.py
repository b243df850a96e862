"""What users' functions of the items return is checked: a wrong shape must not broadcast."""

import jax
import jax.numpy as jnp
import pytest

from sgmc_jax import (
    AnchoredCounts,
    ControlVariate,
    Full,
    FunctionModel,
    LinearModel,
    Minibatch,
    MinibatchCounts,
    Model,
    Summand,
    TableCounts,
    Uniform,
    draw,
    find_mode,
    geometric_ornstein_uhlenbeck,
    hmc,
    scir,
    sghmc,
    sgld,
    sgrld_simplex,
)
from sgmc_jax.gradients import Allocation
from tests.wrong import (
    KEY,
    LIKE,
    ONE,
    PAIRS,
    VECTOR,
    ZERO,
    Case,
    X,
    check,
    loglik,
    of_vector,
    prior,
    trace,
)


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


class Truths(Allocation):
    """Of weights that are truths, which tell the items that count, `@` is whether any does."""

    def draw(self, key, position, items, previous):
        return jnp.arange(len(items)) % 2

    def counts(self, items, allocations, weight):
        return weight @ (allocations[:, None] == jnp.arange(2))


def allocated(allocate, estimator=MinibatchCounts):
    return lambda: trace(scir(estimator(allocate, 1.0, Uniform(5)), 0.1))


def anchored(expect, centre=ZERO):
    ones = lambda key, position, item: jnp.ones(2)
    return lambda: trace(scir(AnchoredCounts(ones, 1.0, Uniform(5), centre, expect), 0.1))


def anchored_check(centre):
    """What `sample` asks of an anchored estimator at its door."""
    ones = lambda *args: jnp.ones(2)
    AnchoredCounts(ones, 1.0, Uniform(5), centre, ones).check(ZERO, X)


class OneCount(Allocation):
    def draw(self, key, position, items, previous):
        return jnp.zeros(len(items), jnp.int32)

    def counts(self, items, allocations, weight):
        return jnp.sum(weight)


lognormal = lambda location, h: geometric_ornstein_uhlenbeck(location, 1.0, h)
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
    Case(
        "products of truths",
        allocated(Truths(), TableCounts),
        r"counts of Truths must be numbers, got bool\(2,\): where weights are truths",
    ),
    Case("expect", anchored(lambda x, z: jnp.ones(1)), f"expect {LIKE}the position"),
    Case("expect tree", anchored(lambda x, z: [jnp.ones(2)]), f"expect {LIKE}the position"),
    Case("expect nothing", anchored(None), "expect must be a function of .*NoneType"),
    Case(
        "centre of counts",
        lambda: anchored_check(jnp.zeros(3)),
        r"centre must have the structure and the shapes of the position, .*\(2,\), got float32\(3",
        ValueError,
    ),
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
    Case(
        "draw labels as truths",
        lambda: trace(draw(lambda key, data: jnp.arange(2)), jnp.zeros(2, bool)),
        "the position's dtype, bool, got int32: start from a position of int32",
    ),
    Case(
        "draw labels in a byte",
        lambda: trace(draw(lambda key, data: jnp.arange(2)), jnp.zeros(2, jnp.uint8)),
        "the position's dtype, uint8, got int32",
    ),
]


@pytest.mark.parametrize("kind", [bool, jnp.uint8, jnp.int16, int, float])
def test_a_draw_of_few_bits_fits_more_of_them(kind):
    state, _ = trace(draw(lambda key, data: jnp.ones(2, bool)), jnp.zeros(2, kind))
    assert state.position.dtype == jnp.zeros(2, kind).dtype
    trace(draw(lambda key, data: jnp.ones(2, jnp.uint8)), jnp.zeros(2, int))


@pytest.mark.parametrize("case", [*MODELS, *LINEAR, *SUMS], ids=lambda case: case.name)
def test_wrong_returns_are_refused(case: Case):
    check(case)


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
