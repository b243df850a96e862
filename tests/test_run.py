"""A run as ArviZ sees it: every leaf, under a name of its own."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Full, FunctionModel, Kernel, Minibatch, draw, gibbs, sample, sgld
from sgmc_jax.run import RunInfo

pytest.importorskip("arviz_base")
KEY = jax.random.key(0)


def flat(position):
    return -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(position))


EXACT = Minibatch(FunctionModel(flat), Full())


def tree_of(position, kernel=None, **kwargs):
    kernel = sgld(EXACT, 1e-2) if kernel is None else kernel
    return sample(KEY, kernel, position, None, num_steps=4, **kwargs).to_arviz()


def test_layers_of_a_network_are_kept():
    layer = {"kernel": jnp.zeros((3, 2)), "bias": jnp.zeros(2)}
    tree = tree_of({"params": {"Dense_0": layer, "Dense_1": layer}}, num_chains=2)
    names = [f"params.Dense_{i}.{leaf}" for i in (0, 1) for leaf in ("bias", "kernel")]
    assert sorted(tree.posterior.data_vars) == names
    assert tree.posterior["params.Dense_0.kernel"].shape == (2, 4, 3, 2)
    assert sorted(tree.sample_stats.data_vars) == ["excess_temperature", "finite", "gradient_norm"]


def test_paths_of_one_name_are_kept_apart():
    position = {"a": {"b": jnp.zeros(1)}, "a.b": jnp.zeros(2), "a.b_1": jnp.zeros(3)}
    shapes = {name: x.shape[2:] for name, x in tree_of(position).posterior.data_vars.items()}
    assert sorted(shapes.values()) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("name", ["kernel", "chain", "draw"])
def test_a_name_of_a_dimension_is_numbered(name):
    kernels = eqx.filter_vmap(lambda h: sgld(EXACT, h))(jnp.array([0.1, 0.2, 0.3]))
    tree = tree_of({name: jnp.zeros(5)}, kernels, num_chains=2, kernel_axis=0)
    assert tree.posterior[f"{name}_1"].shape == (2, 4, 3, 5)


class State(NamedTuple):
    position: jax.Array


class Info(NamedTuple):
    finite: jax.Array
    kernel: jax.Array


class Numbered(NamedTuple):
    count: int
    index: int


def test_fields_that_have_the_names_of_a_tuples_methods():
    info = RunInfo(True, Numbered(3, 7))
    assert (info.count, info.index) == (3, 7)


def test_an_info_may_have_fields_of_the_wrapper():
    def step(key, state, data):
        return state, Info(jnp.full(2, 7.0), {"kernel": jnp.ones(3)})

    kernel = Kernel.from_functions(lambda key, position, data: State(position), step)
    stats = tree_of(jnp.zeros(2), kernel).sample_stats
    assert stats["finite"].dtype == bool
    assert np.all(stats["finite_1"] == 7.0)
    assert stats["kernel.kernel"].shape == (1, 4, 3)


def test_an_info_that_is_an_array_has_a_name():
    def step(key, state, data):
        return state, jnp.ones(3)

    kernel = Kernel.from_functions(lambda key, position, data: State(position), step)
    assert sorted(tree_of(jnp.zeros(2), kernel).sample_stats.data_vars) == ["finite", "x"]


def test_the_infos_of_blocks_are_attributes():
    kernel = gibbs(
        x=lambda rest: sgld(EXACT, 1e-2), y=lambda rest: draw(lambda key, data: rest["x"])
    )
    run = sample(KEY, kernel, {"x": jnp.zeros(2), "y": jnp.zeros(2)}, None, num_steps=4)
    assert run.info.x.gradient_norm.shape == run.info.finite.shape == (4,)
    with pytest.raises(AttributeError, match="z"):
        _ = run.info.z
