"""Settings chosen by kernel Stein discrepancy: which, at what price, and what is refused."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgmc_jax import (
    SAGA,
    SVRG,
    AllReduce,
    ControlVariate,
    EmpiricalFisher,
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    Stratified,
    Transformed,
    Uniform,
    Weighted,
    Window,
    cycle,
    hmc,
    repeat,
    sample,
    sghmc,
    sgld,
    sgnht,
    thin,
)
from sgmc_jax.diagnostics import ksd
from sgmc_jax.gradients.extended import Extended
from sgmc_jax.models import HiddenMarkov, NormalEmission
from sgmc_jax.tune import grid_search, judge, successive_halving
from tests.laws.moments import check_mean

KEY = jax.random.key(11)
SD = jnp.array([0.01, 0.02])
TARGET = FunctionModel(lambda x: -0.5 * jnp.sum((x / SD) ** 2))
EXACT = Minibatch(TARGET, Full())
STEPS = {"step_size": [round(h, 9) for h in 1e-4 * 10.0 ** np.arange(-3, 1.01, 0.5)]}
ON_TARGET = {"position": jnp.zeros(2), "data": None}
ITEMS = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
Y = jnp.linspace(-1.0, 2.0, 40)


def langevin(step_size):
    return sgld(EXACT, step_size)


def test_the_best_of_a_grid():
    """sd = .01: h = 1e-4 lambda is 1, where the variance is doubled; 3e-7 hardly moves."""
    tuned = grid_search(KEY, TARGET, langevin, STEPS, **ON_TARGET, budget=45_000)
    found = {float(arm.setting["step_size"]): arm.ksd for arm in tuned.arms}
    assert 1e-6 < tuned.setting["step_size"] < 1e-4
    best = min(found.values())
    assert found[min(found)] > 5 * best and found[1e-4] > 1.5 * best
    assert np.isinf(found[max(found)])  # 10 / lambda is unstable
    assert {arm.num_steps for arm in tuned.arms} == {5_000}
    assert tuned.evaluations == 45_000 and tuned.run.num_steps == 5_000
    cooler = grid_search(
        KEY, TARGET, langevin, STEPS, **ON_TARGET, budget=45_000, max_temperature=1.05
    )
    assert cooler.setting["step_size"] < tuned.setting["step_size"]
    assert tuned.table().count("\n") == 1 + len(STEPS["step_size"])


@pytest.mark.full
def test_it_can_be_continued_and_its_chains_are_those_of_sample():
    args = {"position": jnp.zeros(2), "data": None}
    tuned = grid_search(KEY, TARGET, langevin, {"step_size": [1e-5]}, **args, budget=400)
    on = sample(KEY, tuned.kernel, tuned.run, None, num_steps=10, num_chains=1)
    assert on.num_steps == 410 and on.trace.shape == (1, 10, 2)
    again = grid_search(KEY, TARGET, langevin, {"step_size": [1e-5]}, **args, budget=400)
    np.testing.assert_array_equal(again.run.trace, tuned.run.trace)
    assert again.arms == tuned.arms


def test_halving_is_cheap_and_as_good():
    """Nine settings: 9 and 3 in two rounds of half of the budget; two thirds less spent."""
    grid = grid_search(KEY, TARGET, langevin, STEPS, **ON_TARGET, budget=45_000)
    found = successive_halving(KEY, TARGET, langevin, STEPS, **ON_TARGET, budget=14_000)
    seen = {float(arm.setting["step_size"]): arm.ksd for arm in grid.arms}
    assert seen[float(found.setting["step_size"])] < 1.1 * min(seen.values())
    assert sorted(arm.rounds for arm in found.arms) == [1] * 6 + [2, 2, 2]
    assert found.evaluations <= 14_000
    steps = sorted({arm.num_steps for arm in found.arms})
    assert steps == [777, 777 + 2_333]  # of 7,000 a round
    # none of those whose chains did not stay finite
    assert {arm.judged for arm in grid.arms} == {0, 1_000}
    assert {arm.judged for arm in found.arms} == {0, 200, 800}


@pytest.mark.full
def test_chains_go_on_as_a_whole_from_round_to_round_and_afterwards():
    """A thermostat that began anew would be at 1."""
    make = lambda step_size: sgnht(Minibatch(ITEMS, Uniform(4)), step_size)
    grid = {"step_size": [0.02, 0.03, 0.04, 0.05]}
    args = {"position": jnp.zeros(()), "data": Y}
    found = successive_halving(KEY, ITEMS, make, grid, **args, budget=2_400, reduction=2)
    run = found.run
    assert (run.begun, run.num_steps) == (75, 225)
    on, moved = (
        sample(KEY, found.kernel, run, data, num_steps=1, num_chains=1) for data in (Y, Y + 1)
    )
    now, later, anew = (x.state.auxiliary["thermostat"][0] for x in (run, on, moved))
    assert now > 2 and abs(later - now) < 0.5 and anew < 1.5


def of_words_and_batches(search):
    def make(size, word, step_size):
        return sghmc(Minibatch(ITEMS, Uniform(size)), step_size, word=word)

    grid = {"size": [10, 20], "word": ["ABOBA", "BAOAB"], "step_size": [0.01, 0.05]}
    args = {"position": jnp.zeros(()), "data": Y, "budget": 32_000, "max_draws": 100}
    return search(KEY, ITEMS, make, grid, **args)


def test_words_and_batches_compete_at_equal_cost():
    """A batch of 20 of 40 items makes half as many steps as one of 10; every word has its own."""
    tuned = of_words_and_batches(grid_search)
    assert {(arm.setting["size"], arm.num_steps) for arm in tuned.arms} == {(10, 400), (20, 200)}
    assert tuned.evaluations == 32_000
    assert tuned.plot().get_xlabel() == "size"


@pytest.mark.full
def test_a_key_determines_a_halving_of_words_and_batches():
    """Of eight settings three go on; each round's share of 16,000 is theirs alike."""
    found, again = (of_words_and_batches(successive_halving) for _ in range(2))
    assert found.arms == again.arms
    np.testing.assert_array_equal(found.run.trace, again.run.trace)
    steps = {10: {1: 200, 2: 200 + 533}, 20: {1: 100, 2: 100 + 266}}
    for arm in found.arms:
        assert arm.num_steps == steps[arm.setting["size"]][arm.rounds]
    assert sorted(arm.rounds for arm in found.arms) == [1] * 5 + [2] * 3
    assert 31_900 < found.evaluations <= 32_000


