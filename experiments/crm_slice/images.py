"""Features of "Cambridge" images, truncation-free, from one feature and from seeds."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from sgmc_jax.bnp import (
    BetaBernoulli,
    LinearGaussian,
    hybrid_features,
    seed_features,
    slice_crm,
    slice_features,
)
from sgmc_jax.pictures import plot_features
from sgmc_jax.processes import Bernoulli, BetaProcess, bondesson

from ..common import Options, held_out_features, load, one_feature, save, table, timed

NOISE, TEST = 0.25, 500


def run(options: Options) -> Iterator[str]:
    """A table and images.png, the features of the last draw of `slice_features`."""
    what = "the 10,000 Cambridge images of hybridBNP (its cambridge_10k.npy)"
    holds = "`x` (10000, 36), images of 6 by 6, sums of four features and noise of deviation .25"
    items = load(options, "cambridge_10k.npz", what, holds)["x"]
    train, test = jnp.asarray(items[TEST:]), items[:TEST]
    num, record = 400 if options.full else 60, held_out_features(test, NOISE)
    process, family = BetaBernoulli(1.0), LinearGaussian(36, NOISE, 1.0)
    series = bondesson(BetaProcess(1.0))
    kernels = {
        "slice_features": slice_features(process, family, decay=1.0, capacity=32),
        "slice_crm": slice_crm(series, Bernoulli(), family, decay=1.0, capacity=32),
        "hybrid_features": hybrid_features(process, family, blocks=len(train) // 50, capacity=32),
    }
    seeds = seed_features(jax.random.fold_in(options.key, 1), process, family, train)
    starts = {"one feature": one_feature(len(train)), "seeds": seeds}

    header = ["start", "sampler", "features", "held-out log density", "ms a step"]
    rows, last = [], {}
    for start, position in starts.items():
        for name, kernel in kernels.items():
            # the general sampler has weights of its own
            begin = position._replace(shared={}) if name == "slice_crm" else position
            done = timed(options.key, kernel, begin, train, record, num)
            active, score = (np.asarray(part, float)[num // 2 :].mean() for part in done.trace)
            row = [start, name, f"{active:.1f}", f"{score:.3f}", f"{1e3 * done.seconds:.1f}"]
            rows.append(row)
            yield table(header, rows)
            last[start, name] = done.state
    state = last["seeds", "slice_features"]
    counts = jax.device_get(state.sums.counts)
    images = plot_features(state.position.shared["parameters"], (6, 6), counts=counts)
    save(images[0].figure, options.out / "images.png")
