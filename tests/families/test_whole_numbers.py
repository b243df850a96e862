"""A family of a user's own, over items of any whole dtype."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import betaln

from sgmc_jax import sample
from sgmc_jax.bnp import DirichletProcess, collapsed_mixture, hybrid_mixture, slice_mixture
from sgmc_jax.families import Family
from sgmc_jax.random import log_beta


class Coin(Family):
    """Truths with a uniform prior, by statistics of the dtype that the items have."""

    def item_statistics(self, item):
        return jnp.ones((), jnp.int32), item

    def draw(self, key, stats):
        return log_beta(key, 1.0 + stats[1], 1.0 + stats[0] - stats[1])

    def scores(self, params, items):
        return jnp.where(items, params[0][:, None], params[1][:, None])

    def log_marginal(self, stats):
        return betaln(1.0 + stats[1], 1.0 + stats[0] - stats[1])


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8])
def test_sums_of_truths_and_bytes_do_not_wrap_around(dtype):
    """They were truths, or counted up to 255, and an item that left took more than itself."""
    x = np.append(np.ones(300), np.zeros(4))
    items, labels = jnp.asarray(x.astype(dtype)), jnp.asarray(np.arange(304) % 3 == 0, jnp.int32)
    family, wide = Coin(), jnp.asarray(x.astype(np.int32))

    def all_of(items):
        stats = family.label_statistics(items, labels, 2)
        row = jax.tree.map(lambda leaf: leaf[:1], stats)
        moved = family.moved_statistics(items, labels, 1 - labels, 2)
        left = family.joined(row, jnp.array(199), items[1], jnp.array(-1))
        return stats, moved, left, family.log_predictive(stats, items[0])

    for got, wanted in zip(*map(jax.tree.leaves, (all_of(items), all_of(wide))), strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype


def test_sums_of_half_precision_do_not_stand_still():
    """From 2,048 on, 1 more is none in float16."""

    class Times(Coin):
        def item_statistics(self, item):
            return jnp.ones_like(item), item

    stats = Times().statistics(jnp.ones(5_000, jnp.float16), jnp.ones((1, 5_000)))
    assert [float(leaf[0]) for leaf in stats] == [5_000, 5_000]


def test_averages_of_whole_numbers_are_refused():
    kernel = slice_mixture(DirichletProcess(1.0), Coin(), 4, warm_start=5, capacity=8)
    with pytest.raises(TypeError, match="warm_start averages statistics, which must be floating"):
        sample(jax.random.key(0), kernel, None, np.arange(12) % 3, num_steps=2)


@pytest.mark.full
@pytest.mark.parametrize("make", [collapsed_mixture, hybrid_mixture, slice_mixture])
def test_a_chain_of_truths_is_that_of_numbers(make):
    x = np.arange(12) % 3 == 0
    kernel = make(DirichletProcess(1.0), Coin(), capacity=16)
    one, other = (
        sample(jax.random.key(0), kernel, None, x.astype(dtype), num_steps=30).trace
        for dtype in (bool, np.int32)
    )
    np.testing.assert_array_equal(one.local["assignment"], other.local["assignment"])