def test_settings_that_differ_in_numbers_share_a_program():
    def traces(step_sizes):
        count = 0

        def loglik(x, y):
            nonlocal count
            count += 1
            return -0.5 * (y - x) ** 2

        model = FunctionModel(lambda x: -0.5 * x**2, loglik)
        make = lambda step_size: sgld(Minibatch(model, Uniform(4)), step_size)
        args = {"position": jnp.zeros(()), "data": Y, "scale": 0.2}
        grid_search(KEY, model, make, {"step_size": step_sizes}, **args, budget=4_000)
        return count

    assert traces([0.01, 0.02]) == traces([0.005, 0.01, 0.015, 0.02, 0.025])


def test_a_picture_joins_no_settings_of_different_rounds():
    """The discrepancy of fewer draws is larger: a line through both would be of their numbers."""
    pytest.importorskip("matplotlib")
    make = lambda step_size: sgld(Minibatch(ITEMS, Uniform(4)), step_size)
    grid, args = {"step_size": [0.01, 0.02, 0.04, 0.05]}, (jnp.zeros(()), Y)
    lines = {}
    for search in (grid_search, successive_halving):
        found = search(KEY, ITEMS, make, grid, *args, budget=2_400)
        ax = found.plot()
        (points,), rounds = ax.collections, np.array([arm.rounds for arm in found.arms])
        assert np.allclose(points.get_sizes() / rounds**2, points.get_sizes()[0] / rounds[0] ** 2)
        lines[search] = ax.lines[0].get_linestyle(), set(rounds.tolist())
        ax.figure.clear()
    assert lines == {grid_search: ("-", {1}), successive_halving: ("None", {1, 2})}


