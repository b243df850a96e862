"""What the runner does with the steps of a kernel: which it keeps, and how it starts and stops."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Collective,
    Full,
    FunctionModel,
    Given,
    Kernel,
    Minibatch,
    Model,
    Positive,
    SlotInfo,
    Uniform,
    Vmap,
    cycle,
    draw,
    gibbs,
    gmc,
    repeat,
    sample,
    sgld,
    thin,
)
from sgmc_jax._types import as_keys
from sgmc_jax.collective import as_shard
from sgmc_jax.runner.code import code_of

KEY = jax.random.key(0)
ROOT = Path(__file__).resolve().parents[1]
ZERO = np.zeros(2, np.float32)
DATA = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
GRAD = Minibatch(MODEL, Uniform(5))
SGLD = sgld(GRAD, 1e-2)
STREAMED = sgld(Minibatch(MODEL, Given(40)), 1e-2)


def equal(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def run_sgld(kernel=SGLD, position=ZERO, data=DATA, key=KEY, **kwargs):
    return sample(key, kernel, position, data, **({"num_steps": 20} | kwargs))


# ------------------------------------------------------------------ which steps are kept


class CountState(NamedTuple):
    position: Any


class CountInfo(NamedTuple):
    even: jax.Array
    last: jax.Array
    half: jax.Array


def count_step(key, state, data):
    """Counts its steps."""
    now = state.position + 1
    whole = now.astype(jnp.int32)
    return CountState(now), CountInfo(whole % 2 == 0, whole, now / 2)


COUNT = Kernel.from_functions(lambda key, position, data: CountState(position), count_step)
START = np.float32(0)


class HalfInfo(NamedTuple):
    late: jax.Array


@pytest.mark.parametrize("window", [{"reduce": True}, {"thin": 2_000}])
def test_means_of_infos_of_half_precision_are_not_rounded_off(window):
    """A step of thousands is less than half a unit of the mean's last digit, of three."""

    def step(key, state, data):
        now = state.position + 1
        return CountState(now), HalfInfo((now > 500).astype(jnp.bfloat16))

    kernel = Kernel.from_functions(lambda key, position, data: CountState(position), step)
    run = sample(KEY, kernel, START, None, num_steps=2_000, **window)
    assert np.ravel(run.info.late)[0] == pytest.approx(0.75, abs=1e-4)
    plain = sample(KEY, kernel, START, None, num_steps=3, record=lambda state, info: info.late)
    assert plain.trace.dtype == jnp.bfloat16


def test_moments_of_complex_numbers():
    """The variance is E|z - m|^2, a real number."""
    reduce = lambda state, info: jnp.exp(1j * state.position)
    moments = sample(KEY, COUNT, START, None, num_steps=20, reduce=reduce).trace
    z = np.exp(1j * np.arange(1, 21))
    np.testing.assert_allclose(moments.mean, z.mean(), atol=1e-5)
    np.testing.assert_allclose(moments.variance, z.var(), rtol=1e-4)
    assert not np.iscomplexobj(moments.variance)


@pytest.mark.parametrize("chunk", [None, 1, 7])
@pytest.mark.parametrize("burn_in, thin", [(0, 1), (3, 2), (4, 3), (19, 5), (0, 20)])
def test_kept_draws(burn_in, thin, chunk):
    args = {"num_steps": 20, "burn_in": burn_in, "thin": thin, "chunk": chunk}
    kept = (20 - burn_in) // thin
    with nullcontext() if kept else pytest.warns(UserWarning, match="no draw is kept: thin is 5"):
        run = sample(KEY, COUNT, START, None, **args)
    last = burn_in + thin * np.arange(1, kept + 1)
    assert run.trace.dtype == np.float32 and run.trace.tolist() == last.tolist()
    assert run.info.last.tolist() == last.tolist()
    np.testing.assert_allclose(run.info.half, (last - (thin - 1) / 2) / 2, rtol=1e-6)
    assert run.info.even.tolist() == [thin == 1 and step % 2 == 0 for step in last]
    assert run.info.finite.shape == (kept,) and run.info.finite.all()
    assert run.num_steps == 20 and float(run.state.position) == 20


@pytest.mark.parametrize(
    "args",
    [
        {"num_steps": 5},
        {"num_steps": 150, "thin": 3, "burn_in": 2},
        {"num_steps": 150, "num_chains": 2, "chunk": 70},
    ],
)
def test_whole_blocks_are_the_same_steps(args, monkeypatch):
    """On a GPU the whole blocks of a chunk run in a loop of their own."""
    want = run_sgld(**args)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert equal(run_sgld(**args).trace, want.trace)


def test_record_chooses_what_is_kept():
    lock = threading.Lock()  # nothing that could be pickled

    def record(state, info):
        assert lock is not None
        return {"twice": 2 * state.position, "half": info.half, "finite": info.finite}

    run = sample(KEY, COUNT, START, None, num_steps=6, thin=2, num_chains=3, record=record)
    assert run.trace["twice"].tolist() == [[4, 8, 12]] * 3
    assert run.trace["half"].tolist() == [[0.75, 1.75, 2.75]] * 3 and run.trace["finite"].all()


