"""The comparators against all fifteen partitions of four points: exact, or as far off as told."""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Vmap, sample
from sgmc_jax.bnp import (
    DirichletProcess,
    NormalKnownCovariance,
    Published,
    asynchronous_mixture,
    auxiliary_mixture,
    hybrid_mixture,
    uncollapsed_mixture,
)
from tests.enumeration.partitions import (
    KEY,
    chains,
    check_partitions,
    exact,
    normal_marginal,
    random_concentration,
    total_variation,
)
from tests.enumeration.test_mixture import NORMAL, PROCESSES, X
from tests.laws.moments import fault_is_seen, wider

pytestmark = pytest.mark.runs_long

AUXILIARY = importlib.import_module("sgmc_jax.bnp.auxiliary_mixture")
DP, DATA = PROCESSES["dp"], X[:, None]
FLAT = NormalKnownCovariance(np.zeros(1), 1e8 * np.eye(1), np.eye(1))
full = pytest.mark.full


def check(kernel, process="dp", **kwargs):
    check_partitions(kernel, exact(PROCESSES[process], normal_marginal, X), DATA, **kwargs)


def check_fails(kernel, process="dp"):
    fault_is_seen(check, kernel, process)


def distance(kernel, num_steps=500):
    """The total variation between the law of the chain and the posterior."""
    values = chains(kernel, DATA, num_steps=num_steps)
    return total_variation(values, exact(DP, normal_marginal, X))[0]


def mean_active(kernel, num_steps=300):
    """E K of 100 items that say nothing."""
    active = lambda state, info: info.active.astype(jnp.float32)
    args = {"num_chains": 64, "num_steps": num_steps, "burn_in": 100}
    return np.mean(sample(KEY, kernel, None, np.zeros((100, 1)), reduce=active, **args).trace.mean)


# -------------------------------------------------------------------------------- exact ones


@pytest.mark.parametrize(
    "process,auxiliary", [("py", 2), *(pytest.param("dp", m, marks=full) for m in (1, 3))]
)
def test_all_partitions_by_auxiliary_components(process, auxiliary):
    check(auxiliary_mixture(PROCESSES[process], NORMAL, auxiliary=auxiliary, capacity=5), process)


@full
def test_auxiliary_components_and_a_random_concentration():
    """Gamma(2, 2), by quadrature."""
    law = random_concentration(2.0, 2.0, normal_marginal, X)
    kernel = auxiliary_mixture(DirichletProcess(1.0, prior=(2.0, 2.0)), NORMAL, capacity=5)
    check_partitions(kernel, law, DATA)


@full
@pytest.mark.at_length
def test_parameters_that_a_lone_point_loses(monkeypatch):
    monkeypatch.setattr(AUXILIARY, "over_rows", lambda rows, x: jnp.zeros((), bool))
    check_fails(auxiliary_mixture(DP, NORMAL, auxiliary=1, capacity=5))


@full
def test_one_asynchronous_block_is_collapsed_sampling():
    check(asynchronous_mixture(DP, NORMAL, blocks=1, capacity=8))


# ------------------------------------------------------------------------- approximate ones


@pytest.mark.parametrize(
    "tail,far",
    [
        (1, 0.168),
        pytest.param(3, 0.056, marks=full),
        pytest.param(10, 0.016, marks=[full, pytest.mark.at_length]),
    ],
)
def test_a_finite_tail_is_not_exact(tail, far):
    kernel = uncollapsed_mixture(DP, NORMAL, tail=tail, capacity=4 + tail)
    assert abs(distance(kernel) - far) < wider(0.005)


@full
def test_a_long_tail_is_nearly_exact():
    assert distance(uncollapsed_mixture(DP, NORMAL, tail=100, capacity=104)) < wider(0.005)


@full
def test_asynchronous_blocks_are_not_exact():
    kernel = asynchronous_mixture(DP, NORMAL, blocks=2, capacity=16)
    assert abs(distance(kernel) - 0.283) < wider(0.005)


@full
@pytest.mark.optimised
def test_the_number_of_clusters_without_data_by_a_finite_tail():
    """As simulated in plain NumPy; with all of the tail it is 5.88."""
    for tail, mean in [(1, 5.33), (3, 5.67)]:
        kernel = uncollapsed_mixture(DP, FLAT, tail=tail, capacity=40)
        assert abs(mean_active(kernel) - mean) < 0.1


