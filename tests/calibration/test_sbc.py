"""Every exact nonparametric sampler, and its models, by simulation-based calibration.

The samplers that are not exact by their own account (`Published`, `warm_mixture`,
`asynchronous_mixture`, `uncollapsed_mixture`, stochastic weights from batches or with `"sgrld"`)
have no row; the first is seen to fail.
"""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import pytest

import sgmc_jax.bnp.hybrid.grouped as grouped
import sgmc_jax.bnp.hybrid.hdp as hdp
from sgmc_jax import Kernel, bnp, cycle
from sgmc_jax._types import as_keys
from sgmc_jax.collective import Dist
from sgmc_jax.families import normal_known_covariance
from sgmc_jax.processes import Bernoulli, Poisson, bondesson, feature_process, pitman_yor
from tests.calibration import mixtures
from tests.calibration.features import Buffet
from tests.calibration.groups import Failures, Franchise
from tests.calibration.mixtures import Mixture
from tests.calibration.sbc import check

pytestmark = pytest.mark.full


def by(make, model, *args, **kwargs):
    """The kernel of a model's own process and family."""
    like = getattr(model, "likelihood", model)
    return make(model.process(), like.family(), *args, **kwargs)


def rows(cases, long=()):
    """The names of the cases; of the long ones programs are optimised."""
    marks = {name: pytest.mark.optimised for name in long}
    return [pytest.param(name, marks=marks.get(name, ())) for name in cases]


# ------------------------------------------------------------------------------------ mixtures

NORMAL = Mixture(mixtures.normal())
PITMAN_YOR = Mixture(mixtures.normal(), 0.8, 0.3)
BOTH_RANDOM = Mixture(mixtures.normal(), (2.0, 2.0), None)
# of slices: many atoms are open where the concentration is large
FEW = Mixture(mixtures.normal(), (4.0, 8.0), num_items=4)
FEW_RANDOM = BOTH_RANDOM._replace(num_items=3)
BAGS = Mixture(mixtures.bags(), (4.0, 32.0), num_items=4)


def and_moves(model):
    """Split-merge moves after a sweep in blocks."""
    hybrid = by(bnp.hybrid_mixture, model, blocks=2, capacity=8)
    return cycle(hybrid, by(bnp.split_merge, model, proposals=2, capacity=8))


hybrid = partial(by, bnp.hybrid_mixture, capacity=8)
MIXTURES = {
    "collapsed": (NORMAL, partial(by, bnp.collapsed_mixture, capacity=8), 30),
    "anchored": (NORMAL, partial(hybrid, blocks=4, local_sweeps=2), 40),
    "demotion": (PITMAN_YOR, partial(hybrid, schedule=bnp.Demotion()), 30),
    "random discount": (BOTH_RANDOM, partial(hybrid, blocks=2), 100),
    "collapsed, counts": (
        Mixture(mixtures.poisson(), 0.8, 0.3),
        partial(by, bnp.collapsed_mixture, capacity=8),
        30,
    ),
    "auxiliary": (
        Mixture(mixtures.normal_gamma()),
        partial(by, bnp.auxiliary_mixture, capacity=8),
        60,
    ),
    "split-merge": (Mixture(mixtures.normal_inverse_wishart()), and_moves, 30),
    "slice": (FEW, partial(by, bnp.slice_mixture, capacity=32), 40),
    "slice, random discount": (FEW_RANDOM, partial(by, bnp.slice_mixture, capacity=48), 100),
    "slice, batches": (
        Mixture(mixtures.words(), 0.5, 0.2, num_items=4),
        partial(by, bnp.slice_mixture, batch_size=2, capacity=32),
        80,
    ),
    "slice, scir": (
        BAGS,
        partial(by, bnp.slice_mixture, weights="scir", step_size=3.0, capacity=24),
        30,
    ),
}
LONG = {"auxiliary", "split-merge"} | {name for name in MIXTURES if name.startswith("slice")}


