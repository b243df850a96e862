"""A series of one's own under the slice sampler: a mixture of M components, enumerated."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from sgmc_jax import Vmap, cycle
from sgmc_jax.bnp import DirichletMultinomial, slice_mixture
from sgmc_jax.processes import Atoms, Series
from tests.enumeration.partitions import check_partitions, clusters, likelihoods, partitions
from tests.enumeration.partitions import normal_marginal as marginal
from tests.enumeration.test_awkward import Rename
from tests.enumeration.test_mixture import NORMAL, X
from tests.laws.moments import fault_is_seen

pytestmark = pytest.mark.runs_long

SHAPE, NUM = 0.7, 3  # of four points, so that some partitions are impossible


class Symmetric(Series):
    """(w_1, ..., w_M) ~ Dirichlet(s, ..., s)."""

    shape: Array
    num: int

    def start(self):
        return {"shape": self.shape}

    def draw_atoms(self, key, hyper, counts, end):
        weight_key, wait_key = jax.random.split(key)
        free = counts == 0
        some = ~free | (jnp.cumsum(free) <= self.num - jnp.sum(~free))
        logs = jax.random.loggamma(weight_key, hyper["shape"] + counts)
        log_weight = jax.nn.log_softmax(jnp.where(some, logs, -jnp.inf))
        arrived = jax.random.exponential(wait_key, counts.shape) < end * jnp.exp(log_weight)
        return Atoms(log_weight, arrived, jnp.full((), -jnp.inf), jnp.zeros((), bool))


PROCESS = Symmetric(jnp.asarray(SHAPE), NUM)


def law():
    """M! / (M - K)! prod_k Gamma(s + m_k) / Gamma(s), times the likelihood."""

    def prior(members):
        ways = math.perm(NUM, len(members))
        return ways * math.prod(math.gamma(SHAPE + len(c)) / math.gamma(SHAPE) for c in members)

    weights = np.array([prior(clusters(z)) for z in partitions(len(X))]) * likelihoods(marginal, X)
    return weights / weights.sum()


def check(kernel, **kwargs):
    args = {"num_chains": 256, "num_steps": 1_500, "tolerance": 0.06, "least": 1e-3}
    check_partitions(kernel, law(), X[:, None], **(args | kwargs))


@pytest.mark.parametrize("capacity", [NUM, pytest.param(8, marks=pytest.mark.full)])
def test_all_partitions(capacity):
    check(slice_mixture(PROCESS, NORMAL, capacity=capacity))


@pytest.mark.full
@pytest.mark.optimised
def test_batches_on_shards():
    check(slice_mixture(PROCESS, NORMAL, 3), engine=Vmap(2), num_steps=3_000)


@pytest.mark.full
def test_slots_that_change_their_names():
    check(cycle(slice_mixture(PROCESS, NORMAL, capacity=16), Rename(PROCESS)))


@pytest.mark.full
@pytest.mark.at_length
def test_weights_that_miss_half_an_item(monkeypatch):
    """Planted."""
    honest = Symmetric.draw_atoms

    def missed(self, key, hyper, counts, end):
        fewer = {"shape": hyper["shape"] - jnp.where(counts > 0, 0.5, 0)}
        return honest(self, key, fewer, counts, end)

    monkeypatch.setattr(Symmetric, "draw_atoms", missed)
    fault_is_seen(check, slice_mixture(PROCESS, NORMAL, capacity=NUM))


def test_a_process_that_is_no_series():
    with pytest.raises(TypeError, match="process must be a Series, got int"):
        slice_mixture(3, NORMAL)
    with pytest.raises(TypeError, match="process must be a PitmanYor for weights='scir'"):
        slice_mixture(PROCESS, DirichletMultinomial(0.5, size=3), 2, "scir", step_size=0.1)
