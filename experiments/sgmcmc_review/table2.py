"""Table 2: eight samplers of logistic regression, tuned by the library, against NUTS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax import (
    ControlVariate,
    Euclidean,
    Full,
    Kernel,
    Minibatch,
    Splitting,
    Uniform,
    hmc,
    sample,
    sghmc,
    sgld,
    sgnht,
)
from sgmc_jax.diagnostics import ess, ksd
from sgmc_jax.models import LogisticRegression
from sgmc_jax.tune import Laplace, default_kernel, laplace, successive_halving

from ..common import Options, chain_of, clocked, package, table

MODEL = LogisticRegression()
CHAINS = 16
KSD_DRAWS = 1_000
WORDS = {"step_size": "h", "friction": "C"}


class Size(NamedTuple):
    """How much of everything."""

    dims: tuple[int, ...]
    items: int
    steps: tuple[int, int]  # of each chain, without and with control variates
    pilot: int  # steps of four chains that the tuner may take, of all settings of a column
    passes: int  # steps of each chain with all of the data
    nuts: tuple[int, int]  # to adapt, to keep


SIZES = {
    False: Size((10, 20), 10_000, (2_000, 2_000), 10_000, 75, (300, 500)),
    True: Size((10, 50, 100), 100_000, (4_000, 12_000), 40_000, 600, (500, 1_000)),
}


class Problem(NamedTuple):
    """Data, held-out data, and the normal approximation."""

    data: tuple[Array, Array]
    held_out: tuple[Array, Array]
    fit: Laplace
    curvature: float  # the largest eigenvalue of the Hessian at the mode

    @property
    def sd(self) -> Array:
        return jnp.linalg.norm(self.fit.space.cholesky, axis=1)


class Column(NamedTuple):
    """A way to make a kernel, and the settings that the tuner may choose from."""

    make: Callable[..., Kernel]
    grid: dict[str, list[float]]
    mixes: bool = False  # soon enough for pilot runs to show a bias of some per cent


class Draws(NamedTuple):
    """What one sampler has drawn, and the processor seconds it took: to tune, and to draw.

    `inside` tells whether the settings of a tuned one lie inside their grids. Steps before those
    that are kept took `before`; of NUTS, whose adaptation is in its seconds, none.
    """

    trace: np.ndarray  # (chain, draw, d)
    setting: str
    tuning: float
    seconds: float
    before: float = 0.0
    inside: str = ""


def simulated(key: Any, num_items: int, dim: int) -> Problem:
    """As in the paper: theta from the prior, a tenth as many items held out."""
    sim, fit_key = jax.random.split(key)
    _, (x, y) = MODEL.simulate(sim, num_items + num_items // 10, dim)
    data, held_out = (x[:num_items], y[:num_items]), (x[num_items:], y[num_items:])
    fit = laplace(fit_key, MODEL, jnp.zeros(dim), data)
    assert fit.space.cholesky is not None
    curvature = 1 / np.linalg.svd(np.asarray(fit.space.cholesky), compute_uv=False)[-1] ** 2
    return Problem(data, held_out, fit, float(curvature))


def columns(key: Any, problem: Problem) -> dict[str, Column]:
    """The samplers of the paper: plain ones in its coordinates, those with control variates in the
    metric and with the batches of `default_kernel`."""
    fit, unit = problem.fit, problem.curvature
    plain = Minibatch(MODEL, Uniform(len(problem.data[0]) // 100))
    made = default_kernel(key, MODEL, fit.mode, problem.data, fit=fit)
    largest = _centred(Minibatch(MODEL, Uniform(len(problem.data[0]) // 4)), fit)
    cv = made.grad if isinstance(made, Splitting) else largest
    space = fit.space
    # of a step that the curvature of the posterior allows
    small = [float(h / unit) for h in np.geomspace(1e-4, 0.3, 8)]
    under = {
        "step_size": [float(h / unit**0.5) for h in np.geomspace(3e-3, 0.3, 5)],
        "friction": [float(c * unit**0.5) for c in (1.0, 10.0, 100.0)],
    }
    white = {"step_size": [0.1, 0.2, 0.3, 0.5, 0.7, 1.0], "friction": [0.7, 1.0, 2.0]}
    short = {"step_size": [0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8]}
    return {
        "SGLD": Column(lambda step_size: sgld(plain, step_size), {"step_size": small}),
        "SGLD-CV": Column(lambda step_size: sgld(cv, step_size, space=space), short, True),
        "SGHMC": Column(lambda step_size, friction: sghmc(plain, step_size, friction), under),
        "SGHMC-CV": Column(
            lambda step_size, friction: sghmc(cv, step_size, friction, space=space), white, True
        ),
        "SGNHT": Column(lambda step_size, friction: sgnht(plain, step_size, friction), under),
        "SGNHT-CV": Column(
            lambda step_size, friction: sgnht(cv, step_size, friction, space=space), white, True
        ),
    }


def _centred(inner: Minibatch, fit: Laplace) -> ControlVariate:
    return ControlVariate(inner, fit.mode)


def tuned(key: Any, problem: Problem, column: Column, size: Size) -> Draws:
    """The kernel that successive halving chooses, and its draws."""
    tune_key, key = jax.random.split(key)
    judge = _centred(Minibatch(MODEL, Uniform(min(2_000, size.items // 4))), problem.fit)
    one = column.make(**{name: values[0] for name, values in column.grid.items()})
    cost = one.contract(problem.fit.mode).cost
    assert cost is not None
    began = time.process_time()
    found = successive_halving(
        tune_key,
        judge,
        column.make,
        column.grid,
        problem.fit.mode,
        problem.data,
        budget=size.pilot * (4 if column.mixes else 1) * cost.items * 4,
        num_chains=4,
        scale=problem.sd,
        max_draws=4_000,
        max_temperature=1.06 if column.mixes else 2.0,
    )
    tuning = time.process_time() - began
    setting = ", ".join(f"{WORDS[k]} = {v:.2g}" for k, v in found.setting.items())
    steps = size.steps[column.mixes]
    inside = in_the_grid(found.setting, column.grid)
    args = key, problem, found.kernel, steps, setting, tuning, inside
    return drawn(*args, soon=column.mixes)


def in_the_grid(setting: dict[str, float], grid: dict[str, list[float]]) -> str:
    """Whether each setting lies inside its grid; else which are at an end, where others may do."""
    ends = [WORDS[k] for k, v in setting.items() if not min(grid[k]) < v < max(grid[k])]
    return f"NO: {', '.join(ends)}" if ends else "yes"


def drawn(
    key: Any,
    problem: Problem,
    kernel: Kernel,
    steps: int,
    setting: str,
    tuning: float = 0.0,
    inside: str = "",
    soon: bool = True,
) -> Draws:
    """Draws and their processor seconds once all is compiled, after a tenth as many from the mode;
    or, of a chain that does not soon forget it, after as many."""
    before = steps // 10 if soon else steps
    go = partial(sample, key, kernel, data=problem.data, num_chains=CHAINS, chunk=steps)
    first = go(position=problem.fit.mode, num_steps=before, position_axis=None)
    run, seconds = clocked(go, first, steps)
    return Draws(run.trace, setting, tuning, seconds, seconds * before / steps, inside)


def nuts(key: Any, problem: Problem, adapt: int, keep: int) -> Draws:
    """NUTS of blackjax, its window adaptation included in the seconds, its compilation not."""
    blackjax = package("blackjax")

    def density(w: Array, data: Any) -> Array:
        return MODEL.logdensity(w, data)

    def run(key: Any, start: Array, data: Any) -> Array:
        adapt_key, key = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, lambda w: density(w, data))
        (state, parameters), _ = warmup.run(adapt_key, start, adapt)
        kernel = blackjax.nuts(lambda w: density(w, data), **parameters)
        return chain_of(kernel, key, state, keep)

    compiled = jax.jit(run).lower(key, problem.fit.mode, problem.data).compile()
    began = time.process_time()
    trace = np.asarray(compiled(key, problem.fit.mode, problem.data))[None]
    return Draws(trace, "by itself", 0.0, time.process_time() - began)


def speeds(draws: Draws, slow: float) -> list[str]:
    """The least ESS, and four rates of it: not estimable if it is below the number of half chains.

    As many are left where each half chain stays by itself, whatever their length.
    """
    least, halves = float(np.min(ess(draws.trace))), 2 * len(draws.trace)
    if least < halves:
        return [f"< {halves}", "-", "-", "-", "-"]
    rate = least / draws.seconds
    of_all = least / (draws.tuning + draws.before + draws.seconds)
    return [f"{least:.0f}", *(f"{x:.3g}" for x in (rate, rate / slow, of_all / slow, 60 * rate))]


def moments(trace: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations over all draws of all chains, in double precision."""
    return trace.mean((0, 1), dtype=float), trace.std((0, 1), dtype=float)


