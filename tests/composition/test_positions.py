"""The position is all that others may move: exact laws of kernels that take turns, by enumeration.

Each check gives a false alarm with probability below 1e-6; see `check_law`.
"""

import itertools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import betaln
from jax.scipy.stats import multivariate_normal
from scipy.special import logsumexp

from sgmc_jax import Dist, Kernel, as_keys, cycle, draw, gibbs, repeat, sample, thin
from sgmc_jax.bnp import (
    BetaBernoulli,
    Demotion,
    DirichletProcess,
    LinearGaussian,
    NormalKnownCovariance,
    auxiliary_mixture,
    collapsed_features,
    collapsed_hdp,
    collapsed_mixture,
    hybrid_features,
    hybrid_hdp,
    hybrid_mixture,
    slice_crm,
    slice_features,
    slice_mixture,
    split_merge,
)
from sgmc_jax.bnp.hybrid.kernel import BlockKernel
from sgmc_jax.processes import Bernoulli, BetaProcess, bondesson
from tests.enumeration import features as columns
from tests.enumeration import test_features, test_hdp
from tests.enumeration.partitions import (
    check_partitions,
    exact,
    normal_marginal,
    partition,
    random_concentration,
)
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(23)
X = np.array([-1.0, -0.5, 0.6, 1.4])
DATA = X[:, None]
DP = DirichletProcess(1.2)
NORMAL = NormalKnownCovariance(np.zeros(1), 0.5 * np.eye(1), 1.5 * np.eye(1))
full = pytest.mark.full


class Renamed(NamedTuple):
    position: Dist


def renaming(rename):
    """A kernel that gives all slots other names, at random."""

    def step(key, state, data):
        return Renamed(rename(key, *state.position)), None

    return Kernel.from_functions(lambda key, position, data: Renamed(position), step)


def rename_clusters(capacity, key, shared, local):
    names, labels = jax.random.permutation(key, capacity).astype(jnp.int32), local["assignment"]
    renamed = jnp.where(labels < capacity, names[labels % capacity], labels)  # slots may be added
    return Dist(shared, {"assignment": renamed})


def rename_dishes(capacity, key, shared, local):
    names = jax.random.permutation(key, capacity).astype(jnp.int32)
    weights = jnp.zeros_like(shared["weights"]).at[names].set(shared["weights"])
    return Dist(shared | {"weights": weights}, {"assignment": names[local["assignment"]]})


def rename_features(key, shared, local):
    order = jax.random.permutation(key, local["features"].shape[1])
    parameters = jax.tree.map(lambda x: x[order], shared["parameters"])
    return Dist(shared | {"parameters": parameters}, {"features": local["features"][:, order]})


# ----------------------------------------------------------------------------- mixtures

MIXTURES = {
    "hybrid": partial(hybrid_mixture, blocks=3),
    "demotion": partial(hybrid_mixture, schedule=Demotion()),
    "collapsed": collapsed_mixture,
    "auxiliary": auxiliary_mixture,
    "slice": partial(slice_mixture),
    "slice of batches": partial(slice_mixture, batch_size=3),
    "split-merge": partial(split_merge, proposals=2),
}


def mixture(name, process=DP, capacity=32):
    return MIXTURES[name](process, NORMAL, capacity=capacity)


def pairs():
    """Each with each, neighbours first: split-merge moves reach no partition by themselves."""
    names = list(MIXTURES)
    for gap in (*range(1, len(names)), 0):
        yield from zip(names, names[gap:] if gap else names[:-1], strict=False)


@full
@pytest.mark.parametrize("one,other", list(pairs()))
def test_pairs_of_mixture_samplers(one, other):
    kernel = cycle(mixture(one), mixture(other))
    law = exact(DP, normal_marginal, X)
    check_partitions(kernel, law, DATA, num_chains=512, num_steps=600, tolerance=0.08)


@full
@pytest.mark.parametrize("name", [name for name in MIXTURES if name != "split-merge"])
def test_mixtures_with_other_names(name):
    kernel = cycle(mixture(name), renaming(partial(rename_clusters, 32)))
    law = exact(DP, normal_marginal, X)
    check_partitions(kernel, law, DATA, num_chains=512, num_steps=900, tolerance=0.1)


# ------------------------------------------------------- a concentration of the user's own

GRID = (np.arange(400) + 0.5) / 25  # of a Gamma(2, 2) prior
LOG_PRIOR = np.log(GRID) - 2 * GRID - sum(np.log(GRID + i) for i in range(4))


def concentration(rest):
    """An exact draw of the concentration given K clusters of four points."""
    labels = rest["z"].local["assignment"]
    first = jnp.argmax(labels[:, None] == labels, axis=1)
    num = jnp.sum(first == jnp.arange(len(labels)))
    logits = jnp.asarray(LOG_PRIOR, jnp.float32) + num * jnp.log(jnp.asarray(GRID, jnp.float32))
    return draw(
        lambda key, data: jnp.asarray(GRID, jnp.float32)[jax.random.categorical(key, logits)]
    )


