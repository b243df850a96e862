"""What is not in the position is drawn or computed anew once another kernel has moved it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    SVRG,
    AnchoredCounts,
    ControlVariate,
    Euclidean,
    Full,
    FunctionModel,
    Minibatch,
    PolynomialDecay,
    Product,
    Sphere,
    TableCounts,
    Uniform,
    cycle,
    draw,
    gibbs,
    repeat,
    sample,
    scir,
    sggmc,
    sghmc,
    sgld,
    thin,
)
from sgmc_jax.kernels import Splitting
from sgmc_jax.random import log_gamma
from tests.laws.moments import check_law, fault_is_seen, run_law
from tests.laws.test_latent_counts import (
    HALF,
    allocate,
    check_topics,
    fails,
    two_topics_weights,
)

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(17)
DATA = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)


# ------------------------------------------------------------------- a table of allocations


def exact_topics():
    """Draws of both topics' gammas from their posterior, by its sum over all allocations."""
    weight, shape = two_topics_weights()  # (c,), (c, topic, word)

    def posterior(key, data):
        which, gammas = jax.random.split(key)
        return log_gamma(gammas, shape[jax.random.categorical(which, jnp.log(weight))])

    return draw(posterior)


@pytest.mark.full
def test_a_table_follows_a_position_that_others_move():
    check_topics(cycle(exact_topics(), scir(TableCounts(allocate, HALF, Uniform(2)), 1.0)))


@pytest.mark.full
@pytest.mark.at_length
def test_a_stale_table_is_seen(monkeypatch):
    monkeypatch.setattr(TableCounts, "refresh", lambda self, key, estate, position, data: estate)
    with fails():
        test_a_table_follows_a_position_that_others_move()


# ------------------------------------------------------------------------------- momenta

SPACE = Product({"x": Sphere(), "y": Euclidean()})
ON_SPACE = Minibatch(
    FunctionModel(lambda x: -0.5 * x["y"] @ x["y"], lambda x, z: z @ (x["x"] + x["y"])), Uniform(5)
)
START = {"x": np.array([1.0, 0.0, 0.0], np.float32), "y": np.zeros(3, np.float32)}


def elsewhere(key, data):
    x = jax.random.normal(key, (3,))
    return {"x": x / jnp.linalg.norm(x), "y": jnp.zeros(3)}


def largest_normal_part():
    """Of the momentum after a step that began where another kernel had gone."""
    kernel = cycle(draw(elsewhere), sggmc(ON_SPACE, SPACE, 1e-6, friction=1e-6))
    record = lambda state, info: (state.position["x"], state.states[1].momentum["x"])
    x, v = sample(KEY, kernel, START, DATA, num_steps=200, record=record).trace
    return np.abs(np.sum(x * v, axis=1)).max(), np.sum(v**2, axis=1)


def test_momenta_are_tangent_where_others_have_moved_the_position():
    """And have the law of a standard normal on a plane: |v|^2 / 2 is exponential, of mean 1."""
    normal, square = largest_normal_part()
    assert normal < 1e-5
    # false alarm below 1e-6
    assert abs(square.mean() / 2 - 1) < 5.5 / np.sqrt(len(square)), "not exponential"


def test_momenta_that_stay_behind_are_seen(monkeypatch):
    def stay(self, renew, keys, state, data, stale):
        return self._with_gradient(keys, state, data)

    monkeypatch.setattr(Splitting, "_renewed", stay)
    with pytest.raises(AssertionError, match="not exponential"):
        test_momenta_are_tangent_where_others_have_moved_the_position()


SCALES = jnp.array([1.0, 5.0])


def normal_of_two_scales():
    """x | y ~ N(0, s_y^2) in the metric of s_y, y in {0, 1} exactly: means of y and of x^2 / 13."""

    def x(rest):
        s = SCALES[rest["y"].astype(int)]
        grad = Minibatch(FunctionModel(lambda x: -0.5 * (x / s) ** 2), Full())
        return sghmc(grad, 0.2, 0.1, space=Euclidean(s))

    def y(rest):
        logits = -0.5 * (rest["x"] / SCALES) ** 2 - jnp.log(SCALES)
        return draw(lambda key, data: jax.random.categorical(key, logits).astype(float))

    start = {"x": jnp.array(0.5), "y": jnp.zeros(())}
    moments = lambda state, info: {
        "y": state.position["y"],
        "square": state.position["x"] ** 2 / 13,
    }
    return run_law(KEY, gibbs(x=x, y=y), start, None, reduce=moments, **LONG).trace.mean


LONG = {"num_steps": 2_400, "num_chains": 512, "burn_in": 400}


def test_momenta_have_the_law_of_the_metric_that_another_block_has_changed():
    """P(y = 1) = 1/2 and E x^2 = (1 + 25) / 2."""
    values = normal_of_two_scales()
    check_law(values["y"], 0.5, 0.05)
    check_law(values["square"], 1.0, 0.12)


@pytest.mark.full
@pytest.mark.at_length
def test_momenta_of_another_metric_are_seen(monkeypatch):
    """y = 1 in .66 of the steps, in place of a half, with those of the metric before."""
    monkeypatch.setattr(Euclidean, "embedded", True)
    with fails():
        test_momenta_have_the_law_of_the_metric_that_another_block_has_changed()