def test_a_closure_records_through_checkpoints(tmp_path):
    lock = threading.Lock()
    record = lambda state, info: (lock is not None) * state.position
    args = {"record": record, "checkpoint": tmp_path, "chunk": 4}
    sample(KEY, COUNT, START, None, num_steps=9, **args)
    assert sample(KEY, COUNT, START, None, num_steps=12, **args).trace.tolist() == [*range(1, 13)]


@pytest.mark.parametrize("step_size", [1e-2, lambda k: 0.02 / (1 + k)], ids=["fixed", "schedule"])
def test_reduce_keeps_the_moments_of_the_trace(step_size):
    kernel = sgld(GRAD, step_size)
    args = {"num_steps": 60, "burn_in": 10, "num_chains": 3}

    def record(state, info):
        fixed = info.step_size is None
        return state.position, jnp.asarray(1.0 if fixed else info.step_size)

    whole = run_sgld(kernel, record=record, **args)
    (draws, steps), moments = whole.trace, run_sgld(kernel, reduce=True, chunk=7, **args).trace
    weight = steps[..., None] / steps.sum(axis=1, keepdims=True)[..., None]
    mean = (weight * draws).sum(axis=1)
    variance = (weight * (draws - mean[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-4)
    np.testing.assert_allclose(moments.weight, steps.sum(axis=1), rtol=1e-5)


SHRINKING = lambda k: 0.02 / (1 + k)
BLOCKS = gibbs(
    x=lambda rest: thin(sgld(GRAD, SHRINKING), 2),
    y=lambda rest: draw(lambda key, data: rest["x"] + jax.random.normal(key, (2,))),
)
WEIGHED = {
    "cycle": (cycle(sgld(GRAD, SHRINKING), sgld(GRAD, 1e-3)), ZERO, SHRINKING),
    "two": (
        cycle(sgld(GRAD, SHRINKING), sgld(GRAD, lambda k: 3 * SHRINKING(k))),
        ZERO,
        lambda k: 2 * SHRINKING(k),
    ),
    "gibbs": (
        repeat(BLOCKS, 3),
        {"x": ZERO, "y": ZERO},
        lambda k: sum(SHRINKING(6 * k + i) for i in range(6)) / 6,
    ),
    "nested": (
        repeat(cycle(sgld(GRAD, SHRINKING), repeat(sgld(GRAD, SHRINKING), 2)), 3),
        ZERO,
        lambda k: (
            sum(SHRINKING(3 * k + i) for i in range(3)) / 6
            + sum(SHRINKING(6 * k + i) for i in range(6)) / 12
        ),
    ),
}


@pytest.mark.parametrize("name", WEIGHED)
def test_moments_of_kernels_in_turn_are_weighted_by_their_step_sizes(name):
    kernel, position, weight = WEIGHED[name]
    args = {"position": position, "num_steps": 30, "burn_in": 4}
    draws, moments = (run_sgld(kernel, reduce=r, **args).trace for r in (None, True))
    weight = weight(np.arange(4, 30))
    mean = jax.tree.map(lambda x: np.average(x, axis=0, weights=weight), draws)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), moments.mean, mean)
    np.testing.assert_allclose(moments.weight, weight.sum(), rtol=1e-5)


def test_a_chain_without_a_draw_has_no_moments():
    """It stopped in its burn-in, or the run ended there: 0 would pass for a mean."""
    starts = {"a": jnp.array([[5.0], [505.0]]), "b": jnp.zeros(2)}
    model = FunctionModel(lambda x: -0.25 * jnp.sum((x["a"] - 5) ** 4) - 0.5 * x["b"] ** 2)
    args = {"num_chains": 2, "position_axis": 0, "reduce": True}
    with pytest.warns(UserWarning, match="1 of 2 chains"):
        run = sample(
            KEY,
            sgld(Minibatch(model, Full()), 0.01),
            starts,
            None,
            num_steps=90,
            burn_in=50,
            **args,
        )
    mean, variance, weight = run.trace
    assert weight.tolist() == [40, 0]
    for x in jax.tree.leaves((mean, variance)):
        assert np.isfinite(x[0]).all() and np.isnan(x[1]).all()


def test_reduce_takes_a_function():
    both = lambda state, info: {"x": state.position, "half": info.half}
    run = sample(KEY, COUNT, START, None, num_steps=9, burn_in=4, thin=2, reduce=both)
    assert float(run.trace.mean["x"]) == pytest.approx(7)
    assert float(run.trace.mean["half"]) == pytest.approx(3.5)
    assert float(run.trace.variance["x"]) == pytest.approx(2)
    assert float(run.info.half) == pytest.approx(3.5) and bool(run.info.finite)


def test_reduce_may_keep_nothing():
    run = sample(KEY, COUNT, START, None, num_steps=9, reduce=lambda state, info: {})
    assert run.trace.mean == run.trace.variance == {} and float(run.trace.weight) == 9


