"""Slice samplers of completely random measures against the exact law of three items' columns."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln, logsumexp
from scipy.stats import norm, poisson

from sgmc_jax import Pmap, ShardMap, Vmap, cycle, gibbs, repeat, sample, thin
from sgmc_jax.bnp import (
    BetaBernoulli,
    GammaPoisson,
    LinearGaussian,
    LinearPoisson,
    hybrid_features,
    slice_crm,
    slice_features,
)
from sgmc_jax.collective import Dist
from sgmc_jax.families import FeatureRows
from sgmc_jax.processes import (
    Bernoulli,
    BetaPrimeProcess,
    BetaProcess,
    CountLikelihood,
    GammaProcess,
    GeneralizedGammaProcess,
    NegativeBinomial,
    OddsBernoulli,
    Poisson,
    Representation,
    StableBetaProcess,
    bondesson,
    delayed_bondesson,
    inverse_levy,
    rejection,
    thinning,
)
from sgmc_jax.runner.programs import programs
from tests.composition.test_positions import rename_features, renaming
from tests.enumeration import features as exact
from tests.enumeration.test_features import COUNTS, LINEAR, NOISE, SCALE, explicit
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY, NUM = jax.random.key(5), exact.NUM
WIDE = LinearGaussian(2, 0.8, SCALE)  # for counts
MASS = 0.8
full = pytest.mark.full
module = importlib.import_module("sgmc_jax.bnp.slice_crm")


def binary(log_columns):
    """The law of features that items have or not, from the log weights of columns by their sums."""
    states = exact.binary()
    log_prior = states.log_prior(log_columns(states.types.sum(1)), 1.0, 0.0)
    return states.law(log_prior + states.log_likelihood(NOISE, SCALE), 7), states, 7, exact.X


def whole(log_columns):
    """The law of features that items have several times."""
    states = exact.whole()
    log_prior = states.log_prior(log_columns(states.types), 1.0, 0.0)
    return states.law(log_prior + states.log_likelihood(0.8, SCALE, COUNTS), 9), states, 9, COUNTS


def beta(c, d=0.0, mass=MASS):
    """The integrals of theta^m (1 - theta)^(n - m) nu(d theta) of a (stable) beta process."""
    front = np.log(mass) - betaln(1 - d, c + d)
    return lambda m: front + betaln(m - d, NUM - m + c + d)


def gamma(c, d=0.0, mass=0.4):
    """The integrals of a column's Poisson probabilities under a (generalized) gamma process."""
    front = np.log(mass) + (1 - d) * np.log(c) - gammaln(1 - d)

    def log_columns(types):
        m = types.sum(1)
        return front + gammaln(m - d) - (m - d) * np.log(c + NUM) - gammaln(types + 1).sum(1)

    return log_columns


def compound(number, rate):
    """The same of Poisson(number) atoms, each Exp(rate)."""

    def log_columns(types):
        m = types.sum(1)
        front = np.log(number * rate) + gammaln(m + 1) - (m + 1) * np.log(rate + NUM)
        return front - gammaln(types + 1).sum(1)

    return log_columns


def beta_prime(c, mass=MASS):
    return lambda m: np.log(mass * c) + betaln(m, c + NUM - m)


def negative_binomial(c, r, mass=0.4):
    def log_columns(types):
        ways = (gammaln(types + r) - gammaln(r) - gammaln(types + 1)).sum(1)
        return np.log(mass * c) + betaln(types.sum(1), c + NUM * r) + ways

    return log_columns


def at_most_two(c, mass=0.4):
    def log_columns(types):
        ways = np.where(types > 2, -1e9, np.log(2.0) * (types == 1)).sum(1)
        m = np.minimum(types.sum(1), 2 * NUM)
        return np.log(mass * c) + betaln(m, 2 * NUM - m + c) + ways

    return log_columns


def run(kernel, law, data=None, start=None, wrap=None, **kwargs):
    args = {"num_chains": 256, "num_steps": 300, "burn_in": 40} | kwargs
    expected, states, few, known = law
    count = exact.statistics(states, few)
    count = inside(count) if wrap == "gibbs" else count
    data = np.asarray(known, np.float32)
    return expected, run_law(KEY, kernel, start, data, reduce=count, **args)


@functools.lru_cache  # equal functions share a program
def inside(count):
    return lambda state, info: count(Inside(state.position["z"]), info)


class Inside:
    """A state of which only the position is asked for."""

    def __init__(self, position):
        self.position = position


