"""A neural network with two layers, and networks of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from .. import _checks, _returned
from .._functions import must_take


class TwoLayerNetwork(eqx.Module):
    """The network `x -> second_bias + second' activation(first_bias + first' x)`.

    Args:
        key: a random key, for the weights to begin from: N(0, 1/inputs) and N(0, 1/hidden), biases
            zero.
        inputs: the length of x.
        hidden: the number of hidden units.
        outputs: the number of outputs, of classes for instance.
        activation: of all hidden units at once, `(hidden,) -> (hidden,)`: `jax.nn.softmax`, as
            published, or `jax.nn.sigmoid`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> network = TwoLayerNetwork(jax.random.key(0), 5, 4, 3, activation=jax.nn.sigmoid)
        >>> network(jnp.ones(5)).shape
        (3,)

    Reference:
        Nemeth and Fearnhead (2021), Stochastic gradient Markov chain Monte Carlo, equation 14: B,
        b, A and a are `first`, `first_bias`, `second` and `second_bias`. Chen, Fox and Guestrin
        (2014), whose network it is, have sigmoids.
    """

    first: Float[Array, "inputs hidden"]
    first_bias: Float[Array, " hidden"]
    second: Float[Array, "hidden outputs"]
    second_bias: Float[Array, " outputs"]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        key: Any,
        inputs: int = 784,
        hidden: int = 100,
        outputs: int = 10,
        activation: Callable = jax.nn.softmax,
    ):
        _checks.random_key(key)
        for name, number in (("inputs", inputs), ("hidden", hidden), ("outputs", outputs)):
            _checks.whole(name, number)
        must_take(activation, "activation", ("x",))
        first, second = jax.random.split(key)
        self.first = jax.random.normal(first, (inputs, hidden)) / jnp.sqrt(inputs)
        self.first_bias = jnp.zeros(hidden)
        self.second = jax.random.normal(second, (hidden, outputs)) / jnp.sqrt(hidden)
        self.second_bias = jnp.zeros(outputs)
        self.activation = activation

    def __call__(self, x: Shaped[Array | np.ndarray, " inputs"]) -> Float[Array, " outputs"]:
        _checks.shaped("x", x, len(self.first))
        inner = self.first_bias + x @ self.first
        outer = self.activation(inner)
        _returned.like("activation", outer, inner, "the hidden units")
        return self.second_bias + outer @ self.second


class FunctionNetwork(eqx.Module):
    """The network of a function of weights, such as `apply` of a module of Flax or Haiku.

    Args:
        function: `(weights, x) -> outputs` for the x of one item.
        weights: any pytree of floating arrays, such as `module.init(key, x)` returns. What shall
            not be sampled, such as running means, is the function's own to hold.

    Raises:
        TypeError: if it is no such function, or a leaf of the weights no floating array.

    Example: with Flax it is `FunctionNetwork(module.apply, module.init(key, x))`.
        >>> import jax.numpy as jnp
        >>> linear = lambda weights, x: x @ weights["kernel"] + weights["bias"]
        >>> weights = {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}
        >>> FunctionNetwork(linear, weights)(jnp.ones(2)).tolist()
        [2.0, 2.0, 2.0]
    """

    function: Callable = eqx.field(static=True)
    weights: PyTree

    def __check_init__(self):
        must_take(self.function, "function", ("weights", "x"))
        _checks.floating("weights", self.weights)

    def __call__(self, x: PyTree) -> PyTree:
        return self.function(self.weights, x)