def of_blocks(name, capacity=32):
    def build(rest):
        process = DirichletProcess(rest["a"])
        if name == "with split-merge":
            return cycle(
                mixture("hybrid", process, capacity), mixture("split-merge", process, capacity)
            )
        return mixture(name, process, capacity)

    return gibbs(z=build, a=concentration)


def check_blocks(kernel, **kwargs):
    law = random_concentration(2.0, 2.0, normal_marginal, X)
    labels = Dist(DP.start(), {"assignment": jnp.zeros(4, jnp.int32)})
    of_z = lambda state, info: partition(state._replace(position=state.position["z"]), info)
    args = {"num_chains": 512, "num_steps": 900, "burn_in": 50} | kwargs
    run = run_law(KEY, kernel, {"z": labels, "a": np.float32(1)}, DATA, reduce=of_z, **args)
    check_law(run.trace.mean, law, 0.08)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=full)
        for name in [*MIXTURES, "with split-merge"]
        if name != "split-merge"
    ],
)
def test_a_block_sees_the_hyper_parameters_of_another(name):
    check_blocks(of_blocks(name))


TURNS = {
    "plain": lambda kernel: kernel,
    "cycle": lambda kernel: cycle(kernel, kernel),
    "thin": lambda kernel: thin(kernel, 2),
    "repeat": lambda kernel: repeat(kernel, 2),
}


def turns():
    for name, wrap in itertools.product(MIXTURES, TURNS):
        fast = wrap == "cycle" and name in ("hybrid", "split-merge")
        yield pytest.param(name, wrap, marks=[] if fast else full)


@pytest.mark.parametrize("name,wrap", list(turns()))
def test_a_new_target_brings_its_hyper_parameters(name, wrap):
    """And a step keeps them: the old ones are in the position that it begins from."""
    kernels = [TURNS[wrap](mixture(name, DirichletProcess(a), capacity=8)) for a in (1.0, 2.0)]
    state, items = kernels[0].init(KEY, None, DATA), jnp.asarray(DATA)
    retargeted = jax.jit(lambda state: kernels[1].retarget(KEY, state, items))(state)
    after = jax.jit(lambda state: kernels[1].step(KEY, state, items)[0])(retargeted)
    for now in (retargeted, after):
        assert now.position.shared["concentration"] == 2


@full
def test_a_cycle_that_gives_back_the_old_position_is_seen(monkeypatch):
    """Planted."""
    kind = type(cycle(mixture("hybrid")))
    honest = kind.retarget

    def stale(self, key, state, data):
        return honest(self, key, state, data)._replace(position=state.position)

    monkeypatch.setattr(kind, "retarget", stale)
    with pytest.raises(AssertionError):
        test_a_new_target_brings_its_hyper_parameters("hybrid", "cycle")


@full
class Stepped(NamedTuple):
    position: jax.Array
    count: jax.Array


class Counting(Kernel):
    """It keeps the index of its next step."""

    def init(self, key, position, data):
        return Stepped(position, jnp.int32(0))

    def step(self, key, state, data):
        return state._replace(count=as_keys(key).count + 1), None


@pytest.mark.parametrize("wrap", [thin, repeat])
def test_a_count_of_steps_has_one_form_at_any_precision(wrap, x64):
    run = sample(KEY, wrap(Counting(), 3), jnp.zeros(()), None, num_steps=4)
    assert run.state.count == 12 and run.state.count.dtype == jnp.int32


def test_a_block_grows_and_is_thinned():
    check_blocks(thin(of_blocks("hybrid", capacity=2), 2), num_steps=600)


@full
@pytest.mark.at_length
def test_hyper_parameters_of_an_old_target_are_seen(monkeypatch):
    stale = lambda self, key, state, data: self.refresh(key, state, data)
    monkeypatch.setattr(BlockKernel, "retarget", stale)
    fault_is_seen(check_blocks, of_blocks("hybrid"))


# ----------------------------------------------------------------------- features and dishes


def feature_kernels(model, which):
    parts = test_features.MODELS[model]
    hybrid = hybrid_features(*parts, blocks=2, capacity=10)
    others = {
        "names": renaming(rename_features),
        "collapsed": collapsed_features(*parts, capacity=10),
    }
    return cycle(hybrid, others[which])


@full
@pytest.mark.parametrize("model", ["linear", "explicit", "counts"])
@pytest.mark.parametrize("which", ["names", "collapsed"])
def test_pairs_of_feature_samplers(model, which):
    kernel = feature_kernels(model, which)
    expected, states, few = test_features.law(model)
    data = test_features.COUNTS if model == "counts" else columns.X
    reduce = columns.statistics(states, few)
    args = {"num_chains": 512, "num_steps": 900, "burn_in": 100, "reduce": reduce}
    run = run_law(KEY, kernel, None, data.astype(np.float32), **args)
    common = expected > 1e-3
    check_law(run.trace.mean[:, common], expected[common], 0.08)


