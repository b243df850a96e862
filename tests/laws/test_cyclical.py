"""Cyclical step sizes with a search without noise: exact variances, and whose draw is whose."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Cyclical,
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    cycle,
    gibbs,
    repeat,
    sample,
    sghmc,
    sgld,
    thin,
)
from tests.laws.moments import check_law, fault_is_seen

KEY = jax.random.key(41)
CURVATURE, LENGTH = 1.7, 6
GRAD = Minibatch(FunctionModel(lambda x: -0.5 * CURVATURE * jnp.sum(x**2)), Full())
SCHEDULE = Cyclical(0.4, LENGTH, exploration=0.5)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("length", [10, 1_000, 100_000, 3_000_000])
def test_a_search_ends_with_its_share_of_a_cycle(share, length):
    """However many digits that many steps have."""
    schedule, first = Cyclical(0.1, length, share), round(share * length)
    found = schedule.temperature(jnp.array([first - 1, first]))
    np.testing.assert_array_equal(found, [0.0, 1.0])


def variances(num_steps):
    """P <- (1 - h_k L)^2 P + 2 h_k T_k from P = 1, T_k = 0 in the first half of a cycle."""
    variance, found = 1.0, []
    for k in range(num_steps):
        h = 0.2 * (np.cos(np.pi * (k % LENGTH) / LENGTH) + 1)
        hot = k % LENGTH >= LENGTH / 2
        variance = (1 - h * CURVATURE) ** 2 * variance + 2 * h * hot
        found.append(variance)
    return np.array(found)


def check(temperature):
    kernel = sgld(GRAD, SCHEDULE, temperature=temperature)
    starts = jax.random.normal(KEY, (16_000, 1))
    args = {"num_steps": 2 * LENGTH, "num_chains": 16_000, "position_axis": 0}
    squares = np.asarray(sample(KEY, kernel, starts, None, **args).trace)[..., 0] ** 2
    law = variances(2 * LENGTH)
    check_law(squares / law, np.ones(2 * LENGTH), 0.08)


def test_the_variance_after_each_step():
    check(SCHEDULE.temperature)


def test_a_search_that_begins_a_step_late_is_seen():
    """Planted."""
    fault_is_seen(check, lambda count: SCHEDULE.temperature(count - 1))


class Count(NamedTuple):
    position: jax.Array


@pytest.mark.parametrize("burn_in,thin", [(0, 1), (3, 2), (7, 5), (11, 4)])
def test_the_cycle_of_each_draw(burn_in, thin):
    """A position that is the index of its own step, kept as `sample` keeps it."""
    kernel = Kernel.from_functions(
        lambda key, position, data: Count(position),
        lambda key, state, data: (Count(state.position + 1), None),
    )
    args = {"num_steps": 40, "burn_in": burn_in, "thin": thin}
    steps = np.asarray(sample(KEY, kernel, jnp.full((), -1.0), None, **args).trace).astype(int)
    expected = [k // LENGTH if k % LENGTH >= LENGTH / 2 else -1 for k in steps]
    np.testing.assert_array_equal(SCHEDULE.cycles(**args), expected)


@pytest.mark.parametrize("step_size", [SCHEDULE, 0.3])
def test_a_search_without_noise_is_left_out_of_averages(step_size):
    """By weights of 0: its steps are the longest, and would weigh most."""
    normal = Minibatch(FunctionModel(lambda x: -0.5 * x**2), Full())
    for kernel in (sgld, partial(sghmc, friction=1.0)):
        made = kernel(normal, step_size, temperature=SCHEDULE.temperature)
        args = {"num_steps": 200, "burn_in": 3, "num_chains": 16, "position_axis": None}
        moments = sample(KEY, made, jnp.zeros(()), None, reduce=True, **args).trace
        draws = np.asarray(sample(KEY, made, jnp.zeros(()), None, **args).trace, float)
        steps = np.arange(3, 200)
        weights = SCHEDULE(steps) if callable(step_size) else np.ones(197)
        weights = np.where(SCHEDULE.temperature(steps) > 0, weights, 0.0)
        expected = np.average(draws**2, axis=1, weights=weights)
        np.testing.assert_allclose(moments.variance + moments.mean**2, expected, rtol=1e-4)


NORMAL = Minibatch(FunctionModel(lambda x: -0.5 * x**2), Full())
SEARCHING = sgld(NORMAL, SCHEDULE, temperature=SCHEDULE.temperature)


def check_averages(kernel, position, weights):
    args = {"num_steps": len(weights), "num_chains": 16, "position_axis": None}
    moments = sample(KEY, kernel, position, None, reduce=True, **args).trace
    draws = sample(KEY, kernel, position, None, **args).trace
    for x, mean, variance in zip(*map(jax.tree.leaves, (draws, *moments[:2])), strict=True):
        expected = np.average(np.asarray(x, float) ** 2, axis=1, weights=weights)
        np.testing.assert_allclose(variance + mean**2, expected, rtol=1e-4)


@pytest.mark.parametrize("several", [repeat, thin])
def test_several_steps_that_end_in_a_search_weigh_nothing(several):
    """Four steps of cycles of six: whatever came before, the position is of the search."""
    steps = np.arange(200).reshape(50, 4)
    hot = np.asarray(SCHEDULE.temperature(steps)) > 0
    weights = np.where(hot[:, -1], np.mean(np.where(hot, SCHEDULE(steps), 0), axis=1), 0)
    check_averages(several(SEARCHING, 4), jnp.zeros(()), weights)


def test_what_is_always_cold_is_no_search():
    """A descent that is averaged: by its step sizes."""
    shrinking = lambda step: 0.5 / (1 + step)
    check_averages(sgld(NORMAL, shrinking, temperature=0.0), jnp.ones(()), shrinking(np.arange(9)))


SHRINKING = lambda step: 0.5 / (1 + step)
BESIDE = {
    "cycle": (cycle(SEARCHING, sgld(NORMAL, SHRINKING)), jnp.zeros(())),
    "gibbs": (
        gibbs(x=lambda rest: SEARCHING, y=lambda rest: sgld(NORMAL, SHRINKING)),
        {"x": jnp.zeros(()), "y": jnp.zeros(())},
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_search_beside_another_kernel_weighs_nothing(name):
    steps = np.arange(200)
    hot = np.asarray(SCHEDULE.temperature(steps)) > 0
    check_averages(*BESIDE[name], np.where(hot, (SCHEDULE(steps) + SHRINKING(steps)) / 2, 0.0))


def test_it_refuses():
    for name in ("num_steps", "burn_in", "thin", "begun"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            SCHEDULE.cycles(**{"num_steps": 40, name: -1})
    with pytest.raises(ValueError, match="thin must be a whole number of at least 1, got 0"):
        SCHEDULE.cycles(1_000, thin=0)
    for wrong in (-0.1, 1.0, np.nan):
        with pytest.raises(ValueError, match="exploration"):
            Cyclical(0.1, 5, exploration=wrong)