@pytest.mark.parametrize("wrap", [None, repeat, thin])
def test_a_weight_that_is_one_number_is_that_of_every_step(wrap):
    class Half(Kernel):
        def init(self, key, position, data):
            return CountState(position)

        def step(self, key, state, data):
            return count_step(key, state, data)

        def weight(self, info, state):
            return jnp.float32(0.5)

    kernel = wrap(Half(), 2) if wrap else Half()
    run = sample(KEY, kernel, START, None, num_steps=6, reduce=True)
    assert float(run.trace.weight) == 3


# ------------------------------------------------------------------------ where chains begin


def first_draws(position, **kwargs):
    run = sample(KEY, COUNT, position, None, num_steps=1, **kwargs)
    return jax.tree.map(lambda x: x[..., 0] if x.ndim == 2 else x[:, 0], run.trace)


def test_positions_are_broadcast_stacked_or_made():
    assert first_draws(np.array([1.0, 2, 3], np.float32), num_chains=3).tolist() == [[2, 3, 4]] * 3
    stacked = np.arange(6, dtype=np.float32).reshape(3, 2)
    each = first_draws(stacked, num_chains=3, position_axis=0)
    assert each.tolist() == (stacked + 1).tolist()
    one_for_all = first_draws(stacked, num_chains=3, position_axis=None)
    assert one_for_all.tolist() == [(stacked + 1).tolist()] * 3
    with pytest.raises(ValueError, match="say position_axis=None or position_axis=0"):
        first_draws(stacked, num_chains=3)
    scalars = first_draws(np.arange(3.0, dtype=np.float32), num_chains=3, position_axis=0)
    assert scalars.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="position_axis=0 needs .* lengths .'2'. for 3"):
        first_draws(stacked[:2], num_chains=3, position_axis=0)


@pytest.mark.parametrize("chain", [0, 1, 59])
def test_the_start_of_every_chain_is_looked_at(chain):
    """Chain 1 would stand where it is for ever, and count as finite."""
    gamma = FunctionModel(lambda x: jnp.sum(2 * jnp.log(x) - x))
    kernel, starts = gmc(Minibatch(gamma, Full()), Positive(), 0.5), np.ones((60, 2), np.float32)
    starts[chain, 0] = -1
    args = {"num_steps": 5, "num_chains": 60, "position_axis": 0}
    with pytest.raises(ValueError, match="positive") as error:
        sample(KEY, kernel, starts, None, **args)
    assert chain == 0 or error.value.__notes__ == [f"position is that of chain {chain}"]
    normal = lambda key: jax.random.normal(key, (2,))
    made = first_draws(normal, num_chains=3)
    assert made.shape == (3, 2) and len(np.unique(made)) == 6
    assert np.array_equal(made, first_draws(normal, num_chains=3))
    assert np.array_equal(made[:2], first_draws(normal, num_chains=2))
    assert sample(KEY, COUNT, normal, None, num_steps=1).trace.shape == (1, 2)


def test_a_run_is_continued():
    whole = run_sgld(num_chains=2, num_steps=30)
    first = run_sgld(num_chains=2, num_steps=13)
    rest = run_sgld(position=first, num_chains=2, num_steps=17, burn_in=2, thin=5)
    assert rest.num_steps == 30 and np.array_equal(rest.trace, whole.trace[:, 19::5])
    assert equal(rest.state, whole.state)


def test_a_run_and_what_it_went_on_with_are_one():
    whole = run_sgld(num_chains=2, num_steps=30, thin=2)
    first = run_sgld(num_chains=2, num_steps=12, thin=2)
    rest = run_sgld(position=first, num_chains=2, num_steps=18, thin=2)
    joined = first.extend(rest)
    assert joined.num_steps == 30 and equal(joined.trace, whole.trace)
    assert equal(joined.info, whole.info) and equal(joined.state, whole.state)
    with pytest.raises(ValueError, match="later must go on from this run of 30 steps"):
        joined.extend(rest)
    with pytest.raises(ValueError, match="got one that began after 0"):
        first.extend(run_sgld(num_chains=2, num_steps=40))
    with pytest.raises(ValueError, match=r"later must .*\('chain', 'draw'\)"):
        first.extend(run_sgld(num_steps=40))
    on = {"position": first, "num_steps": 6, "num_chains": 2}
    with pytest.raises(ValueError, match="later must have this run's thin, 2, got 3"):
        first.extend(run_sgld(**on, thin=3))
    on["thin"] = 2
    other = run_sgld(**on, record=lambda s, i: (s.position,))
    with pytest.raises(ValueError, match="later must keep what this run kept"):
        first.extend(other)
    wider = run_sgld(**on, record=lambda s, i: jnp.append(s.position, 0.0))
    with pytest.raises(ValueError, match="later must keep what this run kept, of shape"):
        first.extend(wider)
    moments = run_sgld(num_chains=2, num_steps=40, reduce=True)
    with pytest.raises(ValueError, match="kept moments only"):
        first.extend(moments)