@full
@pytest.mark.parametrize("which", ["names", "collapsed", "demotion"])
def test_pairs_of_hdp_samplers(which):
    hybrid = test_hdp.make(blocks=3)
    others = {
        "names": renaming(partial(rename_dishes, 8)),
        "collapsed": collapsed_hdp(test_hdp.PROCESS, test_hdp.NORMAL, capacity=8),
        "demotion": hybrid_hdp(test_hdp.PROCESS, test_hdp.NORMAL, schedule=Demotion(), capacity=8),
    }
    kernel = cycle(hybrid, others[which])
    test_hdp.check_partitions(kernel, test_hdp.NORMAL_LAW, test_hdp.GROUPS)


# ------------------------------------------------- hyper-parameters of features of the user's own

SCALE, NUM = test_features.SCALE, columns.NUM
# mass, concentration and noise, each as probable
CHOICES = [(a, c, s) for a, c in ((0.7, 1.0), (0.5, 4.0)) for s in (0.5, 1.2)]


def parts(a, c, s):
    return BetaBernoulli(a, c), LinearGaussian(2, s, SCALE)


def crm(a, c, s):
    series, (_, family) = bondesson(BetaProcess(a, c)), parts(a, c, s)
    return slice_crm(series, Bernoulli(), family, decay=1.0, capacity=32)


FEATURES = {
    "hybrid": lambda *each: hybrid_features(*parts(*each), blocks=2, capacity=10),
    "collapsed": lambda *each: collapsed_features(*parts(*each), capacity=10),
    "slice": lambda *each: slice_features(*parts(*each), decay=1.0, capacity=32),
}


def log_conditional(features, data, a, c, s):
    """Of hyper-parameters given columns, but for a constant."""
    z = features.astype(jnp.float32)
    m = z.sum(0)
    each = jnp.log(a * c) + betaln(jnp.maximum(m, 1), NUM - m + c)
    log_columns = jnp.sum(jnp.where(m > 0, each, 0.0)) - a * columns.beta_columns(c)[1]
    covariance = s**2 * jnp.eye(NUM) + SCALE**2 * z @ z.T
    return log_columns + jnp.sum(multivariate_normal.logpdf(data.T, jnp.zeros(NUM), covariance))


def choice(rest):
    def function(key, data):
        features = rest["z"].local["features"]
        logits = jnp.stack([log_conditional(features, data, *each) for each in CHOICES])
        return jnp.array(CHOICES)[jax.random.categorical(key, logits)]

    return draw(function)


@full
@pytest.mark.parametrize("name", FEATURES)
def test_features_see_the_hyper_parameters_of_another_block(name):
    states, logs = columns.binary(), []
    for a, c, s in CHOICES:
        each, exposure = columns.beta_columns(c)
        logs.append(states.log_prior(each, a, exposure) + states.log_likelihood(s, SCALE))
    chosen = np.exp(logsumexp(logs, axis=1) - logsumexp(logs))
    law = np.append(states.law(logsumexp(logs, axis=0), 7), chosen)
    of_z = columns.statistics(states, 7)

    def reduce(state, info):
        chosen = jnp.all(state.position["h"] == jnp.array(CHOICES), axis=1)
        return jnp.append(of_z(Renamed(state.position["z"]), info), chosen)

    kernel = gibbs(z=lambda rest: FEATURES[name](*rest["h"]), h=choice)
    start = {"z": Dist({}, {"features": np.ones((3, 1), bool)}), "h": jnp.array(CHOICES[0])}
    args = {"num_chains": 512, "num_steps": 400, "burn_in": 50, "reduce": reduce}
    run = run_law(KEY, kernel, start, columns.X.astype(np.float32), **args)
    common = law > 1e-3
    check_law(run.trace.mean[:, common], law[common], 0.12)


@pytest.mark.parametrize("make", [*FEATURES.values(), crm], ids=[*FEATURES, "crm"])
def test_a_new_target_of_features_brings_its_hyper_parameters(make):
    """The points of a series stay, and their weights follow."""
    (a, c, s), items = CHOICES[3], jnp.asarray(columns.X, jnp.float32)
    one, other = make(*CHOICES[0]), make(a, c, s)
    anew = lambda key: other.retarget(key, one.init(key, None, items), items).position.shared
    shared = jax.jit(anew)(KEY)
    own = {"mass": a, "concentration": c, "noise_scale": s}
    assert all(shared[name] == np.float32(own[name]) for name in own.keys() & shared.keys())
    if make is crm:
        series = shared["series"]
        log_theta = jnp.log(series["v"]) - series["g"] / (a * c)
        np.testing.assert_allclose(series["log_theta"], log_theta, rtol=1e-5)