def line(name: str, draws: Draws, exact: np.ndarray, slow: float, problem: Problem) -> list[str]:
    """A sampler's line; `slow` is the ESS per second of NUTS."""
    (mean, sd), (true_mean, true_sd) = map(moments, (draws.trace, exact))
    ratio, shift = (sd / true_sd) ** 2, np.abs(mean - true_mean) / true_sd
    flat = draws.trace.reshape(-1, draws.trace.shape[-1])
    last = jnp.asarray(flat[:: max(1, len(flat) // KSD_DRAWS)][:KSD_DRAWS])
    scores = jax.lax.map(lambda w: MODEL.score(w, problem.data), last)
    discrepancy = ksd(last / problem.sd, scores * problem.sd)
    return [
        name,
        draws.setting,
        draws.inside,
        f"{draws.tuning:.1f}",
        f"{draws.seconds:.2f}",
        *speeds(draws, slow),
        f"{ratio.min():.2f} to {ratio.max():.2f}",
        f"{shift.max():.2f}",
        f"{float(MODEL.log_loss(last, problem.held_out)):.4f}",
        f"{float(discrepancy):.3f}",
    ]


HEADER = (
    "sampler",
    "chosen",
    "in the grid",
    "tuning, s",
    "drawing, s",
    "least ESS",
    "per CPU-second",
    "ratio to NUTS",
    "of all seconds",
    "per minute",
    "variance, ratio",
    "mean, sd",
    "log-loss",
    "KSD",
)


def lines(key: Any, dim: int, size: Size) -> Iterator[list[str]]:
    """The lines of the table of one dimension, one by one."""
    keys = iter(jax.random.split(key, 12))
    problem = simulated(next(keys), size.items, dim)
    fit = problem.fit
    h = min(0.5, 1.2 * dim**-0.25)
    exact = hmc(Minibatch(MODEL, Full()), h, 4, space=fit.space)
    package("blackjax")  # or nothing at all: all ratios are to it
    reference = drawn(next(keys), problem, exact, size.passes, f"h = {h:.2g}, L = 4")
    peer = nuts(next(keys), problem, *size.nuts)
    slow = float(np.min(ess(peer.trace))) / peer.seconds
    judged = (reference.trace, slow, problem)
    yield line("NUTS", peer, *judged)
    yield line("HMC, whitened", reference, *judged)
    for name, column in columns(next(keys), problem).items():
        yield line(name, tuned(next(keys), problem, column, size), *judged)
    ula = sgld(Minibatch(MODEL, Full()), 0.3, space=Euclidean(cholesky=fit.space.cholesky))
    full = drawn(next(keys), problem, ula, size.passes, "h = 0.3")
    yield line("ULA, whitened", full, *judged)


def run(options: Options) -> Iterator[str]:
    """A table for each number of coefficients."""
    size, before = SIZES[options.full], ""
    for dim in size.dims:
        rows, text = [], ""
        for row in lines(options.key, dim, size):
            rows.append(row)
            print(" | ".join(row), flush=True)
            text = f"{before}d = {dim}, N = {size.items}\n\n{table(HEADER, rows)}"
            yield text
        before = text + "\n"
