"""Kernels with slots, small enough to be grown inside every combinator."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import Collective, Dist, Kernel, SlotInfo, cycle, gibbs, repeat, thin
from sgmc_jax._types import as_keys
from sgmc_jax.bnp import (
    BetaBernoulli,
    Demotion,
    DirichletProcess,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalKnownCovariance,
    PitmanYor,
    Published,
    auxiliary_mixture,
    collapsed_mixture,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_mixture,
    split_merge,
    uncollapsed_mixture,
    warm_features,
    warm_mixture,
)
from sgmc_jax.collective import as_shard

NUM = 7  # no multiple of the numbers of blocks and shards
X = np.random.default_rng(3).normal(size=(NUM, 1)) * 3
NORMAL = NormalKnownCovariance(0.0, 0.1, 9.0)
BUSY = DirichletProcess(3.0)  # of seven points in two slots some soon find no room
GROUPS = Groups(np.pad(X, ((0, 3), (0, 0))).reshape(5, 2, 1), np.array([2, 1, 0, 2, 2]))


class Walkers(NamedTuple):
    position: Dist


class BirthAndDeath(Kernel):
    """Each item keeps a walker or loses it; now and then one is born, at the mean of the data."""

    capacity: int = eqx.field(static=True)
    blocks: int = eqx.field(static=True, default=4)
    comm: Collective = Collective()

    def init(self, key, position, data):
        if position is not None:
            shared = jax.tree.map(self._padded, position.shared)
            return Walkers(Dist(shared, position.local))
        shared = {"x": jnp.zeros(self.capacity), "alive": jnp.zeros(self.capacity, bool)}
        return Walkers(Dist(shared, {"seen": jnp.zeros(as_shard(data).capacity, jnp.int32)}))

    def step(self, key, state, data):
        keys, shard = jax.random.split(as_keys(key).noise, 3), as_shard(data)
        total = self.comm.sum(jnp.where(shard.mask, shard.items[:, 0], 0).sum())
        birth, place = jax.random.uniform(keys[0]) < 0.6, total / shard.total
        lives = jax.random.uniform(keys[1], (self.capacity,)) < 0.8  # alike at every capacity
        moves = jax.random.normal(keys[2], (self.capacity,))
        (shared, local), size = state.position, self._block_size(shard)
        alive = shared["alive"] & lives
        overflow = birth & alive.all()
        born = birth & ~overflow & (jnp.arange(self.capacity) == jnp.argmin(alive))
        x, alive = jnp.where(alive, shared["x"], place) + moves, alive | born
        block = (shard.start + jnp.arange(shard.capacity)) // size
        seen = local["seen"] + (block == alive.sum() % self.blocks)
        shared = {"x": jnp.where(alive, x, 0), "alive": alive}
        info = SlotInfo(alive.sum(dtype=jnp.int32), overflow)
        return Walkers(Dist(shared, {"seen": seen})), info

    def _block_size(self, shard):
        if self.comm.axis is None:
            return -(-shard.capacity // self.blocks)
        return shard.capacity * self.comm.size // self.blocks

    def _padded(self, x):
        return jnp.pad(x, (0, self.capacity - len(x)))


class Case(NamedTuple):
    """A kernel by its capacity, its data, and one number of blocks."""

    name: str
    make: Callable[[int], Kernel]
    data: Any = X
    room: int = 64  # a capacity that never has to grow


def features(capacity, blocks=3):
    family = LinearGaussian(1, 0.3, 3.0)
    return hybrid_features(BetaBernoulli(2.0), family, blocks=blocks, capacity=capacity)


def warm(capacity):
    family = LinearGaussian(1, 0.3, 3.0)
    return warm_features(BetaBernoulli(2.0), family, blocks=2, capacity=capacity)


def hdp(capacity, blocks=4):
    process = HierarchicalDirichletProcess(3.0, 3.0)
    return hybrid_hdp(process, NORMAL, blocks=blocks, capacity=capacity)


def mixture(make, *args, process=BUSY, **kwargs):
    return lambda capacity: make(process, NORMAL, *args, capacity=capacity, **kwargs)


def both(capacity):
    hybrid = mixture(hybrid_mixture, blocks=4)(capacity)
    return cycle(hybrid, mixture(split_merge, proposals=4)(capacity))


CASES = [
    Case("walkers", BirthAndDeath),
    Case("hybrid", mixture(hybrid_mixture, blocks=4)),
    Case("hybrid sweeps", mixture(hybrid_mixture, blocks=2, local_sweeps=2)),
    Case("hybrid PY", mixture(hybrid_mixture, blocks=2, process=PitmanYor(2.0, 0.3))),
    Case("published", mixture(hybrid_mixture, blocks=4, schedule=Published())),
    Case("demotion", mixture(hybrid_mixture, schedule=Demotion())),
    Case("collapsed", mixture(collapsed_mixture)),
    Case("auxiliary", mixture(auxiliary_mixture)),
    Case("warm", mixture(warm_mixture, blocks=2)),
    Case("uncollapsed", mixture(uncollapsed_mixture, tail=2)),
    Case("slice", mixture(slice_mixture)),
    Case("slice of batches", mixture(slice_mixture, 3)),
    Case("with split-merge", both),
    Case("features", features),
    Case("features in one block", lambda capacity: features(capacity, 1)),
    Case("warm features", warm),
    Case("hdp", hdp, GROUPS),
    Case("hdp in one block", lambda capacity: hdp(capacity, 1), GROUPS),
]
BY_NAME = {case.name: case for case in CASES}

WRAPS = {
    "plain": lambda make: make(),
    "thin": lambda make: thin(make(), 2),
    "repeat": lambda make: repeat(make(), 2),
    "gibbs": lambda make: gibbs(z=lambda rest: make()),
    "cycle": lambda make: cycle(make(), make()),
    "thin of gibbs": lambda make: thin(gibbs(z=lambda rest: make()), 2),
    "all in gibbs": lambda make: thin(gibbs(z=lambda rest: cycle(repeat(make(), 2), make())), 2),
}
# What costs seconds to compile: every combinator, and not each by itself.
FEW = ("plain", "all in gibbs")


def wraps_of(name):
    return WRAPS if name == "walkers" else FEW


def position_of(wrap, position):
    """The position of the kernel inside."""
    return position["z"] if "gibbs" in wrap else position


def start_of(wrap, position):
    return {"z": position} if "gibbs" in wrap else position
