"""Langevin dynamics in convex sets: the exact laws of its steps, and how far off they are."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import norm

from sgmc_jax import (
    Ball,
    Box,
    ConvexSet,
    Full,
    FunctionModel,
    Minibatch,
    projected_sgld,
    reflected_sgld,
    sgld,
)
from sgmc_jax.transitions import EulerLangevin
from tests.laws.moments import check_law, run_law
from tests.laws.test_gaussian import CURVATURE, GRAD, NOISE, Y, some_fast

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(24)


def exact(logdensity):
    return Minibatch(FunctionModel(logdensity), Full())


EXPONENTIAL = exact(lambda x: -x)
FLAT = exact(lambda x: 0.0 * jnp.sum(x))


def moments(kernel, statistic, position, data=None, num_steps=4_000, num_chains=1024):
    args = {"num_chains": num_chains, "num_steps": num_steps, "burn_in": 200}
    reduce = lambda state, info: statistic(state.position)
    return run_law(KEY, kernel, position, data, reduce=reduce, **args).trace.mean


def refused():
    return pytest.raises(AssertionError, match="standard errors")


def test_lengths_beyond_the_square_root_of_the_largest_number():
    inside, outside = jnp.array([260.0], jnp.float16), jnp.array([400.0], jnp.float16)
    for far in (inside, outside):
        assert float(Ball(300.0).project(far)[0]) == pytest.approx(min(float(far[0]), 300.0))
    Ball(300.0).check(inside)
    with pytest.raises(ValueError, match="position must be in the set Ball"):
        Ball(300.0).check(outside)


# -------------------------------------------------------------------------------- projected


def projected_exponential(h):
    """The mass at 0 and the mean of x <- max(0, x - h + sqrt(2 h) xi), by Spitzer's identities.

    The stationary law is that of the maximum of the random walk S_n ~ N(-n h, 2 n h).
    """
    n = np.arange(1, int(400 / h))
    mean, deviation = -n * h, np.sqrt(2 * n * h)
    ratio = mean / deviation
    atom = np.exp(-np.sum(norm.cdf(ratio) / n))
    return atom, np.sum((deviation * norm.pdf(ratio) + mean * norm.cdf(ratio)) / n)


def test_projection_on_a_half_line():
    kernel = projected_sgld(EXPONENTIAL, 0.2, Box(0.0))
    statistic = lambda x: jnp.stack([(x == 0).astype(x.dtype), x])
    values = moments(kernel, statistic, jnp.ones(()))
    check_law(values, projected_exponential(0.2), 0.02)


def test_the_bias_of_projection_is_of_order_one_half():
    """The mass at 0 and the error of the mean, over the root of h."""
    steps = np.array([1e-2, 1e-3])
    atoms, means = np.transpose([projected_exponential(h) for h in steps])
    np.testing.assert_allclose(atoms / np.sqrt(steps), 0.97, atol=0.04)
    np.testing.assert_allclose((1 - means) / np.sqrt(steps), 0.80, atol=0.05)


@pytest.mark.full
@pytest.mark.at_length
def test_reflection_for_projection_is_seen():
    statistic = lambda x: jnp.stack([(x == 0).astype(x.dtype), x])
    values = moments(reflected_sgld(EXPONENTIAL, 0.2, Box(0.0)), statistic, jnp.ones(()))
    with refused():
        check_law(values[:, 1], projected_exponential(0.2)[1], 0.02)


# -------------------------------------------------------------------------------- reflected


def quadrature(score, h, moment, length=12.0, num=400):
    """A stationary moment of x <- |x + h score(x) + N(0, 2 h)|, by its integral equation."""
    nodes, weights = np.polynomial.legendre.leggauss(num)
    nodes, weights = length * (nodes + 1) / 2, weights * length / 2
    drifted, deviation = nodes + h * score(nodes), np.sqrt(2 * h)
    density = lambda x: norm.pdf((x[:, None] - drifted) / deviation) / deviation
    moves = (density(nodes) + density(-nodes)) * weights
    law = np.linalg.solve(np.eye(num) - moves + weights, np.ones(num))
    return np.sum(weights * law * moment(nodes)) / np.sum(weights * law)


TRUNCATED = (exact(lambda x: -0.5 * (x - 1) ** 2), lambda x: 1 - x)
HALF_LINES = {"exponential": (EXPONENTIAL, lambda x: -1 + 0 * x), "normal": TRUNCATED}
MEANS = {"exponential": 1.0, "normal": 1 + norm.pdf(1) / norm.cdf(1)}


@pytest.mark.parametrize("name", some_fast(HALF_LINES, ("exponential",)))
def test_reflection_on_a_half_line(name):
    grad, score = HALF_LINES[name]
    values = moments(reflected_sgld(grad, 0.2, Box(0.0)), lambda x: x, jnp.ones(()))
    check_law(values, quadrature(score, 0.2, lambda x: x), 0.015)


def test_the_bias_of_reflection_is_of_order_one():
    """That of the mean: h / 2 of an exponential law, and less than h / 10 of the normal one."""
    for h in (0.1, 0.05, 0.025):
        biases = {
            name: quadrature(score, h, lambda x: x) - MEANS[name]
            for name, (_, score) in HALF_LINES.items()
        }
        assert 0.48 < biases["exponential"] / h < 0.51
        assert 0 < biases["normal"] / h < 0.1


def half_normal():
    kernel = reflected_sgld(GRAD, 0.2, Box(0.0))
    return moments(kernel, jnp.square, jnp.ones(()), Y)


@pytest.mark.full
def test_a_normal_centred_at_the_wall_has_the_variance_of_sgld():
    """With minibatches, exactly: a reflection keeps squares."""
    expected = (2 + 0.2 * NOISE) / (CURVATURE * (2 - 0.2 * CURVATURE))
    check_law(half_normal(), expected, 0.015)


@pytest.mark.full
@pytest.mark.at_length
def test_noise_too_large_by_a_twentieth_is_seen(monkeypatch):
    honest = EulerLangevin.variance
    monkeypatch.setattr(EulerLangevin, "variance", lambda s, h, v: 1.05**2 * honest(s, h, v))
    with refused():
        test_a_normal_centred_at_the_wall_has_the_variance_of_sgld()


BOX = Box(np.array([-1.0, 0.0]), np.array([0.5, 0.2]))


@pytest.mark.full
def test_a_uniform_law_on_a_box_is_exact():
    """Steps are longer than the narrow side."""
    kernel = reflected_sgld(FLAT, 0.1, BOX)
    statistic = lambda x: jnp.concatenate([x, x * x])
    values = moments(kernel, statistic, jnp.array([0.0, 0.1]))
    scale = np.array([1.5, 0.2, 1.5, 0.04])
    expected = np.array([-0.25, 0.1, 0.25, 0.04 / 3])
    check_law(values / scale, expected / scale, 0.02)


@pytest.mark.full
@pytest.mark.at_length
def test_a_projection_for_a_second_reflection_is_seen(monkeypatch):
    monkeypatch.setattr(Box, "reflect", ConvexSet.reflect)
    with refused():
        test_a_uniform_law_on_a_box_is_exact()


def disc(h, num=400):
    """E |x|^2 in the unit disc for x <- reflect(x + N(0, 2 h)), by its integral equation."""
    nodes, weights = np.polynomial.legendre.leggauss(num)
    nodes, weights = (nodes + 1) / 2, weights / 2
    density = lambda q: (
        q / (2 * h) * np.exp(-((q - nodes) ** 2) / (4 * h)) * ive(0, q * nodes / (2 * h))
    )
    moves = (density(nodes[:, None]) + density(2 - nodes[:, None])) * weights
    law = np.linalg.solve(np.eye(num) - moves + weights, np.ones(num))
    return np.sum(weights * law * nodes**2) / np.sum(weights * law)


@pytest.mark.full
def test_a_uniform_law_on_a_disc():
    """Not exact, because its boundary is curved: E |x - c|^2 is less than 1/2 by about h / 2."""
    centre = np.array([1.0, -2.0], np.float32)
    kernel = reflected_sgld(FLAT, 0.02, Ball(1.0, centre))
    values = moments(kernel, lambda x: jnp.sum((x - centre) ** 2), centre)
    check_law(values, disc(0.02), 0.01)
    for h in (0.01, 0.005):
        assert 0.42 < (0.5 - disc(h)) / h < 0.5


# ------------------------------------------------------------------------------ far from it

FAR = {
    "projected": partial(projected_sgld, convex_set=Ball(100.0)),
    "reflected": partial(reflected_sgld, convex_set=Box(-100.0)),
}


@pytest.mark.parametrize("name", FAR)
def test_far_from_the_boundary_a_step_is_one_of_sgld(name):
    """At another temperature, and with V subtracted."""
    ends = []
    for make in (FAR[name], sgld):
        kernel = make(GRAD, step_size=0.2, temperature=0.8, noise_covariance=NOISE)
        state = kernel.init(KEY, jnp.ones(()), Y)
        ends.append(kernel.step(KEY, state, Y)[0].position)
    np.testing.assert_allclose(*ends, rtol=1e-6)


def test_points_of_a_large_set_are_of_it():
    ball = Ball(1e5)
    for x in 1e5 * jax.random.normal(KEY, (20, 5)):
        ball.check(ball.project(x))
    with pytest.raises(ValueError, match="position must be in the set Ball"):
        ball.check(jnp.full(5, 4.5e4))
    with pytest.raises(ValueError, match="position must be in the set Box"):
        Box(1e-6, 2e-6).check(jnp.zeros(1))
