"""In float32 what is smaller than the rounding of a number still counts, on average or in sum."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Full, FunctionModel, Kernel, Minibatch, sample, sgld
from sgmc_jax.processes import NegativeBinomial
from sgmc_jax.random import accept, cir
from sgmc_jax.transitions import Phase, Thermostat

KEY = jax.random.key(0)


class Counted(NamedTuple):
    """The state of a kernel that counts."""

    position: jax.Array


@pytest.mark.parametrize("theta", [9.9e5, 1.04e6])
def test_a_small_drift_of_a_large_gamma(theta):
    """A tenth of what log theta is rounded to, which the mean of 1e5 draws knows."""
    a, h = 1e6, 1e-5
    before = jnp.full(100_000, np.log(theta), jnp.float32)
    after = cir(KEY, before, a, h)
    start = np.asarray(before, np.float64)
    relative = np.expm1(np.asarray(after, np.float64) - start)
    exact = np.expm1(-h) + a * -np.expm1(-h) / np.exp(start[0])
    error = relative.std() / np.sqrt(len(relative))
    assert abs(relative.mean() - exact) < 5.5 * error and 5.5 * error < 2e-7


def test_a_small_drift_far_from_zero():
    """A precision of 1e6 at 1000: within three deviations it is less than x is rounded to."""
    precision = 1e6
    grad = Minibatch(FunctionModel(lambda x: -0.5 * precision * (x - 1000.0) ** 2), Full())
    args = {"num_steps": 5_000, "burn_in": 1_000, "num_chains": 64}
    run = sample(KEY, sgld(grad, 1e-8), jnp.array(1000.0), None, **args)
    variance = np.var(np.asarray(run.trace, np.float64) - 1000.0)
    assert 0.8 < variance * precision < 1.3  # 1.005 exactly; 3 if the drift is added by itself


def test_a_thermostat_does_not_stand_still():
    """Of an increment of 2e-5, a third of the last digit of 1000."""
    piece, x = Thermostat(1000.0), jnp.zeros(1000)
    phase = Phase(x, momentum=jnp.full(1000, 1.2**0.5), auxiliary=piece.auxiliary(x))
    turn = lambda _, phase: piece(None, phase, jnp.float32(1e-4), None)
    phase = jax.lax.fori_loop(0, 10_000, turn, phase)
    assert abs(phase.auxiliary["thermostat"] - 1000.2) < 1e-3


def test_moments_move_after_many_steps():
    """Each of the later steps has a share below the rounding of the mean."""
    count = Kernel.from_functions(
        lambda key, position, data: Counted(position),
        lambda key, state, data: (Counted(state.position + 1), None),
    )
    early = lambda state, info: jnp.where(state.position > 30_000, 1.001, 1.0)
    args = {"num_steps": 300_000, "reduce": early}
    mean, variance, weight = sample(KEY, count, jnp.zeros((), jnp.int32), None, **args).trace
    np.testing.assert_allclose(mean, 1.0009, atol=2e-7)
    np.testing.assert_allclose(variance, 9e-8, rtol=0.01)
    assert weight == 300_000


def test_a_metropolis_test_accepts_nothing_at_random():
    """Of 2^24 uniform numbers two are 0, whose logarithm is below any ratio."""
    num = 2**24
    assert (jax.random.uniform(KEY, (num,)) == 0).any()
    assert not accept(KEY, jnp.full(num, -1e3)).any()


def test_a_negative_binomial_of_a_large_size():
    """r = 1e6 and odds of 1e-6: nearly Poisson of mean 1."""
    found = NegativeBinomial(1e6).log_prob(jnp.arange(3), jnp.log(1e-6))
    np.testing.assert_allclose(found, [-1.0, -1.0, -1.0 - np.log(2)], atol=1e-5)