# -------------------------------------------------------------------------- axes of runs


def test_runs_of_two_laws_are_joined_with_a_warning():
    first = run_sgld(num_chains=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first.extend(run_sgld(sgld(GRAD, 2e-2), position=first))  # of another step size
    flat = sgld(Minibatch(FunctionModel(lambda x: 0.0, lambda x, z: 0.0 * x[0]), Uniform(5)), 1e-2)
    for other in (run_sgld(flat, position=first), run_sgld(position=first, data=-DATA)):
        with pytest.warns(UserWarning, match="with another estimator or other data than this run"):
            assert first.extend(other).trace.shape == (2, 40, 2)


def test_a_sweep_is_its_single_runs_in_one_program():
    traced = []

    def record(state, info):
        traced.append(0)
        return state.position

    make = eqx.filter_vmap(lambda h: sgld(GRAD, h))
    sizes = jnp.array([1e-3, 3e-3, 1e-2])
    args = {"num_chains": 2, "record": record, "thin": 2}
    sweep = run_sgld(make(sizes), kernel_axis=0, **args)
    assert sweep.axes == ("kernel", "chain", "draw") and sweep.trace.shape == (3, 2, 10, 2)
    assert sweep.info.gradient_norm.shape == (3, 2, 10)
    once = len(traced)
    again = run_sgld(make(2 * sizes), kernel_axis=0, **args)
    assert len(traced) == once
    for i, h in enumerate(sizes):
        np.testing.assert_allclose(sweep.trace[i], run_sgld(sgld(GRAD, h), **args).trace, rtol=1e-5)
    half = run_sgld(make(2 * sizes), kernel_axis=0, num_steps=10, **args)
    rest = run_sgld(make(2 * sizes), position=half, kernel_axis=0, num_steps=10, **args)
    assert np.array_equal(np.concatenate([half.trace, rest.trace], axis=2), again.trace)
    with pytest.raises(ValueError, match="kernel must be a stack of 3, as that of the run"):
        run_sgld(make(sizes[:2]), position=half, kernel_axis=0, num_steps=10, **args)
    alone = run_sgld(make(sizes), kernel_axis=0)
    assert alone.axes == ("kernel", "draw") and alone.trace.shape == (3, 20, 2)


class BatchIndex(Kernel):
    """Its position is the index of its minibatch, and a number."""

    def init(self, key, position, data):
        return CountState((jnp.zeros(5, jnp.int32), jnp.zeros(())))

    def step(self, key, state, data):
        keys = as_keys(key)
        batch, _ = Uniform(5).draw(keys, (), data)
        return CountState((batch.index, jax.random.normal(keys.noise))), None


@pytest.mark.parametrize("share_batch", [True, False])
def test_share_batch(share_batch):
    args = {"num_steps": 8, "num_chains": 3, "share_batch": share_batch}
    index, noise = sample(KEY, BatchIndex(), None, DATA, **args).trace
    different = [len(np.unique(index[:, i], axis=0)) for i in range(8)]
    assert different == ([1] * 8 if share_batch else [3] * 8)
    assert len(np.unique(index.reshape(-1, 5), axis=0)) == (8 if share_batch else 24)
    assert len(np.unique(noise)) == 24


def test_to_arviz():
    wide = run_sgld(num_chains=3, thin=2).to_arviz()
    assert dict(wide["posterior"].sizes) == {"chain": 3, "draw": 10, "x_dim_0": 2}
    assert wide["posterior"]["x"].dims[:2] == ("chain", "draw")
    stats = wide["sample_stats"]
    assert {"finite", "gradient_norm"} <= set(stats.data_vars)
    assert stats["gradient_norm"].dims == ("chain", "draw")
    assert dict(run_sgld().to_arviz()["posterior"].sizes)["chain"] == 1
    kernels = eqx.filter_vmap(lambda h: sgld(GRAD, h))(jnp.array([1e-3, 1e-2]))
    for chains in (None, 3):
        run = run_sgld(kernels, kernel_axis=0, num_chains=chains)
        tree = run.to_arviz()
        assert tree["posterior"]["x"].dims[:3] == ("chain", "draw", "kernel")
        assert tree["posterior"]["x"].shape == (chains or 1, 20, 2, 2)
        assert tree["sample_stats"]["gradient_norm"].dims == ("chain", "draw", "kernel")
        seen = tree["posterior"]["x"].values[0, :, 1]
        assert np.array_equal(seen, run.trace[1] if chains is None else run.trace[1, 0])
    with pytest.raises(ValueError, match="moments"):
        run_sgld(reduce=True).to_arviz()


def test_to_arviz_names_parts_by_their_path():
    record = lambda state, info: {"a": state.position, "b": {"c": info.half}}
    tree = sample(KEY, COUNT, START, None, num_steps=4, record=record).to_arviz()
    assert set(tree["posterior"].data_vars) == {"a", "b.c"}
    assert tree["posterior"]["b.c"].values.tolist() == [[0.5, 1, 1.5, 2]]


# ----------------------------------------------------------------------------- streams


def batch(i):
    return DATA[[i % 40, (7 * i) % 40, (11 * i + 3) % 40]]


def batches(num=10**6):
    return (batch(i) for i in range(num))


READER = Kernel.from_functions(
    lambda key, position, data: CountState(position),
    lambda key, state, data: (CountState(data[0]), None),
)


def run_stream(data, **kwargs):
    return run_sgld(STREAMED, data=data, **({"num_steps": 50} | kwargs))


@pytest.fixture(scope="module")
def streamed():
    return run_stream(batch)


def test_many_chains_of_a_stream_are_told_of(recwarn):
    run_stream(batch, num_steps=2, num_chains=3, share_batch=True)
    run_stream(batch, num_steps=2, num_chains=1)
    assert not [w for w in recwarn if "not independent" in str(w.message)]
    with pytest.warns(UserWarning, match="chains take the same batches of a stream"):
        run_stream(batch, num_steps=2, num_chains=3)


def test_streams_are_what_they_stream(streamed):
    """A function, an iterator, chunks of any length: the same; and the batches are used in turn."""
    assert equal(streamed.trace, run_stream(batches()).trace)
    assert equal(streamed.trace, run_stream(batches(50), chunk=7).trace)
    seen = sample(KEY, READER, ZERO, batch, num_steps=45, chunk=10).trace
    assert np.array_equal(seen, [batch(i)[0] for i in range(45)])


@pytest.mark.parametrize(
    "kernel", [thin(STREAMED, 2), repeat(STREAMED, 3), cycle(STREAMED, STREAMED)]
)
def test_several_moves_by_one_batch_are_told_of(kernel):
    """The noise of one batch in ten steps is nearly ten times as large as that of ten."""
    with pytest.warns(UserWarning, match="moves [23] times by each batch of the stream"):
        run_sgld(kernel, data=batch)


def test_one_move_by_each_batch_is_not():
    once = [repeat(STREAMED, 1), cycle(STREAMED, READER), thin(READER, 3)]
    once.append(gibbs(x=lambda rest: STREAMED, y=lambda rest: STREAMED))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in once:
            start = {"x": ZERO, "y": ZERO} if kernel is once[-1] else ZERO
            run_sgld(kernel, start, batch, num_steps=2)
        run_sgld(thin(STREAMED, 2), num_steps=2)  # of no stream


@pytest.mark.parametrize("make", [lambda: batch, batches], ids=["function", "iterator"])
def test_streams_are_resumed(make, streamed, tmp_path):
    saved = {"checkpoint": tmp_path, "chunk": 6}
    run_stream(make(), num_steps=17, **saved)
    assert equal(streamed.trace, run_stream(make(), **saved).trace)
    assert equal(streamed.trace, run_stream(make(), **saved).trace)


def test_a_streamed_run_is_continued(streamed):
    first = run_stream(batch, num_steps=20)
    rest = run_stream(batch, num_steps=30, position=first)
    assert np.array_equal(streamed.trace, np.concatenate([first.trace, rest.trace]))
    one_iterator = batches()
    first = run_stream(one_iterator, num_steps=20)
    rest = run_stream(one_iterator, num_steps=30, position=first)
    assert np.array_equal(streamed.trace, np.concatenate([first.trace, rest.trace]))


@pytest.mark.parametrize("chunk", [None, 8])
def test_an_iterator_may_end(chunk, streamed):
    with pytest.warns(UserWarning, match="the data ended after 20 steps"):
        run = run_stream(batches(20), chunk=chunk)
    assert run.num_steps == 20 and np.array_equal(run.trace, streamed.trace[:20])


def test_an_interrupt_keeps_what_was_drawn(streamed):
    def interrupted(i):
        if i == 20:
            raise KeyboardInterrupt
        return batch(i)

    with pytest.warns(UserWarning, match="interrupted: 16 of 50 steps"):
        run = run_stream(interrupted, chunk=8)
    assert run.num_steps == 16 and np.array_equal(run.trace, streamed.trace[:16])
    assert equal(run_stream(batch, num_steps=34, position=run).state, streamed.state)


# -------------------------------------------------------------------------- what goes wrong


@pytest.fixture(scope="module")
def many():
    starts = np.random.default_rng(1).normal(size=(64, 2)).astype(np.float32)
    return starts, run_sgld(BRITTLE, starts, num_chains=64, position_axis=0)


BRITTLE = sgld(Minibatch(FunctionModel(lambda x: -0.5 * x @ x / (x[0] < 1e6)), GRAD.batcher), 1e-2)


@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_one_of_64_chains_breaks_and_the_others_go_on(chunk, many):
    starts, whole = many
    bad = starts.copy()
    bad[17, 0] = 1e7
    with pytest.warns(UserWarning, match="1 of 64 chains .* chain 17 at step 0"):
        run = run_sgld(BRITTLE, bad, num_chains=64, position_axis=0, chunk=chunk)
    others = np.arange(64) != 17
    assert equal(
        jax.tree.map(lambda x: x[others], (run.trace, run.info, run.state)), others_of(whole)
    )
    assert run.stopped.tolist() == [-1] * 17 + [0] + [-1] * 46
    assert not run.info.finite[17].any() and run.info.finite[others].all()
    assert np.array_equal(run.trace[17], np.tile(bad[17], (20, 1)))


def others_of(run):
    return jax.tree.map(lambda x: np.delete(x, 17, axis=0), (run.trace, run.info, run.state))


def break_step(key, state, data):
    now = state.position + 1
    return CountState(jnp.where(now == 7, jnp.nan, now)), None


def test_errors_name_chain_and_step():
    breaking = Kernel.from_functions(lambda key, position, data: CountState(position), break_step)
    starts = np.array([[10], [3], [20]], np.float32)
    args = {"num_steps": 9, "num_chains": 3, "position_axis": 0}
    with pytest.raises(FloatingPointError, match="1 of 3 chains .*; chain 1 at step 3:"):
        sample(KEY, breaking, starts, None, on_error="raise", **args)
    with pytest.warns(UserWarning, match="chain 1 at step 3"):
        run = sample(KEY, breaking, starts, None, thin=3, **args)
    assert run.stopped.tolist() == [-1, 3, -1] and run.trace[1, :, 0].tolist() == [6, 6, 6]
    assert run.info.finite[1].tolist() == [True, False, False]
    with pytest.warns(UserWarning, match="chain 1 at step 3"):
        rest = sample(KEY, breaking, run, None, **args)  # a chain that has stopped stays so
    assert rest.stopped.tolist() == [-1, 3, -1] and not rest.info.finite[1].any()


def test_progress_shows_a_bar(capsys):
    run = run_sgld(num_steps=30, chunk=10, progress=True)
    assert "30/30" in capsys.readouterr().err and run.num_steps == 30


# -------------------------------------------------------------------------- checkpoints


def test_checkpoints_hold_no_pickles(tmp_path):
    run = run_sgld(num_chains=2, checkpoint=tmp_path / "deep" / "run", chunk=6)
    lock, *files = sorted((tmp_path / "deep" / "run").iterdir(), key=lambda x: x.name != "lock")
    assert lock.read_bytes() == b"" and len(files) == 5  # four chunks and the state
    for file in files:
        assert all(name.endswith(".npy") for name in zipfile.ZipFile(file).namelist())
        with np.load(file, allow_pickle=False) as arrays:
            assert all(arrays[name].dtype != object for name in arrays.files)
    again = run_sgld(num_chains=2, checkpoint=tmp_path / "deep" / "run", chunk=6)
    assert equal(tuple(run), tuple(again))


def test_a_checkpoint_keeps_moments(tmp_path):
    args = {"reduce": True, "num_chains": 2, "burn_in": 3, "chunk": 6}
    whole = run_sgld(**args)
    run_sgld(num_steps=11, checkpoint=tmp_path, **args)
    assert equal(tuple(whole), tuple(run_sgld(checkpoint=tmp_path, **args)))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    args = {"checkpoint": tmp_path, "num_steps": 4, "num_chains": 2}
    run_sgld(**args)
    for name, other in {
        "key": {"key": jax.random.key(1)},
        "kernel": {"kernel": sgld(Minibatch(MODEL, Uniform(6)), 1e-2)},
        "kernel ": {"kernel": sgld(GRAD, 2e-2)},
        "shape of the data, contents of the data": {"data": DATA[:39]},
        "contents of the data": {"data": DATA[::-1]},
        "num_chains": {"num_chains": 3},
        "num_chains ": {"num_chains": None},
        "burn_in": {"burn_in": 1},
        "thin": {"thin": 2},
        "record, code of functions, .*": {"record": lambda state, info: 2 * state.position},
        "reduce": {"reduce": True},
        "share_batch": {"share_batch": True},
    }.items():
        with pytest.raises(ValueError, match=f"checkpoint .* with another {name.strip()}: give"):
            run_sgld(**(args | other))


SCALE = 2.0


class OwnModel(Model):
    scale: float = eqx.field(static=True)

    def logprior(self, position):
        return 0.0

    def loglik(self, position, item):
        return -0.5 * ((item - position) / self.scale) ** 2


class OtherModel(OwnModel):
    def loglik(self, position, item):
        return -0.4 * ((item - position) / self.scale) ** 2


OtherModel.__qualname__ = OwnModel.__qualname__


def helper(x):
    return x**2


def models():
    """Pairs of models that differ in nothing but code or what it refers to, by what that is."""
    flat = lambda loglik: FunctionModel(lambda x: 0.0, loglik)

    def captured(scale):
        return flat(lambda x, y: -0.5 * ((y - x) / scale) ** 2)

    def default(power):
        return flat(lambda x, y, power=power: -0.5 * (y - x) ** power)

    yield "constant", flat(lambda x, y: -0.5 * (y - x) ** 2), flat(lambda x, y: -0.5 * (y - x) ** 4)
    yield "operation", flat(lambda x, y: -0.5 * abs(y - x)), flat(lambda x, y: -0.5 * abs(y + x))
    yield "captured", captured(1.0), captured(2.0)
    yield "captured array", captured(np.ones(3)), captured(np.arange(3.0))
    yield "captured texts", captured(np.array(["a", "b"])), captured(np.array(["a", "c"]))
    yield "default", default(2), default(4)
    yield "function", flat(lambda x, y: -helper(y - x)), flat(lambda x, y: -abs(y - x))
    yield "method", OwnModel(1.0), OtherModel(1.0)


@pytest.mark.parametrize("name,one,other", list(models()))
def test_a_function_of_other_code_is_another(name, one, other):
    kernels = [sgld(Minibatch(model, Uniform(5)), 1e-2) for model in (one, one, other)]
    first, again, changed = map(code_of, kernels)
    assert first == again != changed


def test_what_a_function_reads_is_its_own(monkeypatch):
    functions = [lambda x: SCALE * helper(x), jax.jit(lambda x: SCALE * helper(x))]
    before = list(map(code_of, functions))
    assert before == list(map(code_of, functions))
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert all(x != y for x, y in zip(before, map(code_of, functions)))
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "helper", lambda x: x**4)
    assert all(x != y for x, y in zip(before, map(code_of, functions)))


