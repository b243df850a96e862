"""Functions are told apart by all that they refer to, and called as they are, of whatever kind."""

import functools
import operator
import os
import subprocess
import sys
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pandas as pd
import pytest

from sgmc_jax import FunctionModel, Minibatch, Uniform, gibbs, sample, sgld
from sgmc_jax.checkpoint import fingerprint
from sgmc_jax.models import LogisticRegression
from sgmc_jax.runner.code import code_of

ROOT = Path(__file__).resolve().parents[1]


class Law(eqx.Module):
    scale: Any
    fixed: Any = eqx.field(static=True, default=None)


def a_class(scale):
    """A class of one name, with a constant."""
    return type("Settings", (), {"scale": scale, "__module__": __name__})


def a_function(power):
    def own(x):
        return x**own.power

    own.power = power
    return own


def with_own_derivative(factor):
    function = jax.custom_vjp(lambda x: x)
    function.defvjp(lambda x: (x, None), lambda _, g: (factor * g,))
    return function


def with_a_cached_property(factor):
    kind = a_class(1.0)
    kind.twice = functools.cached_property(lambda self: factor * self.scale)
    return kind()


def a_class_with(method):
    kind = a_class(1.0)
    kind.method = method
    return kind


class OwnFrame:
    def __init__(self, scale):
        self.scale = scale

    def to_numpy(self, needed):
        raise AssertionError


CAPTURED = {
    "leaf": Law,
    "array": lambda scale: Law(jnp.full(3, scale)),
    "static field": lambda scale: Law(1.0, scale),
    "static functions": lambda scale: Law(1.0, ({"a": lambda x: scale * x},)),
    "jitted function": lambda scale: eqx.filter_jit(lambda x: scale * x),
    "numpyro's law": lambda scale: dist.Normal(0.0, scale),
    "class": a_class,
    "object of a class": lambda scale: a_class(scale)(),
    "cached property": with_a_cached_property,
    "function with an attribute": a_function,
    "derivative": with_own_derivative,
    "partial": lambda scale: functools.partial(pow, mod=scale),
    "name of an argument": lambda scale: functools.partial(max, **{f"a{scale}": 1}),
    "getter": lambda scale: operator.attrgetter(f"a{scale}"),
    "fraction": lambda scale: Fraction(scale),
    "jitted method": lambda scale: a_class_with(jax.jit(lambda self, x: scale * x)),
    "frame of a user's own": lambda scale: OwnFrame(scale),
    "frame": lambda scale: pd.DataFrame({"a": [scale, 0.0]}),
}


@pytest.mark.parametrize("kind", CAPTURED)
def test_all_of_what_a_function_has_captured_is_its_own(kind):
    """Of a pytree, say, whose functions alone were told: the numbers of a kernel are told apart."""
    function = lambda value: lambda x: value
    once, again, other = (code_of(function(CAPTURED[kind](v))) for v in (1.0, 1.0, 2.0))
    assert once == again != other


@pytest.mark.parametrize("change", ["prior", "batch"])
def test_what_a_gibbs_block_has_captured_is_of_the_run(tmp_path, change):
    """The run went on, with the posterior of another prior."""

    def run(num_steps, scale=1.0, size=5):
        model, batcher = LogisticRegression(scale), Uniform(size)
        kernel = gibbs(w=lambda rest: sgld(Minibatch(model, batcher), 1e-3))
        args = {"num_steps": num_steps, "checkpoint": tmp_path}
        data = jnp.ones((20, 2)), jnp.arange(20) % 2
        return sample(jax.random.key(0), kernel, {"w": jnp.zeros(2)}, data, **args)

    run(4)
    assert run(6).num_steps == 6
    with pytest.raises(ValueError, match="with another code of functions"):
        run(8, **{"prior": {"scale": 3.0}, "batch": {"size": 6}}[change])


class Tempered:
    def __init__(self, func, power, args=(1.0,)):
        self.func, self.power, self.args = func, power, args

    def __call__(self, x):
        return self.power * self.func(x)


def decorated(func):
    def wrapper(x):
        return 0.5 * func(x)

    wrapper.func = func
    return wrapper


@pytest.mark.parametrize("make", [lambda f: Tempered(f, 0.1), decorated])
def test_a_callable_with_attributes_of_a_partial_is_itself(make):
    """Another density was sampled, that of what it had for its `func`."""
    function = make(lambda x: -0.5 * x**2)
    assert FunctionModel(function).logprior(3.0) == function(3.0)


class Pair:
    """A pytree of a user's own, of two static numbers."""

    def __init__(self, *numbers):
        self.numbers = numbers


jax.tree_util.register_pytree_node(Pair, lambda x: ((), x.numbers), lambda own, _: Pair(*own))
ALIKE = {
    "where one ends": [Law(1.0, ("1", "12")), Law(1.0, ("11", "2")), Law(1.0, ("112",))],
    "what holds them": [Law(1.0, (1,)), Law(1.0, frozenset([1])), Law(1.0, ((1,),)), Law(1.0, 1)],
    "which is empty": [Law(1.0, ()), Law(1.0, None), Law(1.0, ((), ()))],
    "their order": [Pair(2, 3), Pair(3, 2)],
    "their names": [OrderedDict(a=1, b=2), OrderedDict(b=1, a=2)],
    "the parts of laws": [dist.Normal(2.0, 1.0), dist.Normal(1.0, 2.0)],
}


@pytest.mark.parametrize("what", ALIKE)
def test_trees_that_differ_in_what_is_static_are_told_apart(what):
    trees = ALIKE[what]
    assert len({fingerprint(tree=tree)["tree"] for tree in trees}) == len(trees)
    assert len({tuple(code_of(lambda x, tree=tree: tree)) for tree in trees}) == len(trees)


HASHED = """
import jax.numpy as jnp, numpyro.distributions as dist
from sgmc_jax import FunctionModel, Minibatch, Model, Uniform, sgld
from sgmc_jax.checkpoint import fingerprint
from sgmc_jax.runner.code import code_of

class Own(Model):
    prior: dist.Distribution
    others: object = (
        *(dist.Gamma(2.0, 3.0), dist.Beta(2.0, 3.0), dist.StudentT(3.0, 1.0, 2.0)),
        dist.Normal(jnp.zeros(2), 1.0).to_event(1),
    )

    def logprior(self, x):
        return self.prior.log_prob(x)

    def loglik(self, x, y):
        return -(x - y)**2

kernel, other = (sgld(Minibatch(Own(dist.Normal(0.0, s)), Uniform(3)), 0.1) for s in (1.0, 2.0))
assert fingerprint(kernel=kernel) != fingerprint(kernel=other)
print(fingerprint(kernel=kernel), code_of(lambda x: kernel), code_of(kernel))
functions = {abs, len, (lambda x: x), (lambda x: 2 * x)}
print(code_of(lambda x: functions))
"""


@pytest.mark.full
def test_a_law_of_numpyro_is_the_same_in_any_process():
    """What is static in it has another order in each, and no run of such a model went on there."""

    def told(seed):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        args = [sys.executable, "-c", HASHED]
        return subprocess.run(args, env=env, capture_output=True, text=True, check=True).stdout

    assert len({told(seed) for seed in "1234"}) == 1
