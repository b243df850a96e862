"""One process of two that fail, or are interrupted, alone: `troubles ADDRESS RANK FOLDER`."""

import os
import pickle
import re
import signal
import sys
import traceback
import warnings
from pathlib import Path

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec


def main(address, rank, folder):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    jax.distributed.initialize(address, num_processes=2, process_id=rank)
    from sgmc_jax import (
        AllReduce,
        Dist,
        FunctionModel,
        Given,
        Minibatch,
        Pmap,
        ShardMap,
        Uniform,
        sample,
        sgld,
    )
    from sgmc_jax.bnp import (
        BetaBernoulli,
        DirichletCategorical,
        DirichletProcess,
        Groups,
        HierarchicalDirichletProcess,
        LinearGaussian,
        NormalKnownCovariance,
        hybrid_features,
        hybrid_hdp,
        hybrid_mixture,
    )

    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, y: -0.5 * (y - x) @ (y - x))
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    start, key, engine = np.zeros(2, np.float32), jax.random.key(0), ShardMap()
    spread = sgld(AllReduce(Minibatch(model, Uniform(5))), 1e-2)
    streamed = sgld(Minibatch(model, Given(40)), 1e-2)
    args = {"num_steps": 40, "chunk": 10, "engine": engine}

    def joined(x):
        each = len(x) // 2
        sharding = NamedSharding(engine.mesh, PartitionSpec("shard"))
        own = np.asarray(x)[rank * each : (rank + 1) * each]
        return jax.make_array_from_process_local_data(sharding, own)

    def batches(trouble, at):
        """Batches of which one of one process's is trouble."""
        return lambda i: trouble() if rank == 1 and i == at else rows[:8]

    def fail():
        raise OSError("no such batch")

    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        return rows[:8]

    def of_batches(trouble, at=30):
        chains = {"num_chains": engine.size, "share_batch": True}
        return sample(key, streamed, start, batches(trouble, at), **args, **chains)

    def own_folders():
        for made_by in (None, Pmap(2)):
            here = folder / f"{rank} {made_by is None}"
            own = args | {"engine": made_by, "num_chains": 2, "share_batch": True}
            own |= {"checkpoint": here}
            run = sample(jax.random.key(rank), streamed, start, lambda i: rows[:8], **own)
            assert (here / "state.npz").exists()
            assert len(run.trace[0]) == 40

    def own_rows():
        half = rows[rank * 20 : (rank + 1) * 20]
        refused(ValueError, "another contents of the data", spread, half)

    def own_keys():
        refused(ValueError, "have another key;", spread, rows, key=jax.random.key(rank))

    def few_devices():
        few = ShardMap(jax.sharding.Mesh(np.array(jax.devices()[:1]), ("shard",)))
        if rank == 1:
            refused(ValueError, "none of process 1, but of", spread, rows, engine=few)

    def unsaved():
        kind, text = [(IsADirectoryError, ""), (RuntimeError, "another process")][rank]
        (folder / "shared" / "draws-000001.npz").mkdir(parents=True, exist_ok=True)
        error = refused(kind, text, spread, rows, checkpoint=folder / "shared")
        assert len(error.run.trace) == 20

    def unread():
        kind, text = [(RuntimeError, "another process"), (OSError, "no such batch")][rank]
        try:
            of_batches(fail)
        except kind as error:
            assert re.search(text, str(error)) and error.run.trace.shape == (engine.size, 30, 2)
        else:
            raise AssertionError("nothing was raised")

    def unread_at_once():
        """Before anything was drawn."""
        kind, text = [(RuntimeError, "another process"), (OSError, "no such batch")][rank]
        try:
            of_batches(fail, 0)
        except kind as error:
            assert re.search(text, str(error)) and not hasattr(error, "run")
        else:
            raise AssertionError("nothing was raised")

    def stopped():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run = of_batches(interrupted)
        assert run.trace.shape[1] in {30, 40}
        assert any("interrupted: " in str(one.message) for one in told)
        whole = of_batches(lambda: rows[:8])
        np.testing.assert_array_equal(run.trace, whole.trace[:, : run.trace.shape[1]])

    def ended():
        """One has batches for 35 steps, the other for 37: both make 35 and say so."""
        own = args | {"num_chains": engine.size, "share_batch": True}
        few = iter([rows[:8]] * (35 + 2 * rank))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run = sample(key, streamed, start, few, **own)
        assert run.trace.shape == (engine.size, 35, 2)
        assert any("the data ended after 35 steps" in str(one.message) for one in told)

    def pickled():
        run = sample(key, spread, start, joined(rows), **args)
        if rank == 0:
            pickle.dumps(run)

    def words():
        groups = Groups(np.random.default_rng(1).integers(0, 9, (40, 8)), np.full(40, 8))
        kernel = hybrid_hdp(
            HierarchicalDirichletProcess(1.0, 1.0), DirichletCategorical(0.3, size=9), blocks=8
        )
        run = sample(key, kernel, None, jax.tree.map(joined, groups), **args)
        alone = sample(key, kernel, None, groups, **args)
        np.testing.assert_array_equal(
            run.trace.local["assignment"], alone.trace.local["assignment"]
        )

    def grown():
        """Means of features, of which each process holds some, as their slots become more."""
        family = LinearGaussian(2, 0.3, 3.0)
        kernel = hybrid_features(BetaBernoulli(5.0), family, blocks=engine.size, capacity=4)
        one = Dist({}, {"features": np.zeros((40, 1), bool)})
        run = sample(key, kernel, one, rows, reduce=True, **args)
        alone = sample(key, kernel, one, rows, reduce=True, **args | {"engine": None})
        assert run.capacity > 4
        of = lambda run: run.trace.mean.local["features"]
        np.testing.assert_allclose(of(run), of(alone), atol=1e-5)

    def seeded():
        """Chains apart, of rows that no process has all of, which choose their start."""
        kernel = hybrid_mixture(DirichletProcess(1.0), NormalKnownCovariance(np.zeros(2), 1.0, 4.0))
        chains = {"num_chains": engine.size, "engine": ShardMap(over="chains")}
        many = np.tile(rows, (6, 1))
        run = sample(key, kernel, None, joined(many), **args | chains)
        alone = sample(key, kernel, None, many, **args | chains | {"engine": None})
        of = lambda run: run.trace.local["assignment"]
        np.testing.assert_array_equal(of(run), of(alone))

    def refused(kind, text, kernel, data, **kwargs):
        try:
            sample(kwargs.pop("key", key), kernel, start, data, **args | kwargs)
        except kind as error:
            assert re.search(text, str(error)), error
            return error
        raise AssertionError("nothing was raised")

    cases = own_folders, own_rows, own_keys, few_devices, unsaved, unread, unread_at_once
    cases = (*cases, stopped, ended, pickled, words, grown, seeded)
    for case in cases:
        print(rank, case.__name__, flush=True)
        case()


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # the exit of JAX waits for the other one
    jax.distributed.shutdown()  # here it must: the first to end would take the other along
    os._exit(0)
