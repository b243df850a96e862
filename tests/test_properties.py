"""What holds for any positions, shapes, numbers of steps and labels, on examples found by search.

The search is derandomised: a run sees the same examples as the last one.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from jax.flatten_util import ravel_pytree

from sgmc_jax import (
    EmpiricalFisher,
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    Uniform,
    draw,
    hmc,
    mala,
    psgld,
    sample,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.bnp import point_estimate, similarity
from sgmc_jax.diagnostics import ess, rhat
from sgmc_jax.runner.programs import programs

pytestmark = pytest.mark.full
KEY = jax.random.key(0)
MODEL = FunctionModel(lambda x: -0.5 * ravel_pytree(x)[0] @ ravel_pytree(x)[0])


def searched(num):
    return settings(max_examples=num, deadline=None, derandomize=True)


# ------------------------------------------------------------------- positions of any structure

SHAPES = st.one_of(st.just(()), array_shapes(max_dims=3, max_side=3))
NUMBERS = st.floats(-2, 2, width=32)
LEAVES = SHAPES.flatmap(lambda shape: arrays(np.float32, shape, elements=NUMBERS))
POSITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=2),
    ),
    max_leaves=4,
)
DOUBLES = SHAPES.flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-2, 2, width=64))
)
KERNELS = {
    "sgld": lambda grad: sgld(grad, 1e-2),
    "sghmc": lambda grad: sghmc(grad, 0.1),
    "sgnht": lambda grad: sgnht(grad, 0.1),
    "empirical Fisher": lambda grad: sghmc(EmpiricalFisher(grad), 0.1),
    "mala": lambda grad: mala(Minibatch(grad.model, Full()), 0.1),
    "hmc": lambda grad: hmc(Minibatch(grad.model, Full()), 0.1, 2),
}


@pytest.mark.parametrize("name", KERNELS)
@given(position=POSITIONS)
@searched(8)
def test_a_position_is_any_tree(name, position):
    check_any_tree(name, position)


@pytest.mark.parametrize("name", KERNELS)
def test_each_leaf_has_a_dtype_of_its_own(name, x64):
    @given(single=LEAVES, double=DOUBLES)
    @searched(4)
    def search(single, double):
        check_any_tree(name, {"single": single, "both": (double, single)})

    search()


def check_any_tree(name, position):
    """Draws have the structure, shapes and dtypes of the position; chains lead, then draws."""
    model = FunctionModel(
        MODEL.logprior, lambda x, y: -0.5 * jnp.sum((ravel_pytree(x)[0] - y) ** 2)
    )
    kernel, data = KERNELS[name](Minibatch(model, Uniform(2))), np.arange(5, dtype=np.float32)
    args = {"num_steps": 3, "num_chains": 2, "position_axis": None}
    run = sample(KEY, kernel, position, data, **args)
    assert jax.tree.structure(run.trace) == jax.tree.structure(position)
    for draws, leaf in zip(jax.tree.leaves(run.trace), jax.tree.leaves(position), strict=True):
        assert draws.shape == (2, 3, *leaf.shape) and draws.dtype == leaf.dtype
        assert np.isfinite(draws).all()
    programs.cache_clear()  # of shapes that do not come again


COLD = {
    "sghmc": partial(sghmc, friction=1.0, temperature=0.0),
    "psgld": partial(psgld, temperature=0.0),
}


@pytest.mark.parametrize("name", COLD)
@given(position=POSITIONS, h=st.floats(0.01, 0.3), steps=st.integers(1, 4))
@searched(15)
def test_a_tree_moves_as_its_numbers_do(name, position, h, steps):
    """Without noise the path of a tree is that of the vector of all its numbers."""
    flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, position))
    kernel = COLD[name](Minibatch(MODEL, Full()), h)
    args = {"num_steps": steps, "burn_in": steps - 1}
    tree = sample(KEY, kernel, position, None, **args).trace
    vector = sample(KEY, kernel, flat, None, **args).trace
    expected = unravel(jnp.asarray(vector[0]))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x[0], y, atol=1e-6), tree, expected)
    programs.cache_clear()


# ------------------------------------------------------------------------ any numbers of steps


class State(NamedTuple):
    position: jax.Array


COUNTER = Kernel.from_functions(
    lambda key, position, data: State(position),
    lambda key, state, data: (State(state.position + 1), None),
)


@given(
    kept=st.integers(1, 5),
    thin=st.integers(1, 4),
    burn_in=st.integers(0, 9),
    chunk=st.integers(1, 30),
    num_chains=st.sampled_from([None, 1, 3]),
)
@searched(25)
def test_what_a_run_keeps(kept, thin, burn_in, chunk, num_chains):
    """Draw i is the state after burn_in + (i + 1) thin steps, however they are cut into chunks."""
    num_steps = burn_in + kept * thin
    args = {"num_steps": num_steps, "burn_in": burn_in, "thin": thin, "num_chains": num_chains}
    run = sample(KEY, COUNTER, jnp.zeros(()), None, chunk=chunk, **args)
    expected = burn_in + thin * (1 + np.arange(kept))
    np.testing.assert_array_equal(run.trace, np.broadcast_to(expected, run.trace.shape))
    assert run.trace.shape == ((kept,) if num_chains is None else (num_chains, kept))
    assert run.num_steps == num_steps


@given(num=st.integers(1, 40), split=st.integers(1, 39), chunk=st.integers(1, 20))
@searched(12)
def test_a_run_in_two_parts(num, split, chunk):
    """The draws of a run that goes on are those of one."""
    kernel = draw(lambda key, data: jax.random.normal(key, (2,)))
    go = lambda position, steps: sample(KEY, kernel, position, None, num_steps=steps, chunk=chunk)
    first = go(jnp.zeros(2), split)
    np.testing.assert_array_equal(
        first.extend(go(first, num)).trace, go(jnp.zeros(2), split + num).trace
    )


# ------------------------------------------------------------------------------- any partitions

LABELS = st.tuples(st.integers(1, 8), st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.int32, shape, elements=st.integers(0, 5))
)


@given(labels=LABELS, names=st.permutations(range(6)))
@searched(40)
def test_partitions_do_not_know_the_names_of_clusters(labels, names):
    together = np.mean(labels[:, :, None] == labels[:, None, :], axis=0)
    renamed = np.asarray(names, np.int32)[labels]
    np.testing.assert_allclose(similarity(labels), together, atol=1e-6)
    np.testing.assert_allclose(similarity(renamed), together, atol=1e-6)
    for loss in ("binder", "vi"):
        one, expected = point_estimate(labels, loss=loss)
        other, same = point_estimate(renamed, loss=loss)
        assert expected == pytest.approx(same, abs=1e-5)
        assert sorted(set(np.asarray(one).tolist())) == list(range(int(one.max()) + 1))
        own = np.mean([distance(one, draw, loss) for draw in labels])
        assert own == pytest.approx(float(expected), abs=1e-4)
        assert (
            own
            <= min(np.mean([distance(other, draw, loss) for draw in labels]) for other in labels)
            + 1e-4
        )  # as good as the best of the draws


def distance(x, y, loss):
    """Between two partitions, by their definitions."""
    x, y = np.asarray(x), np.asarray(y)
    if loss == "binder":
        differ = (x[:, None] == x) != (y[:, None] == y)
        return np.mean(differ)
    table = np.array([[np.mean((x == i) & (y == j)) for j in range(6)] for i in range(x.max() + 1)])
    entropy = lambda p: -np.sum(p[p > 0] * np.log(p[p > 0]))
    return 2 * entropy(table) - entropy(table.sum(0)) - entropy(table.sum(1))


# ------------------------------------------------------------------------------ any draws


@given(
    draws=arrays(np.int64, (4, 40), elements=st.integers(-4_000, 4_000), unique=True),
    order=st.permutations(range(4)),
    scale=st.sampled_from([2.0**-10, -1.0, 2.0**13]),  # exact, or ties would be broken
)
@searched(25)
def test_diagnostics_do_not_know_units_or_the_order_of_chains(draws, order, scale):
    other = (scale * (draws[list(order)] - 17)).astype(np.float32)
    draws = draws.astype(np.float32)
    for diagnostic in (ess, rhat):
        np.testing.assert_allclose(diagnostic(draws), diagnostic(other), rtol=2e-3)