def check(kernel, law, tolerance=0.12, **kwargs):
    """What is rarer than one in a thousand is not looked at: too few visits for an error."""
    expected, made = run(kernel, law, **kwargs)
    common = expected > 1e-3
    check_law(made.trace.mean[:, common], expected[common], tolerance)


def sliced(c=2.0, family=LINEAR, capacity=32, decay=1.0, **kwargs):
    process = BetaBernoulli(MASS, c)
    return slice_features(process, family, capacity=capacity, decay=decay, **kwargs)


# ----------------------------------------------------------------- every series, every process

SERIES = [
    (0.5, None),
    (1.0, None),
    (2.0, None),
    (0.5, inverse_levy),
    (0.5, thinning),
    (1.0, inverse_levy),
    (1.0, thinning),
    (1.0, rejection),
    (2.0, delayed_bondesson),
    (2.0, inverse_levy),
    (2.0, thinning),
    (2.0, rejection),
]


@full
@pytest.mark.parametrize("c,series", SERIES)
def test_features_by_every_series(c, series):
    num_steps = 900 if c < 1 else 300  # a small concentration has few small columns
    check(sliced(c, representation=series), binary(beta(c)), num_steps=num_steps)


def test_features():
    check(sliced(0.7, capacity=16, decay=0.7), binary(beta(0.7)))


@full
@pytest.mark.parametrize("series", [None, inverse_levy, thinning, rejection])
def test_counts_by_every_series(series):
    kernel = slice_features(GammaPoisson(0.4, 8.0), WIDE, representation=series, capacity=64)
    check(kernel, whole(gamma(8.0)))


@full
@pytest.mark.optimised
@pytest.mark.parametrize("decay", [0.3, 1.0, 6.0])
def test_features_by_every_decay(decay):
    num_steps = 2_000 if decay < 1 else 600
    capacity = 128 if decay > 1 else 32
    check(sliced(0.7, decay=decay, capacity=capacity), binary(beta(0.7)), num_steps=num_steps)


@full
def test_features_with_a_likelihood_of_ones_own():
    check(sliced(0.7, explicit()), binary(beta(0.7)))


OWN = Representation.from_functions(
    lambda v, g: v * jnp.exp(-g / (0.4 * 8.0)),
    lambda key: jax.random.exponential(key) / 8.0,
    lambda v: -8.0 * v,
)
HALF = Representation.from_functions(
    lambda v, g: jnp.maximum(v, 0) * jnp.exp(-g / (2 * 0.4 * 8.0)),
    lambda key: jax.random.laplace(key) / 8.0,
    lambda v: -8.0 * jnp.abs(v),
)
FINITE = Representation.from_functions(
    lambda v, g: jnp.where(g < 2.0, v, 0.0),
    lambda key: jax.random.exponential(key) / 8.0,
    lambda v: -8.0 * v,
)
BINOMIAL = CountLikelihood.from_function(
    lambda x, t: x * t + (2 - x) * jnp.log1p(-jnp.exp(t)) + jnp.log(2.0) * (x == 1), 2
)
GENERAL = {
    "beta": (bondesson(BetaProcess(MASS, 2.0)), Bernoulli(), LINEAR),
    "stable beta": (rejection(StableBetaProcess(0.6, 1.0, 0.15)), Bernoulli(), LINEAR),
    "stable beta, inverse": (inverse_levy(StableBetaProcess(0.6, 0.5, 0.15)), Bernoulli(), LINEAR),
    "odds": (bondesson(BetaPrimeProcess(MASS, 2.0)), OddsBernoulli(), LINEAR),
    "odds, rejection": (rejection(BetaPrimeProcess(MASS, 2.0)), OddsBernoulli(), LINEAR),
    "gamma": (bondesson(GammaProcess(0.4, 8.0)), Poisson(), WIDE),
    "own series": (OWN, Poisson(), WIDE),
    "own series, half empty": (HALF, Poisson(), WIDE),
    "own series, finite": (FINITE, Poisson(), WIDE),
    "generalized gamma": (rejection(GeneralizedGammaProcess(0.3, 8.0, 0.15)), Poisson(), WIDE),
    "generalized gamma, inverse": (
        inverse_levy(GeneralizedGammaProcess(0.3, 8.0, 0.15)),
        Poisson(),
        WIDE,
    ),
    "negative binomial": (bondesson(BetaProcess(0.3, 16.0)), NegativeBinomial(1.5), WIDE),
    "own counts": (bondesson(BetaProcess(0.3, 12.0)), BINOMIAL, WIDE),
}
GENERAL_LAWS = {
    "beta": lambda: binary(beta(2.0)),
    "stable beta": lambda: binary(beta(1.0, 0.15, 0.6)),
    "stable beta, inverse": lambda: binary(beta(0.5, 0.15, 0.6)),
    "odds": lambda: binary(beta_prime(2.0)),
    "odds, rejection": lambda: binary(beta_prime(2.0)),
    "gamma": lambda: whole(gamma(8.0)),
    "own series": lambda: whole(gamma(8.0)),
    "own series, half empty": lambda: whole(gamma(8.0)),
    "own series, finite": lambda: whole(compound(2.0, 8.0)),
    "generalized gamma": lambda: whole(gamma(8.0, 0.15, 0.3)),
    "generalized gamma, inverse": lambda: whole(gamma(8.0, 0.15, 0.3)),
    "negative binomial": lambda: whole(negative_binomial(16.0, 1.5, 0.3)),
    "own counts": lambda: whole(at_most_two(12.0, 0.3)),
}