def test_what_a_function_reads_through_a_module_is_its_own(monkeypatch):
    """As `package.part.helper`: the code of it, and not that of all of the module or of JAX."""
    part, package = ModuleType("package.part"), ModuleType("package")
    part.helper, part.other, part.package, package.part = abs, 1.0, package, part
    monkeypatch.setitem(globals(), "PACKAGE", package)
    reads = lambda x: jnp.sin(PACKAGE.part.helper(x))  # noqa: F821
    nested = lambda x: (lambda y: PACKAGE.part.helper(y))(x)  # noqa: F821
    for function in (reads, nested, lambda x: package.part.helper(x)):
        part.helper = lambda x: x**2
        before = code_of(function)
        assert before == code_of(function)
        part.other = 2.0
        assert before == code_of(function)
        part.helper = lambda x: x**4
        assert before != code_of(function)


def test_code_is_the_same_in_another_process(tmp_path):
    """Sets have another order there, and objects other addresses."""
    path = tmp_path / "own.py"
    path.write_text(
        "import threading\nlock = threading.Lock()\n\n\ndef count(n):\n"
        "    return f(n - 1) if n in {'a', 'b', 'c', 'd'} else count\n\n\n"
        "f = lambda x, y=lock: (count, x, lock, {'a': 1.5, 'b': (2, None)})\n"
    )
    command = (
        "import own; from sgmc_jax.runner.code import code_of; print(code_of((own.count, own.f)))"
    )
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent.parent)])
    told = set()
    for seed in "12":
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        args = [sys.executable, "-c", command]
        told.add(subprocess.run(args, env=env, capture_output=True, text=True, check=True).stdout)
    assert len(told) == 1 and "0x" not in told.pop()


