"""Parameters that are not numbers stop a chain, though labels drawn by them are like others."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Vmap, sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    DirichletCategorical,
    DirichletProcess,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalKnownCovariance,
    auxiliary_mixture,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_bnb,
    slice_features,
    slice_mixture,
    uncollapsed_mixture,
    warm_mixture,
)

ITEMS = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]  # no multiple of blocks and shards
GROUPED = Groups(np.append(ITEMS, ITEMS[:2], 0).reshape(3, 3, 1), np.array([3, 3, 1]))


def break_parameters(params):
    """A number of one slot is lost, as where a Cholesky factor of float32 does not exist."""
    return jax.tree.map(lambda x: x.at[(0,) * x.ndim].set(jnp.nan), params)


class Broken(NormalKnownCovariance):
    def draw(self, key, statistics):
        return break_parameters(super().draw(key, statistics))


class BrokenFeatures(LinearGaussian):
    def redraw(self, *args):
        shared, params = super().redraw(*args)
        return shared, break_parameters(params)


FAMILY = Broken(0.0, 1.0, 4.0)
FEATURES = BrokenFeatures(1)
KERNELS = {
    "hybrid": (lambda: hybrid_mixture(DirichletProcess(1.0), FAMILY, blocks=2), ITEMS),
    "warm": (lambda: warm_mixture(DirichletProcess(1.0), FAMILY, blocks=2, cooling=3.0), ITEMS),
    "uncollapsed": (lambda: uncollapsed_mixture(DirichletProcess(1.0), FAMILY, tail=2), ITEMS),
    "auxiliary": (lambda: auxiliary_mixture(DirichletProcess(1.0), FAMILY), ITEMS),
    "slices": (lambda: slice_mixture(DirichletProcess(1.0), FAMILY), ITEMS),
    "hdp": (lambda: hybrid_hdp(HierarchicalDirichletProcess(1.0, 1.0), FAMILY, blocks=2), GROUPED),
    "bnb": (lambda: slice_bnb(BetaProcess(1.0, 2.0), FAMILY, capacity=64), GROUPED),
    "features": (lambda: hybrid_features(BetaBernoulli(1.0), FEATURES, blocks=2), ITEMS),
    "slice features": (lambda: slice_features(BetaBernoulli(1.0), FEATURES), ITEMS),
}
FAST = ("hybrid", "auxiliary", "uncollapsed", "slice features")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in FAST else pytest.mark.full) for name in KERNELS],
)
def test_the_chain_stops(name):
    make, data = KERNELS[name]
    with pytest.warns(UserWarning, match="chain 0 at step"):
        run = sample(jax.random.key(0), make(), None, data, num_steps=3)
    assert np.all(run.stopped >= 0)


class BrokenForOne(NormalKnownCovariance):
    """Of the last item alone, which one shard has."""

    def loglik(self, params, items):
        return jnp.where(items[:, 0] == 1, jnp.nan, super().loglik(params, items))


def test_all_shards_stop():
    family = BrokenForOne(0.0, 1.0, 4.0)
    kernel = hybrid_mixture(DirichletProcess(1.0), family, blocks=2)
    with pytest.warns(UserWarning, match="chain 0 at step"):
        run = sample(jax.random.key(0), kernel, None, ITEMS, num_steps=3, engine=Vmap(2))
    labels = run.trace.local["assignment"]
    assert np.all(run.stopped == 0) and np.all(labels == labels[0])


@pytest.mark.full
@pytest.mark.parametrize("name", ["hybrid", "hdp", "uncollapsed", "bnb"])
def test_without_the_flag_it_goes_on(name, monkeypatch):
    monkeypatch.setattr("sgmc_jax._tree.nan_where", lambda x, broken: x)
    make, data = KERNELS[name]
    run = sample(jax.random.key(0), make(), None, data, num_steps=3)
    assert np.all(run.stopped < 0)


def test_a_mass_out_of_range_that_no_door_has_seen_stops_the_chain():
    """In a stack of kernels numbers are traced."""
    words = Groups(np.array([[0, 0, 1, 1], [2, 3, 3, 0]]), np.array([4, 3]))
    family = DirichletCategorical(0.5, size=4)
    make = lambda a, c: slice_bnb(BetaProcess(a, c), family, failures=1.0, capacity=64)
    kernels = eqx.filter_vmap(make)(jnp.array([0.5, 3.0, 0.5]), jnp.array([2.0, 2.0, 0.5]))
    with pytest.warns(UserWarning, match="2 of 3 chains became non-finite"):
        run = sample(jax.random.key(0), kernels, None, words, num_steps=5, kernel_axis=0)
    assert run.stopped.tolist() == [-1, 0, 0]
