"""In which blocks atoms are born, in which slots, and from what is known."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.bnp import Asynchronous, NormalKnownCovariance, Warm
from sgmc_jax.bnp.hybrid.points import Atoms, sweep_block

BLOCKS, SLOTS = 8, np.arange(20)
SUMS = SimpleNamespace(counts=jnp.asarray(SLOTS % 3))


def births(schedule, count=0):
    """The blocks that are swept, and what each of them is told."""
    told = lambda rows, **kwargs: kwargs
    each = lambda chosen, sweep, z: (np.asarray(chosen), [sweep(p, None) for p in range(BLOCKS)])
    blocks = SimpleNamespace(num_blocks=BLOCKS, on_several=each)
    rank = jnp.asarray(np.random.default_rng(0).permutation(BLOCKS))
    anchors = SimpleNamespace(block_rank=rank)
    chosen, said = schedule.births(told, anchors, blocks, SUMS, count, None)
    return chosen, said, np.asarray(rank)


@pytest.mark.parametrize("count, num", [(None, 8), (0, 8), (1, 6), (2, 4), (4, 2), (5, 2), (6, 1)])
def test_a_warm_start_cools(count, num):
    """Half as many blocks after two steps, rounded up, the first of a random order."""
    chosen, said, rank = births(Warm(cooling=2.0), count)
    np.testing.assert_array_equal(chosen, rank < num)
    for p, block in enumerate(said):
        np.testing.assert_array_equal(block["cradles"], SLOTS % BLOCKS == p)


def test_asynchronous_blocks_know_the_last_sums():
    """All of them, and clusters are born in slots that were free then."""
    chosen, said, _ = births(Asynchronous())
    assert chosen.all()
    for p, block in enumerate(said):
        assert block["known"] is SUMS
        np.testing.assert_array_equal(block["cradles"], (SLOTS % BLOCKS == p) & (SLOTS % 3 == 0))


def test_clusters_are_born_in_their_cradles():
    family, num = NormalKnownCovariance(0.0, 1.0, 4.0), 4
    hyper = {"concentration": jnp.float32(1e9), "discount": jnp.float32(0.0)}
    nothing = jnp.zeros(9), jnp.float32(0.0)
    atoms, items = Atoms(jnp.zeros(9, bool), *nothing), jnp.zeros((num, 1))
    uniforms = jax.random.uniform(jax.random.key(0), (1, num), minval=1e-3)

    def swept(cradles):
        args = family, hyper, atoms, jnp.zeros((9, num)), items, jnp.ones(num, bool)
        args = *args, jnp.zeros(num, jnp.int32), uniforms
        return jax.jit(lambda: sweep_block(*args, cradles=jnp.asarray(cradles)))()

    labels, lost = swept(np.arange(9) % 2 == 1)
    assert sorted(labels.tolist()) == [1, 3, 5, 7] and not lost
    labels, lost = swept(np.arange(9) == 4)
    assert lost
