"""Slice samplers with stochastic sticks and parameters, of multinomials."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import beta

from sgmc_jax import Dist, PolynomialDecay, Vmap, as_keys, sample
from sgmc_jax.bnp import (
    DirichletCategorical,
    DirichletMultinomial,
    DirichletProcess,
    PitmanYor,
    slice_mixture,
    stochastic_slice,
)
from sgmc_jax.bnp.stochastic_slice import StochasticSlice
from sgmc_jax.collective import as_shard
from sgmc_jax.processes import pitman_yor
from tests.enumeration.partitions import KEY, check_partitions, exact
from tests.enumeration.test_mixture import NORMAL
from tests.laws.moments import check_law, check_mean, fault_is_seen, run_law

pytestmark = pytest.mark.runs_long

DATA = np.array([[3, 0, 1], [2, 1, 0], [0, 2, 0], [0, 3, 1]])
PRIOR = np.array([0.5, 0.4, 0.3])
FAMILY = DirichletMultinomial(PRIOR)
PROCESS = DirichletProcess(0.5)
STEPS = {"scir": 0.5, "sgrld": 0.01}


def marginal(x):
    shape = PRIOR + x.sum(0)
    log = gammaln(PRIOR.sum()) - gammaln(PRIOR).sum()
    return log + gammaln(shape).sum() - gammaln(shape.sum())


def check(process=PROCESS, capacity=16, **kwargs):
    law = exact(process, marginal, DATA)
    kernel = slice_mixture(process, FAMILY, None, "scir", step_size=1.0, capacity=capacity)
    args = {"num_chains": 256, "num_steps": 800, "tolerance": 0.1} | kwargs
    check_partitions(kernel, law, DATA, **args)


def test_a_level_that_is_rounded_to_the_weight_of_the_points_own_atom(monkeypatch):
    """It may stay there, else an item whose atom is the heaviest has nowhere to go."""
    monkeypatch.setattr(
        stochastic_slice, "item_uniforms", lambda key, index, dtype: index * 0 + 1.0
    )
    kernel = slice_mixture(PROCESS, FAMILY, None, "scir", step_size=1.0, capacity=4)
    labels, shard = jnp.array([0, 1, 0, 2]), as_shard(DATA)
    state = kernel.init(KEY, labels, DATA)
    batch = stochastic_slice.Batch(jnp.arange(4), shard.items, shard.mask)
    _, choice = kernel.draw(as_keys(KEY), state, shard, batch)
    assert np.all(choice.log_prior[labels, jnp.arange(4)] == 0)


@pytest.mark.full
def test_all_partitions_from_all_points():
    """Exact for every step size, as totals are drawn anew."""
    check()


@pytest.mark.full
def test_all_partitions_of_a_pitman_yor_process():
    check(PitmanYor(0.5, 0.05))


@pytest.mark.full
@pytest.mark.at_length
def test_sticks_that_miss_the_points_of_later_ones(monkeypatch):
    """Planted."""
    honest = pitman_yor.PitmanYor.stick_shapes

    def wrong(self, hyper, counts):
        return honest(self, hyper, counts)[0], honest(self, hyper, 0 * counts)[1]

    monkeypatch.setattr(pitman_yor.PitmanYor, "stick_shapes", wrong)
    fault_is_seen(check)


# ---------------------------------------------------------------- one cluster: a Dirichlet law

N, SPLIT, ALPHA = 40, 28, 2.0
COINS = np.repeat([0, 1], [SPLIT, N - SPLIT]).astype(np.int32)
LAW = beta(ALPHA + SPLIT, ALPHA + N - SPLIT)


def one_cluster(weights, batch_size, step_size, num_chains=200):
    """The mean and the second moment of the one cluster's share of heads, for each chain."""
    family = DirichletCategorical(ALPHA, size=2)
    # a second cluster has a probability of 4e-9
    kernel = slice_mixture(
        DirichletProcess(1e-9),
        family,
        batch_size,
        weights,
        step_size=step_size,
        # Langevin steps of any other size would give the second stick some weight
        stick_step_size=1e-12 if weights == "sgrld" else None,
        capacity=2,
    )

    def moments(state, info):
        share = jnp.exp(state.parameters.log_probability[0, 0]) - LAW.mean()
        return jnp.stack([share, share**2])

    args = {"num_steps": 600, "num_chains": num_chains, "burn_in": 100}
    return run_law(KEY, kernel, None, COINS, reduce=moments, **args).trace.mean


@pytest.mark.full
def test_a_batch_is_too_dispersed_as_the_theory_says():
    """By 1 + tanh(h/2) (N - n)/n, to first order."""
    values = one_cluster("scir", 10, 0.5)
    inflated = LAW.var() * (1 + np.tanh(0.25) * (N - 10) / 10)
    assert abs(values[:, 0].mean()) < 0.01 * LAW.mean()
    assert abs(values[:, 1].mean() / inflated - 1) < 0.05


def test_all_points_give_the_dirichlet_law():
    check_law(one_cluster("scir", None, 0.5)[:, 1], LAW.var(), 0.05)


