"""Densities, statistics and metrics ask for full precision in every product of matrices."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Euclidean, Full, Minibatch, models, spaces
from sgmc_jax import families as fam
from sgmc_jax.batching import Window
from sgmc_jax.collective import as_shard
from sgmc_jax.diagnostics import ksd
from sgmc_jax.evaluation import NewItems
from sgmc_jax.models.series import forward_backward
from sgmc_jax.models.spherical import density
from sgmc_jax.tune import curvature, noise
from sgmc_jax.tune.laplace import Laplace
from tests.laws.test_structure import coarse_products

KEY = jax.random.key(0)
X = jnp.asarray(np.random.default_rng(0).normal(size=(8, 3)), jnp.float32)
Y = jnp.arange(8) % 2


def with_slope(density, position, *rest):
    """The density at a position, with its gradient."""
    return jax.value_and_grad(density)(position, *rest)


def of_models():
    """log prior, log likelihood of an item, of a batch, and the sums of an estimator."""
    factors = models.MatrixFactorization(3, 4, 2)
    plain = models.FunctionNetwork(lambda w, x: w * x.sum(), jnp.ones(2))
    network = models.BayesianNetwork(plain)
    windows = Window(4, buffer=1).population(as_shard(X)).items
    of_counts = windows._replace(rows=jnp.abs(windows.rows).astype(int))
    hidden = partial(models.HiddenMarkov, 2)
    chain = {"transition": jnp.zeros((2, 1))}
    normal = {"mean": jnp.zeros((2, 3)), "log_scale": jnp.zeros((2, 3))}
    space = models.LinearGaussianStateSpace(2, 3)
    return {
        "logistic": (models.LogisticRegression(), jnp.zeros(3), (X, Y)),
        "softmax": (models.SoftmaxRegression(2), jnp.zeros((3, 2)), (X, Y)),
        "factors": (factors, factors.start(KEY), ((Y, Y + 1), X[:, 0])),
        "network": (network, network.start(plain), (X, Y)),
        "normal chain": (hidden(models.NormalEmission()), chain | {"emission": normal}, windows),
        "linear Gaussian": (
            space,
            space.position(
                transition=0.5 * jnp.eye(2),
                state_noise=jnp.eye(2),
                observation=jnp.ones((3, 2)),
                observation_noise=jnp.eye(3),
            ),
            windows,
        ),
        "counts": (
            hidden(models.PoissonEmission()),
            chain | {"emission": {"log_rate": jnp.zeros((2, 3))}},
            of_counts,
        ),
    }


@pytest.mark.parametrize("name", list(of_models()))
def test_models(name):
    model, position, items = of_models()[name]
    first = jax.tree.map(lambda x: x[0], items)
    weight = jnp.ones(len(jax.tree.leaves(items)[0]))
    full(partial(with_slope, model.logprior), position)
    full(partial(with_slope, model.loglik), position, first)
    full(model.loglik_batch, position, items)
    full(model.weighted_sum, position, items, weight)
    full(model.per_item, position, items)


def of_families():
    """Families whose statistics add up, with items."""
    return {
        "normal-Wishart": (fam.NormalInverseWishart(3), X),
        "normal-gamma": (fam.NormalGamma(3), X),
        "normal": (fam.NormalKnownCovariance(jnp.zeros(3), jnp.eye(3), jnp.eye(3)), X),
        "multinomial": (fam.DirichletMultinomial(1.0, size=3), jnp.abs(X).round()),
        "categorical": (fam.DirichletCategorical(1.0, size=2), Y),
        "Poisson": (fam.PoissonGamma(1.0, 1.0, size=3), jnp.abs(X).round()),
    }


@pytest.mark.parametrize("name", list(of_families()))
def test_families(name):
    family, items = of_families()[name]
    weights = jnp.ones((2, 8))
    statistics = jax.eval_shape(family.statistics, items, weights)
    params = jax.eval_shape(family.draw, KEY, statistics)
    full(family.statistics, items, weights)
    full(family.draw, KEY, statistics)
    full(family.scores, params, items)
    full(family.loglik, params, items)
    full(family.log_marginal, statistics)
    full(family.log_predictive, statistics, items[0])


@pytest.mark.parametrize(
    "family", [fam.LinearLogistic(3), fam.LinearPoisson(3)], ids=["answers", "counts"]
)
def test_likelihoods_of_features(family):
    answers, entries = (X > 0).astype(int), jnp.ones((2, 8), int)
    full(partial(with_slope, family.log_item), jnp.zeros((2, 3)), entries[:, 0], answers[0])
    full(family.loglik, jnp.zeros((2, 3)), entries, answers)
    full(partial(with_slope, family.log_theta), jnp.zeros(3))


def test_rows_of_sums_of_features():
    family, entries = fam.LinearGaussian(3), jnp.ones((2, 8), int)
    rows = fam.FeatureRows(X, entries, jnp.ones(8, bool))
    params = jnp.ones((2, 3))
    full(lambda rows: family.statistics(params, rows), rows)
    full(lambda rows: family.logdensity(family.start(), params, rows), rows)
    full(lambda rows: family.together(family.start(), params, rows).gain(0, *entries), rows)


def test_curvature_and_noise_around_a_mode():
    model, data = models.LogisticRegression(), (X, Y)
    grad, x = Minibatch(model, Full()), jnp.zeros(3)
    full(partial(curvature.hessian, KEY, grad), x, data)
    full(partial(curvature.row_norms, KEY, grad), x, data)
    full(partial(curvature.along, KEY, grad), x, data, x)
    full(lambda x: curvature.largest(KEY, grad, x, data, jnp.ones(3)), x)
    for space in (Euclidean(cholesky=jnp.eye(3)), Euclidean(scale=jnp.ones(3))):
        fit = Laplace(x, space)
        full(partial(noise._covariance, model, fit, data, jnp.ones(8)), x)
        full(lambda x, fit=fit: noise._gaps(model, fit, data, x), x)
    full(lambda x: noise._largest(KEY, model, fit, data, jnp.ones(8), [x]), x)


def test_bounds_and_simulations_of_regressions():
    for model in (models.LogisticRegression(), models.SoftmaxRegression(2)):
        full(lambda x, model=model: model.curvature_bounds((x, Y)), X)
        full(lambda key, model=model: model.simulate(key, 5, 3), KEY)


def test_states_of_series():
    _, position, _ = of_models()["linear Gaussian"]
    space = models.LinearGaussianStateSpace(2, 3)
    full(space.smoothed, position, X)
    full(space.log_likelihood, position, X)
    full(lambda position: space.simulate(KEY, position, 5), position)
    full(forward_backward.stationary, jnp.full((3, 3), 1 / 3))


@pytest.mark.parametrize(
    "space, x",
    [
        (Euclidean(cholesky=jnp.eye(3)), jnp.ones(3)),
        (Euclidean(scale=jnp.ones(3)), jnp.ones(3)),
        (spaces.Sphere(), jnp.eye(3)[0]),
        (spaces.Simplex(), jnp.full(3, 1 / 3)),
        (spaces.Stiefel(), jnp.eye(4, 2)),
        (spaces.SPD(), jnp.eye(3)),
        (spaces.Hyperboloid(), jnp.eye(3)[0]),
        (spaces.Positive(), jnp.ones(3)),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, spaces.Space) else "",
)
def test_metrics(space, x):
    full(space.squared_norm, x, x)
    full(space.gradient, x, x)
    full(space.project, x, x)
    full(space.flow, x, 0 * x, 0.1)


def test_densities_of_what_is_left_out_and_discrepancies():
    law = NewItems(jnp.eye(2, 3), jnp.full(2, 0.5), 0.5)
    full(law.log_prob, X)
    full(lambda x: ksd(x, -x), X)
    full(density.gram, X)
    full(density.lengths, jnp.eye(3), X)


def full(function, *args):
    """Raise where a traced call has a product of floating matrices in default precision."""
    coarse = list(coarse_products(jax.make_jaxpr(function)(*args).jaxpr))
    assert not coarse, coarse
