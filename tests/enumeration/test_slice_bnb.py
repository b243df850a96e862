"""Beta-negative-binomial clusterings of three items in two groups, against every partition."""

import functools
import importlib
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import kstest, multivariate_normal

from sgmc_jax import Pmap, ShardMap, Vmap, cycle, gibbs, repeat, sample, thin
from sgmc_jax._types import Kernel
from sgmc_jax.bnp import (
    BetaProcess,
    DirichletCategorical,
    Groups,
    NormalKnownCovariance,
    delayed_bondesson,
    inverse_levy,
    rejection,
    slice_bnb,
    thinning,
)
from sgmc_jax.collective import Dist, as_shard
from sgmc_jax.runner.programs import programs
from tests.composition.test_positions import Renamed
from tests.enumeration.test_hdp import partitions
from tests.laws.moments import check_law, check_mean, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(7)
full = pytest.mark.full
NORMAL = NormalKnownCovariance(np.zeros(1), 0.5 * np.eye(1), 1.5 * np.eye(1))
X = np.array([-0.7, 0.2, 0.9])
GROUPS = Groups(np.array([[X[0], X[1]], [X[2], 0.0]])[..., None], np.array([2, 1]))
GROUP, SEATS = np.array([0, 0, 1]), np.array([0, 1, 2])
PAIRS = [(0, 1), (0, 2), (1, 2)]
MASS, CONCENTRATION = 0.9, 2.5
PROCESS = BetaProcess(MASS, CONCENTRATION)
PRIOR = (3.0, 4.0)
module = importlib.import_module("sgmc_jax.bnp.slice_bnb")
counts_module = importlib.import_module("sgmc_jax.bnp.bnb")


def log_marginal(x):
    return multivariate_normal.logpdf(x, np.zeros(len(x)), 0.5 * np.eye(len(x)) + 1.5)


T = np.linspace(-60, 40, 20_001)  # log odds of theta


def log_rates(counts, sizes, a, c, failures=None, t=T):
    """log of prod_d BNB(x_d; r_d, c s, c (1 - s)) x_d! nu(d theta) / dt, s = a theta."""
    theta, rest = 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(t))
    s = a * theta
    log = np.log(a * c) + c * np.log(rest)  # times theta (1 - theta), the slope
    for x, size in zip(counts, sizes, strict=True):
        r = size * (c - 1) / (a * c) if failures is None else failures
        A, B = c * s, c * np.maximum(1 - s, 1e-300)
        log = log + gammaln(x + r) - gammaln(r) + betaln(A + x, B + r) - betaln(A, B)
    return log


def integral(rate):
    return np.sum(rate) * (T[1] - T[0])


def log_exposure(a, c, failures=None):
    """Minus the expected number of clusters that the groups have."""
    every = np.log(a * c) - c * np.logaddexp(0, T)
    absent = log_rates([0, 0], GROUPS.size, a, c, failures) - every
    return integral(np.exp(every) * np.expm1(absent))


@functools.cache
def log_total(counts, a, c, failures):
    """The log of the integral of `log_rates`, of one cluster."""
    return np.log(integral(np.exp(log_rates(counts, GROUPS.size, a, c, failures))))


def log_weights(a=MASS, c=CONCENTRATION, failures=None):
    """The log weights of the five partitions, by the truths of their three pairs."""
    weight = {}
    for labels in partitions(3):
        total = 0.0
        for k in set(labels):
            members = np.array(labels) == k
            counts = [np.sum(members & (GROUP == d)) for d in (0, 1)]
            total += log_total(tuple(counts), a, c, failures)
            total += log_marginal(X[members])
        weight[tuple(labels[i] == labels[j] for i, j in PAIRS)] = total
    return weight


def law(*args, **kwargs):
    """The probabilities of these partitions."""
    weight = {pairs: np.exp(log) for pairs, log in log_weights(*args, **kwargs).items()}
    norm = sum(weight.values())
    return {pairs: value / norm for pairs, value in weight.items()}


def unit_nodes():
    node, weight = np.polynomial.legendre.leggauss(40)
    return (node + 1) / 2, weight


@functools.cache
def law_of_mass(failures=None, prior=PRIOR):
    """The same with a Gamma(s, r) mass up to 1, and the means of a and a^2 in each partition."""
    mass, weight = unit_nodes()
    log = []
    for a in mass:
        own = np.array(list(log_weights(a, failures=failures).values()))
        own = own + log_exposure(a, CONCENTRATION, failures)
        log.append(own + (prior[0] - 1) * np.log(a) - prior[1] * a)
    joint = weight[:, None] * np.exp(log)
    joint = joint / joint.sum()
    means = np.concatenate([mass**power @ joint for power in range(3)])
    return dict.fromkeys(log_weights(0.5)), means


