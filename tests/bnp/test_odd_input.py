"""What may be odd about items, groups and positions: precisions, padding, emptied clusters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Dist,
    Full,
    FunctionModel,
    Minibatch,
    cycle,
    draw,
    gibbs,
    hmc,
    repeat,
    sample,
    thin,
)
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    DirichletCategorical,
    DirichletProcess,
    GammaProcess,
    Groups,
    HierarchicalDirichletProcess,
    LinearGaussian,
    NormalGamma,
    NormalInverseWishart,
    NormalKnownCovariance,
    bondesson,
    collapsed_hdp,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_bnb,
    slice_crm,
    slice_mixture,
)
from sgmc_jax.processes import Bernoulli

KEY, FAMILY = jax.random.key(0), NormalGamma(1)
SIZE = np.array([3, 2, 1, 3, 2, 1])
X = np.random.default_rng(0).normal(size=(6, 3, 1)).astype(np.float32)
PRESENT = np.arange(3) < SIZE[:, None]
HDP = HierarchicalDirichletProcess(1.0, 1.0)
GROUPED = {
    "hdp": lambda: hybrid_hdp(HDP, FAMILY),
    "bnb": lambda: slice_bnb(BetaProcess(1.0, 1.1), FAMILY, capacity=64),
}


@pytest.mark.parametrize("name", GROUPED)
def test_what_lies_past_a_groups_size_is_ignored(name):
    labels = []
    for filling in (0.0, np.nan):
        groups = Groups(np.where(PRESENT[..., None], X, filling).astype(np.float32), SIZE)
        run = sample(KEY, GROUPED[name](), None, groups, num_steps=15)
        labels.append(run.trace.local["assignment"][:, PRESENT])
        assert run.stopped == -1
    assert np.array_equal(*labels)


def test_a_chain_whose_sums_are_not_finite_is_flagged():
    """A hyper-parameter may be finite while no cluster is."""
    kernel = hybrid_mixture(DirichletProcess(1.0), NormalGamma(1))
    state = kernel.init(KEY, None, jnp.asarray(X[:, 0]))
    broken = jax.tree.map(lambda x: x + jnp.nan, state.sums.statistics)
    assert kernel.finite(state)
    assert not kernel.finite(state._replace(sums=state.sums._replace(statistics=broken)))


MIXTURE = hybrid_mixture(DirichletProcess(1.0), NormalGamma(1))
HMC = hmc(Minibatch(FunctionModel(lambda x: -0.5 * x**2), Full()), 0.3, 2)
AROUND = {
    "thin": (thin(MIXTURE, 2), None, lambda state: state.sums.statistics),
    "cycle": (cycle(MIXTURE, MIXTURE), None, lambda state: state.states[0].sums.statistics),
    "gibbs": (
        gibbs(z=lambda rest: repeat(MIXTURE, 2)),
        {"z": None},
        lambda state: state.blocks["z"].sums.statistics,
    ),
    "metropolis": (HMC, jnp.zeros(()), lambda state: state.inner.momentum),
}


@pytest.mark.parametrize("name", AROUND)
def test_combinators_ask_their_kernels_whether_a_chain_may_go_on(name):
    kernel, position, part = AROUND[name]
    state = kernel.init(KEY, position, jnp.asarray(X[:, 0]))
    broken = eqx.tree_at(part, state, jax.tree.map(lambda x: x + jnp.nan, part(state)))
    assert kernel.finite(state) and not kernel.finite(broken)


@pytest.mark.parametrize("make", [hybrid_mixture, slice_mixture], ids=["hybrid", "slice"])
def test_items_of_single_precision_under_hyper_parameters_of_double(make, x64):
    settings = {"blocks": 2} if make is hybrid_mixture else {}
    kernel = make(DirichletProcess(1.0), NormalInverseWishart(1), **settings)
    run = sample(KEY, kernel, None, jnp.asarray(X[:, 0], jnp.float32), num_steps=3)
    assert run.stopped == -1


def test_the_mass_of_a_block_of_gibbs_is_the_one_it_is_given():
    kernel = gibbs(
        a=lambda rest: draw(lambda key, data: jax.random.uniform(key, minval=0.1)),
        z=lambda rest: slice_bnb(BetaProcess(rest["a"], 1.1), FAMILY, capacity=64),
    )
    start = {"a": jnp.array(0.3), "z": Dist({"mass": jnp.array(9.0)}, {"assignment": 0 * PRESENT})}
    trace = sample(KEY, kernel, start, Groups(X, SIZE), num_steps=6).trace
    assert np.array_equal(trace["a"], trace["z"].shared["mass"]) and len(set(trace["a"])) == 6


@pytest.mark.full
def test_the_sums_of_an_emptied_cluster_are_zero():
    """What rounding leaves of them would be part of the next one's."""
    far = 10 * np.random.default_rng(1).normal(size=(60, 1)).astype(np.float32)
    kernel = slice_mixture(DirichletProcess(1.0), NormalInverseWishart(1), batch_size=7)
    record = lambda state, info: (state.sums.counts, state.sums.statistics)
    labels = jnp.arange(60) % 12
    counts, statistics = sample(KEY, kernel, labels, far, num_steps=60, record=record).trace
    empty = counts == 0
    assert np.any(empty[1:] & (counts[:-1] > 0))
    assert all(not np.any(x[empty]) for x in jax.tree.leaves(statistics))


