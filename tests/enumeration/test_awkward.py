"""Mixture samplers where blocks, batches and shards do not divide the points: all partitions.

Of five points there are 52, of six 203. A check of the 24 likeliest and of all others together
gives a false alarm with probability 1e-6.
"""

import itertools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

from sgmc_jax import Dist, Kernel, Vmap, cycle
from sgmc_jax._types import as_keys
from sgmc_jax.bnp import (
    Demotion,
    DirichletMultinomial,
    DirichletProcess,
    NormalKnownCovariance,
    PitmanYor,
    auxiliary_mixture,
    collapsed_mixture,
    hybrid_mixture,
    slice_mixture,
    split_merge,
)
from sgmc_jax.bnp.hybrid.blocks import Blocks
from sgmc_jax.bnp.hybrid.mixture import Mixture
from sgmc_jax.bnp.stochastic_slice import StochasticSlice
from tests.enumeration.partitions import (
    check_partitions,
    exact,
    normal_marginal,
    random_concentration,
)
from tests.laws.moments import fault_is_seen

pytestmark = pytest.mark.runs_long

FIVE = np.array([-1.3, -0.4, 0.2, 0.9, 2.1])
SIX = np.append(FIVE, -0.8)
NORMAL = NormalKnownCovariance(np.zeros(1), np.eye(1), 2.5 * np.eye(1))
MARGINAL = partial(normal_marginal, variance=1.0, prior=2.5)
PROCESSES = {"dp": DirichletProcess(0.8), "py": PitmanYor(0.8, 0.3)}
# with more of a discount thousands of sticks are needed
STICKS = {"dp": DirichletProcess(0.8), "py": PitmanYor(0.8, 0.1)}
LONG = 1_500
full = pytest.mark.full


def check(kernel, process, points=FIVE, law=None, **kwargs):
    law = exact(process, MARGINAL, points) if law is None else law
    args = {"num_chains": 512, "num_steps": LONG, "burn_in": 30, "tolerance": 0.2} | kwargs
    check_partitions(kernel, law, points[:, None], least=0.01, **args)


def check_fails(*args, **kwargs):
    fault_is_seen(check, *args, **kwargs)


def rows(*quick, every):
    """Rows of parameters: all but the quick ones are of the full tier."""
    assert set(quick) <= set(every)
    return [row if row in quick else pytest.param(*row, marks=full) for row in every]


# ------------------------------------------------------------------------------ hybrid ones


def anchored(process, blocks, sweeps=1):
    return hybrid_mixture(
        PROCESSES[process], NORMAL, blocks=blocks, local_sweeps=sweeps, capacity=8
    )


ANCHORED = list(itertools.product(PROCESSES, (2, 3, 7), (1, 2)))


@pytest.mark.parametrize("process,blocks,sweeps", rows(every=ANCHORED))
def test_blocks_that_are_padded(process, blocks, sweeps):
    check(anchored(process, blocks, sweeps), PROCESSES[process])


SHARDS = [("dp", 2, 2), ("py", 4, 2), ("dp", 3, 3), ("py", 6, 3), ("dp", 8, 2)]


@pytest.mark.full
@pytest.mark.parametrize("process,blocks,shards", rows(("py", 6, 3), every=SHARDS))
def test_blocks_on_shards(process, blocks, shards):
    kernel = anchored(process, blocks)
    check(kernel, PROCESSES[process], engine=Vmap(shards))


@full
@pytest.mark.parametrize("process,blocks", [("dp", 4), ("py", 5), ("dp", 7)])
def test_six_points(process, blocks):
    check(anchored(process, blocks), PROCESSES[process], SIX)


SERIAL = {
    "demotion": partial(hybrid_mixture, schedule=Demotion(), capacity=8),
    "collapsed": partial(collapsed_mixture, capacity=8),
    "auxiliary": partial(auxiliary_mixture, auxiliary=2, capacity=8),
}


@full
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("name", SERIAL)
def test_serial_samplers(name, process):
    check(SERIAL[name](PROCESSES[process], NORMAL), PROCESSES[process])


@full
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("blocks,engine", [(2, None), (3, None), (7, None), (4, Vmap(2))])
def test_blocks_in_a_cycle_with_split_merge_moves(process, blocks, engine):
    moves = split_merge(PROCESSES[process], NORMAL, proposals=2, capacity=8)
    check(cycle(anchored(process, blocks), moves), PROCESSES[process], engine=engine)


def unmasked(honest):
    """The fault: the padded rows of a block are taken for points."""

    class Unmasked(Blocks):
        real = property(lambda self: jnp.ones(self.shard.capacity, bool))

    return lambda self, now, *args: honest(self, now._replace(blocks=Unmasked(*now.blocks)), *args)