@functools.cache  # equal functions share a program
def which(states, powers, inside):
    """Which partition a chain is in, times the powers of its mass."""

    def of(state, info):
        position = state.position["z"] if inside else state.position
        labels = position.local["assignment"].ravel()[SEATS]
        pairs = jnp.stack([labels[i] == labels[j] for i, j in PAIRS])
        here = jnp.all(pairs == np.array(states), axis=1).astype(float)
        return jnp.ravel((position.shared["mass"] ** jnp.arange(powers))[:, None] * here)

    return of


def check(kernel, expected=None, wrap=None, tolerance=0.15, **kwargs):
    expected = law() if expected is None else expected
    of_mass = isinstance(expected, tuple)
    expected, means = expected if of_mass else (expected, list(expected.values()))
    powers = 3 if of_mass else 1
    args = {"num_chains": 256, "num_steps": 300, "burn_in": 40} | kwargs
    start = {"z": None} if wrap == "gibbs" else None
    reduce = which(tuple(expected), powers, wrap == "gibbs")
    made = run_law(KEY, kernel, start, GROUPS, reduce=reduce, **args)
    check_law(made.trace.mean, np.array(means), tolerance)


def sliced(process=PROCESS, capacity=32, decay=1.0, **kwargs):
    return slice_bnb(process, NORMAL, capacity=capacity, decay=decay, **kwargs)


def test_all_partitions():
    check(sliced(), num_steps=172, burn_in=12, tolerance=0.06)


@full
@pytest.mark.optimised
def test_all_partitions_as_slots_are_added():
    check(sliced(capacity=16), num_steps=344, burn_in=24, tolerance=0.06)


@full
def test_all_partitions_in_many_steps():
    check(sliced())


def check_mass(failures=None):
    """The mass given one cluster of all items, of weight 1/2, against quadrature: 25 steps each."""
    kernel = sliced(mass_prior=PRIOR, failures=failures, capacity=2)
    state, shard = kernel.init(KEY, None, GROUPS), as_shard(GROUPS)
    shared, counts = state.position.shared, jnp.array([[2, 1], [0, 0]])
    start = shared | {"series": shared["series"] | {"log_theta": jnp.log(jnp.full(2, 0.5))}}

    def step(shared, key):
        shared = kernel._redraw_mass(key, shared, counts, state, shard)
        return shared, shared["mass"] ** jnp.arange(1, 3)

    chain = lambda key: jax.lax.scan(step, start, jax.random.split(key, 30))[1][5:].mean(0)
    found = jax.jit(jax.vmap(chain))(jax.random.split(KEY, 256))
    mass, weight = unit_nodes()
    log = [log_exposure(a, CONCENTRATION, failures) for a in mass]
    log += np.array([log_rates([2, 1], [2, 1], a, CONCENTRATION, failures, 0.0) for a in mass])
    law = weight * np.exp(log) * mass ** (PRIOR[0] - 1) * np.exp(-PRIOR[1] * mass)
    check_mean(found, [law @ mass, law @ mass**2] / law.sum(), 0.1)


def test_levels_past_the_known_clusters_ask_for_slots():
    kernel = sliced(decay=1e6, capacity=4)
    step = lambda: kernel.step(KEY, kernel.init(KEY, None, GROUPS), GROUPS)[1].overflow
    assert jax.jit(step)()


def test_rates_given_the_counts():
    """theta ~ Beta(A + x, B + r), and pi ~ Gamma(r + x, rate 1 / theta)."""
    kernel, shard, x, r, c = sliced(failures=0.7), as_shard(GROUPS), 2, 0.7, CONCENTRATION
    groups = kernel._groups(jnp.float32(MASS), shard)
    atoms, counts = SimpleNamespace(log_weight=jnp.log(jnp.full(1, 0.3))), jnp.full((1, 2), x)
    drawn = lambda key: kernel._log_rates(key, groups, atoms, counts, shard)
    rates = np.exp(jax.jit(jax.vmap(drawn))(jax.random.split(KEY, 20_000)), dtype=float)
    A, all_ = c * MASS * 0.3 + x, c + r + x
    first = (r + x) * A / all_
    second = (r + x) * (r + x + 1) * A * (A + 1) / (all_ * (all_ + 1))
    check_mean(np.stack([rates, rates**2], 1)[:, :, 0], np.array([[first], [second]]) * [1, 1], 0.1)


