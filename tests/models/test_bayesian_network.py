"""Networks: densities, precisions by Gibbs and by gradients, log losses, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from sgmc_jax import (
    ControlVariate,
    Full,
    Minibatch,
    Uniform,
    gibbs,
    hmc,
    repeat,
    sample,
    sghmc,
    sgld,
)
from sgmc_jax.models import BayesianNetwork, FunctionNetwork, TwoLayerNetwork
from tests.laws.moments import check_mean, fault_is_seen
from tests.models import geweke

KEY = jax.random.key(29)
NETWORK = TwoLayerNetwork(jax.random.key(1), 3, 4, 3)
MODEL = BayesianNetwork(NETWORK, groups=(0, 1, 0, 2), precision_prior=(1.5, 2.0))
_rng = np.random.default_rng(6)
X, Y = _rng.normal(size=(10, 3)).astype(np.float32), _rng.integers(0, 3, 10)


def dense(position, x, y):
    """The log posterior of the printed model, with the densities of lambda and of the weights."""
    w, log_precision = position["weights"], position["log_precision"]
    precision = jnp.exp(log_precision)
    softmax = lambda z: jnp.exp(z) / jnp.sum(jnp.exp(z), axis=1, keepdims=True)
    beta = softmax(softmax(x @ w.first + w.first_bias) @ w.second + w.second_bias)
    total = jnp.sum(jnp.log(beta[jnp.arange(len(y)), y]))
    leaves = (w.first, w.first_bias, w.second, w.second_bias)
    for leaf, group in zip(leaves, (0, 1, 0, 2)):
        total += jnp.sum(jax.scipy.stats.norm.logpdf(leaf, 0, 1 / jnp.sqrt(precision[group])))
    of_precision = jax.scipy.stats.gamma.logpdf(precision, 1.5, scale=1 / 2.0)
    return total + jnp.sum(of_precision + log_precision)  # the Jacobian of the logarithm


def somewhere(key, model=MODEL, network=NETWORK):
    start = model.start(network)
    keys = jax.random.split(key, len(jax.tree.leaves(start)))
    draws = [jax.random.normal(k, x.shape) for k, x in zip(keys, jax.tree.leaves(start))]
    return jax.tree.unflatten(jax.tree.structure(start), draws)


def check_density(logdensity):
    """Up to a constant the density is the dense formula, and so are its gradients."""
    ours, theirs = (jax.jit(jax.value_and_grad(f)) for f in (logdensity, dense))
    gaps = []
    for key in jax.random.split(KEY, 3):
        (a, slope), (b, expected) = ours(at := somewhere(key), X, Y), theirs(at, X, Y)
        gaps.append(float(a - b))
        for x, y in zip(jax.tree.leaves(slope), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-4)


class NoJacobian(BayesianNetwork):
    """The density of lambda in place of that of its logarithm."""

    def logprior(self, position):
        return super().logprior(position) - jnp.sum(position["log_precision"])


def test_the_density_is_that_of_the_printed_model():
    check_density(lambda at, x, y: MODEL.logdensity(at, (x, y)))


@pytest.mark.full
@pytest.mark.at_length
def test_the_density_sees_a_missing_jacobian():
    faulty = NoJacobian(NETWORK, groups=(0, 1, 0, 2), precision_prior=(1.5, 2.0))
    with pytest.raises(AssertionError):
        check_density(lambda at, x, y: faulty.logdensity(at, (x, y)))


def test_given_its_precisions_the_density_is_that_of_the_joint():
    """The two parametrisations differ by what does not depend on the weights."""
    log_precision = jnp.array([0.3, -0.5, 1.0])
    given, gaps = MODEL.given(log_precision), []
    for key in jax.random.split(KEY, 3):
        weights = somewhere(key)["weights"]
        joint = MODEL.logdensity({"weights": weights, "log_precision": log_precision}, (X, Y))
        gaps.append(float(given.logdensity(weights, (X, Y)) - joint))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-4)


def test_a_draw_of_precisions_is_of_their_conditional():
    """Gamma(a + n/2, b + |w|^2/2), by its mean, and by the joint density along log lambda."""
    at = somewhere(KEY)
    w = at["weights"]
    number = np.array([12 + 12, 4, 3])
    squares = [np.sum(w.first**2) + np.sum(w.second**2), np.sum(w.first_bias**2)]
    squares = np.array([*squares, np.sum(w.second_bias**2)])
    shape, rate = 1.5 + number / 2, 2.0 + squares / 2
    kernel = MODEL.precisions({"weights": w})
    one = lambda key: (
        kernel.step(key, kernel.init(key, at["log_precision"], None), None)[0].position
    )
    draws = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(KEY, 20_000)))
    check_mean(draws, special.digamma(shape) - np.log(rate), 0.2)
    check_mean(np.exp(draws), shape / rate, 0.05)
    for log_precision in (np.zeros(3), np.ones(3)):
        conditional = stats.loggamma.logpdf(log_precision + np.log(rate), shape).sum()
        joint = MODEL.logprior({"weights": w, "log_precision": jnp.asarray(log_precision)})
        if not log_precision.any():
            constant = conditional - joint
    np.testing.assert_allclose(conditional - joint, constant, atol=1e-4)


class Affine(eqx.Module):
    """x -> slope x + bias; an array of whole numbers and a function are none of its weights."""

    slope: jax.Array
    bias: jax.Array
    order: jax.Array
    function: object = jnp.tanh

    def __call__(self, x):
        return self.slope * x[self.order] + self.bias


AFFINE = Affine(jnp.zeros(2), jnp.zeros(2), jnp.array([1, 0]))
REGRESSION = {"loglik": lambda outputs, y: -0.5 * jnp.sum((y - outputs) ** 2)}
INPUTS = jnp.array([[1.0, -0.5], [0.3, 2.0], [-1.0, 0.7]])
PRIOR = (3.0, 2.0)


def draw_prior(key):
    keys = jax.random.split(key, 3)
    precision = jax.random.gamma(keys[0], PRIOR[0], (2,)) / PRIOR[1]
    slope, bias = (
        jax.random.normal(k, (2,)) / jnp.sqrt(p) for k, p in zip(keys[1:], precision, strict=True)
    )
    weights = eqx.filter(Affine(slope, bias, AFFINE.order), eqx.is_inexact_array)
    return {"weights": weights, "log_precision": jnp.log(precision)}


def draw_data(key, position):
    weights = position["weights"]
    mean = weights.slope * INPUTS[:, AFFINE.order] + weights.bias
    return INPUTS, mean + jax.random.normal(key, mean.shape)


def statistic(position):
    """log lambda, lambda, and the squares of standardised weights."""
    precision, w = jnp.exp(position["log_precision"]), position["weights"]
    squares = jnp.stack([jnp.mean(w.slope**2), jnp.mean(w.bias**2)]) * precision
    return jnp.stack([position["log_precision"], precision, squares])


def check_joint_law(make):
    kernel = make(BayesianNetwork(AFFINE, **REGRESSION, precision_prior=PRIOR))
    values = geweke.from_prior(
        kernel, draw_prior, draw_data, statistic, num_steps=20, num_chains=4_000, key=KEY
    )
    mean = special.digamma(PRIOR[0]) - np.log(PRIOR[1])
    expected = np.repeat([[mean], [PRIOR[0] / PRIOR[1]], [1.0]], 2, axis=1)
    check_mean(values, expected, 0.12)


def by_gibbs(model, precisions=None):
    def weights(rest):
        return hmc(Minibatch(model.given(rest["log_precision"]), Full()), 0.3, 3)

    return gibbs(weights=weights, log_precision=precisions or model.precisions)


def by_gradients(model):
    return hmc(Minibatch(model, Full()), 0.2, 3)


@pytest.mark.parametrize("make", [by_gibbs, pytest.param(by_gradients, marks=pytest.mark.full)])
def test_the_joint_law_of_weights_and_precisions(make):
    check_joint_law(make)


@pytest.mark.full
@pytest.mark.at_length
def test_the_joint_law_sees_a_missing_jacobian_and_a_wrong_count():
    def no_jacobian(model):
        faulty = NoJacobian(AFFINE, **REGRESSION, precision_prior=PRIOR)
        return by_gradients(faulty)

    def one_weight_less(model):
        less = BayesianNetwork(AFFINE, **REGRESSION, precision_prior=(PRIOR[0] - 0.5, PRIOR[1]))
        return by_gibbs(model, less.precisions)

    for make in (no_jacobian, one_weight_less):
        fault_is_seen(check_joint_law, make)


@pytest.mark.full
def test_any_module_runs_with_gradients_of_minibatches():
    """Dictionaries of a Gibbs step, anchors and several chains; a module is never called."""
    network = eqx.nn.MLP(3, 3, 4, 1, key=KEY)
    model = BayesianNetwork(network)
    start = model.start(network)
    anchor = start["weights"]

    def weights(rest):
        grad = Minibatch(model.given(rest["log_precision"]), Uniform(5))
        return repeat(sghmc(ControlVariate(grad, anchor), 1e-2), 3)

    kernel = gibbs(weights=weights, log_precision=model.precisions)
    run = sample(KEY, kernel, start, (X, Y), num_steps=4, num_chains=2)
    joint = sample(KEY, sgld(Minibatch(model, Uniform(5)), 1e-3), start, (X, Y), num_steps=4)
    assert run.trace["log_precision"].shape == (2, 4, 4) and run.info.finite.all()
    for trace, lead in ((run.trace, (2, 4)), (joint.trace, (4,))):
        assert trace["weights"].layers[0].weight.shape == (*lead, 4, 3)
        np.testing.assert_allclose(model.predict(trace, X).sum(axis=1), 1.0, rtol=1e-5)
        assert float(model.log_loss(trace, (X, Y))) > 0


def test_predictions_average_over_draws():
    places = [somewhere(key) for key in jax.random.split(KEY, 3)]
    draws = jax.tree.map(lambda *w: jnp.stack(w), *places)
    each = [jax.nn.softmax(jax.vmap(MODEL.outputs, (None, 0))(p["weights"], X)) for p in places]
    mean = np.mean(each, axis=0)
    np.testing.assert_allclose(MODEL.predict(draws, X), mean, rtol=1e-5)
    expected = -np.mean(np.log(mean[np.arange(10), Y]))
    np.testing.assert_allclose(MODEL.log_loss(draws, (X, Y)), expected, rtol=1e-5)


def test_a_network_that_is_a_function_of_its_weights():
    """The chain, predictions and log loss are those of the module that it is."""

    def apply(weights, x):
        first, bias, second, last = weights
        return last + jax.nn.softmax(bias + x @ first) @ second

    network = FunctionNetwork(apply, tuple(jax.tree.leaves(NETWORK)))
    model = BayesianNetwork(network, groups=(0, 1, 0, 2), precision_prior=(1.5, 2.0))
    runs = []
    for kind, start in ((model, network), (MODEL, NETWORK)):
        kernel = sghmc(Minibatch(kind, Uniform(4)), 0.01, friction=5.0)
        run = sample(KEY, kernel, kind.start(start), (X, Y), num_steps=5, num_chains=2)
        loss = kind.log_loss(run.trace, (X, Y))
        runs.append([*jax.tree.leaves(run.trace), kind.predict(run.trace, X), loss])
    for ours, theirs in zip(*runs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_sigmoids_are_an_option():
    network = TwoLayerNetwork(KEY, 3, 4, 3, activation=jax.nn.sigmoid)
    hidden = 1 / (1 + np.exp(-(X[0] @ network.first)))
    np.testing.assert_allclose(network(X[0]), hidden @ network.second, rtol=1e-5)


def test_weights_begin_with_the_size_that_suits_their_inputs():
    """Standard normals over the roots of 400 inputs and 300 hidden units; 5.5 standard errors."""
    network = TwoLayerNetwork(KEY, 400, 300, 200)
    for weights, inputs in ((network.first, 400), (network.second, 300)):
        squares = inputs * np.asarray(weights) ** 2
        assert abs(squares.mean() - 1) < 5.5 * np.sqrt(2 / squares.size)
    assert not network.first_bias.any() and not network.second_bias.any()


def door(y=Y, position=None, model=MODEL, x=X):
    position = model.start(NETWORK) if position is None else position
    return sample(KEY, sgld(Minibatch(model, Uniform(4)), 1e-3), position, (x, y), num_steps=1)


OTHER = TwoLayerNetwork(KEY, 3, 5, 3)
BAD = [
    (lambda: BayesianNetwork(lambda x: x), "network must be a module of Equinox .*FunctionNetwork"),  # type: ignore
    (lambda: BayesianNetwork(eqx.nn.Identity()), "network must have floating arrays"),
    (lambda: BayesianNetwork(NETWORK, groups=(0, 1)), "groups must give each of the network's 4"),
    (lambda: BayesianNetwork(NETWORK, groups=(0, 2, 0, 2)), "without gaps"),
    (
        lambda: BayesianNetwork(NETWORK, precision_prior=(0, 1)),
        "must be finite and positive",
    ),
    (lambda: BayesianNetwork(NETWORK, precision_prior=None), "precision_prior must be a pair"),
    (lambda: MODEL.start(OTHER), "weights must be the floating arrays of a network like"),
    (lambda: TwoLayerNetwork(KEY, 0), "inputs must be a whole number"),
    (lambda: TwoLayerNetwork(KEY, activation="relu"), "activation must be a function"),  # type: ignore
    (lambda: door(Y + 1), "y must be labels 0 to 2, got 1 to 3"),
    (lambda: door(Y * 1.0), "y must be whole numbers, one an item"),
    (
        lambda: door(position={"weights": 0.0}),
        "position must be a dict of weights and log_precision",
    ),
    (
        lambda: door(position={**MODEL.start(NETWORK), "log_precision": np.ones(2)}),
        "one number a group",
    ),
    (
        lambda: door(x=X[:, :2]),
        r"x must be what the network takes, an item at a time, got items of float32\(2,\)",
    ),
    (
        lambda: door(
            x=X[:, :2], model=BayesianNetwork(NETWORK, lambda o, y: -jnp.sum((o - y) ** 2))
        ),
        r"x must be what the network takes.*float32\(2,\)",
    ),
    (lambda: door(x=X[:, 0]), r"x must be what the network takes.*got items of float32\(\)"),
    (lambda: MODEL.predict(MODEL.start(NETWORK), X[:, :2]), r"x must be.*float32\(2,\)"),
    (lambda: FunctionNetwork(1, X), "function must be a function, got int"),  # type: ignore
    (lambda: FunctionNetwork(lambda w: w, X), r"function must be a function of \(weights, x\)"),
    (lambda: FunctionNetwork(lambda w, x: w, Y), "weights must be floating, got int"),
    (
        lambda: FunctionNetwork(lambda w, x: w, {"act": jnp.tanh}),
        r"weights\['act'\] must be floating",
    ),
    (lambda: MODEL.predict(jnp.zeros(3), X), "draws must be positions, dicts with weights"),
]


@pytest.mark.parametrize("make,message", BAD)
def test_bad_input_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_one_output_needs_a_likelihood():
    network = eqx.nn.MLP(3, "scalar", 4, 1, key=KEY)
    with pytest.raises(ValueError, match="network must return the K log odds .* a vector, got"):
        BayesianNetwork(network).log_loss({"weights": network}, (X, Y))
    with pytest.raises(TypeError, match="y must be whole numbers, one an item, got"):
        MODEL.log_loss(MODEL.start(NETWORK), (X, Y.tolist()))


def test_items_of_several_arrays():
    class Pair(eqx.Module):
        linear: eqx.nn.Linear

        def __call__(self, x):
            return self.linear(jnp.concatenate([x["a"], x["b"]]))

    network = Pair(eqx.nn.Linear(3, 1, key=KEY))
    model = BayesianNetwork(network, lambda output, y: -0.5 * jnp.sum((y - output) ** 2))
    together = jax.vmap(network.linear)(X)
    apart = {"a": X[:, :1], "b": X[:, 1:]}
    np.testing.assert_allclose(model.predict(model.start(network), apart), together, rtol=1e-5)
