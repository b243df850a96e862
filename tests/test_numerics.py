"""Formulas in single precision, at the ends of their ranges, and under derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from scipy import stats as st

from sgmc_jax import (
    SPD,
    Box,
    Euclidean,
    Full,
    FunctionModel,
    Hyperboloid,
    Minibatch,
    Positive,
    Simplex,
    Sphere,
    Stiefel,
    Transformed,
    cycle,
    gsgnht,
    mirrored_sgld,
    projected_sgld,
    reflected_sgld,
    repeat,
    sample,
    sggmc,
    sgld,
    sgrld_simplex,
    thin,
)
from sgmc_jax.bnp import GammaPoisson, PoissonGamma, cluster_table
from sgmc_jax.count_densities import log_negative_binomial, log_poisson
from sgmc_jax.diagnostics import ksd
from sgmc_jax.evaluation import NewItems, perplexity
from sgmc_jax.mirrors import PositiveMirror
from sgmc_jax.models import (
    LDA,
    BayesianNetwork,
    HiddenMarkov,
    LinearGaussianStateSpace,
    LogisticRegression,
    NormalEmission,
    PoissonEmission,
)
from sgmc_jax.models.series.forward_backward import forward, most_likely
from sgmc_jax.processes import (
    Bernoulli,
    BetaPrimeProcess,
    BetaProcess,
    GeneralizedGammaProcess,
    NegativeBinomial,
    OddsBernoulli,
    StableBetaProcess,
    rejection,
)
from sgmc_jax.random import accept, von_mises_fisher
from sgmc_jax.special import (
    exponential_integral,
    incomplete_gamma_tail,
    log_rising_factorial,
    softplus_tail,
)
from sgmc_jax.tune import grid_search, successive_halving

KEY = jax.random.key(0)


# ------------------------------------------------------------------ special functions


@pytest.mark.parametrize("x, n", [(3e6, 1.0), (2.0, 1e8), (0.5, 3.0), (20.0, 1e7), (1e-3, 2.0)])
def test_derivatives_of_rising_factorials(x, n):
    found = jax.grad(log_rising_factorial, (0, 1))(x, n)
    exact = special.digamma(x + n) - special.digamma(x), special.digamma(x + n)
    np.testing.assert_allclose(found, exact, rtol=2e-3)


@pytest.mark.parametrize("y", [1e-30, 1e-3, 1.0, 80.0, 140.0, 147.0, 200.0, 600.0])
def test_exponential_integrals_far_out(y, x64):
    np.testing.assert_allclose(exponential_integral(jnp.log(y)), special.exp1(y), rtol=1e-6)


@pytest.mark.parametrize("d", [1e-7, 1e-5, 1e-3, 0.1, 0.5, 0.95])
def test_tails_of_generalized_gamma_processes(d):
    """Gamma(-d, y) d = y^-d e^-y - Gamma(1 - d, y), in double precision, where that has digits."""
    log_y = np.array([-60.0, -20.0, -3.0, 0.0, 1.0, np.log(30.0)])
    y = np.exp(log_y)
    by_parts = (y**-d * np.exp(-y) - special.gammaincc(1 - d, y) * special.gamma(1 - d)) / d
    exact = special.exp1(y) if d < 1e-6 else by_parts
    rtol = 3e-4 if d < 1e-6 or d == 1e-5 else 2e-5
    found = incomplete_gamma_tail(jnp.asarray(log_y, jnp.float32), d)
    np.testing.assert_allclose(found, exact, rtol=rtol)
    tail = GeneralizedGammaProcess(1.0, 1.0, d).tail(jnp.asarray(log_y, jnp.float32))
    np.testing.assert_allclose(tail, exact / special.gamma(1 - d), rtol=rtol)


@pytest.mark.parametrize("rate", [0.3, 20.0, 1e4, 1e5, 1e6])
def test_poisson_densities_in_single_precision(rate):
    """And the odds of two rates, which are what a sampler of states or clusters sees."""
    sd = np.sqrt(rate)
    k = np.unique(np.maximum(np.round(rate + sd * np.linspace(-5, 5, 21)), 0))
    rates = np.array([rate, rate + 2 * sd], np.float32)
    log_rate = np.log(rates)
    exact = st.poisson.logpmf(k, np.exp(log_rate.astype(float))[:, None])
    found = log_poisson(k.astype(np.float32), log_rate[:, None])
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=5e-3)
    slope = jax.vmap(jax.grad(log_poisson, 1))(
        jnp.asarray(k, jnp.float32), jnp.full(k.shape, log_rate[0])
    )
    np.testing.assert_allclose(slope, k - rates[0], atol=1e-5 * rate, rtol=1e-5)
    emission = PoissonEmission().loglik({"log_rate": log_rate[:1]}, k[:1])
    np.testing.assert_allclose(emission, found[0, 0], rtol=1e-6)


def test_poisson_densities_at_the_ends():
    np.testing.assert_allclose(log_poisson(0, -jnp.inf), 0)
    assert log_poisson(3, 200.0) == -jnp.inf and log_poisson(3, -300.0) < -800
    assert jnp.isfinite(jax.grad(log_poisson, 1)(0, -20.0))
    assert jax.grad(log_poisson, 1)(3, 100.0) < -1e30 and jax.grad(exponential_integral)(95.0) == 0


@pytest.mark.parametrize(
    "size, rate", [(0.5, 2.0), (40.0, 3.0), (5e5, 50.0), (5e6, 50.0), (5e7, 50.0)]
)
def test_negative_binomials_in_single_precision(size, rate):
    mean = size / rate
    sd = np.sqrt(mean * (1 + 1 / rate))
    k = np.unique(np.maximum(np.round(mean + sd * np.linspace(-4, 4, 17)), 0))
    exact = st.nbinom.logpmf(k, size, rate / (1 + rate))
    found = log_negative_binomial(jnp.asarray(k, jnp.float32), size, rate)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=5e-3)
    family = PoissonGamma(jnp.array([size]), jnp.array([rate]))
    told = family.log_predictive(
        family.zero_statistics(1, jnp.zeros(1, jnp.int32)), jnp.array([int(k[3])])
    )
    np.testing.assert_allclose(told, exact[3:4], rtol=1e-4, atol=5e-3)


@pytest.mark.parametrize("k, size", [(3, 40.0), (50, 2.0), (50, 40.0), (4_000, 1_000.0)])
def test_negative_binomials_in_double_precision(k, size, x64):
    """Of few counts, of small sizes, and by saddle points."""
    exact = st.nbinom.logpmf(k, size, 0.3 / 1.3)
    np.testing.assert_allclose(log_negative_binomial(k, size, 0.3), exact, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-8, 1e-6, 0.3, 1.0, 40.0])
def test_steps_of_negative_binomials_of_any_size(size):
    counts, log_theta = NegativeBinomial(size), jnp.log(0.5)
    for x in (0, 1, 7):
        exact, found = np.log((x + size) / (x + 1) / 2), counts.log_step(log_theta, jnp.array(x))
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


def test_whole_numbers_are_of_the_precision_that_is_set(x64):
    n = jnp.array([1_000])
    found = log_rising_factorial(jnp.array(10**6), n)
    np.testing.assert_allclose(found, special.gammaln(1e6 + 1e3) - special.gammaln(1e6), rtol=1e-12)
    np.testing.assert_allclose(softplus_tail(0, 1), np.log(2), rtol=1e-12)
    assert NegativeBinomial(jnp.float16(2.0)).size.dtype == jnp.float32


# ------------------------------------------------------------------ measures and counts


@pytest.mark.parametrize(
    "measure",
    [BetaProcess(2.0), StableBetaProcess(1.0, 0.6, 0.4), BetaPrimeProcess(2.0, 1.0)],
    ids=str,
)
def test_concentrations_of_one_at_the_largest_weights(measure):
    series = rejection(measure)
    assert jnp.all(jnp.isfinite(jnp.stack(series.lift(KEY, jnp.zeros(3)))))
    if measure.bounded:
        np.testing.assert_allclose(series.tau(0.5, 0.0), 1.0)
        assert jnp.isfinite(measure.log_rate(jnp.zeros(())))


@pytest.mark.parametrize("counts", [Bernoulli(), OddsBernoulli()])
def test_what_is_no_truth_has_no_probability(counts):
    found = counts.log_prob(jnp.array([-1, 0, 1, 2]), jnp.log(0.25))
    assert np.isfinite(found).tolist() == [False, True, True, False]


# ------------------------------------------------------------------ spaces


@pytest.mark.parametrize("space, x", [
    (Sphere(), jnp.array([1.0, 0.0, 0.0])),
    (Simplex(), jnp.array([0.2, 0.3, 0.5])),
    (Hyperboloid(), jnp.array([1.0, 0.0, 0.0])),
    (Stiefel(), jnp.eye(3)[:, :2]),
    (Positive(), jnp.array([1.0, 2.0])),
    (SPD(), jnp.eye(2)),
], ids=lambda x: type(x).__name__)  # fmt: skip
def test_the_differential_of_a_flow_at_rest_is_the_identity(space, x):
    """On tangent vectors, which the projection makes of any."""
    still = jnp.zeros_like(x)
    slope = jax.jacfwd(lambda v: space.flow(x, space.project(x, v), 1.0)[0])(still)
    expected = jax.jacfwd(lambda v: space.project(x, v))(still)
    np.testing.assert_allclose(slope, expected, atol=1e-5)


@pytest.mark.parametrize("space", [Sphere(), Euclidean(), Positive()], ids=str)
def test_many_times_are_refused(space):
    x, v, times = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), jnp.array([0.0, 0.5])
    x = x + (1.0 if isinstance(space, Positive) else 0.0)
    with pytest.raises(ValueError, match="t must be one number"):
        space.flow(x, v, times)
    assert jax.vmap(lambda t: space.flow(x, v, t)[0])(times).shape == (2, 2)


def test_points_of_spheres_of_any_length():
    for x in ([3e30, 4e30], [3e-30, 4e-30], [3.0, 4.0]):
        np.testing.assert_allclose(Sphere().nearest(jnp.array(x)), [0.6, 0.8], rtol=1e-6)


def test_the_volume_of_a_simplex():
    """Of sqrt(theta), an orthant of the sphere: a quarter of a circle, an eighth of a sphere."""
    for size, area in ((2, np.pi / 2), (3, np.pi / 2)):
        np.testing.assert_allclose(
            Simplex().log_volume(jnp.ones((4, size))), 4 * np.log(area), rtol=1e-6
        )


def test_wide_matrices_are_on_no_stiefel_manifold():
    for call in (Stiefel().nearest, Stiefel().dim, lambda x: Stiefel().random_point(KEY, x)):
        with pytest.raises(ValueError, match="p <= n"):
            call(jnp.zeros((2, 3)))


def test_a_position_does_not_fall_onto_zero():
    x, _ = Positive().flow(jnp.array([1.0]), jnp.array([-200.0]), 1.0)
    assert x > 0


@pytest.mark.parametrize("make", [sggmc, gsgnht])
def test_a_space_without_a_dimension(make):
    """Two points, at one of which a chain stays, and tells no temperature."""
    grad = Minibatch(FunctionModel(lambda x: jnp.sum(x)), Full())
    run = sample(KEY, make(grad, Stiefel(), 0.1), jnp.ones((1, 1)), None, num_steps=5)
    assert np.all(run.trace == 1) and run.info.finite.all()
    assert run.info.excess_temperature is None


@pytest.mark.parametrize("bring", [Box(0.0), lambda x: jnp.clip(x, 0.0, jnp.inf)])
@pytest.mark.parametrize("make", [projected_sgld, reflected_sgld])
def test_an_infinite_gradient_is_not_brought_back(make, bring):
    """A point at the wall of Gamma(1/2, 1) stayed there for ever, and none was told."""
    grad = Minibatch(FunctionModel(lambda x: -0.5 * jnp.log(x) - x), Full())
    with pytest.warns(UserWarning, match="finite"):
        run = sample(KEY, make(grad, 0.1, bring), jnp.zeros(()), None, num_steps=5)
    assert run.stopped == 0


# ------------------------------------------------------------------ tuning


NORMAL = Minibatch(FunctionModel(lambda x: -0.5 * jnp.sum(x**2)), Full())
BOUND = {
    "sphere": (lambda h: sggmc(NORMAL, Sphere(), h), jnp.array([1.0, 0.0])),
    "positive": (lambda h: sggmc(NORMAL, Positive(), h), jnp.ones(2)),
    "projected": (lambda h: projected_sgld(NORMAL, h, Box(0.0)), jnp.ones(2)),
    "mirrored": (lambda h: mirrored_sgld(NORMAL, h, PositiveMirror()), jnp.ones(2)),
    "inside": (
        lambda h: thin(cycle(sgld(NORMAL, h), repeat(sggmc(NORMAL, Sphere(), h), 2)), 2),
        jnp.array([1.0, 0.0]),
    ),
}


@pytest.mark.parametrize("name", BOUND)
@pytest.mark.parametrize("search", [grid_search, successive_halving])
def test_bounded_positions_are_not_judged_by_a_discrepancy_that_is_wrong_there(name, search):
    make, start = BOUND[name]
    with pytest.raises(ValueError, match="must make kernels on all of R"):
        search(
            KEY,
            NORMAL.model,
            lambda step_size: make(step_size),
            {"step_size": [0.1, 0.2]},
            start,
            None,
            budget=100,
        )


def test_the_discrepancy_on_a_sphere_prefers_what_is_spread():
    """Why: the scores of exact draws there do not make it vanish."""
    exact = von_mises_fisher(KEY, jnp.array([1.0, 0.0, 0.0]), 5.0, (1_000,))
    spread = von_mises_fisher(KEY, jnp.array([1.0, 0.0, 0.0]), 0.0, (1_000,))
    scores = jnp.broadcast_to(jnp.array([5.0, 0.0, 0.0]), exact.shape)
    assert ksd(exact, scores) > ksd(spread, scores)


# ------------------------------------------------------------------ models and evaluation


@pytest.mark.parametrize("support", ["positive", "simplex"])
def test_densities_are_finite_where_positions_underflow(support):
    density = lambda x: jnp.sum(-0.99 * jnp.log(x) - x)
    model = Transformed(FunctionModel(density), support)
    z = jnp.array([-110.0, 0.0])
    assert jnp.isfinite(model.logprior(z)) and jnp.isfinite(jax.grad(model.logprior)(z)).all()


def test_paths_of_long_series(x64):
    """The most probable path by scores in single precision is that in double."""
    rng = np.random.default_rng(0)
    logliks = -0.5 * (rng.normal(size=(30_000, 1)) - np.array([0.0, 0.02])) ** 2 - 8.0
    transition, first = np.log([[0.6, 0.4], [0.4, 0.6]]), np.log([0.5, 0.5])
    wide = most_likely(jnp.asarray(first), jnp.asarray(transition), jnp.asarray(logliks))
    narrow = (jnp.asarray(x, jnp.float32) for x in (first, transition, logliks))
    np.testing.assert_array_equal(most_likely(*narrow), wide)


def test_rows_that_cannot_be():
    nothing = jnp.array([[-1.0, -1.0], [-jnp.inf, -jnp.inf], [-1.0, -1.0]])
    evidence, _ = forward(jnp.log(jnp.full(2, 0.5)), jnp.log(jnp.full((2, 2), 0.5)), nothing)
    assert evidence.tolist()[1:] == [-jnp.inf, -jnp.inf] and jnp.sum(evidence) == -jnp.inf


def test_missing_rows_are_told():
    model = HiddenMarkov(2, NormalEmission())
    emission = {"mean": jnp.array([0.0, 5.0]), "log_precision": jnp.zeros(2)}
    position = model.position(jnp.full((2, 2), 0.5), emission)
    for call in (model.log_likelihood, model.most_likely):
        with pytest.raises(ValueError, match="series must be finite"):
            call(position, np.array([0.0, np.nan, 1.0]))


def test_a_first_state_as_wide_as_single_precision_cannot_filter():
    known = {"transition": [[1.0, 1.0], [0.0, 1.0]], "observation": [[1.0, 0.0]]}
    wide = LinearGaussianStateSpace(2, 1, known=known, initial=(np.zeros(2), 1e6 * np.eye(2)))
    position = wide.position(state_noise=np.diag([0.1, 0.001]), observation_noise=[[0.04]])
    with pytest.warns(UserWarning, match="keeps few digits in float32"):
        wide.check(position, np.zeros(5, np.float32))
    fits = LinearGaussianStateSpace(2, 1, known=known, initial=(np.zeros(2), 1e2 * np.eye(2)))
    fits.check(position, np.zeros(5, np.float32))


def test_averages_of_networks_of_half_precision():
    network = eqx.nn.Linear(2, 2, dtype=jnp.bfloat16, key=KEY)
    model = BayesianNetwork(network)
    one = jax.tree.map(lambda x: x[None], model.start(network))
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (2_000, *x.shape[1:])), one)
    data = jnp.ones((3, 2), jnp.bfloat16), jnp.array([0, 1, 1])
    np.testing.assert_allclose(model.predict(many, data[0]), model.predict(one, data[0]), rtol=1e-2)
    np.testing.assert_allclose(model.log_loss(many, data), model.log_loss(one, data), rtol=1e-2)


def test_no_draws_at_all():
    documents = np.array([[0, 1, -1], [2, 2, 1]])
    lda = LDA(2, 5, 0.1, 0.1)
    for call in (
        lambda: perplexity(jnp.zeros((0, 2, 5)), jnp.zeros((0, 2, 2)), documents),
        lambda: lda.perplexity(KEY, jnp.zeros((0, 2, 5)), documents),
        lambda: LogisticRegression().predict(jnp.zeros((0, 3)), jnp.ones((4, 3))),
    ):
        with pytest.raises(ValueError, match="one draw at least|one at least"):
            call()


def test_names_of_columns_as_pandas_has_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 0.0, 1.0]})
    table = cluster_table([0, 0, 1], frame.to_numpy(), columns=frame.columns)
    assert {"a mean", "b mean"} <= set(table.columns)
    for wrong in ("ab", {"a": 1, "b": 2}, 3):
        with pytest.raises(TypeError, match="columns must be a list of names"):
            cluster_table([0, 0, 1], frame.to_numpy(), columns=wrong)


def test_entries_that_are_cut_off_are_told():
    shared = {"parameters": jnp.ones((1, 2)), "concentration": 1.0, "mass": 1.0}
    shared |= {"noise_scale": 0.1, "feature_scale": 1.0}
    with pytest.warns(UserWarning, match="give a larger most"):
        NewItems.of(GammaPoisson(1.0), shared, np.array([200]), 10)
    law = NewItems.of(GammaPoisson(1.0), shared, np.array([200]), 10, most=60)
    assert abs(law.draw(KEY, 4_000)[1].mean() - 200 / 11) < 0.5


def test_numbers_of_a_metropolis_test():
    assert bool(accept(KEY, 5)) and not bool(accept(KEY, -1e30))
    with pytest.raises(TypeError, match="log_ratio must be"):
        accept(KEY, "a")


def test_a_scalar_is_no_simplex():
    kernel = sgrld_simplex(NORMAL, 0.1)
    with pytest.raises(ValueError, match="must have a last axis, the simplex"):
        kernel.check(jnp.zeros(()), None)
