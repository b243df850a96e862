"""What is told of chains that are too hot or stand still, though they agree with each other."""

import warnings
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

from sgmc_jax import (
    Euclidean,
    Full,
    FunctionModel,
    Minibatch,
    PositiveMirror,
    Summand,
    Uniform,
    cycle,
    hmc,
    mirrored_sgld,
    psgld,
    recipe,
    sample,
    scir,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    thin,
)
from sgmc_jax.advice import means, remarks
from sgmc_jax.transitions import MirroredLangevin, PreconditionedLangevin, RecipeEuler
from tests.laws.moments import check_law, fault_is_seen, run_law

NUM, BATCH, SCALE = 1_000, 1, 2.0
_drawn = np.random.default_rng(0).normal(size=(NUM, 4))
DATA = jnp.asarray((_drawn - _drawn.mean(0)) / _drawn.std(0, ddof=1), jnp.float32)
LOGLIK = lambda x, y: -0.5 * jnp.sum((x - y) ** 2) / NUM
NORMAL = FunctionModel(lambda x: 0.0, LOGLIK)  # N(0, I)
NOISY, EXACT = Minibatch(NORMAL, Uniform(BATCH)), Minibatch(NORMAL, Full())
NOISE = 1 / BATCH - 1 / NUM
WIDE = Euclidean(scale=SCALE)


def langevin(h, noise=NOISE):
    """h |g|^2 / 2d in the mean: the variance of x is (2 + h V) / (2 - h)."""
    return h / 2 * ((2 + h * noise) / (2 - h) + noise)


def excess(kernel, position=jnp.zeros(4), **args):
    """The mean excess of each of 256 chains."""
    args = {"num_chains": 256, "num_steps": 4_100, "burn_in": 100} | args
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_law(jax.random.key(1), kernel, position, DATA, **args)


def preconditioned(run):
    """The mean over the coordinates, for the P that each chain has kept."""
    p = 1 / (1.0 + np.sqrt(np.asarray(run.state.auxiliary["mean_square"])))
    return np.mean(langevin(0.5 * p), axis=1)


def momenta(h, friction, root, noise=NOISE):
    """|v|^2 / d - 1 of sgrhmc with a constant root, by the linear system of its step."""
    kick = np.array([-h * root, 1 - h * friction * root**2])
    move = np.array([[1, 0], [0, 0]]) + np.outer([h * root, 1], kick)
    of_noise = np.outer([h * root, 1], [h * root, 1])
    variance = 2 * h * friction * root**2 + (h * root) ** 2 * noise
    return linalg.solve_discrete_lyapunov(move, variance * of_noise)[1, 1] - 1


def lognormal(temperature):
    """log x is N(0, T I), of minibatches with the noise of the others."""
    return Minibatch(
        FunctionModel(
            lambda x: -temperature * jnp.sum(jnp.log(x)), lambda x, y: LOGLIK(jnp.log(x), y)
        ),
        Uniform(BATCH),
    )


