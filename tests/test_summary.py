"""The table of a run, by hand and against ArviZ."""

import warnings
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    SlotInfo,
    Transformed,
    Vmap,
    cycle,
    hmc,
    mala,
    sample,
    summary,
)
from sgmc_jax._types import as_keys
from sgmc_jax.bnp import DirichletCategorical, Groups, HierarchicalDirichletProcess, hybrid_hdp
from sgmc_jax.collective import Dist
from sgmc_jax.diagnostics import ess
from sgmc_jax.models import HiddenMarkov, NormalEmission
from sgmc_jax.pictures import plot_trace
from sgmc_jax.run import Run, RunInfo
from tests.diagnostics.test_ess import ar1

SHAPE = (4, 300)
DRAWS = {"a": ar1(0.7, SHAPE), "b": np.stack([ar1(-0.3, SHAPE, 1), 5 + ar1(0.9, SHAPE, 2)], -1)}
DRAWS = {name: x.astype(np.float32) for name, x in DRAWS.items()}


def run_of(trace=DRAWS, axes=("chain", "draw"), info=None, lead=(4,)):
    stopped = np.full(lead, -1)
    return Run(trace, RunInfo(np.ones(lead, bool), info), None, stopped, 300, axes)


def check(made):
    arviz = pytest.importorskip("arviz_stats.base").array_stats
    rows = {"a": DRAWS["a"], "b[0]": DRAWS["b"][..., 0], "b[1]": DRAWS["b"][..., 1]}
    table = made.summary().to_dict()
    assert list(table) == list(rows)
    for name, x in rows.items():
        row, mean = table[name], arviz.ess(x, method="mean")
        tail = arviz.ess(x, method="tail", prob=(0.05, 0.95))
        assert row["mean"] == pytest.approx(x.mean(), rel=1e-4, abs=1e-5)
        assert row["sd"] == pytest.approx(x.std(ddof=1), rel=1e-4)
        assert row["mcse_mean"] == pytest.approx(x.std(ddof=1) / np.sqrt(mean), rel=1e-3)
        assert row["ess_bulk"] == pytest.approx(arviz.ess(x, method="bulk"), rel=1e-3)
        assert row["ess_tail"] == pytest.approx(tail, rel=1e-3)
        assert row["r_hat"] == pytest.approx(arviz.rhat(x), rel=1e-4)


def test_the_tail_is_the_worse_of_two():
    """Of draws whose large values alone come together, and of the same upside down."""
    noise = np.random.default_rng(4).exponential(1.0, SHAPE)
    x = np.exp(ar1(0.95, SHAPE, 3)) - noise
    tail, turned = (summary.statistics(sign * x)["ess_tail"] for sign in (1, -1))
    np.testing.assert_allclose(tail, turned, rtol=1e-4)
    below = [x <= np.quantile(x, p) for p in (0.05, 0.95)]
    low, high = (float(ess(np.float32(some), kind="mean")) for some in below)
    np.testing.assert_allclose(tail, high, rtol=1e-4)
    assert high < 0.7 * low


def test_columns_are_those_of_arviz():
    check(run_of())


@pytest.mark.parametrize("fault", ["tails", pytest.param("chains", marks=pytest.mark.full)])
def test_faults_are_seen(monkeypatch, fault):
    """Planted: other tails; chains in each other's places."""
    if fault == "tails":
        monkeypatch.setattr(summary, "_TAILS", (0.1, 0.9))
    else:
        honest = summary.statistics
        swapped = lambda x: honest(x.reshape(2, -1, *x.shape[2:]))
        monkeypatch.setattr("sgmc_jax.run.statistics", swapped)
    with pytest.raises(AssertionError):
        check(run_of())


def test_one_chain_has_no_rhat():
    made = run_of({"a": DRAWS["a"][0]}, ("draw",), lead=()).summary()
    assert list(made.columns) == ["mean", "sd", "mcse_mean", "ess_bulk", "ess_tail"]
    assert (made.num_chains, made.num_draws) == (1, 300)


def test_chains_that_stopped_are_told():
    made = replace(run_of(), stopped=np.array([-1, 7, -1, 20])).summary()
    assert made.num_stopped == 2
    assert str(made).startswith("4 chains of 300 draws, 2 not finite\n")
    assert "2 of 4 chains turned non-finite, first at step 7" in made.remarks[0]


def test_of_chains_that_all_stopped_larger_steps_are_no_remedy():
    still = {"a": np.ones((4, 300))}
    advice = lambda stopped: (
        replace(run_of(still), stopped=np.full(4, stopped)).summary().remarks[0]
    )
    assert advice(-1).startswith("nothing has moved: take larger steps")
    assert advice(0).startswith("4 of 4 chains turned non-finite, first at step 0")


def test_the_shared_part_of_a_mixture_is_told():
    trace = Dist({"concentration": DRAWS["a"]}, {"assignment": np.zeros((4, 300, 9), int)})
    names = "active", "entropy", "largest", "shared.concentration"
    assert run_of(trace).summary().names == names
    of_floats = Dist(trace.shared, {"assignment": DRAWS["b"]})
    assert run_of(of_floats).summary().names == ("shared.concentration",)