def test_a_mass_of_its_law_keeps_it():
    """That of `check_mass`, of more failures, in one redraw, by Kolmogorov's test; up to 1."""
    failures, prior, grid = 20.0, (3.0, 0.5), (np.arange(50) + 0.5) / 50
    log = [log_exposure(a, CONCENTRATION, failures) for a in grid]
    log += np.array([log_rates([2, 1], [2, 1], a, CONCENTRATION, failures, 0.0) for a in grid])
    law = np.exp(log) * grid ** (prior[0] - 1) * np.exp(-prior[1] * grid)
    edges, below = np.linspace(0, 1, 51), np.append(0, np.cumsum(law) / law.sum())
    kernel = sliced(mass_prior=prior, failures=failures, capacity=1)
    state = SimpleNamespace(sums=SimpleNamespace(counts=jnp.array([3])))
    series, shard = {"log_theta": jnp.log(jnp.full(1, 0.5)), "g": jnp.ones(1)}, as_shard(GROUPS)

    def redrawn(key, mass):
        shared = {"mass": mass, "series": series}
        return kernel._redraw_mass(key, shared, jnp.array([[2, 1]]), state, shard)["mass"]

    num = 2_500
    mass = np.interp((np.arange(num) + 0.5) / num, below, edges)
    found = jax.jit(jax.vmap(redrawn))(jax.random.split(KEY, num), jnp.float32(mass))
    cdf = lambda x: np.interp(x, edges, below)
    assert kstest(np.asarray(found, float), cdf).pvalue > 1e-6
    assert np.mean(found != mass) > 0.5 and 0.9 < np.max(found) <= 1


@full
@pytest.mark.parametrize("failures", [None, 0.7])
def test_the_mass_given_the_weights(failures):
    check_mass(failures)


OTHERS = {
    "delayed": lambda: (sliced(representation=delayed_bondesson), law()),
    "inverse": lambda: (sliced(representation=inverse_levy), law()),
    "thinning": lambda: (sliced(representation=thinning), law()),
    "rejection": lambda: (sliced(representation=rejection), law()),
    "far": lambda: (sliced(decay=4.0, capacity=64), law()),
    "mass 1": lambda: (sliced(BetaProcess(1.0, 3.0)), law(1.0, 3.0)),
    "failures": lambda: (sliced(failures=0.7), law(failures=0.7)),
    "thin": lambda: (thin(sliced(), 2), law()),
    "gibbs": lambda: (gibbs(z=lambda rest: sliced()), law()),
    "random mass": lambda: (sliced(mass_prior=PRIOR), law_of_mass()),
    "random mass, delayed": lambda: (
        sliced(mass_prior=PRIOR, representation=delayed_bondesson),
        law_of_mass(),
    ),
    "random mass and failures": lambda: (
        sliced(mass_prior=PRIOR, failures=0.7),
        law_of_mass(0.7),
    ),
    "two": lambda: (cycle(sliced(), sliced(representation=delayed_bondesson)), law()),
    "other names": lambda: (cycle(sliced(), OtherNames(32)), law()),
}


class OtherNames(Kernel):
    """Slots change names at random."""

    size: int = eqx.field(static=True)

    def init(self, key, position, data):
        return Renamed(position)

    def step(self, key, state, data):
        shared, labels = state.position.shared, state.position.local["assignment"]
        names = jax.random.permutation(key.noise, self.size).astype(jnp.int32)
        series = jax.tree.map(lambda x: x.at[names].set(x[: self.size]), shared["series"])
        renamed = jnp.where(labels < self.size, names[labels % self.size], labels)
        return Renamed(Dist(shared | {"series": series}, {"assignment": renamed})), None


@full
@pytest.mark.parametrize("name", OTHERS)
def test_all_partitions_otherwise(name):
    kernel, expected = OTHERS[name]()
    check(kernel, expected, wrap=name)


WRAPS = {
    "thin": lambda kernel: thin(kernel, 2),
    "repeat": lambda kernel: repeat(kernel, 2),
    "gibbs": lambda kernel: gibbs(z=lambda rest: kernel),
    "cycle": lambda kernel: cycle(kernel, sliced()),  # to which the mass is given
}


@full
@pytest.mark.long
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_random_mass_in_combinators(wrap):
    check(WRAPS[wrap](sliced(mass_prior=PRIOR)), law_of_mass(), wrap=wrap)


@full
@pytest.mark.parametrize("random", [False, pytest.param(True, marks=pytest.mark.optimised)])
@pytest.mark.parametrize("shards", [2, 3])
def test_all_partitions_on_shards(shards, random):
    kernel, expected = (sliced(mass_prior=PRIOR), law_of_mass()) if random else (sliced(), law())
    check(kernel, expected, engine=Vmap(shards))


WORDS = Groups(np.random.default_rng(0).integers(0, 6, (7, 9)), np.array([9, 1, 4, 2, 9, 3, 5]))


