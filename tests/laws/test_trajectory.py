"""Trajectories whose step size is drawn anew: exact alone and composed, and without a period."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

from sgmc_jax import Full, FunctionModel, Minibatch, hmc
from sgmc_jax.trajectory import Jittered
from tests.laws.moments import check_law
from tests.laws.wraps import moments, refused, wrapped, wraps

pytestmark = pytest.mark.runs_long
KEY = jax.random.key(8)
CORRELATION = 0.6
REST = 1 - CORRELATION**2


def second_moment(wrap):
    """x given t is N(r t, 1 - r^2), t being 0 but in `gibbs`, where it is N(r x, 1 - r^2)."""

    def make(step_size, t):
        model = FunctionModel(lambda x: -0.5 * (x - CORRELATION * t) ** 2 / REST)
        return hmc(Minibatch(model, Full()), 4 * step_size, 2, jitter=0.6)

    other = lambda key, x: CORRELATION * x + np.sqrt(REST) * jax.random.normal(key)
    return moments(KEY, wrapped(wrap, make, other), wrap, jnp.zeros(()), lambda x: x**2)


def check(wrap):
    check_law(second_moment(wrap), 1.0 if wrap == "gibbs" else REST, 0.02)


@pytest.mark.full
@wraps
def test_it_keeps_its_law(wrap):
    check(wrap)


@pytest.mark.full
@pytest.mark.at_length
@wraps
def test_a_step_size_that_knows_the_position_is_seen(wrap, monkeypatch):
    honest = Jittered.step

    def faulty(self, key, state, data):
        size = lambda own: own.kernel.step_size
        slower = lambda h: h / (1 + state.position**2)
        return honest(eqx.tree_at(size, self, replace_fn=slower), key, state, data)

    monkeypatch.setattr(Jittered, "step", faulty)
    with refused():
        check(wrap)


@pytest.mark.parametrize("jitter, least, most", [(0.0, 0.0, 0.02), (0.2, 0.1, 1.0)])
def test_one_as_long_as_a_period_comes_back_unless_it_is_jittered(jitter, least, most):
    """From N(0, I) to N(0, I): the mean of |x' - x|^2 / 2 d, which is 1 of independent draws."""
    normal = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
    kernel = hmc(normal, 2 * np.pi / 60, 60, jitter=jitter)
    start = jax.random.normal(KEY, (256, 4))
    step = lambda key, x: kernel.step(key, kernel.init(key, x, None), None)
    after, info = jax.jit(jax.vmap(step))(jax.random.split(KEY, 256), start)
    assert np.mean(info.accepted) > 0.9
    jumps = np.mean((after.position - start) ** 2) / 2
    assert least <= jumps < most


def test_step_sizes_are_drawn_from_both_sides():
    """Of a flat density x' - x is h L v (1 + jitter u), with u uniform on (-1, 1)."""
    flat = Minibatch(FunctionModel(lambda x: 0.0 * x), Full())
    kernel = hmc(flat, 0.1, 3, jitter=0.5)
    step = lambda key: kernel.step(key, kernel.init(key, jnp.zeros(()), None), None)[0]
    after = jax.jit(jax.vmap(step))(jax.random.split(KEY, 4_096))
    u = (after.position / after.inner.momentum / 0.3 - 1) / 0.5
    assert kstest(np.asarray(u, float), "uniform", args=(-1, 2)).pvalue > 1e-6
