"""What the experiments with many blocks record of a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import sample
from sgmc_jax.bnp import DirichletProcess, NormalInverseWishart

pytest.importorskip("matplotlib")
pytest.importorskip("experiments.common")


@pytest.mark.full
def test_of_a_cycle_the_clusters_at_the_end_of_the_step_are_counted():
    """Not the most of its kernels: of five clusters in one place one merges what the other has."""
    from experiments.distributed_bnp.cifar import _kernels
    from experiments.distributed_bnp.common import held_out, planted_mixture

    _, items = planted_mixture(120, 1, 2)
    parts = DirichletProcess(1.0), NormalInverseWishart(2, scale=0.1)
    told = held_out(*parts, items[100:])
    both = lambda state, info: (told(state, info)[0], state.position.local["assignment"])
    kernel, start = _kernels(parts)["hybrid, split-merge"], jnp.arange(100) % 5
    run = sample(jax.random.key(0), kernel, start, items[:100], num_steps=20, record=both)
    active, labels = run.trace
    assert active.tolist() == [len(np.unique(row)) for row in labels]
