"""Matrix factorisation: gradients, hyper-parameters, the joint law, predictions, bad input."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from sgmc_jax import ControlVariate, Full, Minibatch, Uniform, gibbs, hmc, sample, sghmc, sgld
from sgmc_jax.model import Model
from sgmc_jax.models import MatrixFactorization, RowPrior
from tests.laws.moments import check_mean, fault_is_seen
from tests.models import geweke

KEY = jax.random.key(31)
USERS, ITEMS, RANK, NUM = 4, 5, 2, 12
_rng = np.random.default_rng(8)
# the users are of unequal activity, and one has no rating
PAIRS = _rng.choice([0, 0, 0, 1, 2], NUM), _rng.integers(0, ITEMS, NUM)
DATA = PAIRS, _rng.integers(1, 6, NUM).astype(np.float32)
MODEL = MatrixFactorization(
    USERS, ITEMS, RANK, noise_precision=2.0, centre=3.0, mean=0.4, precision_prior=(1.5, 2.0)
)


def dense(position, mask, ratings):
    """The log posterior of the whole matrix, of what is observed, in lambda itself."""
    factors, hyper, total = position["factors"], position["hyper"], 0.0
    product = 3.0 + factors["users"] @ factors["items"].T
    sd = 1 / jnp.sqrt(2.0)
    total += jnp.sum(mask * jax.scipy.stats.norm.logpdf(ratings, product, sd))
    for side in ("users", "items"):
        precision = jnp.exp(hyper[side].log_precision)
        sd = 1 / jnp.sqrt(precision)
        total += jnp.sum(jax.scipy.stats.norm.logpdf(factors[side], hyper[side].mean, sd))
        total += jnp.sum(jax.scipy.stats.norm.logpdf(hyper[side].mean, 0.4, sd))
        total += jnp.sum(jax.scipy.stats.gamma.logpdf(precision, 1.5, scale=1 / 2.0))
        total += jnp.sum(hyper[side].log_precision)  # the Jacobian of the logarithm
    return total


def as_matrix(data):
    """The sums over equal pairs of what the dense formula needs: numbers and mean ratings."""
    mask, ratings = np.zeros((USERS, ITEMS)), np.zeros((USERS, ITEMS))
    np.add.at(mask, data[0], 1.0), np.add.at(ratings, data[0], data[1])
    return jnp.asarray(mask), jnp.asarray(ratings / np.maximum(mask, 1))


def somewhere(key):
    start = MODEL.start(key)
    keys = jax.random.split(key, len(jax.tree.leaves(start)))
    draws = [0.7 * jax.random.normal(k, x.shape) for k, x in zip(keys, jax.tree.leaves(start))]
    return jax.tree.unflatten(jax.tree.structure(start), draws)


def check_gradients(model):
    """Of all data, against the dense formula differentiated."""
    theirs = jax.jit(jax.grad(dense))
    for key in jax.random.split(KEY, 2):
        at = somewhere(key)
        ours = model.weighted_sum(at, DATA, jnp.ones(NUM)).value
        ours = jax.tree.map(jnp.add, ours, model.prior(at).value)
        for x, y in zip(*map(jax.tree.leaves, (ours, theirs(at, *as_matrix(DATA)))), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_the_dense_formula():
    check_gradients(MODEL)


def test_the_log_likelihood_of_a_rating_is_its_density():
    """With its constant, without which models of other precisions cannot be compared."""
    at = somewhere(KEY)
    mean = 3.0 + np.sum(at["factors"]["users"][PAIRS[0]] * at["factors"]["items"][PAIRS[1]], 1)
    wanted = stats.norm.logpdf(DATA[1], mean, 1 / np.sqrt(2.0))
    np.testing.assert_allclose(MODEL.loglik_batch(at, DATA), wanted, rtol=1e-4)


class Covariance(MatrixFactorization):
    """Means with the precision for a covariance, as printed."""

    def logprior(self, position):
        hyper = position["hyper"]
        total = super().logprior(position)
        for side in hyper:
            gap, l = (hyper[side].mean - 0.4) ** 2, hyper[side].log_precision
            total += jnp.sum(0.5 * jnp.exp(l) * gap - l / 2 - 0.5 * jnp.exp(-l) * gap - l / 2)
        return total


@pytest.mark.full
@pytest.mark.at_length
def test_gradients_see_a_precision_in_place_of_a_covariance():
    settings = {"noise_precision": 2.0, "centre": 3.0, "mean": 0.4, "precision_prior": (1.5, 2.0)}
    with pytest.raises(AssertionError):
        check_gradients(Covariance(USERS, ITEMS, RANK, **settings))


def test_sums_and_differences_are_those_of_automatic_differentiation():
    """With weights and equal pairs; of the joint model and of that of the factors."""
    here, there = (somewhere(key) for key in jax.random.split(KEY))
    weight = jnp.asarray(_rng.uniform(size=NUM))
    factors = MODEL.given(here["hyper"])
    for model, x, y in ((MODEL, here, there), (factors, here["factors"], there["factors"])):
        plain = Model.weighted_sum(model, x, DATA, weight)
        gap = jax.tree.map(jnp.subtract, plain, Model.weighted_sum(model, y, DATA, weight))
        ours = model.weighted_sum(x, DATA, weight), model.difference(x, y, DATA, weight)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves((plain, gap)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    each = MODEL.per_item(here, DATA)
    total = jax.tree.map(lambda g: jnp.tensordot(weight.astype(g.dtype), g, 1), each)
    for a, b in zip(*map(jax.tree.leaves, (total, MODEL.weighted_sum(here, DATA, weight).value))):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


class OfTheBatch(MatrixFactorization):
    """The prior of the rows of a batch, N / n times, in place of that of all rows."""

    def logprior(self, position):
        return 0.0 * super().logprior(position)

    def weighted_sum(self, position, items, weight):
        estimate = super().weighted_sum(position, items, weight)
        ones = {"users": jnp.zeros(USERS), "items": jnp.zeros(ITEMS)}
        for side, rows in zip(ones, items[0], strict=True):
            ones[side] = jnp.sign(ones[side].at[rows].add(1.0)) * weight[0]

        def prior(factors):
            gap = {s: factors[s] - position["hyper"][s].mean for s in ones}
            scale = {s: jnp.exp(position["hyper"][s].log_precision) for s in ones}
            return sum(-0.5 * jnp.sum(ones[s][:, None] * scale[s] * gap[s] ** 2) for s in ones)

        gradient = jax.grad(prior)(position["factors"])
        factors = jax.tree.map(jnp.add, estimate.value["factors"], gradient)
        return estimate._replace(value={**estimate.value, "factors": factors})


def check_batches(model):
    """The mean of the gradients of batches of three ratings in the factors; see `check_mean`."""
    at = somewhere(KEY)
    data = jax.tree.map(jnp.asarray, DATA)
    grad = Minibatch(model, Uniform(3))
    one = lambda key: grad.estimate(key, (), at, data)[0].value["factors"]
    draws = jax.jit(jax.vmap(one))(jax.random.split(KEY, 10_000))
    exact = jax.grad(dense)(at, *as_matrix(DATA))["factors"]
    for side in exact:
        values = np.array(draws[side]).reshape(10_000, -1)
        values += 1e-3 * _rng.normal(size=values.shape)  # a user without ratings has no noise
        check_mean(values, np.ravel(exact[side]), 0.15)


@pytest.mark.full
def test_gradients_of_batches_are_unbiased():
    check_batches(MODEL)


@pytest.mark.full
@pytest.mark.at_length
def test_unbiasedness_sees_a_prior_of_the_batch():
    settings = {"noise_precision": 2.0, "centre": 3.0, "mean": 0.4, "precision_prior": (1.5, 2.0)}
    fault_is_seen(check_batches, OfTheBatch(USERS, ITEMS, RANK, **settings))


def test_draws_of_hyperparameters_are_of_their_conditional():
    """Their moments in closed form: lambda a gamma, mu a t whose mean and covariance are known."""
    at = somewhere(KEY)
    kernel = MODEL.hyperparameters({"factors": at["factors"]})
    one = lambda key: kernel.step(key, kernel.init(key, at["hyper"], None), None)[0].position
    draws = jax.jit(jax.vmap(one))(jax.random.split(KEY, 20_000))
    for side, number in (("users", USERS), ("items", ITEMS)):
        rows = np.asarray(at["factors"][side], np.float64)
        spread = ((rows - rows.mean(0)) ** 2).sum(0)
        between = number / (number + 1) * (rows.mean(0) - 0.4) ** 2
        shape, rate = 1.5 + number / 2, 2.0 + (spread + between) / 2
        middle = (0.4 + rows.sum(0)) / (number + 1)
        mean, log_precision = draws[side]
        check_mean(log_precision, special.digamma(shape) - np.log(rate), 0.2)
        check_mean(np.exp(log_precision), shape / rate, 0.1)
        check_mean(mean, middle, 0.2)
        check_mean((mean - middle) ** 2, rate / (shape - 1) / (number + 1), 0.2)
    for a, b in zip(draws["users"], draws["items"], strict=True):  # of one key they would be alike
        assert abs(np.corrcoef(a[:, 0], b[:, 0])[0, 1]) < 5.5 / math.sqrt(20_000)


SMALL = MatrixFactorization(3, 2, 1, noise_precision=1.0, mean=0.4, precision_prior=(4.0, 3.0))
SMALL_PAIRS = jnp.array([0, 1, 2, 0]), jnp.array([0, 1, 1, 1])


def draw_prior(key):
    def side(key, number):
        keys = jax.random.split(key, 3)
        precision = jax.random.gamma(keys[0], 4.0, (1,)) / 3.0
        mean = 0.4 + jax.random.normal(keys[1], (1,)) / jnp.sqrt(precision)
        rows = mean + jax.random.normal(keys[2], (number, 1)) / jnp.sqrt(precision)
        return rows, RowPrior(mean, jnp.log(precision))

    drawn = {"users": side(jax.random.fold_in(key, 0), 3)}
    drawn["items"] = side(jax.random.fold_in(key, 1), 2)
    factors, hyper = ({s: pair[i] for s, pair in drawn.items()} for i in range(2))
    return {"factors": factors, "hyper": hyper}


def draw_data(key, position):
    mean = SMALL.response(position, SMALL_PAIRS)
    return SMALL_PAIRS, mean + jax.random.normal(key, mean.shape)


def statistic(position):
    """Of the users: log lambda, lambda, mu standardised and squared, and the rows so."""
    prior, rows = position["hyper"]["users"], position["factors"]["users"]
    precision = jnp.exp(prior.log_precision)
    squares = precision * (prior.mean - 0.4) ** 2, jnp.mean(precision * (rows - prior.mean) ** 2, 0)
    return jnp.concatenate([prior.log_precision, precision, prior.mean, *squares])


def check_joint_law(make, model=SMALL):
    values = geweke.from_prior(
        make(model), draw_prior, draw_data, statistic, num_steps=15, num_chains=6_000, key=KEY
    )
    expected = [special.digamma(4.0) - np.log(3.0), 4 / 3, 0.4, 1.0, 1.0]
    check_mean(values, expected, 0.12)


def by_gibbs(model):
    def factors(rest):
        return hmc(Minibatch(model.given(rest["hyper"]), Full()), 0.2, 3)

    return gibbs(factors=factors, hyper=model.hyperparameters)


def by_gradients(model):
    return hmc(Minibatch(model, Full()), 0.15, 3)


@pytest.mark.full
@pytest.mark.parametrize("make", [by_gibbs, by_gradients])
def test_the_joint_law_of_factors_and_hyperparameters(make):
    check_joint_law(make)


@pytest.mark.full
@pytest.mark.at_length
def test_the_joint_law_sees_other_hyperparameters():
    """A count that is off by one row, and a precision in place of a covariance."""
    args = {"noise_precision": 1.0, "mean": 0.4}
    one_less = MatrixFactorization(3, 2, 1, **args, precision_prior=(3.5, 3.0))
    fault_is_seen(check_joint_law, by_gibbs, one_less)
    printed = Covariance(3, 2, 1, **args, precision_prior=(4.0, 3.0))
    fault_is_seen(check_joint_law, by_gradients, printed)


def test_predictions_are_means_over_draws_and_may_be_clipped():
    places = [somewhere(key) for key in jax.random.split(KEY, 6)]
    draws = jax.tree.map(lambda *x: jnp.stack(x).reshape(2, 3, *x[0].shape), *places)
    each = [3.0 + p["factors"]["users"] @ p["factors"]["items"].T for p in places]
    mean = np.mean(each, axis=0)[PAIRS]
    np.testing.assert_allclose(MODEL.predict(draws, PAIRS), mean, rtol=1e-5)
    rmse = np.sqrt(np.mean((DATA[1] - mean) ** 2))
    np.testing.assert_allclose(MODEL.rmse(draws, DATA), rmse, rtol=1e-5)
    clipped = MODEL.predict(draws, PAIRS, clip=(2.5, 3.5))
    np.testing.assert_allclose(clipped, np.clip(mean, 2.5, 3.5), rtol=1e-5)


@pytest.mark.full
def test_an_anchored_gradient_of_all_ratings_is_the_gradient():
    """Jointly, and of the factors in `gibbs`, whose prior is another one in every step."""
    start, at = MODEL.start(KEY), MODEL.start(jax.random.fold_in(KEY, 2))
    hyper = MODEL.start(jax.random.fold_in(KEY, 1))["hyper"]
    given = MODEL.given(hyper)
    for model, centre, x in (
        (MODEL, start, at),
        (given, start["factors"], at["factors"]),
    ):
        inner = Minibatch(model, Full())
        anchored = ControlVariate(inner, centre)
        exact, _ = inner.estimate(KEY, inner.init(KEY, x, DATA), x, DATA)
        estimate, _ = anchored.estimate(KEY, anchored.init(KEY, x, DATA), x, DATA)
        for one, other in zip(*map(jax.tree.leaves, (estimate.value, exact.value)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)

    def factors(rest):
        grad = Minibatch(MODEL.given(rest["hyper"]), Uniform(5))
        return sghmc(ControlVariate(grad, start["factors"]), 1e-2)

    kernel = gibbs(factors=factors, hyper=MODEL.hyperparameters)
    run = sample(KEY, kernel, start, DATA, num_steps=5, num_chains=2)
    assert np.ptp(run.trace["factors"]["users"], axis=1).min() > 0  # every row moves
    assert np.ptp(run.trace["hyper"]["users"].mean, axis=1).min() > 0


def door(data=DATA, position=None):
    position = MODEL.start(KEY) if position is None else position
    return sample(KEY, sgld(Minibatch(MODEL, Uniform(4)), 1e-3), position, data, num_steps=1)


BAD = [
    (lambda: MatrixFactorization(0, 3), "num_users must be a whole number of at least 1, got 0"),
    (lambda: MatrixFactorization(3, 3, 0), "rank must be a whole number"),
    (lambda: MatrixFactorization(3, 3, noise_precision=-1), "noise_precision must be finite and"),
    (lambda: MatrixFactorization(3, 3, precision_prior=(1, 0)), "precision_prior must be finite"),
    (lambda: MatrixFactorization(3, 3, centre=[1.0, 2.0]), "centre must be one number"),
    (lambda: door(((PAIRS[0] + 3, PAIRS[1]), DATA[1])), "user must be from 0 to 3, got 3 to"),
    (lambda: door(((PAIRS[0], PAIRS[1] - 9), DATA[1])), "item must be from 0 to 4, got -"),
    (lambda: door(((PAIRS[0] * 1.0, PAIRS[1]), DATA[1])), "user must be whole numbers, got float"),
    (lambda: MODEL.predict(MODEL.start(KEY), ([0], [1])), "user and item must be arrays, got"),
    (lambda: door((PAIRS, DATA[1][:, None])), "rating must have one number a pair"),
    (lambda: door((*PAIRS, DATA[1])), r"data must be \(\(user, item\), rating\)"),
    (lambda: door(position={"factors": np.ones(2)}), "position must be .* see `start`"),
    (lambda: MODEL.predict(np.ones(3), PAIRS), "draws must be positions, dicts with factors"),
]


@pytest.mark.parametrize("make,message", BAD)
def test_bad_input_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize("dtype, users", [("uint8", 256), ("int8", 200), ("uint16", 65_536)])
def test_users_of_a_type_that_does_not_hold_their_number(dtype, users):
    """Under a trace 256 is 0 in one byte: every log likelihood was NaN."""
    model = MatrixFactorization(users, ITEMS, RANK)
    pairs = np.array([3, 120, 7]), np.array([0, 4, 2])
    ratings = np.array([3.0, 4.0, 1.0], np.float32)
    at, kernel = model.start(KEY), lambda m: sgld(Minibatch(m, Full()), 1e-3)
    chains = [
        sample(KEY, kernel(model), at, ((pairs[0].astype(t), pairs[1]), ratings), num_steps=3).trace
        for t in (dtype, "int32")
    ]
    assert np.isfinite(chains[0]["factors"]["users"]).all()
    for one, other in zip(*map(jax.tree.leaves, chains), strict=True):
        np.testing.assert_array_equal(one, other)
    draws = jax.tree.map(lambda x: x[None], at)
    narrow = model.predict(draws, (pairs[0].astype(dtype), pairs[1]))
    np.testing.assert_array_equal(narrow, model.predict(draws, pairs))