def test_a_model_whose_code_has_changed_is_another_run(tmp_path):
    """Of functions that were known by their names the run went on, with another target."""

    def run(scale, num_steps):
        model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * ((y - x) / scale) ** 2)
        kernel, args = sgld(Minibatch(model, Uniform(5)), 1e-3), {"checkpoint": tmp_path}
        return sample(KEY, kernel, jnp.zeros(()), jnp.arange(20.0), num_steps=num_steps, **args)

    run(1.0, 4)
    assert run(1.0, 8).num_steps == 8
    with pytest.raises(
        ValueError, match="with another code of functions, Python 3.*: give another"
    ):
        run(3.0, 8)


def test_another_version_of_python_goes_on(tmp_path, monkeypatch):
    args = {"checkpoint": tmp_path, "num_steps": 4}
    run_sgld(**args)
    monkeypatch.setattr("sgmc_jax.runner.code.VERSION", "Python 3.99")
    assert run_sgld(checkpoint=tmp_path, num_steps=6).num_steps == 6


def test_a_crash_while_saving_loses_one_chunk(tmp_path, monkeypatch):
    """The state is replaced last: draws that it does not count are not there."""
    args = {"checkpoint": tmp_path, "chunk": 5}
    whole, replace, calls = run_sgld(), os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == 6:  # the third chunk's draws are there, its state is not
            raise OSError("no space left")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="no space"):
        run_sgld(**args)
    monkeypatch.undo()
    assert np.array_equal(whole.trace, run_sgld(**args).trace)


