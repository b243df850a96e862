"""Runs of every sort again and again, with an eye on memory: `python -m tests.soak --minutes 60`.

Each round samples from arrays, from a stream and from a checkpoint, grows a mixture from two slots,
goes on from the last run and summarises it. Step sizes change, programs and shapes do not, so that
after the first rounds neither the arrays on the device nor the memory of the process may grow.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import (
    ControlVariate,
    Full,
    Given,
    Minibatch,
    Uniform,
    cycle,
    find_mode,
    hmc,
    sample,
    sghmc,
    sgld,
    thin,
)
from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, hybrid_mixture, split_merge
from sgmc_jax.models import LogisticRegression
from tests import memory

MODEL = LogisticRegression()
_, DATA = MODEL.simulate(jax.random.key(0), 2_000, 5)
DATA = jax.tree.map(np.asarray, DATA)
CENTRES = np.repeat([[-4, 0], [4, 0], [0, 5]], 100, axis=0)
POINTS = CENTRES + np.random.default_rng(0).normal(size=CENTRES.shape)
PLAIN = Minibatch(MODEL, Uniform(200))
MODE = find_mode(jax.random.key(1), MODEL, np.zeros(5, np.float32), DATA)


def mixture(key: jax.Array) -> None:
    parts = DirichletProcess(1.0), NormalKnownCovariance(jnp.zeros(2), 1.0, 16.0)
    kernel = cycle(hybrid_mixture(*parts, blocks=3, capacity=2), split_merge(*parts, capacity=2))
    sample(key, kernel, None, POINTS, num_steps=60)


def gradients(key: jax.Array, step_size: float) -> None:
    args = {"num_chains": 16, "burn_in": 100, "num_steps": 600, "chunk": 200}
    centred = ControlVariate(PLAIN, MODE)
    run = sample(key, sghmc(centred, step_size, 2.0), MODE, DATA, **args)
    run = sample(key, sghmc(centred, step_size, 2.0), run, DATA, num_steps=300, num_chains=16)
    run.summary()
    sample(key, thin(hmc(Minibatch(MODEL, Full()), 0.02, 4), 2), MODE, DATA, num_steps=50)


def streams(key: jax.Array, step_size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def batches():
        for _ in range(20):
            rows = rng.integers(0, 2_000, 50)
            yield DATA[0][rows], DATA[1][rows]

    kernel = sgld(Minibatch(MODEL, Given(2_000)), step_size**2)
    sample(key, kernel, MODE, batches, num_steps=100)


def checkpoints(key: jax.Array, step_size: float) -> None:
    kernel = sgld(PLAIN, step_size**2)
    with tempfile.TemporaryDirectory() as folder:
        saved = {"checkpoint": Path(folder) / "run", "chunk": 50, "num_chains": 4}
        for num_steps in (100, 200):
            sample(key, kernel, MODE, DATA, num_steps=num_steps, **saved)


def soak(minutes: float) -> list[tuple[float, int]]:
    """Memory and the number of arrays on the device after each round."""
    end, seen = time.monotonic() + 60 * minutes, []
    while time.monotonic() < end:
        key = jax.random.key(len(seen))
        step_size = 0.005 * (1 + 0.01 * (len(seen) % 10))
        gradients(key, step_size)
        streams(key, step_size, len(seen))
        checkpoints(key, step_size)
        mixture(key)
        seen.append((memory.held(), len(jax.live_arrays())))
        if len(seen) & (len(seen) - 1) == 0 or len(seen) % 50 == 0:
            print(f"round {len(seen)}: {seen[-1][0]:.0f} MiB, {seen[-1][1]} arrays", flush=True)
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    seen = soak(parser.parse_args().minutes)
    size, arrays = np.array(seen).T
    third, last = np.array_split(size, 4)[2:]
    growth = np.median(last) - np.median(third)
    print(
        f"{len(size)} rounds, {size[-1]:.0f} MiB, {growth:+.1f} from the third quarter to the last"
    )
    return int(growth > 0.02 * size[-1] or arrays[len(size) // 2 :].max() > arrays[len(size) // 2])


if __name__ == "__main__":
    raise SystemExit(main())
