"""Figure 5: ratings of films by matrix factorisation, five folds of MovieLens 100k."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from sgmc_jax import (
    Estimator,
    Kernel,
    Minibatch,
    Uniform,
    find_mode,
    gibbs,
    repeat,
    sample,
    sghmc,
    sgld,
)
from sgmc_jax.models import MatrixFactorization, RowPrior

from ..common import Options, curves, load, table
from .anchored import Anchored
from .gibbs_rows import factor_gibbs

USERS, FILMS, RANK, LIMITS = 943, 1682, 20, (1.0, 5.0)
BATCH = 8_000  # a tenth of the ratings
FRICTION = 10.0
EVERY = 50  # gradient steps between two draws of the hyper-parameters, and of predictions


class Size(NamedTuple):
    """Steps of a chain, of its pilot, of the search for a mode, and of the baseline."""

    steps: int
    pilot: int
    mode: int
    sweeps: int


SIZES = {False: Size(2_000, 500, 1_000, 50), True: Size(100_000, 10_000, 50_000, 1_000)}
SAMPLERS: dict[str, tuple[Callable[[Estimator, Any], Kernel], tuple[float, ...]]] = {
    "SGLD": (lambda grad, h: sgld(grad, h), (5e-4, 1e-3, 2e-3)),
    "SGHMC": (lambda grad, h: sghmc(grad, h, FRICTION), (1e-2, 2e-2, 4e-2)),
}


class Fold(NamedTuple):
    """Ratings to fit and to predict."""

    train: tuple
    test: tuple


def folds(options: Options) -> list[Fold]:
    """The five of the data set."""
    holds = "`user` and `item` (100000,), counted from 0, `rating` (100000,), from 1 to 5, and "
    holds += "`fold` (100000,), from 1 to 5: in which of u1.test to u5.test a rating is"
    file = load(options, "ml100k.npz", "MovieLens 100k of GroupLens", holds)
    pairs = file["user"].astype(np.int32), file["item"].astype(np.int32)
    rating, fold = file["rating"].astype(np.float32), file["fold"]
    part = lambda rows: (tuple(p[rows] for p in pairs), rating[rows])
    return [Fold(part(fold != k), part(fold == k)) for k in range(1, 6)]


class Fitted(NamedTuple):
    """The RMSE of the running average of predictions after each block of steps, and its end."""

    rmse: Float[np.ndarray, " blocks"]
    clipped: float


def fit(
    key: Array, kernel: Kernel, start: Any, model: MatrixFactorization, fold: Fold, blocks: int
) -> Fitted:
    """Run a kernel and average its predictions over the second half of what has been run."""
    pairs, rating = jax.tree.map(jnp.asarray, fold.test)

    def record(state: Any, info: Any) -> Array:
        return model.response(state.position, pairs)

    run = sample(key, kernel, start, fold.train, num_steps=blocks, record=record)
    trace = np.array(run.trace, np.float64)
    if not np.all(run.info.finite):  # a chain that has stopped says nothing of its sampler
        trace[:] = np.nan
    total = np.concatenate([np.zeros((1, trace.shape[1])), np.cumsum(trace, axis=0)])
    mean = np.stack([(total[k] - total[k // 2]) / (k - k // 2) for k in range(1, blocks + 1)])
    error = mean - np.asarray(rating)
    clipped = np.clip(mean[-1], *LIMITS) - np.asarray(rating)
    rmse = np.sqrt(np.mean(error**2, axis=1))
    return Fitted(rmse, float(np.sqrt(np.mean(clipped**2))))


def chain(name: str, h: float, model: MatrixFactorization, centre: Any | None) -> Kernel:
    """The kernel of a block of steps: hyper-parameters by Gibbs, factors `EVERY` steps."""
    make, _ = SAMPLERS[name]

    def factors(rest: dict) -> Kernel:
        grad: Any = Minibatch(model.given(rest["hyper"]), Uniform(BATCH))
        if centre is not None:
            grad = Anchored(grad, centre)
        return repeat(make(grad, h), EVERY)

    return gibbs(hyper=model.hyperparameters, factors=factors)


def mode(key: Array, model: MatrixFactorization, fold: Fold, steps: int) -> Any:
    """Factors of high density given means of zero and precisions of ten, by Adam."""
    flat = RowPrior(jnp.zeros(RANK), jnp.full(RANK, jnp.log(10.0)))
    given = model.given({"users": flat, "items": flat})
    rule = optax.adam(optax.cosine_decay_schedule(0.02, steps))
    start = model.start(key)["factors"]
    arguments = {"batcher": Uniform(BATCH), "optimizer": rule, "num_steps": steps}
    return find_mode(key, given, start, fold.train, **arguments)


def tuned(key: Array, name: str, fold: Fold, anchored: bool, blocks: int) -> tuple[float, list]:
    """The step size of the grid with the least RMSE on a tenth of the fold's ratings, held out."""
    held = np.random.default_rng(0).permutation(len(fold.train[1])) < len(fold.train[1]) // 10
    part = lambda rows: jax.tree.map(lambda x: x[rows], fold.train)
    inner, grid, found = Fold(part(~held), part(held)), SAMPLERS[name][1], []
    model = new_model(inner)
    start = model.start(key)
    centre = mode(key, model, inner, 500) if anchored else None
    if centre is not None:
        start = {**start, "factors": centre}
    for h in grid:
        rmse = fit(key, chain(name, h, model, centre), start, model, inner, blocks).rmse[-1]
        found.append(float(np.nan_to_num(rmse, nan=np.inf)))
    return grid[int(np.argmin(found))], found


