"""Kernels that are exact: Metropolis rules, Gibbs sweeps, and combinators that keep a joint law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gamma

from sgmc_jax import (
    Full,
    FunctionModel,
    Minibatch,
    cycle,
    draw,
    gibbs,
    hmc,
    mala,
    metropolis,
    repeat,
    sgld,
    thin,
)
from sgmc_jax.combinators.metropolis import Metropolis
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(7)
QUARTIC = Minibatch(FunctionModel(lambda x: -(x**4) / 4), Full())
FOURTH_ROOT = 2 * gamma(0.75) / gamma(0.25)  # E x^2 under exp(-x^4/4)
ARGS = {"num_chains": 1024, "num_steps": 3_000, "burn_in": 100}


def squares(state, info):
    return state.position**2


def check_quartic(kernel):
    run = run_law(KEY, kernel, jnp.zeros(()), None, reduce=squares, **ARGS)
    check_law(run.trace.mean, FOURTH_ROOT, 0.01)
    return run


@pytest.mark.parametrize(
    "kernel",
    [
        mala(QUARTIC, 0.5),
        hmc(QUARTIC, 0.9, 2),
        hmc(QUARTIC, 0.9, 2, jitter=0.0),
        thin(mala(QUARTIC, 0.5), 2),
    ],
    ids=["mala", "hmc", "one length", "thin"],
)
def test_metropolis_is_exact(kernel):
    run = check_quartic(kernel)
    assert 0.3 < np.mean(run.info.acceptance) < 0.95  # the test matters only where some are refused


def test_without_a_test_a_step_is_biased():
    grad = sgld(QUARTIC, 0.17)  # larger steps do not stay finite
    fault_is_seen(check_quartic, grad)


def test_the_law_sees_an_energy_without_the_momentum():
    kernel = hmc(QUARTIC, 0.9, 2)
    potential = lambda state: -state.gradient.logdensity
    fault_is_seen(check_quartic, metropolis(kernel.kernel, potential, kernel.redraw))


def test_mala_accepts_by_the_rule_of_its_proposal():
    """log a from the ratio of the densities of x -> x' and x' -> x, against the energy error."""
    h, grad = 0.3, mala(QUARTIC, 0.3)
    drift = lambda x: x - h * x**3
    states = jax.vmap(lambda x: grad.init(KEY, x, None))(jnp.linspace(-2.0, 2.0, 101))
    after, info = jax.vmap(lambda key, s: grad.step(key, s, None))(
        jax.random.split(KEY, 101), states
    )
    x, y = states.position, after.position
    taken = np.asarray(info.accepted)
    back, forth = (x - drift(y)) ** 2, (y - drift(x)) ** 2
    log_ratio = (x**4 - y**4) / 4 - (back - forth) / (4 * h)
    assert 30 < taken.sum() < len(taken)
    np.testing.assert_allclose(-info.energy_error[taken], log_ratio[taken], atol=2e-5)
    np.testing.assert_array_equal(x[~taken], y[~taken])
    np.testing.assert_allclose(
        info.acceptance, np.exp(np.minimum(0, -np.asarray(info.energy_error))), rtol=1e-5
    )
    kinetic = after.inner.momentum**2 / 2  # of the proposal, or the old one where that is refused
    np.testing.assert_allclose(info.energy, y**4 / 4 + kinetic, rtol=1e-5)


def test_a_change_of_variables_needs_its_jacobian():
    """Gamma(3, 1) in log coordinates: the exponent is 3 x and not 2 x."""
    right = Minibatch(FunctionModel(lambda x: 3 * x - jnp.exp(x)), Full())
    wrong = Minibatch(FunctionModel(lambda x: 2 * x - jnp.exp(x)), Full())
    mean = lambda state, info: jnp.exp(state.position)
    for grad, law in [(right, True), (wrong, False)]:
        run = run_law(KEY, hmc(grad, 0.5, 3), jnp.zeros(()), None, reduce=mean, **ARGS)
        if law:
            check_law(run.trace.mean, 3.0, 0.01)
        else:
            fault_is_seen(check_law, run.trace.mean, 3.0, 0.01)


# ------------------------------------------------------------ blocks: a correlated Gaussian

CORRELATION = 0.7


def conditional(other):
    variance = 1 - CORRELATION**2
    return Minibatch(
        FunctionModel(lambda x: -0.5 * (x - CORRELATION * other) ** 2 / variance), Full()
    )


def exact_draw(other):
    noise = np.sqrt(1 - CORRELATION**2)
    return draw(lambda key, data: CORRELATION * other + noise * jax.random.normal(key))


BLOCKS = {
    "mala": lambda other: mala(conditional(other), 0.4),
    "hmc": lambda other: hmc(conditional(other), 0.5, 2),
    "draw": exact_draw,
    "cycle": lambda other: cycle(mala(conditional(other), 0.4), hmc(conditional(other), 0.5, 1)),
    "repeat": lambda other: repeat(mala(conditional(other), 0.4), 2),
    "thin": lambda other: thin(mala(conditional(other), 0.4), 2),
}


def check_blocks(block):
    kernel = gibbs(x=lambda rest: block(rest["y"]), y=lambda rest: block(rest["x"]))
    moments = lambda state, info: jnp.stack(
        [
            state.position["x"] ** 2,
            state.position["y"] ** 2,
            state.position["x"] * state.position["y"],
        ]
    )
    start = {"x": jnp.zeros(()), "y": jnp.zeros(())}
    run = run_law(KEY, kernel, start, None, reduce=moments, **ARGS)
    check_law(run.trace.mean, [1.0, 1.0, CORRELATION], 0.02)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("mala", "cycle") else pytest.mark.full)
        for name in BLOCKS
    ],
)
def test_blocks_keep_the_joint_law(name):
    check_blocks(BLOCKS[name])


def test_the_joint_law_sees_stale_caches(monkeypatch):
    monkeypatch.setattr(Metropolis, "retarget", lambda self, key, state, data: state)
    fault_is_seen(check_blocks, BLOCKS["mala"])


def test_a_cycle_of_a_gibbs_sweep_and_a_joint_move():
    """The sweep's blocks must follow the joint move, and the move the sweep."""
    sweep = gibbs(x=lambda rest: exact_draw(rest["y"]), y=lambda rest: exact_draw(rest["x"]))
    precision = np.linalg.inv([[1, CORRELATION], [CORRELATION, 1]])

    def logdensity(position):
        v = jnp.stack([position["x"], position["y"]])
        return -0.5 * v @ precision @ v

    joint = hmc(Minibatch(FunctionModel(logdensity), Full()), 0.6, 2)
    moments = lambda state, info: state.position["x"] * state.position["y"]
    start = {"x": jnp.zeros(()), "y": jnp.zeros(())}
    run = run_law(KEY, cycle(sweep, joint), start, None, reduce=moments, **ARGS)
    check_law(run.trace.mean, CORRELATION, 0.02)
