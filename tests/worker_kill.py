"""A run to be killed: `worker_kill FOLDER FILE PAUSE`, with a checkpoint in FOLDER.

It pauses for so many seconds a chunk, and leaves its trace in FILE.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import FunctionModel, Given, Minibatch, sample, sgld

MODEL = FunctionModel(lambda x: -0.5 * x @ x, lambda x, z: -0.5 * (z - x) @ (z - x))
STEPS, CHUNK = 3000, 5


def main(folder, path, pause):
    rows = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)

    def batch(i):
        if i % CHUNK == 0:
            time.sleep(pause)
        return rows[[i % 50, (3 * i + 1) % 50]]

    run = sample(
        jax.random.key(0),
        sgld(Minibatch(MODEL, Given(50)), 1e-2),
        jnp.zeros(2),
        batch,
        num_steps=STEPS,
        num_chains=3,
        thin=2,
        chunk=CHUNK,
        checkpoint=folder,
    )
    np.savez(path, *jax.tree.leaves(tuple(run)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