@full
@pytest.mark.at_length
def test_padding_that_is_an_anchor(monkeypatch):
    """Planted."""
    monkeypatch.setattr(Mixture, "off_star", unmasked(Mixture.off_star))
    check_fails(anchored("dp", 2), PROCESSES["dp"])


# -------------------------------------------------------------------- the order of the sticks


class RenamedState(NamedTuple):
    position: Dist


class Rename(Kernel):
    """Slots change names at random; the partition stays as it is."""

    process: PitmanYor

    def init(self, key, position, data):
        labels = jnp.zeros(len(data), jnp.int32)
        return RenamedState(Dist(self.process.start(), {"assignment": labels}))

    def step(self, key, state, data):
        hyper, local = state.position
        names = jax.random.permutation(as_keys(key).noise, 16).astype(jnp.int32)
        labels = local["assignment"]
        renamed = jnp.where(labels < 16, names[labels % 16], labels)
        return RenamedState(Dist(hyper, {"assignment": renamed})), None


PROCESS = DirichletProcess(0.8, prior=(2.0, 2.0))


def sliced(process, batch_size=None):
    return slice_mixture(STICKS[process], NORMAL, batch_size, capacity=32)


def in_a_cycle(name, process):
    """The slice sampler and another kernel that moves its labels."""
    others = {
        "rename": lambda: Rename(STICKS[process]),
        "split_merge": lambda: split_merge(STICKS[process], NORMAL, proposals=2, capacity=32),
        "hybrid": lambda: hybrid_mixture(STICKS[process], NORMAL, blocks=2, capacity=32),
    }
    return cycle(sliced(process), others[name]())


CYCLES = list(itertools.product(["rename", "split_merge", "hybrid"], STICKS))


@full
@pytest.mark.parametrize("other,process", CYCLES)
def test_sticks_in_a_cycle(other, process):
    check(in_a_cycle(other, process), STICKS[process])


@pytest.mark.at_length
@full
def test_sticks_in_a_cycle_and_a_random_concentration():
    law = random_concentration(2.0, 2.0, MARGINAL, FIVE)
    sticks = slice_mixture(PROCESS, NORMAL, capacity=32)
    for other in (Rename(PROCESS), hybrid_mixture(PROCESS, NORMAL, blocks=2, capacity=32)):
        check(cycle(sticks, other), PROCESS, law=law)


# ------------------------------------------------------------------------ batches and shards

BATCHES = [("dp", 1, 2), ("dp", 3, 2), ("py", 3, 2), ("dp", 1, 3), ("py", 2, 3), ("dp", 4, 3)]


@full
@pytest.mark.optimised
@pytest.mark.parametrize("process,batch_size,shards", BATCHES)
def test_batches_on_shards(process, batch_size, shards):
    args = {"engine": Vmap(shards), "num_steps": 3 * LONG, "burn_in": 100, "tolerance": 0.6}
    check(sliced(process, batch_size), STICKS[process], **args)


@full
@pytest.mark.parametrize("process,batch_size", list(itertools.product(STICKS, (None, 2, 3))))
def test_batches(process, batch_size):
    check(sliced(process, batch_size), STICKS[process], num_steps=2 * LONG, tolerance=0.3)


COUNTS = np.array([[3, 0, 1], [2, 1, 0], [0, 2, 0], [0, 3, 1], [1, 1, 1]])
ALPHA = np.array([0.5, 0.4, 0.3])


def counts_marginal(x):
    shape = ALPHA + x.sum(0)
    log = gammaln(ALPHA.sum()) - gammaln(ALPHA).sum()
    return log + gammaln(shape).sum() - gammaln(shape.sum())


@full
@pytest.mark.parametrize("engine", [None, Vmap(2), Vmap(3)])
@pytest.mark.parametrize("renamed", [False, True])
def test_stochastic_sticks_from_all_points(engine, renamed):
    if renamed and engine:
        pytest.skip("the other kernel of the cycle is for one device")
    process = DirichletProcess(0.5)
    kernel = slice_mixture(
        process, DirichletMultinomial(ALPHA), None, "scir", step_size=1.0, capacity=16
    )
    kernel = cycle(kernel, Rename(process)) if renamed else kernel
    law = exact(process, counts_marginal, COUNTS)
    args = {"num_chains": 512, "num_steps": LONG, "burn_in": 50, "tolerance": 0.3}
    check_partitions(kernel, law, COUNTS, least=0.01, engine=engine, **args)


@full
@pytest.mark.at_length
def test_an_order_of_sticks_that_stays_as_labels_move(monkeypatch):
    """Planted: `refresh` brings nothing but the rest up to date."""
    honest = StochasticSlice.refresh

    def stale(self, key, state, data):
        return honest(self, key, state, data)._replace(order=state.order)

    monkeypatch.setattr(StochasticSlice, "refresh", stale)
    fault_is_seen(test_stochastic_sticks_from_all_points, None, True)
