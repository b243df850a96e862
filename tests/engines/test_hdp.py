"""The hierarchical Dirichlet process sampler knows neither devices nor slots."""

import jax
import numpy as np
import pytest

from sgmc_jax import Dist, Pmap, ShardMap, Vmap, sample
from sgmc_jax.bnp import (
    Anchored,
    Demotion,
    DirichletCategorical,
    DirichletProcess,
    Groups,
    HierarchicalDirichletProcess,
    NormalKnownCovariance,
    collapsed_hdp,
    hybrid_hdp,
)
from tests.laws.moments import fewer

KEY = jax.random.key(8)
_rng = np.random.default_rng(0)
TOPICS = np.kron(np.eye(3), np.ones(4)) / 4
DOCUMENTS = [
    np.concatenate([_rng.choice(12, size=6, p=TOPICS[k]) for k in _rng.integers(0, 3, 3)])[:length]
    for length in _rng.integers(1, 19, 20)
]
WORDS = Groups.from_list(DOCUMENTS)


def parts():
    """The process and the family, in the precision that is set."""
    process = HierarchicalDirichletProcess(1.0, 1.0, prior=(2.0, 1.0), group_prior=(2.0, 1.0))
    return process, DirichletCategorical(0.3, size=12)


def labels(run):
    present = np.arange(WORDS.items.shape[1]) < WORDS.size[:, None]
    found = run.trace.local["assignment"]
    return found[..., present[: found.shape[-2]]]


def check_engines(words, engines):
    num_steps, names = fewer(200), np.arange(words.items.size) % 4
    start = Dist({}, {"assignment": names.reshape(words.items.shape)})
    kernel = hybrid_hdp(*parts(), blocks=8, local_sweeps=2, capacity=16)
    alone = sample(KEY, kernel, start, words, num_steps=num_steps)
    assert len(np.unique(labels(alone), axis=0)) > 1
    for engine in engines:
        shared = sample(KEY, kernel, start, words, num_steps=num_steps, engine=engine)
        assert np.array_equal(labels(alone), labels(shared)), engine
        for name, values in alone.trace.shared.items():
            np.testing.assert_allclose(values, shared.trace.shared[name], rtol=1e-10, atol=1e-12)


@pytest.mark.full
def test_the_same_chain_on_eight_devices(x64):
    """In float64, documents that do not divide by the shards."""
    check_engines(WORDS, [ShardMap(8)])


@pytest.mark.full
@pytest.mark.parametrize("num_groups", [20, 5])
def test_the_same_chain_on_any_engine(num_groups, x64):
    """With five documents on eight shards, three are empty."""
    words = Groups(*(x[:num_groups] for x in WORDS))
    check_engines(words, [Vmap(8), Pmap(8), Vmap(2)])


@pytest.mark.full
@pytest.mark.parametrize("schedule,blocks", [(Anchored(), 3), (Demotion(), 1)])
def test_the_chain_does_not_depend_on_the_capacity(schedule, blocks, x64):
    kernels = [
        hybrid_hdp(*parts(), schedule=schedule, blocks=blocks, capacity=slots) for slots in (2, 64)
    ]
    one = np.zeros(WORDS.items.shape, np.int32)  # the default start has more clusters in more slots
    runs = [sample(KEY, kernel, one, WORDS, num_steps=60) for kernel in kernels]
    assert runs[0].capacity > 2 and not runs[0].info.overflow.any()
    assert np.array_equal(labels(runs[0]), labels(runs[1]))
    weights = [run.trace.shared["weights"] for run in runs]
    np.testing.assert_allclose(
        weights[0], weights[1][:, : weights[0].shape[1]], rtol=1e-10, atol=1e-12
    )


@pytest.mark.full
def test_planted_topics_are_found():
    run = sample(KEY, collapsed_hdp(*parts()), None, WORDS, num_steps=300, burn_in=200)
    topic = np.concatenate(DOCUMENTS) // 4
    found = labels(run)
    same = (found[:, :, None] == found[:, None]) == (topic[:, None] == topic)
    assert same.mean() > 0.75  # one dish for all would give a third


@pytest.mark.full
def test_empty_and_single_groups():
    random = HierarchicalDirichletProcess(1.0, 1.0, prior=(2.0, 1.0), group_prior=(2.0, 1.0))
    for sizes in ([0, 1, 0], [1], [0, 0]):
        words = Groups(np.zeros((len(sizes), 2), int), np.array(sizes))
        for process in (parts()[0], random):
            kernel = hybrid_hdp(process, parts()[1], blocks=2)
            run = sample(KEY, kernel, None, words, num_steps=20)
            for name in ("weights", "concentration", "group_concentration"):
                assert np.isfinite(run.trace.shared[name]).all()


def test_bad_input():
    process, family = parts()
    with pytest.raises(TypeError, match="process must be a Hierarchical"):
        hybrid_hdp(DirichletProcess(1.0), family)
    with pytest.raises(TypeError, match="family must be"):
        hybrid_hdp(process, "words")
    with pytest.raises(ValueError, match="blocks must be"):
        hybrid_hdp(*parts(), blocks=0)
    with pytest.raises(ValueError, match="concentration"):
        HierarchicalDirichletProcess(0.0, 1.0)
    kernel, size = collapsed_hdp(*parts()), np.array([2, 1])
    cases = [
        (np.zeros((2, 2), int), TypeError, "data must be Groups"),
        (Groups(np.zeros((2, 2), int), np.array([3, 1])), ValueError, "data.size must be between"),
        (Groups(np.zeros((2, 2), int), np.array([-1, 1])), ValueError, "data.size must be between"),
        (Groups(np.zeros((2, 2), int), np.array([1.0, 1.0])), TypeError, "data.size must be int"),
        (Groups(np.full((2, 2), 12), size), ValueError, "data must be indices below 12"),
        (Groups(np.zeros((2, 2)), size), TypeError, "data must be indices"),
        (Groups(np.zeros((3, 2), int), size), ValueError, "leading axes"),
    ]
    for data, error, message in cases:
        with pytest.raises(error, match=message):
            sample(KEY, kernel, None, data, num_steps=1)
    normal = NormalKnownCovariance(np.zeros(1), np.eye(1), np.eye(1))
    nan = Groups(np.full((2, 2, 1), np.nan), size)
    with pytest.raises(ValueError, match="data"):
        sample(KEY, collapsed_hdp(process, normal), None, nan, num_steps=1)


@pytest.mark.full
def test_what_lies_past_a_group_is_ignored():
    past = np.arange(WORDS.items.shape[1]) >= WORDS.size[:, None]
    other = WORDS._replace(items=np.where(past, 7, WORDS.items))
    kernel = hybrid_hdp(*parts(), blocks=4)
    runs = [sample(KEY, kernel, None, words, num_steps=20) for words in (WORDS, other)]
    assert np.array_equal(labels(runs[0]), labels(runs[1]))
