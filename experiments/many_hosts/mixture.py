"""What each process runs: a Dirichlet process mixture on the devices of all of them."""

from __future__ import annotations

from argparse import Namespace

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Float

from sgmc_jax import Run, ShardMap, sample
from sgmc_jax.bnp import DirichletProcess, NormalInverseWishart, hybrid_mixture

BLOCKS = 8  # of the sampler, whatever the machine; the number of devices must divide it


def read(num_items: int, rows: slice) -> Float[np.ndarray, "n 2"]:
    """Some rows of the data, eight planted clusters; yours would come from a file."""
    rng = np.random.default_rng(0)
    centres = 5 * rng.normal(size=(8, 2))
    return (centres[rng.integers(0, 8, num_items)] + rng.normal(size=(num_items, 2)))[rows]


def share(num_items: int) -> slice:
    """The rows that this process reads: its devices' part."""
    each = num_items // jax.process_count()
    return slice(jax.process_index() * each, (jax.process_index() + 1) * each)


def run(options: Namespace) -> Run:
    """The run, from its last checkpoint if there is one, on all devices of all processes."""
    jax.config.update("jax_enable_x64", True)
    if options.of > 1:
        jax.distributed.initialize(
            options.coordinator,
            num_processes=options.of,
            process_id=options.worker,
            heartbeat_timeout_seconds=options.patience,
        )
    if options.items % jax.device_count():
        raise ValueError(
            f"--items must be a multiple of the {jax.device_count()} devices, got {options.items}"
        )
    local = read(options.items, share(options.items))
    engine, data = None, local
    if jax.device_count() > 1:
        engine = ShardMap()
        mesh = Mesh(np.array(jax.devices()), ("items",))
        sharding = NamedSharding(mesh, PartitionSpec("items"))
        data = jax.make_array_from_process_local_data(sharding, local)
    process = DirichletProcess(1.0, prior=(2.0, 1.0))
    kernel = hybrid_mixture(process, NormalInverseWishart(dim=2), blocks=BLOCKS)
    return sample(
        jax.random.key(options.seed),
        kernel,
        None,
        data,
        num_steps=options.steps,
        chunk=options.chunk,
        engine=engine,
        checkpoint=options.checkpoint,
    )


def work(options: Namespace) -> int:
    """The run, and from process 0 its summary and trace."""
    found = run(options)
    if jax.process_index() == 0:
        labels = found.trace.local["assignment"]
        clusters = found.info.kernel.active[options.steps // 2 :].mean()
        print(
            f"{len(labels)} steps on {jax.device_count()} devices of {options.of} processes: "
            f"{clusters:.2f} clusters on average over the second half",
            flush=True,
        )
        if options.out is not None:
            np.savez(options.out, labels=labels, **found.trace.shared)
    return 0
