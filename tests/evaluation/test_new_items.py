"""The law of new items, against the process, the collapsed likelihood and all entries."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy.special import logsumexp
from scipy.stats import logser, nbinom, norm, poisson

from sgmc_jax.bnp import BetaBernoulli, DirichletProcess, GammaPoisson, LinearGaussian
from sgmc_jax.evaluation import NewItems, new_items
from sgmc_jax.families import FeatureRows
from sgmc_jax.processes import CountLikelihood, NegativeBinomial, OddsBernoulli, Poisson
from tests.laws.moments import check_mean

KEY = jax.random.key(0)
NOISE, SCALE = 0.5, 0.8
PROCESS, FAMILY = BetaBernoulli(1.5, 2.0), LinearGaussian(2, NOISE, SCALE)
COLUMNS = np.array([[1, 1, 0], [1, 0, 0]])
SEEN = np.array([[1.0, -0.5], [0.7, 0.2], [0.1, 0.0]], np.float32)
NEW = np.array([[0.9, -0.3], [-1.0, 1.0]], np.float32)
MOST = 7  # new columns
Z = np.array([(a, b) for a in (0, 1) for b in (0, 1) for _ in range(MOST + 1)])
BORN = np.tile(np.arange(MOST + 1), 4)
COUNTS = COLUMNS.sum(1)


def hyper(values):
    return {"parameters": values} | PROCESS.start() | FAMILY.start()


def law(values, process=PROCESS):
    return NewItems.of(process, hyper(jnp.asarray(values)), COUNTS, 3)


@jax.jit
@jax.vmap
def log_chances(z, born):
    """The next item's entries by the process: its new columns are alike, in no order."""
    new = (jnp.arange(MOST) < born).astype(int)
    counts, old = jnp.concatenate([COUNTS + z, new]), jnp.concatenate([COUNTS, 0 * new])
    gain = PROCESS.logdensity(PROCESS.start(), counts, 4)
    return gain - PROCESS.logdensity(PROCESS.start(), old, 3) - gammaln(born + 1.0)


def of_entries(made):
    w, births = np.asarray(made.weights), float(made.births)
    return np.log(np.where(Z, w, 1 - w)).sum(axis=1) + poisson.logpmf(BORN, births)


def test_entries_are_those_of_the_process():
    made, exact = law(np.zeros((2, 2))), log_chances(Z, BORN)
    np.testing.assert_allclose(of_entries(made), exact, atol=1e-4)
    wrong = replace(made, weights=COUNTS / 3.0)  # without c
    assert np.max(np.abs(of_entries(wrong) - exact)) > 0.1


TIMES = GammaPoisson(1.5, 0.7)
LISTS = [(ones, twos) for ones in range(9) for twos in range(3) if ones + 4 * twos < 9]  # no threes


@jax.jit
@jax.vmap
def log_chances_of_counts(z, ones, twos):
    """The same of counts: columns that are alike are in no order, and entries have factorials."""
    new = jnp.where(jnp.arange(10) < ones, 1, jnp.where(jnp.arange(10) < ones + twos, 2, 0))
    counts, old = jnp.concatenate([COUNTS + z, new]), jnp.concatenate([COUNTS, 0 * new])
    gain = TIMES.logdensity(TIMES.start(), counts, 4) - TIMES.logdensity(TIMES.start(), old, 3)
    alike = gammaln(ones + 1.0) + gammaln(twos + 1.0)
    return gain - alike - twos * jnp.log(2.0) - jnp.sum(gammaln(z + 1.0))


def errors_of_counts(**wrong):
    """log P of entries and squares by the law, less the same by the process."""
    made = NewItems.of(TIMES, hyper(np.zeros((2, 2))) | TIMES.start(), COUNTS, 3, most=40)
    made = replace(made, **wrong)
    entries, born = np.asarray(made.log_entries), np.asarray(made.log_born)
    ones, twos = np.array(LISTS).T
    for z in itertools.product(range(3), repeat=2):
        each = log_chances_of_counts(np.tile(z, (len(ones), 1)), ones, twos)
        exact = [logsumexp(np.asarray(each)[ones + 4 * twos == s]) for s in range(9)]
        yield entries[z[0], 0] + entries[z[1], 1] + born[:9] - exact


