"""Laws of von Mises-Fisher draws."""

from functools import cache
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import cumulative_simpson, simpson

from sgmc_jax.random import von_mises_fisher
from sgmc_jax.special import bessel_ratio

KEY = jax.random.key(11)
MODULE = import_module("sgmc_jax.random.von_mises_fisher")
FALSE_ALARM = 1e-6  # of each test of a law, all its cases together; the seeds are fixed
CONCENTRATIONS = (0.0, 1e-3, 1.0, 50.0, 1e6)
DRAWS = {2: 50_000, 3: 50_000, 10: 50_000, 10_000: 1_000}


def direction(d):
    """An oblique unit vector whose first coordinate is negative."""
    mean = np.random.default_rng(d).normal(size=d)
    mean[0] = -abs(mean[0])
    return (mean / np.linalg.norm(mean)).astype(np.float32)


@cache
def angle_cdf(d, kappa):
    """P(angle < a) in float64: the density is sin(a)^(d-2) exp(-2 kappa sin(a/2)^2)."""

    def log_density(a):
        with np.errstate(divide="ignore"):
            power = (d - 2) * np.log(np.sin(a)) if d > 2 else 0
        return power - 2 * kappa * np.sin(a / 2) ** 2

    coarse = np.linspace(0, np.pi, 100_001)
    level = log_density(coarse)
    inside = coarse[level > level.max() - 60]
    a = np.linspace(max(inside[0] - 4e-5, 0), min(inside[-1] + 4e-5, np.pi), 40_001)
    c = cumulative_simpson(np.exp(log_density(a) - level.max()), x=a, initial=0)
    return lambda x: np.interp(x, a, c / c[-1])


def angles(draws, mean):
    """Angles to the mean, by the chord: the cosine would keep no digits of small ones."""
    mean = np.asarray(mean, float) / np.linalg.norm(np.asarray(mean, float))
    chord = np.linalg.norm(np.asarray(draws, float) - mean, axis=-1)
    return 2 * np.arcsin(np.minimum(chord / 2, 1))


def deviation(x, cdf, cases):
    """Kolmogorov's distance over the bound of Dvoretzky, Kiefer and Massart: alarm above 1."""
    x = np.sort(np.asarray(x, np.float64))
    rank, c = np.arange(x.size + 1) / x.size, cdf(x)
    distance = max(np.max(c - rank[:-1]), np.max(rank[1:] - c))
    return distance / np.sqrt(np.log(2 * cases / FALSE_ALARM) / (2 * x.size))


def draw(d, kappa, seed, dtype=np.float32):
    key = jax.random.key(seed)
    return von_mises_fisher(key, direction(d).astype(dtype), dtype(kappa), (DRAWS[d],))


def check_angles(d, dtype):
    for seed, kappa in enumerate(CONCENTRATIONS):
        x = draw(d, kappa, seed, dtype)
        assert x.dtype == dtype and x.shape == (DRAWS[d], d)
        np.testing.assert_allclose(jnp.linalg.norm(x, axis=1), 1, rtol=1e-6)
        cdf = angle_cdf(d, kappa)
        assert deviation(angles(x, direction(d)), cdf, 2 * 4 * len(CONCENTRATIONS)) < 1, kappa


@pytest.mark.parametrize("d", [2, 3, 10, pytest.param(10_000, marks=pytest.mark.full)])
def test_angles(d):
    check_angles(d, np.float32)


@pytest.mark.full
@pytest.mark.parametrize("d", [2, 3, 10])
def test_angles_in_float64(d, x64):
    check_angles(d, np.float64)


def angles_alone(kappas, d):
    """Many draws for each of them, without the directions, which take d numbers each."""

    @jax.jit
    def draw(key, kappa):
        return MODULE._by_rejection(MODULE.word_keys(key, 2), jnp.full(50_000, kappa), d)

    for seed, kappa in enumerate(kappas):
        less, more = np.asarray(draw(jax.random.key(seed), jnp.float32(kappa)), float)
        yield kappa, 2 * np.arctan2(np.sqrt(less), np.sqrt(more))


def test_many_angles_in_many_dimensions():
    cases = (*CONCENTRATIONS, 1e4)
    for kappa, a in angles_alone(cases, 10_000):
        assert deviation(a, angle_cdf(10_000, kappa), len(cases)) < 1, kappa