# ------------------------------------------------------------------------------- growth


class Births(NamedTuple):
    position: dict[str, jax.Array]


class BirthAndDeath(Kernel):
    """Walkers in slots: each may die, and now and then one is born into the first free slot."""

    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()

    def init(self, key, position, data):
        return Births({"x": jnp.zeros((self.capacity, 2)), "alive": jnp.zeros(self.capacity, bool)})

    def step(self, key, state, data):
        keys, shard = jax.random.split(as_keys(key).noise, 3), as_shard(data)
        total = self.comm.sum(jnp.where(shard.mask[:, None], shard.items, 0).sum(0))
        birth, place = jax.random.uniform(keys[0]) < 0.5, total / shard.total
        lives = jax.random.uniform(keys[1], (self.capacity,)) < 0.92  # alike at every capacity
        moves = jax.random.normal(keys[2], (self.capacity, 2))
        alive = state.position["alive"] & lives
        overflow = birth & alive.all()
        born = birth & ~overflow & (jnp.arange(self.capacity) == jnp.argmin(alive))
        x = jnp.where(alive[:, None], state.position["x"], place) + moves
        alive = alive | born
        position = {"x": jnp.where(alive[:, None], x, 0), "alive": alive}
        return Births(position), SlotInfo(alive.sum(), overflow)


