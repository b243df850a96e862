"""Slice samplers whose measure has a random mass, against the exact law of three items' columns."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from sgmc_jax import Vmap, cycle, gibbs, sample, thin
from sgmc_jax.bnp import LinearGaussian, slice_crm
from sgmc_jax.collective import Dist
from sgmc_jax.processes import (
    Bernoulli,
    BetaProcess,
    GammaProcess,
    Poisson,
    Representation,
    bondesson,
    inverse_levy,
    rejection,
    thinning,
)
from sgmc_jax.runner.programs import programs
from tests.enumeration import features as exact
from tests.enumeration.test_features import COUNTS, LINEAR, NOISE, SCALE
from tests.enumeration.test_slice_features import Inside
from tests.laws.moments import at_length, check_law, check_mean, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(11)
PRIOR, FEW = (2.0, 5.0), 7
WIDE = LinearGaussian(2, 0.8, SCALE)
full = pytest.mark.full
representation = importlib.import_module("sgmc_jax.processes.representation")
weights = importlib.import_module("sgmc_jax.bnp._series_weights")


def law(states, columns, exposure, prior, log_likelihood):
    """The law of the columns with the mass a integrated out, and the means of a, a^2 and a K.

    The integral of a^K e^(-a E) against a Gamma(s, r) is Gamma(s + K) / (r + E)^(s + K), but for a
    constant, and given the columns a is Gamma(s + K, r + E).
    """
    num = states.counts.sum(1)
    shape, rate = prior[0] + num, prior[1] + exposure
    log = states.log_prior(columns, 1.0, 0.0) + gammaln(shape) - shape * np.log(rate)
    log = log + log_likelihood
    weight, mean = np.exp(log - logsumexp(log)), shape / rate
    return np.append(
        states.law(log, FEW), [weight @ x for x in (mean, mean * (mean + 1 / rate), mean * num)]
    )


def binary():
    states = exact.binary()
    return states, law(states, *exact.beta_columns(2.0), PRIOR, states.log_likelihood(NOISE, SCALE))


def whole():
    states = exact.whole()
    log_likelihood = states.log_likelihood(0.8, SCALE, COUNTS)
    return states, law(states, *exact.gamma_columns(8.0), PRIOR, log_likelihood)


def beta(make=bondesson, capacity=32, mass=0.8, prior=PRIOR):
    series = make(BetaProcess(mass, 2.0))
    return slice_crm(series, Bernoulli(), LINEAR, mass_prior=prior, capacity=capacity, decay=1.0)


def gamma(make=bondesson, capacity=32):
    series = make(GammaProcess(0.4, 8.0))
    return slice_crm(series, Poisson(), WIDE, mass_prior=PRIOR, capacity=capacity, decay=1.0)


def own(capacity=32, share=1.0, mass=1.0, prior=PRIOR):
    """The gamma process as a user's series; `exposure` of Poisson counts."""
    series = Representation.from_functions(
        lambda v, g: v * jnp.exp(-g / 8.0),
        lambda key: jax.random.exponential(key) / 8.0,
        lambda v: -8.0 * v,
        lambda num: share * 8.0 * jnp.log1p(num / 8.0),
    )
    series = series.of_mass(jnp.asarray(mass))
    return slice_crm(series, Poisson(), WIDE, mass_prior=prior, capacity=capacity, decay=1.0)


LAWS = {beta: (binary, exact.X), gamma: (whole, COUNTS)}


@functools.cache  # equal functions share a program
def statistics(states, inside):
    """What `law` expects, of one state of a chain."""
    columns = exact.statistics(states, FEW)

    def of(state, info):
        position = state.position["z"] if inside else state.position
        mass = position.shared["mass"]
        num = jnp.sum(jnp.any(position.local["features"] > 0, axis=0))
        means = jnp.stack([mass, mass**2, mass * num])
        return jnp.concatenate([columns(Inside(position), info), means])

    return of


