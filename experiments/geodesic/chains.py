"""Gradients with noise put on, runs that are timed, and distances of draws from a law of angles."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import Estimate, Estimator, Kernel, as_keys, sample

from ..common import clocked

BINS = 90  # of four degrees


class Corrupted(Estimator):
    """The estimates of another, and normal noise of a known variance in every coordinate."""

    inner: Estimator
    variance: Array = eqx.field(converter=jnp.asarray)

    def init(self, key: Any, position: Any, data: Any) -> Any:
        return self.inner.init(key, position, data)

    def estimate(self, key: Any, estate: Any, position: Any, data: Any) -> tuple[Estimate, Any]:
        keys = as_keys(key)
        estimate, estate = self.inner.estimate(keys, estate, position, data)
        noise = jax.random.normal(jax.random.fold_in(keys.batch, 1), position.shape)
        return Estimate(estimate.value + jnp.sqrt(self.variance) * noise), estate


class Chains(NamedTuple):
    """What was kept of some chains, their state at the end, the processor seconds of it all."""

    trace: Any
    info: Any
    state: Any
    seconds: float


def chains(
    key: Array,
    kernel: Kernel,
    start: Any,
    data: Any,
    *,
    num_steps: int,
    num_chains: int,
    thin: int = 1,
    **args: Any,
) -> Chains:
    """`num_steps` steps, timed, after half as many, or a draw's more, that are not kept."""
    before = -(-num_steps // (2 * thin)) * thin
    go = partial(sample, key, kernel, data=data, num_chains=num_chains, thin=thin, chunk=before)
    first = go(position=start, num_steps=before, **args)
    args.pop("position_axis", None)
    run, seconds = clocked(partial(go, **args), first, num_steps)
    return Chains(run.trace, run.info, run.state, seconds)


def angle(x: Any) -> np.ndarray:
    """The angles of points (..., 2) of a circle, from -pi to pi."""
    x = np.asarray(x)
    return np.arctan2(x[..., 1], x[..., 0])


def unit(angle: Any) -> Array:
    """Points (..., 2) of the circle."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)


def masses(log_density: Any, bins: int = BINS, fine: int = 64) -> Float[np.ndarray, " bins"]:
    """The probabilities of equal bins of the angle, by the midpoint rule on finer ones."""
    grid = -np.pi + 2 * np.pi * (np.arange(bins * fine) + 0.5) / (bins * fine)
    density = np.exp(np.asarray(log_density(grid), np.float64))
    return density.reshape(bins, fine).sum(1) / density.sum()


def counts(angles: Any, bins: int = BINS) -> Float[np.ndarray, "chain bins"]:
    """How many draws of each chain are in each bin."""
    inside = ((np.asarray(angles) + np.pi) * bins / (2 * np.pi)).astype(int).clip(0, bins - 1)
    return np.stack([np.bincount(row, minlength=bins) for row in inside]).astype(float)


def distances(number: Float[np.ndarray, "*bins"], exact: Any) -> tuple[float, float]:
    """Total variation of binned draws from a law, and the largest error of its distribution."""
    error = number / number.sum() - exact
    return np.abs(error).sum() / 2, np.abs(np.cumsum(error)).max()


def with_errors(
    number: Float[np.ndarray, "chain *bins"], exact: Any, resamples: int = 200
) -> list[str]:
    """The distances of all chains together, and how much they vary when chains are redrawn."""
    rng = np.random.default_rng(0)
    redrawn = [
        distances(number[rng.integers(len(number), size=len(number))].sum(0), exact)
        for _ in range(resamples)
    ]
    pairs = zip(distances(number.sum(0), exact), np.std(redrawn, axis=0))
    return [f"{value:.3f} ± {error:.3f}" for value, error in pairs]
