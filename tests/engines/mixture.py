"""A finite mixture of Gaussians, sharded over its items, as a user of the library would write it.

    w ~ Dirichlet(a / K, ..., a / K),   m_k ~ N(0, s^2 I),   z_i ~ w,   x_i ~ N(m_{z_i}, I)

Of the three faults at the end each breaks one rule of a sharded kernel.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import Collective, Dist, Kernel
from sgmc_jax._types import as_keys
from sgmc_jax.collective import as_shard
from sgmc_jax.random import log_gamma

NUM_COMPONENTS, DIM = 4, 2


def items(num_items):
    """Points around four centres; the same for every process that asks."""
    centres = 2.0 * _corners()[np.arange(num_items) % NUM_COMPONENTS]
    return centres + np.random.default_rng(num_items).normal(size=(num_items, DIM))


def _corners():
    return np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])


class MixtureState(NamedTuple):
    position: Dist


class MixtureInfo(NamedTuple):
    counts: jax.Array
    logdensity: jax.Array


class Mixture(Kernel):
    """Gibbs: in each step every label is drawn anew with probability 1/2, then all parameters.

    The position is `Dist({"weights", "means"}, {"assignment"})`, or `None` to begin at random.
    """

    num_components: int = eqx.field(static=True, default=NUM_COMPONENTS)
    concentration: jax.Array = eqx.field(converter=jnp.asarray, default=1.0)
    scale: jax.Array = eqx.field(converter=jnp.asarray, default=3.0)
    comm: Collective = Collective()

    def init(self, key, position, data):
        if position is not None:
            return MixtureState(position)
        shard, num = as_shard(data), self.num_components
        draw = lambda key: jax.random.randint(key, (), 0, num, jnp.int32)
        labels = jax.vmap(draw)(self.item_keys(as_keys(key).noise, shard.capacity))
        dtype = shard.items.dtype
        means = jnp.linspace(-1, 1, num, dtype=dtype)[:, None] * jnp.ones(DIM, dtype)
        shared = {"weights": jnp.full(num, 1 / num, dtype), "means": means}
        return MixtureState(Dist(shared, {"assignment": labels}))

    def step(self, key, state, data):
        label_key, key = jax.random.split(as_keys(key).noise)
        shard = as_shard(data)
        labels = self._labels(label_key, state.position, shard)
        position, counts = self._parameters(key, labels, shard)
        logdensity = self._loglik(position, shard)
        return MixtureState(position), MixtureInfo(counts, logdensity)

    def _labels(self, key, position, shard):
        def one(key, scores, old):
            place, coin = jax.random.uniform(key, (2,), scores.dtype)
            cumulative = jnp.cumsum(jax.nn.softmax(scores))
            new = jnp.sum(place * cumulative[-1] > cumulative[:-1], dtype=jnp.int32)
            return jnp.where(coin < 0.5, new, old)

        keys = self.item_keys(key, shard.capacity)
        return jax.vmap(one)(keys, _scores(position.shared, shard), position.local["assignment"])

    def _parameters(self, key, labels, shard):
        weight_key, mean_key = jax.random.split(key)
        member = jax.nn.one_hot(labels, self.num_components, dtype=bool) & shard.mask[:, None]
        counts = self.total(member.sum(axis=0, dtype=jnp.int32))
        sums = self.total(member.astype(shard.items.dtype).T @ shard.items)
        precision = self.scale.astype(sums.dtype) ** -2 + counts
        noise = jax.random.normal(mean_key, sums.shape, sums.dtype)
        means = sums / precision[:, None] + noise / jnp.sqrt(precision[:, None])
        shape = (self.concentration / self.num_components).astype(sums.dtype) + counts
        weights = jax.nn.softmax(log_gamma(weight_key, shape))
        return Dist({"weights": weights, "means": means}, {"assignment": labels}), counts

    def _loglik(self, position, shard):
        logliks = jax.scipy.special.logsumexp(_scores(position.shared, shard), axis=1)
        return self.total(jnp.sum(jnp.where(shard.mask, logliks, 0)))

    def item_keys(self, key, num_items):
        """By global index: alike on any number of shards."""
        index = self.comm.index() * num_items + jnp.arange(num_items)
        return jax.vmap(jax.random.fold_in, (None, 0))(key, index)

    def total(self, x):
        return self.comm.sum(x)


def _scores(shared, shard):
    gaps = shard.items[:, None, :] - shared["means"]
    return jnp.log(shared["weights"]) - 0.5 * jnp.sum(gaps**2, axis=-1)


class KeyedByRow(Mixture):
    """The fault: items keyed by their row in the shard, so that shards repeat one another."""

    def item_keys(self, key, num_items):
        return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(num_items))


class NeverMeeting(Mixture):
    """The fault: every shard keeps to its own items."""

    def total(self, x):
        return x


class PriorOnEveryShard(Mixture):
    """The fault: a pseudo-count that belongs to the prior is summed with the shards' counts."""

    def total(self, x):
        one = x.dtype == jnp.int32
        return self.comm.sum(x + one) - one
