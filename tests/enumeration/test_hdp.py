"""Hierarchical Dirichlet process samplers against every seating of four customers."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import sgmc_jax.bnp.hybrid.grouped as grouped
import sgmc_jax.bnp.hybrid.hdp as hdp
from sgmc_jax import sample
from sgmc_jax.bnp import (
    Anchored,
    Demotion,
    DirichletCategorical,
    Groups,
    HierarchicalDirichletProcess,
    NormalKnownCovariance,
    Published,
    collapsed_hdp,
    hybrid_hdp,
)
from tests.laws.moments import check_law, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

KEY = jax.random.key(5)
TOP, GROUP = 1.2, 0.9
PROCESS = HierarchicalDirichletProcess(TOP, GROUP)
NORMAL = NormalKnownCovariance(np.zeros(1), 0.5 * np.eye(1), 1.5 * np.eye(1))
X = np.array([-1.0, -0.5, 0.6, 1.4])
GROUPS = Groups(np.array([[X[0], 0.0], [X[1], X[2]], [X[3], 0.0]])[..., None], np.array([1, 2, 1]))
SEATS = np.array([0, 2, 3, 4])  # of the four customers, in the flat array of three tables of two
PAIRS = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)])
WEIGHTS = 2 ** np.arange(6)


def partitions(num):
    """Every labelling of `num` points in order of appearance."""
    if num == 0:
        yield ()
        return
    for labels in partitions(num - 1):
        for k in range(max(labels, default=-1) + 2):
            yield (*labels, k)


def code(labels):
    """A partition by which of the six pairs are together."""
    return sum(int(w) for w, (i, j) in zip(WEIGHTS, PAIRS) if labels[i] == labels[j])


def normal_marginal(x):
    return multivariate_normal.logpdf(x, np.zeros(len(x)), 0.5 * np.eye(len(x)) + 1.5)


def crp(sizes, concentration):
    """The probability of the tables of a Chinese restaurant."""
    weight = np.prod([concentration * math.factorial(m - 1) for m in sizes])
    return weight / np.prod([concentration + i for i in range(sum(sizes))])


def states(marginal):
    """The twenty seatings and menus: the likelihood of each (partition, together, tables)."""
    found = {}
    for together in (True, False):
        tables = [[0], [1, 2], [3]] if together else [[0], [1], [2], [3]]
        for dishes in partitions(len(tables)):
            labels = np.zeros(4, int)
            for table, dish in zip(tables, dishes):
                labels[table] = dish
            members = [np.flatnonzero(labels == k) for k in range(max(dishes) + 1)]
            served = tuple(dishes.count(k) for k in range(max(dishes) + 1))
            found[code(labels), together, served] = math.exp(sum(map(marginal, members)))
    return found


def exact(states, top=TOP, group=GROUP):
    """The law of the partition by dishes, not normalised."""
    law = np.zeros(64)
    for (partition, together, served), likelihood in states.items():
        seating = crp([2], group) if together else crp([1, 1], group)
        law[partition] += seating * crp(served, top) * likelihood
    return law


NORMAL_STATES = states(lambda members: normal_marginal(X[members]))
NORMAL_LAW = exact(NORMAL_STATES)


def which(state, info):
    """The partition of a chain's items, one-hot."""
    labels = state.position.local["assignment"].ravel()[SEATS]
    same = labels[PAIRS[:, 0]] == labels[PAIRS[:, 1]]
    number = jnp.sum(jnp.where(same, WEIGHTS, 0))
    return (number == jnp.arange(64)).astype(jnp.float32)


def check_partitions(kernel, law, data, num_chains=512, num_steps=2_000, **means):
    """Every partition's frequency, and hyper-parameters, averaged over each of many chains."""
    law = law / law.sum()
    hyper = lambda state: [state.position.shared[name] for name in means]
    run = run_law(
        KEY,
        kernel,
        None,
        data,
        num_chains=num_chains,
        num_steps=num_steps,
        burn_in=50,
        reduce=lambda state, info: jnp.append(which(state, info), jnp.array(hyper(state))),
    )
    values, expected = run.trace.mean, np.append(law, [*means.values()])
    possible = expected > 0
    assert np.all(values[:, ~possible] == 0)
    check_law(values[:, possible], expected[possible], 0.035)


def make(**kwargs):
    return hybrid_hdp(PROCESS, NORMAL, capacity=8, **kwargs)


