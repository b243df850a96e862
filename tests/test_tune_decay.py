"""tune_decay: one program, one choice for a key, and a kernel that goes on."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from sgmc_jax import FunctionModel, Minibatch, Uniform, draw, sample, sgld
from sgmc_jax.bnp import (
    BetaBernoulli,
    BetaProcess,
    DirichletCategorical,
    Groups,
    LinearGaussian,
    SliceCRM,
    slice_bnb,
    slice_features,
)
from sgmc_jax.diagnostics import ess
from sgmc_jax.tune import tune_decay
from sgmc_jax.tune.decay import _statistics, _table

KEY = jax.random.key(3)
TRACED = []  # a number for each time that the step is traced


class Traced(SliceCRM):
    def step(self, key, state, data):
        TRACED.append(0)
        return super().step(key, state, data)


X = np.tile(np.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]], np.float32), (4, 1))
MODEL = slice_features(BetaBernoulli(1.0), LinearGaussian(2, 1.0, 3.0)).model
KERNEL = Traced(MODEL, decay=2.0, capacity=64)
DECAYS = (0.5, 2.0, 8.0)


def tuned(kernel: Any = KERNEL, data: Any = X, position=None, **options: Any):
    options = {"decays": DECAYS, "num_steps": 60} | options
    return tune_decay(KEY, kernel, position, data, **options)


def test_the_best_of_the_table_is_frozen():
    kernel, run, table = tuned()
    assert run.num_steps == 180 and run.trace.shape == (30, 2)
    np.testing.assert_array_equal(table.decay, DECAYS)
    np.testing.assert_allclose(table.efficiency, table.ess / table.cost)
    assert table.efficiency.max() > 0
    assert kernel.decay == table.decay[np.argmax(table.efficiency)]
    visited = run.trace[:, 0].mean() + 8 * (np.log(12) + np.euler_gamma)
    np.testing.assert_allclose(table.cost[-1], visited, rtol=1e-5)
    again = tuned()
    assert all(map(np.array_equal, again.table, table)) and again.kernel.decay == kernel.decay
    rest = sample(KEY, kernel, run, X, num_steps=20, record=_statistics)
    assert rest.num_steps == 200 and rest.trace.shape == (20, 2)
    assert rest.info.finite.all() and not rest.info.overflow.any()


def test_each_goes_on_where_the_last_stopped():
    first, both = tuned(decays=(0.5,)), tuned(decays=(0.5, 2.0))
    second = tuned(decays=(2.0,), position=first.run)
    for x, y in zip(jax.tree.leaves(both.run), jax.tree.leaves(second.run), strict=True):
        np.testing.assert_array_equal(x, y)


def test_all_decays_share_one_program():
    tuned(decays=(1.0, 3.0), num_steps=8)
    once = len(TRACED)
    tuned(num_steps=16)
    assert 0 < once == len(TRACED)


@pytest.mark.full
def test_too_few_slots_change_nothing():
    small, large = tuned(KERNEL.resize(32)), tuned()
    assert small.run.capacity == 64 and small.kernel.decay == large.kernel.decay
    np.testing.assert_allclose(small.table.ess, large.table.ess, rtol=1e-5)


@pytest.mark.full
def test_words_of_documents():
    words = Groups(np.array([[0, 0, 1, 1], [2, 3, 3, 0]]), np.array([4, 3]))
    start = slice_bnb(BetaProcess(1.0, 2.0), DirichletCategorical(0.5, size=4), capacity=64)
    kernel, run, table = tuned(start, words)
    assert kernel.decay in table.decay
    visited = run.trace[:, 0].mean() + 8 * (np.log(7) + np.euler_gamma)  # of seven words
    np.testing.assert_allclose(table.cost[-1], visited, rtol=1e-5)
    squares = np.sum(run.state.sums.counts.astype(float) ** 2)
    np.testing.assert_allclose(run.trace[-1], [run.info.active[-1], squares])


def test_statistics_that_do_not_move():
    moving = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    still = np.ones_like(moving)
    decays = np.array([1.0, 2.0])
    rate = np.asarray(ess(moving[None], kind="batch_means")) / 100
    one = _table(decays, np.stack([still, moving], axis=2), 5)  # K moves in no arm
    np.testing.assert_allclose(one.ess, rate, rtol=1e-5)
    stuck = moving * [0, 1]  # K and the squares move in the second arm alone
    both = _table(decays, np.stack([stuck, stuck], axis=2), 5)
    np.testing.assert_allclose(both.ess, [0, rate[1]], rtol=1e-5)
    assert not _table(decays, np.stack([still, still], axis=2), 5).efficiency.any()


def test_the_decay_stays_where_nothing_moves():
    noise = slice_features(BetaBernoulli(1e-6), LinearGaussian(2, 100.0, 3.0)).model
    start = Traced(noise, decay=3.0, capacity=64)  # once its first features are gone, none come
    kernel, run, table = tuned(start, position=tuned(start).run)
    assert kernel is start and not run.trace.any() and not table.ess.any()


def test_statistics_that_moved_in_draws_of_no_batch_alone():
    """500 draws are 22 batches of 22, and 16 before them: of a chain that stood still since then
    the efficiency would be the largest that there is."""
    moving = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    begun = np.where(np.arange(500)[:, None] < 16, moving, 0).astype(np.float32)
    seen = np.stack([begun, moving], axis=1)  # (draw, arm, statistic)
    table = _table(np.array([1.0, 2.0]), seen, 5)
    assert table.efficiency[0] == 0 < table.efficiency[1]


@pytest.mark.parametrize(
    "options,error,message",
    [
        ({"decays": ()}, ValueError, "decays must be a sequence"),
        ({"decays": 2.0}, ValueError, "decays must be a sequence"),
        ({"decays": (1.0, -1.0)}, ValueError, "decays must be finite and positive"),
        ({"decays": (1.0, np.inf)}, ValueError, "decays must be finite and positive"),
        ({"decays": "fast"}, TypeError, "decays must be a real number"),
        ({"num_steps": 7}, ValueError, "num_steps must be a whole number of at least 8"),
        ({"kernel": X}, TypeError, "kernel must be slice_features.*got ndarray"),
        ({"data": lambda i: X}, TypeError, "data is streamed"),
    ],
)
def test_tune_decay_refuses(options, error, message):
    with pytest.raises(error, match=message):
        tuned(**options)


def test_runs_of_several_chains_are_refused():
    any_kernel = draw(lambda key, data: 0.0)
    args = {"num_steps": 2, "num_chains": 2, "position_axis": None}
    several = sample(KEY, any_kernel, np.zeros((), np.float32), None, **args)
    with pytest.raises(ValueError, match=r"a run of one chain .* axes \('chain', 'draw'\)"):
        tuned(position=several)


def test_other_kernels_have_no_decay():
    model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
    with pytest.raises(TypeError, match="kernel must be slice_features.*got Splitting"):
        tuned(sgld(Minibatch(model, Uniform(5)), 0.1))


def test_an_interrupt_ends_it(monkeypatch):
    few = SimpleNamespace(trace=np.zeros((3, 2)))
    monkeypatch.setattr("sgmc_jax.tune.decay.sample", lambda *args, **options: few)
    with pytest.raises(KeyboardInterrupt, match="tune_decay was interrupted"):
        tuned()