class Slots(NamedTuple):
    position: dict
    places: jax.Array


class Walk(Kernel):
    """Walks of a scalar and of a row for each slot, of which more and more are in use."""

    capacity: int = eqx.field(static=True, default=4)

    def init(self, key, position, data):
        return Slots({"a": jnp.zeros(()), "rows": jnp.zeros((self.capacity, 2))}, jnp.zeros(4))

    def step(self, key, state, data):
        noise = jax.random.normal(as_keys(key).noise)
        moved = jax.tree.map(lambda x: 0.5 * x + noise, state.position)
        active = 1 + (noise > 0) + as_keys(key).count // 50
        return Slots(moved, state.places), SlotInfo(active, active > self.capacity)


@pytest.mark.parametrize("engine", [None, Vmap(2, over="chains")])
def test_slots_are_known_by_their_growth(engine):
    """Four places are as many as slots, and are none."""
    walk, steps = Walk(), {"num_steps": 40, "num_chains": 2, "engine": engine}
    run = sample(jax.random.key(0), walk, None, None, **steps)
    assert run.slotted == (False, True)
    assert run.summary().names == ("a", "active")
    assert len(plot_trace(run)) == 2
    longer = run.extend(sample(jax.random.key(0), walk, run, None, **steps | {"num_steps": 360}))
    assert longer.capacity == 16 and longer.summary().names == ("a", "active")
    both = cycle(walk, walk), lambda state, info: (state.states[1].places, state.position)
    made = sample(jax.random.key(0), both[0], None, None, record=both[1], **steps)
    assert made.slotted == (False, False, True)
    assert made.summary().names[-4:] == ("0[3]", "1.a", "active", "active_1")


def test_a_record_that_knows_the_slots_is_let_be():
    record = lambda state, info: state.position["rows"].reshape(2, 4)
    run = sample(jax.random.key(0), Walk(), None, None, num_steps=20, record=record)
    assert run.slotted is None and len(run.summary().names) == 9
    rows = lambda state, info: state.position["rows"]
    run = sample(jax.random.key(0), Walk(), None, None, num_steps=20, record=rows)
    assert run.summary().names == ("active",)
    with pytest.raises(ValueError, match="of items and slots alone"):
        replace(run, info=RunInfo(None, None)).summary()


@pytest.mark.full
def test_rows_of_a_topic_model():
    words = Groups.from_list([np.array([0, 1, 0, 1]), np.array([2, 3, 2])])
    parts = HierarchicalDirichletProcess(1.0, 1.0), DirichletCategorical(0.5, size=4)
    args = hybrid_hdp(*parts, capacity=4), None, words
    run = sample(jax.random.key(0), *args, num_steps=100, num_chains=2)
    names = [f"shared.{name}" for name in ("concentration", "group_concentration", "rest")]
    assert run.summary().names == (*names, "active")


def test_kernels_have_rows_of_their_own():
    trace = {"a": np.stack([DRAWS["a"], DRAWS["b"][..., 1]])}
    made = run_of(trace, ("kernel", "chain", "draw"), lead=(2, 4)).summary()
    assert made.names == ("a[0]", "a[1]")
    assert made.columns["mean"][1] == pytest.approx(DRAWS["b"][..., 1].mean(), rel=1e-4)


def test_a_run_has_an_acceptance_rate_and_a_table():
    model = FunctionModel(lambda x: -0.5 * x**2)
    args = mala(Minibatch(model, Full()), 1.0), jnp.zeros(()), None
    run = sample(jax.random.key(0), *args, num_steps=200, num_chains=2)
    table = run.summary()
    assert table.acceptance_rate == pytest.approx(run.info.acceptance.mean(), rel=1e-5)
    head, columns, row = str(table).splitlines()
    assert "acceptance 0." in head and columns.split()[0] == "mean"
    assert row.split()[0] == "x" and len(row) == len(columns)
    moments = sample(jax.random.key(0), *args, num_steps=200, reduce=True)
    with pytest.raises(ValueError, match="summary needs draws, but this run kept moments only"):
        moments.summary()


@pytest.mark.parametrize("num_draws", [0, 1, 3])
def test_too_few_draws_are_refused(num_draws):
    made = run_of({"a": np.zeros((2, num_draws), np.float32)}, lead=(2,))
    with pytest.raises(ValueError, match=f"summary needs at least 4 draws, got {num_draws}"):
        made.summary()


def test_long_tables_are_cut():
    made = run_of({"a": np.zeros((2, 8, 100), np.float32)}, lead=(2,)).summary()
    assert str(made).endswith("... and 40 more") and len(made.to_dict()) == 100


