"""Steps of `sggmc` on matrix manifolds, beside their own products, and many chains at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, Stiefel, sggmc

from .table import Line, Table, compare
from .timing import Case, race

_KEY = jax.random.key(0)
_SHAPE = (64, 8)
_CHAINS = 64
_STEPS = 1_000


def run(scale: float, rounds: int) -> list[Table]:
    """One table."""
    num = max(20, int(_STEPS * scale))
    x = Stiefel().random_point(_KEY, jnp.zeros(_SHAPE))
    target = jax.random.normal(jax.random.key(1), _SHAPE)
    model = FunctionModel(lambda x: jnp.sum(target * x))
    directions = Sphere().random_point(_KEY, jnp.zeros((_SHAPE[1], _SHAPE[0])))
    rows = FunctionModel(lambda x: jnp.sum(target.T * x))
    cases, lines = {"matrix products": _products(x, num)}, [Line("matrix products")]
    for name, space, start, density in (
        ("Stiefel", Stiefel(), x, model),
        ("Sphere, 8 directions", Sphere(), directions, rows),
    ):
        kernel = sggmc(Minibatch(density, Full()), space, 0.02)
        many = f"{name}, {_CHAINS} chains"
        cases |= {name: _chain(kernel, start, num), many: _chain(kernel, start, num, _CHAINS)}
        bars = {"matrix products": 3.0} if name == "Stiefel" else {}
        lines += [Line(name, "matrix products", None, bars), Line(many, None, name, {name: 1.0})]
    note = (
        "`sggmc`, X of shape (64, 8), step size .02. The products are those of a step's two flows, "
        "its projections, and the two steps towards the polar factor. Of many chains the time is "
        "one chain's share."
    )
    return [compare("Geodesics. A step", note, "us", "step", race(cases, rounds), lines)]


def _chain(kernel: Any, start: Array, num: int, chains: int | None = None) -> Case:
    """Steps of a chain, or of as many together, in one compiled loop."""

    def steps(state: Any) -> Any:
        step = lambda i, state: kernel.step(jax.random.fold_in(_KEY, i), state, None)[0]
        return jax.lax.fori_loop(0, num, step, state)

    init = lambda key: kernel.init(key, start, None)
    if chains is None:
        state, run = init(_KEY), jax.jit(steps)
        return Case(lambda: run(state), num)
    state, run = jax.vmap(init)(jax.random.split(_KEY, chains)), jax.jit(jax.vmap(steps))
    return Case(lambda: run(state), num * chains)


def _products(x: Array, num: int) -> Case:
    """What a step multiplies, in the same order and shapes, and nothing else."""
    p = x.shape[1]

    def exponential(a: Array) -> Array:
        a2 = a @ a
        a3, a4 = a @ a2, a2 @ a2
        e = a + a4 @ (a3 + a)
        return e @ e

    def project(x: Array, v: Array) -> Array:
        return v - x @ (x.T @ v)

    def flow(x: Array, v: Array) -> tuple[Array, Array]:
        turn, square = x.T @ v, v.T @ v
        block = 1e-3 * jnp.block([[turn, square], [square, turn]])
        both, back = jnp.concatenate([x, v], 1) @ exponential(block), exponential(1e-3 * turn)
        x, v = x + 1e-6 * both[:, :p] @ back, 1e-6 * both[:, p:] @ back
        x = x - 1e-6 * x @ (x.T @ x)
        return x, project(x, v)

    def step(i: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
        x, v = flow(*loop)
        kick = project(x, v)
        v = v + project(x, v + kick) + kick
        return flow(x, 1e-6 * v)

    run = jax.jit(lambda x: jax.lax.fori_loop(0, num, step, (x, x)))
    return Case(lambda: run(x), num)