@full
@pytest.mark.long
@pytest.mark.optimised
def test_the_number_of_clusters_without_data_by_asynchronous_blocks():
    """Instead of 5.88."""
    found = []
    for blocks, mean in [(2, 7.9), (4, 8.9), (10, 9.4)]:
        kernel = asynchronous_mixture(DP, FLAT, blocks=blocks, capacity=128)
        found.append(mean_active(kernel))
        assert abs(found[-1] - mean) < 0.6
    assert found == sorted(found)


@full
@pytest.mark.long
@pytest.mark.parametrize("blocks, mean", [(2, 3.82), (4, 2.53), (10, 1.65)])
def test_the_number_of_clusters_without_data_by_the_published_schedule(blocks, mean):
    """Instead of 5.88; 6,000 steps in place of 600 have errors of .015, .011 and .009."""
    kernel = hybrid_mixture(DP, FLAT, schedule=Published(), blocks=blocks, capacity=32)
    assert abs(mean_active(kernel, num_steps=700) - mean) < 0.2


def test_atoms_of_a_finite_tail_share_the_concentration(monkeypatch):
    """Gammas of the shapes m_k of clusters, and a / U of U empty atoms."""
    module = importlib.import_module("sgmc_jax.bnp.uncollapsed_mixture")
    monkeypatch.setattr(module, "log_gamma", lambda key, shapes: shapes)
    kernel, counts = uncollapsed_mixture(DP, NORMAL, tail=2), jnp.array([3, 0, 0, 2, 0])
    shapes = kernel._draw_weights(KEY, jnp.float32(1.5), counts)
    np.testing.assert_allclose(shapes, [3, 0.75, 0.75, 2, -np.inf])


# ---------------------------------------------------------------------- capacity and engines


def make(name, capacity=64):
    process, family = DirichletProcess(1.0, prior=(2.0, 1.0)), NORMAL
    return {
        "uncollapsed": lambda: uncollapsed_mixture(process, family, tail=6, capacity=capacity),
        "asynchronous": lambda: asynchronous_mixture(
            process, family, blocks=4, local_sweeps=2, capacity=capacity
        ),
        "auxiliary": lambda: auxiliary_mixture(process, family, capacity=capacity),
    }[name]()


def labels(run):
    return run.trace.local["assignment"]


def points():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 0.5, size=(7, 1)) for c in (-4.0, 0.0, 4.0)])


NAMES = ["uncollapsed", "asynchronous", "auxiliary"]


@full
@pytest.mark.parametrize("name,few", [("uncollapsed", 8), ("asynchronous", 8), ("auxiliary", 3)])
def test_the_chain_does_not_depend_on_the_capacity(name, few, x64):
    runs = [sample(KEY, make(name, slots), None, points(), num_steps=40) for slots in (few, 64)]
    assert runs[0].capacity > few and not runs[0].info.overflow.any()
    assert len(np.unique(labels(runs[1])[-1])) > 1
    assert np.array_equal(*map(labels, runs))


@full
@pytest.mark.parametrize("name", NAMES[:2])
def test_the_same_chain_on_shards(name, x64):
    args = {"num_steps": 40}
    alone = sample(KEY, make(name), None, points(), **args)
    assert len(np.unique(labels(alone), axis=0)) > 1
    shared = sample(KEY, make(name), None, points(), engine=Vmap(2), **args)
    assert np.array_equal(labels(alone), labels(shared))


def test_bad_input():
    with pytest.raises(TypeError, match="process must be a DirichletProcess, got PitmanYor"):
        uncollapsed_mixture(PROCESSES["py"], NORMAL, tail=3)
    with pytest.raises(ValueError, match="tail must be a whole number of at least 1, got 0"):
        uncollapsed_mixture(DP, NORMAL, tail=0)
    with pytest.raises(ValueError, match="blocks must be a whole number"):
        asynchronous_mixture(DP, NORMAL, blocks=0)
    with pytest.raises(ValueError, match="auxiliary must be a whole number"):
        auxiliary_mixture(DP, NORMAL, auxiliary=0)
    for make_one in (uncollapsed_mixture, asynchronous_mixture, auxiliary_mixture):
        number = {uncollapsed_mixture: "tail", asynchronous_mixture: "blocks"}.get(make_one)
        arguments = {number: 2} if number else {}
        with pytest.raises(TypeError, match="family must be"):
            make_one(DP, None, **arguments)
        with pytest.raises(ValueError, match="data"):
            sample(KEY, make_one(DP, NORMAL, **arguments), None, np.zeros((4, 3)), num_steps=1)
    with pytest.raises(ValueError, match="blocks must be a multiple of the engine's 2 shards"):
        sample(KEY, make("auxiliary"), None, DATA, num_steps=1, engine=Vmap(2))
