"""Split-merge moves against all fifteen partitions of four points, alone and in cycles."""

import importlib
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import cycle
from sgmc_jax.bnp import (
    PoissonGamma,
    collapsed_mixture,
    hybrid_mixture,
    split_merge,
)
from sgmc_jax.bnp.hybrid.blocks import Blocks
from tests.enumeration.partitions import KEY, check_partitions, exact, normal_marginal
from tests.enumeration.test_mixture import NORMAL, PROCESSES, X
from tests.laws.moments import fault_is_seen

pytestmark = pytest.mark.runs_long

SplitMerge = type(split_merge(PROCESSES["dp"], NORMAL))


def moves(process, **kwargs):
    return split_merge(PROCESSES[process], NORMAL, **({"proposals": 2, "capacity": 8} | kwargs))


def check(kernel, process, **kwargs):
    law = exact(PROCESSES[process], normal_marginal, X)
    args = {"num_steps": 500, "burn_in": 100, "tolerance": 0.06} | kwargs
    check_partitions(kernel, law, X[:, None], **args)


# ------------------------------------------------- alone: any two of four points may be seeds


@pytest.mark.parametrize("process", ["py", pytest.param("dp", marks=pytest.mark.full)])
def test_all_partitions(process):
    check(moves(process), process)


@pytest.mark.at_length
@pytest.mark.full
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("proposals,scans", [(1, 1), (3, 3), (16, 1)])
def test_all_partitions_at_length(process, proposals, scans):
    kernel = moves(process, proposals=proposals, scans=scans)
    check(kernel, process, num_steps=2_000, tolerance=0.025)


@pytest.mark.full
def test_another_family():
    process, counts = PROCESSES["dp"], np.array([0, 1, 4, 6])
    family = PoissonGamma(1.5, 0.7)

    def marginal(x):
        shape, rate = 1.5 + np.sum(x), 0.7 + len(x)
        log = math.lgamma(shape) - math.lgamma(1.5) + 1.5 * math.log(0.7)
        return log - shape * math.log(rate) - sum(math.lgamma(count + 1) for count in x)

    kernel = split_merge(process, family, proposals=2, capacity=8)
    data = counts[:, None].astype(np.float32)
    check_partitions(
        kernel, exact(process, marginal, counts), data, num_steps=1_000, tolerance=0.04
    )


def test_the_law_of_all_divisions_adds_up_to_one():
    """Of a union of six items, seeds on their own sides: sixteen divisions."""
    kernel, module = moves("dp", proposals=1), importlib.import_module("sgmc_jax.bnp.split_merge")
    blocks = Blocks.of(jnp.arange(6.0)[:, None], 1, kernel.comm)
    pairs = module.Pairs(jnp.array([[0, 5]]), jnp.array([[0, 1]]), jnp.ones(1, bool))

    def log_law(labels):
        unions = kernel._unions(pairs, blocks, labels)
        index = unions.tiles.take(blocks.index)
        logits = jnp.array([9.0, 0.3, -1.2, 2.0, 0.7, -9.0])[index]
        return kernel._sides(KEY, blocks, pairs, unions, logits, labels)[1][0]

    divided = np.array([(0, *sides, 1) for sides in itertools.product((0, 1), repeat=4)])
    each = jax.jit(jax.vmap(log_law))(jnp.asarray(divided))
    np.testing.assert_allclose(np.exp(each).sum(), 1, rtol=1e-5)


def test_a_pair_is_judged_by_as_many_clusters_as_earlier_pairs_have_left():
    """Of three the first pair merges two; a split is then taken with e^gain (a + 2 d)."""
    kernel, module = moves("py"), importlib.import_module("sgmc_jax.bnp.split_merge")
    pairs = module.Pairs(jnp.zeros((2, 2), int), jnp.array([[0, 1], [2, 2]]), jnp.ones(2, bool))
    gain, occupied = jnp.array([-100.0, np.log(0.3)]), jnp.arange(8) < 3
    hyper = PROCESSES["py"].start()
    decide = lambda key: kernel._decide(key, hyper, pairs, gain, occupied)[1]
    info = jax.jit(jax.vmap(decide))(jax.random.split(jax.random.key(0), 20_000))
    assert np.all(info.merges == 1)
    share = 0.3 * (0.8 + 2 * 0.3)
    assert abs(np.mean(info.splits) - share) < 5.5 * np.sqrt(share * (1 - share) / 20_000)


# ------------------------------------------------------------------------------ in a cycle


@pytest.mark.full
@pytest.mark.parametrize("process", PROCESSES)
def test_all_partitions_in_a_cycle(process):
    hybrid = hybrid_mixture(PROCESSES[process], NORMAL, blocks=2, capacity=8)
    check(cycle(hybrid, moves(process)), process)


@pytest.mark.full
def test_all_partitions_in_a_cycle_with_collapsed_sampling():
    collapsed = collapsed_mixture(PROCESSES["py"], NORMAL, capacity=8)
    check(cycle(moves("py"), collapsed), "py", num_steps=1_000, tolerance=0.04)


# -------------------------------------------------------------------------- planted faults


def check_fails(process):
    fault_is_seen(check, moves(process), process)


@pytest.mark.full
@pytest.mark.at_length
def test_a_forgotten_proposal_density(monkeypatch):
    honest = SplitMerge._sides

    def forgetful(self, *args):
        side, log_law = honest(self, *args)
        return side, 0 * log_law

    monkeypatch.setattr(SplitMerge, "_sides", forgetful)
    check_fails("dp")


@pytest.mark.full
@pytest.mark.at_length
def test_births_that_forget_the_number_of_clusters(monkeypatch):
    honest = SplitMerge._decide

    def undiscounted(self, key, hyper, *args):
        return honest(self, key, hyper | {"discount": 0 * hyper["discount"]}, *args)

    monkeypatch.setattr(SplitMerge, "_decide", undiscounted)
    check_fails("py")


@pytest.mark.full
@pytest.mark.at_length
def test_a_launch_that_sees_the_labels(monkeypatch):
    """A scan from the present sides, as if they were the launch."""
    honest = SplitMerge._sides

    def peeping(self, key, blocks, pairs, unions, logits, labels):
        current = unions.tiles.take(labels) == unions.tiles.own(pairs.slot[:, 1])[:, None]
        together = unions.tiles.own(pairs.together)[:, None]
        seen = self._logits(key, unions, (current | (unions.seed == 1)) & (unions.seed != 0))
        logits = jnp.where(together, logits, seen)
        return honest(self, key, blocks, pairs, unions, logits, labels)

    monkeypatch.setattr(SplitMerge, "_sides", peeping)
    check_fails("dp")


@pytest.mark.full
@pytest.mark.at_length
def test_pairs_that_share_a_cluster(monkeypatch):
    """All pairs move at once, though they meet."""
    honest = SplitMerge._pairs

    def crowded(self, *args):
        pairs, centres = honest(self, *args)
        return pairs._replace(live=pairs.index[:, 0] != pairs.index[:, 1]), centres

    monkeypatch.setattr(SplitMerge, "_pairs", crowded)
    check_fails("dp")


@pytest.mark.full
@pytest.mark.at_length
def test_seeds_drawn_by_the_labels(monkeypatch):
    """Only pairs in one cluster are drawn if there are any: splits without their inverse."""
    honest = SplitMerge._pairs

    def choosy(self, *args):
        pairs, centres = honest(self, *args)
        return pairs._replace(live=pairs.live & (pairs.together | (pairs.index[:, 0] > 1))), centres

    monkeypatch.setattr(SplitMerge, "_pairs", choosy)
    check_fails("dp")