def run_births(capacity, num_steps=40, position=None, **kwargs):
    kernel = BirthAndDeath(capacity)
    return sample(KEY, kernel, position, DATA[:7], num_steps=num_steps, **kwargs)


def assert_same_slots(grown, roomy, axis):
    """The two agree on the slots that both have, to rounding, and the others are empty."""
    for a, b in zip(jax.tree.leaves(grown), jax.tree.leaves(roomy), strict=True):
        common = a.shape[axis]
        kept, beyond = np.split(b, [common], axis=axis)
        np.testing.assert_allclose(a, kept, rtol=0, atol=1e-5)
        assert a.shape[:axis] == b.shape[:axis] and a.dtype == b.dtype and not beyond.any()


@pytest.fixture(scope="module")
def roomy():
    return {chains: run_births(64, num_chains=chains) for chains in (None, 2)}


@pytest.mark.parametrize(
    "num_chains, engine",
    [
        (None, None),
        pytest.param(2, None, marks=pytest.mark.full),
        (None, Vmap(2)),
        pytest.param(2, Vmap(2, over="chains"), marks=pytest.mark.full),
    ],
    ids=["one", "chains", "shards", "chains on shards"],
)
def test_growth_does_not_change_the_chain(num_chains, engine, roomy):
    whole = roomy[num_chains]
    axis = 1 if num_chains is None else 2
    assert 4 < whole.info.active.max() < 64
    run = run_births(4, num_chains=num_chains, engine=engine, chunk=9)
    assert whole.info.active.max() <= run.trace["alive"].shape[-1] < 64
    assert_same_slots(run.trace, whole.trace, axis)
    assert np.array_equal(run.info.active, whole.info.active) and not run.info.overflow.any()
    assert_same_slots(run.state.position, whole.state.position, axis - 1)


def test_a_grown_run_is_resumed_and_continued(roomy, tmp_path):
    saved = {"num_chains": 2, "chunk": 9, "checkpoint": tmp_path}
    first = run_births(4, num_steps=25, **saved)
    assert first.trace["alive"].shape[-1] > 4
    assert_same_slots(run_births(4, **saved).trace, roomy[2].trace, 2)
    rest = run_births(4, num_steps=15, position=first, num_chains=2)
    assert_same_slots(rest.trace, jax.tree.map(lambda x: x[:, 25:], roomy[2].trace), 2)


def test_moments_grow_too(roomy):
    run = run_births(4, reduce=lambda state, info: state.position["x"], chunk=9)
    assert_same_slots(run.trace.mean, roomy[None].trace["x"].mean(axis=0), 0)


# ------------------------------------------------------------------------------- kill -9


@pytest.mark.full
def test_kill_9(tmp_path):
    """A run killed at ten random moments and started again leaves what an undisturbed one does."""
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.worker_kill"]
    clean = tmp_path / "clean.npz"
    subprocess.run([*command, str(tmp_path / "a"), str(clean), "0"], cwd=ROOT, env=env, check=True)
    moments, folder, out = random.Random(0), tmp_path / "b", tmp_path / "killed.npz"
    for _ in range(10):
        worker = subprocess.Popen([*command, str(folder), str(out), "0.02"], cwd=ROOT, env=env)
        wait_for_progress(folder, worker)
        time.sleep(moments.uniform(0, 0.5))
        worker.send_signal(signal.SIGKILL)
        assert worker.wait() == -signal.SIGKILL
    assert not out.exists()
    subprocess.run([*command, str(folder), str(out), "0"], cwd=ROOT, env=env, check=True)
    with np.load(clean) as a, np.load(out) as b:
        assert sorted(a.files) == sorted(b.files)
        assert all(np.array_equal(a[name], b[name]) for name in a.files)


def wait_for_progress(folder, worker):
    """Until the worker has saved a chunk of its own."""
    before = saved_at(folder)
    while saved_at(folder) == before:
        assert worker.poll() is None
        time.sleep(0.01)


def saved_at(folder):
    state = folder / "state.npz"
    return state.stat().st_mtime_ns if state.exists() else None
