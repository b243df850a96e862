"""Many chains on a GPU, against the bytes that their minibatches must move."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sgmc_jax import ControlVariate, Minibatch, Uniform, sample, sghmc, sgld, sgnht

from .problems import LINEAR, STEP_SIZE, logistic_data
from .table import Line, Table, compare
from .timing import Case, race

_KEY = jax.random.key(0)
_DIM = 10
_COPY_BYTES = 2**30


def run(
    scale: float,
    rounds: int,
    chains: int = 4096,
    num_items: int = 100_000,
    batch_size: int = 1000,
) -> list[Table]:
    """One table; the floor copies as many bytes as one chain-step gathers."""
    num_steps = max(10, int(400 * scale))
    data, centre = logistic_data(num_items, _DIM), jnp.zeros(_DIM)
    step_bytes = batch_size * (_DIM + 1) * 4
    cases = {"copy of the batch": _copy(step_bytes)}
    for name, kernel in _kernels(batch_size, centre).items():
        cases[name] = _case(kernel, chains, num_steps, centre, data)
    lines = [Line(name, None if name.startswith("copy") else "copy of the batch") for name in cases]
    title = f"GPU. {chains:,} chains, d={_DIM}, N={num_items:,}, batch {batch_size:,}"
    note = f"{num_steps:,} steps a call; {step_bytes / 1e3:.0f} kB of rows are gathered a step."
    return [compare(title, note, "ns", "chain-step", race(cases, rounds), lines)]


def _kernels(batch_size: int, centre: Array) -> dict[str, Any]:
    grad = Minibatch(LINEAR, Uniform(batch_size))
    anchored = ControlVariate(grad, centre)
    return {
        "sgld": sgld(grad, STEP_SIZE),
        "sgld, control variate": sgld(anchored, STEP_SIZE),
        "sghmc": sghmc(grad, STEP_SIZE),
        "sgnht": sgnht(grad, STEP_SIZE),
    }


def _case(kernel: Any, chains: int, num_steps: int, centre: Array, data: tuple) -> Case:
    def call() -> Array:
        return sample(_KEY, kernel, centre, data, num_steps=num_steps, num_chains=chains).trace

    return Case(call, chains * num_steps)


def _copy(step_bytes: int) -> Case:
    """Reads `step_bytes` a unit, and writes as many."""
    block = jnp.zeros(_COPY_BYTES // 4)
    copy = jax.jit(lambda x: x + 1)
    return Case(lambda: copy(block), _COPY_BYTES / step_bytes)