METRIC = np.array([0.5, 1.0, 2.0, 0.25])
TURN = np.linalg.qr(np.arange(16.0).reshape(4, 4) % 5 + np.eye(4))[0]
DENSE = TURN @ np.diag(METRIC) @ TURN.T
ALL = np.mean(langevin(0.4 * METRIC))
CLEAN = np.mean(langevin(0.4 * METRIC, 0.0))
TELL = {"reduce": lambda state, info: info.excess_temperature}
CASES = {
    "sgld": (sgld(NOISY, 0.5), langevin(0.5)),
    "sgld, wide": (sgld(NOISY, 0.5 / SCALE**2, space=WIDE), langevin(0.5)),
    "sgld, cold": (sgld(NOISY, 0.5, temperature=0.5), langevin(0.5, NOISE / 0.5)),
    "sgld, corrected": (sgld(NOISY, 0.5, noise_covariance=NOISE), langevin(0.5, 0.0)),
    "sgld, by a diagonal": (
        sgld(NOISY, 0.5, noise_covariance=jnp.full(4, NOISE)),
        langevin(0.5, 0.0),
    ),
    "sgld, by a matrix": (
        sgld(NOISY, 0.5, noise_covariance=NOISE * jnp.eye(4)),
        langevin(0.5, 0.0),
    ),
    "sghmc": (sghmc(NOISY, 0.1, 1.0), 0.1 * NOISE / 2),
    "sghmc, wide": (sghmc(NOISY, 0.1 / SCALE, SCALE, space=WIDE), 0.1 * NOISE / 2),
    "sghmc, cold": (sghmc(NOISY, 0.1, 1.0, temperature=0.5), 0.1 * NOISE),
    "sghmc, exact": (sghmc(EXACT, 0.1, 1.0), 0.0),
    "sgnht": (sgnht(NOISY, 0.1, 1.0), 0.0),
    "psgld": (psgld(NOISY, 0.5, decay=0.9, epsilon=1.0, freeze_after=50), preconditioned),
    "sgrld": (sgrld(NOISY, lambda x: METRIC, 0.4, gamma="diagonal"), ALL),
    "sgrld, dense": (sgrld(NOISY, DENSE, 0.4), ALL),
    "sgrld, factor": (sgrld(NOISY, TURN * np.sqrt(METRIC), 0.4, factor=True), ALL),
    "sgrld, cold": (
        sgrld(NOISY, METRIC, 0.4, temperature=0.5),
        np.mean(langevin(0.4 * METRIC, NOISE / 0.5)),
    ),
    "sgrld, corrected": (sgrld(NOISY, METRIC, 0.4, noise_covariance=NOISE), CLEAN),
    "sgrld, by a matrix": (sgrld(NOISY, DENSE, 0.4, noise_covariance=NOISE), CLEAN),
    "recipe": (recipe(NOISY, 0.7, None, 0.5), langevin(0.35)),
    "sgrhmc": (sgrhmc(NOISY, 4.0, 0.05, 1.0), momenta(0.05, 1.0, 2.0)),
    "mirrored": (mirrored_sgld(lognormal(1.0), 0.5, PositiveMirror()), langevin(0.5)),
    "mirrored, cold": (
        mirrored_sgld(lognormal(0.5), 0.5, PositiveMirror(), temperature=0.5),
        langevin(0.5, NOISE / 0.5),
    ),
}


FAST = ("sgld, wide", "sgld, by a diagonal", "sghmc, cold", "psgld", "sgrld", "mirrored, cold")


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.full) for n in CASES]
)
def test_the_excess_of_the_temperature(name):
    kernel, expected = CASES[name]
    run = excess(kernel, jnp.ones(4), **TELL)
    expected = expected(run) if callable(expected) else expected
    check_law(1 + run.trace.mean - expected, 1.0, 0.02)


def test_a_length_in_other_units_is_seen(monkeypatch):
    monkeypatch.setattr(Euclidean, "squared_norm", lambda self, x, v: jnp.sum(v**2))
    fault_is_seen(test_the_excess_of_the_temperature, "sghmc, wide")


@pytest.mark.full
@pytest.mark.parametrize("name", ["psgld", "sgrld", "recipe", "mirrored, cold"])
def test_a_length_in_the_units_of_the_position_is_seen(name, monkeypatch):
    euclidean = lambda self, phase, h, field: h * jnp.sum(field**2) / (2 * field.size)
    for piece in (PreconditionedLangevin, RecipeEuler, MirroredLangevin):
        monkeypatch.setattr(piece, "excess", euclidean)
    fault_is_seen(test_the_excess_of_the_temperature, name)


LEVEL = {"a": jnp.array([1.0, -2.0, 0.5]), "b": jnp.array([0.3])}
SLOPES = np.array([0.3, 2.0, -1.0, 0.5])
SOME_V = np.array([[2.0, 0.5, 0, 0], [0.5, 1.0, 0, 0], [0, 0, 3.0, 0], [0, 0, 0, 9.0]])
PSD = np.array([[2.0, 0.3, 0, 0], [0.3, 1.0, 0, 0], [0, 0, 0.5, 0], [0, 0, 0, 1.0]])
OF_ONE_STEP = {
    "a number": (sgld, {}, 0.5, np.full(4, 0.5), np.eye(4)),
    "a number a leaf": (sgld, {}, {"a": 2.0, "b": 9.0}, np.array([2.0, 2, 2, 9]), np.eye(4)),
    "a matrix": (sgld, {}, SOME_V, np.linalg.eigvalsh(SOME_V), np.eye(4)),
    "of a metric": (sgrld, {"metric": PSD}, SOME_V, np.full(4, np.sum(PSD * SOME_V) / 4), PSD),
}