def rows():
    for blocks in (1, 2, 3, 7):  # seven: whole blocks of padding
        for sweeps in (1, 3):
            fast = (blocks, sweeps) == (3, 1)
            yield pytest.param(blocks, sweeps, marks=[] if fast else pytest.mark.full)


@pytest.mark.parametrize("blocks,sweeps", list(rows()))
def test_all_partitions_by_the_anchored_schedule(blocks, sweeps):
    num_steps = 2_800 if blocks == 7 else 2_000  # seven mix more slowly
    kernel = make(blocks=blocks, local_sweeps=sweeps)
    check_partitions(kernel, NORMAL_LAW, GROUPS, num_steps=num_steps)


def test_all_partitions_by_demotion():
    check_partitions(make(schedule=Demotion()), NORMAL_LAW, GROUPS)


@pytest.mark.full
def test_all_partitions_of_words():
    words, alpha = np.array([0, 0, 1, 1]), 0.4

    def marginal(members):
        counts = np.bincount(words[members], minlength=3)
        terms = [math.lgamma(alpha + c) - math.lgamma(alpha) for c in counts]
        total = math.lgamma(3 * alpha) - math.lgamma(3 * alpha + counts.sum())
        return sum(terms) + total

    data = Groups.from_list([words[:1], words[1:3], words[3:]])
    kernel = hybrid_hdp(PROCESS, DirichletCategorical(alpha, size=3), blocks=3, capacity=8)
    check_partitions(kernel, exact(states(marginal)), data)


GRID = (np.arange(120) + 0.5) / 12
TOP_PRIOR, GROUP_PRIOR = {"prior": (2.0, 2.0)}, {"group_prior": (3.0, 2.0)}


def weighted(prior):
    """Values of a concentration by their weights, in which it is 1 without a prior."""
    if prior is None:
        return [(1.0, 1.0)]
    shape, rate = map(float, prior)
    return list(zip(GRID, GRID ** (shape - 1) * np.exp(-rate * GRID)))


@pytest.mark.full
@pytest.mark.parametrize("priors", [TOP_PRIOR | GROUP_PRIOR, TOP_PRIOR, GROUP_PRIOR])
def test_random_concentrations(priors):
    """By quadrature over those that have a prior."""
    process = HierarchicalDirichletProcess(1.0, 1.0, **priors)
    law, sums = np.zeros(64), np.zeros(2)
    for (top, w), (group, v) in itertools.product(*map(weighted, process.priors.values())):
        each = w * v * exact(NORMAL_STATES, top, group)
        law, sums = law + each, sums + each.sum() * np.array([top, group])
    means = dict(zip(process.priors, sums / law.sum()))
    random = {name: means[name] for name, prior in process.priors.items() if prior is not None}
    check_partitions(collapsed_hdp(process, NORMAL, capacity=8), law, GROUPS, **random)


# ------------------------------------------------------------------------------ planted faults


def check_fails(kernel):
    fault_is_seen(check_partitions, kernel, NORMAL_LAW, GROUPS)


@pytest.mark.full
@pytest.mark.at_length
def test_the_published_schedule_is_not_exact():
    check_fails(make(schedule=Published(), blocks=3))


@pytest.mark.full
@pytest.mark.at_length
def test_a_weight_that_is_not_drawn_for_a_new_cluster(monkeypatch):
    """The share of a birth is Beta(1, a), not a half."""

    def half(hyper, atoms, k, uniform):
        half = atoms.log_rest - jnp.log(2.0)
        return atoms._replace(log_weights=atoms.log_weights.at[k].set(half), log_rest=half)

    monkeypatch.setattr(grouped, "_give_weight", half)
    check_fails(make())


@pytest.mark.full
@pytest.mark.at_length
def test_tables_that_are_items(monkeypatch):
    """As if every item sat alone."""

    def alone(hyper, weights, size, labels, uniforms):
        return jnp.sum(grouped.count_clusters(labels, size, len(weights)), axis=0)

    monkeypatch.setattr(hdp, "draw_tables", alone)
    check_fails(make())


@pytest.mark.full
@pytest.mark.at_length
def test_a_group_concentration_forgotten_off_the_block(monkeypatch):
    """Equation 13 of the paper without the factor of the weights."""
    honest = grouped.sweep_groups

    def forgetful(family, hyper, atoms, *args):
        total = jnp.sum(jnp.where(atoms.instantiated, atoms.weights, 0))
        scaled = atoms._replace(log_weights=atoms.log_weights - jnp.log(total))
        return honest(family, hyper, scaled, *args)

    monkeypatch.setattr(hdp, "sweep_groups", forgetful)
    check_fails(make(blocks=3))


