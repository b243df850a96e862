"""Six kernels, an exact reference, an outside check of it, and how they are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import (
    ControlVariate,
    Full,
    Kernel,
    Minibatch,
    Model,
    Run,
    Uniform,
    ess,
    hmc,
    ksd,
    sample,
    sghmc,
    sgld,
    sgnht,
)

from ..common import chain_of
from .problems import Problem, Split

MEAN_BAR = 0.1  # largest error of a posterior mean, in posterior standard deviations
SD_BAR = 0.05  # largest relative error of a posterior standard deviation
AGREEMENT_BAR = 4.5  # standard errors; the largest of 62 normals exceeds it once in 2,400 times
KSD_DRAWS = 1000
PREDICTIVE_DRAWS = 4000


class Size(NamedTuple):
    """How long everything runs; the six kernels take the first five."""

    chains: int
    steps: int
    burn_in: int
    thin: int
    batch_size: int
    reference_steps: int
    nuts_chains: int
    nuts_steps: int
    digits_chains: int
    digits_steps: int
    digits_reference_steps: int

    @property
    def settings(self) -> dict[str, int]:
        """How long the six kernels run, as `sample` wants it."""
        length = {"num_steps": self.steps, "burn_in": self.burn_in, "thin": self.thin}
        return {"num_chains": self.chains, **length}


SIZES = {
    "full": Size(64, 16_000, 1_000, 15, 40, 1_250, 16, 600, 16, 1_500, 150),
    "small": Size(64, 10_000, 500, 19, 64, 600, 16, 400, 4, 200, 20),
}


class Draws(NamedTuple):
    """Draws of z by one sampler; `seconds` without the burn-in and without compilation."""

    name: str
    z: Float[np.ndarray, "chain draw ..."]
    seconds: float
    total_seconds: float
    compile_seconds: float


class Row(NamedTuple):
    """A line of the table; errors and ratios are the worst over the coefficients."""

    name: str
    mean_error: float
    sd_low: float
    sd_high: float
    ksd: float
    ess_per_second: float
    log_loss: float
    seconds: float
    compile_seconds: float

    @property
    def passes(self) -> bool:
        sds_agree = 1 - SD_BAR <= self.sd_low and self.sd_high <= 1 + SD_BAR
        return self.mean_error <= MEAN_BAR and sds_agree


# ------------------------------------------------------------------------------------ samplers


def estimators(model: Model, batch_size: int, mode: Array) -> dict[str, Any]:
    """The plain estimate of the gradient and the one with control variates."""
    plain = Minibatch(model, Uniform(batch_size))
    return {"plain": plain, "control variate": ControlVariate(plain, centre=mode)}


def six_kernels(problem: Problem, batch_size: int) -> dict[str, Kernel]:
    """Three kernels on two gradients each, at the same step size on both."""
    grads = estimators(problem.model, batch_size, jnp.zeros(problem.mode.shape))
    makers = {
        "sgld": partial(sgld, step_size=0.028),
        "sghmc": partial(sghmc, step_size=0.05, friction=1.7),
        "sgnht": partial(sgnht, step_size=0.05, friction=1.0),
    }
    return {
        f"{name}, {kind}": make(grad)
        for name, make in makers.items()
        for kind, grad in grads.items()
    }


def timed_sample(
    key: Array, kernel: Kernel, start: Any, data: Any, **settings: Any
) -> tuple[Run, float, float]:
    """A run, its seconds, and the seconds its compilation took: a short run of the same shape."""
    began = time.perf_counter()
    thin = settings.get("thin", 1)
    sample(key, kernel, start, data, **{**settings, "num_steps": 2 * thin, "burn_in": thin})
    compiled = time.perf_counter()
    run = sample(key, kernel, start, data, **settings)
    return run, time.perf_counter() - compiled, compiled - began


def draw(key: Array, name: str, kernel: Kernel, problem: Problem, **settings: Any) -> Draws:
    """Chains of one kernel, begun at draws of the normal approximation."""

    def start(key: Array) -> Array:
        return jax.random.normal(key, problem.mode.shape)

    run, total, compile_seconds = timed_sample(key, kernel, start, problem.data, **settings)
    steady = total * (1 - settings["burn_in"] / settings["num_steps"])
    return Draws(name, run.trace, steady, total, compile_seconds)


def reference(key: Array, problem: Problem, size: Size) -> Draws:
    """Hamiltonian Monte Carlo with exact gradients."""
    kernel = hmc(Minibatch(problem.model, Full()), step_size=0.3, num_integration_steps=6)
    settings = {"num_chains": size.chains, "num_steps": size.reference_steps, "burn_in": 100}
    return draw(key, "hmc, exact", kernel, problem, **settings)


def nuts(key: Array, problem: Problem, split: Split, size: Size) -> Draws | None:
    """The same posterior, written again in the coefficients, by blackjax; None without it."""
    try:
        import blackjax
    except ImportError:
        return None
    metric = jnp.asarray(problem.factor @ problem.factor.T)

    def chain(key: Array, start: Array, data: tuple) -> Array:
        kernel = blackjax.nuts(partial(_logistic_density, data=data), 0.6, metric)
        return chain_of(kernel, key, kernel.init(start), size.nuts_steps)

    keys = jax.random.split(key, size.nuts_chains)
    starts = problem.coefficients(jax.random.normal(key, (size.nuts_chains, len(problem.mode))))
    began = time.perf_counter()
    data = (split.x, split.y)
    compiled = jax.jit(jax.vmap(chain, (0, 0, None))).lower(keys, starts, data).compile()
    middle = time.perf_counter()
    w = np.asarray(compiled(keys, starts, data))
    seconds, burn_in = time.perf_counter() - middle, size.nuts_steps // 10
    z = (w[:, burn_in:] - problem.mode) @ np.linalg.inv(problem.factor).T
    kept = seconds * (1 - burn_in / size.nuts_steps)
    return Draws("nuts (blackjax)", z, kept, seconds, middle - began)


def _logistic_density(w: Array, data: tuple) -> Array:
    x, y = data
    signed = (2 * y - 1) * (x @ w)
    return -jnp.sum(jnp.logaddexp(0.0, -signed)) - jnp.sum(w**2) / 2


# ------------------------------------------------------------------------------------ measures


def measure(draws: Draws, exact: Draws, problem: Problem, split: Split) -> Row:
    """A sampler's line of the table."""
    w = problem.coefficients(draws.z)
    (mean, sd), (true_mean, true_sd) = map(moments, (w, problem.coefficients(exact.z)))
    ratio = sd / true_sd
    few = spread(draws.z, KSD_DRAWS)
    return Row(
        name=draws.name,
        mean_error=float(np.abs((mean - true_mean) / true_sd).max()),
        sd_low=float(ratio.min()),
        sd_high=float(ratio.max()),
        ksd=float(ksd(few, problem.score(few))),
        ess_per_second=float(ess(w).min()) / draws.seconds,
        log_loss=binary_log_loss(spread(w, PREDICTIVE_DRAWS), split),
        seconds=draws.total_seconds,
        compile_seconds=draws.compile_seconds,
    )


