"""Where chains of many items begin if nothing is said."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import Dist, Kernel, ShardMap, Vmap, cycle, repeat, sample, thin
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    DirichletCategorical,
    DirichletProcess,
    HierarchicalDirichletProcess,
    NormalKnownCovariance,
    PitmanYor,
    asynchronous_mixture,
    auxiliary_mixture,
    bondesson,
    collapsed_mixture,
    default_sampler,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_bnb,
    slice_crm,
    slice_features,
    slice_mixture,
    split_merge,
    uncollapsed_mixture,
)
from sgmc_jax.contract import from_init
from sgmc_jax.processes import Bernoulli, CountLikelihood, StableBetaProcess, rejection
from tests.bnp.many_items import (
    FEATURES,
    MIXTURE,
    TOPICS,
    WORDS,
    documents,
    images,
    points,
    purity,
    table,
)

KEY = jax.random.key(0)


@pytest.mark.parametrize(
    "make",
    [
        hybrid_mixture,
        collapsed_mixture,
        auxiliary_mixture,
        partial(asynchronous_mixture, blocks=4),
        partial(uncollapsed_mixture, tail=2),
        slice_mixture,
    ],
)
def test_many_points_begin_in_clusters_and_few_in_one(make):
    kernel = make(*MIXTURE)
    labels = kernel.starter(points(400))(KEY).local["assignment"]
    counts = table(np.asarray(labels), np.arange(400) % 5)
    assert np.all(counts.max(1) == counts.sum(1)) and np.sum(counts.any(1)) == 14
    assert kernel.starter(points(199)) is None


@pytest.mark.parametrize("kernel", [hybrid_hdp(*TOPICS), slice_bnb(BetaProcess(1.0, 2.0), WORDS)])
def test_many_words_begin_in_topics_at_random(kernel):
    labels = kernel.starter(documents(20))(KEY).local["assignment"]
    assert labels.shape == (20, 40) and np.all(np.bincount(labels.ravel(), minlength=14) > 20)
    assert kernel.starter(documents(4)) is None


def test_a_start_of_arrays_of_numpy():
    """Where each chain looks at items of its own, it is traced; what it finds is seen above."""
    starter = slice_features(*FEATURES).starter(np.asarray(images(20)))
    start = jax.eval_shape(jax.vmap(starter), jax.random.split(KEY, 2))
    assert start.local["features"].shape == (2, 20, 16)


def test_a_mass_with_a_prior_begins_at_its_own_value():
    """Not at that of the process that finds the features."""
    series = rejection(StableBetaProcess(20.0, 1.0, 0.3))
    kernel = slice_crm(series, Bernoulli(), FEATURES[1], mass_prior=(2.0, 0.1))
    start = jax.eval_shape(kernel.starter(images(1_000)), KEY)
    assert "mass" not in start.shared


def test_features_without_a_start_are_told():
    twice = CountLikelihood.from_function(lambda x, t: x * t + (2 - x) * jnp.log1p(-jnp.exp(t)), 2)
    kernel = slice_crm(bondesson(BetaProcess(1.0, 2.0)), twice, FEATURES[1])
    with pytest.warns(UserWarning, match="position=None begins with one feature, and 1000"):
        assert kernel.starter(images(1_000)) is None


def test_combinators_pass_the_start_on():
    sweeps, moves = hybrid_mixture(*MIXTURE), split_merge(*MIXTURE)
    plain = sweeps.starter(points(400))(KEY)
    for made in [thin(sweeps, 2), cycle(concentration_only(), thin(sweeps, 2))]:
        start = made.starter(points(400))(KEY)
        np.testing.assert_array_equal(start.local["assignment"], plain.local["assignment"])
    for made in [cycle(thin(sweeps, 2), moves), cycle(repeat(moves, 3), sweeps)]:
        assert made.starter(points(400)) is from_init
    assert cycle(concentration_only(), concentration_only()).starter(points(400)) is None


def concentration_only():
    """A kernel to which it is all the same where chains begin."""
    return Kernel.from_functions(lambda k, position, x: position, lambda k, state, x: (state, None))


@pytest.mark.parametrize("num_chains", [None, 2])
def test_a_cycle_that_divides_clusters_begins_with_one(num_chains):
    kernel = cycle(hybrid_mixture(*MIXTURE), split_merge(*MIXTURE))
    args = {"num_steps": 2, "num_chains": num_chains}
    unsaid = sample(KEY, kernel, None, points(400), **args)
    one = sample(KEY, kernel, jnp.zeros(400, jnp.int32), points(400), **args)
    np.testing.assert_array_equal(unsaid.trace.local["assignment"], one.trace.local["assignment"])


@pytest.mark.full
def test_a_run_begins_there_each_chain_by_itself():
    kernel = thin(hybrid_mixture(*MIXTURE, blocks=8), 1)  # whose step changes little
    run = sample(KEY, kernel, None, points(400), num_steps=1, num_chains=3)
    labels = run.trace.local["assignment"][:, 0]
    assert not np.array_equal(labels[0], labels[1])
    for own in labels:
        assert len(np.unique(own)) > 5


@pytest.mark.full
@pytest.mark.parametrize("engine", [Vmap(8), ShardMap(8)])
def test_shards_begin_where_one_device_does(engine):
    kernel = hybrid_mixture(*MIXTURE, blocks=8)
    args = {"num_steps": 5, "num_chains": 2}
    own = sample(KEY, kernel, None, points(400), **args).trace.local["assignment"]
    other = sample(KEY, kernel, None, points(400), engine=engine, **args).trace.local["assignment"]
    np.testing.assert_array_equal(own, other)


@pytest.mark.full
def test_a_stack_of_kernels_begins_so():
    make = lambda a: hybrid_mixture(DirichletProcess(a), MIXTURE[1])
    kernels = eqx.filter_vmap(make)(jnp.array([0.5, 2.0]))
    run = sample(KEY, kernels, None, points(400), num_steps=2, kernel_axis=0)
    assert all(len(np.unique(own)) > 5 for own in run.trace.local["assignment"][:, 0])


def test_unfit_items_are_told_before_they_are_put_in_clusters():
    bad = points(400).at[3, 1].set(jnp.nan)
    with pytest.raises(ValueError, match="data must be finite"):
        sample(KEY, slice_mixture(*MIXTURE), None, bad, num_steps=1)


@pytest.mark.full
def test_clusters_are_found_from_it_and_not_from_one():
    """Twelve clusters in eight dimensions, where one is born too far from its points."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 12, 3_000)
    x = (4.2 * rng.normal(size=(12, 8)))[truth] + rng.normal(size=(3_000, 8))
    x = jnp.asarray(x, jnp.float32)
    kernel = slice_mixture(DirichletProcess(1.0), NormalKnownCovariance(jnp.zeros(8), 1.0, 20.0))

    def found(start):
        return purity(
            sample(KEY, kernel, start, x, num_steps=40).trace.local["assignment"][-1], truth
        )

    assert found(None) > 0.99
    assert found(Dist({}, {"assignment": jnp.zeros(3_000, jnp.int32)})) < 0.9


