"""Cost and mixing of the mixture samplers: `python docs/measure_mixtures.py`, a few minutes.

Two thousand points of twelve normal clusters in eight dimensions, all in one cluster at first: when
is a chain where the planted labels are, by the log probability of labels and data? The cost of a
step is the process's CPU time of as many steps after those that are judged, once compiled.
"""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import Dist, cycle, sample
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalInverseWishart,
    collapsed_mixture,
    hybrid_mixture,
    slice_mixture,
    split_merge,
)

ITEMS, DIM, CLUSTERS, BLOCKS = 2_000, 8, 12, 10
STEPS = 200


def problem():
    rng = np.random.default_rng(0)
    centres = 4.0 * rng.normal(size=(CLUSTERS, DIM))
    labels = rng.integers(0, CLUSTERS, ITEMS)
    return (centres[labels] + rng.normal(size=(ITEMS, DIM))).astype(np.float32), labels


DATA, TRUTH = problem()
PROCESS, FAMILY = DirichletProcess(1.0), NormalInverseWishart(dim=DIM)
OPTIONS = {"capacity": 32}


def kernels():
    hybrid = lambda **more: hybrid_mixture(PROCESS, FAMILY, blocks=BLOCKS, **OPTIONS, **more)
    yield "`collapsed_mixture`", collapsed_mixture(PROCESS, FAMILY, **OPTIONS)
    yield f"`hybrid_mixture`, {BLOCKS} blocks", hybrid()
    yield "`slice_mixture`", slice_mixture(PROCESS, FAMILY, **OPTIONS)
    yield "`cycle(hybrid, split_merge)`", cycle(hybrid(), split_merge(PROCESS, FAMILY, **OPTIONS))


@jax.jit
def log_joint(labels):
    """The log probability of labels and data, up to a constant."""
    stats = FAMILY.label_statistics(DATA, labels, OPTIONS["capacity"])
    sizes = jnp.where(stats.count > 0, jax.scipy.special.gammaln(jnp.maximum(stats.count, 1)), 0)
    return jnp.sum(FAMILY.log_marginal(stats) + sizes)  # concentration 1


def measure(kernel):
    labels = lambda state, info: state.position.local["assignment"]
    go = partial(sample, jax.random.key(1), kernel, data=DATA, chunk=STEPS, record=labels)
    one = Dist({}, {"assignment": jnp.zeros(ITEMS, jnp.int32)})
    run = go(position=one, num_steps=STEPS)
    gaps = np.array([log_joint(row) for row in run.trace]) - float(log_joint(jnp.asarray(TRUTH)))
    first = next((i + 1 for i, gap in enumerate(gaps) if gap >= 0), None)
    go(position=run, num_steps=1)  # going on is a program of its own: this compiles it
    begin = time.process_time()
    go(position=run, num_steps=STEPS)
    seconds = (time.process_time() - begin) / STEPS
    return seconds, first, gaps[-1] / ITEMS, len(np.unique(run.trace[-1]))


def main():
    print("| kernel | CPU ms / step | at the truth's level at step | nats / point | clusters |")
    print("|---|---|---|---|---|")
    for name, kernel in kernels():
        seconds, first, gap, clusters = measure(kernel)
        print(f"| {name} | {1e3 * seconds:.2f} | {first} | {gap:.3f} | {clusters} |", flush=True)


if __name__ == "__main__":
    main()
