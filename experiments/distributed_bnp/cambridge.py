"""Figures 3 and 4, features: "Cambridge" images, from one feature, warm, and from seeds."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax import sample
from sgmc_jax.bnp import (
    BetaBernoulli,
    LinearGaussian,
    hybrid_features,
    seed_features,
    warm_features,
)
from sgmc_jax.pictures import plot_features

from ..common import Options, active, curves, held_out_features, one_feature, save, table, timed

NOISE = 0.5
_WARM = 256  # blocks, each of which has births in slots of its own
PICTURES = """
.#....  ...###  ......  ......
###...  ...#.#  ......  ......
.#....  ...###  ......  ......
......  ......  #.....  ...###
......  ......  ##....  ....#.
......  ......  ###...  ....#.
"""


def run(options: Options) -> Iterator[str]:
    """A table, figure4.png and figure6.png."""
    n, num = (1_000_000, 100) if options.full else (10_000, 60)
    planted = planted_features()
    rng = np.random.default_rng(0)
    entries = rng.integers(0, 2, (n + 500, 4))
    noisy = (entries @ planted + NOISE * rng.standard_normal((n + 500, 36))).astype(np.float32)
    items, test = jnp.asarray(noisy[:n]), noisy[n:]
    parts = BetaBernoulli(1.0), LinearGaussian(36, NOISE, 1.0)
    blocks, record = n // 200, held_out_features(test, NOISE)
    starts = {"one feature": one_feature(n)}
    before = jax.random.fold_in(options.key, 1)  # of what goes before the sampler
    if blocks <= _WARM:
        starts["warm"] = _warm(before, parts, items, blocks, num // 8)
    starts["seeds"] = seed_features(before, *parts, items)
    header = ["images", "blocks", "start", "held-out", "features", "smallest cosine", "ms a step"]
    rows, found, scores = [], {}, {}
    for name, start in starts.items():
        columns = jax.tree.leaves(start)[-1].shape[1]
        kernel = hybrid_features(*parts, blocks=blocks, capacity=max(16, columns + 8))
        done = timed(options.key, kernel, start, items, record, num)
        number, score = (np.asarray(part, float) for part in done.trace)
        theta = np.asarray(done.state.position.shared["parameters"])
        found[name] = theta[np.linalg.norm(theta, axis=1) > 0]
        norm = lambda rows: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        cosine = (norm(planted) @ norm(theta).T).max(axis=1).min()
        scores[name] = (np.arange(1, num + 1), score)
        cells = [f"{score[-1]:.3f}", f"{number[-1]:.0f}", f"{cosine:.3f}"]
        rows.append([f"{n:,}", blocks, name, *cells, f"{1e3 * done.seconds:.1f}"])
        yield table(header, rows)
    curves(options.out / "figure4.png", {f"{n:,} images": scores}, ("step", "held-out"))
    both = np.concatenate([planted, found["seeds"]])
    images = plot_features(both, (6, 6), columns=4)
    save(images[0].figure, options.out / "figure6.png")


def _warm(key: jax.Array, parts: tuple, items: jax.Array, blocks: int, num: int) -> np.ndarray:
    """The features after some steps in which ever fewer blocks have births."""
    cooling = num / np.log2(blocks)
    kernel = warm_features(*parts, blocks=blocks, cooling=cooling, capacity=4 * blocks)
    begun = one_feature(len(items))
    run = sample(key, kernel, begun, items, num_steps=num, record=active)
    features = np.asarray(run.state.position.local["features"])
    return features[:, features.any(axis=0)]


def planted_features() -> np.ndarray:
    """The four features, 6 x 6 pixels each, as rows of zeros and ones."""
    lines = [line.split() for line in PICTURES.strip().splitlines()]
    pixels = [[[c == "#" for c in row] for row in rows] for rows in zip(*lines)]
    return np.array(pixels, np.float32).reshape(4, 36)