def general(name, capacity=32, decay=1.0):
    return slice_crm(*GENERAL[name], capacity=capacity, decay=decay)


BEYOND_BETA = [pytest.param(name, marks=full) for name in GENERAL if name != "beta"]


@pytest.mark.parametrize("name", ["beta", *BEYOND_BETA])
def test_any_series_under_any_counts(name):
    num_steps = 300 if GENERAL[name][2] is LINEAR else 500
    check(general(name), GENERAL_LAWS[name](), num_steps=num_steps)


# ------------------------------------------------------------------- compositions, growth, shards


def hybrid(c=2.0):
    return hybrid_features(BetaBernoulli(MASS, c), LINEAR, blocks=2, capacity=32)


def composed():
    crm = general("beta")
    yield "thin", thin(sliced(), 2), None
    yield "repeat", repeat(sliced(), 2), None
    yield "gibbs", gibbs(z=lambda rest: sliced()), {"z": None}
    yield "cycle with hybrid", cycle(sliced(), hybrid()), None  # solves of both at a time
    yield "cycle with other names", cycle(sliced(), renaming(rename_features)), None
    yield "two series", cycle(sliced(), sliced(representation=thinning)), None
    other = inverse_levy(BetaProcess(MASS, 2.0))
    other = slice_crm(other, *GENERAL["beta"][1:], decay=1.0, capacity=32)
    yield "two series of any counts", cycle(crm, other), None
    yield "gibbs of the general one", gibbs(z=lambda rest: crm), {"z": None}
    yield "thin of the general one", thin(crm, 2), None


MARKS = {"gibbs": [], "cycle with hybrid": [full, pytest.mark.one_device]}


@pytest.mark.parametrize(
    "name,kernel,start",
    [pytest.param(*c, id=c[0], marks=MARKS.get(c[0], full)) for c in composed()],
)
def test_in_combinators(name, kernel, start):
    check(kernel, binary(beta(2.0)), start=start, wrap=name.split()[0])


@full
@pytest.mark.one_device
@pytest.mark.parametrize("c", [0.5, 1.0])
def test_in_a_cycle_with_the_hybrid_sampler(c):
    num_steps = 900 if c < 1 else 300
    check(cycle(sliced(c), hybrid(c)), binary(beta(c)), num_steps=num_steps)


@full
@pytest.mark.one_device
def test_counts_in_a_cycle_with_the_hybrid_sampler():
    parts = GammaPoisson(0.4, 8.0), WIDE
    other = hybrid_features(*parts, blocks=2, capacity=64)
    check(cycle(slice_features(*parts, capacity=64), other), whole(gamma(8.0)))


def test_weights_that_are_part_of_the_chain_are_not_left_behind():
    """By a sampler that integrates them out: the weights of its new features would be others'."""
    crm = general("beta")
    for kernels in ([crm, hybrid()], [hybrid(), thin(crm, 2)], [crm, sliced()]):
        with pytest.raises(ValueError, match="leave the weights .* of (SliceCRM|Repeat) and not"):
            cycle(*kernels)
    cycle(sliced(), hybrid()), cycle(crm, crm)
    other = gibbs(z=lambda rest: crm, w=lambda rest: hybrid())  # each of a position of its own
    assert other.contract({"z": None, "w": None}).keeps_weights is None


