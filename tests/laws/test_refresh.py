"""What is not in the position is drawn or computed anew once another kernel has moved it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    SVRG,
    ControlVariate,
    Euclidean,
    Full,
    FunctionModel,
    Minibatch,
    Product,
    Sphere,
    TableCounts,
    Uniform,
    cycle,
    draw,
    gibbs,
    sample,
    scir,
    sggmc,
    sgld,
)
from sgmc_jax.kernels import Splitting
from sgmc_jax.random import log_gamma
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
    def stay(self, renew, keys, state, data):
        return self._with_gradient(keys, state, data)

    monkeypatch.setattr(Splitting, "_renewed", stay)
    with pytest.raises(AssertionError, match="not exponential"):
        test_momenta_are_tangent_where_others_have_moved_the_position()


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
