"""The engine law: one chain, whatever the devices it lives on."""

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from sgmc_jax import (
    SVRG,
    AllReduce,
    Collective,
    ControlVariate,
    Epoch,
    Estimator,
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    Pmap,
    ShardMap,
    Uniform,
    Vmap,
    hmc,
    sample,
    scan_kernel,
    sgld,
)
from sgmc_jax.runner.host import Host
from tests.engines.mixture import (
    KeyedByRow,
    Mixture,
    NeverMeeting,
    PriorOnEveryShard,
    items,
)
from tests.engines.worker import traces

KEY = jax.random.key(0)
ROOT = Path(__file__).resolve().parents[2]
STEPS = 200
EIGHT = [Vmap(8), Pmap(8), ShardMap(8)]
also = partial(pytest.param, marks=pytest.mark.full)
named = {"ids": lambda x: f"{type(x).__name__}{x.size}" if hasattr(x, "size") else str(x)}

MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -jnp.logaddexp(0.0, -z @ x))
PLAIN = Minibatch(MODEL, Uniform(2))
EXACT = Minibatch(MODEL, Full())
POINT = np.array([0.7, -0.3])
POINTS = np.random.default_rng(0).normal(size=(20, 2)) * np.array([3.0, 0.5])
FLOAT32 = POINTS.astype(np.float32)


def run_mixture(engine=None, kernel=None, num_items=21, num_steps=STEPS, position=None, **kwargs):
    kernel = Mixture() if kernel is None else kernel
    data = items(num_items)
    return sample(KEY, kernel, position, data, num_steps=num_steps, engine=engine, **kwargs)


