"""A run that goes on from another: bit for bit where target and data are the same."""

import pickle
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from sgmc_jax import (
    SAGA,
    SVRG,
    AllReduce,
    ControlVariate,
    EmpiricalFisher,
    Epoch,
    Full,
    FunctionModel,
    Given,
    Kernel,
    Keys,
    Minibatch,
    Uniform,
    Vmap,
    cycle,
    draw,
    hmc,
    mala,
    psgld,
    repeat,
    sample,
    scan_kernel,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.runner import chains, programs
from tests.composition.slots import BirthAndDeath, X

KEY = jax.random.key(0)


class Counter(NamedTuple):
    position: jax.Array


Y = jax.random.normal(jax.random.key(1), (100,))
MODEL = FunctionModel(lambda x: -0.005 * x**2, lambda x, y: -0.5 * (y - x) ** 2)


def anchored(centre, step_size=1e-3):
    return sgld(ControlVariate(Minibatch(MODEL, Uniform(10)), jnp.asarray(centre)), step_size)


def mean(y):
    return float(y.sum() / (len(y) + 0.01))


KERNELS = {
    "control variate": anchored(0.0),
    "svrg": sgld(SVRG(Minibatch(MODEL, Uniform(10)), 10_000), 1e-3),
    "saga": sgld(SAGA(Minibatch(MODEL, Uniform(10))), 1e-3),
    "inside-repeat": repeat(anchored(0.0), 3),
}


@pytest.mark.parametrize("name", KERNELS)
def test_other_data_are_the_target_from_the_first_step_on(name):
    """The sums kept of the old data would shift the mean by half of what two is away."""
    before = sample(KEY, KERNELS[name], jnp.zeros(()), Y, num_steps=50)
    more = jnp.concatenate([Y, Y + 2.0])
    run = sample(KEY, KERNELS[name], before, more, num_steps=3_000, burn_in=100)
    assert abs(run.trace.mean() - mean(more)) < 0.02


def test_another_centre_too():
    before = sample(KEY, anchored(0.0), jnp.zeros(()), Y, num_steps=50)
    run = sample(KEY, anchored(1.0), before, Y, num_steps=3_000, burn_in=100)
    assert abs(run.trace.mean() - mean(Y)) < 0.03


def test_a_metropolis_test_compares_with_the_density_of_the_new_data():
    before = sample(KEY, mala(Minibatch(MODEL, Full()), 5e-3), jnp.zeros(()), Y, num_steps=50)
    more = jnp.concatenate([Y, Y + 0.3, Y - 5, Y + 5])
    run = sample(KEY, mala(Minibatch(MODEL, Full()), 5e-4), before, more, num_steps=200)
    assert run.info.acceptance.mean() > 0.9


def test_without_it_the_old_target_stays(monkeypatch):
    monkeypatch.setattr("sgmc_jax.runner.made_with.MadeWith.agrees", lambda self, other: True)
    before = sample(KEY, anchored(0.0), jnp.zeros(()), Y, num_steps=50)
    more = jnp.concatenate([Y, Y + 2.0])
    run = sample(KEY, anchored(0.0), before, more, num_steps=3_000, burn_in=100)
    assert abs(run.trace.mean() - mean(more)) > 0.5


@pytest.mark.parametrize("copy", [lambda y: y, np.array, jnp.array], ids=["same", "numpy", "jax"])
def test_the_same_data_are_gone_on_with_bit_for_bit(copy):
    kernel, args = KERNELS["saga"], {"num_chains": 3}
    whole = sample(KEY, kernel, jnp.zeros(()), Y, num_steps=30, **args)
    half = sample(KEY, kernel, jnp.zeros(()), Y, num_steps=15, **args)
    again = sample(
        KEY, sgld(SAGA(Minibatch(MODEL, Uniform(10))), 1e-3), half, copy(Y), **args, num_steps=15
    )
    assert np.array_equal(half.extend(again).trace, whole.trace)


def test_a_run_that_was_pickled_goes_on():
    kernel = KERNELS["saga"]
    half = sample(KEY, kernel, jnp.zeros(()), Y, num_steps=15)
    restored = pickle.loads(pickle.dumps(half.made_with))
    assert restored.agrees(half.made_with) and half.made_with.agrees(restored)
    assert half.made_with.parts is not None and restored.parts is None


@pytest.mark.parametrize("through", [lambda run: run, lambda run: pickle.loads(pickle.dumps(run))])
def test_a_kernel_that_is_made_again_is_the_same(through):
    """As when a cell of a notebook is run again; its momenta are gone on with."""

    def make(mean=0.0):
        model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (x - y - mean) ** 2)
        return sghmc(SAGA(Minibatch(model, Uniform(10))), 1e-2)

    whole = sample(KEY, make(), jnp.zeros(()), Y, num_steps=30)
    half = sample(KEY, make(), jnp.zeros(()), Y, num_steps=15)
    args = {"num_steps": 15}
    assert np.array_equal(sample(KEY, make(), through(half), Y, **args).trace, whole.trace[15:])
    other = sample(KEY, make(2.0), through(half), Y, **args)
    assert not np.array_equal(other.trace, whole.trace[15:])
    assert not other.made_with.agrees(through(half).made_with)