SLOPES = jnp.linspace(0.2, 1.8, 40)
LINE = FunctionModel(lambda x: -0.5 * x**2, lambda x, z: -0.5 * (z[1] - z[0] * x) ** 2)
CURVATURE = 1 + float(SLOPES @ SLOPES)
MODE, SCALE = float(SLOPES @ Y) / CURVATURE, CURVATURE**-0.5


def test_noisy_scores_judge_without_bias():
    """The mean over batches of the square is that of exact scores of distinct draws: 50 of them
    with one batch for all, or with themselves, would have more."""
    x = 1.5 * jax.random.normal(KEY, (50, 1))
    noisy, data = Minibatch(LINE, Uniform(20)), (SLOPES, Y)
    by_batches = judge.as_judge(KEY, noisy, jnp.array(MODE), data, SCALE)
    draws, keys = MODE + SCALE * x[:, 0], jax.random.split(KEY, 400)
    found = [by_batches.verdict(key, draws, data)[0] for key in keys]
    check_mean(np.multiply(found, np.abs(found)), float(ksd(x, -x, statistic="u")) ** 2, 0.1)


@pytest.mark.full
def test_scores_may_be_noisy():
    """An estimator judges as the model does."""
    noisy = ControlVariate(Minibatch(LINE, Uniform(8)), jnp.array(MODE))
    make = lambda step_size: sgld(Minibatch(LINE, Full()), step_size)
    grid = {"step_size": [1e-5, 3e-4, 3e-3, 0.036]}
    args = {"position": jnp.array(MODE), "data": (SLOPES, Y), "budget": 40 * 8_000}
    by_model = grid_search(KEY, LINE, make, grid, **args)
    by_batches = grid_search(KEY, noisy, make, grid, **args)
    assert by_model.setting == by_batches.setting == {"step_size": 0.003}


def test_draws_far_out_in_flat_tails_are_seen():
    """Of t variates: those a thousand times too wide have the discrepancy of exact ones.

    Their scores vanish and no two are near each other. The temperature of t with 3 degrees of
    freedom is the mean of 4 x^2 / (3 + x^2): 1 for exact draws, 4 for those.
    """
    model = FunctionModel(lambda x: -2.0 * jnp.sum(jnp.log1p(x**2 / 3.0)))
    by_model = judge.as_judge(KEY, model, jnp.zeros(8), None, scale=1.0, burn_in=0.0)
    exact = np.asarray(jax.random.t(KEY, 3.0, (1_000, 8)))
    cold, warm = (by_model.verdict(KEY, scale * exact, None) for scale in (1.0, 1e3))
    assert warm[0] < 1.2 * cold[0]
    assert abs(cold[1] - 1) < 0.1 and abs(warm[1] - 4) < 0.1


@pytest.mark.parametrize("search", [grid_search, successive_halving])
def test_the_first_share_of_the_steps_is_not_judged(search):
    """Of a start far out, from which the better of two step sizes takes fifty steps."""
    model = FunctionModel(lambda x: -0.5 * jnp.sum(x**2))
    make = lambda step_size: sgld(Minibatch(model, Full()), step_size)
    args = {"position": jnp.full(2, 80.0), "data": None, "budget": 2 * 4 * 2_000, "num_chains": 4}
    for burn_in, best in ((0.5, 0.1), (0.0, 0.8)):
        tuned = search(KEY, model, make, {"step_size": [0.1, 0.8]}, **args, burn_in=burn_in)
        assert tuned.setting == {"step_size": best}


