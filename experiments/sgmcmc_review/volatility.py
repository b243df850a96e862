"""Stochastic volatility of the S&P 500, from windows with particles and by particle Metropolis."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from sgmc_jax import Kernel, Window, sghmc
from sgmc_jax.models import StochasticVolatility

from ..common import Options, load, table
from .windows import log_mean_exp, row
from .windows import run as run_chains

MODEL = StochasticVolatility()
START = MODEL.position(mean=-0.2, persistence=0.95, scale=0.25)
HEADER = (
    "sampler",
    "mean",
    "persistence",
    "scale",
    "held-out log density a day",
    "seconds",
    "least ESS a second",
)


class MetropolisState(NamedTuple):
    """A position, and the estimate of its log posterior that it was accepted with."""

    position: Any
    logdensity: Array


def run(options: Options) -> str:
    """A table; each row is written as soon as it is known."""
    train, test = returns(options)
    rows, first = [], None
    rows.append(["one normal law", "", "", "", f"{constant(train, test):.4f}", "", ""])
    num, particles = (12_000, 1_000) if options.full else (1_000, 100)
    chosen = [(40, 20, 100), (40, 0, 100), (40, 20, 400)] if options.full else [(40, 20, 50)]
    for length, buffer, some in chosen:
        grad = MODEL.gradients(Window(length, buffer, num_windows=5), some)
        kernel = sghmc(grad, 0.02, 10.0)
        name = f"sghmc, windows of {length}, buffer {buffer}, {some} particles"
        trace, seconds = run_chains(options.key, kernel, START, train, num, 10)
        first = trace if first is None else first
        rows.append(described(options, name, trace, seconds, train, test, particles))
        (options.out / "volatility.md").write_text(table(HEADER, rows))
    kernel = particle_metropolis(first, particles)
    start = jax.tree.map(lambda x: jnp.mean(x), first)
    trace, seconds = run_chains(
        options.key, kernel, start, train, 5_000 if options.full else 800, 1
    )
    name = f"particle Metropolis, {particles} particles"
    rows.append(described(options, name, trace, seconds, train, test, particles))
    return table(HEADER, rows)


def returns(options: Options) -> tuple[Array, Array]:
    """Daily returns in per cent about their mean, to learn from and to judge by."""
    file = load(
        options, "finance.npz", "daily closes of the S&P 500 as `sp500_close`, 1999 to 2018"
    )
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
    options: Options, name: str, trace: Any, seconds: float, train: Array, test: Array, num: int
) -> list[str]:
    """A row of the table."""
    natural = MODEL.natural(trace)
    cells, spent, speed = row(np.stack([np.asarray(x) for x in natural.values()], -1), seconds)
    return [name, *cells, f"{predictive(options.key, trace, train, test, num):.4f}", spent, speed]


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
