"""Kernels driven by hand: what a caller writes without `sample`, and what a step is told."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    SVRG,
    AllReduce,
    ControlVariate,
    EmpiricalFisher,
    Full,
    FunctionModel,
    Kernel,
    Keys,
    Minibatch,
    Uniform,
    Vmap,
    as_keys,
    cycle,
    find_mode,
    full_pass,
    gibbs,
    hmc,
    mala,
    optimal_probabilities,
    repeat,
    sample,
    scan_kernel,
    sgld,
    thin,
)
from sgmc_jax.batching import neyman_sizes
from tests.laws.moments import check_mean

KEY = jax.random.key(0)
NORMAL = FunctionModel(lambda x: -0.5 * sum(jnp.sum(jnp.square(y)) for y in jax.tree.leaves(x)))
ITEMS = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
DATA = jnp.arange(8.0)
KERNELS = {
    "sgld": sgld(Minibatch(NORMAL, Full()), 0.1),
    "hmc": hmc(Minibatch(NORMAL, Full()), 0.1, 3),
    "cycle": cycle(sgld(Minibatch(NORMAL, Full()), 0.1), mala(Minibatch(NORMAL, Full()), 0.1)),
}


@pytest.mark.parametrize("start", [np.zeros(3), 0.0, np.float64(1.0), [np.ones(2), 0.5]], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_positions_of_numpy_and_of_python(name, start):
    kernel = KERNELS[name]
    state = kernel.init(KEY, start, None)
    moved, _ = kernel.step(KEY, state, None)
    assert jax.tree.structure(moved) == jax.tree.structure(state)
    assert all(jnp.result_type(x) == jnp.float32 for x in jax.tree.leaves(moved.position))


@pytest.mark.parametrize("name", KERNELS)
def test_the_index_of_a_step_is_any_whole_number(name):
    kernel, two = KERNELS[name], jax.random.split(KEY)
    state = kernel.init(KEY, jnp.zeros(3), None)
    one, _ = kernel.step(Keys(*two, 3), state, None)
    other, _ = kernel.step(Keys(*two, jnp.asarray(3)), state, None)
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("name", KERNELS)
def test_methods_under_jit(name):
    """Its arrays are compared where their shapes agree: another step size is another program."""
    kernel = KERNELS[name]
    state = jax.jit(kernel.init)(KEY, jnp.ones(3), None)
    moved, _ = jax.jit(kernel.step)(KEY, state, None)
    expected, _ = kernel.step(KEY, state, None)
    np.testing.assert_allclose(moved.position, expected.position, rtol=1e-5)
    init, step = kernel
    again, _ = jax.jit(step)(KEY, jax.jit(init)(KEY, jnp.ones(3), None), None)
    np.testing.assert_array_equal(again.position, moved.position)


def test_methods_of_kernels_that_differ_in_a_number():
    grad = Minibatch(NORMAL, Full())
    moved = []
    for step_size in (0.1, 0.2, 0.1):
        kernel = sgld(grad, step_size)
        state = kernel.init(KEY, jnp.ones(3), None)
        moved.append(jax.jit(kernel.step)(KEY, state, None)[0].position)
    assert np.all(moved[0] == moved[2]) and np.all(moved[0] != moved[1])


class Cached(NamedTuple):
    position: Any
    logdensity: Any


def metropolis(refresh=None):
    """A random walk of blackjax's shape: its state knows the density of its position."""
    log = lambda x, data: -0.5 * x**2

    def init(key, position, data):
        return Cached(position, log(position, data))

    def step(key, state, data):
        walk_key, test_key = jax.random.split(key)
        new = state.position + 2.0 * jax.random.normal(walk_key)
        density = log(new, data)
        taken = jnp.log(jax.random.uniform(test_key)) < density - state.logdensity
        return jax.tree.map(partial(jnp.where, taken), Cached(new, density), state), None

    return Kernel.from_functions(init, step, *([] if refresh is None else [refresh]))


