"""The exact Cox-Ingersoll-Ross transition, elementwise on a matrix of topics by words."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgmc_jax.random import cir

from .table import Line, Table, compare
from .timing import Case, race

_KEY = jax.random.key(0)
_H = 0.5
_SHAPE = (100, 8000)


def run(scale: float, rounds: int) -> list[Table]:
    """One table: sparse counts over a prior of 0.1, and shapes of at least 1/2."""
    shape = (_SHAPE[0], max(8, int(_SHAPE[1] * min(1.0, 4 * scale))))
    cases, lines = {}, []
    for name, prior, minimum, faster in (("a >= .1", 0.1, 0.0, 8), ("a > 1/2", 0.51, 0.5, 12)):
        cases |= _cases(name, shape, prior, minimum)
        ours, theirs, host = (f"{who}, {name}" for who in ("cir", "jax.random", "numpy"))
        lines += [
            Line(theirs),
            Line(host),
            Line(ours, None, theirs, {theirs: 1 / faster, host: 2.5}),
        ]
    title = f"D. SCIR step on {shape[0]} x {shape[1]:,}"
    note = (
        "`jax.random` and numpy draw b Gamma(a + Poisson(theta exp(-h) / b)), numpy in float64; "
        "a = prior + counts, four in five of them zero; theta is stationary. `cir` is told where "
        "a > 1/2."
    )
    return [compare(title, note, "ns", "element", race(cases, rounds), lines)]


def _cases(name: str, shape: tuple[int, int], prior: float, minimum: float) -> dict[str, Case]:
    rng = np.random.default_rng(0)
    a = prior + rng.poisson(3.0, shape) * (rng.random(shape) < 0.2)
    theta = np.maximum(rng.standard_gamma(a), 1e-30)
    ours = jax.jit(lambda key, *args: cir(key, *args, minimum_shape=minimum))
    theirs = jax.jit(_by_jax)
    args = tuple(jnp.asarray(x, jnp.float32) for x in (np.log(theta), a, _H))
    linear = tuple(jnp.asarray(x, jnp.float32) for x in (theta, a))
    calls: dict[str, Callable] = {
        f"jax.random, {name}": lambda: theirs(_KEY, *linear),
        f"numpy, {name}": lambda: _by_numpy(rng, theta, a),
        f"cir, {name}": lambda: ours(_KEY, *args),
    }
    return {case: Case(call, a.size) for case, call in calls.items()}


def _by_jax(key: Array, theta: Array, a: Array) -> Array:
    poisson_key, gamma_key = jax.random.split(key)
    b = -jnp.expm1(-_H)
    counts = jax.random.poisson(poisson_key, theta * jnp.exp(-_H) / b)
    return b * jax.random.gamma(gamma_key, a + counts)


def _by_numpy(rng: np.random.Generator, theta: np.ndarray, a: np.ndarray) -> np.ndarray:
    b = -np.expm1(-_H)
    return b * rng.standard_gamma(a + rng.poisson(theta * np.exp(-_H) / b))