def new_model(fold: Fold) -> MatrixFactorization:
    return MatrixFactorization(USERS, FILMS, RANK, centre=float(fold.train[1].mean()))


class Column(NamedTuple):
    """The step size of a sampler, NaN if it has none, its pilot runs, and its runs of the folds."""

    h: float
    pilots: list[str]
    fitted: list[Fitted]


def column(options: Options, name: str, parts: list[Fold], modes: list) -> Column:
    """All folds, at the step size that the pilot runs choose or, where a chain stops, a smaller."""
    size = SIZES[options.full]
    if name == "Gibbs":
        runs = (
            fit(key, factor_gibbs(model), model.start(key), model, fold, size.sweeps)
            for key, model, fold in each(options.key, parts)
        )
        return Column(np.nan, [], list(runs))
    sampler, anchored = name.removesuffix("-CV"), name.endswith("-CV")
    grid, centres = SAMPLERS[sampler][1], modes if anchored else [None] * len(parts)
    best, found = tuned(options.key, sampler, parts[0], anchored, size.pilot // EVERY)
    pilots = [f"{h:g}: {rmse:.4f}" for h, rmse in zip(grid, found)]
    for h in sorted((h for h in grid if h <= best), reverse=True):
        fitted: list[Fitted] = []
        for centre, (key, model, fold) in zip(centres, each(options.key, parts)):
            start = model.start(key)
            if centre is not None:
                start = {**start, "factors": centre}
            kernel = chain(sampler, h, model, centre)
            fitted.append(fit(key, kernel, start, model, fold, size.steps // EVERY))
            print(name, h, len(fitted), fitted[-1].rmse[-1], fitted[-1].clipped, flush=True)
            if np.isnan(fitted[-1].rmse[-1]):
                break
        else:
            return Column(h, pilots, fitted)
        pilots.append(f"{h:g} stopped in fold {len(fitted)}")
    raise RuntimeError(f"chains of {name} stop at each step size: {', '.join(pilots)}")


def each(key: Array, parts: list[Fold]) -> list[tuple[Array, MatrixFactorization, Fold]]:
    """The key and the model of each fold, and the fold."""
    return [(jax.random.fold_in(key, i), new_model(fold), fold) for i, fold in enumerate(parts)]


def run(options: Options) -> Iterator[str]:
    """A table of RMSEs, and figure5.png of the means over folds."""
    parts, lines, rows, pilots = folds(options), {}, [], []
    header = ["sampler", "h", *(f"fold {i}" for i in range(1, 6)), "mean", "mean, clipped"]
    number = SIZES[options.full].mode
    modes = [mode(key, model, fold, number) for key, model, fold in each(options.key, parts)]
    for name in ("SGHMC-CV", "SGHMC", "Gibbs", "SGLD-CV", "SGLD"):
        h, told, fitted = column(options, name, parts, modes)
        ends, clipped = (np.array(x) for x in zip(*((f.rmse[-1], f.clipped) for f in fitted)))
        means = [f"{ends.mean():.4f}", f"{clipped.mean():.4f}"]
        rows.append([name, "" if np.isnan(h) else f"{h:g}", *(f"{x:.4f}" for x in ends), *means])
        rmse = np.mean([f.rmse for f in fitted], axis=0)
        lines[name] = ((1 if name == "Gibbs" else EVERY) * np.arange(1, len(rmse) + 1), rmse)
        pilots.append([name, ", ".join(told)])
        yield table(header, rows) + "\n" + table(["sampler", "pilot runs"], pilots)
    draw_picture(options.out / "figure5.png", lines)


def draw_picture(path: Path, lines: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    shown = {name: (x[3:], y[3:]) for name, (x, y) in lines.items()}
    curves(path, {"MovieLens": shown}, ("step", "RMSE"), log=True)