def moments(x: Float[np.ndarray, "chain draw d"]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations over all draws of all chains."""
    return x.mean((0, 1), dtype=float), x.std((0, 1), dtype=float)


def spread(x: Float[np.ndarray, "chain draw d"], count: int) -> Float[np.ndarray, "k d"]:
    """At most `count` draws, evenly spread over the chains."""
    flat = x.reshape(-1, *x.shape[2:])
    return flat[np.linspace(0, len(flat) - 1, min(count, len(flat))).astype(int)]


def binary_log_loss(w: Float[np.ndarray, "k d"], split: Split) -> float:
    """Of the held-out labels, under the average prediction of the draws."""
    signed = (2 * split.test_y - 1) * (w @ split.test_x.T)
    return float(-np.log((1 / (1 + np.exp(-signed.astype(float)))).mean(0)).mean())


def disagreement(a: Draws, b: Draws, problem: Problem) -> tuple[float, float]:
    """The largest difference of two samplers' means and of their variances, in standard errors."""
    first, second = (problem.coefficients(draws.z).astype(float) for draws in (a, b))
    centre = first.mean((0, 1))

    def largest(f: Callable) -> float:
        (mean, error), (other, other_error) = map(_mean_and_error, (f(first), f(second)))
        return float(np.max(np.abs(mean - other) / np.hypot(error, other_error)))

    return largest(lambda w: w), largest(lambda w: (w - centre) ** 2)


def _mean_and_error(x: Float[np.ndarray, "chain draw d"]) -> tuple[np.ndarray, np.ndarray]:
    mean, sd = moments(x)
    return mean, sd / np.sqrt(np.asarray(ess(x, kind="batch_means")))


# -------------------------------------------------------------------------------------- digits


def digits_samplers(model: Model, mode: Array, size: Size) -> dict[str, tuple[Kernel, int, int]]:
    """Kernels for the digits, each with its number of steps and its thinning."""
    grads = estimators(model, 100, mode)
    found = {
        f"sghmc, {kind}": (sghmc(grad, step_size=0.03, friction=2.0), size.digits_steps, 5)
        for kind, grad in grads.items()
    }
    exact = hmc(Minibatch(model, Full()), step_size=0.06, num_integration_steps=20)
    return {**found, "hmc, exact": (exact, size.digits_reference_steps, 1)}


@jax.jit
def running_predictions(
    trace: Float[Array, "chain draw d c"], x: Float[Array, "m d"]
) -> Float[Array, "draw m c"]:
    """The class probabilities of the held-out items, averaged over chains and draws so far."""
    each = jax.lax.map(lambda w: jnp.mean(jax.nn.softmax(x @ w), axis=0), jnp.moveaxis(trace, 1, 0))
    count = jnp.arange(1, len(each) + 1)
    return jnp.cumsum(each, axis=0) / count[:, None, None]


def predictive_scores(chance: Float[np.ndarray, "m c"], y: np.ndarray) -> tuple[float, float]:
    """The log-loss and the accuracy of predicted class probabilities."""
    loss = -np.log(chance[np.arange(len(y)), y]).mean()
    return float(loss), float((chance.argmax(1) == y).mean())


# --------------------------------------------------------------------------------------- table


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """A table in markdown, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(header, *lines)]

    def line(cells: list[str]) -> str:
        padded = [cells[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])]
        return "| " + " | ".join(padded) + " |"

    rule = [f"{'-' * widths[0]}", *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    return "\n".join(map(line, [header, rule, *lines]))


def render(rows: list[Row]) -> str:
    header = ["sampler", "mean error / sd", "sd ratio", "in the bars", "KSD"]
    header += ["ESS / s", "log-loss", "seconds", "compile s"]
    return markdown(header, [_cells(row) for row in rows])


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        f"{row.mean_error:.3f}",
        f"{row.sd_low:.3f} .. {row.sd_high:.3f}",
        "yes" if row.passes else "no",
        f"{row.ksd:.3f}",
        f"{row.ess_per_second:,.0f}",
        f"{row.log_loss:.4f}",
        f"{row.seconds:.1f}",
        f"{row.compile_seconds:.1f}",
    ]