@pytest.mark.parametrize("name", OF_ONE_STEP)
def test_what_is_subtracted_cools_a_step(name):
    """`(h g' P g / 2 d - mean(min(h v / 2, T))) / T`, v the eigenvalues of P V, of one step."""
    make, options, given, v, p = OF_ONE_STEP[name]
    flat = FunctionModel(lambda x: jnp.sum(SLOPES[:3] * x["a"]) + SLOPES[3] * x["b"][0])
    h, t = 0.2, 0.6
    make = partial(make, Minibatch(flat, Full()), step_size=lambda count: h, temperature=t)
    kernel = make(noise_covariance=given, **options)
    state = kernel.init(jax.random.key(0), LEVEL, None)
    told = jax.jit(kernel.step)(jax.random.key(1), state, None)[1].excess_temperature
    heat = h * SLOPES @ p @ SLOPES / 8 - np.mean(np.minimum(h * v / 2, t))
    np.testing.assert_allclose(told, heat / t, rtol=1e-5)


def test_one_kernel_of_a_stack_is_told_of():
    """Of five one accepts nothing: the mean over all would hide it."""
    steps = jnp.array([0.1, 0.1, 0.1, 0.1, 5.0])
    kernels = eqx.filter_vmap(lambda h: hmc(EXACT, h, 1))(steps)
    with pytest.warns(UserWarning, match="are accepted"):
        run = sample(jax.random.key(0), kernels, jnp.zeros(4), DATA, num_steps=1_000, kernel_axis=0)
    table = run.summary()
    assert table.acceptance_rate < 0.1 and any("are accepted" in r for r in table.remarks)


class NamedInfo(NamedTuple):
    acceptance: np.ndarray
    energy: np.ndarray | None


NO_DRAWS = {"acceptance": np.zeros((8, 0)), "energy": None}


@pytest.mark.parametrize("reduce", [False, True])
def test_one_chain_that_stands_is_told_of(reduce):
    """One of eight accepts nothing, far out where steps are too long: the mean over all is high."""
    cliff = FunctionModel(lambda x: -0.5 * x**2 - jnp.where(x > 50, jnp.exp(x - 50), 0.0))
    kernel = hmc(Minibatch(cliff, Full()), 0.5, 2)
    starts = jnp.zeros(8).at[5].set(80.0)
    args = {"num_steps": 300, "num_chains": 8, "position_axis": 0, "reduce": reduce}
    with pytest.warns(UserWarning, match="of the proposals of chain 5 0.0% are accepted"):
        run = sample(jax.random.key(0), kernel, starts, None, **args)
    assert run.info.kernel.acceptance.mean() > 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample(jax.random.key(0), kernel, jnp.zeros(8), None, **args)
        sample(jax.random.key(0), kernel, starts, None, **(args | {"num_steps": 150}))
        assert remarks(run.info.kernel._replace(**NO_DRAWS), ("chain", "draw")) == []
    with warnings.catch_warnings(record=True) as said:  # of two that both stand, no others move
        warnings.simplefilter("always")
        both = {"num_steps": 300, "num_chains": 2, "position_axis": None, "reduce": reduce}
        sample(jax.random.key(0), kernel, jnp.array(80.0), None, **both)
    assert not any("others" in str(warning.message) for warning in said)


def test_one_chain_that_stands_in_a_repeat_is_told_of():
    """By all its proposals: of 20 draws of 30 each, and not by a single draw that accepts few."""
    acceptance = np.full((3, 20, 30), 0.9)
    acceptance[1, 4] = 0.0
    steps = lambda x: [NamedInfo(x, None)]
    assert remarks(steps(acceptance), ("chain", "draw")) == []
    assert remarks(steps(np.tile(acceptance, (1, 1, 9))), ("chain", "draw")) == []
    acceptance[1] = 0.01
    (said,) = remarks(steps(acceptance), ("chain", "draw"))
    assert said.startswith("of the proposals of chain 1 1.0% are accepted")
    kernels = np.stack([np.full_like(acceptance, 0.9), acceptance])
    (said,) = remarks(steps(kernels), ("kernel", "chain", "draw"))
    assert said.startswith("of the proposals of chain 1 1.0% are accepted")