def test_other_data_are_seen_of_a_run_that_was_pickled():
    before = sample(KEY, anchored(0.0), jnp.zeros(()), Y, num_steps=50)
    more = jnp.concatenate([Y, Y + 2.0])
    before = pickle.loads(pickle.dumps(before))
    run = sample(KEY, anchored(0.0), before, more, num_steps=3_000, burn_in=100)
    assert abs(run.trace.mean() - mean(more)) < 0.02


@pytest.mark.parametrize("wrap", [lambda kernel: kernel, lambda kernel: cycle(kernel, kernel)])
def test_a_run_at_its_positions_begins_at_its_own_temperature(wrap):
    """From 100 down to 1, long before a chain goes on with another gradient."""
    cools = lambda i: jnp.where(i < 20, 100.0, 1.0)
    make = lambda scale: wrap(
        sghmc(
            Minibatch(FunctionModel(lambda x: -0.5 * scale * x @ x), Full()),
            1e-6,
            temperature=cools,
        )
    )
    before = sample(KEY, make(1.0), jnp.zeros(4_000), None, num_steps=30)
    state = sample(KEY, make(2.0), before, None, num_steps=1).state
    own = state if hasattr(state, "momentum") else state.states[0]
    assert abs(np.mean(own.momentum**2) - 1) < 0.2 and own.temperature == 1


def test_an_init_of_ones_own_may_take_its_key_for_one_of_jaxs():
    kernel = lambda scale: Kernel.from_functions(
        lambda key, position, data: Counter(position + scale * jax.random.normal(key)),
        lambda key, state, data: (state, None),
    )
    before = sample(KEY, kernel(0.0), jnp.zeros(()), None, num_steps=2)
    assert sample(KEY, kernel(1.0), before, None, num_steps=1).trace[0] != 0


class Failing(Kernel):
    """Whose `init` fails where it is given `Keys`, in its own words or as JAX does."""

    scale: jax.Array
    own: bool = eqx.field(static=True)

    def init(self, key, position, data):
        if self.own and isinstance(key, Keys):
            raise TypeError("a fault of its own")
        return Counter(position + self.scale * jax.random.normal(key))

    def step(self, key, state, data):
        return state, None


def test_an_error_of_an_init_of_ones_own_is_told_as_it_is():
    """It was asked again with another key, and what was told was a second failure, or none."""
    make = lambda scale, own: Failing(jnp.asarray(scale), own)
    before = sample(KEY, make(0.0, False), jnp.zeros(()), None, num_steps=2)
    with pytest.raises(TypeError, match="a fault of its own"):
        sample(KEY, make(1.0, True), before, None, num_steps=1)
    assert sample(KEY, make(1.0, False), before, None, num_steps=1).trace[0] != 0


def test_a_frame_of_several_kinds_is_gone_on_with():
    frame = pd.DataFrame({"x": np.arange(4.0), "on": [True, False, True, True]})
    model = FunctionModel(lambda x: -0.5 * x**2, lambda x, row: -0.5 * (x - row[0]) ** 2)
    kernel = sgld(SAGA(Minibatch(model, Uniform(2))), 1e-2)
    whole = sample(KEY, kernel, jnp.zeros(()), frame, num_steps=10)
    half = sample(KEY, kernel, jnp.zeros(()), frame, num_steps=5)
    again = sample(KEY, kernel, half, frame.copy(), num_steps=5)
    assert np.array_equal(again.trace, whole.trace[5:])


def test_another_step_size_is_no_other_target():
    """A table that cannot be drawn anew is gone on with."""
    half = sample(KEY, anchored(0.0), jnp.zeros(()), Y, num_steps=5)
    run = sample(KEY, anchored(0.0, 2e-3), half, Y, num_steps=5)
    assert run.made_with.agrees(half.made_with)