def variance_in_turns(kernel):
    other = hmc(Minibatch(NORMAL, Full()), 1.0, 2)
    args = {"num_chains": 256, "num_steps": 1_000, "burn_in": 100, "reduce": True}
    moments = sample(KEY, cycle(kernel, other), jnp.zeros(()), None, **args).trace
    return moments.mean, moments.variance + moments.mean**2


def test_what_a_state_of_ones_own_keeps_is_made_anew_in_a_cycle():
    check_mean(np.stack(variance_in_turns(metropolis()), -1), [0.0, 1.0], 0.04)
    anew = lambda key, state, data: Cached(state.position, -0.5 * state.position**2)
    check_mean(np.stack(variance_in_turns(metropolis(anew)), -1), [0.0, 1.0], 0.04)


def test_a_state_that_is_left_as_it_is_is_seen():
    stale = metropolis(lambda key, state, data: state)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(np.stack(variance_in_turns(stale), -1), [0.0, 1.0], 0.04)


class Told(Kernel):
    """Its position is the index that it was told last, by whichever method."""

    def init(self, key, position, data):
        return Cached(as_keys(key).count, position)

    def step(self, key, state, data):
        return state._replace(position=as_keys(key).count), None

    def refresh(self, key, state, data):
        return state._replace(position=as_keys(key).count)


@pytest.mark.parametrize("around", [thin, repeat])
def test_the_inner_index_of_a_repeat(around):
    """What is made anew before the n-th outer step is told of the inner step that comes."""
    kernel, keys = around(Told(), 10), Keys(*jax.random.split(KEY), jnp.array(7))
    state = kernel.init(keys, None, None)
    for made in (state, kernel.refresh(keys, state, None), kernel.retarget(keys, state, None)):
        assert int(made.position) == 70
    assert int(kernel.step(keys, state, None)[0].position) == 79


def test_clipped_eigenvalues_are_told_in_the_mean():
    grad = EmpiricalFisher(Minibatch(ITEMS, Uniform(2)))
    args = {"num_steps": 60}
    each = sample(KEY, sgld(grad, 0.5), jnp.zeros(()), DATA, **args).info.clipped
    assert 0 < each.mean() < 1
    means = sample(KEY, sgld(grad, 0.5), jnp.zeros(()), DATA, thin=10, **args).info.clipped
    np.testing.assert_allclose(means, each.reshape(6, 10).mean(1), rtol=1e-5)


def test_sample_is_not_traced():
    kernel = KERNELS["sgld"]
    draws = lambda key: sample(key, kernel, jnp.zeros(3), None, num_steps=3).trace
    for traced, key in ((jax.vmap(draws), jax.random.split(KEY, 2)), (jax.jit(draws), KEY)):
        with pytest.raises(TypeError, match="sample cannot be traced: .* use scan_kernel"):
            traced(key)
    state = kernel.init(KEY, jnp.zeros(3), None)
    keys = jax.random.split(KEY, 2)
    record = lambda state, info: state.position
    many = jax.vmap(lambda key: scan_kernel(key, kernel, state, None, 3, record)[1])(keys)
    assert many.shape == (2, 3, 3)


def test_infos_of_a_cycle_without_slots():
    run = sample(KEY, KERNELS["cycle"], jnp.zeros(3), None, num_steps=2)
    assert not hasattr(run.info, "active") and not hasattr(run.info, "overflow")


# ------------------------------------------------------------------------------- costs


def anchored():
    return ControlVariate(Minibatch(ITEMS, Uniform(2)), jnp.zeros(()))