@pytest.mark.full
def test_units_do_not_matter():
    """With a scale of its own, a target in other units has the same discrepancies; with 1 not."""

    def ksds(unit, **options):
        model = FunctionModel(lambda x: -0.5 * jnp.sum((x / SD / unit) ** 2))
        make = lambda step_size: sgld(Minibatch(model, Full()), unit**2 * step_size)
        few = {"step_size": STEPS["step_size"][2:7:2]}
        tuned = grid_search(KEY, model, make, few, **ON_TARGET, budget=3_000, **options)
        return [arm.ksd for arm in tuned.arms]

    np.testing.assert_allclose(ksds(1.0), ksds(100.0), rtol=2e-3)
    assert np.all(np.divide(ksds(1.0, scale=1.0), ksds(100.0, scale=1.0)) > 2)


COSTS = [
    (lambda: sgld(Minibatch(ITEMS, Uniform(4)), 0.1), 4),
    (lambda: sgld(Minibatch(ITEMS, Full()), 0.1), 40),
    (lambda: sgld(Minibatch(ITEMS, Weighted(3, np.ones(40))), 0.1), 3),
    (lambda: sgld(Minibatch(ITEMS, Stratified(6, np.arange(40) % 2)), 0.1), 6),
    (lambda: sgld(ControlVariate(Minibatch(ITEMS, Uniform(4)), jnp.array(0.0)), 0.1), 8),
    (lambda: sgld(SVRG(Minibatch(ITEMS, Uniform(4)), 10), 0.1), 12),
    (lambda: hmc(Minibatch(ITEMS, Full()), 0.1, 3), 120),
    (lambda: thin(sgld(Minibatch(ITEMS, Uniform(4)), 0.1), 3), 12),
    (lambda: sghmc(Minibatch(ITEMS, Uniform(4)), 0.1, word="BABAO"), 8),
]


@pytest.mark.parametrize("make, wanted", COSTS, ids=[str(i) for i in range(len(COSTS))])
def test_what_a_step_costs(make, wanted):
    """Declared, and the same through combinators, but for gradients that a cycle makes stale."""
    stale = 40 if wanted == 120 else 0  # of hmc, the gradient at its position
    two = cycle(make(), make())
    for kernel, total in (
        (make(), wanted),
        (repeat(make(), 2), 2 * wanted),
        (two, 2 * (wanted + stale)),
    ):
        assert kernel.contract(jnp.zeros(())).cost.evaluations(40) == total


@pytest.mark.full
def test_a_position_is_any_pytree():
    """Its scale too; in those units the discrepancies are those of one array."""
    sd = {"a": SD[:1], "b": SD[1]}
    model = FunctionModel(
        lambda x: -0.5 * jnp.sum((x["a"] / sd["a"]) ** 2 + (x["b"] / sd["b"]) ** 2)
    )
    make = lambda step_size: sgld(Minibatch(model, Full()), step_size)
    few = {"step_size": STEPS["step_size"][2:7:2]}
    start = {"a": jnp.zeros(1), "b": jnp.zeros(())}
    args = {"budget": 3_000, "scale": sd}
    by_tree = grid_search(KEY, model, make, few, start, None, **args)
    one = grid_search(KEY, TARGET, langevin, few, **ON_TARGET, **(args | {"scale": SD}))
    found, wanted = ([arm.ksd for arm in tuned.arms] for tuned in (by_tree, one))
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_what_is_refused():
    args = {**ON_TARGET, "budget": 1_000}
    with pytest.raises(FloatingPointError, match="smaller step sizes"):
        grid_search(KEY, TARGET, langevin, {"step_size": [10.0]}, **args)
    with pytest.raises(ValueError, match="budget is too small"):
        grid_search(KEY, TARGET, langevin, STEPS, **ON_TARGET, budget=100)
    with pytest.raises(ValueError, match="at least one setting"):
        grid_search(KEY, TARGET, langevin, {"step_size": []}, **args)
    with pytest.raises(ValueError, match="all the same arguments"):
        grid_search(KEY, TARGET, langevin, [{"step_size": 1.0}, {"friction": 1.0}], **args)
    with pytest.raises(ValueError, match="scale must be given.*not curved downwards"):
        flat = FunctionModel(lambda x: jnp.sum(x**2))
        grid_search(KEY, flat, langevin, STEPS, **args)
    with pytest.raises(TypeError, match="model must be a Model"):
        grid_search(KEY, lambda x: x, langevin, STEPS, **args)
    for stream in (lambda: iter([np.zeros(2)]), lambda i: np.zeros(2), iter([np.zeros(2)])):
        with pytest.raises(TypeError, match="data must be arrays, all of them, got"):
            grid_search(KEY, TARGET, langevin, STEPS, **(args | {"data": stream}))
    with pytest.raises(ValueError, match="burn_in"):
        grid_search(KEY, TARGET, langevin, STEPS, **args, burn_in=1.0)
    with pytest.raises(ValueError, match="reduction"):
        successive_halving(KEY, TARGET, langevin, STEPS, **args, reduction=1)
    own = Kernel.from_functions(lambda k, x, d: judge.Judge, lambda k, s, d: (s, None))
    with pytest.raises(TypeError, match="cost must be given"):
        grid_search(KEY, TARGET, lambda step_size: own, {"step_size": [1.0]}, **args)


