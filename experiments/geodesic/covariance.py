"""Covariances of flowers beside the inverse Wishart law that they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import digamma
from sklearn.datasets import load_iris

from sgmc_jax import SPD, Full, FunctionModel, Kernel, Minibatch, Uniform, ess, gmc, gsgnht, sggmc

from ..common import Options, table
from .chains import Chains, chains

BATCH, CHAINS = 30, 16


class InverseWishart(NamedTuple):
    """The law of Sigma of density |Sigma|^-(nu + d + 1)/2 exp(-tr(Psi Sigma^-1) / 2)."""

    scale: Float[np.ndarray, "d d"]
    degrees: float

    @property
    def mean(self) -> Float[np.ndarray, "d d"]:
        return self.scale / (self.degrees - len(self.scale) - 1)

    @property
    def deviation(self) -> Float[np.ndarray, "d d"]:
        """Of each entry (Mardia, Kent and Bibby 1979, exercise 3.8.3)."""
        gap = self.degrees - len(self.scale)
        diagonal = np.diag(self.scale)
        variance = (gap + 1) * self.scale**2 + (gap - 1) * np.outer(diagonal, diagonal)
        return np.sqrt(variance / (gap * (gap - 1) ** 2 * (gap - 3)))

    @property
    def mean_log_det(self) -> float:
        d = len(self.scale)
        halves = (self.degrees - np.arange(d)) / 2
        return float(np.linalg.slogdet(self.scale)[1] - d * np.log(2) - digamma(halves).sum())


def flowers() -> Float[np.ndarray, "150 4"]:
    """Irises about the means of their species, which are taken as known, in tenths of a cm."""
    items, species = (np.asarray(part) for part in load_iris(return_X_y=True))
    means = np.stack([items[species == k].mean(0) for k in range(3)])
    return 10 * (items - means[species])


def posterior(prior: InverseWishart, items: Float[np.ndarray, "n d"]) -> InverseWishart:
    """What it is after items of mean zero."""
    return InverseWishart(prior.scale + items.T @ items, prior.degrees + len(items))


def model(prior: InverseWishart) -> FunctionModel:
    """Items are rows y ~ N(0, Sigma); densities are with respect to the volume."""
    space, scale = SPD(), jnp.asarray(prior.scale, jnp.float32)
    power = prior.degrees + len(prior.scale) + 1

    def logprior(sigma: Array) -> Array:
        log_det = jnp.linalg.slogdet(sigma)[1]
        own = power * log_det + jnp.trace(jnp.linalg.solve(sigma, scale))
        return -own / 2 - space.log_element(sigma)

    def each(sigma: Array, items: Array) -> Array:
        log_det = jnp.linalg.slogdet(sigma)[1]
        return -(log_det + jnp.sum(items * jnp.linalg.solve(sigma, items.T).T, axis=-1)) / 2

    return FunctionModel(logprior, loglik_batch=each)


def kernels(target: FunctionModel) -> dict[tuple[str, float], tuple[Kernel, int]]:
    """By name and step size, with the steps between draws."""
    noisy, space = Minibatch(target, Uniform(BATCH)), SPD()
    made: dict[tuple[str, float], tuple[Kernel, int]] = {}
    made["gmc", 0.05] = gmc(Minibatch(target, Full()), space, 0.05, 3), 1
    for h in (0.01, 0.005):
        made["sggmc", h] = sggmc(noisy, space, h, 10.0), round(0.1 / h)
    made["gsgnht", 0.01] = gsgnht(noisy, space, 0.01, 10.0), 10
    return made


def row(name: str, h: float, exact: InverseWishart, done: Chains) -> list[Any]:
    """Errors in posterior deviations, their z-scores, the deviations, and what a draw costs."""
    upper = np.triu_indices(len(exact.scale))
    entries = np.asarray(done.trace, np.float64)[..., upper[0], upper[1]]
    log_dets = np.linalg.slogdet(np.asarray(done.trace, np.float64))[1]
    size = np.asarray(ess(entries, kind="mean"))
    error = entries.mean((0, 1)) - exact.mean[upper]
    wide = exact.deviation[upper]
    score = np.abs(error) / (entries.std((0, 1)) / np.sqrt(size))
    lacking = log_dets.mean() - exact.mean_log_det
    of_log = log_dets.std() / np.sqrt(float(ess(log_dets, kind="mean")))
    ratio = entries.std((0, 1)) / wide
    return [
        name,
        h,
        f"{np.abs(error / wide).max():.3f}",
        f"{score.max():.1f}",
        f"{lacking:+.4f} ± {of_log:.4f}",
        f"{ratio.min():.3f} to {ratio.max():.3f}",
        f"{1e3 * done.seconds / size.min():.2f}",
    ]


def run(options: Options) -> Iterator[str]:
    """A table."""
    items = flowers()
    prior = InverseWishart(np.eye(4), 6.0)
    exact, data = posterior(prior, items), jnp.asarray(items, jnp.float32)
    start, rows = jnp.asarray(np.diag(items.var(0)), jnp.float32), []
    header = ["sampler", "h", "largest error of a mean, in deviations", "largest z"]
    header += ["error of E log det", "deviations to the exact", "ms an effective draw"]
    draws = 4_000 if options.full else 500
    for (name, h), (kernel, thin) in kernels(model(prior)).items():
        args = {"num_steps": draws * thin, "thin": thin, "num_chains": CHAINS}
        done = chains(options.key, kernel, start, data, position_axis=None, **args)
        rows.append(row(name, h, exact, done))
        yield table(header, rows)