def check(model, kernel, wrap=None, tolerance=0.12, **kwargs):
    """What is rare, one in a thousand at full length, is looked at together: it has too few visits
    for a standard error each."""
    of, data = LAWS[model]
    states, expected = of()
    args = {"num_chains": 256, "num_steps": 300, "burn_in": 40} | kwargs
    start = {"z": None} if wrap == "gibbs" else None
    reduce = statistics(states, wrap == "gibbs")
    made = run_law(KEY, kernel, start, data.astype(np.float32), reduce=reduce, **args)
    common = expected > (1e-3 if at_length() else 1e-2)
    lumped = lambda x: np.append(x[..., common], x[..., ~common].sum(-1, keepdims=True), axis=-1)
    check_law(lumped(made.trace.mean), lumped(expected), tolerance)


def test_a_draw_of_the_mass_keeps_the_weights(x64, monkeypatch):
    """Gamma(2 + 2, 5 + E) given two features of three items; nothing else moves."""
    monkeypatch.setattr(weights, "MOVES", 0)
    own = weights.SeriesWeights(rejection(BetaProcess(0.8, 2.0)), Bernoulli(), PRIOR)
    counts = jnp.array([2, 0, 3])
    v, g = jnp.array([0.1, 1.0, 0.2]), jnp.array([0.7, 1.0, 0.3])
    series = {"v": v, "g": g, "log_theta": own.series.log_tau(v, g)}
    shared = {"mass": jnp.asarray(0.8), "series": series}

    @jax.jit
    @jax.vmap
    def drawn(key):
        new, used = own.draw(key, shared, counts, counts, 3)
        return new["mass"], used.log_weight, own.at(new).log_tau(used.v, used.place)

    mass, log_theta, again = drawn(jax.random.split(KEY, 4_000))
    shape, rate = 2 + PRIOR[0], exact.beta_columns(2.0)[1] + PRIOR[1]
    means = [shape / rate, shape * (shape + 1) / rate**2]
    check_mean(jnp.stack([mass, mass**2], axis=1), np.array(means), 0.1)
    kept = own.series.log_tau(v, g)[::2]
    for log in (log_theta, again):
        np.testing.assert_allclose(log[:, ::2], jnp.broadcast_to(kept, (4_000, 2)), rtol=1e-9)


def test_features():
    check(beta, beta())


@full
@pytest.mark.parametrize(
    "make", [pytest.param(inverse_levy, marks=pytest.mark.long), thinning, rejection]
)
def test_features_by_every_series(make):
    check(beta, beta(make))


@full
@pytest.mark.parametrize("make", [bondesson, rejection])
def test_counts(make):
    check(gamma, gamma(make), num_steps=500)


WRAPS = {
    "thin": lambda kernel: thin(kernel, 2),
    "gibbs": lambda kernel: gibbs(z=lambda rest: kernel),
    "cycle": lambda kernel: cycle(kernel, beta(prior=None)),  # to which the mass is given
}


@full
@pytest.mark.parametrize("wrap", WRAPS)
def test_in_combinators(wrap):
    check(beta, WRAPS[wrap](beta()), wrap=wrap)


@full
@pytest.mark.long
@pytest.mark.parametrize("wrap", [None, pytest.param("thin", marks=pytest.mark.optimised), "gibbs"])
def test_counts_by_a_series_of_ones_own(wrap):
    kernel = own() if wrap is None else WRAPS[wrap](own())
    check(gamma, kernel, wrap=wrap, num_steps=500)


def overflows():
    """Of steps at a mass so small that but the first weights of a series are zero in float32."""
    kernel, start = own(4, mass=1e-4, prior=None), np.zeros((3, 1), int)
    keys, data = jax.random.split(KEY, 100), jnp.asarray(COUNTS, jnp.float32)
    step = lambda key: kernel.step(key, kernel.init(key, start, data), data)[1].overflow
    return jax.jit(jax.vmap(step))(keys)


def test_where_weights_come_to_an_end_no_slot_is_missed(monkeypatch):
    assert not overflows().any()
    monkeypatch.setattr(representation.OwnSeries, "may_end", False)
    assert overflows().any()


