"""Figure 4: two directions whose mean is a third, from minibatches of noise that is estimated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import (
    EmpiricalFisher,
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    Sphere,
    Uniform,
    gmc,
    gsgnht,
    sggmc,
)
from sgmc_jax.random import von_mises_fisher

from ..common import COLOURS, Options, table
from .chains import angle, chains, unit, with_errors

KAPPA, ITEMS, BATCH, FRICTION = 20.0, 100, 10, 20.0
FIRST, SECOND = -np.pi / 24, np.pi / 8
WIDE, BINS, CHAINS = 0.8, 40, 64  # angles are within WIDE, in so many bins


def between(v: Float[Array, "*n 2 2"]) -> Array:
    """mu, the mean of both directions."""
    total = v[..., 0, :] + v[..., 1, :]
    return total / jnp.linalg.norm(total, axis=-1, keepdims=True)


def logprior(v: Float[Array, "2 2"]) -> Array:
    """Both are vMF((1, 0), 20)."""
    return KAPPA * (v[0, 0] + v[1, 0])


def loglik(v: Float[Array, "2 2"], item: Float[Array, " 2"]) -> Array:
    """An item is vMF(v_1, 20) or vMF(mu, 20), as likely."""
    return jnp.logaddexp(KAPPA * (v[0] @ item), KAPPA * (between(v) @ item))


MODEL = FunctionModel(logprior, loglik)


def draw(key: Array, num: int = ITEMS) -> Float[Array, "n 2"]:
    """Items of the directions at -pi / 24 and pi / 8."""
    v = unit(jnp.array([FIRST, SECOND]))
    coin_key, item_key = jax.random.split(key)
    which = jax.random.bernoulli(coin_key, 0.5, (num, 1))
    return von_mises_fisher(item_key, jnp.where(which, v[0], between(v)), KAPPA)


def exact(items: Float[Array, "n 2"], fine: int = 8) -> Float[np.ndarray, "b b"]:
    """The probabilities of bins of both angles, by the midpoint rule on finer ones."""
    num = BINS * fine
    grid = -WIDE + 2 * WIDE * (jnp.arange(num) + 0.5) / num
    pair = lambda a, b: MODEL.logdensity(unit(jnp.stack([a, b])), items)
    log_density = jax.jit(jax.vmap(jax.vmap(pair, (None, 0)), (0, None)))(grid, grid)
    density = np.exp(np.asarray(log_density - log_density.max(), np.float64))
    return density.reshape(BINS, fine, BINS, fine).sum((1, 3)) / density.sum()


def binned(trace: Any) -> Float[np.ndarray, "chain b b"]:
    """How many draws of each chain are in each bin; those outside are in the last ones."""
    at = ((angle(trace) + WIDE) * BINS / (2 * WIDE)).astype(int).clip(0, BINS - 1)
    flat = at[..., 0] * BINS + at[..., 1]
    each = [np.bincount(row, minlength=BINS**2) for row in flat]
    return np.stack(each).reshape(-1, BINS, BINS).astype(float)


def kernels() -> dict[str, tuple[Kernel, int]]:
    """By name, with the steps between draws."""
    plain, space, h = Minibatch(MODEL, Uniform(BATCH)), Sphere(), 0.002
    known = EmpiricalFisher(plain, full=True)
    return {
        "gmc": (gmc(Minibatch(MODEL, Full()), space, 0.03, 5), 2),
        "sggmc, corrected": (sggmc(known, space, h, FRICTION, word="AFBNFA"), 100),
        "sggmc, uncorrected": (sggmc(plain, space, h, FRICTION, word="AFBNFA"), 100),
        "gsgnht": (gsgnht(plain, space, h, FRICTION), 100),
    }


def summary(joint: Float[np.ndarray, "b b"]) -> list[str]:
    """The correlation of the angles, and the mass where the first is the larger."""
    joint, at = joint / joint.sum(), (np.arange(BINS) + 0.5) / BINS
    first, second = at - joint.sum(1) @ at, at - joint.sum(0) @ at
    spread = np.sqrt((joint.sum(1) @ first**2) * (joint.sum(0) @ second**2))
    larger = np.tril(joint, -1).sum() + np.trace(joint) / 2
    return [f"{first @ joint @ second / spread:.3f}", f"{larger:.3f}"]


def run(options: Options) -> Iterator[str]:
    """A table and figure4.png."""
    items = draw(jax.random.fold_in(options.key, 1))
    truth, draws = exact(items), 300 if options.full else 75
    start = lambda key: unit(0.3 * jax.random.normal(key, (2,)))
    header = ["sampler", "total variation of v1", "of v2", "of both", "correlation"]
    header += ["first angle the larger", "clipped a step"]
    rows: list[list[Any]] = [["exact", "", "", "", *summary(truth), ""]]
    found = {"exact": truth}
    for name, (kernel, thin) in kernels().items():
        thin = thin if options.full else max(1, thin // 4)
        args = {"num_steps": draws * thin, "thin": thin, "num_chains": CHAINS}
        done = chains(options.key, kernel, start, items, **args)
        number = binned(done.trace)
        far = [with_errors(number.sum(2), truth.sum(1)), with_errors(number.sum(1), truth.sum(0))]
        far.append(with_errors(number, truth))
        found[name] = number.sum(0) / number.sum()
        clipped = getattr(done.info.kernel, "clipped", None)
        often = "" if clipped is None else f"{np.mean(clipped):.2f}"
        rows.append([name, *(pair[0] for pair in far), *summary(number.sum(0)), often])
        yield table(header, rows)
    picture(options.out / "figure4.png", found)


def picture(path: Path, found: dict[str, Float[np.ndarray, "b b"]]) -> None:
    """Both marginals, and the joint law as it is and as draws have it."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    width = 2 * WIDE / BINS
    middles = -WIDE + width * (np.arange(BINS) + 0.5)
    for which, ax in enumerate(axes[:2]):
        for colour, (name, joint) in zip((COLOURS[6], *COLOURS), found.items()):
            density = joint.sum(1 - which) / width
            ax.plot(middles, density, color=colour, label=name, linewidth=1)
        ax.set(xlabel=f"angle of v{which + 1}", ylabel="density")
    axes[0].legend(frameon=False, fontsize=7)
    for name, ax in zip(("exact", "sggmc, corrected"), axes[2:]):
        ax.imshow(found[name].T, origin="lower", extent=[-WIDE, WIDE] * 2, cmap="viridis")
        ax.set(title=name, xlabel="angle of v1", ylabel="angle of v2")
    figure.savefig(path, dpi=110)
    plt.close(figure)