@pytest.mark.parametrize("search", [grid_search, successive_halving])
def test_settings_that_are_all_too_hot_are_told_of(search):
    """At h lambda = 1 the variance is twice that of the target."""
    steps = {"step_size": [8e-5, 1e-4]}
    args = {**ON_TARGET, "budget": 20_000, "max_temperature": 1.1}
    with pytest.warns(
        UserWarning, match="every setting that is left has draws hotter than max_temperature=1.1"
    ):
        search(KEY, TARGET, langevin, steps, **args)


def test_a_position_may_have_an_empty_part():
    model = FunctionModel(lambda x: -0.5 * jnp.sum((x["a"] / SD) ** 2))
    make = lambda step_size: sgld(Minibatch(model, Full()), step_size)
    start = {"a": jnp.zeros(2), "none": jnp.zeros(0)}
    args = {"budget": 400, "scale": {"a": SD, "none": jnp.ones(0)}}
    found = grid_search(KEY, model, make, {"step_size": [1e-5, 3e-5]}, start, None, **args)
    assert np.isfinite(found.arms[0].ksd)


def test_a_picture_joins_settings_that_were_judged_by_as_many_draws():
    """Of batches of 10, 20 and 40 items a budget is 400, 200 and 100 steps."""
    pytest.importorskip("matplotlib")
    make = lambda size: sgld(Minibatch(ITEMS, Uniform(size)), 0.01)
    args = (jnp.zeros(()), Y)
    found = grid_search(KEY, ITEMS, make, {"size": [10, 20, 40]}, *args, budget=16_000)
    assert len({arm.judged for arm in found.arms}) == 3
    ax = found.plot()
    assert ax.lines[0].get_linestyle() == "None"
    ax.figure.clear()


def test_settings_of_numpy_are_shown():
    make = lambda word, steps: sghmc(EXACT, 1e-3 * steps / 1_234, word=str(word))
    grid = {"word": np.array(["ABOBA", "BAOAB"]), "steps": np.array([1_234, 1_235])}
    table = grid_search(KEY, TARGET, make, grid, **ON_TARGET, budget=800).table()
    assert "| BAOAB | 1234 |" in table and "| ABOBA | 1235 |" in table


def test_no_layout_is_doubted_that_the_judge_has_made():
    """Of 32 chains with 16 draws each, in 20 dimensions."""
    model = FunctionModel(lambda x: -0.5 * jnp.sum(x**2))
    make = lambda step_size: sgld(Minibatch(model, Full()), step_size)
    args = {"budget": 2 * 32 * 40, "num_chains": 32, "max_draws": 512}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grid_search(KEY, model, make, {"step_size": [0.1, 0.2]}, jnp.zeros(20), None, **args)
        args = {"budget": 2 * 64, "num_chains": 1, "max_draws": 16}
        grid_search(KEY, model, make, {"step_size": [0.3, 0.4]}, jnp.zeros(20), None, **args)


