"""Steps on matrix manifolds and of topics, beside their own products; many chains at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, Stiefel, Uniform, gsgnht, sample, sggmc
from sgmc_jax.models import SphericalAdmixture

from .table import Line, Table, compare
from .timing import Case, race, steps_of

_KEY = jax.random.key(0)
_SHAPE = (64, 8)
_CHAINS = 64
_STEPS = 1_000
_TOPICS, _VOCABULARY, _DOCUMENTS, _BATCH, _WORDS = 50, 10_000, 2_000, 100, 60


def run(scale: float, rounds: int) -> Iterator[Table]:
    """Two tables."""
    yield _frames(scale, rounds)
    yield _admixture(scale, rounds)


def _frames(scale: float, rounds: int) -> Table:
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
    return compare("Geodesics. A step", note, "us", "step", race(cases, rounds), lines)


def _admixture(scale: float, rounds: int) -> Table:
    """Fifty topics in ten thousand dimensions, from batches of a hundred documents."""
    num = max(5, int(_STEPS * scale / 20))
    sam = SphericalAdmixture(_TOPICS, _VOCABULARY, 1.0, 3_000.0, 1_000.0)
    rng = np.random.default_rng(0)
    words = np.sort(rng.integers(0, _VOCABULARY, (_DOCUMENTS, _WORDS)), axis=1)
    starts = np.arange(_DOCUMENTS + 1) * _WORDS
    counts = (rng.integers(1, 5, words.size), words.ravel(), starts)
    data = jax.tree.map(jnp.asarray, sam.documents(counts))
    start, grad = sam.start(_KEY), sam.topics(Uniform(_BATCH))
    batch = jax.random.normal(_KEY, (_BATCH, _VOCABULARY))
    cases = {
        "matrix products": _topic_products(start, batch, num),
        "and normals": _topic_products(start, batch, num, noise=True),
    }
    lines = [Line("matrix products"), Line("and normals", "matrix products")]
    for name, kernel in (
        ("sggmc", sggmc(grad, Sphere(), 1e-3, 100.0)),
        ("gsgnht", gsgnht(grad, Sphere(), 1e-3, 100.0)),
    ):
        cases[name] = _chain(kernel, start, num, data=data)
        lines.append(Line(name, "matrix products", "and normals", {"matrix products": 1.5}))
    many = f"sggmc, {_CHAINS} chains"
    kernel = sggmc(grad, Sphere(), 1e-3, 100.0)
    cases[many] = _chain(kernel, start, max(1, num // 25), _CHAINS, data)
    lines.append(Line(many, None, "sggmc", {"sggmc": 1.0}))
    some = max(2, num // 5)
    cases["sample"] = _sampled(kernel, start, data, some)
    by_turns = f"sample, {_CHAINS} chains, one after the other"
    cases[by_turns] = _sampled(kernel, start, data, some, _CHAINS)
    lines += [Line("sample"), Line(by_turns, None, "sample", {"sample": 1.05})]
    note = (
        f"`SphericalAdmixture`, {_TOPICS} topics, {_VOCABULARY:,} words, batches of {_BATCH} of "
        f"{_DOCUMENTS:,} documents. The products are those of topics and of the batch with "
        "topics, twice each; a step's noise is half a million normals. `sample` keeps one number "
        "of a draw; its chains one after the other have `chains_at_once=1`."
    )
    return compare("Topics on the sphere. A step", note, "ms", "step", race(cases, rounds), lines)


def _topic_products(start: Array, batch: Array, num: int, noise: bool = False) -> Case:
    """What a step multiplies, and the normals that it draws."""

    def step(i: Array, topics: Array, batch: Array) -> Array:
        inner, gram = batch @ topics.T, topics @ topics.T
        topics = topics + 1e-9 * ((inner / _BATCH).T @ batch - gram @ topics)
        if noise:
            topics = topics + 1e-9 * jax.random.normal(jax.random.fold_in(_KEY, i), topics.shape)
        return topics

    @jax.jit
    def run(topics: Array, batch: Array) -> Array:
        return jax.lax.fori_loop(0, num, lambda i, topics: step(i, topics, batch), topics)

    return Case(lambda: run(start, batch), num)


def _chain(
    kernel: Any, start: Array, num: int, chains: int | None = None, data: Any = None
) -> Case:
    """Steps of a chain, or of as many together, in one compiled loop."""
    steps = steps_of(kernel, num)
    init = jax.jit(lambda key, data: kernel.init(key, start, data))
    if chains is None:
        state, run = init(_KEY, data), jax.jit(steps)
        return Case(lambda: run(state, data), num)
    keys = jax.random.split(_KEY, chains)
    state = jax.vmap(init, (0, None))(keys, data)
    run = jax.jit(jax.vmap(steps, (0, None)))
    return Case(lambda: run(state, data), num * chains)


def _sampled(kernel: Any, start: Array, data: Any, num: int, chains: int | None = None) -> Case:
    """Steps of a chain, or of as many one after the other, that go on from earlier ones."""
    args = {"num_steps": num, "num_chains": chains, "chains_at_once": chains and 1, "chunk": num}
    record = lambda state, info: state.position[0, 0]
    go = lambda position: sample(_KEY, kernel, position, data, record=record, **args)
    begun = go(start)
    return Case(lambda: go(begun).trace, num * (chains or 1))


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