@pytest.mark.parametrize("make", [hybrid_hdp, collapsed_hdp])
def test_sizes_of_bytes_are_those_sizes(make):
    """A loop ended at one, and its index was none."""
    items, kernel = np.array([[0, 1, 2], [2, 2, 0]]), make(HDP, DirichletCategorical(0.5, size=3))
    chain = lambda dtype: sample(
        KEY, kernel, None, Groups(items, np.array([3, 2], dtype)), num_steps=3
    ).trace.local["assignment"]
    np.testing.assert_array_equal(chain(np.uint8), chain(np.int32))


def test_groups_of_lists_have_the_type_that_holds_them_all():
    assert Groups.from_list([[1, 2], [0.5, 0.7]]).items.tolist() == [[1, 2], [0.5, 0.7]]
    words = Groups.from_list([[], [3, 1]])
    assert words.items.dtype.kind == "i" and words.size.tolist() == [0, 2]
    rows = Groups.from_list([np.zeros((0, 2)), np.ones((1, 2))])
    assert rows.items.shape == (2, 1, 2)


GIVEN = Groups(X, SIZE)
BAD = {
    "weights above one": (
        lambda: slice_crm(bondesson(GammaProcess(3.0, 0.2)), Bernoulli(), LinearGaussian(2)),
        "counts must be such as OddsBernoulli.*GammaProcess.*Bernoulli",
    ),
    "slots": (
        lambda: sample(
            KEY,
            hybrid_hdp(HDP, FAMILY, capacity=8),
            Dist({"weights": jnp.ones(32) / 33}, {"assignment": 0 * PRESENT}),
            GIVEN,
            num_steps=1,
        ),
        "at most 8 slots, the capacity, got 32 in 'weights'",
    ),
    **{
        f"slots of {name}": (
            lambda kernel=kernel, name=name, part=part: sample(
                KEY,
                kernel,
                Dist({name: part}, {"features": np.zeros((2, 3), bool)}),
                np.zeros((2, 2)),
                num_steps=1,
            ),
            f"at most 8 slots, the capacity, got 32 in '{name}'",
        )
        for kernel, name, part in [
            (
                hybrid_features(BetaBernoulli(1.0), LinearGaussian(2), capacity=8),
                "parameters",
                np.zeros((32, 2)),
            ),
            (
                slice_crm(bondesson(BetaProcess(1.0)), Bernoulli(), LinearGaussian(2), capacity=8),
                "series",
                {"v": np.ones(32), "g": np.ones(32)},
            ),
        ]
    },
    "a list": (
        lambda: sample(
            KEY, hybrid_mixture(DirichletProcess(1.0), FAMILY), [0, 99], X[:2, 0], num_steps=1
        ),
        "labels from 0 to 15.*got 0 to 99",
    ),
    "parts of labels": (
        lambda: sample(
            KEY,
            hybrid_hdp(HDP, FAMILY),
            Dist({}, {"assignment": np.full((6, 3), 0.7)}),
            GIVEN,
            num_steps=1,
        ),
        "a label in whole numbers, got float",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_starts_and_parts_are_refused_in_words(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_column_of_tokens_is_no_vector():
    with pytest.raises(ValueError, match=r"vector of indices, got shape \(16, 1\)"):
        sample(
            jax.random.key(0),
            hybrid_mixture(DirichletProcess(1.0), DirichletCategorical(1.0, size=3)),
            None,
            np.zeros((16, 1), int),
            num_steps=1,
        )


def test_a_factor_of_a_small_covariance_is_no_covariance():
    with pytest.raises(ValueError, match="symmetric and positive definite"):
        NormalKnownCovariance(np.zeros(2), np.array([[1e-9, 0.0], [6e-10, 1e-9]]), 1.0)


@pytest.mark.parametrize("far", [1e3, 1e4])
def test_the_noise_of_items_that_lie_far_off(far):
    """The first reference is 0: of |X|^2 less what is explained float32 leaves no digit."""
    x = np.float32(far + np.random.default_rng(0).normal(size=(900, 3)))
    family = LinearGaussian(3, 1.0, far, noise_prior=(1.0, 1.0))
    kernel = hybrid_features(BetaBernoulli(1.0), family, blocks=9)
    all_have = np.ones((900, 1), bool)  # of seeds the first steps find who else has their features
    args = {"num_steps": 3, "num_chains": 4, "position_axis": None}
    run = sample(jax.random.key(0), kernel, all_have, x, **args)
    assert np.all(run.stopped < 0)
    assert np.all(np.abs(run.trace.shared["noise_scale"] - 1) < 0.15)