@full
@pytest.mark.parametrize("wrap", ["thin", "repeat", "gibbs", "cycle"])
def test_a_series_with_blanks_in_combinators(wrap):
    name = "own series, half empty"
    around, start = WRAPS[wrap]
    kernel = around(lambda: general(name))
    check(kernel, GENERAL_LAWS[name](), start=start, wrap=wrap, num_steps=500)


@full
@pytest.mark.parametrize("shards", [2, 3, 5])
def test_on_shards(shards):
    """Of three items: one shard short of one, or two without any."""
    check(sliced(), binary(beta(2.0)), engine=Vmap(shards))


CHAINS = {
    "features": lambda capacity: sliced(0.7, capacity=capacity),
    "counts": lambda capacity: slice_features(GammaPoisson(1.0, 2.0), WIDE, capacity=capacity),
    "factors": lambda capacity: slice_features(
        GammaPoisson(1.0, 2.0), LinearPoisson(2), capacity=capacity
    ),
    "general": lambda capacity: general("stable beta", capacity),
    "half empty": lambda capacity: general("own series, half empty", capacity),
}
FEW = {"features": 4, "counts": 8, "factors": 8, "general": 4, "half empty": 8}  # all end above
WHOLE = np.array([[4, 0], [1, 2], [0, 3]])
DATA = {name: WHOLE if name == "factors" else exact.X for name in CHAINS}
WRAPS = {
    "plain": (lambda make: make(), None),
    "thin": (lambda make: thin(make(), 2), None),
    "repeat": (lambda make: repeat(make(), 2), None),
    "gibbs": (lambda make: gibbs(z=lambda rest: make()), {"z": None}),
    "cycle": (lambda make: cycle(make(), make()), None),
}


def same(a, b, wrap="plain"):
    a, b = (x.trace["z"] if wrap == "gibbs" else x.trace for x in (a, b))
    few = min(a.local["features"].shape[-1], b.local["features"].shape[-1])
    assert np.array_equal(a.local["features"][..., :few], b.local["features"][..., :few])
    for one, other in zip(*(jax.tree.leaves(x.shared["parameters"]) for x in (a, b)), strict=True):
        np.testing.assert_allclose(one[..., :few, :], other[..., :few, :], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "name,wrap",
    [pytest.param(name, wrap, marks=full) for name in CHAINS for wrap in WRAPS],
)
def test_growth(name, wrap, x64):
    around, start = WRAPS[wrap]
    chain = lambda kernel: sample(KEY, around(lambda: kernel), start, DATA[name], num_steps=60)
    few = FEW[name]  # every doubling is compiled for seconds
    chains = [chain(CHAINS[name](capacity)) for capacity in (few, 128)]
    assert chains[0].capacity > few
    same(*chains, wrap)


@full
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("kind, size", [(Vmap, 2), (Pmap, 8), (ShardMap, 8)])
def test_the_same_chain_on_shards(name, kind, size, x64):
    check_shards(CHAINS[name](64), DATA[name], kind(size))


@full
def test_counts_of_ones_own_on_shards(x64):
    """Of which all values count, 0 too: five rows on three shards, one of them with a padding."""
    check_shards(general("own counts", 64), np.tile(COUNTS, (2, 1))[:5], Vmap(3))


def check_shards(kernel, data, engine):
    """Of all that the chain knows: features may be the same for long where weights are not."""
    alone = sample(KEY, kernel, None, data, num_steps=20).trace
    assert len(np.unique(alone.local["features"], axis=0)) > 1
    shared = sample(KEY, kernel, None, data, num_steps=20, engine=engine).trace
    assert np.array_equal(alone.local["features"], shared.local["features"])
    close = lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    jax.tree.map(close, alone.shared, shared.shared)


def test_all_rows_are_visited_some_at_a_time(monkeypatch):
    """Seventy, 64 at once: the last part begins where some have been visited."""
    index = lambda self, now, rows, index: (rows.features + index + 1, jnp.zeros((), bool))
    monkeypatch.setattr(module, "_NUMBERS", 64 * 32)
    monkeypatch.setattr(module, "_MOST_NUMBERS", 64 * 32)
    monkeypatch.setattr(module.SliceCRM, "_sweep", index)
    rows = FeatureRows(jnp.zeros((70, 2)), jnp.zeros((32, 70), int), jnp.ones(70, bool))
    features, _ = sliced()._all_rows(None, rows, jnp.arange(70))
    np.testing.assert_array_equal(features, np.broadcast_to(np.arange(1, 71), (32, 70)))