def test_coordinates_of_the_user():
    model = Transformed(FunctionModel(lambda x: -jnp.sum(x["scale"])), {"scale": "positive"})
    trace = {"scale": np.log(np.random.default_rng(0).exponential(size=(4, 500, 2)))}
    run = run_of(jax.tree.map(np.float32, trace))
    table = run.summary(model)
    assert table.names == run.summary().names == ("scale[0]", "scale[1]")
    np.testing.assert_allclose(
        table.columns["mean"], np.exp(trace["scale"]).mean((0, 1)), rtol=1e-5
    )
    assert plot_trace(run, model=model)[0, 1].lines[0].get_ydata().min() > 0


SCALE = Transformed(FunctionModel(lambda x: -x["scale"]), {"scale": "positive"})


def test_draws_of_unconstrained_numbers_say_so():
    args = hmc(Minibatch(SCALE, Full()), 0.3, 5), {"scale": jnp.zeros(())}, None
    run = sample(jax.random.key(0), *args, num_steps=50)
    assert run.unconstrained
    assert "summary(model) tells the parameters" in run.summary().remarks[0]
    assert not any("unconstrained" in remark for remark in run.summary(SCALE).remarks)
    with pytest.warns(UserWarning, match=r"to_arviz\(model\) tells the parameters"):
        run.to_arviz()
    with pytest.warns(UserWarning, match=r"plot_trace\(run, model=model\)"):
        plot_trace(run)
    told = lambda state, info: SCALE.constrain(state.position)
    kept = sample(jax.random.key(0), *args, num_steps=50, record=told)
    plain = sample(
        jax.random.key(0), mala(Minibatch(SCALE.model, Full()), 0.1), *args[1:], num_steps=5
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in (kept, plain):
            assert not other.unconstrained
            other.to_arviz()
        run.to_arviz(SCALE)
        plot_trace(run, model=SCALE)


def remarked(x):
    return list(run_of({"a": x}, lead=(len(x),)).summary().remarks)


def test_what_passes_without_a_remark():
    """R-hat of 1.01; a hundred effective draws of a chain, four hundred of all, of tails too."""
    x = np.random.default_rng(1).normal(size=(8, 1_000)).astype(np.float32)
    assert remarked(x) == remarked(x[:1, :150]) == remarked(x[:, :60]) == []
    apart = x[:4] + np.array([0, 0, 0, 0.35], np.float32)[:, None]
    (said,) = remarked(apart)
    assert said.startswith("R-hat is 1.01") or said.startswith("R-hat is 1.02")
    for few in (x[:1, :80], x[:2, :80], x[:4, :90]):
        (said,) = remarked(few)
        assert "effective draws" in said
    volatile = x[:4] * np.exp(0.7 * np.repeat(x[4:, ::125], 125, axis=1))
    row = run_of({"a": volatile}).summary().to_dict()["a"]
    assert row["ess_tail"] < 400 < row["ess_bulk"]
    assert any("effective draws" in remark for remark in remarked(volatile))


def test_kernels_are_no_chains():
    """Ten of one chain each need a hundred effective draws, as one does."""
    x = np.random.default_rng(1).normal(size=(10, 1, 250)).astype(np.float32)
    made = run_of({"a": x}, ("kernel", "chain", "draw"), lead=(10, 1)).summary()
    assert made.remarks == () and len(made.names) == 10


def test_a_summary_is_its_table():
    made = run_of().summary()
    assert repr(made) == str(made)


def test_more_chains_than_draws_are_no_mistake_of_a_run():
    x = np.random.default_rng(3).normal(size=(40, 20)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(run_of({"a": x}, lead=(40,)).summary().columns["r_hat"]).all()


def test_coordinates_of_the_user_are_those_of_the_model_inside():
    """Of a series, whose own coordinates are logits, under a transformation of these."""
    inner = HiddenMarkov(2, NormalEmission())
    model = Transformed(inner, {"transition": "real"})
    emission = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.array([-0.3, 0.0])}
    start = inner.position(jnp.array([[0.9, 0.1], [0.2, 0.8]]), emission)
    draws = jax.tree.map(lambda x: np.broadcast_to(x, (2, 8, *np.shape(x))), start)
    wanted, found = inner.constrain(draws), model.constrain(model.unconstrain(draws))
    assert jax.tree.structure(wanted) == jax.tree.structure(found)
    np.testing.assert_allclose(found["transition"], wanted["transition"], rtol=1e-5)
    np.testing.assert_allclose(np.sum(found["transition"], -1), 1, rtol=1e-5)


def test_equal_doubles_have_no_deviation():
    for value in (0.1, 1e9 + 0.1):
        assert not summary.statistics(np.full((1, 6, 1), value))["sd"].any()


def test_names_that_meet_those_of_an_index():
    model = FunctionModel(lambda x: -jnp.sum(x["a"] ** 2) - x["a[0]"] ** 2 - x["b"] ** 2)
    kernel = mala(Minibatch(model, Full()), 0.3)
    start = {"a": jnp.zeros(2), "a[0]": jnp.float32(5.0), "b": jnp.float32(9.0)}
    table = sample(jax.random.key(0), kernel, start, None, num_steps=4).summary()
    assert list(table.names) == ["a[0]", "a[1]", "a[0]_1", "b"]
