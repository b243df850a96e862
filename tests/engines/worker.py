"""One process of several that run the mixture together: `worker ADDRESS RANK FILE`."""

import sys

import jax
import numpy as np


def main(address, rank, path):
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(address, num_processes=2, process_id=rank)
    from sgmc_jax import ShardMap, sample
    from tests.engines.mixture import Mixture, items

    engine = ShardMap(8)
    run = sample(jax.random.key(0), Mixture(), None, items(21), num_steps=200, engine=engine)
    np.savez(path, *jax.tree.leaves(run.trace))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