def test_parameters_of_features_that_no_item_has_are_of_the_prior():
    """Of a likelihood of one's own, whatever was in the slot before."""
    kernel, data = sliced(0.7, explicit(), capacity=8), exact.X.astype(np.float32)
    start = Dist({"parameters": jnp.full((8, 2), 1e4)}, {"features": jnp.ones((3, 1), bool)})
    after = jax.jit(lambda: kernel.step(KEY, kernel.init(KEY, start, data), data)[0])()
    parameters = np.asarray(after.position.shared["parameters"])
    assert np.all(np.abs(parameters[1:]) < 10) and len(np.unique(parameters[1:])) == 14


# ----------------------------------------------------------------------------------- the door


def refused(error, message, *args, **kwargs):
    with pytest.raises(error, match=message):
        slice_features(*args, **kwargs)


def test_what_is_no_series_of_the_process():
    process = BetaBernoulli(1.0, 0.5)
    refused(
        ValueError, "needs a concentration of at least 1", process, LINEAR, representation=bondesson
    )
    wrong = bondesson(GammaProcess(1.0))
    refused(ValueError, "must be of the measure of process", process, LINEAR, representation=wrong)
    wrong = inverse_levy(BetaProcess(2.0, 0.5))
    refused(ValueError, "must be of the measure of process", process, LINEAR, representation=wrong)
    refused(TypeError, "give others to slice_crm", process, LINEAR, representation=OWN)
    drawn = BetaBernoulli(1.0, 2.0, concentration_prior=(1.0, 1.0))
    refused(ValueError, "must hold for every", drawn, LINEAR, representation=bondesson)
    refused(ValueError, "decay must be finite and positive", process, LINEAR, decay=0.0)
    refused(TypeError, "process must be a FeatureProcess", 1.0, LINEAR)
    with pytest.raises(TypeError, match="representation must be a Representation, got BetaProcess"):
        slice_crm(BetaProcess(1.0), Bernoulli(), LINEAR)


@full
def test_a_chain_begins_at_points_that_have_atoms():
    """A point without one has no density under a column in use: its place would be infinite."""
    kernel = general("generalized gamma")
    made = sample(KEY, kernel, None, COUNTS.astype(np.float32), num_steps=3, num_chains=16)
    assert made.capacity == 32 and made.info.finite.all()


@pytest.mark.full
def test_many_rows_are_visited_some_at_a_time(x64, monkeypatch):
    """Seventy rows at once, or 64 and then the last 64, of which some were visited before."""
    data = np.random.default_rng(0).normal(size=(70, 2))
    args = {"num_steps": 8}
    whole_data = sample(KEY, sliced(), None, data, **args)
    monkeypatch.setattr(module, "_NUMBERS", 64 * 32)
    programs.cache_clear()  # that of all rows would be met again
    same(whole_data, sample(KEY, sliced(), None, data, **args))


@pytest.mark.parametrize(
    "data",
    [np.ones((1, 2)), *(pytest.param(x, marks=full) for x in (np.zeros((3, 2)), np.ones((6, 2))))],
)
def test_one_row_and_constant_columns(data):
    made = sample(KEY, sliced(), None, data.astype(np.float32), num_steps=30)
    assert made.info.finite.all() and made.trace.local["features"].shape[:2] == (30, len(data))


# ------------------------------------------------------------------------------ planted faults


def fails(kernel, law, **kwargs):
    programs.cache_clear()
    fault_is_seen(check, kernel, law, **kwargs)


@full
@pytest.mark.at_length
def test_empty_features_by_the_poissonised_integral(monkeypatch):
    """Planted: exp(-n theta) for (1 - theta)^n, as the paper has it in section 4.1."""
    monkeypatch.setattr(
        BetaBernoulli, "log_absent", lambda self, w: -jnp.exp(jax.nn.log_sigmoid(w))
    )
    fails(sliced(), binary(beta(2.0)))


@full
@pytest.mark.at_length
def test_levels_that_do_not_follow_the_entries(monkeypatch):
    """Planted: an entry makes its row longer whatever comes after it."""

    honest = module.SliceCRM._gain
    always = lambda self, *args: honest(self, *args[:-1], jnp.ones_like(args[-1]))
    monkeypatch.setattr(module.SliceCRM, "_gain", always)
    fails(sliced(), binary(beta(2.0)))


