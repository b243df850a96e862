"""What the tables of good calls share: a call, the data, and what is made of a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sgmc_jax as s
from sgmc_jax import (
    _checks,
    bnp,
)
from sgmc_jax.runner.stream import open_data

X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.float32)
COUNTS = np.random.default_rng(1).integers(0, 4, (20, 3)).astype(np.int32)
TOPICS = np.full((2, 3), 1 / 3, np.float32)


class Call(NamedTuple):
    """A function with arguments that it takes, and what is done with the result."""

    function: Callable
    arguments: dict[str, Any]
    use: Callable[[Any, dict[str, Any]], Any] = lambda result, held: result
    held: dict[str, Any] = {}  # spoilt too, for `use` alone
    of: Any = None  # the public function that it calls, if it is another

    @property
    def called(self) -> Any:
        """The public function that it is a call of."""
        return self.function if self.of is None else self.of


def prior(position):
    return -0.5 * jnp.sum(position**2)


def loglik(position, item):
    return -0.5 * jnp.sum((item - position) ** 2)


def density(position, items):
    return prior(position) - 2 * jnp.sum((items - position) ** 2)


def model() -> s.Model:
    return s.FunctionModel(prior, loglik)


def minibatch() -> s.Minibatch:
    return s.Minibatch(model(), s.Uniform(5))


def on_sphere() -> s.Minibatch:
    return s.Minibatch(s.FunctionModel(lambda x: jnp.sum(x), loglik), s.Uniform(5))


def run(kernel: Any, held: dict[str, Any]) -> Any:
    """The check at the door of `sample`, then `init` and `step` as the runner traces them."""
    position, data = held["position"], open_data(held["data"], 0, 1).first
    _checks.arrays("position", position)
    _checks.finite("position", position)
    position = jax.tree.map(jnp.asarray, position)
    kernel.check(position, data)

    def both(key, data):
        return kernel.step(key, kernel.init(key, position, data), data)

    return jax.eval_shape(both, jax.random.key(0), data)


def estimate(grad: Any, held: dict[str, Any]) -> Any:
    return run(s.sgld(grad, 0.01), held)


FLAT = {"position": np.zeros(2, np.float32), "data": X}
ROUND = {"position": np.array([1, 0], np.float32), "data": X}
POSITIVE = {"position": np.ones(2, np.float32), "data": X}
WEIGHTS = {"position": np.full((2, 3), 1 / 3, np.float32), "data": COUNTS}
POINTS = {"position": None, "data": X}
COUNTED = {"position": None, "data": COUNTS}


def groups() -> bnp.Groups:
    return bnp.Groups(COUNTS[:4, :3], np.full(4, 3, np.int32))


def full() -> s.Minibatch:
    return s.Minibatch(model(), s.Full())


def shapes() -> s.Minibatch:
    """The estimator of a gamma law's shapes."""
    return s.Minibatch(s.Summand(jnp.full((2, 3), 0.5), count), s.Uniform(5))


def count(position, item):
    return jnp.ones((2, 3))
