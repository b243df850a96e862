"""Mirrored Langevin dynamics: what is exact for every step size, and what is of order h."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from sgmc_jax import (
    EmpiricalFisher,
    Estimate,
    Estimator,
    Full,
    FunctionModel,
    Minibatch,
    PositiveMirror,
    SimplexMirror,
    Splitting,
    Uniform,
    mirrored_sgld,
    recipe,
    sample,
    sgld,
)
from sgmc_jax.transitions import EulerLangevin, MirroredLangevin
from tests.laws.moments import check_law, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(25)
ALPHA, COUNTS = np.array([0.5, 1.0, 2.0]), np.array([1, 3, 8])
ITEMS = np.repeat(np.eye(3, dtype=np.float32), COUNTS, axis=0)
POSTERIOR = ALPHA + COUNTS
SHAPE, RATE = 3.0, 2.0


def dirichlet(alpha, batcher):
    prior = lambda x: jnp.sum((alpha - 1) * jnp.log(x))
    return Minibatch(FunctionModel(prior, lambda x, z: z @ jnp.log(x)), batcher)


def moments(kernel, position, data=None, statistic=lambda x: jnp.concatenate([x, x * x])):
    args = {"num_chains": 1024, "num_steps": 4_300, "burn_in": 300}
    reduce = lambda state, info: statistic(state.position)
    return run_law(KEY, kernel, position, data, reduce=reduce, **args).trace.mean


def quadrature(drift, h, moment, low, high, noise=((1.0, 0.0),), v=0.0, num=800):
    """A stationary moment of y <- y + h (drift(y) + noise) + N(0, 2 h - h^2 v), by its integral
    equation; the noise is given by probabilities and values."""
    nodes, weights = np.polynomial.legendre.leggauss(num)
    nodes, weights = low + (high - low) * (nodes + 1) / 2, weights * (high - low) / 2
    deviation = np.sqrt(2 * h - h**2 * v)
    moves = np.zeros((num, num))
    for probability, value in noise:
        gap = nodes[:, None] - nodes - h * (drift(nodes) + value)
        moves += probability * norm.pdf(gap / deviation) / deviation * weights
    law = np.linalg.solve(np.eye(num) - moves + weights, np.ones(num))
    return np.sum(weights * law * moment(nodes)) / np.sum(weights * law)


def refused():
    return pytest.raises(AssertionError, match="standard errors")


# ------------------------------------------------------------------------------- the simplex


def posterior_means(step_size=0.1, batcher=None):
    """Those of a Dirichlet posterior, from batches."""
    kernel = mirrored_sgld(dirichlet(ALPHA, batcher or Uniform(4)), step_size, SimplexMirror())
    return moments(kernel, np.full(3, 1 / 3, np.float32), ITEMS, lambda x: x)


def test_means_of_a_dirichlet_posterior_are_exact_from_batches():
    check_law(posterior_means(), POSTERIOR / POSTERIOR.sum(), 0.01)


@pytest.mark.full
@pytest.mark.at_length
def test_a_missing_volume_is_seen(monkeypatch):
    """Without it the law is that of Dirichlet(alpha - 1)."""
    monkeypatch.setattr(SimplexMirror, "log_element", lambda self, y: 0.0 * jnp.sum(y))
    with refused():
        test_means_of_a_dirichlet_posterior_are_exact_from_batches()


@pytest.mark.full
def test_second_moments_of_a_dirichlet_posterior_as_the_step_size_vanishes():
    total = POSTERIOR.sum()
    second = POSTERIOR * (POSTERIOR + 1) / (total * (total + 1))
    kernel = mirrored_sgld(dirichlet(ALPHA, Full()), 0.004, SimplexMirror())
    values = moments(kernel, np.full(3, 1 / 3, np.float32), ITEMS, lambda x: x * x)
    check_law(values, second, 0.02)


def beta_second_moment(h, a=2.0, b=3.0, **noise):
    """E x^2 of the first of two: y <- y + h (a - (a + b) x) + N(0, 2 h), x = expit(y)."""
    drift, square = lambda y: a - (a + b) * expit(y), lambda y: expit(y) ** 2
    return quadrature(drift, h, square, -30.0, 20.0, **noise)


def beta():
    kernel = mirrored_sgld(dirichlet(np.array([2.0, 3.0]), Full()), 0.3, SimplexMirror())
    data = np.zeros((1, 2), np.float32)
    return moments(kernel, np.full(2, 0.5, np.float32), data, lambda x: x[0] ** 2)


@pytest.mark.full
def test_the_second_moment_of_a_beta_law_at_a_large_step_size():
    check_law(beta(), beta_second_moment(0.3), 0.01)


@pytest.mark.full
@pytest.mark.at_length
def test_noise_too_large_by_a_tenth_is_seen(monkeypatch):
    honest = MirroredLangevin.variance
    monkeypatch.setattr(MirroredLangevin, "variance", lambda *args: 1.21 * honest(*args))
    with refused():
        test_the_second_moment_of_a_beta_law_at_a_large_step_size()


def test_the_bias_is_of_order_one():
    exact = 2 * 3 / (5 * 6)
    first, second = (beta_second_moment(h) - exact for h in (0.04, 0.02))
    assert 1.8 < first / second < 2.2


# ------------------------------------------------------------------------- positive numbers


@pytest.mark.full
def test_a_gamma_law():
    """E x is exact, and E x^2 is that of the integral equation."""
    model = FunctionModel(lambda x: jnp.sum((SHAPE - 1) * jnp.log(x) - RATE * x))
    kernel = mirrored_sgld(Minibatch(model, Full()), 0.1, PositiveMirror())
    values = moments(kernel, np.ones(1, np.float32))
    drift = lambda y: SHAPE - RATE * np.exp(y)
    second = quadrature(drift, 0.1, lambda y: np.exp(2 * y), -12.0, 5.0)
    check_law(values, np.array([SHAPE / RATE, second]), 0.02)


@pytest.mark.full
def test_a_gamma_law_at_another_temperature():
    """p(x)^(1/T) is Gamma((a - 1) / T + 1, b / T), whose mean is exact too."""
    model = FunctionModel(lambda x: jnp.sum((SHAPE - 1) * jnp.log(x) - RATE * x))
    kernel = mirrored_sgld(Minibatch(model, Full()), 0.1, PositiveMirror(), temperature=0.5)
    values = moments(kernel, np.ones(1, np.float32), statistic=lambda x: x[0])
    check_law(values, (SHAPE - 1 + 0.5) / RATE, 0.01)


def test_a_coordinate_that_rounds_to_zero_goes_on():
    """Of Gamma(.05) .8 % of the law is below 1e-41, of Dirichlet(.05, 1) as much."""
    gammas = Minibatch(FunctionModel(lambda x: jnp.sum(-0.95 * jnp.log(x) - x)), Full())
    shares = Minibatch(FunctionModel(lambda x: -0.95 * jnp.log(x[0])), Full())
    for grad, mirror, start in (
        (gammas, PositiveMirror(), jnp.ones(1)),
        (shares, SimplexMirror(), jnp.full(2, 0.5)),
    ):
        kernel = mirrored_sgld(grad, 0.5, mirror)
        run = sample(KEY, kernel, start, None, num_steps=4_000, num_chains=64)
        assert np.all(run.stopped < 0) and run.trace.min() == np.finfo(np.float32).tiny


# ------------------------------------------------------------------- noise that is subtracted

PAIRS = np.repeat(np.eye(2, dtype=np.float32), 2, axis=0)  # two of each category
COUNT_NOISE = ((1 / 6, -2.0), (2 / 3, 0.0), (1 / 6, 2.0))  # N n_1 / n - 2 of two of the four
COUNT_VARIANCE = 4 / 3


def pairs(step_size, known=None):
    """E x^2 of Dir(1 + 2, 1 + 2) from two of four items a step."""
    grad = dirichlet(np.ones(2), Uniform(2))
    grad = grad if known is not None else EmpiricalFisher(grad)
    kernel = mirrored_sgld(grad, step_size, SimplexMirror(), noise_covariance=known)
    return moments(kernel, np.full(2, 0.5, np.float32), PAIRS, lambda x: x[0] ** 2)


def check_pairs(known=None, h=0.3):
    noise = {"noise": COUNT_NOISE, "v": COUNT_VARIANCE}
    check_law(pairs(h, known), beta_second_moment(h, 3.0, 3.0, **noise), 0.01)


def test_what_is_left_is_clean_to_first_order():
    """Of the bias of batches a hundredth remains, by the integral equation itself."""
    clean = beta_second_moment(0.1, 3.0, 3.0)
    left = beta_second_moment(0.1, 3.0, 3.0, noise=COUNT_NOISE, v=COUNT_VARIANCE)
    whole = beta_second_moment(0.1, 3.0, 3.0, noise=COUNT_NOISE)
    assert abs(left - clean) < 0.01 * abs(whole - clean)


@pytest.mark.parametrize("known", [COUNT_VARIANCE, None], ids=["known", "estimated"])
def test_the_noise_of_counts_is_subtracted(known):
    check_pairs(known)


@pytest.mark.full
@pytest.mark.at_length
def test_noise_that_is_not_subtracted_is_seen():
    with refused():
        check_pairs(0.0)


def check_dual_covariance(full):
    """Of Poisson counts y the gradient in log x is y - x, whose noise is that of y wherever x is;
    of categories, z - x; in x it is theirs over x^2."""
    counts = np.array([[0.0, 3.0], [1.0, 1.0], [4.0, 0.0], [2.0, 5.0], [1.0, 2.0]], np.float32)
    poisson = FunctionModel(lambda x: -jnp.sum(x), lambda x, y: jnp.sum(y * jnp.log(x) - x))
    record = lambda state, info: state.estimator.covariance
    for grad, mirror, start, data, items in (
        (Minibatch(poisson, Uniform(3)), PositiveMirror(), np.ones(2), counts, counts),
        (dirichlet(ALPHA, Uniform(3)), SimplexMirror(), np.full(3, 1 / 3), ITEMS, ITEMS[:, :2]),
    ):
        kernel = mirrored_sgld(EmpiricalFisher(grad, full=full), 0.02, mirror)
        args = {"num_steps": 8_000, "thin": 8_000, "num_chains": 4, "record": record}
        told = sample(KEY, kernel, start.astype(np.float32), data, **args).trace[:, -1].mean(0)
        size = len(items)
        exact = size**2 / 3 * (1 - 3 / size) * np.cov(items, rowvar=False)
        np.testing.assert_allclose(told, exact if full else np.diag(exact), rtol=0.05, atol=0.3)


@pytest.mark.parametrize("full", [False, True])
def test_the_covariance_is_one_of_dual_coordinates(full):
    check_dual_covariance(full)


def test_a_covariance_in_the_units_of_the_position_is_seen(monkeypatch):
    monkeypatch.setattr(EmpiricalFisher, "told_in", lambda self, pull: self)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_dual_covariance(full=False)


def test_what_is_subtracted_cools_a_step():
    """By h v / 2, at most T, in the mean over the dual coordinates."""
    model = FunctionModel(lambda x: jnp.sum(2 * jnp.log(x) - x))
    start = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([3.0])}
    flat = FunctionModel(lambda x: model.logprior(jnp.concatenate([x["a"], x["b"]])))

    def excess(**given):
        kernel = mirrored_sgld(Minibatch(flat, Full()), 0.4, PositiveMirror(), **given)
        state = kernel.init(KEY, start, None)
        return float(kernel.step(KEY, state, None)[1].excess_temperature)

    known = {"a": jnp.array([1.0, 4.0]), "b": 2.0}
    assert excess() - excess(noise_covariance=known) == pytest.approx(0.2 * (1 + 4 + 2) / 3, 1e-4)


def test_another_coordinate_system_is_refused():
    """A word has one letter that is told the noise, in its own coordinates; estimators say how."""

    class Tells(Estimator):
        tells_covariance = True

        def estimate(self, key, estate, position, data):
            return Estimate(-position, covariance=jnp.ones_like(position)), estate

    with pytest.raises(ValueError, match="Tells, tells the covariance .*define `told_in`"):
        mirrored_sgld(Tells(), 0.1, PositiveMirror())
    pieces = {"M": MirroredLangevin(PositiveMirror()), "L": EulerLangevin()}
    fisher = EmpiricalFisher(dirichlet(np.ones(2), Uniform(2)))
    with pytest.raises(ValueError, match=r"letters \['L', 'M'\] subtract the noise of grad in dif"):
        Splitting("ML", pieces, fisher, 0.1)
    own = mirrored_sgld(fisher, 0.1, SimplexMirror()).grad
    assert own.pull is not None and fisher.pull is None, "the user's own is as it was"
    assert sgld(own, 0.1).grad.pull is None, "nor is another kernel told in these coordinates"
    extended = recipe(own, 1.0, 0.0, 0.1, energy=lambda z: jnp.sum(z[1] ** 2)).grad
    assert extended.inner.pull is None
    with pytest.raises(ValueError, match="noise_covariance exceeds the noise of the sampler"):
        mirrored_sgld(dirichlet(np.ones(2), Uniform(2)), 0.5, SimplexMirror(), noise_covariance=5.0)
    kernel = mirrored_sgld(
        dirichlet(ALPHA, Full()), 0.1, SimplexMirror(), noise_covariance=jnp.ones(3)
    )
    with pytest.raises(ValueError, match=r"noise_covariance must have the shape \(2,\), got \(3,"):
        sample(KEY, kernel, np.full(3, 1 / 3, np.float32), ITEMS, num_steps=1)