def test_nor_is_it_inside_of_a_combinator():
    """A thermostat that began anew would be at 1."""
    grad, exact = Minibatch(MODEL, Uniform(10)), Minibatch(MODEL, Full())
    make = lambda h: cycle(sgnht(grad, h), sgld(grad, h / 100))
    half = sample(KEY, make(0.02), jnp.zeros(()), Y, num_steps=200)
    run = sample(KEY, make(0.01), half, Y, num_steps=1)
    before, after = (float(x.state.states[0].auxiliary["thermostat"]) for x in (half, run))
    assert before > 2 and abs(after - before) < 0.5
    assert eqx.tree_equal(mala(exact, 0.1).made_with(), mala(exact, 0.2).made_with())


EXACT = Minibatch(FunctionModel(lambda x: -0.5 * x**2), Full())
SAMPLERS = {
    "sgld": sgld(EXACT, 0.1),
    "sghmc": sghmc(EXACT, 0.1, 1.0),
    "baoab": sghmc(EXACT, 0.1, 1.0, word="BAOAB"),
    "sgnht": sgnht(EXACT, 0.1, 5.0),
    "psgld": psgld(EXACT, 0.1),
    "mala": mala(EXACT, 0.1),
    "hmc": hmc(EXACT, 0.1, 3),
    "cycle": cycle(sgld(EXACT, 0.1), sghmc(EXACT, 0.1, 1.0)),
}


@pytest.mark.parametrize("second", SAMPLERS)
@pytest.mark.parametrize("first", SAMPLERS)
def test_another_sampler_of_the_same_gradient_takes_the_positions_alone(first, second):
    """What one sampler keeps besides them, such as a momentum, is nothing to the other."""
    before = sample(KEY, SAMPLERS[first], jnp.full((), 30.0), None, num_steps=2)
    fresh = sample(KEY, SAMPLERS[second], jnp.ones(()), None, num_steps=2)
    run = sample(KEY, SAMPLERS[second], before, None, num_steps=2)
    assert jax.tree.structure(run.state) == jax.tree.structure(fresh.state)
    same = first == second or {first, second} == {"mala", "hmc"}  # one step, and several
    assert run.made_with.agrees(before.made_with) == same
    assert before.trace[-1] > 20 and run.trace[0] > 0.7 * before.trace[-1]


@pytest.mark.parametrize("same", [False, True])
def test_a_thermostat_is_no_friction_of_another_sampler(same, monkeypatch):
    """Else it stays at some 5, where the noise is that of a friction of 1: too cold by far."""
    before = sample(KEY, SAMPLERS["sgnht"], jnp.zeros(()), None, num_steps=100, num_chains=256)
    if same:
        monkeypatch.setattr("sgmc_jax.runner.made_with.MadeWith.agrees", lambda self, other: True)
    kernel = sghmc(EXACT, 0.1, 1.0, word="EA")
    args = {"num_steps": 400, "burn_in": 100, "num_chains": 256, "reduce": True}
    run = sample(KEY, kernel, before, None, **args)
    variance = np.mean(run.trace.variance + run.trace.mean**2)
    assert (abs(variance - 1) < 0.1) != same


def test_a_chain_that_stopped_goes_on_towards_another_target():
    """From where it last was finite; towards its own it stays, and is told so."""
    normal = lambda most: Minibatch(
        FunctionModel(lambda x: -0.5 * x**2 * jnp.where(x < most, 1.0, jnp.nan)), Full()
    )
    args = {"num_steps": 100, "num_chains": 2, "position_axis": 0}
    with pytest.warns(UserWarning, match="chain 1 at step 0: its step size may be too large"):
        first = sample(KEY, sgld(normal(1e2), 0.3), jnp.array([0.0, 5e2]), None, **args)
    with pytest.warns(UserWarning, match="chain 1 at step 0 of an earlier run, and stays so"):
        same = sample(KEY, sgld(normal(1e2), 0.1), first, None, num_steps=100)
    assert same.stopped.tolist() == [-1, 0] and np.ptp(same.trace[1]) == 0
    other = sample(KEY, sgld(normal(1e3), 0.3), first, None, num_steps=100)
    assert other.stopped.tolist() == [-1, -1] and np.abs(other.trace[:, -1]).max() < 6


