"""What the tests of wrong functions have in common."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    FunctionModel,
)

KEY = jax.random.key(0)
ZERO = jnp.zeros(2)
X = jnp.asarray(np.random.default_rng(0).normal(size=(40, 2)), jnp.float32)
PAIRS = (X, X[:, 0])


class Case(NamedTuple):
    name: str
    make: Callable[[], Any]
    message: str  # a pattern
    error: type = TypeError


def trace(kernel, position=ZERO, data=X):
    """`init` and `step` as the runner traces them, without a run."""

    def both(key, position, data):
        state = kernel.init(key, position, data)
        return kernel.step(key, state, data)

    return jax.eval_shape(both, KEY, position, data)


def prior(x):
    return -0.5 * x @ x


def loglik(x, z):
    return -0.5 * (z - x) @ (z - x)


of_vector = lambda x, z: loglik(x, z)[None]
VECTOR = FunctionModel(prior, of_vector)
ONE = r"must return one floating number, of shape \(\), got "
LIKE = r"must have the structure and the shapes of "


def check(case: Case):
    """The case raises, with a message of ours."""
    with pytest.raises(case.error, match=re.compile(case.message, re.DOTALL)) as caught:
        case.make()
    assert len(str(caught.value)) < 400, "the message is one of ours, not of the machinery"
