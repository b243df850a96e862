"""Modules of Flax: their parameters as a position, and in a `BayesianNetwork`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import FunctionModel, Minibatch, Uniform, sample, sghmc
from sgmc_jax.models import BayesianNetwork, FunctionNetwork

linen = pytest.importorskip("flax.linen")
nnx = pytest.importorskip("flax.nnx")

KEY = jax.random.key(3)
X = jnp.linspace(-2, 2, 12)[:, None]
Y = jnp.sin(3 * X[:, 0])
MLP = linen.Sequential([linen.Dense(5), linen.tanh, linen.Dense(1)])
START = MLP.init(KEY, X[0])


def by_hand(p, x):
    first, second = p["params"]["layers_0"], p["params"]["layers_2"]
    hidden = jnp.tanh(x @ first["kernel"] + first["bias"])
    return hidden @ second["kernel"] + second["bias"]


def chain(apply, start):
    prior = lambda p: -0.5 * sum(jnp.sum(w**2) for w in jax.tree.leaves(p))
    model = FunctionModel(prior, lambda p, z: -5.0 * (z[1] - apply(p, z[0])[0]) ** 2)
    kernel = sghmc(Minibatch(model, Uniform(4)), 0.01, friction=5.0)
    return sample(KEY, kernel, start, (X, Y), num_steps=6, num_chains=2)


def same(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_parameters_of_linen_are_a_position():
    run = chain(MLP.apply, START)
    assert run.trace["params"]["layers_0"]["kernel"].shape == (2, 6, 1, 5)
    same(run.trace, chain(by_hand, START).trace)
    assert len(run.summary().columns["mean"]) == 16


class Network(nnx.Module):
    def __init__(self, rngs):
        self.layers_0 = nnx.Linear(1, 5, rngs=rngs)
        self.layers_2 = nnx.Linear(5, 1, rngs=rngs)

    def __call__(self, x):
        return self.layers_2(nnx.tanh(self.layers_0(x)))


def test_parameters_of_nnx_are_a_position():
    graph, start = nnx.split(Network(nnx.Rngs(0)))
    plain = {"params": nnx.to_pure_dict(start)}
    expected = chain(by_hand, plain).trace
    same(chain(lambda p, x: nnx.merge(graph, p)(x), start).trace, expected)


def test_a_bayesian_network_of_a_module():
    runs = []
    for apply in (MLP.apply, by_hand):
        network = FunctionNetwork(apply, START)
        model = BayesianNetwork(network, lambda output, y: -5.0 * (y - output[0]) ** 2)
        kernel = sghmc(Minibatch(model, Uniform(4)), 0.01, friction=5.0)
        run = sample(KEY, kernel, model.start(network), (X, Y), num_steps=6)
        runs.append((run.trace, model.predict(run.trace, X)))
    same(*runs)
    assert runs[0][1].shape == (12, 1)


def test_a_module_itself_is_refused():
    with pytest.raises(TypeError, match="position must be the parameters of Sequential.*`init`"):
        chain(MLP.apply, MLP)
    with pytest.raises(TypeError, match=r"FunctionNetwork\(apply, weights\)"):
        BayesianNetwork(MLP)