def test_other_numbers_of_chains_are_refused():
    half = sample(KEY, anchored(0.0), jnp.zeros(()), Y, num_steps=5, num_chains=4)
    with pytest.raises(ValueError, match="num_chains must be 4, those of the run.*got 8"):
        sample(KEY, anchored(0.0), half, Y, num_steps=5, num_chains=8)


@pytest.mark.parametrize("options", [{}, {"chains_at_once": 2}, {"engine": Vmap(2, over="chains")}])
def test_the_number_of_chains_is_that_of_the_run(options):
    kernel = anchored(0.0)
    half = sample(KEY, kernel, jnp.zeros(()), Y, num_steps=5, num_chains=4)
    unsaid = sample(KEY, kernel, half, Y, num_steps=5, **options)
    said = sample(KEY, kernel, half, Y, num_steps=5, num_chains=4, **options)
    assert unsaid.axes == ("chain", "draw") and half.extend(unsaid).trace.shape == (4, 10)
    np.testing.assert_array_equal(unsaid.trace, said.trace)
    one = sample(KEY, kernel, jnp.zeros(()), Y, num_steps=5)
    assert sample(KEY, kernel, one, Y, num_steps=5).axes == ("draw",)
    with pytest.raises(ValueError, match="chains_at_once needs num_chains"):
        sample(KEY, kernel, one, Y, num_steps=5, chains_at_once=1)


@pytest.mark.parametrize("traced", [False, True])
def test_a_loop_that_goes_on_counts_on(traced):
    """By the count go the places in an epoch, and the step sizes."""
    kernel = sgld(Minibatch(MODEL, Epoch(30)), lambda count: 1e-3 / (1 + count))
    begun = kernel.init(KEY, jnp.zeros(()), Y)
    _, whole = scan_kernel(KEY, kernel, begun, Y, 10)
    half, first = scan_kernel(KEY, kernel, begun, Y, 5)
    loop = lambda at: scan_kernel(KEY, kernel, half, Y, 5, first_step=at)[1]
    rest, again = (jax.jit(loop) if traced else loop)(5), loop(0)
    assert np.allclose(np.concatenate([first, rest]), whole, rtol=1e-6)
    assert not np.allclose(again, whole[5:], rtol=1e-3)


@pytest.mark.parametrize("at", [-1, 0.5, jnp.zeros(2, int), True, None])
def test_a_first_step_that_is_no_index(at):
    begun = KERNELS["svrg"].init(KEY, jnp.zeros(()), Y)
    with pytest.raises(ValueError, match="first_step must be a whole number of at least 0"):
        scan_kernel(KEY, KERNELS["svrg"], begun, Y, 5, first_step=at)


# -------------------------------------------------------------------------------- streams

STREAMED = sgld(Minibatch(MODEL, Given(100)), 1e-2)


def batches(num):
    return iter([np.full(4, i, np.float32) for i in range(num)])


def test_a_run_that_went_on_is_resumed_at_its_own_batch(tmp_path):
    """Its iterator begins with it, not with the run before."""
    first = sample(KEY, STREAMED, jnp.zeros(()), batches(10), num_steps=10)
    whole = sample(KEY, STREAMED, first, batches(40), num_steps=20)
    sample(KEY, STREAMED, first, batches(40), num_steps=10, checkpoint=tmp_path)
    run = sample(KEY, STREAMED, first, batches(40), num_steps=20, checkpoint=tmp_path)
    assert np.array_equal(run.trace, whole.trace)
    with pytest.raises(ValueError, match="the 20 batches that the checkpoint's run has used"):
        sample(KEY, STREAMED, first, batches(15), num_steps=30, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="another run, with another position"):
        sample(KEY, STREAMED, run, batches(40), num_steps=20, checkpoint=tmp_path)


@pytest.mark.parametrize("first,others", [(3, 4), (3, 5), (4, 3)])
def test_batches_longer_than_the_first_on_shards(first, others):
    kernel = sgld(AllReduce(Minibatch(MODEL, Given(100))), 1e-3)
    data = lambda i: np.arange(first if i == 0 else others, dtype=np.float32) ** 2
    args = {"num_steps": 12, "chunk": 4}
    alone = sample(KEY, kernel, jnp.zeros(()), data, **args)
    shards = sample(KEY, kernel, jnp.zeros(()), data, **args, engine=Vmap(2, over="data"))
    np.testing.assert_allclose(shards.trace, alone.trace, rtol=1e-5)


