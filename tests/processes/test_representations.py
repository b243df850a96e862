"""Series representations: their rate measures, the laws of V, and places given weights."""

import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln, digamma, hyp2f1
from scipy.special import exp1 as scipy_exp1

from sgmc_jax.processes import (
    BetaPrimeProcess,
    BetaProcess,
    GammaProcess,
    GeneralizedGammaProcess,
    Representation,
    StableBetaProcess,
    bondesson,
    delayed_bondesson,
    inverse_levy,
    rejection,
    thinning,
)
from sgmc_jax.processes.laws import BetaLaw, BetaOneLaw, BetaPrimeLaw, ExponentialLaw
from sgmc_jax.processes.rejection import envelope
from sgmc_jax.special import exponential_integral, softplus_tail
from tests.laws.moments import check_law, check_mean, fault_is_seen, fewer

MEASURES = {
    "beta 1": BetaProcess(2.0, 1.0),
    "beta 3": BetaProcess(1.5, 3.0),
    "beta 1/2": BetaProcess(1.2, 0.5),
    "gamma": GammaProcess(2.0, 0.7),
    "generalized gamma": GeneralizedGammaProcess(1.5, 2.0, 0.4),
    "stable beta": StableBetaProcess(1.3, 0.7, 0.5),
    "stable beta, c + d < 1": StableBetaProcess(1.3, 0.3, 0.4),
    "beta prime": BetaPrimeProcess(1.4, 2.5),
    "beta prime 1/2": BetaPrimeProcess(1.0, 0.5),
}
SERIES = {
    inverse_levy: list(MEASURES),
    bondesson: ["beta 1", "beta 3", "gamma", "beta prime", "beta prime 1/2"],
    delayed_bondesson: ["beta 1", "beta 3", "beta 1/2"],
    thinning: list(MEASURES),
    rejection: ["beta 1", "beta 3", "gamma", "generalized gamma", "stable beta", "beta prime"],
}
PAIRS = [(make, name) for make, names in SERIES.items() for name in names]
FAST = {(bondesson, "beta 3"), (rejection, "gamma"), (thinning, "beta 3")}


def rows(quick=FAST):
    """All series of all measures; those that are not quick are in the full tier."""
    for make, name in PAIRS:
        marks = [] if (make, name) in quick else pytest.mark.full
        yield pytest.param(make, name, id=f"{make.__name__}-{name}", marks=marks)


LEVELS = (1e-4, 0.01, 0.2, 0.8)


@pytest.mark.parametrize("make", [bondesson, thinning])
def test_weights_that_single_precision_cannot_hold_are_refused(make):
    """P(V > 1e38) = 1e-38 to the power of the concentration."""
    measure = BetaPrimeProcess(1.0, 0.1)
    with pytest.raises(ValueError, match="concentration of at least .* use inverse_levy"):
        make(measure)
    for right in (make(BetaPrimeProcess(1.0, 0.2)), inverse_levy(measure)):
        assert jnp.isfinite(right.sample_v(jax.random.key(0), (10_000,))).all()


def series(make, name):
    return make(jax.tree.map(lambda x: jnp.asarray(x, float), MEASURES[name]))


def by_quadrature(measure, level, power=0):
    """The integral of theta^power nu(d theta) above a level, in log theta or in log odds."""
    to_log = jax.nn.log_sigmoid if measure.bounded else lambda s: s
    first = np.log(level) - (np.log1p(-level) if measure.bounded else 0)
    edges = np.linspace(first, 80.0, 400)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    s = edges[:-1, None] + np.diff(edges)[:, None] * (nodes + 1) / 2
    log_theta = to_log(jnp.asarray(s))
    slope = jax.nn.sigmoid(-s) if measure.bounded else 1.0
    rate = jnp.exp(measure.log_rate(log_theta) + (1 + power) * log_theta) * slope
    return float(jnp.sum(rate * weights * np.diff(edges)[:, None] / 2))