@pytest.mark.runs_long
@pytest.mark.parametrize("name", rows(MIXTURES, LONG))
def test_mixtures(name):
    model, make, num_steps = MIXTURES[name]
    check(make(model), model, num_steps=num_steps)


# ------------------------------------------------------------------------------------ features

BUFFET = Buffet()
RANDOM = Buffet((4.0, 8.0), (4.0, 4.0), noise=(5.0, 2.0), scale=(5.0, 4.0))
FIXED = Buffet(0.8, 0.7)
COUNTED = Buffet((4.0, 16.0), (8.0, 2.0), noise=0.64, counted=True)
SPARSE = Buffet((8.0, 24.0), (8.0, 4.0), noise=0.64, counted=True)
SERIES = Buffet((8.0, 16.0), 2.0)
WHOLE = Buffet((8.0, 16.0), (8.0, 8.0), noise=(5.0, 2.0), scale=(5.0, 4.0))
ANSWERS = Buffet(items="answers")
FACTORS = Buffet((8.0, 24.0), 4.0, counted=True, items="counts")


def crm(model):
    series = bondesson(bnp.BetaProcess(1.0, model.concentration))
    kwargs = {"mass_prior": model.mass, "decay": 0.5, "capacity": 32}
    return bnp.slice_crm(series, Bernoulli(), model.family(), **kwargs)


def crm_of_factors(model):
    """The gamma process of rate a c e^(-c w) / w is that of the counted buffet."""
    series = bondesson(bnp.GammaProcess(1.0, model.concentration))
    kwargs = {"mass_prior": model.mass, "decay": 0.5, "capacity": 32}
    return bnp.slice_crm(series, Poisson(), model.family(), **kwargs)


def explicit(model):
    return bnp.hybrid_features(model.process(), model.explicit(), blocks=3, capacity=16)


hybrid_features = partial(by, bnp.hybrid_features, capacity=16)
slice_features = partial(by, bnp.slice_features, decay=1.0, capacity=32)
FEATURES = {
    "hybrid": (BUFFET, partial(hybrid_features, blocks=3), 30),
    "hybrid, all random": (RANDOM, partial(hybrid_features, blocks=2), 50),
    "hybrid, explicit": (BUFFET, explicit, 50),
    "hybrid, answers": (ANSWERS, partial(hybrid_features, blocks=2), 60),
    "demotion": (FIXED, partial(hybrid_features, schedule=bnp.Demotion()), 20),
    "collapsed, counted": (COUNTED, partial(by, bnp.collapsed_features, capacity=16), 30),
    "slice": (BUFFET, slice_features, 50),
    "slice, all random": (WHOLE, slice_features, 60),
    "slice, counted": (SPARSE, slice_features, 40),
    "crm": (SERIES, crm, 50),
    "crm, factors": (FACTORS, crm_of_factors, 60),
}


@pytest.mark.optimised
@pytest.mark.parametrize("name", FEATURES)
def test_features(name):
    model, make, num_steps = FEATURES[name]
    check(make(model), model, num_steps=num_steps, num_data=1_000)


# -------------------------------------------------------------------------------------- groups

FRANCHISE = Franchise(mixtures.normal())
GROUPS = {
    "hybrid": (FRANCHISE, partial(by, bnp.hybrid_hdp, blocks=2, capacity=8), 50),
    "demotion": (FRANCHISE, partial(by, bnp.hybrid_hdp, schedule=bnp.Demotion(), capacity=8), 30),
    "collapsed": (
        Franchise(mixtures.words(), sizes=(2, 3, 1)),
        partial(by, bnp.collapsed_hdp, capacity=8),
        50,
    ),
    "beta-negative-binomial": (
        Failures(mixtures.normal()),
        partial(by, bnp.slice_bnb, failures=7.0, decay=0.5, capacity=48),
        60,
    ),
}


@pytest.mark.parametrize("name", rows(GROUPS, {"beta-negative-binomial"}))
def test_groups(name):
    model, make, num_steps = GROUPS[name]
    num_data = 600 if isinstance(model, Failures) else 1_000
    check(make(model), model, num_steps=num_steps, num_data=num_data)


