"""Logistic regression, one chain, a minibatch a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sgmc_jax import ControlVariate, Minibatch, Uniform, sample, sghmc, sgld, sgnht

from . import floors, peers
from .problems import FUNCTION, LINEAR, STEP_SIZE, batch_loglik, logistic_data
from .table import Line, Table, compare
from .timing import Case, race

_KEY = jax.random.key(0)
_FLOOR = 1.10
# blackjax / ours: 1.6 at d=10, 1.15 at d=100; sgmcmcjax's own ratios to the classic floor
_PEER = {10: 1 / 1.6, 100: 1 / 1.15}
_CLASSIC = {10: 0.88, 100: 0.91}
_CONTROL_VARIATE = 1.15


def run(
    scale: float, rounds: int, num_items: int = 100_000, batch_size: int = 1000
) -> Iterator[Table]:
    """One table for each dimension."""
    steps = {10: max(20, int(20_000 * scale)), 100: max(20, int(6_000 * scale))}
    yield from (_table(d, steps[d], rounds, num_items, batch_size) for d in (10, 100))


def _table(dim: int, num_steps: int, rounds: int, num_items: int, batch_size: int) -> Table:
    data = logistic_data(num_items, dim)
    centre = jnp.zeros(dim)
    cases = {
        **_floor_cases(num_steps, data, centre, batch_size),
        **_peer_cases(num_steps, data, centre, batch_size),
        **_own_cases(num_steps, data, centre, batch_size),
    }
    title = f"A. Logistic regression, d={dim}, N={num_items:,}, batch {batch_size:,}, one chain"
    note = (
        f"{num_steps:,} steps a call. The floors differentiate the matrix form with the same index "
        "and key rules; the classic floor carries one key, splits it, and draws by randint. "
        "The FunctionModel is differentiated too, as blackjax's; the other rows' LinearModel knows "
        "its slope, as the floors that say so do."
    )
    return compare(title, note, "us", "step", race(cases, rounds), _lines(dim))


def _own_cases(num_steps: int, data: tuple, centre: Array, batch_size: int) -> dict[str, Case]:
    linear, drawn = Minibatch(LINEAR, Uniform(batch_size)), Uniform(batch_size, replace=True)
    kernels = {
        "sgld": sgld(linear, STEP_SIZE),
        "sgld, FunctionModel": sgld(Minibatch(FUNCTION, Uniform(batch_size)), STEP_SIZE),
        "sgld, replace=True": sgld(Minibatch(LINEAR, drawn), STEP_SIZE),
        "sgld, FunctionModel, replace=True": sgld(Minibatch(FUNCTION, drawn), STEP_SIZE),
        "sghmc": sghmc(linear, STEP_SIZE),
        "sgnht": sgnht(linear, STEP_SIZE),
        "sgld, control variate": sgld(ControlVariate(linear, centre), STEP_SIZE),
    }

    def case(kernel: Any) -> Case:
        def call() -> Array:
            return sample(_KEY, kernel, centre, data, num_steps=num_steps).trace

        return Case(call, num_steps)

    return {name: case(kernel) for name, kernel in kernels.items()}


def _floor_cases(num_steps: int, data: tuple, centre: Array, batch_size: int) -> dict[str, Case]:
    zeros = jnp.zeros_like(centre)
    keyed = floors.minibatch_gradient(floors.feistel, batch_size)
    drawn = floors.minibatch_gradient(floors.randint, batch_size)
    full = jax.grad(batch_loglik)(centre, data)
    anchored = floors.control_variate_gradient(batch_size, centre, full)
    known = floors.slope_gradient(batch_size)
    both_known = floors.control_variate_slope(batch_size, centre, full)
    x, xv, xvt = (centre,), (centre, zeros), (centre, zeros, jnp.ones(()))

    def case(loop: Callable, step: floors.Step, state: tuple) -> Case:
        run = jax.jit(loop(step, num_steps))
        return Case(lambda: run(_KEY, jax.random.key(1), state, data), num_steps)

    return {
        "classic floor": case(floors.carried_split, floors.sgld(drawn, STEP_SIZE), x),
        "floor, randint": case(floors.scanned, floors.sgld(drawn, STEP_SIZE), x),
        "floor": case(floors.scanned, floors.sgld(keyed, STEP_SIZE), x),
        "floor, sghmc": case(floors.scanned, floors.sghmc(keyed, STEP_SIZE), xv),
        "floor, sgnht": case(floors.scanned, floors.sgnht(keyed, STEP_SIZE), xvt),
        "floor, cv": case(floors.scanned, floors.sgld(anchored, STEP_SIZE), x),
        "floor, slope": case(floors.scanned, floors.sgld(known, STEP_SIZE), x),
        "floor, cv, slope": case(floors.scanned, floors.sgld(both_known, STEP_SIZE), x),
    }


def _peer_cases(num_steps: int, data: tuple, centre: Array, batch_size: int) -> dict[str, Case]:
    num_items = len(data[1])
    plain = peers.estimator(num_items)
    anchored = peers.anchored(num_items, centre, data)
    runs = {
        "blackjax sgld": peers.sgld(plain, STEP_SIZE, num_steps, batch_size),
        "blackjax sgnht": peers.sgnht(plain, STEP_SIZE, num_steps, batch_size),
        "blackjax cv": peers.sgld(anchored, STEP_SIZE, num_steps, batch_size),
    }

    def case(run: Callable) -> Case:
        run = jax.jit(run)
        return Case(lambda: run(_KEY, centre, data), num_steps)

    return {name: case(run) for name, run in runs.items()}


def _lines(dim: int) -> list[Line]:
    peer = _PEER[dim]
    plain = {"floor": _FLOOR, "blackjax sgld": peer}
    anchored = {"floor, cv": _FLOOR, "sgld": _CONTROL_VARIATE, "blackjax cv": peer}
    return [
        Line("classic floor"),
        Line("floor, randint"),
        Line("floor"),
        Line("floor, slope", "floor"),
        Line("floor, cv, slope", "floor, cv"),
        Line("blackjax sgld", "classic floor"),
        Line("blackjax sgnht", "classic floor"),
        Line("blackjax cv", "classic floor"),
        Line("sgld", "floor", "blackjax sgld", {**plain, "classic floor": _CLASSIC[dim]}),
        Line("sgld, FunctionModel", "floor", "blackjax sgld", plain),
        Line("sgld, replace=True", "floor, randint", "blackjax sgld", {"floor, randint": _FLOOR}),
        Line("sgld, FunctionModel, replace=True", "floor, randint", "blackjax sgld"),
        Line("sghmc", "floor, sghmc", None, {"floor, sghmc": _FLOOR}),
        Line(
            "sgnht",
            "floor, sgnht",
            "blackjax sgnht",
            {"floor, sgnht": _FLOOR, "blackjax sgnht": peer},
        ),
        Line("sgld, control variate", "floor, cv", "blackjax cv", anchored),
    ]
