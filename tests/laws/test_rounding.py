"""In float32 what is smaller than the rounding of a number still counts, on average or in sum."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    EmpiricalFisher,
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    Sphere,
    Splitting,
    Uniform,
    cycle,
    draw,
    gibbs,
    psgld,
    recipe,
    repeat,
    sample,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    thin,
)
from sgmc_jax.processes import NegativeBinomial
from sgmc_jax.random import accept, cir
from sgmc_jax.transitions import (
    FrictionMatrix,
    GeodesicFlow,
    GradientKick,
    MatrixOrnsteinUhlenbeck,
    NoiseCovariance,
    OrnsteinUhlenbeck,
    Phase,
    PreconditionedLangevin,
    Thermostat,
)

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


FULL, SD, MANY = pytest.mark.full, 1e-3, 2_000
FAR = Minibatch(FunctionModel(lambda x: -0.5 * jnp.sum(((x - 1000.0) / SD) ** 2)), Full())
WRAPS = {
    "alone": lambda kernel: kernel,
    "thin": lambda kernel: thin(kernel, 3),
    "repeat": lambda kernel: repeat(kernel, 3),
    "cycle": lambda kernel: cycle(kernel, sgld(FAR, 1e-3 * SD**2)),
    "gibbs": lambda kernel: gibbs(x=lambda rest: kernel, y=lambda rest: draw(one_normal)),
}


def one_normal(key, data):
    return jax.random.normal(key)


@pytest.mark.parametrize("make", [sghmc, sgnht])
@pytest.mark.parametrize("share", [0.025, 0.005])
@pytest.mark.parametrize("wrap", ["alone", *(pytest.param(w, marks=FULL) for w in list(WRAPS)[1:])])
def test_moves_below_the_rounding_of_a_position_add_up(wrap, make, share):
    """A deviation of 16 roundings, of which a step moves a share: .47 and 0 of the variance where
    each move is rounded by itself."""
    kernel, start = WRAPS[wrap](make(FAR, share * SD, 1 / SD)), jnp.full(MANY, 1000.0)
    start = {"x": start, "y": jnp.zeros(())} if wrap == "gibbs" else start
    run = sample(KEY, kernel, start, None, num_steps=4_000, thin=4_000)
    x = np.asarray(run.trace["x"] if wrap == "gibbs" else run.trace, np.float64)[-1]
    assert abs(np.mean((x - 1000.0) ** 2) / SD**2 - 1) < 5.5 * np.sqrt(2 / MANY)


def test_a_word_that_keeps_no_rest_is_another_kernel():
    """Runs of each go on with the other, at their positions."""
    pieces = {"A": GeodesicFlow(), "B": GradientKick(), "O": OrnsteinUhlenbeck(1 / SD)}
    plain, kept = Splitting("ABOBA", pieces, FAR, 0.1 * SD), sghmc(FAR, 0.1 * SD, 1 / SD)
    for first, then in ((plain, kept), (kept, plain)):
        run = sample(KEY, first, jnp.full(2, 1000.0), None, num_steps=3)
        on = sample(KEY, then, run, None, num_steps=2)
        assert len(on.trace) == 2 and np.all(np.abs(on.trace - run.trace[-1]) < SD)


def test_a_rest_that_another_kernel_has_left_behind_is_let_go():
    piece = GeodesicFlow(keeps_rest=True)
    rest = {"position_rest": jnp.full(2, 5e-4)}
    phase = Phase(jnp.array([2e4, 1.0]), momentum=jnp.zeros(2), auxiliary=rest)
    moved = piece(None, phase, jnp.float32(0.1), None)
    np.testing.assert_array_equal(moved.auxiliary["position_rest"], np.float32([5e-4, 0.0]))
    np.testing.assert_array_equal(moved.position, phase.position)


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


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize(
    "piece", [OrnsteinUhlenbeck(1.0), MatrixOrnsteinUhlenbeck(FrictionMatrix(np.eye(1)))]
)
def test_friction_and_noise_in_half_precision(piece, dtype):
    """exp(-C h) is 1 there: momenta of 4,000 steps with C h = 1e-3 would be those of the start."""
    num = 1_000
    phase = Phase(jnp.zeros((num, 1), dtype), momentum=jnp.full((num, 1), 3.0, dtype))
    one = lambda key, phase: piece(key, phase, jnp.float32(1e-3), None)
    keys = lambda i: jax.random.split(jax.random.fold_in(KEY, i), num)
    turn = lambda i, phase: jax.vmap(one)(keys(i), phase)._replace(clipped=None)
    v = jax.jit(lambda phase: jax.lax.fori_loop(0, 4_000, turn, phase))(phase).momentum
    assert v.dtype == dtype
    v = np.asarray(v, np.float64)
    decay = np.exp(-4.0)
    assert abs(v.mean() - 3 * decay) < 5.5 / np.sqrt(num)
    assert abs(v.var() - (1 - decay**2)) < 5.5 * np.sqrt(2 / num)


HALF = jnp.array([0.5, -0.5], jnp.bfloat16)
NORMAL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, y: -0.5 * (y - x) @ (y - x))
FIT = Minibatch(NORMAL, Full())
V = np.array([[0.3, 0.1], [0.1, 0.2]], np.float32)
TAUGHT = EmpiricalFisher(replace(FIT, batcher=Uniform(2)), full=True)
STEEP = lambda x: jnp.diag(1 + x**2)
IN_HALF = {
    "psgld": lambda: psgld(FIT, 1e-3, noise_covariance=V),
    "psgld, V estimated": lambda: psgld(TAUGHT, 1e-3),
    "sgrhmc, a matrix": lambda: sgrhmc(FIT, STEEP, 1e-2),
    "sgrhmc, V": lambda: sgrhmc(FIT, STEEP, 1e-2, noise_covariance=V),
    "sgrld, V": lambda: sgrld(FIT, STEEP, 1e-2, noise_covariance=V),
    "matrix friction, V estimated": lambda: sghmc(TAUGHT, 1e-2, np.eye(2, dtype="f"), word="EA"),
    "matrix friction": lambda: sggmc(FIT, Sphere(), 1e-2, np.eye(2, dtype="f")),
}


@pytest.mark.parametrize("name", IN_HALF)
def test_kernels_in_half_precision(name):
    y = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)), jnp.bfloat16)
    start = jnp.array([1.0, 0.0], jnp.bfloat16) if "friction" in name else HALF
    run = sample(KEY, IN_HALF[name](), start, y, num_steps=5)
    assert run.trace.dtype == jnp.bfloat16 and np.all(run.info.finite) and np.ptp(run.trace) > 0


def test_a_preconditioner_in_half_precision_goes_on_learning():
    """A decay of .999 is 1 there, and 300 squared no number."""
    letter = PreconditionedLangevin(0.999, 1e-5)
    phase = Phase(jnp.zeros(1, jnp.float16), auxiliary=letter.auxiliary(jnp.zeros(1, jnp.float16)))
    turn = lambda phase, g: letter(KEY, phase, jnp.float32(1e-4), jnp.full(1, g, jnp.float16))
    phase = turn(turn(phase, 300.0), 10.0)
    found = float(phase.auxiliary["mean_square"][0])
    assert phase.position.dtype == jnp.float16
    assert abs(found / (0.999 * 300.0**2 + 0.001 * 10.0**2) - 1) < 1e-5


def test_noise_that_is_subtracted_by_a_recipe_in_half_precision():
    V, h = 8e3, 1.5e-4
    piece = recipe(FIT, 1.0, None, h, noise_covariance=V).pieces["Z"]
    x = jnp.zeros(200_000, jnp.float16)
    moved = piece(KEY, Phase(x), jnp.float32(h), x).position
    exact = 2 * h - h**2 * V
    assert abs(np.asarray(moved, float).var() / exact - 1) < 5.5 * np.sqrt(2 / 200_000) < 0.05


def test_noise_that_is_subtracted_in_half_precision():
    """h^2 is nothing in float16."""
    V, h = 1e5, 1.5e-4
    piece = OrnsteinUhlenbeck(100.0, noise_covariance=NoiseCovariance(V))
    phase = Phase(jnp.zeros(200_000, jnp.float16), momentum=jnp.zeros(200_000, jnp.float16))
    v = np.asarray(piece(KEY, phase, jnp.float32(h), None).momentum, np.float64)
    exact = -np.expm1(-2 * 100 * h) - ((1 + np.exp(-100 * h)) * h / 2) ** 2 * V
    assert abs(v.var() / exact - 1) < 5.5 * np.sqrt(2 / 200_000) < 0.05


def test_small_ratios_in_half_precision():
    """A uniform number of bfloat16 has 128 values."""
    ratio = jnp.full(400_000, -6.0, jnp.bfloat16)
    share = np.mean(accept(KEY, ratio))
    assert abs(share - np.exp(-6)) < 5.5 * np.sqrt(np.exp(-6) / 400_000)
