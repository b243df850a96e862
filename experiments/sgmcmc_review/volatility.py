"""Stochastic volatility of the S&P 500, from windows with particles and by particle Metropolis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from sgmc_jax import Kernel, Window, sghmc
from sgmc_jax.models import StochasticVolatility

from ..common import Options, load, table
from .windows import Drawn, log_mean_exp, row
from .windows import run as run_chains

MODEL = StochasticVolatility()
START = MODEL.position(mean=-0.2, persistence=0.95, scale=0.25)
HEADER = (
    "sampler",
    "mean",
    "persistence",
    "scale",
    "too hot by",
    "held-out log density a day",
    "seconds",
    "least ESS a second",
)


class MetropolisState(NamedTuple):
    """A position, and the estimate of its log posterior that it was accepted with."""

    position: Any
    logdensity: Array


class Windows(NamedTuple):
    """The rows of a window and of its buffers, particles, and windows a step."""

    length: int
    buffer: int
    particles: int
    number: int


class Size(NamedTuple):
    """Of windows their settings, the step size and friction that suit so many days, and steps; of
    particle Metropolis, particles and steps."""

    windows: tuple[Windows, ...]
    step_size: float
    friction: float
    steps: int
    particles: int
    exact: int


PLAIN = Windows(40, 20, 100, 5)
VARIANTS = (
    PLAIN,
    PLAIN._replace(buffer=0),
    PLAIN._replace(particles=400),
    PLAIN._replace(number=20),
)
SIZES = {
    False: Size((PLAIN._replace(particles=50),), 0.02, 10.0, 1_000, 100, 800),
    True: Size(VARIANTS, 0.002, 50.0, 10_000, 1_000, 1_500),
}


def run(options: Options) -> Iterator[str]:
    """A table."""
    train, test = returns(options)
    size = SIZES[options.full]
    rows, first = [["one normal law", "", "", "", "", f"{constant(train, test):.4f}", "", ""]], None

    def add(name: str, drawn: Drawn) -> str:
        rows.append(described(options, name, drawn, train, test, size.particles))
        print(*rows[-1], flush=True)
        return table(HEADER, rows)

    for i, some in enumerate(size.windows):
        window = Window(some.length, some.buffer, num_windows=some.number)
        grad = MODEL.gradients(window, some.particles)
        kernel = sghmc(grad, size.step_size, size.friction)
        key = jax.random.fold_in(options.key, i)
        drawn = run_chains(key, kernel, START, train, size.steps, 10)
        first = drawn.trace if first is None else first
        yield add(
            f"sghmc, {some.number} windows of {some.length}, buffer {some.buffer}, "
            f"{some.particles} particles",
            drawn,
        )
    kernel = particle_metropolis(first, size.particles)
    start = jax.tree.map(lambda x: jnp.mean(x), first)
    drawn = run_chains(options.key, kernel, start, train, size.exact, 1)
    yield add(f"particle Metropolis, {size.particles} particles", drawn)


def returns(options: Options) -> tuple[Array, Array]:
    """Daily returns in per cent about their mean, to learn from and to judge by."""
    what = "daily closes of the S&P 500, 1999 to 2018 (sp500 of the Python package arch)"
    file = load(options, "finance.npz", what, "`sp500_close` (5031,)")
    values = 100 * np.diff(np.log(file["sp500_close"]))
    values = values if options.full else values[-500:]
    cut = 4 * len(values) // 5
    centred = jnp.asarray(values - values[:cut].mean(), jnp.float32)
    return centred[:cut], centred[cut:]


def constant(train: Array, test: Array) -> float:
    """The log density of the test days under one normal law."""
    variance = np.var(train)
    return float(np.mean(-0.5 * (test**2 / variance + np.log(2 * np.pi * variance))))


def described(
    options: Options, name: str, drawn: Drawn, train: Array, test: Array, num: int
) -> list[str]:
    """A row of the table."""
    natural = MODEL.natural(drawn.trace)
    values = np.stack([np.asarray(x) for x in natural.values()], -1)
    cells, spent, speed = row(values, drawn.seconds)
    hot = "" if drawn.excess is None else f"{drawn.excess:.3f}"
    told = predictive(options.key, drawn.trace, train, test, num)
    return [name, *cells, hot, f"{told:.4f}", spent, speed]


def predictive(key: Array, trace: Any, train: Array, test: Array, num: int) -> float:
    """log of the posterior mean of p(test | train, parameters), a day, by particle filters."""
    flat = jax.tree.map(lambda x: x.reshape(-1)[:: max(1, x.size // 16)][:16], trace)
    both = jnp.concatenate([train, test])

    def gain(point: Any) -> Array:  # one key: the rows that both have cancel but for the filter
        whole = MODEL.log_likelihood(key, point, both, num)
        return whole - MODEL.log_likelihood(key, point, train, num)

    gains = jax.jit(lambda points: jax.lax.map(gain, points))(flat)
    return log_mean_exp(np.asarray(gains, np.float64)) / len(test)


def particle_metropolis(trace: Any, num_particles: int) -> Kernel:
    """A random walk whose log density is estimated: exact for every number of particles.

    Andrieu, Doucet and Holenstein (2010), Particle Markov chain Monte Carlo methods, section 2.4.2.
    """
    flat = jax.vmap(jax.vmap(lambda x: ravel_pytree(x)[0]))(trace).reshape(-1, 3)
    unravel = ravel_pytree(jax.tree.map(lambda x: x[0, 0], trace))[1]
    scale = jnp.asarray(np.linalg.cholesky(np.cov(np.asarray(flat).T)) * 2.38 / np.sqrt(3))

    def logdensity(key: Array, position: Any, data: Array) -> Array:
        estimate = MODEL.log_likelihood(key, position, data, num_particles)
        return MODEL.logprior(position) + estimate

    def init(key: Array, position: Any, data: Array) -> MetropolisState:
        return MetropolisState(position, logdensity(key, position, data))

    def step(key: Array, state: MetropolisState, data: Array) -> tuple[MetropolisState, None]:
        move, filtering, choice = jax.random.split(key, 3)
        at = ravel_pytree(state.position)[0]
        there = unravel(at + scale.astype(at.dtype) @ jax.random.normal(move, at.shape, at.dtype))
        proposed = MetropolisState(there, logdensity(filtering, there, data))
        ratio = proposed.logdensity - state.logdensity
        accept = jnp.log(jax.random.uniform(choice)) < ratio
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), proposed, state), None

    return Kernel.from_functions(init, step)