def test_langevin_steps_are_nearly_right_if_they_are_small():
    values = one_cluster("sgrld", None, 0.01)
    assert abs(values[:, 0].mean()) < 0.01 * LAW.mean()
    assert abs(values[:, 1].mean() / LAW.var() - 1) < 0.15


@pytest.mark.full
@pytest.mark.at_length  # of fewer steps the step sizes, and with them the law, are others
def test_step_sizes_that_decrease_leave_the_exact_law():
    """From batches, whose inflation by 3/4 at h = 0.5 fades as h does."""
    # small steps forget slowly: one chain's second moment is known to a third
    values = one_cluster("scir", 10, PolynomialDecay(0.5, offset=1.0, power=0.5), num_chains=1_200)
    h = 0.5 / np.sqrt(np.arange(100, 600) + 1.0)
    inflated = LAW.var() * (1 + np.tanh(h / 2) * (N - 10) / 10).mean()
    assert inflated < 1.06 * LAW.var()
    assert abs(values[:, 1].mean() / inflated - 1) < 0.05


@pytest.mark.full
def test_counts_of_the_batch_alone(monkeypatch):
    """Planted: N / n forgotten, as printed."""
    honest = StochasticSlice._estimate

    def unscaled(self, shard, batch, labels):
        return honest(self, shard._replace(size=jnp.sum(batch.real)), batch, labels)

    monkeypatch.setattr(StochasticSlice, "_estimate", unscaled)
    values = one_cluster("scir", 10, 0.5)
    assert values[:, 1].mean() > 3 * LAW.var()


# ------------------------------------------------------------------ the shapes of several clusters

SIZES = np.array([5, 4, 3, 0])
LABELS = np.repeat(np.arange(4), SIZES)
WORDS = np.random.default_rng(1).poisson(3 * np.eye(3)[LABELS] + 0.5)


@pytest.mark.full
def test_batches_have_on_average_the_shapes_of_all_points():
    """Which are, a long time on, the means of the gammas: of sticks 1 - d + m_j and
    a + j d + sum_{l>j} m_l, of parameters alpha + c_j."""
    process = PitmanYor(0.5, 0.1)
    kernel = slice_mixture(process, FAMILY, 4, "scir", step_size=50.0, capacity=4)
    state, shard = kernel.init(KEY, jnp.asarray(LABELS), WORDS), as_shard(jnp.asarray(WORDS))
    order = np.array([1, 2, 0, 3])
    state = state._replace(order=jnp.asarray(order))

    def drawn(key):
        batch_key, step_key = jax.random.split(key)
        batch = kernel.scan.batch(batch_key, shard, kernel.comm)
        return jax.tree.map(jnp.exp, kernel.draw(as_keys(step_key), state, shard, batch)[0].gammas)

    sticks, params = jax.jit(jax.vmap(drawn))(jax.random.split(KEY, 4_000))
    sizes, later = SIZES[order], np.array([8, 5, 0, 0])
    shapes = np.stack([0.9 + sizes, 0.5 + 0.1 * np.arange(1, 5) + later], axis=1)
    check_mean(sticks, shapes, 0.1)
    check_mean(params, PRIOR + np.eye(4)[LABELS].T @ WORDS, 0.1)


@pytest.mark.full
@pytest.mark.parametrize("batch_size, shards", [(2, 5), (7, 5)])
def test_batches_on_shards_have_on_average_the_shapes_of_all_points(batch_size, shards):
    """The same after one step: of parameters, and of first sticks in all, in whatever order."""
    process = PitmanYor(0.5, 0.1)
    kernel = slice_mixture(process, FAMILY, batch_size, "scir", step_size=50.0, capacity=64)
    args = {"num_steps": 1, "num_chains": 1_000, "position_axis": None, "engine": Vmap(shards)}
    start = Dist({}, {"assignment": LABELS.astype(np.int32)})
    run = sample(KEY, kernel, start, WORDS, **args)
    sticks, params = (np.exp(np.asarray(log, np.float64)) for log in run.state.gammas)
    check_mean(sticks[:, :, 0].sum(1), 0.9 * run.capacity + SIZES.sum(), 0.1)
    check_mean(params[:, :3], PRIOR + np.eye(4)[LABELS].T[:3] @ WORDS, 0.3)


def test_the_shapes_of_sticks():
    """1 - d + m_j and a + j d + sum_{l>j} m_l, j from one."""
    process = PitmanYor(0.5, 0.1)
    first, second = process.stick_shapes(process.start(), jnp.array([4.0, 5.0, 3.0, 0.0]))
    np.testing.assert_allclose(first, [4.9, 5.9, 3.9, 0.9], rtol=1e-6)
    np.testing.assert_allclose(second, [8.6, 3.7, 0.8, 0.9], rtol=1e-6)


def begun(kernel, labels):
    """A state of these labels, the data, and a batch of all points."""
    shard = as_shard(jnp.asarray(DATA))
    batch = stochastic_slice.Batch(jnp.arange(4), shard.items, shard.mask)
    return kernel.init(KEY, jnp.array(labels), shard), shard, batch


