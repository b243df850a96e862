"""The supplement's figure 7: features of the CBCL faces."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, hybrid_features, seed_features
from sgmc_jax.pictures import plot_features

from ..common import FACES, Options, load, save, table, timed


def run(options: Options) -> Iterator[str]:
    """A table and figure7.png."""
    raw = load(options, "cbcl_faces.npz", *FACES)["x"]
    x = raw.reshape(len(raw), -1).astype(np.float32) / 255
    x = x - x.mean(axis=0)
    x = x / x.std()
    num, chains, steps = (500, 8, 100) if options.full else (30, 2, 20)
    parts = (
        BetaBernoulli(3.0),
        LinearGaussian(x.shape[1], 0.5, 0.3, noise_prior=(1.0, 0.1), feature_prior=(1.0, 0.1)),
    )
    items, capacity = jnp.asarray(x), 64
    start = seed_features(
        jax.random.fold_in(options.key, 1),
        *parts,
        items,
        num_chains=chains,
        num_steps=steps,
        capacity=capacity,
    )
    kernel = hybrid_features(*parts, blocks=32, capacity=capacity)
    record = lambda state, info: (info.active, state.position.shared["noise_scale"])
    done = timed(options.key, kernel, start, items, record, num)
    active, noise = done.trace
    theta = done.state.position.shared["parameters"]
    images = plot_features(theta, (19, 19), counts=done.state.sums.counts)
    save(images[0].figure, options.out / "figure7.png")
    explained = 1 - float(noise[-1]) ** 2
    row = [len(x), 32, num, int(active[-1]), f"{noise[-1]:.3f}", f"{explained:.2f}"]
    header = [
        "faces",
        "blocks",
        "steps",
        "features",
        "noise scale",
        "variance explained",
        "ms a step",
    ]
    yield table(header, [[*row, f"{1e3 * done.seconds:.1f}"]])
