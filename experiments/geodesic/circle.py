"""Figure 3: a mixture on the circle, by gradients whose noise is known, and large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import Full, FunctionModel, Kernel, Minibatch, Sphere, gmc, gsgnht, sggmc

from ..common import COLOURS, Options, table
from .chains import BINS, Corrupted, angle, chains, counts, masses, unit, with_errors

NOISE, FRICTION, CHAINS = 1_000.0, 10.0, 100
TIME = 2.0  # between draws
FIRST = unit(np.pi / 3)
READINGS = {  # of "mu_1 = -mu_2 = pi / 3"
    "angles": jnp.stack([FIRST, FIRST * jnp.array([1.0, -1.0])]),
    "vectors": jnp.stack([FIRST, -FIRST]),
}


def log_density(means: Float[Array, "2 2"], x: Float[Array, "*n 2"]) -> Array:
    """log(exp(5 mu_1'x) + 2 exp(5 mu_2'x))."""
    near = 5 * x @ means.T
    return jnp.logaddexp(near[..., 0], near[..., 1] + jnp.log(2.0))


def kernels(means: Float[Array, "2 2"], steps: tuple) -> dict[tuple[str, float], Kernel]:
    """By name and step size; a noise of V can be subtracted up to h = 2 C / V = .02."""
    exact = Minibatch(FunctionModel(jax.tree_util.Partial(log_density, means)), Full())
    noisy, space, made = Corrupted(exact, NOISE), Sphere(), {}
    made["gmc, no noise", 0.3] = gmc(exact, space, 0.3, 5)
    args = {"friction": FRICTION, "word": "AFBNFA"}
    for h in steps:
        made["sggmc, corrected", h] = sggmc(noisy, space, h, noise_covariance=NOISE, **args)
        made["sggmc, uncorrected", h] = sggmc(noisy, space, h, **args)
        made["gsgnht", h] = gsgnht(noisy, space, h, FRICTION)
    return made


def run(options: Options) -> Iterator[str]:
    """A table and figure3.png, of the first reading; the second, slow to mix, at full size."""
    draws, steps = (200, (0.01, 0.02)) if options.full else (100, (0.02,))
    header = ["reading", "sampler", "h", "total variation", "Kolmogorov"]
    rows: list[list[Any]] = []
    start = lambda key: Sphere().random_point(key, jnp.zeros(2))
    for reading, means in list(READINGS.items())[: 1 + options.full]:
        exact, found = masses(lambda at, means=means: log_density(means, unit(at))), {}
        for (name, h), kernel in kernels(means, steps).items():
            thin = 20 if name == "gmc, no noise" else round(TIME / h)
            args = {"num_steps": draws * thin, "num_chains": CHAINS, "thin": thin}
            done = chains(options.key, kernel, start, None, **args)
            found[name, h] = done.trace
            number = counts(angle(done.trace))
            rows.append([reading, name, h, *with_errors(number, exact)])
            yield table(header, rows)
        rng = np.random.default_rng(0)
        number = rng.multinomial(draws, exact, size=CHAINS).astype(float)
        rows.append([reading, "independent draws", "", *with_errors(number, exact)])
        yield table(header, rows)
        if reading == "angles":
            picture(options.out / "figure3.png", exact, found)


def picture(path: Path, exact: Float[np.ndarray, " bins"], found: dict) -> None:
    """A hundred draws and the histogram around the circle; histograms against the density."""
    figure = plt.figure(figsize=(9, 4), layout="constrained")
    round_, flat = figure.add_subplot(1, 2, 1, projection="polar"), figure.add_subplot(1, 2, 2)
    corrected = angle(found["sggmc, corrected", 0.02])
    width = 2 * np.pi / BINS
    middles = -np.pi + width * (np.arange(BINS) + 0.5)
    density = counts(corrected).sum(0) / corrected.size / width
    round_.bar(middles, density, width, bottom=1, color=COLOURS[5], label="all draws")
    some = corrected.ravel()[:: corrected.size // 100][:100]
    round_.plot(some, np.ones(100), "o", color=COLOURS[1], markersize=4, label="100 of them")
    round_.set(yticks=[]), round_.legend(frameon=False, loc="center", fontsize=7)
    flat.plot(middles, exact / width, color=COLOURS[6], label="exact")
    names = {
        ("gmc, no noise", 0.3): "gmc, no noise",
        ("sggmc, corrected", 0.02): "sggmc, corrected",
        ("sggmc, uncorrected", 0.02): "sggmc, uncorrected",
        ("gsgnht", 0.02): "gsgnht",
    }
    for colour, (which, name) in zip(COLOURS, names.items()):
        angles = angle(found[which])
        density = counts(angles).sum(0) / angles.size / width
        flat.step(middles, density, where="mid", color=colour, label=name, linewidth=0.9)
    flat.set(xlabel="angle", ylabel="density"), flat.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
