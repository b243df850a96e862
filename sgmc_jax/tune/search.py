"""The settings of a kernel, chosen by kernel Stein discrepancy."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import jax

from .. import _checks, _tree
from .._estimators import Estimator
from .._frames import without_frames
from .._functions import must_take
from .._types import Data, Kernel, Position
from ..combinators import require_kernel
from ..model import Model
from ..runner.passes import passes_of
from .arms import Setting, Tuned
from .curvature import num_items
from .judge import as_judge
from .race import Race, Racer

_FEWEST_DRAWS = 50  # of a round, by which its settings are judged

Grid = Mapping[str, Sequence[Any]] | Sequence[Setting]


def grid_search(
    key: Any,
    model: Model | Estimator,
    make_kernel: Callable[..., Kernel],
    grid: Grid,
    position: Position,
    data: Data,
    *,
    budget: float,
    num_chains: int = 1,
    burn_in: float = 0.5,
    scale: Any = None,
    max_draws: int = 1_000,
    max_temperature: float = 2.0,
    cost: Callable[[Setting], float] | None = None,
) -> Tuned:
    """The setting of a grid whose draws have the least kernel Stein discrepancy.

    Every setting is given an equal part of the budget, so that one with smaller batches makes more
    steps; its draws, without a first share of them and thinned, are judged by `ksd`. The
    discrepancy has no normalising constant, and unlike an effective sample size it grows with the
    bias of a large step as it does with the slow mixing of a small one. It is blind to draws far
    out in flat tails; those are known by their temperature, of which `Arm` tells. A warning tells
    where the best setting hardly moves one coordinate and moves another well.

    Settings that differ in numbers (step size, friction, temperature) are run side by side in one
    compiled program; each word and each batch size has a program of its own. All use the same
    random numbers.

    Args:
        key: a random key: the same key gives the same result.
        model: whose scores judge: a `Model`, exactly, which takes a pass over all of the data for
            each draw; or an estimator of its gradient, such as a `ControlVariate`, by a new batch
            for each draw. These passes are not counted in the budget.
        make_kernel: the settings as arguments `->` a kernel.
        grid: the values of each argument, of which all combinations are tried; or a sequence of
            settings, each a dict of arguments.
        position: where all chains begin; best near the mode.
        data: all of the data, a pytree of arrays with one leading item axis, or `None`.
        budget: the number of gradients of an item's term that all chains together may take; where
            there is no data, that of gradients.
        num_chains: the number of chains of each setting; their draws are judged together.
        burn_in: the share of an arm's steps that is not judged, in [0, 1).
        scale: a number or a pytree like the position, the units in which the kernel of the
            discrepancy has width one: about posterior standard deviations. By default from the
            curvature at `position`.
        max_draws: the number of draws that are judged, thinned evenly.
        max_temperature: settings whose draws are hotter rank behind all others; 1.1 asks for
            variances that are right to about a tenth, in the mean over coordinates, however few
            effective draws that leaves.
        cost: a setting `->` the gradients that a step takes, for kernels that do not tell
            (`Contract.cost`).

    Returns:
        A `Tuned`: `kernel`, `setting`, the `run` to be continued, and `arms`, one for each setting;
        `table()` and `plot()` show them.

    Raises:
        ValueError: if the budget is too small, or the log posterior is not curved downwards at the
            position and no scale is given; if kernels are on a manifold or within bounds, where the
            discrepancy is not least for the target.
        TypeError: if `make_kernel` does not return a kernel, or its cost is not known.
        FloatingPointError: if no setting kept its chains finite.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sgld
        >>> model = FunctionModel(lambda x: -0.5 * x @ x)
        >>> grid = {"step_size": [0.001, 0.1, 1.9]}
        >>> make = lambda step_size: sgld(Minibatch(model, Full()), step_size)
        >>> args = {"position": jnp.zeros(2), "data": None, "budget": 3_000}
        >>> grid_search(jax.random.key(0), model, make, grid, **args).setting
        {'step_size': 0.1}

    Reference:
        Nemeth and Fearnhead (2021), Stochastic gradient Markov chain Monte Carlo, section 4;
        Gorham and Mackey (2017), Measuring sample quality with kernels.
    """
    judging = (scale, max_draws, burn_in, max_temperature)
    _checks.positive("budget", _checks.one_number("budget", budget))
    race, key = _race(key, model, make_kernel, grid, position, data, num_chains, judging, cost)
    race.round(key, budget, max_draws)
    return race.result()


def successive_halving(
    key: Any,
    model: Model | Estimator,
    make_kernel: Callable[..., Kernel],
    grid: Grid,
    position: Position,
    data: Data,
    *,
    budget: float,
    reduction: int = 3,
    num_chains: int = 1,
    burn_in: float = 0.5,
    scale: Any = None,
    max_draws: int = 600,
    max_temperature: float = 2.0,
    cost: Callable[[Setting], float] | None = None,
) -> Tuned:
    """`grid_search`, in rounds after which all but the best third of the settings are left out.

    With A settings there are R = ceil(log A / log eta) rounds, but at least one. In each, those
    that are left share budget / R equally; their chains go on from where they stopped, and are
    judged by the draws of all rounds. Of n settings the best ceil(n / eta) go on. To judge a round
    costs the same in each: the last has `max_draws` of every setting, one with n times as many
    settings an n-th, but not fewer than 50. The discrepancy of fewer draws is larger: compare
    settings of as many rounds.

    Args:
        key: a random key: the same key gives the same result.
        model: whose scores judge, a `Model` or an estimator; see `grid_search`.
        make_kernel: the settings as arguments `->` a kernel.
        grid: values of each argument, or a sequence of settings.
        position: where all chains begin; best near the mode.
        data: all of the data, or `None`.
        budget: the number of gradients of an item's term that all chains together may take.
        reduction: eta, at least 2.
        num_chains: as in `grid_search`, like all that follow.
        burn_in: the share of an arm's steps that is not judged.
        scale: the units of the discrepancy.
        max_draws: the number of draws that are judged in the last round, or 50 if that is more;
            fewer than in `grid_search`, since a model judges each by a gradient of all items.
        max_temperature: settings whose draws are hotter rank behind all others.
        cost: what a step costs, for kernels that do not tell.

    Returns:
        A `Tuned`; its arms tell in how many rounds each was, and its discrepancy in the last.

    Raises:
        ValueError, TypeError, FloatingPointError: as `grid_search`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sghmc
        >>> model = FunctionModel(lambda x: -0.5 * x @ x)
        >>> grid = {"step_size": [1e-3, 1e-2, 0.1, 0.5, 1.9], "friction": [0.1, 1.0]}
        >>> make = lambda step_size, friction: sghmc(Minibatch(model, Full()), step_size, friction)
        >>> args = {"position": jnp.zeros(2), "data": None, "budget": 20_000}
        >>> tuned = successive_halving(jax.random.key(0), model, make, grid, **args)
        >>> tuned.setting["step_size"] >= 0.1, max(arm.rounds for arm in tuned.arms)
        (True, 3)

    Reference:
        Coullon, South and Nemeth (2023), Efficient and generalizable tuning strategies for
        stochastic gradient MCMC (MAMBA), algorithm 1, with a budget of gradients in place of
        seconds, so that a key determines the result. Jamieson and Talwalkar (2016) for the rounds.
    """
    _checks.whole("reduction", reduction, 2)
    judging = (scale, max_draws, burn_in, max_temperature)
    _checks.positive("budget", _checks.one_number("budget", budget))
    race, key = _race(key, model, make_kernel, grid, position, data, num_chains, judging, cost)
    arms = _arms_of_rounds(len(race.live), reduction)
    for number in arms:
        race.keep(number)
        # to judge all of a round costs the same in each, and the last has all of `max_draws`
        race.round(key, budget / len(arms), max(_FEWEST_DRAWS, max_draws * arms[-1] // number))
    return race.result()


def _arms_of_rounds(arms: int, reduction: int) -> list[int]:
    """How many settings are left in each round, until one is the best."""
    numbers = [arms]
    while (arms := math.ceil(arms / reduction)) > 1:
        numbers.append(arms)
    return numbers


def _race(
    key: Any,
    model: Model | Estimator,
    make_kernel: Callable[..., Kernel],
    grid: Grid,
    position: Position,
    data: Data,
    num_chains: int,
    judging: tuple[Any, int, float, float],
    cost: Callable[[Setting], float] | None,
) -> tuple[Race, Any]:
    """All settings at the start, and the key of the rounds."""
    _checks.random_key(key)
    _checks.real_position(position)
    _checks.whole("num_chains", num_chains)
    must_take(make_kernel, "make_kernel", None)
    if cost is not None:
        must_take(cost, "cost", ("setting",))
    position, data = _tree.strong(position), without_frames("data", data)
    if callable(data) or isinstance(data, Iterator) or passes_of(data) is not None:
        raise TypeError(f"data must be arrays, all of them, got {type(data).__name__}")
    scale_key, key = jax.random.split(key)
    judge = as_judge(scale_key, model, position, data, *judging)
    racers = [_racer(make_kernel, setting, position, data, cost) for setting in _settings(grid)]
    return Race(racers, judge, position, data, num_chains), key


def _settings(grid: Grid) -> list[Setting]:
    """All combinations of the values of a grid, or the settings as they are."""
    if isinstance(grid, Mapping):
        values = [_values(name, grid[name]) for name in grid]
        settings = [dict(zip(grid, chosen, strict=True)) for chosen in product(*values)]
    elif isinstance(grid, list | tuple) and all(isinstance(each, Mapping) for each in grid):
        settings = [dict(setting) for setting in grid]
    else:
        raise TypeError(
            "grid must be a dict of the values of each argument, or a list of settings, which are "
            f"dicts, got {_checks.shown(grid)}"
        )
    if not settings or any(setting.keys() != settings[0].keys() for setting in settings):
        raise ValueError("grid must have at least one setting, and all the same arguments")
    return settings


def _values(name: str, values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        got = _checks.shown(values)
        raise TypeError(f"grid[{name!r}] must be the values to be tried, got {got}") from None


def _racer(
    make_kernel: Callable[..., Kernel],
    setting: Setting,
    position: Position,
    data: Data,
    cost: Callable[[Setting], float] | None,
) -> Racer:
    try:
        inspect.signature(make_kernel).bind(**setting)
    except ValueError:
        pass  # of some that are written in C
    except TypeError as error:
        wanted = ", ".join(setting)
        raise TypeError(f"make_kernel must be a function of ({wanted}), as grid: {error}") from None
    kernel = make_kernel(**setting)
    require_kernel(kernel)
    if not kernel.contract(position).free:
        raise ValueError(
            "make_kernel must make kernels on all of R^n: on a manifold, or within bounds, the "
            "kernel Stein discrepancy is not least for the target, and would choose by spread "
            "alone; Transformed has coordinates without bounds for most supports"
        )
    if cost is not None:
        step = cost(setting)
    else:
        declared = kernel.contract(position).cost
        if declared is None:
            raise TypeError(
                f"cost must be given: {type(kernel).__name__} does not tell what a step costs"
            )
        step = declared.evaluations(num_items(data))
    _checks.positive("cost", step)
    return Racer(setting, kernel, step)