def test_energies_in_bfloat16_are_told_and_nothing_is_lost():
    kernel = hmc(Minibatch(FunctionModel(lambda x: -1e3 - 0.5 * x @ x), Full()), 0.3, 3)
    start = jnp.zeros(2, jnp.bfloat16)
    with pytest.warns(UserWarning, match="nats in bfloat16"):
        run = sample(jax.random.key(0), kernel, start, None, num_steps=20)
    assert run.trace.shape == (20, 2) and "bfloat16" in run.summary().remarks[0]


def test_energies_in_whole_numbers_are_exact():
    class Told(NamedTuple):
        energy: np.ndarray

    assert remarks(Told(np.full((4, 9), -(10**9), np.int32)), ("chain", "draw")) == []


def test_a_step_of_size_zero_heats_nothing():
    kernel = sgld(NOISY, lambda step: jnp.where(step < 2, 0.1, 0.0), noise_covariance=1.0)
    run = sample(jax.random.key(0), kernel, jnp.zeros(4), DATA, num_steps=4)
    heat = run.info.excess_temperature
    assert np.all(heat[:2] != 0) and np.all(heat[2:] == 0)


def test_kernels_that_cannot_tell_say_nothing():
    counts = Minibatch(Summand(jnp.full(4, 0.5), lambda x, z: z), Uniform(BATCH))
    turn = np.kron([[0.0, -1.0], [1.0, 0.0]], np.eye(2))
    for kernel in (recipe(NOISY, np.eye(4), turn, 0.1), scir(counts, 0.1)):
        run = sample(jax.random.key(0), kernel, jnp.zeros(4), jnp.abs(DATA), num_steps=8)
        assert run.info.excess_temperature is None and run.summary().excess_temperature is None


HOT, COLD = sgld(NOISY, 0.5), sgld(EXACT, 0.05)
REFUSED = hmc(EXACT, 5.0, 1)


def far(constant):
    """A density whose logarithm is far from 0."""
    model = FunctionModel(lambda x: -constant - 0.5 * x @ x)
    return hmc(Minibatch(model, Full()), 0.5, 1)


@pytest.mark.parametrize(
    "kernel, args, words",
    [
        (HOT, {}, ["% too hot"]),
        (HOT, {"thin": 4}, ["% too hot"]),
        (HOT, {"num_steps": 2_000, "thin": 4}, ["% too hot"]),  # of 500 draws
        (HOT, {"reduce": True}, ["% too hot"]),
        (thin(HOT, 4), {}, ["% too hot"]),
        (cycle(HOT, COLD), {}, ["too hot"]),
        (REFUSED, {}, ["accepted"]),
        (COLD, {}, []),
        (HOT, {"num_steps": 300}, []),  # too few to tell
        (far(3e8), {}, ["known to 4e+01 nats in float32"]),
        (cycle(COLD, thin(far(3e8), 2)), {"thin": 4}, ["known to 4e+01 nats"]),
        (far(3e8), {"num_steps": 8}, ["known to"]),  # which one step tells
        (far(5e5), {}, []),
    ],
)
def test_a_run_says_what_is_wrong_and_what_to_do(kernel, args, words):
    args = {"num_steps": 4_000, "num_chains": 1} | args
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = sample(jax.random.key(0), kernel, jnp.zeros(4), DATA, **args)
    messages = [str(w.message) for w in said]
    assert len(messages) == len(words) and all(w in m for w, m in zip(words, messages)), messages
    if "reduce" not in args and args["num_steps"] > 300:
        remarks = run.summary().remarks
        assert [w for w in words if not any(w in r for r in remarks)] == []


def test_a_summary_tells_the_temperature_and_chains_that_disagree():
    start = jnp.stack([jnp.zeros(4), jnp.full(4, 50.0)])
    args = {"num_steps": 200, "num_chains": 2, "position_axis": 0}
    run = sample(jax.random.key(0), sgld(EXACT, 1e-3), start, DATA, **args)
    text = str(run.summary())
    assert "excess temperature" in text.splitlines()[0]
    assert text.splitlines()[1].startswith("! R-hat is ")
    assert "effective draws: its figures are rough" in text


def test_infos_that_tell_nothing_have_no_means():
    assert means({"a": 1.0, "b": None}, "excess_temperature", ("draw",)) == []
