"""Slice samplers: a sweep over features beside its matrix products, and sticks that end late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgmc_jax import sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    LinearGaussian,
    NormalInverseWishart,
    PitmanYor,
    hybrid_features,
    slice_features,
    slice_mixture,
)
from sgmc_jax.collective import Dist

from .table import Line, Table, compare, plain
from .timing import Case, clock, num_blocks, race, steps_of

_KEY = jax.random.key(0)
_DIM, _FEATURES, _CAPACITY = 64, 32, 64
_NOISE = 0.5
_SIZES = (10_000, 100_000, 1_000_000)
_BAR = 3.0  # times the products
_STICK_STEPS, _SLOTS, _STICK_SECONDS = 500, 64, 5.0


def run(scale: float, rounds: int) -> Iterator[Table]:
    """Two tables; a million items on a GPU only."""
    sizes = _SIZES if jax.default_backend() == "gpu" else _SIZES[:2]
    cases, lines = {}, []
    for n in sizes if scale == 1 else [500]:
        products, of_slots = (f"matrix products of {k}, N={n:,}" for k in (_FEATURES, _CAPACITY))
        cut, hybrid = f"slice_features, N={n:,}", f"hybrid_features, N={n:,}"
        cases |= dict(zip((products, of_slots, cut, hybrid), _cases(n)))
        lines += [Line(products), Line(of_slots, products)]
        lines += [Line(cut, products, hybrid, {products: _BAR}), Line(hybrid, products)]
    note = (
        f"D={_DIM}, {_FEATURES} features in {_CAPACITY} slots, from those that made the items. The "
        "matrix products are a step's own, of the features alone and of all slots: residuals "
        "before and after, theirs with features, and the statistics. Blocks of "
        f"{sizes[0] // num_blocks(sizes[0])} items."
    )
    yield compare("Slices. A sweep", note, "ms", "sweep", race(cases, rounds), lines)
    yield _late_sticks(rounds)


def _late_sticks(rounds: int) -> Table:
    """Sticks of a Pitman-Yor process with discount .35, which fall off like a power."""
    kernel = slice_mixture(PitmanYor(0.4, 0.35), NormalInverseWishart(1))
    points = jnp.array([[-2.0], [-1.8], [0.1], [1.9], [2.2]])
    slots, seconds = [], []
    for seed in range(rounds):
        for key in jax.random.split(jax.random.key(seed), 2):  # the first compiles
            began = clock()
            run = sample(key, kernel, None, points, num_steps=_STICK_STEPS, num_chains=4)
            spent = clock() - began
            slots.append(run.capacity)
        seconds.append(spent)
    most, middle = max(slots), float(np.median(seconds))
    rows = [
        plain("slots", f"{most}", f"<= {_SLOTS}", most <= _SLOTS),
        plain("second call", f"{middle:.2f} s", f"< {_STICK_SECONDS:g} s", middle < _STICK_SECONDS),
    ]
    note = (
        f"`slice_mixture` of five points, concentration .4, discount .35: four chains of "
        f"{_STICK_STEPS} steps; the most slots of {2 * rounds} runs, and the time of one."
    )
    return Table("Slices. Sticks that end late", note, ["case", "measured", "bar", "met"], rows)


def _cases(n: int) -> tuple[Case, Case, Case, Case]:
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((_FEATURES, _DIM), dtype=np.float32)
    features = np.zeros((n, _CAPACITY), bool)
    chance = rng.uniform(0.05, 0.5, _FEATURES)
    features[:, :_FEATURES] = rng.random((n, _FEATURES), dtype=np.float32) < chance
    noise = rng.standard_normal((n, _DIM), dtype=np.float32)
    x = jnp.asarray(features[:, :_FEATURES] @ theta + np.float32(_NOISE) * noise)
    parts = BetaBernoulli(2.0), LinearGaussian(_DIM, _NOISE)
    floor = jax.jit(_products)
    values = jnp.zeros((_CAPACITY, _DIM)).at[:_FEATURES].set(theta)
    z = jnp.asarray(features)
    few = values[:_FEATURES], jnp.asarray(features[:, :_FEATURES])
    return (
        Case(lambda: floor(x, *few), 1),
        Case(lambda: floor(x, values, z), 1),
        _steps(slice_features(*parts, decay=1.0, capacity=_CAPACITY), features, x),
        _steps(hybrid_features(*parts, blocks=num_blocks(n), capacity=_CAPACITY), features, x),
    )


def _products(x: Array, theta: Array, features: Array) -> tuple[Array, ...]:
    z = features.T.astype(x.dtype)
    before, after = x - z.T @ theta, x - z.T @ (2 * theta)
    return theta @ before.T, z @ after, z @ z.T


def _steps(kernel: Any, features: np.ndarray, x: Array, num: int = 4) -> Case:
    """Some steps of a kernel, in one compiled loop, after a few by `sample`."""
    start = Dist({}, {"features": features})
    state = sample(_KEY, kernel, start, x, num_steps=3, record=lambda state, info: info.active)
    assert state.capacity == _CAPACITY
    compiled = jax.jit(steps_of(kernel, num))
    return Case(lambda: compiled(state.state, x), num)