def test_counts_are_those_of_the_process():
    np.testing.assert_allclose(list(errors_of_counts()), 0, atol=1e-4)
    for wrong in ({"weights": np.full(2, 1 / 3.7)}, {"birth_ratio": 1 / 3.7}):  # of n, not n + 1
        assert np.max(np.abs(list(errors_of_counts(**wrong)))) > 0.05


@pytest.mark.parametrize("process", [PROCESS, TIMES])
def test_a_position_has_hyper_parameters_of_its_own(process):
    own = type(process)(0.4, 3.0)
    shared = hyper(np.zeros((2, 2))) | own.start()
    made, exact = (NewItems.of(each, shared, COUNTS, 3) for each in (process, own))
    jax.tree.map(np.testing.assert_array_equal, made, exact)


@jax.jit
@jax.vmap
def collapsed(z, born):
    """log p(x | X, Z, z) of each new item, parameters integrated out; columns of zeros are none."""
    last = jnp.concatenate([z, jnp.arange(MOST) < born])
    columns = jnp.pad(jnp.asarray(COLUMNS), ((0, MOST), (0, 1))).at[:, 3].set(last)

    def density(item, real):
        rows = FeatureRows(jnp.vstack([SEEN, item]), columns * real, real)
        return FAMILY.logdensity(FAMILY.start(), jnp.zeros((MOST + 2, 2)), rows)

    four = jnp.ones(4, bool)
    return jax.vmap(lambda item: density(item, four) - density(item, four.at[3].set(False)))(NEW)


@jax.jit
def densities(feature_scale):
    """p(x | A) for draws of A given what was seen."""
    rows, zeros = (
        FeatureRows(jnp.asarray(SEEN), jnp.asarray(COLUMNS), jnp.ones(3, bool)),
        jnp.zeros((2, 2)),
    )
    stats = FAMILY.statistics(zeros, rows)

    def one(key):
        values = FAMILY.report(key, FAMILY.start(), zeros, stats, COUNTS)
        return replace(law(values), feature_scale=feature_scale).log_prob(NEW)

    return jnp.exp(jax.vmap(one)(jax.random.split(KEY, 20_000)))


def test_draws_average_to_the_predictive_density():
    exact = jnp.exp(log_chances(Z, BORN)[:, None] + collapsed(Z, BORN)).sum(axis=0)
    check_mean(densities(SCALE), exact, 0.05)
    # new features without a variance of their own
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(densities(1e-6), exact, 0.05)


W = np.array([0.7, 0.4, 0.2, 0.05, 0.0])
SIZES, RATIO = np.array([1.0, 2.0, 3.0, 1.0, 1.0]), 0.4


def five(births=0.3, times=False):
    values = np.random.default_rng(1).normal(size=(5, 3))
    parts = {"birth_ratio": RATIO, "counts": NegativeBinomial(SIZES), "most": 2} if times else {}
    return NewItems(values, W, NOISE, births, SCALE, **parts)


def entry_laws(times):
    """P(z_k) of four features, of counts up to 2."""
    if not times:
        return np.stack([1 - W, W])[:, :4]
    law = nbinom.pmf(np.arange(3)[:, None], SIZES, 1 - W)[:, :4]
    return law / law.sum(axis=0)


def born_law(births, times):
    """P(S = s), s < 50, as a mixture of convolutions."""
    x = np.arange(1, 8)
    one, many = np.eye(1, 50, 1)[0], np.eye(1, 50)[0]
    if times:
        one = np.zeros(50)
        one[x**2] = logser.pmf(x, RATIO)
    law = np.zeros(50)
    for born in range(25):
        law += poisson.pmf(born, births) * many
        many = np.convolve(many, one)[:50]
    return law


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("births", [pytest.param(0.0, marks=pytest.mark.full), 0.3])
def test_entries_are_summed_out(births, times, x64):
    made, items = five(births, times), np.random.default_rng(0).normal(size=(6, 3))
    law, values, terms, entries = entry_laws(times), np.asarray(made.parameters[:4]), [], []
    for z in itertools.product(range(len(law)), repeat=4):
        for born, chance in enumerate(born_law(births, times)):
            if chance > 0:
                each = norm.logpdf(items, z @ values, np.sqrt(NOISE**2 + born * SCALE**2))
                log_chance = np.log(chance) + np.sum(np.log(law[z, range(4)]))
                terms.append(log_chance + each.sum(axis=1))
                entries.append(z)
    np.testing.assert_allclose(made.log_prob(items), logsumexp(terms, axis=0), rtol=1e-9)
    np.testing.assert_allclose(made.largest(4).log_prob(items), made.log_prob(items), rtol=1e-9)
    mean = np.exp(np.array(terms) - logsumexp(terms, axis=0)).T @ np.array(entries)
    np.testing.assert_allclose(made.entries(items)[:, :4], mean, rtol=1e-8)
    np.testing.assert_allclose(made.largest(4).entries(items), mean, rtol=1e-8)
    assert not made.entries(items)[:, 4].any()
    for wrong in ({"noise_scale": 1.1 * NOISE}, {"births": 0.6}, {"weights": 0.9 * W}):  # planted
        if not (times and "weights" in wrong):
            other = replace(made, **{name: jnp.asarray(x) for name, x in wrong.items()})
            assert np.max(np.abs(other.entries(items)[:, :4] - mean)) > 1e-4
    if not births:
        without = replace(made, births=None, birth_ratio=None)
        np.testing.assert_allclose(without.log_prob(items), made.log_prob(items), rtol=1e-9)