@pytest.mark.parametrize("search", [grid_search, successive_halving])
def test_scales_that_no_step_size_suits_are_told_of(search):
    sd = jnp.array([1e-3, 1.0])
    model = FunctionModel(lambda x: -0.5 * jnp.sum((x / sd) ** 2))
    make = lambda step_size: sgld(Minibatch(model, Full()), step_size)
    args = {"position": jnp.zeros(2), "data": None, "budget": 20_000}
    with pytest.warns(UserWarning, match="slowest coordinate has .* no step size suits both"):
        search(KEY, model, make, {"step_size": [1e-8, 1e-7, 3e-7, 1e-6]}, **args)


def test_settings_that_are_arrays():
    make = lambda scale: sgld(EXACT, 1e-5 * scale)
    tuned = grid_search(
        KEY, TARGET, make, {"scale": [jnp.array(1.0), jnp.array(2.0)]}, **ON_TARGET, budget=400
    )
    assert "| 1 |" in tuned.table() and tuned.setting["scale"] in (1.0, 2.0)
    arms = [arm._replace(setting={"scale": jnp.ones(2) * i}) for i, arm in enumerate(tuned.arms)]
    both = tuned._replace(arms=arms, setting=arms[1].setting)
    assert "| 1, 1 |" in both.table()


@pytest.mark.parametrize("num_chains", [40, 64])
def test_more_chains_than_the_judge_takes_draws(num_chains):
    """Whose rounds are then a draw of each at least, with no step left unspent."""
    setting = {"step_size": [1e-5, 1e-4]}
    spent = 2 * 30 * num_chains
    options = {"budget": spent, "num_chains": num_chains, "max_draws": 20}
    tuned = grid_search(KEY, TARGET, langevin, setting, **ON_TARGET, **options)
    assert tuned.evaluations == spent


REGIMES = HiddenMarkov(2, NormalEmission())


@pytest.mark.parametrize("search", [grid_search, successive_halving])
def test_a_series_has_a_scale_of_its_own(search):
    """By derivatives of all of it: those of its windows' gradients are not of the log density."""
    emission = {"mean": jnp.array([-1.0, 1.0]), "log_scale": jnp.zeros(2)}
    start = REGIMES.position(jnp.array([[0.9, 0.1], [0.2, 0.8]]), emission)
    _, series = REGIMES.simulate(KEY, start, 50)
    make = lambda step_size: sgld(Minibatch(REGIMES, Window(None)), step_size)
    args = {"position": start, "data": series, "budget": 10_000, "num_chains": 2}
    tuned = search(KEY, REGIMES, make, {"step_size": [1e-3, 1e-4]}, **args)
    assert all(np.isfinite(arm.ksd) for arm in tuned.arms)
    by_windows = Minibatch(REGIMES, Window(None))
    with pytest.raises(ValueError, match="scale must be given.*HiddenMarkov has no derivatives"):
        search(KEY, by_windows, make, {"step_size": [1e-3]}, **args)


@pytest.mark.parametrize("model", [REGIMES, Transformed(REGIMES, "real")])
def test_what_hides_states_is_declared_by_all_that_is_around_it(model):
    assert model.of_series and not ITEMS.of_series
    inner, position = Minibatch(model, Window(3)), jnp.zeros(2)
    own, rows = Minibatch(ITEMS, Uniform(3)), Minibatch(model, Uniform(3))
    for make, grad in [
        (lambda grad: grad, inner),
        (lambda grad: ControlVariate(grad, position), inner),
        (lambda grad: SVRG(grad, every=2), inner),
        (SAGA, rows),
        (AllReduce, inner),
        (EmpiricalFisher, inner),
        (lambda grad: Extended(grad, jnp.sum), inner),
        (lambda grad: ControlVariate(AllReduce(grad), position), inner),
    ]:
        assert not make(grad).differentiable and make(own).differentiable


def test_a_coordinate_that_stands_still_has_no_draws():
    draws = np.random.default_rng(0).normal(size=(2, 100, 3)) * [1.0, 0.0, 1.0]
    own = judge.Judge(None, None, 100, 0.0, 2.0)
    least, largest = own.extremes({"x": draws[..., :2], "y": draws[..., 2]})
    assert least == 0 and 100 < largest < 400
