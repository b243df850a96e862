"""A ten-dimensional Gaussian with its exact gradient: what a step costs beside its noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sgmc_jax import Full, Minibatch, sample, scan_kernel, sgld

from . import floors, peers
from .problems import GAUSSIAN, VARIANCES, gaussian
from .table import Line, Table, compare
from .timing import Case, race

_KEY = jax.random.key(0)
_H = 0.1
_BAR = 1.2


def run(scale: float, rounds: int) -> list[Table]:
    """One table."""
    num_steps = max(100, int(1_000_000 * scale))
    cases = _cases(num_steps)
    lines = [Line("floor"), Line("blackjax sgld", "floor")]
    for name in ("sgld by sample", "sgld by scan_kernel"):
        lines.append(Line(name, "floor", "blackjax sgld", {"floor": _BAR}))
    title = "C. 10-d Gaussian, exact gradient"
    note = f"{num_steps:,} steps a call, every position kept. The floor has the runner's key rule."
    return [compare(title, note, "ns", "step", race(cases, rounds), lines)]


def _cases(num_steps: int) -> dict[str, Case]:
    x = jnp.zeros(len(VARIANCES))
    kernel = sgld(Minibatch(GAUSSIAN, Full()), _H)
    step = floors.sgld(lambda key, x, data: jax.grad(gaussian)(x), _H)
    floor = jax.jit(floors.scanned(step, num_steps))
    peer = jax.jit(peers.exact(jax.grad(gaussian), _H, num_steps))
    state = kernel.init(_KEY, x, None)
    scanned = jax.jit(lambda key, kernel: scan_kernel(key, kernel, state, None, num_steps)[1])
    calls = {
        "floor": lambda: floor(_KEY, _KEY, (x,), None),
        "blackjax sgld": lambda: peer(_KEY, x),
        "sgld by sample": lambda: sample(_KEY, kernel, x, None, num_steps=num_steps).trace,
        "sgld by scan_kernel": lambda: scanned(_KEY, kernel),
    }
    return {name: Case(call, num_steps) for name, call in calls.items()}