def test_sticks_past_the_last_cluster_are_of_the_new_concentration(monkeypatch):
    new = lambda self, key, hyper, *args: hyper | {"concentration": jnp.float32(1e6)}
    monkeypatch.setattr(PitmanYor, "redraw_from_series", new)
    process = PitmanYor(0.5, 0.1, prior=(1.0, 1.0))
    kernel = slice_mixture(process, FAMILY, None, "scir", step_size=1.0, capacity=8)
    state = jax.jit(lambda: kernel._draw_mixture(as_keys(KEY), *begun(kernel, [0, 1, 0, 2])))()
    last = np.flatnonzero(state.sums.counts[state.order] > 0)[-1]
    left = np.exp(state.gammas[0][:, 1])
    assert last < 7 and np.all(left[: last + 1] < 100)
    np.testing.assert_allclose(left[last + 1 :], 1e6, rtol=0.01)


def test_a_cluster_on_the_last_stick_asks_for_another_slot():
    """With which it might be exchanged, however little all later sticks weigh."""
    process = DirichletProcess(1e-9)
    kernel = slice_mixture(process, FAMILY, None, "scir", step_size=1.0, capacity=4)
    assert jax.jit(lambda: kernel.draw(as_keys(KEY), *begun(kernel, [0, 1, 2, 3]))[1].short)()


# ---------------------------------------------------------------------- capacity and engines

BAGS = np.random.default_rng(0).poisson(np.repeat(3 * np.eye(3), 15, axis=0))


@pytest.mark.full
@pytest.mark.parametrize("weights, kind", [*((name, None) for name in STEPS), ("scir", "rbg")])
def test_the_chain_does_not_depend_on_the_capacity(x64, weights, kind):
    process, family = DirichletProcess(2.0, prior=(2.0, 1.0)), DirichletMultinomial(PRIOR)
    few = 4 if (weights, kind) == ("scir", None) else 8  # which it ends above
    runs = [
        sample(
            jax.random.key(0, impl=kind),
            slice_mixture(process, family, 9, weights, step_size=STEPS[weights], capacity=slots),
            None,
            BAGS,
            num_steps=60,
        )
        for slots in (few, 64)
    ]
    assert runs[0].capacity > few and not runs[0].info.overflow.any()
    assert np.array_equal(*(run.trace.local["assignment"] for run in runs))
    values = [run.trace.shared["concentration"] for run in runs]
    np.testing.assert_allclose(*values, rtol=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("weights", STEPS)
def test_the_same_chain_on_two_shards(x64, weights):
    process, family = DirichletProcess(0.5), DirichletMultinomial(PRIOR)
    kernel = slice_mixture(process, family, None, weights, step_size=STEPS[weights], capacity=16)
    alone = sample(KEY, kernel, None, BAGS, num_steps=50)
    assert len(np.unique(alone.trace.local["assignment"], axis=0)) > 1
    shared = sample(KEY, kernel, None, BAGS, num_steps=50, engine=Vmap(2))
    assert np.array_equal(alone.trace.local["assignment"], shared.trace.local["assignment"])
    parameters = [run.state.parameters.log_probability for run in (alone, shared)]
    np.testing.assert_allclose(*parameters, rtol=1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="weights must be one of .*, got 'cir'"):
        slice_mixture(PROCESS, FAMILY, 2, "cir", step_size=0.1)
    with pytest.raises(TypeError, match="family must be a DirichletMultinomial or .*NormalKnown"):
        slice_mixture(PROCESS, NORMAL, 2, "scir", step_size=0.1)
    with pytest.raises(ValueError, match="step_size must be given for weights='scir'"):
        slice_mixture(PROCESS, FAMILY, 2, "scir")
    with pytest.raises(ValueError, match="step_size goes with weights 'scir' or 'sgrld'"):
        slice_mixture(PROCESS, FAMILY, 2, step_size=0.1)
    with pytest.raises(ValueError, match="stick_step_size must be finite and positive"):
        slice_mixture(PROCESS, FAMILY, 2, "sgrld", step_size=0.1, stick_step_size=-1.0)
    init, step = slice_mixture(PROCESS, FAMILY, 2, "scir", step_size=lambda count: 0.1)
    with pytest.raises(ValueError, match="needs the step's index"):
        step(KEY, init(KEY, None, DATA), DATA)
    kernel = slice_mixture(PROCESS, FAMILY, 2, "scir", step_size=lambda count: jnp.full(2, 0.1))
    with pytest.raises(ValueError, match=r"step_size\(count\) must be one number, got shape"):
        sample(KEY, kernel, None, DATA, num_steps=1)
    kernel = slice_mixture(PROCESS, FAMILY, 5, "scir", step_size=0.1)
    with pytest.raises(ValueError, match="batch_size must be at most the number of items, 4"):
        sample(KEY, kernel, None, DATA, num_steps=1)
    with pytest.raises(ValueError, match="data must be counts"):
        sample(KEY, kernel, None, -DATA, num_steps=1)
