"""Figures 3 and 4, features: "Cambridge" images, from one feature and from seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, hybrid_features, seed_features

from ..common import Options, curves, table, timed

NOISE, MOST = 0.5, 8
PICTURES = """
.#....  ...###  ......  ......
###...  ...#.#  ......  ......
.#....  ...###  ......  ......
......  ......  #.....  ...###
......  ......  ##....  ....#.
......  ......  ###...  ....#.
"""


def run(options: Options) -> str:
    """A table, figure4.png and figure6.png."""
    n, num = (1_000_000, 100) if options.full else (10_000, 60)
    planted = planted_features()
    rng = np.random.default_rng(0)
    entries = rng.integers(0, 2, (n + 500, 4))
    noisy = (entries @ planted + NOISE * rng.standard_normal((n + 500, 36))).astype(np.float32)
    items, test = jnp.asarray(noisy[:n]), noisy[n:]
    parts = BetaBernoulli(1.0), LinearGaussian(36, NOISE, 1.0)
    blocks, record = n // 200, held_out_features(test, NOISE)
    kernel = hybrid_features(*parts, blocks=blocks, capacity=16)
    starts = {"one feature": None, "seeds": seed_features(options.key, *parts, items)}
    rows, found, scores = [], {}, {}
    for name, start in starts.items():
        done = timed(options.key, kernel, start, items, record, num)
        active, score = (np.asarray(part, float) for part in done.trace)
        theta = np.asarray(done.state.position.shared["parameters"])
        found[name] = theta[np.linalg.norm(theta, axis=1) > 0]
        norm = lambda rows: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        cosine = (norm(planted) @ norm(theta).T).max(axis=1).min()
        scores[name] = (np.arange(1, num + 1), score)
        cells = [f"{score[-1]:.3f}", f"{active[-1]:.0f}", f"{cosine:.3f}"]
        rows.append([f"{n:,}", blocks, name, *cells, f"{1e3 * done.seconds:.1f}"])
    curves(options.out / "figure4.png", {f"{n:,} images": scores}, ("step", "held-out"))
    images(options.out / "figure6.png", np.concatenate([planted, found["seeds"]]), (6, 6), 4)
    header = ["images", "blocks", "start", "held-out", "features", "smallest cosine", "ms a step"]
    return table(header, rows)


def planted_features() -> np.ndarray:
    """The four features, 6 x 6 pixels each, as rows of zeros and ones."""
    lines = [line.split() for line in PICTURES.strip().splitlines()]
    pixels = [[[c == "#" for c in row] for row in rows] for rows in zip(*lines)]
    return np.array(pixels, np.float32).reshape(4, 36)


def held_out_features(items: np.ndarray, noise: float) -> Callable:
    """`(state, info) -> (features, log density of a held-out item)`.

    log sum_z prod_k mu_k^z_k (1 - mu_k)^(1 - z_k) N(x; z theta, s^2 I) over all 2^K entries of the
    `MOST` largest features, given the last draws of theta and mu = m / (n + 1).
    """
    choices = ((jnp.arange(2**MOST)[:, None] >> jnp.arange(MOST)) & 1).astype(jnp.float32)
    x = jnp.asarray(items)

    def record(state: Any, info: Any) -> tuple[jax.Array, jax.Array]:
        counts, (shared, local) = state.sums.counts, state.position
        top = jnp.argsort(-counts)[:MOST]
        chance = counts[top] / (local["features"].shape[0] + 1.0)
        log_one = jnp.where(counts[top] > 0, jnp.log(jnp.maximum(chance, 1e-30)), -jnp.inf)
        log_prior = jnp.where(choices > 0, log_one, jnp.log1p(-chance)).sum(axis=1)
        means = choices @ shared["parameters"][top]
        squares = (means**2).sum(1)[:, None] - 2 * means @ x.T + (x**2).sum(1)
        constant = x.shape[1] * jnp.log(2 * jnp.pi * noise**2) / 2
        log_density = log_prior[:, None] - squares / (2 * noise**2) - constant
        return info.active, jnp.mean(jax.nn.logsumexp(log_density, axis=0))

    return record


def images(path: Any, rows: np.ndarray, shape: tuple[int, int], width: int) -> None:
    """Rows as small pictures."""
    height = -(-len(rows) // width)
    figure, places = plt.subplots(height, width, figsize=(width, height), squeeze=False)
    for ax in places.flat:
        ax.axis("off")
    for ax, row in zip(places.flat, rows):
        ax.imshow(row.reshape(shape), cmap="gray")
    figure.savefig(path, dpi=120)
    plt.close(figure)