def assert_same_chain(a, b):
    """Discrete parts equal, floats to 1e-10: trace, infos and last state."""
    for x, y in zip(jax.tree.leaves(tuple(a)), jax.tree.leaves(tuple(b)), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape and x.dtype == y.dtype
        if np.issubdtype(x.dtype, np.floating):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
        else:
            np.testing.assert_array_equal(x, y)


# ------------------------------------------------------------------------ one chain, all engines


@pytest.fixture(scope="module")
def reference():
    """The runs of one device, each made once."""
    runs = {}

    def get(num_items, num_chains):
        case = (num_items, num_chains)
        if case not in runs:
            runs[case] = run_mixture(num_items=num_items, num_chains=num_chains)
        return runs[case]

    return get


@pytest.mark.parametrize(
    "engine, num_items, num_chains",
    [
        (ShardMap(8), 21, None),
        (Vmap(3), 21, None),
        *[also(engine, 21, None) for engine in EIGHT if not isinstance(engine, ShardMap)],
        (ShardMap(8), 5, 2),
        *[also(engine, 21, 2) for engine in [Pmap(8), ShardMap(5)]],
        also(Vmap(8), 5, None),
        *[also(engine, 21, 2) for engine in [Vmap(8), ShardMap(8), Vmap(3)]],
        *[also(engine, 5, chains) for engine in [Pmap(8), Vmap(3)] for chains in [None, 2]],
        also(ShardMap(8), 24, None),
        also(ShardMap(5), 21, None),
    ],
    **named,
)
def test_the_chain_does_not_know_its_engine(engine, num_items, num_chains, reference, x64):
    alone = reference(num_items, num_chains)
    sharded = run_mixture(engine, num_items=num_items, num_chains=num_chains)
    assert_same_chain(alone, sharded)
    lead = () if num_chains is None else (num_chains,)
    assert sharded.trace.local["assignment"].shape == (*lead, STEPS, num_items)
    assert sharded.state.position.local["assignment"].shape == (*lead, num_items)
    assert sharded.info.counts.sum(axis=-1).tolist() == np.full((*lead, STEPS), num_items).tolist()
    last = sharded.trace.local["assignment"][..., -1, :]
    np.testing.assert_array_equal(last, sharded.state.position.local["assignment"])


def test_record_sees_the_items_in_their_order(x64):
    """What is recorded of local leaves has a row for each item, in the user's order."""

    def record(state, info):
        labels = state.position.local["assignment"]
        return {"labels": labels, "mine": labels[jnp.array([0, 20])], "counts": info.counts}

    run = run_mixture(Vmap(8), num_steps=30, record=record)
    assert run.trace["labels"].shape == (30, 21)
    np.testing.assert_array_equal(run.trace["mine"], run.trace["labels"][:, [0, 20]])
    counts = np.stack([np.bincount(row, minlength=4) for row in run.trace["labels"]])
    np.testing.assert_array_equal(run.trace["counts"], counts)
    # not by luck: the labels follow the corner each item was drawn at
    late, corner = run.trace["labels"][-1], np.arange(21) % 4
    agree = np.array([[np.mean(late[corner == c] == k) for k in range(4)] for c in range(4)])
    assert agree.max(axis=1).min() > 0.5


@pytest.mark.parametrize("fault", [KeyedByRow, NeverMeeting, PriorOnEveryShard])
def test_the_law_sees_a_planted_fault(fault, reference, x64):
    """None of them shows on one device."""
    assert_same_chain(reference(21, None), run_mixture(kernel=fault()))
    with pytest.raises(AssertionError):
        assert_same_chain(reference(21, None), run_mixture(Vmap(3), kernel=fault()))


# ----------------------------------------------------------------- from one engine to another


def joined(first, *more):
    return jax.tree.map(lambda *x: np.concatenate(x), first.trace, *(run.trace for run in more))


def test_a_run_goes_on_under_another_engine(reference, x64):
    whole = reference(21, None)
    first = run_mixture(ShardMap(8), num_steps=90)
    second = run_mixture(Vmap(3), num_steps=60, position=first)
    third = run_mixture(None, num_steps=50, position=second)
    assert third.num_steps == STEPS
    assert_same_chain([whole.trace, whole.state], [joined(first, second, third), third.state])


def test_a_checkpoint_is_resumed_on_another_engine(reference, x64, tmp_path):
    saved = {"checkpoint": tmp_path / "run", "chunk": 40}
    for num_steps, engine in [(70, ShardMap(8)), (140, Vmap(3)), (STEPS, None)]:
        run = run_mixture(engine, num_steps=num_steps, **saved)
        assert run.num_steps == num_steps
    assert_same_chain(reference(21, None), run)


@pytest.mark.full
def test_chains_are_resumed_on_another_engine(reference, x64, tmp_path):
    saved = {"checkpoint": tmp_path / "run", "num_chains": 2}
    for num_steps, engine in [(70, None), (STEPS, Vmap(8))]:
        run = run_mixture(engine, num_steps=num_steps, **saved)
    assert_same_chain(reference(21, 2), run)


# ------------------------------------------------------------------------------ gradients


class ProbeState(NamedTuple):
    position: jax.Array
    estimator: Any


class Probe(Kernel):
    """A kernel whose position is the estimate at `POINT`, anew in each step."""

    grad: Estimator

    def init(self, key, position, data):
        # elsewhere, so that the centre of SVRG is not the point itself
        return ProbeState(jnp.zeros(2), self.grad.init(key, POINT + 1.0, data))

    def step(self, key, state, data):
        estimate, estate = self.grad.estimate(key, state.estimator, jnp.asarray(POINT), data)
        return ProbeState(estimate.value, estate), None


class PriorEverywhere(AllReduce):
    """The fault: the prior is part of what the shards sum."""

    def prior(self, position):
        return jax.tree.map(jnp.zeros_like, self.inner.prior(position))

    def items(self, batch, position):
        return self.comm.psum(self.inner.on(batch, position))


def assert_unbiased(grad, engine, num_draws=4000):
    """The mean of many estimates is the gradient, in a z-test of its two coordinates.

    |z| > 5.1 has a probability of 3.4e-7, so that false alarms come in less than 1 of 10^6 tests.
    """
    run = sample(KEY, Probe(grad), None, POINTS, num_steps=num_draws, engine=engine)
    exact = EXACT.on(EXACT.draw(KEY, (), POINTS)[0], jnp.asarray(POINT)).value
    error = run.trace.mean(axis=0) - exact
    assert np.all(run.trace.std(axis=0) > 1e-3)
    assert np.all(np.abs(error) < 5.1 * run.trace.std(axis=0) / np.sqrt(num_draws))


@pytest.mark.parametrize("engine", [None, Pmap(8), ShardMap(8), Vmap(3)], **named)
def test_the_gradient_over_shards_is_unbiased(engine, x64):
    """20 items in shards of 3: the seventh has 2, the eighth none."""
    assert_unbiased(AllReduce(PLAIN), engine)


@pytest.mark.parametrize(
    "grad",
    [
        AllReduce(Minibatch(MODEL, Uniform(2, replace=True))),
        AllReduce(Minibatch(MODEL, Epoch(2))),
        ControlVariate(AllReduce(PLAIN), POINT - 1.0),
        SVRG(AllReduce(PLAIN), 10**6),
    ],
    ids=["replace", "Epoch", "ControlVariate", "SVRG"],
)
def test_every_estimator_over_shards_is_unbiased(grad, x64):
    assert_unbiased(grad, Vmap(8))


def test_the_gradient_law_sees_a_prior_counted_on_every_shard(x64):
    with pytest.raises(AssertionError):
        assert_unbiased(PriorEverywhere(PLAIN), Vmap(8))


@pytest.mark.parametrize("engine", EIGHT, **named)
def test_hmc_over_shards_is_hmc(engine, x64):
    """The exact gradient and the energy: the prior counted once, empty shards adding nothing."""
    args = {"num_steps": STEPS, "num_chains": 2}
    alone = sample(KEY, hmc(EXACT, 0.1, 3), np.zeros(2), POINTS, **args)
    kernel = hmc(AllReduce(EXACT), 0.1, 3)
    sharded = sample(KEY, kernel, np.zeros(2), POINTS, engine=engine, **args)
    assert_same_chain([alone.trace, alone.info], [sharded.trace, sharded.info])
    assert 0.2 < alone.info.accepted.mean() < 1


def test_a_shard_map_of_your_own(x64):
    mesh = Mesh(np.array(jax.devices()[:8]), ("data",))
    rows = jnp.asarray(np.concatenate([POINTS, POINTS[:4]]))

    def chain(grad, rows):
        kernel = sgld(grad, 1e-2)
        state = kernel.init(KEY, jnp.zeros(2), rows)
        return scan_kernel(KEY, kernel, state, rows, 20)[1]

    sharded = jax.shard_map(
        lambda rows: chain(AllReduce(EXACT, comm=Collective("data", 8)), rows),
        mesh=mesh,
        in_specs=PartitionSpec("data"),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    np.testing.assert_allclose(jax.jit(sharded)(rows), chain(EXACT, rows), rtol=1e-10, atol=1e-10)


def test_what_each_shard_keeps_is_resumed(x64, tmp_path):
    """The permutations of `Epoch` belong to a shard, and to a number of shards."""
    kernel = sgld(AllReduce(Minibatch(MODEL, Epoch(2))), 1e-2)
    args = {"engine": Vmap(3), "checkpoint": tmp_path / "run", "chunk": 7}
    whole = sample(KEY, kernel, np.zeros(2), POINTS, num_steps=30, engine=Vmap(3))
    sample(KEY, kernel, np.zeros(2), POINTS, num_steps=20, **args)
    with pytest.raises(ValueError, match="shards"):
        sample(KEY, kernel, np.zeros(2), POINTS, num_steps=30, **(args | {"engine": Vmap(2)}))
    resumed = sample(KEY, kernel, np.zeros(2), POINTS, num_steps=30, **args)
    assert np.array_equal(whole.trace, resumed.trace)
    with pytest.raises(ValueError, match="shards"):
        sample(KEY, kernel, whole, POINTS, num_steps=5, engine=Vmap(2))


# ---------------------------------------------------------------------------------- chains


@pytest.mark.parametrize("engine", [Vmap(4), Pmap(8), ShardMap(8)], **named)
def test_chains_on_devices_are_the_chains(engine):
    args = {"num_steps": 40, "num_chains": 8, "thin": 2, "burn_in": 4}
    kernel = sgld(PLAIN, 1e-2)
    alone = sample(KEY, kernel, np.zeros(2, np.float32), FLOAT32, **args)
    spread = sample(KEY, kernel, np.zeros(2, np.float32), FLOAT32, engine=engine, **args)
    chex.assert_trees_all_equal(tuple(alone), tuple(spread))


@pytest.mark.parametrize("over", ["chains", "data"])
def test_arrays_that_somebody_has_put_on_one_device(over):
    """JAX takes no such to others by itself."""
    put = lambda tree: jax.tree.map(lambda x: jax.device_put(x, jax.devices()[1]), tree)
    inner = PLAIN if over == "chains" else AllReduce(PLAIN)
    args = {"num_steps": 6, "num_chains": 8, "engine": ShardMap(8, over=over)}
    go = lambda put: sample(
        KEY,
        sgld(ControlVariate(inner, put(np.ones(2, np.float32))), 1e-2),
        put(np.zeros(2, np.float32)),
        put(FLOAT32),
        **args,
    )
    chex.assert_trees_all_equal(go(put).trace, go(lambda tree: tree).trace)


def test_chains_on_devices_are_swept_saved_and_continued(tmp_path):
    kernels = eqx.filter_vmap(lambda h: sgld(PLAIN, h))(jnp.array([1e-3, 1e-2]))
    start = np.zeros(2, np.float32)
    args = {"num_chains": 4, "kernel_axis": 0, "chunk": 8}
    alone = sample(KEY, kernels, start, FLOAT32, num_steps=24, **args)
    saved = args | {"checkpoint": tmp_path}
    sample(KEY, kernels, start, FLOAT32, num_steps=10, engine=Vmap(4), **saved)
    half = sample(KEY, kernels, start, FLOAT32, num_steps=16, engine=Vmap(2), **saved)
    rest = sample(KEY, kernels, half, FLOAT32, num_steps=8, engine=Vmap(4), **args)
    np.testing.assert_array_equal(half.trace, alone.trace[:, :, :16])
    np.testing.assert_array_equal(rest.trace, alone.trace[:, :, 16:])


def test_sharded_kernels_can_spread_their_chains_instead(x64):
    args = {"num_steps": 20, "num_chains": 2}
    assert_same_chain(run_mixture(**args), run_mixture(Vmap(2, over="chains"), **args))


def test_engines_say_what_they_want():
    kernel = sgld(PLAIN, 1e-2)
    with pytest.raises(ValueError, match="num_chains must be a multiple of the engine's 4.*6"):
        sample(KEY, kernel, POINT, POINTS, num_steps=2, num_chains=6, engine=Vmap(4))
    with pytest.raises(ValueError, match="num_chains must be a multiple of the engine's 4.*None"):
        sample(KEY, kernel, POINT, POINTS, num_steps=2, engine=Vmap(4))
    with pytest.raises(ValueError, match="AllReduce"):
        sample(KEY, kernel, POINT, POINTS, num_steps=2, engine=Vmap(4, over="data"))
    for make in (Pmap, ShardMap):
        with pytest.raises(ValueError, match="number of devices, got 9 of 8"):
            make(9)


# ------------------------------------------------------------------------- two processes


def in_two_processes(module, *files):
    """Run a module on two processes of four devices each, and see both end well."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    flags = os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=4")
    env = os.environ | {"NPROC": "64", "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", module, address]
    workers = [
        subprocess.Popen([*command, str(rank), str(file)], cwd=ROOT, env=env)
        for rank, file in enumerate(files)
    ]
    if hasattr(os, "sched_setaffinity"):  # a core each: see conftest.py
        cores = sorted(os.sched_getaffinity(0))
        for rank, worker in enumerate(workers):
            os.sched_setaffinity(worker.pid, {cores[rank % len(cores)]})
    try:
        assert [worker.wait(timeout=500) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()


@pytest.mark.full
def test_two_processes(x64, tmp_path):
    """Two processes of four devices each make the chains of one device, of every hybrid sampler."""
    files = [tmp_path / f"{rank}.npz" for rank in range(2)]
    in_two_processes("tests.engines.worker", *files)
    alone = traces()
    for file in files:
        with np.load(file) as saved:
            assert set(saved) == set(alone)
            for name, leaf in alone.items():
                assert_same_chain([leaf], [saved[name]])


@pytest.mark.full
def test_troubles_of_one_process_of_two(tmp_path):
    """It says what they are, the other does not wait for ever, and both keep what was drawn."""
    in_two_processes("tests.engines.troubles", tmp_path, tmp_path)


# --------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("make", [Pmap, ShardMap])
def test_a_device_holds_its_share_of_the_data_alone(make, monkeypatch):
    """Of more data than one of them has room for."""
    data, held = np.zeros((8 * 2**15, 2), np.float32), {}
    chunk, before = Host._chunk, jax.live_arrays()
    old = set(map(id, before))

    def watched(self, *args):
        new = [x for x in jax.live_arrays() if id(x) not in old]
        large = [x for x in new if x.nbytes >= data.nbytes // 8]
        parts = [part for x in large for part in x.addressable_shards]
        for device in {part.device for part in parts}:
            held[device] = sum(part.data.nbytes for part in parts if part.device == device)
        return chunk(self, *args)

    monkeypatch.setattr(Host, "_chunk", watched)
    kernel = sgld(AllReduce(PLAIN), 1e-9)
    sample(KEY, kernel, np.zeros(2, np.float32), data, num_steps=2, engine=make(8))
    assert set(held.values()) == {data.nbytes // 8}