# ------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("wrap", [lambda g: g, AllReduce, lambda g: ControlVariate(g, 0.0)])
def test_noise_that_adds_up_to_nothing_is_not_subtracted(wrap):
    """That of an epoch: a chain from which its covariance is taken has half of the variance."""
    grad = wrap(Minibatch(MODEL, Epoch(10)))
    sgld(grad, 1e-3)
    for make in (
        lambda: sgld(grad, 1e-3, noise_covariance=900.0),
        lambda: sghmc(EmpiricalFisher(grad), 1e-3, 1.0),
    ):
        with pytest.raises(ValueError, match="batches that depend on those of earlier steps"):
            make()


def test_variances_of_a_matrix_of_parameters():
    """An array that is not square is one like the position; of square ones a message tells more."""
    model = FunctionModel(lambda x: -0.5 * jnp.sum(x**2))
    start, grad = jnp.zeros((3, 2)), Minibatch(model, Full())
    sample(KEY, sgld(grad, 0.1, noise_covariance=jnp.ones((3, 2))), start, None, num_steps=2)
    wrong = sgld(grad, 0.1, noise_covariance=jnp.eye(3))
    with pytest.raises(ValueError, match="let both be in a dict"):
        sample(KEY, wrong, jnp.zeros((3, 3)), None, num_steps=2)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_moments_of_positions_in_half_precision(dtype):
    """Squares of 300 are no numbers of float16, nor is a share of 1 in 20,000 one beside them."""
    kernel = draw(lambda key, data: (300 * jax.random.normal(key)).astype(dtype))
    made = sample(KEY, kernel, jnp.zeros((), dtype), None, num_steps=20_000, reduce=True)
    assert made.trace.variance.dtype == np.float32
    assert abs(made.trace.variance / 9e4 - 1) < 0.06 and abs(made.trace.mean) < 12


def test_what_weighs_nothing_may_be_infinite():
    """In the burn-in, say."""
    kernel = Kernel.from_functions(
        lambda key, position, data: Counter(position),
        lambda key, state, data: (Counter(state.position + 1), None),
    )
    reduce = lambda state, info: jnp.where(state.position < 5, jnp.nan, state.position)
    moments = sample(KEY, kernel, jnp.zeros(()), None, num_steps=10, burn_in=5, reduce=reduce).trace
    assert moments.weight == 5 and moments.mean == 8.0


# --------------------------------------------------------------------------------- growth


@pytest.mark.parametrize("chunk", [None, 40])
def test_a_chunk_that_fills_its_buffers_is_made_again_whole(chunk, monkeypatch):
    """Draws are larger after growth, and the buffers would hold fewer of them."""
    monkeypatch.setattr(chains, "_BUFFER_BYTES", 2_000)
    few, many = (
        sample(KEY, BirthAndDeath(capacity), None, X, num_steps=120, chunk=chunk)
        for capacity in (4, 64)
    )
    assert few.capacity > 4
    assert np.array_equal(few.info.active, many.info.active)


@pytest.mark.parametrize("capacity", [4, 32, 64])
def test_another_capacity_changes_no_chain(capacity):
    """A run goes on under it bit for bit, and with as many slots as are asked for."""
    first = sample(KEY, BirthAndDeath(32), None, X, num_steps=30)
    alone = sample(KEY, BirthAndDeath(32), first, X, num_steps=30)
    other = sample(KEY, BirthAndDeath(capacity), first, X, num_steps=30)
    assert np.array_equal(alone.info.active, other.info.active)
    assert other.capacity == max(capacity, 32)


class AtLeastTwo(BirthAndDeath):
    def __check_init__(self):
        if self.capacity < 2:
            raise ValueError(f"capacity must be 2 at least, got {self.capacity}")


def test_a_kernel_may_need_several_slots():
    first = sample(KEY, AtLeastTwo(32), None, X, num_steps=30)
    rest = sample(KEY, AtLeastTwo(32), first, X, num_steps=30)
    alone = sample(KEY, BirthAndDeath(32), None, X, num_steps=60)
    assert np.array_equal(np.append(first.info.active, rest.info.active), alone.info.active)


def test_growth_compiles_once(monkeypatch):
    made, before = [], programs.growth.cache_info()
    assert before.maxsize
    monkeypatch.setattr(chains, "growth", lambda *args: made.append(args) or programs.growth(*args))
    kernel, args = BirthAndDeath(4), {"num_steps": 120, "chunk": 120}
    runs = [sample(KEY, kernel, None, X, **args) for _ in range(2)]
    assert runs[0].capacity == runs[1].capacity > 4
    assert programs.growth.cache_info().misses - before.misses == len(made) // 2