@pytest.mark.parametrize("given", [1, 1.0, np.int64(1), jnp.array(2)])
def test_whole_numbers_of_a_start_do_not_cut_off_the_kernels_own(given):
    process, data = DirichletProcess(0.5), points(20)
    start = Dist({"concentration": given}, {"assignment": np.zeros(20, int)})
    run = sample(KEY, hybrid_mixture(process, MIXTURE[1]), start, data, num_steps=2)
    assert np.all(run.trace.shared["concentration"] == np.float32(0.5))
    state = hybrid_mixture(process, MIXTURE[1]).init(KEY, start, data)
    assert state.position.shared["concentration"].dtype == jnp.float32


@pytest.mark.full
def test_a_concentration_that_underflows_is_no_birth_of_clusters():
    """Gamma draws of shape .001 are mostly 0 in float32: weights of the tail were NaN."""
    process = DirichletProcess(1.0, prior=(1e-3, 1e-3))
    family = NormalKnownCovariance(jnp.zeros(1), 1.0, 0.01)
    args = {"num_steps": 4, "num_chains": 8, "position_axis": None}
    run = sample(KEY, hybrid_mixture(process, family, blocks=2), None, jnp.zeros((20, 1)), **args)
    assert np.all(run.info.active <= 4) and np.all(run.trace.shared["concentration"] > 0)


def test_words_out_of_the_vocabulary_are_told_before_a_sampler_is_made():
    with pytest.raises(ValueError, match="got"):
        default_sampler(KEY, TOPICS[0], DirichletCategorical(0.5, size=4), documents(3))


@pytest.mark.parametrize("make", [hybrid_mixture, collapsed_mixture, slice_mixture, split_merge])
@pytest.mark.parametrize("shared", [{"concentration": -0.2}, {"concentration": 0.0}])
def test_what_has_a_prior_does_not_begin_outside_of_it(make, shared):
    """Where its walk would leave it for ever."""
    kernel = make(PitmanYor(1.0, 0.5, prior=(2.0, 2.0)), MIXTURE[1])
    start = Dist(shared | {"discount": 0.5}, {"assignment": np.zeros(9, int)})
    with pytest.raises(
        ValueError, match="position.shared\\['concentration'\\] must be finite and p"
    ):
        sample(KEY, kernel, start, points(9), num_steps=1)
    fixed = make(PitmanYor(1.0, 0.5), MIXTURE[1])  # whose own is taken
    sample(KEY, fixed, start, points(9), num_steps=1)


def test_features_and_topics_do_not_either():
    topics = HierarchicalDirichletProcess(1.0, 1.0, prior=(1.0, 1.0)), WORDS
    wrong = Dist({"concentration": -1.0}, {"assignment": np.zeros((20, 40), int)})
    with pytest.raises(ValueError, match="'concentration'.* must be finite and positive, got -1"):
        sample(KEY, hybrid_hdp(*topics), wrong, documents(20), num_steps=1)
    features = Dist({"mass": -1.0}, {"features": np.ones((20, 1), int)})
    kernel = hybrid_features(BetaBernoulli(1.0, prior=(1.0, 1.0)), FEATURES[1])
    with pytest.raises(ValueError, match="'mass'.* must be finite and positive, got -1"):
        sample(KEY, kernel, features, images(20), num_steps=1)