COSTS = [
    (lambda: cycle(sgld(Minibatch(ITEMS, Uniform(2)), 0.1)), 2),
    (lambda: cycle(mala(Minibatch(ITEMS, Full()), 0.1)), 16),  # a gradient is carried, and stale
    (lambda: cycle(hmc(Minibatch(ITEMS, Full()), 0.1, 3)), 32),
    (lambda: gibbs(x=lambda rest: sgld(Minibatch(ITEMS, Uniform(2)), 0.1)), 2),
    (lambda: gibbs(x=lambda rest: sgld(anchored(), 0.1)), 12),  # 4, and a pass
    (lambda: gibbs(x=lambda rest: repeat(sgld(anchored(), 0.1), 3)), 20),
    (lambda: gibbs(x=lambda rest: mala(Minibatch(ITEMS, Full()), 0.1)), 16),
    (lambda: gibbs(x=lambda rest: sgld(SVRG(Minibatch(ITEMS, Uniform(2)), 4), 0.1)), 14),
    (lambda: gibbs(x=lambda rest: cycle(sgld(anchored(), 0.1), sgld(anchored(), 0.1))), 24),
]


@pytest.mark.parametrize("make, wanted", COSTS, ids=[str(i) for i in range(len(COSTS))])
def test_what_is_brought_up_to_date_is_counted(make, wanted):
    kernel = make()
    position = {"x": jnp.zeros(())} if hasattr(kernel, "builders") else jnp.zeros(())
    assert kernel.contract(position).cost.evaluations(8) == wanted


# ------------------------------------------------------------------------------- doors


def test_an_anchor_of_all_items_is_refused_inside_of_shards():
    centre = jnp.zeros(())
    anchor = full_pass(Minibatch(ITEMS, Full()), centre, lambda: iter([DATA]))
    inner = ControlVariate(Minibatch(ITEMS, Full()), centre, anchor=anchor)
    with pytest.raises(ValueError, match=r"put it outside, ControlVariate\(AllReduce"):
        AllReduce(inner)
    outside = ControlVariate(AllReduce(Minibatch(ITEMS, Full())), centre, anchor=anchor)
    run = sample(KEY, sgld(outside, 1e-3), centre, DATA, num_steps=2, engine=Vmap(2))
    alone = sample(KEY, sgld(outside, 1e-3), centre, DATA, num_steps=2)
    np.testing.assert_allclose(run.trace, alone.trace, rtol=1e-5)


@pytest.mark.parametrize(
    "density",
    [
        partial(lambda square, x: -jnp.sum(square(x - 1)), jnp.square),
        partial(lambda power, x: -jnp.sum(jnp.abs(x - 1) ** power), 2),
        partial(lambda x, link: -jnp.sum((x - 1) ** 2), link="identity"),
    ],
    ids=["a function", "a number", "a word"],
)
@pytest.mark.parametrize("args", [{}, {"batcher": Full(), "num_steps": 600}], ids=str)
def test_modes_of_densities_with_parts_that_are_no_arrays(density, args):
    import optax

    rule = {"optimizer": optax.adam(0.05)} if args else {}
    mode = find_mode(KEY, FunctionModel(density), jnp.zeros(2), None, **args, **rule)
    np.testing.assert_allclose(mode, 1, atol=2e-2)


def test_the_mode_of_a_single_precision_position_of_double_precision_data(x64):
    mode = find_mode(KEY, ITEMS, jnp.zeros((), jnp.float32), np.arange(3.0))
    assert mode.dtype == jnp.float32
    np.testing.assert_allclose(mode, 0.75, rtol=1e-5)


def test_a_start_of_no_density_is_no_mode():
    model = FunctionModel(lambda x: jnp.where(x > 0, -((x - 1) ** 2), -jnp.inf))
    with pytest.raises(FloatingPointError, match="give a better position"):
        find_mode(KEY, model, jnp.array(-1.0), None)
    np.testing.assert_allclose(find_mode(KEY, model, jnp.array(2.0), None), 1, atol=1e-3)


def test_terms_that_are_not_finite():
    y = jnp.array([0.0, 1.0, jnp.inf, 2.0])
    for call in (
        lambda: optimal_probabilities(ITEMS, jnp.zeros(()), y),
        lambda: neyman_sizes(ITEMS, jnp.zeros(()), y, [0, 0, 1, 1], 3),
    ):
        with pytest.raises(ValueError, match="must be finite"):
            call()