@pytest.mark.parametrize("name", MEASURES)
def test_tails_by_quadrature(name, x64):
    measure = MEASURES[name]
    for level in LEVELS:
        exact = by_quadrature(measure, level)
        assert abs(float(measure.tail(jnp.log(level))) / exact - 1) < 1e-5
    if name != "beta prime 1/2":  # whose weights have no mean
        mean = {"beta prime": 1.4 * 2.5 / 1.5}.get(name, float(measure.mass))
        assert abs(by_quadrature(measure, 1e-9, 1) / mean - 1) < 3e-3


@pytest.mark.parametrize("concentration", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("discount", [0.1, 0.9])
def test_tails_of_stable_beta_processes_in_single_precision(concentration, discount):
    """By parts they were a difference of numbers hundreds of times as large, one of betainc."""
    measure = StableBetaProcess(1.0, concentration, discount)
    log_odds = np.linspace(-60.0, 3.0, 40) - np.log(concentration)
    steps = log_odds[:, None] + np.linspace(0.0, 70.0, 20_001)
    density = -betaln(1 - discount, concentration + discount) - discount * steps
    density = np.exp(density - concentration * np.logaddexp(0, steps))
    exact = np.trapezoid(density, steps, axis=1)
    found = measure.tail(jax.nn.log_sigmoid(jnp.asarray(log_odds, jnp.float32)))
    rare = exact < 1e-6 * exact[0]
    np.testing.assert_allclose(found[~rare], exact[~rare], rtol=1e-4)


def test_tails_of_a_stable_beta_process_whose_weights_are_near_one(x64):
    """Of c + d = .04 a fifth of the tail is of weights within e^-39 of 1."""
    measure = StableBetaProcess(1.0, 0.02, 0.02)
    for theta in (0.1, 0.7):
        density = lambda x: np.exp(float(measure.log_front)) * x**-1.02
        exact = quad(density, theta, 1, weight="alg", wvar=(0, -0.96))[0]
        np.testing.assert_allclose(measure.tail(np.log(theta)), exact, rtol=1e-6)


@pytest.mark.parametrize("discount", [0.05, 0.5])
def test_large_atoms_of_the_rejection_series_in_single_precision(discount):
    """A weight near 1 and its place near 0, of which neither may be a difference of ones."""
    measure = StableBetaProcess(2.0, 1.7, discount)
    larger, _ = envelope(measure)
    log_theta = -np.logspace(-9, -3, 13)
    front = np.exp(float(measure.log_front))
    exact = front / discount * np.expm1(-discount * log_theta)
    place = larger.place(jnp.asarray(log_theta, jnp.float32))
    np.testing.assert_allclose(place, exact, rtol=1e-6)
    back = larger.log_theta(jnp.asarray(exact, jnp.float32))
    np.testing.assert_allclose(back, log_theta, rtol=1e-5)


@pytest.mark.parametrize("make,name", list(rows()))
def test_the_number_and_the_mass_above_a_level(make, name, x64):
    """Integrals of G(dv) dg, v and g on a grid, where tau is above the level."""
    own, measure = series(make, name), MEASURES[name]
    for level in LEVELS:
        number, mass = map(float, integrated(own, is_constant(make, name), level))
        assert abs(number / by_quadrature(measure, level) - 1) < 1e-3
        if name != "beta prime 1/2":
            assert abs(mass / by_quadrature(measure, level, 1) - 1) < 1e-3


EXTREMES = {
    "beta 1/20": BetaProcess(0.8, 0.05),
    "beta 2000": BetaProcess(1.0, 2_000.0),
    "gamma 300": GammaProcess(5.0, 300.0),
    "generalized gamma .95": GeneralizedGammaProcess(1.0, 1.0, 0.95),
    "stable beta .9": StableBetaProcess(1.0, 50.0, 0.9),
    "beta prime 100": BetaPrimeProcess(1.0, 100.0),
}
QUICK = {"beta 3", "gamma 300"}
INVERTED = [
    pytest.param(measure, marks=[] if name in QUICK else pytest.mark.full, id=name)
    for name, measure in {**MEASURES, **EXTREMES}.items()
]


def check_inverse(measure, num=200):
    """N(N^-1(g)) = g, but for weights that a dtype does not hold."""
    own, places = inverse_levy(measure), jnp.geomspace(1e-6, 1e3, num) * measure.mass
    log_theta = log_tau(own, places, places)
    held = (log_theta > -670) & (log_theta < (-1e-280 if measure.bounded else 670))
    assert jnp.mean(held) > 0.8
    np.testing.assert_allclose(measure.tail(log_theta[held]), places[held], rtol=2e-9)


@pytest.mark.parametrize("measure", INVERTED)
def test_the_inverse_of_the_tail(measure, x64):
    measure = jax.tree.map(lambda x: jnp.asarray(x, float), measure)
    check_inverse(measure)
    ends = jnp.array([0.0, 1e-300, 1e-100, 1e-12, 1e-9, 1e9, 1e100, 1e300, jnp.inf])
    log_theta = log_tau(inverse_levy(measure), ends, ends)
    assert jnp.all(jnp.isfinite(log_theta)) and jnp.all(jnp.diff(log_theta)[3:] <= 0)


def test_an_inverse_of_too_few_iterations_is_seen(x64, monkeypatch):
    module = importlib.import_module("sgmc_jax.processes.inverse_levy")
    monkeypatch.setattr(module, "_ITERATIONS", 2)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_inverse(BetaProcess(*jnp.array([1.2, 2.2])), num=199)


def is_constant(make, name):
    """Whether V is 1."""
    return make is inverse_levy or (make is bondesson and name == "beta 1")


@eqx.filter_jit
def log_tau(own, v, g):
    return own.log_tau(v, g)


@eqx.filter_jit
def integrated(own, is_one, level):
    """The number and the mass of weights above a level, from tau and the density of V alone."""
    v, slope, step = grid_of(own, is_one, level)
    share = jnp.exp(own.logpdf_v(v)) * slope * step
    share = jnp.where(jnp.isfinite(share), share, 0)
    first = jnp.zeros(1) if is_rejection(own) else v  # where 0 has an atom wherever any has
    high = jnp.full(first.shape, 60.0)  # log of the largest g with an atom above the level

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        above = own.log_tau(first, jnp.exp(middle)) > jnp.log(level)
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    last = jnp.exp(jax.lax.fori_loop(0, 60, halve, (-high, high))[0])
    place, weights = geometric_panels(last)
    log_theta = own.log_tau(v[:, None] * jnp.ones_like(place), place * jnp.ones((len(v), 1)))
    there = share[:, None] * (log_theta > -jnp.inf) * weights
    return jnp.sum(there), jnp.sum(there * jnp.exp(log_theta))


def geometric_panels(last, num=24, ratio=0.5):
    """Nodes on (0, last) and their weights, finer towards 0."""
    edges = jnp.append(0.0, ratio ** jnp.arange(num - 1, -1, -1.0))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    place = edges[:-1, None] + jnp.diff(edges)[:, None] * (nodes + 1) / 2
    weights = jnp.diff(edges)[:, None] * weights / 2
    return last[:, None] * place.ravel(), last[:, None] * weights.ravel()


def is_rejection(own):
    return type(own).__name__ == "Rejection"


def grid_of(own, is_one=False, level=0.5, half=16_000, step=0.002):
    """v where it has a density, fine at 0 and at 1, the slope of the grid, and its step.

    The level, where atoms appear, is in the middle between two points.
    """
    if is_one:
        return jnp.ones(1), jnp.ones(1), 1.0
    if is_rejection(own):
        u = (np.arange(4000) + 0.5) / 4000
        return u**3, 3 * u**2, 1 / 4000
    s = np.log(level) + step * (np.arange(-half, half) + 0.5)
    if own.measure.bounded:
        s -= np.log1p(-level)
        v = jax.nn.sigmoid(s)
        return v, v * jax.nn.sigmoid(-s), step
    return jnp.exp(s), jnp.exp(s), step


@pytest.mark.parametrize("make,name", list(rows()))
def test_v_has_its_density(make, name, x64):
    own = series(make, name)
    drawn = np.asarray(own.sample_v(jax.random.key(1), (20_000,)))
    assert np.array_equal(drawn[:100], own.sample_v(jax.random.key(1), (100,)))
    if is_constant(make, name):
        assert np.ptp(drawn) == 0 and drawn[0] == 1 and float(own.logpdf_v(jnp.ones(()))) == 0
        return
    v, slope, step = grid_of(own)
    density = np.nan_to_num(np.exp(np.asarray(own.logpdf_v(v))) * slope, posinf=0)
    cdf = np.cumsum(density) * step
    assert abs(cdf[-1] - 1) < 2e-3
    result = stats.kstest(drawn, lambda x: np.interp(x, v, cdf))
    assert result.statistic < 2.7 / np.sqrt(len(drawn)) + 3e-3  # P(sup > 2.7) = 9e-7


@pytest.mark.parametrize("make,name", list(rows({(bondesson, "beta 3")})))
def test_places_given_weights(make, name, x64):
    """(V, g) of a series' atoms, and of the same weights lifted: equal means, tested in pairs."""
    own = series(make, name)
    g_key, v_key, lift_key = jax.random.split(jax.random.key(2), 3)
    shape = (30 if make is inverse_levy else 10_000, 40)
    steps = jax.random.exponential(g_key, shape)
    g, v = jnp.cumsum(steps, axis=1), own.sample_v(v_key, shape)
    log_theta = log_tau(own, v, g)
    there = (log_theta > jnp.log(0.25)).ravel()  # which are all among the forty
    log_theta, g, v = (x.ravel()[there] for x in (log_theta, g, v))
    lifted_v, lifted_g = own.lift(lift_key, log_theta)
    among = jnp.abs(log_tau(own, lifted_v, lifted_g * (1 - 1e-9)) - log_theta)
    assert jnp.max(among) < 1e-5
    for a, b in ((g, lifted_g), (g**2, lifted_g**2), (v, lifted_v), (v * g, lifted_v * lifted_g)):
        difference = np.asarray(a - b)
        error = difference.std() / np.sqrt(len(difference)) + 1e-6
        assert abs(difference.mean()) < 5.5 * error


def test_a_series_of_ones_own(x64):
    """Bondesson's series of the gamma process from three functions is the library's."""
    known = series(bondesson, "gamma")
    own = Representation.from_functions(
        lambda v, g: v * jnp.exp(-g / 1.4), lambda key: known.sample_v(key), lambda v: -0.7 * v
    )
    v, g = jnp.asarray([0.3, 1.0, 4.0]), jnp.asarray([0.1, 2.0, 3.0])
    assert jnp.allclose(own.tau(v, g), known.tau(v, g))
    parts = own.own_tau, own.own_sample_v, own.own_logpdf_v
    told = Representation.from_functions(*parts, lambda num: 1.0 * num)
    assert jnp.allclose(told.of_mass(2.5).tau(v, g), known.tau(v, g / 2.5))
    draws = own.sample_v(jax.random.key(0), (2, 3))
    assert draws.shape == (2, 3) and jnp.unique(draws).size == 6
    assert jnp.array_equal(own.sample_v(jax.random.key(0), (4,)), draws.ravel()[:4])
    with pytest.raises(TypeError, match=r"OwnSeries does not know \(V, g\) given a weight"):
        own.lift(jax.random.key(0), v)


def test_functions_of_ones_own_return_numbers():
    """Of half precision, as V may be, places would add up no further than some hundreds."""
    half = lambda key: jax.random.uniform(key, dtype=jnp.bfloat16)
    own = Representation.from_functions(lambda v, g: v * jnp.exp(-g), half, lambda v: 0.0 * v)
    v, g = own.points(*jax.random.split(jax.random.key(0)), 400)
    assert g.dtype == jnp.float32 and jnp.unique(g).size == 400
    row = Representation.from_functions(lambda v, g: (v * g)[None], half, lambda v: v[None])
    for call in (lambda: row.log_tau(v, g), lambda: row.logpdf_v(v)):
        with pytest.raises(TypeError, match="must return one floating number"):
            call()


@pytest.mark.parametrize(
    "make,measure,error,message",
    [
        (bondesson, BetaProcess(1.0, 0.5), ValueError, "concentration of at least 1, got 0.5: use"),
        (bondesson, StableBetaProcess(1.0), TypeError, "bondesson is known for BetaProcess, Gamma"),
        (bondesson, 2.0, TypeError, "got float"),
        (delayed_bondesson, GammaProcess(1.0), TypeError, "known for BetaProcess, got GammaProc"),
        (rejection, BetaProcess(1.0, 0.9), ValueError, "rejection of a BetaProcess needs"),
        (rejection, StableBetaProcess(1.0, 0.3, 0.4), ValueError, "plus discount of at least 1"),
        (rejection, BetaPrimeProcess(1.0, 0.3), ValueError, "use inverse_levy or thinning"),
        (inverse_levy, None, TypeError, "known for a RateMeasure, got NoneType"),
    ],
)
def test_ranges_of_validity(make, measure, error, message):
    with pytest.raises(error, match=message):
        make(measure)


def test_measures_refuse_what_is_out_of_range():
    for kind in (BetaProcess, GammaProcess, BetaPrimeProcess, GeneralizedGammaProcess):
        with pytest.raises(ValueError, match="mass must be finite and positive, got -1"):
            kind(-1.0)
        with pytest.raises(ValueError, match="concentration must be finite and positive, got 0"):
            kind(1.0, 0.0)
    with pytest.raises(ValueError, match="discount must be below 1, got 1"):
        StableBetaProcess(1.0, 1.0, 1.0)


def test_special_functions_in_float32(x64):
    log_y = np.linspace(-60, 3, 200)
    low = exponential_integral(jnp.asarray(log_y, jnp.float32))
    high = exponential_integral(jnp.asarray(log_y))
    assert np.max(np.abs(low / high - 1)) < 1e-4
    assert np.max(np.abs(high / scipy_exp1(np.exp(log_y)) - 1)) < 1e-6
    for power in (0.05, 1.0, 30.0):
        x = jnp.linspace(-60, 2, 50)
        low, high = (softplus_tail(jnp.asarray(x, t), t(power)) for t in (np.float32, np.float64))
        assert np.max(np.abs(low / high - 1)) < 1e-5


@pytest.mark.parametrize("power", [0.5, 100.0, 300.0])
def test_a_tail_that_falls_fast(power, x64):
    """It was off by a tenth at power 300, where the panels were wider than the fall."""
    x = np.array([-2.0, -1.0, 0.0, 1.0])
    u = 1 / (1 + np.exp(x))
    wanted = u**power / power * hyp2f1(1, power, power + 1, u)
    np.testing.assert_allclose(softplus_tail(x, power), wanted, rtol=1e-8)
    far = np.array([-60.0, -300.0])
    level = -far - digamma(power) - np.euler_gamma
    np.testing.assert_allclose(softplus_tail(far, power), level, rtol=1e-10)


@pytest.mark.full
@pytest.mark.at_length
def test_a_wrong_scale_is_seen(x64, monkeypatch):
    """Planted: weights of Bondesson's series that fall as exp(-g / a), not exp(-g / (a c))."""
    monkeypatch.setattr(
        type(series(bondesson, "beta 3")),
        "log_tau",
        lambda self, v, g: jnp.log(v) - g / self.measure.mass,
    )
    jax.clear_caches()
    try:
        with pytest.raises(AssertionError):
            test_the_number_and_the_mass_above_a_level(bondesson, "beta 3", None)
    finally:
        jax.clear_caches()


@pytest.mark.full
@pytest.mark.at_length
def test_a_lift_that_forgets_v_is_seen(x64, monkeypatch):
    """Planted: every atom at V = 1."""
    monkeypatch.setattr(
        type(series(bondesson, "beta 3")),
        "lift",
        lambda self, key, log_theta: (jnp.ones_like(log_theta), -self.measure.small * log_theta),
    )
    with pytest.raises(AssertionError):
        test_places_given_weights(bondesson, "beta 3", None)


# ------------------------------------------------------------------------- points that have atoms


def atoms_before(made, g, power):
    """The integral of theta^power over the atoms of a thinning representation before g."""
    ratio = lambda log_theta: jnp.exp(made._log_ratio(log_theta))
    s = jnp.linspace(-60.0, 40.0, 20_001)
    log_theta, slope = s, 1.0
    if made.measure.bounded:
        log_theta, slope = jax.nn.log_sigmoid(s), jax.nn.sigmoid(-s)
    rate = jnp.exp(made.measure.log_rate(log_theta) + (1 + power) * log_theta) * slope
    return np.trapezoid(rate * jnp.minimum(1, g / ratio(log_theta)), s)


def check_points(name):
    """The number and the summed weights of atoms are what all points of a unit rate would have."""
    made = series(thinning, name)

    def first(key):
        v, g = made.points(*jax.random.split(key), 64)
        return g, made.log_tau(v, g)

    g, log_theta = jax.jit(jax.vmap(first))(jax.random.split(jax.random.key(3), fewer(40_000)))
    assert jnp.all(jnp.isfinite(g)) and jnp.all(jnp.diff(g) > 0)
    for until in (0.5, 3.0, 20.0, 100.0):
        assert jnp.all(g[:, -1] > until)
        for power in (0,) if "prime" in name else (0, 1):  # of infinite variance there
            sums = jnp.where(g < until, jnp.exp(power * log_theta) * (log_theta > -jnp.inf), 0)
            check_law(sums.sum(1), atoms_before(made, until, power), 0.1)


@pytest.mark.parametrize(
    "name", [x if x == "beta 1/2" else pytest.param(x, marks=pytest.mark.full) for x in MEASURES]
)
def test_points_of_thinning_are_those_with_atoms(name, x64):
    check_points(name)


@pytest.mark.full
@pytest.mark.at_length
def test_points_that_are_all_kept(x64, monkeypatch):
    """Planted: the density of G as it is at 0, so that no point is rejected."""
    honest = BetaLaw.logpdf
    flat = lambda self, v: honest(self, jnp.full_like(jnp.asarray(v, float), 1e-9))
    monkeypatch.setattr(BetaLaw, "logpdf", flat)
    fault_is_seen(check_points, "beta 3")


# --------------------------------------------------------- places and weights, in closed form


@pytest.mark.parametrize("kind", ["beta", "exponential", "beta prime"])
def test_laws_by_inversion(kind, x64):
    """Of V > x: P(V > v) at the V that u makes is u times that at x. Its slope is the density."""
    law, above = {
        "beta": (BetaOneLaw(jnp.asarray(1.7)), lambda v: (1 - v) ** 1.7),
        "exponential": (ExponentialLaw(jnp.asarray(0.7)), lambda v: np.exp(-0.7 * v)),
        "beta prime": (BetaPrimeLaw(jnp.asarray(2.5)), lambda v: (1 + v) ** -2.5),
    }[kind]
    u, x = np.linspace(0.01, 1.0, 12)[:, None], np.array([1e-9, 0.1, 0.5, 0.9])
    v = np.exp(law.log_above(*jnp.broadcast_arrays(u, np.log(x))))
    np.testing.assert_allclose(above(v), u * above(x), rtol=1e-9)
    slope = (above(x[1:] - 1e-6) - above(x[1:] + 1e-6)) / 2e-6
    np.testing.assert_allclose(np.exp(law.logpdf(jnp.asarray(x[1:]))), slope, rtol=1e-7)


@pytest.mark.parametrize("name", SERIES[rejection])
def test_envelopes(name, x64):
    """The place of a weight is where T has it, and mu, the slope of places, times rho is nu."""
    measure = jax.tree.map(lambda x: jnp.asarray(x, float), MEASURES[name])
    larger, log_kept = envelope(measure)
    log_theta = jnp.linspace(-8.0, -0.01 if measure.bounded else 3.0, 30)
    np.testing.assert_allclose(larger.log_theta(larger.place(log_theta)), log_theta, rtol=1e-9)
    slope = jax.vmap(jax.grad(larger.place))(log_theta)  # in log theta
    rate = jnp.log(-slope) - log_theta + log_kept(log_theta)
    np.testing.assert_allclose(rate, measure.log_rate(log_theta), rtol=1e-9, atol=1e-9)
    v, place = rejection(measure).lift(jax.random.key(0), jnp.full(5_000, -0.5))
    share = np.asarray(v) / np.exp(float(log_kept(jnp.asarray(-0.5))))
    assert stats.kstest(share, "uniform").pvalue > 1e-6
    np.testing.assert_allclose(place, larger.place(jnp.asarray(-0.5)))


def test_places_of_a_delayed_series(x64):
    """Of the first kind with probability theta, g uniform; else V from G above theta."""
    own, theta, num = delayed_bondesson(BetaProcess(*jnp.array([1.2, 0.5]))), 0.4, 10_000
    lift = jax.jit(lambda key: own.lift(key, jnp.full(num, np.log(theta))))
    v, g = lift(jax.random.key(0))
    np.testing.assert_allclose(own.log_tau(v, g), np.log(theta), rtol=1e-9)
    first = np.asarray(g < 1.2)
    assert abs(first.mean() - theta) < 5.5 * np.sqrt(theta * (1 - theta) / num)
    assert np.all(np.asarray(v)[first] == theta)
    assert stats.kstest(np.asarray(g)[first] / 1.2, "uniform").pvalue > 4e-7
    share = ((1 - np.asarray(v)[~first]) / (1 - theta)) ** 0.5
    assert stats.kstest(share, "uniform").pvalue > 4e-7


def test_points_of_thinning_are_as_many_as_there_are_atoms(x64):
    """Of a measure with a discount."""
    made = series(thinning, "generalized gamma")

    def atoms(key):
        v, g = made.points(*jax.random.split(key), 64)
        there = made.log_tau(v, g) > -jnp.inf
        return jnp.sum((g < jnp.array([5.0, 50.0])[:, None]) & there, axis=1)

    found = jax.jit(jax.vmap(atoms))(jax.random.split(jax.random.key(4), 2_000))
    check_mean(found, [atoms_before(made, g, 0) for g in (5.0, 50.0)], 0.1)


def test_most_points_of_thinning_have_atoms_where_weights_are_small():
    made = thinning(BetaProcess(1.0, 100.0))
    v, g = made.points(*jax.random.split(jax.random.key(0)), 96)
    assert jnp.sum(made.log_tau(v, g) > -jnp.inf) > 40


@pytest.mark.parametrize("name", ["generalized gamma", "beta prime"])
def test_points_of_thinning_come_in_order(name, x64):
    made = series(thinning, name)
    points = jax.vmap(lambda key: made.points(*jax.random.split(key), 64)[1])
    g = jax.jit(points)(jax.random.split(jax.random.key(1), 200))
    assert jnp.all(jnp.diff(g, axis=1) > 0)
