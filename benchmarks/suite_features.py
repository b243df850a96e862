"""Beta-Bernoulli features of the "Cambridge" images: a sweep, its tail included, and a solution."""

from __future__ import annotations

import resource
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.distributed_bnp.cambridge import planted_features
from sgmc_jax import Kernel, sample
from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, hybrid_features, seed_features

from .table import Line, Table, compare, plain
from .timing import Case, clock, num_blocks, race, steps_of

_KEY = jax.random.key(0)
_PARTS = BetaBernoulli(1.0), LinearGaussian(36, noise_scale=0.25)
_CAPACITY = 16
_NUM_STEPS = 20
_SIZES = {1_000: 0.02, 10_000: 0.1, 100_000: 1.0, 1_000_000: None}  # seconds a sweep
_PRODUCTS = 10  # the bar of the last
_GIBIBYTES = 4


class Images(NamedTuple):
    """Images X = Z A + .25 E with entries of Z on with probability 1/2, and A."""

    items: np.ndarray
    features: np.ndarray


def images(num_items: int, seed: int = 0) -> Images:
    """Images of four features of 6 x 6 pixels."""
    features = planted_features()
    rng = np.random.default_rng(seed)
    entries = rng.integers(0, 2, (num_items, 4)).astype(np.float32)
    noise = rng.standard_normal((num_items, 36), dtype=np.float32)
    return Images(entries @ features + np.float32(0.25) * noise, features)


def run(scale: float, rounds: int) -> list[Table]:
    """Two tables."""
    sizes = list(_SIZES) if scale == 1 else list(_SIZES)[:1]
    cases, rows = {}, []
    for n in sizes:
        row, solved = _solve(n)
        rows.append(row)
        cases |= _cases(n, *solved)
    timings = race(cases, rounds)
    lines = []
    for n in sizes:
        products, limit = f"matrix products, N={n:,}", _SIZES[n]
        bar = _PRODUCTS if limit is None else limit / timings[products].median
        lines += [Line(products), Line(f"N={n:,}", products, None, {products: bar})]
    note = (
        f"`hybrid_features`, {_CAPACITY} slots, {n // num_blocks(n)} items a block. The bars are "
        "20 ms, 100 ms and 1 s, then 10 times the products: residuals, theirs with features, and "
        "the statistics."
    )
    sweeps = compare("G. Cambridge: a sweep", note, "ms", "sweep", timings, lines)
    note = (
        f"`seed_features` on 100 items, then {_NUM_STEPS} steps. CPU seconds after compilation, "
        "features, the smallest cosine of a planted feature with one found, and the largest memory "
        "that the process has had."
    )
    header = ["items", "CPU s; features; cosine; memory", "bar", "met"]
    return [sweeps, Table("G. Cambridge: a solution", note, header, rows)]


def _solve(n: int) -> tuple[list[str], tuple[Kernel, Any, Array]]:
    """The row of what is found, and the kernel, its last state and the items."""
    data = images(n)
    x, kernel = jnp.asarray(data.items), _kernel(n)

    def find(key: Array) -> Any:
        start = seed_features(key, *_PARTS, x, capacity=_CAPACITY)
        return sample(key, kernel, start, x, num_steps=_NUM_STEPS, record=_active).state

    find(jax.random.key(1))
    began = clock()
    state = find(_KEY)
    seconds = clock() - began
    found = np.asarray(state.position.shared["parameters"])
    norm = lambda rows: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    cosine = (norm(data.features) @ norm(found).T).max(axis=1).min()
    num = int((state.sums.counts > 0).sum())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    met = cosine > 0.95 and abs(num - 4) <= 1 and memory < _GIBIBYTES
    value = f"{seconds:.1f}; {num}; {cosine:.3f}; {memory:.1f} GiB"
    bar = f"cosine > .95; 4 +- 1; < {_GIBIBYTES} GiB"
    return plain(f"{n:,}", value, bar, met), (kernel, state, x)


def _kernel(n: int) -> Kernel:
    return hybrid_features(*_PARTS, blocks=num_blocks(n), capacity=_CAPACITY)


def _active(state: Any, info: Any) -> Array:
    return info.active


def _cases(n: int, kernel: Kernel, state: Any, x: Array) -> dict[str, Case]:
    def products(x: Array, theta: Array, features: Array) -> tuple[Array, ...]:
        z = features.T.astype(x.dtype)
        residual = x - z.T @ theta
        return theta @ residual.T, z @ residual, z @ z.T

    compiled, floor = jax.jit(steps_of(kernel, 4)), jax.jit(products)
    shared, local = state.position
    return {
        f"matrix products, N={n:,}": Case(
            lambda: floor(x, shared["parameters"], local["features"]), 1
        ),
        f"N={n:,}": Case(lambda: compiled(state, x), 4),
    }
