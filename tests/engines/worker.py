"""One process of several that run sharded samplers together: `worker ADDRESS RANK FILE`."""

import sys

import jax
import numpy as np


def cases():
    """A kernel and its data by name, in the precision that is set."""
    from sgmc_jax.bnp import (
        BetaBernoulli,
        DirichletCategorical,
        DirichletProcess,
        Groups,
        HierarchicalDirichletProcess,
        LinearGaussian,
        NormalInverseWishart,
        hybrid_features,
        hybrid_hdp,
        hybrid_mixture,
    )
    from tests.engines.mixture import Mixture, items

    points, rng = items(21), np.random.default_rng(0)
    words = Groups.from_list([rng.integers(0, 12, size) for size in rng.integers(1, 19, 20)])
    normal, wishart = LinearGaussian(2, 0.5, 2.0), NormalInverseWishart(dim=2)
    topics = HierarchicalDirichletProcess(1.0, 1.0, prior=(2.0, 1.0), group_prior=(2.0, 1.0))
    args = {"blocks": 8, "local_sweeps": 2}
    return {
        "mixture": (Mixture(), points),
        "hybrid_mixture": (
            hybrid_mixture(DirichletProcess(1.0, prior=(2.0, 1.0)), wishart, **args),
            points,
        ),
        "hybrid_features": (
            hybrid_features(BetaBernoulli(2.0, 1.5, prior=(2.0, 1.0)), normal, **args),
            points,
        ),
        "hybrid_hdp": (hybrid_hdp(topics, DirichletCategorical(0.3, size=12), **args), words),
    }


def chains(engine):
    """The trace and the means of eight chains, which the engine spreads over the devices."""
    from sgmc_jax import FunctionModel, Minibatch, Uniform, sample, sgld
    from tests.engines.mixture import items

    model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, y: -0.5 * (y - x) @ (y - x))
    kernel, data = sgld(Minibatch(model, Uniform(5)), 1e-2), items(21)
    args = {"num_steps": 150, "num_chains": 8, "engine": engine}
    run, reduced = (
        sample(jax.random.key(0), kernel, np.zeros(2), data, reduce=reduce, **args)
        for reduce in (False, True)
    )
    return {"chains": run.trace, "their means": reduced.trace.mean}


def traces(engine=None):
    """The leaves of each one's trace of 200 steps, by name and place."""
    from sgmc_jax import sample

    found = chains(engine)
    for name, (kernel, data) in cases().items():
        args = {"num_steps": 200, "chunk": 50}  # which tells when they grow
        run = sample(jax.random.key(0), kernel, None, data, engine=engine, **args)
        found |= {f"{name} {i}": leaf for i, leaf in enumerate(jax.tree.leaves(run.trace))}
    return found


def main(address, rank, path):
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(address, num_processes=2, process_id=rank)
    from sgmc_jax import ShardMap

    np.savez(path, **traces(ShardMap(8)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
