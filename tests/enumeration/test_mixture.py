"""Mixture samplers against all fifteen partitions of four points."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

import sgmc_jax.bnp.hybrid.points as collapsed
import sgmc_jax.bnp.hybrid.schedules as schedules
from sgmc_jax.bnp import (
    Anchored,
    Demotion,
    DirichletProcess,
    NormalKnownCovariance,
    PitmanYor,
    PoissonGamma,
    Published,
    collapsed_mixture,
    hybrid_mixture,
)
from sgmc_jax.bnp.hybrid.anchors import draw_anchors
from tests.enumeration.partitions import (
    KEY,
    check_partitions,
    exact,
    likelihoods,
    normal_marginal,
    prior,
    random_concentration,
)
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

X = np.array([-1.0, -0.5, 0.6, 1.4])
NORMAL = NormalKnownCovariance(np.zeros(1), 0.5 * np.eye(1), 1.5 * np.eye(1))
PROCESSES = {"dp": DirichletProcess(1.2), "py": PitmanYor(0.8, 0.3)}

QUICK = {("dp", 2, 1)}
ANCHORED = [
    pytest.param(*row, marks=() if row in QUICK else pytest.mark.full)
    for row in itertools.product(PROCESSES, (1, 2, 3), (1, 3))
]


@pytest.mark.parametrize("process,blocks,sweeps", ANCHORED)
def test_all_partitions_by_the_anchored_schedule(process, blocks, sweeps):
    check_schedule(process, Anchored(), blocks, sweeps)


@pytest.mark.parametrize("process", ["py", pytest.param("dp", marks=pytest.mark.full)])
def test_all_partitions_by_demotion(process):
    check_schedule(process, Demotion(), 1, 1)


def check_schedule(process, schedule, blocks, sweeps):
    process = PROCESSES[process]
    kernel = hybrid_mixture(
        process, NORMAL, schedule=schedule, blocks=blocks, local_sweeps=sweeps, capacity=8
    )
    check_partitions(kernel, exact(process, normal_marginal, X), X[:, None])


@pytest.mark.full
def test_collapsed_mixture_of_counts():
    counts = np.array([0, 1, 4, 6])
    marginal = lambda x: (
        math.lgamma(1.5 + x.sum())
        - math.lgamma(1.5)
        + 1.5 * math.log(0.7)
        - (1.5 + x.sum()) * math.log(0.7 + len(x))
        - sum(math.lgamma(v + 1) for v in x)
    )
    process = PROCESSES["dp"]
    kernel = collapsed_mixture(process, PoissonGamma(1.5, 0.7), capacity=8)
    data = counts[:, None].astype(np.float32)
    check_partitions(kernel, exact(process, marginal, counts), data)


@pytest.mark.full
def test_a_random_concentration():
    """The law of the partition under a concentration of law Gamma(2, 2), by quadrature."""
    law = random_concentration(2.0, 2.0, normal_marginal, X)
    kernel = collapsed_mixture(DirichletProcess(1.0, prior=(2.0, 2.0)), NORMAL, capacity=8)
    check_partitions(kernel, law, X[:, None])


@pytest.mark.full
def test_a_random_concentration_and_discount():
    """Gamma(2, 2) and a uniform discount, by quadrature over both."""
    a, d = np.meshgrid((np.arange(400) + 0.5) / 25, (np.arange(100) + 0.5) / 100)
    density = a * np.exp(-2 * a) / ((a + 1) * (a + 2) * (a + 3))
    law = (prior(a, d, 4) * density).sum((1, 2)) * likelihoods(normal_marginal, X)
    kernel = collapsed_mixture(PitmanYor(1.0, 0.5, prior=(2.0, 2.0)), NORMAL, capacity=8)
    check_partitions(kernel, law / law.sum(), X[:, None])


# ------------------------------------------------------------------------------ planted faults


def check_fails(kernel, process="dp"):
    law = exact(PROCESSES[process], normal_marginal, X)
    fault_is_seen(check_partitions, kernel, law, X[:, None])


def make(process="dp", **kwargs):
    return hybrid_mixture(PROCESSES[process], NORMAL, capacity=8, **kwargs)


@pytest.mark.full
@pytest.mark.parametrize("blocks,sweeps", [(1, 1), (2, 1), (2, 3), (3, 1)])
@pytest.mark.at_length
def test_the_published_schedule_is_not_exact(blocks, sweeps):
    check_fails(make(schedule=Published(), blocks=blocks, local_sweeps=sweeps))


@pytest.mark.full
@pytest.mark.at_length
def test_anchors_that_move(monkeypatch):
    def movable(key, occupancy, *, anchored):
        right = draw_anchors(key, occupancy, anchored=anchored)
        return right._replace(atom_rank=jnp.where(right.instantiated, -1, occupancy.shape[0]))

    monkeypatch.setattr(schedules, "draw_anchors", movable)
    check_fails(make(blocks=2))


@pytest.mark.full
@pytest.mark.at_length
def test_counts_that_include_the_point_itself(monkeypatch):
    honest = collapsed._logits

    def inclusive(family, hyper, sweep, *rest):
        one_more = sweep._replace(counts=jnp.where(sweep.counts > 0, sweep.counts + 1, 0))
        return honest(family, hyper, one_more, *rest)

    monkeypatch.setattr(collapsed, "_logits", inclusive)
    check_fails(make())


@pytest.mark.full
@pytest.mark.at_length
def test_a_forgotten_discount(monkeypatch):
    honest = PitmanYor.draw_weights

    def undiscounted(self, key, hyper, *args):
        return honest(self, key, hyper | {"discount": 0.0 * hyper["discount"]}, *args)

    monkeypatch.setattr(PitmanYor, "draw_weights", undiscounted)
    check_fails(make("py", blocks=2), "py")


@pytest.mark.full
@pytest.mark.at_length
def test_an_atom_whose_weight_is_lost_as_it_is_demoted(monkeypatch):
    honest = collapsed._demote

    def forgetful(sweep, *args):
        after = honest(sweep, *args)
        return after._replace(atoms=after.atoms._replace(log_tail=sweep.atoms.log_tail))

    monkeypatch.setattr(collapsed, "_demote", forgetful)
    check_fails(make(schedule=Demotion()))


# ------------------------------------------------------------------------- without any data


@pytest.mark.full
def test_the_number_of_clusters_without_data():
    """n = 12 points that say nothing: E K = sum a / (a + i), for every schedule that is exact."""
    flat = NormalKnownCovariance(np.zeros(1), 1e8 * np.eye(1), np.eye(1))
    expected = sum(1.2 / (1.2 + i) for i in range(12))
    args = {"num_chains": 512, "num_steps": 1_000, "burn_in": 100}
    data = np.zeros((12, 1))
    for schedule, blocks, right in [(Anchored(), 4, True), (Published(), 4, False)]:
        kernel = hybrid_mixture(
            DirichletProcess(1.2), flat, schedule=schedule, blocks=blocks, capacity=16
        )
        active = lambda state, info: info.active.astype(jnp.float32)
        run = run_law(KEY, kernel, None, data, reduce=active, **args)
        if right:
            check_law(run.trace.mean, expected, 0.02)
        else:
            assert np.mean(run.trace.mean) < 0.75 * expected
