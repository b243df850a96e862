"""Blocks of items on shards, and the numbers that their items are given."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax.bnp import DirichletCategorical, Groups, HierarchicalDirichletProcess, hybrid_hdp
from sgmc_jax.bnp.hybrid import blocks as module
from sgmc_jax.bnp.hybrid.blocks import Blocks
from sgmc_jax.collective import Collective, Shard

KEY = jax.random.key(0)


def uniforms(index, rows=2, num=3, lanes=(2, 5)):
    """The numbers of some rows of 12 items, which begin at `index`."""
    shard = Shard(jnp.zeros((rows, 1)), jnp.int32(12), jnp.int32(index), jnp.int32(rows))
    comm = Collective("shard", 12 // rows)
    return Blocks(shard, 6, rows, comm).uniforms(KEY, num, jnp.float64, lanes)


@pytest.mark.parametrize("words", [2**32, 16])
def test_every_place_of_every_item_has_numbers_of_its_own(words, monkeypatch, x64):
    """On any number of shards, also of more places than there are values of one counter."""
    monkeypatch.setattr(module, "_WORDS", words)
    whole = np.asarray(uniforms(0, 12))
    assert whole.shape == (3, 12, 2, 5) and len(np.unique(whole)) == whole.size
    parts = [uniforms(index, rows) for rows in (2, 4) for index in range(0, 12, rows)]
    halves = np.concatenate(parts[:6], axis=1), np.concatenate(parts[6:], axis=1)
    np.testing.assert_array_equal(halves, [whole, whole])
    alone = len(np.unique(uniforms(0, 12, lanes=())))
    assert alone == 36


def test_blocks_of_more_places_than_ranks_are_refused():
    kernel = hybrid_hdp(
        HierarchicalDirichletProcess(1.0, 1.0), DirichletCategorical(0.3, size=9), blocks=2
    )
    words = Groups(jnp.zeros((2, 1), jnp.int32), jnp.ones(2, jnp.int32))
    shard = SimpleNamespace(items=words)
    blocks = SimpleNamespace(size=2**20, shard=shard, real=jnp.ones(2, bool))
    now = SimpleNamespace(blocks=blocks)
    with pytest.raises(ValueError, match="take more blocks"):
        kernel.model.off_star(now, None, SimpleNamespace(shape=(2**21, 2**11)))