def words(capacity, **kwargs):
    return slice_bnb(PROCESS, DirichletCategorical(0.3, size=6), capacity=capacity, **kwargs)


def same(one, other, wrap="plain"):
    traces = (x.trace["z"] if wrap == "gibbs" else x.trace for x in (one, other))
    a, b = (trace.local["assignment"] for trace in traces)
    present = np.arange(9) < WORDS.size[:, None]
    assert np.array_equal(a[:, present], b[:, present])


@full
@pytest.mark.parametrize("prior", [None, PRIOR])
def test_growth(prior, x64):
    chain = lambda n: sample(KEY, words(n, mass_prior=prior), None, WORDS, num_steps=20)
    grown, roomy = chain(4), chain(128)
    assert grown.capacity > 32
    same(grown, roomy)


GROWING = {
    "thin": (lambda make: thin(make(), 2), None),
    "repeat": (lambda make: repeat(make(), 2), None),
    "gibbs": (lambda make: gibbs(z=lambda rest: make()), {"z": None}),
    "cycle": (lambda make: cycle(make(), make()), None),
}


@full
@pytest.mark.parametrize("wrap", GROWING)
def test_growth_in_combinators(wrap, x64):
    around, start = GROWING[wrap]
    make = lambda n: around(lambda: words(n, mass_prior=PRIOR))
    chain = lambda n: sample(KEY, make(n), start, WORDS, num_steps=20)
    grown, roomy = chain(16), chain(64)
    assert grown.capacity > 16
    same(grown, roomy, wrap)


@full
@pytest.mark.parametrize("kind, size", [(Vmap, 2), (Pmap, 8), (ShardMap, 8)])
def test_the_same_chain_on_shards(kind, size, x64):
    chain = lambda **kwargs: sample(
        KEY, words(64, mass_prior=PRIOR), None, WORDS, num_steps=20, **kwargs
    )
    alone, shared = chain(), chain(engine=kind(size))
    same(alone, shared)
    mass = alone.trace.shared["mass"]
    assert np.ptp(mass) > 0
    np.testing.assert_allclose(mass, shared.trace.shared["mass"], rtol=1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="an item in every group, got none in group 1"):
        sample(
            KEY, words(8), None, Groups(WORDS.items, WORDS.size * (np.arange(7) != 1)), num_steps=1
        )
    with pytest.raises(ValueError, match="mass of at most 1, got 2"):
        slice_bnb(BetaProcess(2.0, 2.0), NORMAL)
    with pytest.raises(ValueError, match="concentration above 1, got 1"):
        slice_bnb(BetaProcess(1.0, 1.0), NORMAL)
    with pytest.raises(ValueError, match="mass_prior must be"):
        slice_bnb(PROCESS, NORMAL, mass_prior=(0.0, 1.0))
    with pytest.raises(TypeError, match="process must be a BetaProcess, got float"):
        slice_bnb(1.0, NORMAL)
    with pytest.raises(TypeError, match="data must be Groups"):
        sample(KEY, words(8), None, X, num_steps=1)


@full
def test_one_group_of_one_word():
    one = Groups(np.zeros((1, 1), np.int32), np.array([1]))
    made = sample(KEY, words(32, mass_prior=PRIOR), None, one, num_steps=10)
    assert made.trace.local["assignment"].shape == (10, 1, 1) and made.info.finite.all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(made.trace.shared))


def fails(*expected, **kwargs):
    programs.cache_clear()
    fault_is_seen(check, sliced(**kwargs), *expected)


@full
@pytest.mark.at_length
def test_rates_that_are_not_drawn_anew(monkeypatch):
    """Planted: the missing draws of theta and pi, as the paper prints the sampler."""
    honest = module.SliceBNB._log_rates

    def prior(self, key, groups, atoms, counts, shard):
        return honest(self, key, groups, atoms, jnp.zeros_like(counts), shard)

    monkeypatch.setattr(module.SliceBNB, "_log_rates", prior)
    fails()


@full
@pytest.mark.at_length
def test_weights_that_forget_the_failures(monkeypatch):
    """Planted: clusters that no group has are as likely whatever their weights are."""
    monkeypatch.setattr(counts_module.Failures, "log_absent", lambda self, log_theta: 0 * log_theta)
    fails()


@full
@pytest.mark.parametrize("wrong", ["exposure", "log_all"])
def test_a_mass_that_forgets(wrong, monkeypatch):
    """Planted: the empty clusters left out; counts that do not know the mass."""
    monkeypatch.setattr(counts_module.Failures, wrong, lambda self, *args: jnp.zeros(()))
    with pytest.raises(AssertionError, match="standard errors"):
        check_mass()
