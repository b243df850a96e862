"""Logistic regression, many chains: a minibatch for each, or one for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax import Array

from sgmc_jax import Minibatch, Uniform, sample, sgld

from . import floors, peers
from .problems import LINEAR, STEP_SIZE, logistic_data
from .table import Line, Table, compare
from .timing import Case, race

_KEY = jax.random.key(0)
_DIMS = 10, 100
_OWN, _SHARED = 1.1, 1.2


def run(
    scale: float, rounds: int, num_items: int = 100_000, batch_size: int = 1000
) -> Iterator[Table]:
    """One table for each number of chains, and one of a larger model."""
    small, large = (logistic_data(num_items, dim) for dim in _DIMS)
    sizes = [(16, small), (128, small), (1024, small), (16, large)]
    for chains, data in sizes:
        num_steps = max(10, int(50_000 * scale) // chains)
        yield _table(chains, num_steps, rounds, data, batch_size)


def _table(chains: int, num_steps: int, rounds: int, data: tuple, batch_size: int) -> Table:
    dim = data[0].shape[1]
    x, cases = jnp.zeros((chains, dim)), {}
    for shared, word in ((False, "own"), (True, "shared")):
        cases[f"{word}, floor"] = _floor(num_steps, x, data, batch_size, shared)
        cases[f"{word}, blackjax"] = _peer(num_steps, x, data, batch_size, shared)
        cases[f"{word} batches"] = _own(num_steps, x, data, batch_size, shared)
    by_turns = "own batches, chain after chain"
    cases[by_turns] = _own(num_steps, x, data, batch_size, False, at_once=1)
    lines = [Line(name) for name in cases if "batches" not in name]
    for word, bar in (("own", _OWN), ("shared", _SHARED)):
        floor = f"{word}, floor"
        lines.append(Line(f"{word} batches", floor, f"{word}, blackjax", {floor: bar}))
    lines.append(Line(by_turns, "own, floor", "own, blackjax"))
    title = f"B. {chains:,} chains, d={dim}, N={len(data[1]):,}, batch {batch_size:,}"
    note = (
        f"{num_steps:,} steps a call. The floors are vmapped, with the same index and key rules; "
        "they and blackjax's differentiate, where ours is a LinearModel that knows its slope, and "
        "blackjax's batches are drawn by randint, with replacement. Chain after chain is "
        "`chains_at_once=1`."
    )
    return compare(title, note, "us", "chain-step", race(cases, rounds), lines)


def _own(
    num_steps: int,
    x: Array,
    data: tuple,
    batch_size: int,
    shared: bool,
    at_once: int | None = None,
) -> Case:
    kernel = sgld(Minibatch(LINEAR, Uniform(batch_size)), STEP_SIZE)

    def call() -> Array:
        settings = {"num_steps": num_steps, "share_batch": shared}
        chains = {"num_chains": len(x), "position_axis": 0, "chains_at_once": at_once}
        return sample(_KEY, kernel, x, data, **settings, **chains).trace

    return Case(call, num_steps * len(x))


def _floor(num_steps: int, x: Array, data: tuple, batch_size: int, shared: bool) -> Case:
    gradient = floors.minibatch_gradient(floors.feistel, batch_size)
    chain = floors.scanned(floors.sgld(gradient, STEP_SIZE), num_steps)
    batch = jax.random.key(1) if shared else jax.random.split(jax.random.key(1), len(x))
    run = jax.jit(jax.vmap(chain, (0, None if shared else 0, 0, None)))
    noise = jax.random.split(_KEY, len(x))
    return Case(lambda: run(noise, batch, (x,), data), num_steps * len(x))


def _peer(num_steps: int, x: Array, data: tuple, batch_size: int, shared: bool) -> Case:
    run: Callable = jax.jit(peers.many(STEP_SIZE, num_steps, batch_size, len(data[1]), shared))
    return Case(lambda: run(_KEY, x, data), num_steps * len(x))