def test_births_where_the_weight_of_what_is_new_underflows():
    """Below 1e-38 in four steps of ten; groups are 80 deviations apart."""
    data = Groups(np.array([[[-40.0], [-40.2]], [[40.0], [40.1]]]), np.array([2, 2]))
    kernel = hybrid_hdp(HierarchicalDirichletProcess(0.01, 1.0), NORMAL)
    start = np.zeros((2, 2), np.int32)
    run = sample(KEY, kernel, start, data, num_steps=1, num_chains=64)
    assert np.all(run.info.active[:, -1] == 2)
    log_w, log_rest = jax.vmap(PROCESS.draw_weights, (0, None, None))(
        jax.random.split(KEY, 500), jnp.array(1e-3), jnp.array([60, 40, 0])
    )
    assert np.isfinite(log_rest).all() and np.mean(log_rest < -88) > 0.5
    np.testing.assert_allclose(np.exp(log_w).sum(1) + np.exp(log_rest), 1, rtol=1e-5)


@pytest.mark.parametrize("schedule", [Anchored(), Demotion()])
def test_clusters_without_items_weigh_nothing(schedule):
    """What they weighed is among the weight of all that is new."""
    kernel = make(schedule=schedule)

    def step(state, key):
        state, _ = kernel.step(key, state, GROUPS)
        shared = state.position.shared
        return state, (state.sums.counts, shared["weights"], shared["rest"])

    keys = jax.random.split(KEY, 60)
    run = jax.jit(lambda: jax.lax.scan(step, kernel.init(KEY, None, GROUPS), keys)[1])
    counts, weights, rest = map(np.asarray, run())
    assert np.all((weights > 0) == (counts > 0)) and len(np.unique(np.sum(counts > 0, axis=1))) > 1
    np.testing.assert_allclose(weights.sum(1) + rest, 1, rtol=1e-5)


def test_groups_that_are_padding_have_no_items_and_no_tables():
    """Two blocks of three groups: the last group is a copy of the first."""
    start = np.array([[0, 0], [1, 2], [3, 0]])
    sums = jax.jit(lambda: make(blocks=2).init(KEY, start, GROUPS).sums)()
    assert sums.counts.tolist() == sums.more.tables.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_the_share_of_a_newborn_cluster():
    """b of what is left, 1 - b = U^(1 / a)."""
    hyper, u = {"concentration": jnp.float32(1.7)}, np.array([0.001, 0.3, 0.9])
    atoms = grouped.Atoms(jnp.zeros(2, bool), jnp.log(jnp.array([0.6, 0.0])), jnp.log(0.4))
    born = jax.vmap(lambda u: grouped._give_weight(hyper, atoms, 1, u))(jnp.asarray(u, jnp.float32))
    np.testing.assert_allclose(born.weights[:, 1], 0.4 * (1 - u ** (1 / 1.7)), rtol=1e-5)
    np.testing.assert_allclose(born.weights.sum(1) + born.rest, 1, rtol=1e-6)


def test_an_item_off_the_block_does_not_count_itself():
    """Groups of one item that says nothing choose by the weights alone, whatever they had."""
    num, weights = 20_000, jnp.array([0.2, 0.6])
    atoms = grouped.Atoms(jnp.ones(2, bool), jnp.log(weights), jnp.log(0.2))
    params = NORMAL.draw(KEY, NORMAL.zero_statistics(2, jnp.zeros(1)))
    params = jax.tree.map(jnp.zeros_like, params)
    size, rank = jnp.ones(num, int), jnp.zeros(num, int)
    uniforms = jax.random.uniform(KEY, (1, num, 1), minval=1e-7)
    args = rank - 1, rank, jnp.zeros((num, 1, 1)), size, jnp.zeros((num, 1), int), uniforms
    args = jnp.broadcast_to(args[0][:, None], (num, 2)), *args[1:]
    labels = grouped.sweep_groups(NORMAL, PROCESS.start(), atoms, params, *args)
    assert abs(np.mean(labels == 0) - 0.25) < 5.5 * np.sqrt(0.25 * 0.75 / num)
