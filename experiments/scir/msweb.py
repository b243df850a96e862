"""Figures 3b and 4b of the SCIR paper: a Dirichlet process mixture of the pages users visit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from sgmc_jax import sample, scan_kernel
from sgmc_jax.bnp import DirichletMultinomial, DirichletProcess, slice_mixture

from .. import common
from ..common import Options, active, shown
from ..common import table as markdown
from . import pictures

USERS, PAGES = 32_711, 294
MSWEB = (
    "the anonymous Microsoft web data (MSWeb) of the UCI repository, in its split,",
    "`train_data`, `train_indices` and `train_indptr`, the visits as compressed sparse rows, 1 "
    f"where a user has been to a page, and their `train_shape` ({USERS}, {PAGES}); and the same of "
    f"`test_`, of shape (5000, {PAGES})",
)
BATCH, START = 4_000, 20  # users in a batch, clusters to begin with
WARM = 5  # passes of the warm start of the exact sampler from batches
PROCESS = DirichletProcess(1.0, prior=(1.0, 0.1))
FAMILY = DirichletMultinomial(0.5, size=PAGES)
FULL, BATCHED = "exact, all users", "exact, batches"
NEAR = (0.05, 0.02, 0.01)  # nats a user
EARLY, ROUNDS = 20, 5  # passes before the timing, and its rounds


class Size(NamedTuple):
    """How much is run: passes over the users, seeds, and the step sizes of the grids."""

    passes: int
    seeds: int
    grids: dict[str, Float[np.ndarray, " h"]]


GRIDS = {"scir": np.geomspace(3e-3, 0.3, 5), "sgrld": np.geomspace(1e-4, 1e-2, 5)}
SIZES = {"full": Size(300, 5, GRIDS), "small": Size(100, 2, GRIDS)}


class Visits(NamedTuple):
    """Who visited which page: users to learn from, users to tune by, and users to be judged by."""

    train: UInt8[np.ndarray, "user page"]
    tune: UInt8[np.ndarray, "user page"]
    test: UInt8[np.ndarray, "user page"]


class Result(NamedTuple):
    """What a sampler gave: mean log predictives of held-out users after each pass (seed, pass).

    `averaged` is that of the predictive averaged over the last third of the passes, `active` the
    mean number of clusters at the end; `kernel` and `state` are those of the first chain after the
    first passes, to be timed: chains that were given more slots later take longer from then on.
    """

    step_size: float
    inside: bool
    tune: Float[np.ndarray, "seed pass"]
    test: Float[np.ndarray, "seed pass"]
    averaged: Float[np.ndarray, " seed"]
    active: float
    kernel: Any
    state: Any


def load(folder: Path) -> Visits:
    """The split of the UCI repository; its test users are split again in two halves."""

    def dense(part: str) -> np.ndarray:
        visits = np.zeros(file[f"{part}_shape"], np.uint8)
        users = np.repeat(np.arange(len(visits)), np.diff(file[f"{part}_indptr"]))
        visits[users, file[f"{part}_indices"]] = file[f"{part}_data"]
        return visits

    file = np.load(common.found(folder, "msweb.npz", *MSWEB))
    train, held_out = dense("train"), dense("test")
    return Visits(train, held_out[::2], held_out[1::2])


def make(sampler: str, step_size: float = np.nan, capacity: int = 64) -> Any:
    """A kernel by its name."""
    if sampler == FULL:
        return slice_mixture(PROCESS, FAMILY, capacity=capacity)
    if sampler == BATCHED:
        warm = WARM * steps_a_pass(sampler)
        return slice_mixture(PROCESS, FAMILY, BATCH, warm_start=warm, capacity=capacity)
    return slice_mixture(PROCESS, FAMILY, BATCH, sampler, step_size=step_size, capacity=capacity)  # type: ignore[arg-type]


def steps_a_pass(sampler: str) -> int:
    """As many steps as visit all users, on average at least once."""
    return 1 if sampler == FULL else -(-USERS // BATCH)


def recorder(visits: Visits) -> Callable:
    """What is kept of a pass: the log predictive of every held-out user, and how many clusters.

    The weight of clusters without a slot, less than that of any user, is left out.
    """
    held_out = jnp.concatenate([visits.tune, visits.test])

    def record(state: Any, info: Any) -> tuple:
        scores = state.log_weights[:, None] + FAMILY.scores(state.parameters, held_out)
        return jax.nn.logsumexp(scores, axis=0), info.active

    return record


def chains(
    key: Any,
    sampler: str,
    visits: Visits,
    size: Size,
    record: Callable,
    step_size: float = np.nan,
) -> Result:
    """One sampler, from random labels."""
    steps = steps_a_pass(sampler)
    start = lambda key: jax.random.randint(key, (USERS,), 0, START)

    def passes_of(passes: int) -> Any:
        return sample(
            key,
            make(sampler, step_size),
            start,
            jnp.asarray(visits.train),
            num_steps=steps * passes,
            num_chains=size.seeds,
            thin=steps,
            record=record,
        )

    run, early = passes_of(size.passes), passes_of(EARLY)
    logs, active = (np.asarray(x) for x in run.trace)
    tune, test = np.split(logs, [len(visits.tune)], axis=2)
    last = slice(-size.passes // 3, None)
    averaged = np.logaddexp.reduce(test[:, last], axis=1) - np.log(test[:, last].shape[1])
    return Result(
        step_size,
        True,
        tune.mean(2),
        test.mean(2),
        averaged.mean(1),
        active[:, last].mean(),
        make(sampler, step_size, early.capacity),
        jax.tree.map(lambda x: jnp.asarray(x[0]), early.state),
    )


def seconds_a_pass(results: dict[str, Result], visits: Visits) -> dict[str, float]:
    """Processor time once compiled, which other work on the machine changes little.

    Of each sampler, the median of rounds in which each goes on for ten passes in turn.
    """
    data = jnp.asarray(visits.train)

    def seconds(name: str, result: Result, key: Any) -> float:
        steps, made = 10 * steps_a_pass(name), EARLY * steps_a_pass(name)
        begin = time.process_time()
        jax.block_until_ready(_steps(key, result.kernel, result.state, data, steps, made))
        return (time.process_time() - begin) / 10

    keys = jax.random.split(jax.random.key(0), 1 + ROUNDS)
    rounds = [[seconds(name, r, key) for name, r in results.items()] for key in keys]
    return dict(zip(results, np.median(rounds[1:], axis=0)))  # the first compiles


@partial(jax.jit, static_argnums=4)
def _steps(key: Any, kernel: Any, state: Any, data: Any, num_steps: int, made: Any) -> Any:
    # past the warm start, as the state is
    return scan_kernel(key, kernel, state, data, num_steps, active, first_step=made)[1]


def tuned(results: Sequence[Result]) -> Result:
    """The step size whose last third of passes is best for the users to tune by."""
    last = slice(-results[0].tune.shape[1] // 3, None)
    finals = np.nan_to_num([r.tune[:, last].mean() for r in results], nan=-np.inf)
    best = int(np.argmax(finals))
    return results[best]._replace(inside=0 < best < len(results) - 1)


def passes_to(level: float, curves: Float[np.ndarray, "seed pass"]) -> int | None:
    """The number of passes until the mean over the seeds reaches a level; `None` if it does not."""
    there = curves.mean(axis=0) >= level
    return int(there.argmax()) + 1 if there.any() else None


def table(
    results: dict[str, Result], seconds: dict[str, float], grids: dict[str, list[Result]]
) -> str:
    """What each sampler reached and how soon, and every step size of the grids.

    Seconds that are not known yet are left out.
    """
    last = slice(-results[FULL].test.shape[1] // 3, None)
    level = results[FULL].test[:, last].mean()
    header = ["sampler", "step size", "in the grid", "ms a pass", "log predictive", "of the seeds"]
    header += ["averaged", "clusters", *(f"s to {level - near:.3f}" for near in NEAR)]
    rows = []
    for name, r in results.items():
        finals = r.test[:, last].mean(1)
        soon = [passes_to(level - near, r.test) for near in NEAR]
        a_pass = seconds.get(name, np.nan)
        chosen = (
            ("-", "-")
            if np.isnan(r.step_size)
            else (f"{r.step_size:.2g}", "yes" if r.inside else "NO")
        )
        cells = [
            name,
            *chosen,
            shown(1e3 * a_pass, ".1f"),
            f"{finals.mean():.3f}",
            ", ".join(f"{x:.3f}" for x in finals),
            f"{r.averaged.mean():.3f}",
            f"{r.active:.1f}",
            *(shown(a_pass * there) if there else "never" for there in soon),
        ]
        rows.append(cells)
    every = [
        [name, f"{r.step_size:.2g}", f"{r.tune[:, last].mean():.3f}", f"{r.active:.1f}"]
        for name, runs in grids.items()
        for r in runs
    ]
    of_grids = ["sampler", "step size", "log predictive, users to tune by", "clusters"]
    return markdown(header, rows) + "\n" + markdown(of_grids, every)


def run(options: Options) -> Iterator[str]:
    """Two tables and figure4b.png."""
    size = SIZES.get(options.size, SIZES["full"])
    visits = load(options.data_dir)
    one = partial(chains, options.key, visits=visits, size=size, record=recorder(visits))
    results: dict[str, Result] = {}
    grids: dict[str, list[Result]] = {}
    for name in (FULL, BATCHED):
        results[name] = one(name)
        yield table(results, {}, grids)
    for name, steps in size.grids.items():
        grids[name] = []
        for h in steps:
            grids[name].append(one(name, step_size=float(h)))
            yield table(results, {}, grids)
        results[name] = tuned(grids[name])
        yield table(results, {}, grids)
    seconds = seconds_a_pass(results, visits)
    yield table(results, seconds, grids)
    pictures.draw_predictives(results, seconds, options.out / "figure4b.png")