@full
@pytest.mark.at_length
def test_entries_without_the_density_of_their_slice(monkeypatch):
    """Planted: the weight e^(k / decay) left out."""
    monkeypatch.setattr(module.SliceCRM, "_log_level", lambda self, last, level: 0.0 * last)
    fails(sliced(), binary(beta(2.0)))


@full
@pytest.mark.at_length
def test_empty_features_that_are_not_drawn_anew(monkeypatch):
    """Planted: empty ones of a series that starts after the last one in use."""
    weights = importlib.import_module("sgmc_jax.bnp._weights")
    honest = weights.in_order

    def after(used, empty):
        last = jnp.max(jnp.where(used.known, used.place, 0))
        return honest(used, empty._replace(place=empty.place + last))

    monkeypatch.setattr(weights, "in_order", after)
    fails(sliced(), binary(beta(2.0)))


@full
def test_a_last_column_that_is_ranked_without_the_blanks(monkeypatch):
    honest = module.last_before
    dense = lambda z, order, rank: honest(z, order, jnp.arange(1, len(order) + 1, dtype=jnp.int32))
    monkeypatch.setattr(module, "last_before", dense)
    fails(general("own series, half empty"), whole(gamma(8.0)), num_steps=500)


@full
@pytest.mark.at_length
def test_moves_of_weights_without_their_jacobian(monkeypatch):
    """Planted: one theta too many in the density of a weight."""
    honest = Bernoulli.log_column
    tilted = lambda self, stats, num, log_theta: honest(self, stats, num, log_theta) + log_theta
    monkeypatch.setattr(Bernoulli, "log_column", tilted)
    fails(general("beta"), binary(beta(2.0)))


# -------------------------------------------------------------------------- a scale that is drawn

ONE, LAW = np.array([[1.0, -1.4, 0.8, 1.2]]), (0.7, 0.3)  # an item; the scale's inverse-gamma prior


def one_item():
    """The probabilities of no feature, of one and of two, and E log s_A, by quadrature."""
    (a, b), u, num = LAW, np.linspace(-5, 8, 4_001), np.arange(15)[:, None]
    variance = NOISE**2 + num * np.exp(2 * u)
    log = poisson.logpmf(num, MASS) - 2 * a * u - b * np.exp(-2 * u)
    log = log + sum(norm.logpdf(x, scale=np.sqrt(variance)) for x in ONE[0])
    weight = np.exp(log - logsumexp(log))
    return np.append(weight.sum(1)[:3], np.sum(weight * u))


def check_one_item(tolerance=0.08):
    def reduce(state, info):
        number = info.active == jnp.arange(3)
        return jnp.append(number, jnp.log(state.position.shared["feature_scale"]))

    family = LinearGaussian(4, NOISE, 1.0, feature_prior=LAW)
    args = {"num_chains": 1024, "num_steps": 1_500, "burn_in": 60}
    data = ONE.astype(np.float32)
    made = run_law(KEY, sliced(1.0, family, 16), None, data, reduce=reduce, **args)
    check_law(made.trace.mean, one_item(), tolerance)


@full
@pytest.mark.one_device
def test_features_of_a_scale_that_is_drawn():
    check_one_item()


@full
@pytest.mark.at_length
@pytest.mark.one_device
def test_empty_features_of_the_scale_before(monkeypatch):
    """Planted: they are drawn, then the scale, and they stay."""
    honest = LinearGaussian.redraw

    def stale(self, key, hyper, params, stats, counts, *args):
        new, drawn = honest(self, key, hyper, params, stats, counts, *args)
        old = drawn * hyper["feature_scale"] / new["feature_scale"]
        return new, jnp.where(counts[:, None] > 0, drawn, old)

    monkeypatch.setattr(LinearGaussian, "redraw", stale)
    fault_is_seen(check_one_item, tolerance=1.0)


@full
@pytest.mark.at_length
@pytest.mark.one_device
def test_weights_that_are_left_behind(monkeypatch):
    """Planted: a cycle takes the two, at a position that has what either needs."""
    monkeypatch.setattr(module.SliceCRM, "keeps_weights", False)
    crm, other, data = general("beta"), hybrid(), jnp.asarray(exact.X, jnp.float32)
    start = other.init(KEY, crm.init(KEY, None, data).position, data).position
    fails(cycle(crm, other), binary(beta(2.0)), start=start)
