"""Numbers at the edge of what floating point holds, and shapes at the edge of what is meant."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Cyclical, FunctionModel, Given, Kernel, Minibatch, Splitting, sample, sgld
from sgmc_jax.bijectors import Interval
from sgmc_jax.diagnostics import (
    counts_variance,
    ksd,
    rosenblatt_ks,
    scir_batch_size,
    scir_inflation,
    scir_step_size,
)
from sgmc_jax.evaluation import NewItems
from sgmc_jax.models import LDA, BayesianNetwork
from sgmc_jax.random import log_gamma
from sgmc_jax.transitions import (
    EulerMomentum,
    Friction,
    FrictionMatrix,
    GeometricOrnsteinUhlenbeck,
    MatrixFriction,
    NoiseCovariance,
    Phase,
)
from sgmc_jax.tune.curvature import cholesky_of_inverse

KEY = jax.random.key(0)


class Still(NamedTuple):
    position: Any


def test_the_last_step_of_a_long_cycle_has_a_size():
    found = Cyclical(0.1, 20_000)(jnp.array([0, 10_000, 19_999]))
    exact = 0.1 * np.sin(np.pi / 2 * np.array([1.0, 0.5, 5e-5])) ** 2
    np.testing.assert_allclose(found, exact, rtol=2e-3)


@pytest.mark.parametrize("length", [10, 82, 100])
@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.15])
def test_a_cycle_has_as_many_steps_of_search_as_are_meant(length, share):
    schedule = Cyclical(0.1, length, exploration=share)
    search = np.arange(length) < np.ceil(round(share * length, 6))
    for temperature in (schedule.temperature, jax.jit(lambda k: schedule.temperature(k))):
        each = [temperature(jnp.asarray(k, jnp.int32)) for k in range(length)]
        np.testing.assert_array_equal(np.array(each) == 0, search)
    np.testing.assert_array_equal(schedule.cycles(length) < 0, search)


def test_cycles_of_a_run_that_goes_on():
    schedule = Cyclical(0.1, 10, exploration=0.5)
    whole = schedule.cycles(45)
    np.testing.assert_array_equal(schedule.cycles(20, begun=25), whole[25:])


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 2.0), (-3.0, 5.0), (1e6, 1e6 + 2)])
@pytest.mark.parametrize("z", [-200.0, -20.0, 20.0, 200.0])
def test_an_interval_is_open(bounds, z):
    interval = Interval(*bounds)
    forward = lambda z: interval.forward(z)
    x = jax.jit(forward)(jnp.float32(z))
    assert np.float32(bounds[0]) < x < np.float32(bounds[1])
    assert np.isfinite(jax.grad(forward)(jnp.float32(z)))


@pytest.mark.parametrize("kind", ["F", "E", "matrix"])
def test_a_small_friction_keeps_its_digits(kind):
    """exp(-1.5e-7) rounds to 1 - 1.2e-7 or 1.8e-7, and what is taken off has its digits."""
    if kind == "matrix":
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
        piece = MatrixFriction(FrictionMatrix(turn @ turn.T))
    else:
        piece = Friction(1.0) if kind == "F" else EulerMomentum(1.0, temperature=0.0)
    before = jax.random.normal(KEY, (300_000, 6))
    one = lambda v: piece(KEY, Phase(jnp.zeros(6), momentum=v), jnp.float32(1.5e-7), jnp.zeros(6))
    after = np.asarray(jax.jit(jax.vmap(lambda v: one(v).momentum))(before), np.float64)
    before = np.asarray(before, np.float64)
    rate = np.sum((before - after) * before) / np.sum(before**2) / 1.5e-7
    assert abs(rate - 1) < 0.05


def test_scales_of_coordinates_do_not_meet_those_of_eigenvectors():
    covariance = NoiseCovariance(jnp.array([[1.0, 0.5], [0.5, 1.0]]))
    piece = GeometricOrnsteinUhlenbeck(jnp.array([1.0, 2.0]), covariance)
    location = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Given(1))
    with pytest.raises(ValueError, match="scale must be one number beside a noise_covariance"):
        Splitting("G", {"G": piece}, location, 0.1)


def test_weights_in_half_precision_are_counted_in_single():
    linear = eqx.nn.Linear(784, 100, key=KEY)
    network = BayesianNetwork(linear)
    weights = jax.tree.map(lambda x: x.astype(jnp.float16), network.start(linear)["weights"])
    number, squares = network.squares(weights)
    assert number.dtype == jnp.float32 and number.sum() == 785 * 100
    assert np.isfinite(squares).all()


def test_topics_that_int16_cannot_name():
    with pytest.raises(ValueError, match="num_topics must be at most 32767, got 40000"):
        LDA(num_topics=40_000, vocabulary=5, alpha=0.1, beta=0.5)


def test_new_items_may_be_made_while_something_is_traced():
    weights = jnp.array([0.5])
    density = lambda y: NewItems(jnp.ones((1, 2)), weights, 0.3).log_prob(y)
    np.testing.assert_allclose(
        jax.jit(density)(jnp.ones((1, 2))), density(jnp.ones((1, 2))), rtol=1e-5
    )


def test_a_batch_may_be_a_list_of_two_arrays_of_one_form():
    model = FunctionModel(lambda w: -0.5 * w**2, lambda w, z: -0.5 * (z[1] - w * z[0]) ** 2)
    kernel = sgld(Minibatch(model, Given(100)), 1e-3)
    args = {"num_steps": 5}
    pairs = [
        sample(
            KEY, kernel, jnp.zeros(()), lambda i, kind=kind: kind([np.ones(4), np.ones(4)]), **args
        )
        for kind in (list, tuple)
    ]
    np.testing.assert_array_equal(*(run.trace for run in pairs))
    with pytest.raises(TypeError, match="got a list of 2: give iter"):
        sample(KEY, kernel, jnp.zeros(()), [np.ones(4), np.ones(4)], **args)


def test_the_theory_of_scir_at_its_edges():
    assert scir_batch_size(0.0, 1_003, 0.1) == 1_003  # no inflation: all
    assert scir_batch_size(0.0, 100, 0.0) == 1
    assert np.isinf(scir_step_size(0.0, 100, 100))
    assert scir_inflation(0.2, 100, 200) == 0
    assert counts_variance(jnp.array([2.0, 2.0]), 5).tolist() == [0, 0]
    assert counts_variance(jnp.array([1.0]), 1).tolist() == [0]
    assert [int(scir_batch_size(0.0, n, 0.1)) for n in range(1, 200)] == list(range(1, 200))


def test_two_last_components_of_zero_have_no_shares():
    with pytest.raises(ValueError, match="several last components of 0"):
        rosenblatt_ks(np.array([[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]]), np.array([1.0, 0.01, 0.01]))


def test_a_gamma_variate_of_a_vast_shape_ends():
    draw = log_gamma(KEY, jnp.float32(2e38))
    np.testing.assert_allclose(draw, np.log(2e38), rtol=1e-5)


def test_a_block_size_is_a_whole_number():
    x = np.random.default_rng(0).normal(size=(8, 2))
    assert ksd(x, -x, block_size=np.int64(3)) == ksd(x, -x, block_size=3)
    with pytest.raises(ValueError, match="block_size must be a whole number"):
        ksd(x, -x, block_size=True)


def test_collinear_covariates_are_a_matter_of_precision():
    matrix = np.array([[1.0, 0.9999995], [0.9999995, 1.0]])
    with pytest.raises(ValueError, match="or two are nearly one"):
        cholesky_of_inverse(matrix.astype(np.float32))
    factor = cholesky_of_inverse(matrix)
    np.testing.assert_allclose(factor @ factor.T @ matrix, np.eye(2), atol=1e-6)


def test_a_run_in_which_nothing_moves_is_told():
    begin = lambda key, x, data: Still(x)
    still = Kernel.from_functions(begin, lambda key, state, data: (state, None))
    run = sample(KEY, still, jnp.zeros(2), None, num_steps=40, num_chains=2)
    assert "nothing has moved" in str(run.summary())
