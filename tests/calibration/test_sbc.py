"""Every exact nonparametric sampler, and its models, by simulation-based calibration.

The samplers that are not exact by their own account (`Published`, `warm_mixture`,
`asynchronous_mixture`, `uncollapsed_mixture`, stochastic weights from batches or with `"sgrld"`)
have no row; the first is seen to fail.
"""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from sgmc_jax import bnp, cycle
from sgmc_jax._types import Kernel
from sgmc_jax.processes import Bernoulli, Poisson, bondesson, pitman_yor
from tests.calibration import mixtures
from tests.calibration.features import Buffet
from tests.calibration.mixtures import Failures, Franchise, Mixture
from tests.calibration.sbc import check

full = pytest.mark.full
long = [pytest.mark.full, pytest.mark.runs_long]


def by(make, model, *args, **kwargs):
    """The kernel of a model's own process and family."""
    like = getattr(model, "likelihood", model)
    return make(model.process(), like.family(), *args, **kwargs)


# ------------------------------------------------------------------------------------ mixtures

NORMAL = Mixture(mixtures.normal())
PITMAN_YOR = Mixture(mixtures.normal(), 0.8, 0.3)
BOTH_RANDOM = Mixture(mixtures.normal(), (2.0, 2.0), None)
BAGS = Mixture(mixtures.bags(), (2.0, 4.0))


def and_moves(model):
    """Split-merge moves after a sweep in blocks."""
    hybrid = by(bnp.hybrid_mixture, model, blocks=2, capacity=8)
    return cycle(hybrid, by(bnp.split_merge, model, proposals=2, capacity=8))


hybrid = partial(by, bnp.hybrid_mixture, capacity=8)
MIXTURES = {
    "collapsed": (NORMAL, partial(by, bnp.collapsed_mixture, capacity=8), 30),
    "anchored": (NORMAL, partial(hybrid, blocks=4, local_sweeps=2), 60),
    "demotion": (PITMAN_YOR, partial(hybrid, schedule=bnp.Demotion()), 30),
    "random discount": (BOTH_RANDOM, partial(hybrid, blocks=2), 150),
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
    "slice": (NORMAL, partial(by, bnp.slice_mixture, capacity=64), 60),
    "slice, batches": (
        Mixture(mixtures.words(), 0.8, 0.3),
        partial(by, bnp.slice_mixture, batch_size=2, capacity=32),
        150,
    ),
    "slice, scir": (
        BAGS,
        partial(by, bnp.slice_mixture, weights="scir", step_size=1.0, capacity=64),
        60,
    ),
}


def rows(table, quick=()):
    return [pytest.param(name, marks=[] if name in quick else full) for name in table]


@pytest.mark.parametrize("name", rows(MIXTURES, quick={"collapsed"}))
def test_mixtures(name):
    model, make, num_steps = MIXTURES[name]
    check(make(model), model, num_steps=num_steps)


# ------------------------------------------------------------------------------------ features

RANDOM_SCALES = Buffet((4.0, 4.0), (4.0, 4.0), noise=(5.0, 2.0), scale=(5.0, 4.0))
COUNTED = Buffet((4.0, 8.0), 4.0, noise=0.64, counted=True)


def crm(model):
    measure = bnp.GammaProcess if model.counted else bnp.BetaProcess
    counts = Poisson() if model.counted else Bernoulli()
    series = bondesson(measure(1.0, model.concentration))
    return bnp.slice_crm(
        series, counts, model.family(), mass_prior=model.mass, decay=1.0, capacity=48
    )


def explicit(model):
    return bnp.hybrid_features(model.process(), model.explicit(), blocks=2, capacity=24)


FEATURES = {
    "hybrid": (Buffet(), partial(by, bnp.hybrid_features, blocks=2, capacity=24), 60),
    "hybrid, all random": (
        RANDOM_SCALES,
        partial(by, bnp.hybrid_features, blocks=3, capacity=24),
        100,
    ),
    "hybrid, explicit": (Buffet(), explicit, 100),
    "demotion": (
        Buffet(0.8, 0.7),
        partial(by, bnp.hybrid_features, schedule=bnp.Demotion(), capacity=24),
        40,
    ),
    "collapsed, counted": (COUNTED, partial(by, bnp.collapsed_features, capacity=24), 60),
    "slice": (Buffet(), partial(by, bnp.slice_features, decay=1.0, capacity=48), 100),
    "slice, counted": (
        COUNTED,
        partial(by, bnp.slice_features, decay=1.0, capacity=48),
        150,
    ),
    "crm": (Buffet((4.0, 4.0), 2.0), crm, 100),
}


@full
@pytest.mark.parametrize("name", FEATURES)
def test_features(name):
    model, make, num_steps = FEATURES[name]
    check(make(model), model, num_steps=num_steps)


# -------------------------------------------------------------------------------------- groups

FRANCHISE = Franchise(mixtures.normal())
GROUPS = {
    "hybrid": (FRANCHISE, partial(by, bnp.hybrid_hdp, blocks=2, capacity=8), 80),
    "demotion": (FRANCHISE, partial(by, bnp.hybrid_hdp, schedule=bnp.Demotion(), capacity=8), 50),
    "collapsed": (
        Franchise(mixtures.words(), sizes=(2, 3, 1)),
        partial(by, bnp.collapsed_hdp, capacity=8),
        50,
    ),
    "beta-negative-binomial": (
        Failures(mixtures.normal()),
        partial(by, bnp.slice_bnb, failures=1.0, decay=1.0, capacity=48),
        100,
    ),
}


@full
@pytest.mark.parametrize("name", GROUPS)
def test_groups(name):
    model, make, num_steps = GROUPS[name]
    check(make(model), model, num_steps=num_steps)