@pytest.mark.parametrize("d, kappa", [(2, 50.0), (3, 1e6), (10, 50.0)])
def test_the_angles_see_a_concentration_wrong_by_five_per_cent(d, kappa):
    a = angles(draw(d, kappa, 100), direction(d))
    assert deviation(a, angle_cdf(d, kappa), 3) < 1 < deviation(a, angle_cdf(d, 1.05 * kappa), 1)


@pytest.mark.parametrize("fault", ["envelope", "shape"])
def test_the_angles_see_a_fault_of_the_algorithm(monkeypatch, fault):
    """Wood's b five per cent too large; the beta variate of one dimension less."""
    envelope, attempt = MODULE._envelope, MODULE._attempt
    if fault == "envelope":
        monkeypatch.setattr(MODULE, "_envelope", lambda kappa, d: 1.05 * envelope(kappa, d))
    else:
        monkeypatch.setattr(MODULE, "_attempt", lambda keys, d, *rest: attempt(keys, d - 1, *rest))
    ((kappa, a),) = angles_alone([50.0], 10)
    assert deviation(a, angle_cdf(10, kappa), 1) > 1


@pytest.mark.parametrize("d", [2, 3, 10])
def test_directions_around_the_mean_are_uniform(d):
    """First, second and mixed moments within 6 standard errors; with the angle too."""
    x, mean = np.asarray(draw(d, 5.0, 7), float), direction(d).astype(float)
    basis = np.linalg.svd(mean[None])[2][1:]
    tangent = x @ basis.T
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    square = tangent[:, :, None] * tangent[:, None, :] - np.eye(d - 1) / (d - 1)
    with_angle = tangent * (angles(x, mean) - angles(x, mean).mean())[:, None]
    for moment in (tangent, square.reshape(len(x), -1), with_angle):
        error = np.std(moment, axis=0) / np.sqrt(len(x))
        assert np.all(np.abs(moment.mean(axis=0)) <= 6 * error + 1e-9)


@pytest.mark.parametrize("d", [2, 3])
def test_at_the_poles(d):
    for sign in (1.0, -1.0):
        mean = sign * np.eye(d, dtype=np.float32)[0]
        x = von_mises_fisher(jax.random.key(2), mean, 1e6, (100,))
        assert np.all(angles(x, mean) < 6e-3 * np.sqrt(d))


@pytest.mark.parametrize("d", [7, pytest.param(3, marks=pytest.mark.full)])
def test_vmap_is_a_loop_and_few_are_the_first_of_many(d):
    keys = jax.random.split(jax.random.key(8), 3)
    kappa = jnp.geomspace(1e-2, 1e4, 3 * 400).reshape(400, 3).T
    mean = jnp.asarray(direction(d))
    batched = jax.jit(jax.vmap(von_mises_fisher, (0, None, 0)))(keys, mean, kappa)
    loop = [von_mises_fisher(key, mean, row) for key, row in zip(keys, kappa)]
    np.testing.assert_allclose(batched, np.stack(loop), rtol=1e-5, atol=1e-5)
    few = von_mises_fisher(keys[0], mean, kappa[0, :50])
    np.testing.assert_allclose(few, loop[0][:50], rtol=1e-5, atol=1e-5)


def test_shapes_types_and_bad_values():
    key, mean = jax.random.key(10), jnp.eye(3)[:2]
    assert von_mises_fisher(key, mean, 1.0).shape == (2, 3)
    assert von_mises_fisher(key, mean, jnp.ones((4, 1)), (5, 6)).shape == (5, 6, 4, 2, 3)
    assert von_mises_fisher(key, jnp.eye(4)[0], jnp.ones((2, 0))).shape == (2, 0, 4)
    assert von_mises_fisher(jax.random.PRNGKey(10), np.eye(2)[0], 1).dtype == jnp.float32
    traced = jax.jit(von_mises_fisher)(key, mean[0], jnp.array([-1.0, jnp.nan, jnp.inf, 1.0]))
    np.testing.assert_array_equal(jnp.isnan(traced).all(axis=1), [1, 1, 1, 0])
    with pytest.raises(ValueError, match="concentration must be finite and not negative"):
        von_mises_fisher(key, mean, -1.0)
    with pytest.raises(ValueError, match="mean_direction must have unit length"):
        von_mises_fisher(key, 1.01 * mean, 1.0)
    with pytest.raises(ValueError, match="mean_direction must have unit length"):
        von_mises_fisher(key, jnp.nan * mean, 1.0)
    for short in (1.0, jnp.ones(1)):
        with pytest.raises(ValueError, match="last axis of at least 2"):
            von_mises_fisher(key, short, 1.0)
    with pytest.raises(TypeError, match="concentration must be real"):
        von_mises_fisher(key, mean, 1j)
    with pytest.raises(TypeError, match="shape must be a tuple, got 5"):
        von_mises_fisher(key, mean, 1.0, 5)