def test_the_largest_are_the_likeliest():
    made = NewItems(np.eye(2), np.array([0.3, 0.2]), NOISE, counts=NegativeBinomial([1.0, 9.0]))
    kept = made.largest(1)
    np.testing.assert_allclose(kept.parameters, [[0.0, 1.0]])
    assert kept.counts.size.tolist() == [9.0]


def ratios(times):
    made, items = five(times=times), np.random.default_rng(2).normal(size=(3, 3))
    args = {"particles": 1, "temperatures": 4}
    each = jax.vmap(lambda key: made.estimate(key, items, **args))(jax.random.split(KEY, 4_000))
    return np.exp(each - made.log_prob(items))


@pytest.mark.parametrize("times", [pytest.param(False, marks=pytest.mark.full), True])
def test_estimates_are_unbiased(times, monkeypatch):
    check_mean(ratios(times), np.ones(3), 0.2)
    monkeypatch.setattr(new_items, "_ladder", lambda num: 0.9 * jnp.arange(num + 1) / num)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(ratios(times), np.ones(3), 0.2)


@pytest.mark.full
def test_estimates_are_close_with_many_features():
    values = np.random.default_rng(2).normal(size=(12, 36)).astype(np.float32)
    made = NewItems(values, np.linspace(0.05, 0.6, 12), NOISE)
    items = made.draw(KEY, 10)[0]
    error = made.estimate(KEY, items, temperatures=64) - made.log_prob(items)
    assert abs(np.mean(error)) < 0.5


@pytest.mark.full
@pytest.mark.parametrize("times", [False, True])
def test_draws_have_the_moments_of_the_law(times):
    made, law = five(times=times), entry_laws(times)
    values, x = np.asarray(made.parameters, float), np.arange(len(law))
    mean = np.append(x @ law, 0)
    variance = np.append(x**2 @ law, 0) - mean**2
    items, z = (np.asarray(x, float) for x in made.draw(KEY, 20_000))
    check_mean(z[:, :4], mean[:4], 0.05)
    rest = items - mean @ values
    check_mean(items, mean @ values, 0.05)
    born = np.arange(50) @ born_law(0.3, times)
    spread = values.T @ np.diag(variance) @ values + (NOISE**2 + born * SCALE**2) * np.eye(3)
    check_mean(rest[:, :, None] * rest[:, None], spread, 0.1)


def test_counts_of_other_measures():
    """Odds, and counts without a bound on their weight: what `slice_crm` draws."""
    odds = NewItems(np.eye(2), np.array([3.0, 0.0]), NOISE, counts=OddsBernoulli())
    np.testing.assert_allclose(np.exp(odds.log_entries), [[0.25, 1.0], [0.75, 0.0]], rtol=1e-6)
    times = NewItems(np.eye(2), np.array([1.5, 0.0]), NOISE, counts=Poisson(), most=30)
    exact = poisson.pmf(np.arange(31), 1.5)
    np.testing.assert_allclose(np.exp(times.log_entries[:, 0]), exact, rtol=1e-4, atol=1e-9)
    own = lambda x, t: x * t + (2 - x) * jnp.log1p(-jnp.exp(t)) + jnp.log(2.0) * (x == 1)
    twice = CountLikelihood.from_function(own, maximum=2)  # x t is no number at a weight of 0
    made = NewItems(np.eye(2), np.array([0.5, 0.0]), NOISE, counts=twice)
    wanted = [[0.25, 1.0], [0.5, 0.0], [0.25, 0.0]]
    np.testing.assert_allclose(np.exp(made.log_entries), wanted, rtol=1e-5)


