"""Two likelihoods that nothing is conjugate to, against the exact law of three items' columns."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, gammaln
from scipy.stats import gamma, norm, poisson

from sgmc_jax.bnp import (
    BetaBernoulli,
    Demotion,
    GammaPoisson,
    LinearLogistic,
    LinearPoisson,
    hybrid_features,
    slice_crm,
    slice_features,
)
from sgmc_jax.processes import (
    Bernoulli,
    BetaProcess,
    GammaProcess,
    Poisson,
    bondesson,
    delayed_bondesson,
)
from tests.enumeration import features as exact
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(5)
full = pytest.mark.full
LINKS = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0]])  # yes or no
COUNTS = np.array([[4, 0], [1, 2], [0, 3]])
BIAS, WIDTH = -1.0, 1.5  # of log odds, and the scale of what a feature adds to them
BASE, SHAPE, RATE = 0.3, 2, 1.0  # of a count's mean, and of the gamma law of what a feature adds
BETA, GAMMA = BetaBernoulli(0.8, 0.7), GammaPoisson(0.4, 8.0)


def logistic():
    return LinearLogistic(LINKS.shape[1], WIDTH, BIAS, step_size=0.7, num_steps=3)


def factors():
    return LinearPoisson(COUNTS.shape[1], SHAPE, RATE, BASE, step_size=0.5, num_steps=3)


# ------------------------------------------------------------------------------- the exact law


@lru_cache
def log_links(states, step=0.75):
    """log p(x | Z): the log odds of a dimension are normal, of covariance s^2 Z Z' in three.

    By the trapezoid rule, which for functions as smooth as these needs the fewest points: what is
    expected of columns differs by 6e-4 at most from what a step of .4 gives.
    """
    x = step * np.arange(-int(4.6 / step), int(4.6 / step) + 1)
    points = np.stack(np.meshgrid(x, x, x, indexing="ij"), -1).reshape(-1, 3)
    weights = np.exp(-0.5 * np.sum(points**2, axis=1))
    gram, back = np.unique(states.gram, axis=0, return_inverse=True)
    values, vectors = np.linalg.eigh(gram)
    roots = WIDTH * vectors * np.sqrt(np.maximum(values, 0))[:, None]
    log = np.empty(len(gram))
    for g, root in enumerate(roots):
        yes = expit(BIAS + points @ root.T)
        each = np.prod(np.where(LINKS.T[:, None], yes, 1 - yes), axis=2)
        log[g] = np.sum(np.log(each @ weights / weights.sum()))
    return log[back.ravel()]


def log_counts(states):
    """log p(x | Z) + log x!: the coefficient of t^x in E exp(sum_i (t_i - 1) lambda_i), times x!.

    The means are lambda_i = b + sum_k theta_k v_ki, and of a column v with the sum m

        E exp(theta (v.t - m)) = (1 + m / r)^-a (1 - v.t / (r + m))^-a,   theta ~ Gamma(a, r).

    So the function is the exponential of b sum_i (t_i - 1) and of a series for each column.
    """
    return sum(_log_coefficient(states, x) for x in COUNTS.T)


def _log_coefficient(states, x):
    types, m = states.types, states.types.sum(1)
    index = [i for i in np.ndindex(*(x + 1)) if sum(i)]
    series = np.empty((len(types), len(index)))
    for column, i in enumerate(index):  # (v.t)^s / s has the coefficient (s - 1)! v^i / i!
        log_ways = gammaln(sum(i)) - gammaln(np.array(i) + 1).sum()
        power = np.prod(types ** np.array(i), axis=1) / (RATE + m) ** sum(i)
        series[:, column] = SHAPE * np.exp(log_ways) * power
    exponent = dict(zip(index, (states.counts @ series).T))
    for i in np.eye(3, dtype=int)[x > 0]:
        exponent[tuple(i)] = exponent[tuple(i)] + BASE
    value = {(0, 0, 0): np.ones(len(states.counts))}
    for i in index:  # of f = exp(p): i_a f_i = sum_j j_a p_j f_(i - j)
        axis = int(np.argmax(np.array(i) > 0))
        less = [j for j in index if np.all(np.array(j) <= i) and j[axis]]
        terms = [j[axis] * exponent[j] * value[tuple(np.subtract(i, j))] for j in less]
        value[i] = sum(terms) / i[axis]
    absent = states.counts @ (-SHAPE * np.log1p(m / RATE)) - 3 * BASE
    return absent + np.log(value[tuple(x)]) + gammaln(x + 1).sum()


def columns(states, column):
    """The states whose only column it is."""
    only = np.all(states.types == column, axis=1)
    return (states.counts @ only == 1) & (states.counts.sum(1) == 1)


def alone(data, column, prior, likelihood, ends):
    """The log probability of data of one feature, each dimension by quadrature."""
    total = [
        quad(lambda t, x=x: prior(t) * np.prod(likelihood(x, t * np.array(column))), *ends)[0]
        for x in data.T
    ]
    return np.sum(np.log(total))


@pytest.mark.parametrize("column", [(1, 0, 0), (1, 1, 2)])
def test_counts_of_one_feature_by_quadrature(column):
    prior = lambda t: gamma.pdf(t, SHAPE, scale=1 / RATE)
    likelihood = lambda x, mean: poisson.pmf(x, BASE + mean)
    log = alone(COUNTS, column, prior, likelihood, (0, 40)) + gammaln(COUNTS + 1).sum()
    states = exact.whole()
    np.testing.assert_allclose(log_counts(states)[columns(states, column)], log, rtol=1e-6)


@pytest.mark.parametrize("column", [(1, 0, 0), (0, 1, 1)])
def test_answers_of_one_feature_by_quadrature(column):
    prior = lambda t: norm.pdf(t, scale=WIDTH)
    likelihood = lambda x, odds: expit((2 * x - 1) * (BIAS + odds))
    log = alone(LINKS, column, prior, likelihood, (-20, 20))
    states = exact.binary()
    np.testing.assert_allclose(log_links(states)[columns(states, column)], log, rtol=1e-6)


# ------------------------------------------------------------------------------------ the laws


@lru_cache
def law(model):
    """The exact statistics of columns, the states, and how many of them are looked at."""
    if model == "logistic":
        states, few = exact.binary(), 7
        log = states.log_prior(exact.beta_columns(0.7)[0], 0.8, 0.0) + log_links(states)
    else:
        states, few = exact.whole(), 9
        log = states.log_prior(exact.gamma_columns(8.0)[0], 0.4, 0.0) + log_counts(states)
    return states.law(log, few), states, few


MODELS = {"logistic": (BETA, logistic, LINKS), "factors": (GAMMA, factors, COUNTS)}
GENERAL = {
    "logistic": lambda family: slice_crm(
        delayed_bondesson(BetaProcess(0.8, 0.7)), Bernoulli(), family, capacity=16, decay=1.0
    ),
    "factors": lambda family: slice_crm(
        bondesson(GammaProcess(0.4, 8.0)), Poisson(), family, capacity=32, decay=1.0
    ),
}


def make(model, sampler, **kwargs):
    process, likelihood, _ = MODELS[model]
    family = likelihood()
    if sampler == "crm":
        return GENERAL[model](family)
    if sampler == "slices":
        return slice_features(process, family, capacity=32, decay=1.0)
    return hybrid_features(process, family, capacity=12, **kwargs)


def check(model, kernel, tolerance=0.12, num_steps=900):
    """What is rarer than one in a thousand is not looked at: too few visits for an error."""
    expected, states, few = law(model)
    data = MODELS[model][2].astype(np.int32)
    args = {"num_chains": 512, "num_steps": num_steps, "burn_in": 100}
    run = run_law(KEY, kernel, None, data, reduce=exact.statistics(states, few), **args)
    common = expected > 1e-3
    check_law(run.trace.mean[:, common], expected[common], tolerance)


ROWS = [
    ("logistic", "hybrid", {"blocks": 2}),
    ("factors", "hybrid", {"blocks": 2}),
    *(
        pytest.param(model, *row, marks=full)
        for model in MODELS
        for row in [
            ("hybrid", {}),
            ("hybrid", {"blocks": 3, "local_sweeps": 2}),
            ("hybrid", {"schedule": Demotion()}),
            ("slices", {}),
            ("crm", {}),
        ]
    ),
]


@pytest.mark.parametrize("model,sampler,kwargs", ROWS)
def test_all_columns(model, sampler, kwargs):
    check(model, make(model, sampler, **kwargs))


# ------------------------------------------------------------------------------ planted faults

FAULTS = {
    "zeros that say nothing": (
        "logistic",
        "log_item",
        lambda self, theta, z, x: jnp.sum(x * jax.nn.log_sigmoid(BIAS + z @ theta)),
    ),
    "a rate that is left out": (
        "factors",
        "log_item",
        lambda self, u, z, x: jnp.sum(x * jnp.log(BASE + z @ jnp.exp(u))),
    ),
    "a jacobian that is left out": (
        "factors",
        "log_theta",
        lambda self, u: jnp.sum((SHAPE - 1) * u - RATE * jnp.exp(u)),
    ),
}


@full
@pytest.mark.parametrize("sampler", ["hybrid", "slices"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_likelihood_is_seen(fault, sampler, monkeypatch):
    model, method, wrong = FAULTS[fault]
    kernel = make(model, sampler)
    monkeypatch.setattr(
        {"logistic": LinearLogistic, "factors": LinearPoisson}[model], method, wrong
    )
    fault_is_seen(check, model, kernel, tolerance=1.0)