TURNS = {
    "alone": lambda kernel: kernel,
    "thin": lambda kernel: thin(kernel, 2),
    "repeat": lambda kernel: repeat(kernel, 2),
    "cycle": lambda kernel: cycle(kernel, kernel),
}
LONGER = [pytest.param(name, marks=pytest.mark.full) for name in TURNS if name != "alone"]


def normal_of_two_temperatures(wrap):
    """x | T ~ N(0, T), T in {1/2, 2} exactly: means of T > 1 and of x^2 / 1.25."""
    grad = Minibatch(FunctionModel(lambda x: -0.5 * x**2), Full())
    temperatures = jnp.array([0.5, 2.0])

    def x(rest):
        return TURNS[wrap](sghmc(grad, 0.3, 0.1, temperature=rest["t"], word="BAOAB"))

    def t(rest):
        log_density = -0.5 * (rest["x"] ** 2 / temperatures + jnp.log(temperatures))
        return draw(lambda key, data: temperatures[jax.random.categorical(key, log_density)])

    def moments(state, info):
        return jnp.stack([state.position["t"] > 1, state.position["x"] ** 2 / 1.25])

    start = {"x": jnp.ones(()), "t": jnp.ones(())}
    return run_law(KEY, gibbs(x=x, t=t), start, None, reduce=moments, **LONG).trace.mean


@pytest.mark.parametrize("wrap", ["alone", *LONGER])
def test_momenta_have_the_temperature_that_another_block_has_changed(wrap):
    values = normal_of_two_temperatures(wrap)
    check_law(values[:, :1], np.array([0.5]), 0.03)
    check_law(values[:, 1:], np.array([1.0]), 0.06)


@pytest.mark.full
@pytest.mark.parametrize("wrap", TURNS)
@pytest.mark.at_length
def test_momenta_of_another_temperature_are_seen(wrap, monkeypatch):
    """Planted."""
    monkeypatch.setattr(Splitting, "_heated", lambda self, state: state)
    fault_is_seen(test_momenta_have_the_temperature_that_another_block_has_changed, wrap)


def test_a_schedule_of_its_own_leaves_a_momentum_as_it_is():
    """What a schedule says of the next step is no news to a momentum."""
    grad = Minibatch(FunctionModel(lambda x: -0.5 * x**2), Full())
    kernel = sghmc(grad, 0.3, temperature=PolynomialDecay(4.0, power=1.0))
    state = kernel.init(KEY, jnp.ones(()), None)
    for _ in range(3):
        state, _ = kernel.step(KEY, state, None)
        assert kernel.retarget(KEY, state, None).momentum == state.momentum


# ------------------------------------------------------------------ sums of another target


def scaled(rest):
    """A model whose likelihood depends on the other block."""
    return FunctionModel(
        lambda w: -0.5 * w @ w, lambda w, z: -0.5 * jnp.exp(rest["t"]) * (z - w) @ (z - w)
    )


ESTIMATORS = {
    "control variate": lambda rest: ControlVariate(
        Minibatch(scaled(rest), Full()), np.full(3, 0.3, np.float32)
    ),
    "svrg": lambda rest: SVRG(Minibatch(scaled(rest), Full()), 1000),
}


def gap(name):
    """How far the estimate of one block, from all items, is from the gradient of its target."""
    kernel = gibbs(
        w=lambda rest: sgld(ESTIMATORS[name](rest), 1e-3),
        t=lambda rest: draw(lambda key, data: jax.random.normal(key)),
    )
    start = {"w": np.zeros(3, np.float32), "t": np.float32(0)}
    run = sample(KEY, kernel, start, DATA, num_steps=3, record=lambda state, info: (state, info))
    states, infos = run.trace
    before, after, w = states.position["t"][0], states.position["w"][1], states.position["w"][0]
    exact = np.exp(before) * (DATA - w).sum(0) - w
    assert after.shape == w.shape
    return abs(infos.kernel["w"].gradient_norm[1] / np.linalg.norm(exact) - 1)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_sums_at_a_centre_follow_the_target(name):
    assert gap(name) < 1e-5


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_sums_of_an_old_target_are_seen(name, monkeypatch):
    keep = lambda self, key, estate, position, data: estate
    for kind in (ControlVariate, SVRG):
        monkeypatch.setattr(kind, "retarget", keep)
    assert gap(name) > 0.1


def test_expected_counts_at_a_centre_follow_the_target():
    """From all items they do not matter, unless their sum is that of an old target."""

    def counts(share):
        one_hot = lambda key, x, k: jax.nn.one_hot(k, 2)
        expect = lambda x, k: share * jax.nn.one_hot(k, 2)
        return AnchoredCounts(one_hot, 1.0, Full(), jnp.zeros(2), expect)

    labels, x, new = jnp.array([0, 0, 1, 1, 1]), jnp.zeros(2), counts(0.7)
    old = counts(0.2).init(KEY, x, labels)
    value = lambda estate: new.estimate(KEY, estate, x, labels)[0].value
    np.testing.assert_allclose(value(new.retarget(KEY, old, x, labels)), [3, 4], rtol=1e-6)
    np.testing.assert_allclose(value(old), [2, 2.5], rtol=1e-6)
