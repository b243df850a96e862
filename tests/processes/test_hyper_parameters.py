"""A process knows its hyper-parameters from the position; its own are the first values alone."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sgmc_jax.processes import (
    BetaBernoulli,
    DirichletProcess,
    GammaPoisson,
    HierarchicalDirichletProcess,
    PitmanYor,
)
from sgmc_jax.processes.gamma_prior import redraw_concentration
from sgmc_jax.processes.pitman_yor import Sticks

PRIORS = (2.0, 1.5), (3.0, 2.0)
CASES = [
    (PitmanYor(1.0, 0.5, PRIORS[0]), {"concentration": 2.5, "discount": 0.2}),
    (DirichletProcess(1.0, PRIORS[0]), {"concentration": 2.5, "discount": 0.0}),
    (BetaBernoulli(1.0, 3.0, *PRIORS), {"mass": 2.5, "concentration": 0.4}),
    (GammaPoisson(1.0, 3.0, *PRIORS), {"mass": 2.5, "concentration": 0.4}),
    (
        HierarchicalDirichletProcess(1.0, 3.0, *PRIORS),
        {"concentration": 2.5, "group_concentration": 0.4},
    ),
]
GIVEN = {
    "counts": jnp.array([3, 1, 0, 2]),
    "among": jnp.array([True, False, False, True]),
    "end": 5.0,
    "series": Sticks(*jnp.log(jnp.array([[0.4, 0.7, 0.2, 0.5], [0.6, 0.3, 0.8, 0.5]]))),
    "used": jnp.array([True, True, False, False]),
    "num_items": 4,
    "others": jnp.array([1, 2, 3]),
    "lower": jnp.array([0, 0, 1]),
    "u": jnp.linspace(0.01, 0.99, 50),
    "v": jnp.linspace(0.97, 0.02, 50),
    "tables": jnp.array([2, 1, 0, 1]),
    "log_ratio": jnp.array(-0.7),
    "ones": jnp.array(1),
}
KEYS = jax.random.split(jax.random.key(0), 50)  # one Metropolis step tells little of its target


def told_by(method, hyper):
    """What a method says of these hyper-parameters, `None` if it is given none."""
    names = inspect.signature(method).parameters
    if "hyper" not in names:
        return None
    given = {name: GIVEN[name] for name in names if name in GIVEN} | {"hyper": hyper}
    if "key" not in names:
        return method(**given)
    return jax.vmap(lambda key: method(key=key, **given))(KEYS)


@eqx.filter_jit
def all_told(process, hyper):
    names = (name for name in dir(process) if not name.startswith("_"))
    methods = {name: getattr(process, name) for name in names}
    return {name: told_by(x, hyper) for name, x in methods.items() if callable(x)}


@pytest.mark.parametrize("process,hyper", CASES, ids=[type(x).__name__ for x, _ in CASES])
def test_it_is_the_process_of_these_constants(process, hyper):
    hyper = {name: jnp.float32(x) for name, x in hyper.items()}
    constant = eqx.tree_at(lambda p: [getattr(p, x) for x in hyper], process, list(hyper.values()))
    told = all_told(process, hyper)
    assert told["redraw"] is not None
    jax.tree.map(np.testing.assert_array_equal, told, all_told(constant, hyper))


def test_a_concentration_of_no_item_has_its_prior():
    draw = lambda key: redraw_concentration(
        key, jnp.float32(1.0), (2.0, 3.0), jnp.zeros((), int), jnp.zeros((), int)
    )
    drawn = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), 4_000))
    assert stats.kstest(np.asarray(drawn, float), stats.gamma(2.0, scale=1 / 3).cdf).pvalue > 1e-6
