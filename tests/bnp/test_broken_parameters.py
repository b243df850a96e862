"""What is not a number stops a chain, though labels drawn by it are like others."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Vmap, sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    Demotion,
    DirichletCategorical,
    DirichletProcess,
    GammaPoisson,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    LinearPoisson,
    NormalKnownCovariance,
    PitmanYor,
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
    with pytest.warns(UserWarning, match="chain 0 at step 2"):  # designated, it was not asked
        run = sample(jax.random.key(9), kernel, None, ITEMS, num_steps=6, engine=Vmap(2))
    labels = run.trace.local["assignment"]
    assert run.stopped == 2 and np.all(labels[1:] == labels[1]) and np.any(labels[0] != labels[1])


class Scoreless(NormalKnownCovariance):
    """The last item's density has overflowed, under parameters that are whole."""

    def scores(self, params, items):
        return jnp.where(items[:, 0] == 1, jnp.nan, super().scores(params, items))


class Lawless(NormalKnownCovariance):
    """Likewise its predictive density."""

    def log_predictive_of(self, predictive, item):
        return jnp.where(item[0] == 1, jnp.nan, super().log_predictive_of(predictive, item))


class Oddless(LinearPoisson):
    def log_item(self, params, entries, item):
        return jnp.where(item[0] == 3, jnp.nan, super().log_item(params, entries, item))


SCORELESS, LAWLESS = Scoreless(0.0, 1.0, 4.0), Lawless(0.0, 1.0, 4.0)
LAST = GROUPED._replace(items=GROUPED.items[::-1], size=GROUPED.size[::-1])
COUNTS, COUNTED = np.array([[2], [0], [1], [0], [5], [3]]), Oddless(1)
DP, HDP = DirichletProcess(1.0), HierarchicalDirichletProcess(1.0, 1.0)
NO_LAW = {
    "predictive": (lambda: hybrid_mixture(DP, LAWLESS, blocks=2), ITEMS),
    "demotion": (lambda: hybrid_mixture(DP, LAWLESS, schedule=Demotion()), ITEMS),
    "hdp": (lambda: hybrid_hdp(HDP, SCORELESS, blocks=2), LAST),
    "hdp predictive": (lambda: hybrid_hdp(HDP, LAWLESS, blocks=2), LAST),
    "uncollapsed": (lambda: uncollapsed_mixture(DP, SCORELESS, tail=2), ITEMS),
    "auxiliary": (lambda: auxiliary_mixture(DP, SCORELESS), ITEMS),
    "slices": (lambda: slice_mixture(DP, SCORELESS), ITEMS),
    "random scan": (lambda: slice_mixture(DP, SCORELESS, batch_size=4), ITEMS),
    "bnb": (lambda: slice_bnb(BetaProcess(1.0, 2.0), SCORELESS, capacity=64), LAST),
    "features": (lambda: hybrid_features(GammaPoisson(1.0), COUNTED, blocks=2), COUNTS),
    "slice features": (lambda: slice_features(GammaPoisson(1.0), COUNTED), COUNTS),
}


def alone_and_on_shards():
    for name in NO_LAW:
        fast = name in ("predictive", "features", "slices")
        yield pytest.param(name, None, id=name, marks=[] if fast else pytest.mark.full)
        if name not in ("demotion", "auxiliary"):  # which are of one block
            yield pytest.param(name, Vmap(2), id=f"{name}-shards", marks=pytest.mark.full)


@pytest.mark.parametrize("name,engine", list(alone_and_on_shards()))
def test_an_item_without_a_law_stops_the_chain(name, engine):
    """One item's, on one of the shards; of features only once one is there to choose."""
    make, data = NO_LAW[name]
    with pytest.warns(UserWarning, match="chain 0 at step"):
        run = sample(jax.random.key(0), make(), None, data, num_steps=20, engine=engine)
    assert np.all(run.stopped >= 0)
    labels = next(iter(run.trace.local.values()))
    assert np.all(labels >= 0) and np.all(labels[-1] == labels[run.stopped])


@pytest.mark.full
def test_without_a_slot_no_law_is_lacking():
    """Where no atom is known no item has a choice: the step is made again, and no chain stops."""
    words = Groups(jnp.array([[0, 0, 1, 1], [2, 3, 3, 0]]), jnp.array([4, 3]))
    kernel = slice_bnb(BetaProcess(0.9, 3.0), DirichletCategorical(0.1, size=4), capacity=1)
    state = kernel.init(jax.random.key(0), None, words)
    step = jax.jit(jax.vmap(lambda key: kernel.step(key, state, words)))
    states, info = step(jax.random.split(jax.random.key(1), 50))
    assert np.all(info.overflow) and np.all(jax.vmap(kernel.finite)(states))


@pytest.mark.parametrize(
    "sampler", [hybrid_mixture, pytest.param(auxiliary_mixture, marks=pytest.mark.full)]
)
def test_one_item_of_a_negative_concentration(sampler):
    """Whatever there is, it is new: a / a of the urn."""
    kernel = sampler(PitmanYor(-0.2, 0.7), NormalKnownCovariance(0.0, 1.0, 4.0))
    run = sample(jax.random.key(0), kernel, None, ITEMS[:1], num_steps=3)
    assert np.all(run.stopped < 0) and np.isfinite(run.trace.shared["concentration"]).all()


@pytest.mark.full
@pytest.mark.parametrize("name", ["hybrid", "hdp", "uncollapsed"])
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
    with pytest.warns(
        UserWarning, match="2 of 3 chains became non-finite.* an item may be outside of its law"
    ):
        run = sample(jax.random.key(0), kernels, None, words, num_steps=5, kernel_axis=0)
    assert run.stopped.tolist() == [-1, 0, 0]