@full
def test_on_shards():
    check(beta, beta(), engine=Vmap(2))


@full
@pytest.mark.long
@pytest.mark.parametrize("mass", [0.05, 20.0])
def test_any_mass_to_begin_with(mass):
    """The first value of the mass is forgotten."""
    check(beta, beta(mass=mass, capacity=64))


def same(one, other):
    few = min(x.trace.local["features"].shape[-1] for x in (one, other))
    a, b = (x.trace.local["features"][..., :few] for x in (one, other))
    assert np.array_equal(a, b)
    a, b = (x.trace.shared["mass"] for x in (one, other))
    np.testing.assert_allclose(a, b, rtol=1e-8)
    assert np.ptp(a) > 0


@full
@pytest.mark.parametrize("model", [*LAWS, own])
def test_the_same_chain_whatever_the_capacity_and_the_shards(model, x64):
    data = exact.X if model is beta else COUNTS
    chain = lambda capacity, **kwargs: sample(
        KEY, model(capacity=capacity), None, data, num_steps=30, **kwargs
    )
    few = {beta: 4, own: 8}.get(model, 16)  # every doubling is compiled for seconds
    grown, roomy = chain(few), chain(128)
    assert grown.capacity > few
    same(grown, roomy)
    same(chain(64), chain(64, engine=Vmap(2)))


# ----------------------------------------------------------------------------------- the door


def test_the_mass_is_in_the_position():
    """With a prior or without; a start need not give it, and may where there is a prior."""
    given = {"features": np.ones((3, 2), bool)}
    fixed = beta(capacity=4, prior=None)
    for kernel in (beta(capacity=4), fixed):
        for start in (None, given["features"], Dist({}, given)):
            state = kernel.init(KEY, start, exact.X)
            assert state.position.shared["mass"] == np.float32(0.8)
    other = Dist({"mass": np.float32(1.5)}, given)
    assert beta(capacity=4).init(KEY, other, exact.X).position.shared["mass"] == 1.5
    assert fixed.init(KEY, other, exact.X).position.shared["mass"] == np.float32(0.8)


def test_what_has_no_mass():
    own = Representation.from_functions(
        lambda v, g: v * jnp.exp(-g), lambda key: jax.random.exponential(key), lambda v: -v
    )
    with pytest.raises(TypeError, match="mass_prior needs a representation of a measure, such as"):
        slice_crm(own, Poisson(), WIDE, mass_prior=PRIOR)
    for wrong, error in [((1.0, 0.0), ValueError), (2.0, TypeError), ((1, 2, 3), TypeError)]:
        with pytest.raises(error, match="mass_prior must be"):
            slice_crm(bondesson(GammaProcess(1.0)), Poisson(), WIDE, mass_prior=wrong)


# ------------------------------------------------------------------------------ planted faults


def fails(model):
    programs.cache_clear()
    fault_is_seen(check, model, model())


@full
@pytest.mark.parametrize("model", LAWS)
@pytest.mark.at_length
def test_an_exposure_half_as_large_again(model, monkeypatch):
    """Planted: with less of it than there is, masses would grow, and slots with them."""
    honest = representation.exposure
    monkeypatch.setattr(representation, "exposure", lambda *args: 1.5 * honest(*args))
    fails(model)


@full
@pytest.mark.at_length
def test_an_exposure_of_ones_own_half_as_large_again():
    fault_is_seen(check, gamma, own(share=1.5), num_steps=500)


@full
@pytest.mark.at_length
def test_weights_that_follow_the_mass(monkeypatch):
    """Planted: every weight in use is larger by as much as the mass."""
    honest = weights.SeriesWeights._redraw_mass

    def moved(self, key, shared, g, *args):
        new, g = honest(self, key, shared, g, *args)
        log_theta = shared["series"]["log_theta"] + jnp.log(new["mass"] / shared["mass"])
        return new | {"series": shared["series"] | {"log_theta": log_theta}}, g

    monkeypatch.setattr(weights.SeriesWeights, "_redraw_mass", moved)
    fails(beta)  # chains of `gamma` so planted are too slow to tell
