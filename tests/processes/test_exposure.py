"""The expected number of atoms that items have, and the mass that it is proportional to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import fixed_quad
from scipy.special import digamma, gammaln, log_expit

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
    RateMeasure,
    StableBetaProcess,
    bondesson,
    rejection,
)
from sgmc_jax.processes.exposure import exposure
from tests.processes.test_representations import log_tau, series
from tests.processes.test_representations import rows as of_series

TWICE = CountLikelihood.from_function(
    lambda x, t: x * t + (2 - x) * jnp.log1p(-jnp.exp(t)) + jnp.log(2.0) * (x == 1), maximum=2
)
# minus log h(0 | theta), from log theta and log(1 - theta)
ABSENT = {
    "bernoulli": (Bernoulli(), lambda log, rest: -rest),
    "odds": (OddsBernoulli(), lambda log, rest: np.logaddexp(0, log)),
    "poisson": (Poisson(), lambda log, rest: np.exp(log)),
    "negative binomial": (NegativeBinomial(1.7), lambda log, rest: -1.7 * rest),
    "few failures": (NegativeBinomial(0.02), lambda log, rest: -0.02 * rest),
    "twice": (TWICE, lambda log, rest: -2 * rest),
}
BOUNDED = [BetaProcess(1.3, c) for c in (0.05, 1.0, 3.0, 300.0)] + [
    StableBetaProcess(0.7, *args) for args in ((0.05, 0.1), (1.0, 0.5), (3.0, 0.9))
]
UNBOUNDED = [
    *(GammaProcess(1.3, c) for c in (0.01, 1.0, 300.0)),
    *(GeneralizedGammaProcess(0.7, *args) for args in ((0.01, 0.1), (1.0, 0.5), (3.0, 0.9))),
    *(BetaPrimeProcess(1.3, c) for c in (0.05, 1.0, 30.0)),
]
CASES = [(measure, name) for measure in BOUNDED for name in ABSENT]
CASES += [(measure, name) for measure in UNBOUNDED for name in ("odds", "poisson")]


def log_rate(measure, log, rest):
    """log of theta nu(theta), in NumPy, from log theta and log(1 - theta)."""
    a, c = float(measure.mass), float(measure.concentration)
    d = float(getattr(measure, "discount", 0.0))
    if isinstance(measure, BetaPrimeProcess):
        return np.log(a * c) - c * np.logaddexp(0, log)
    if not measure.bounded:
        front = np.log(a) + (1 - d) * np.log(c) - gammaln(1 - d)
        return front - d * log - c * np.exp(log)
    front = np.log(a) + gammaln(1 + c) - gammaln(1 - d) - gammaln(c + d)
    return front - d * log + (c + d - 1) * rest


def by_quadrature(measure, absent, num):
    """The integral in log theta or in log odds, by panels of the rule of Gauss and Legendre."""

    def integrand(s):
        log, rest = (log_expit(s), log_expit(-s)) if measure.bounded else (s, np.zeros_like(s))
        slope = np.exp(rest)  # of log theta in s
        return -np.expm1(-num * absent(log, rest)) * slope * np.exp(log_rate(measure, log, rest))

    edges = np.arange(-600.0, 601.0, 2.0)
    with np.errstate(over="ignore"):
        return sum(fixed_quad(integrand, a, b, n=24)[0] for a, b in zip(edges, edges[1:]))


def rows():
    """All counts under all measures; the likeliest of each kind of measure in the fast tier."""
    for measure, name in CASES:
        kind, (c, *_) = type(measure).__name__, [float(x) for x in jax.tree.leaves(measure)[1:]]
        fast = c == 1 and name == ("bernoulli" if measure.bounded else "poisson")
        marks = [] if fast else pytest.mark.full
        yield pytest.param(measure, name, id=f"{kind}-{c}-{name}", marks=marks)


@jax.jit
def each_number(measure, counts):
    return jnp.stack([exposure(measure, counts, num) for num in NUMBERS])


NUMBERS = (1, 3, 1_000, 1_000_000)


@pytest.mark.parametrize("measure,name", list(rows()))
def test_the_expected_number_by_quadrature(measure, name):
    """In float32, to a part in 1e5."""
    counts, absent = ABSENT[name]
    expected = [by_quadrature(measure, absent, num) for num in NUMBERS]
    np.testing.assert_allclose(each_number(measure, counts), expected, rtol=1e-5)


@pytest.mark.parametrize("num", NUMBERS)
def test_the_expected_number_in_closed_form(num):
    beta = 1.3 * 0.7 * (digamma(0.7 + num) - digamma(0.7))
    np.testing.assert_allclose(exposure(BetaProcess(1.3, 0.7), Bernoulli(), num), beta, rtol=1e-5)
    gamma = 1.3 * 0.7 * np.log1p(num / 0.7)
    np.testing.assert_allclose(exposure(GammaProcess(1.3, 0.7), Poisson(), num), gamma, rtol=1e-5)


@pytest.mark.parametrize("make,name", list(of_series()))
def test_series_know_places_by_their_ratio_to_the_mass(make, name, x64):
    """tau of mass a at g is tau of mass 1 at g / a, for every series of every measure."""
    own = series(make, name)
    of_mass = lambda mass: own.of(own.measure.of_mass(mass))
    g, v = jnp.exp(jnp.linspace(-4, 3, 30))[:, None], own.sample_v(jax.random.key(0), (40,))
    for mass in (0.3, 2.7):
        scaled = log_tau(of_mass(mass), v, mass * g)
        np.testing.assert_allclose(scaled, log_tau(of_mass(1.0), v, g), rtol=1e-9)
    assert jnp.array_equal(of_mass(2.7).sample_v(jax.random.key(0), (40,)), v)
    assert jnp.array_equal(of_mass(2.7).logpdf_v(v), own.logpdf_v(v))


class Own(RateMeasure):
    """A generalized gamma process that calls its discount otherwise."""

    power: float = 0.5

    def log_rate(self, log_theta):
        return self._named().log_rate(log_theta)

    def tail(self, log_theta):
        return self._named().tail(log_theta)

    def _named(self):
        return GeneralizedGammaProcess(self.mass, self.concentration, self.power)


@pytest.mark.parametrize("power", [0.1, 0.9])
@pytest.mark.parametrize("num", [10, 1_000_000])
def test_a_measure_of_ones_own(power, num):
    own = exposure(Own(1.3, 0.7, power), Poisson(), num)
    named = exposure(GeneralizedGammaProcess(1.3, 0.7, power), Poisson(), num)
    np.testing.assert_allclose(own, named, rtol=1e-4)


@pytest.mark.parametrize("name", ABSENT)
def test_columns_are_sums_over_real_items(name, x64):
    """Whatever the padding has; but for what does not depend on theta."""
    counts, _ = ABSENT[name]
    entries = jnp.minimum(jnp.array([[0, 1, 2, 0, 0, 0], [1, 1, 0, 0, 2, 1]]), counts.largest)
    real, log_theta = jnp.array([1, 1, 0, 1, 1, 0], bool), jnp.log(jnp.array([0.1, 0.5, 0.8]))
    stats = counts.statistics(entries.astype(counts.dtype), real)
    columns = [counts.log_column(stats, 4, jnp.full(2, x)) for x in log_theta]
    sums = [counts.log_prob(entries[:, real], x).sum(axis=1) for x in log_theta]
    np.testing.assert_allclose(np.diff(columns, axis=0), np.diff(sums, axis=0), rtol=1e-9)


def test_steps_of_large_counts():
    """The default's difference of two log probabilities is off by what float32 leaves of them."""
    x = np.array([0, 5, 1_000, 100_000])
    theta, size = np.log(0.999), 5.0
    found = NegativeBinomial(size).log_step(theta, x)
    np.testing.assert_allclose(found, theta + np.log((x + size) / (x + 1)), rtol=2e-5, atol=1e-7)
    found = Poisson().log_step(np.log(1e5), x)
    np.testing.assert_allclose(found, np.log(1e5 / (x + 1)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("make", [bondesson, rejection])
def test_a_concentration_that_was_traced_out_of_range_is_no_number(make):
    of = lambda c: make(BetaProcess(1.0, c))
    draw = lambda c: of(c).log_tau(of(c).sample_v(jax.random.key(0), (3,)), jnp.ones(3))
    found = jax.vmap(draw)(jnp.array([0.5, 1.0, 2.0]))
    assert np.all(np.isnan(found[0])) and not np.any(np.isnan(found[1:]))


def test_the_expected_number_of_a_small_concentration():
    """Of which much is of weights that are 1 to every digit: the nodes do not reach as far."""
    c = 0.02
    exact = 1.3 * c * (digamma(c + 3) - digamma(c))
    np.testing.assert_allclose(exposure(BetaProcess(1.3, c), Bernoulli(), 3), exact, rtol=1e-5)


@pytest.mark.parametrize("size", [1e3, 1e9, 1e20])
@pytest.mark.parametrize("num", [1, 1_000])
def test_the_expected_number_of_counts_of_a_large_mean(size, num):
    """The nodes begin where the counts may be 0, which is far below 1 / n."""
    exact = 1.3 * 0.7 * (digamma(0.7 + num * size) - digamma(0.7))
    found = exposure(BetaProcess(1.3, 0.7), NegativeBinomial(size), num)
    np.testing.assert_allclose(found, exact, rtol=2e-5)


def test_an_entry_at_its_most_has_no_pair_above():
    uniform = jnp.array([0.2, 0.7])  # up, and down
    assert TWICE.lower(jnp.array([2, 2]), uniform)[0].tolist() == [-1, 1]
    assert TWICE.lower(jnp.array([0, 0]), uniform)[0].tolist() == [0, -1]


def test_a_pair_leaves_half_of_a_uniform_unused():
    lower, unused = Poisson().lower(jnp.array([3, 3]), jnp.array([0.2, 0.75]))
    assert lower.tolist() == [3, 2]
    np.testing.assert_allclose(unused, [0.4, 0.5], rtol=1e-6)