# ------------------------------------------------------------------------------ planted faults


def check_fails(kernel, model, quantity="", num_steps=15):
    """Of half as many data sets, which is enough: without a fault `CONTROLS` pass with these."""
    kwargs = {"num_steps": num_steps, "num_data": 1_000}
    with pytest.raises(AssertionError, match=f"ranks of {quantity}.* are not uniform"):
        check(kernel, model, **kwargs)


collapsed = partial(by, bnp.collapsed_mixture, capacity=8)
CONTROLS = {
    "normal": (NORMAL, collapsed),
    "Pitman-Yor": (PITMAN_YOR, collapsed),
    "blocks": (PITMAN_YOR, partial(hybrid, blocks=3)),
    "features": (Buffet(), partial(by, bnp.collapsed_features, capacity=16)),
    "groups": (FRANCHISE, partial(by, bnp.collapsed_hdp, capacity=8)),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_without_a_fault_they_pass(name):
    """As many steps and data sets as show the faults below."""
    model, make = CONTROLS[name]
    check(make(model), model, num_steps=15, num_data=1_000)


def test_a_concentration_of_a_shape_off_by_one(monkeypatch):
    honest = pitman_yor.redraw_concentration
    wrong = lambda key, old, prior, active, size: honest(key, old, prior, active + 1, size)
    monkeypatch.setattr(pitman_yor, "redraw_concentration", wrong)
    check_fails(collapsed(NORMAL), NORMAL, "concentration")


def test_a_kernel_of_another_concentration():
    check_fails(collapsed(PITMAN_YOR._replace(concentration=1.6)), PITMAN_YOR)


def test_data_with_more_noise_than_the_model_has():
    noisy = Mixture(mixtures.normal(spread=1.3))
    check_fails(collapsed(noisy), noisy, "log likelihood")


def test_the_published_schedule_is_not_exact():
    check_fails(hybrid(PITMAN_YOR, schedule=bnp.Published(), blocks=3), PITMAN_YOR)


def test_a_chain_that_has_not_forgotten_its_start():
    check_fails(collapsed(BOTH_RANDOM), BOTH_RANDOM, num_steps=1)


class Drawn(NamedTuple):
    position: Any


def test_a_sampler_of_the_prior_is_seen_by_the_likelihood():
    """Its ranks of what knows nothing of the data are uniform."""

    def fresh(key, *_):
        world, _ = NORMAL.draw(as_keys(key).noise)
        return Drawn(Dist(world.hyper, {"assignment": world.labels}))

    kernel = Kernel.from_functions(fresh, lambda key, state, data: (fresh(key), None))
    check_fails(kernel, NORMAL, "log likelihood", num_steps=1)


def test_parameters_that_are_drawn_too_close(monkeypatch):
    honest = normal_known_covariance.slot_normal
    monkeypatch.setattr(normal_known_covariance, "slot_normal", lambda *args: 0.7 * honest(*args))
    check_fails(collapsed(NORMAL), NORMAL)


@pytest.mark.at_length
def test_a_mass_of_a_shape_off_by_one(monkeypatch):
    honest, model = feature_process.gamma, Buffet()
    monkeypatch.setattr(feature_process, "gamma", lambda key, shape: honest(key, shape + 1))
    check_fails(by(bnp.collapsed_features, model, capacity=16), model, "mass")


@pytest.mark.at_length
def test_features_with_more_noise_than_the_model_has():
    model = Buffet(spread=1.3)
    check_fails(by(bnp.collapsed_features, model, capacity=16), model)


def test_tables_that_are_items(monkeypatch):
    """As if every item sat alone."""

    def alone(hyper, weights, size, labels, uniforms):
        return jnp.sum(grouped.count_clusters(labels, size, len(weights)), axis=0)

    monkeypatch.setattr(hdp, "draw_tables", alone)
    check_fails(by(bnp.collapsed_hdp, FRANCHISE, capacity=8), FRANCHISE)