def quantile_slope(d, kappa, less):
    """dl / d kappa at 1 - cos = l, of the same quantile, by Simpson's rule in the angle."""
    a = np.linspace(0, 2 * np.arcsin(np.sqrt(less / 2)), 40_001)
    every = np.linspace(1e-9, np.pi, 400_001)

    def density(a):
        with np.errstate(divide="ignore"):
            power = (d - 2) * np.log(np.sin(a)) if d > 2 else 0
        return power - 2 * kappa * np.sin(a / 2) ** 2

    most = density(every).max()
    weight = np.exp(density(every) - most)
    mean = simpson(weight * 2 * np.sin(every / 2) ** 2, x=every) / simpson(weight, x=every)
    part = simpson((mean - 2 * np.sin(a / 2) ** 2) * np.exp(density(a) - most), x=a)
    return -np.sin(a[-1]) * part / np.exp(density(a[-1]) - most)


@pytest.mark.parametrize(
    "d", [2, 3, *(pytest.param(d, marks=pytest.mark.full) for d in (10, 1_000))]
)
def test_the_derivative_in_the_concentration(d, x64):
    mean, kappas = direction(d).astype(float), jnp.array([1e-3, 1.0, 50.0, 1e4])
    draws = lambda kappas: von_mises_fisher(KEY, mean, kappas, (8,)) @ mean
    cosines, slopes = jax.jvp(draws, (kappas,), (jnp.ones(4),))
    sums = jax.grad(lambda kappas: jnp.sum(draws(kappas)))(kappas)
    np.testing.assert_allclose(sums, slopes.sum(0), rtol=1e-9)
    for kappa, own, found in zip(kappas, np.asarray(cosines).T, slopes.T, strict=True):
        # where next to nothing is beyond a draw its cosine has lost its digits
        wanted = [-quantile_slope(d, float(kappa), 1 - w) for w in own]
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-9)


@pytest.mark.parametrize("kappa", [0.0, 1e-6, 3.0])
@pytest.mark.parametrize("d", [2, 3, 10])
def test_the_derivative_of_the_mean(d, kappa):
    """In single precision: E dw / d kappa = A' = 1 - A^2 - (d - 1) A / kappa; 5.5 errors."""
    mean, kappa = direction(d), np.float32(kappa)
    cosine = lambda kappa: mean @ von_mises_fisher(KEY, mean, kappa, (20_000,)).T
    slopes = np.asarray(jax.jvp(cosine, (kappa,), (np.float32(1),))[1], float)
    ratio = float(bessel_ratio(d / 2 - 1, kappa))
    wanted = 1 - ratio**2 - (d - 1) * ratio / kappa if kappa > 1 else 1 / d
    assert abs(slopes.mean() - wanted) < 5.5 * slopes.std() / np.sqrt(slopes.size)
    assert slopes.std() / np.sqrt(slopes.size) < 0.02 * wanted


def test_the_derivative_in_the_mean_direction(x64):
    """Along the sphere; a draw turns with it."""
    mean = direction(4).astype(float)
    turn = jax.jacfwd(lambda mean: von_mises_fisher(KEY, mean, 5.0))(mean)
    along = np.random.default_rng(0).normal(size=4)
    along -= mean * (mean @ along)
    one, other = (von_mises_fisher(KEY, mean + h * along, 5.0) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(turn @ along, (one - other) / 2e-6, rtol=1e-6, atol=1e-7)