def test_counts_have_no_entries_above_their_own_bound():
    """Whatever `most` says: a likelihood of one's own is not asked for them."""
    own = lambda x, t: x * t + (2 - x) * jnp.log1p(-jnp.exp(t)) + jnp.log(2.0) * (x == 1)
    twice = CountLikelihood.from_function(own, maximum=2)
    for most, wanted in ((5, [0.25, 0.5, 0.25]), (1, [1 / 3, 2 / 3])):
        made = NewItems(np.eye(1), np.array([0.5]), NOISE, counts=twice, most=most)
        np.testing.assert_allclose(np.exp(made.log_entries[:, 0]), wanted, rtol=1e-5)


def test_a_law_that_was_recorded_with_fewer_slots():
    """The runner appends zeros, to the sizes of a negative binomial's counts too."""

    @jax.jit
    def both(rows, weights, sizes):
        law = NewItems(rows, weights, NOISE, counts=NegativeBinomial(sizes))
        return law.log_prob(NEW), law.entries(NEW)

    found, entries = both(np.eye(2), np.array([0.5, 0.0]), np.array([2.0, 0.0]))
    wanted, own = both(np.eye(2)[:1], np.array([0.5]), np.array([2.0]))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(entries, np.append(own, [[0.0], [0.0]], axis=1), rtol=1e-5)


def test_births_beyond_those_that_are_summed_are_told_of():
    with pytest.warns(UserWarning, match="births must be fewer.*have a probability of 0.84"):
        NewItems(np.eye(2), np.array([0.5, 0.1]), NOISE, 30.0, SCALE)


def test_features_of_single_precision_in_double(x64):
    made = NewItems(np.eye(2, dtype=np.float32), np.array([0.5, 0.1]), 0.5, 0.1, 1.0)
    near = made.log_prob(NEW.astype(np.float32))
    for items in (NEW.astype(np.float32), NEW.astype(np.float64)):
        found = made.estimate(KEY, items, particles=64)
        np.testing.assert_allclose(found, near, atol=0.3)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: NewItems(np.ones((2, 3)), np.ones(3), 1.0), ValueError, r"weights must have .*2,"),
        (lambda: NewItems(np.ones((2, 3)), [0.5, 1.5], 1.0), ValueError, "weights must be at most"),
        (lambda: NewItems(np.ones((2, 3)), [0.5, 0.5], 0.0), ValueError, "noise_scale must be"),
        (lambda: law(np.zeros((2, 2)), DirichletProcess(1.0)), TypeError, "be a BetaBernoulli or"),
        (
            lambda: NewItems(np.ones((6, 1)), np.ones(6), 1.0, counts=Poisson()).log_prob([[1.0]]),
            ValueError,
            "parameters must have at most 5 rows to be summed out, got 6",
        ),
        (lambda: NewItems(np.ones((1, 1)), [0.5], 1.0, counts=2), TypeError, "counts must be a Co"),
        (lambda: NewItems(np.ones((1, 1)), [0.5], 1.0, most=0), ValueError, "most must be a whole"),
        (lambda: NewItems(np.ones((1, 1)), [0.5], 1, 1.0, birth_ratio=1.0), ValueError, "below 1"),
        (
            lambda: NewItems.of(PROCESS, {"parameters": np.zeros((2, 2))}, np.ones(2), 3),
            ValueError,
            "shared must be of a sampler .* lacks concentration, mass",
        ),
        (lambda: law(np.zeros((2, 2))).log_prob(np.ones((4, 3))), ValueError, r"\(n, 2\), got"),
        (
            lambda: NewItems(np.ones((17, 1)), np.ones(17) / 2, 1.0).log_prob(np.ones((1, 1))),
            ValueError,
            "parameters must have at most 16 rows to be summed out, got 17",
        ),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_numbers_of_half_precision_are_those_of_single_precision():
    features, weights = jnp.ones((3, 40), jnp.bfloat16), jnp.full(3, 0.5, jnp.bfloat16)
    both = [NewItems(features.astype(d), weights.astype(d), 1.0) for d in (jnp.bfloat16, float)]
    found = [each.estimate(KEY, jnp.zeros((2, 40))) for each in both]
    np.testing.assert_array_equal(*found)
