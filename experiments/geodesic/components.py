"""Principal components of faces on a Stiefel manifold, with their posterior errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

from sgmc_jax import (
    ControlVariate,
    Full,
    FunctionModel,
    Kernel,
    Minibatch,
    Stiefel,
    Uniform,
    ess,
    gmc,
    gsgnht,
    sggmc,
)

from ..common import FACES, Options, load, table
from .chains import Chains, chains

RANK, BATCH, CHAINS, FRICTION = 4, 400, 4, 20.0


class Faces(NamedTuple):
    """Items in units of the noise's standard deviation, and the principal components of them."""

    items: Float[np.ndarray, "n d"]
    values: Float[np.ndarray, " d"]
    vectors: Float[np.ndarray, "d d"]


def faces(images: Any, rank: int = RANK) -> Faces:
    """Centred; the noise is what the first components leave, on average over the others."""
    items = np.asarray(images, np.float64).reshape(len(images), -1)
    items -= items.mean(0)
    values, vectors = np.linalg.eigh(items.T @ items / len(items))
    noise = values[:-rank].mean()
    items = (items / np.sqrt(noise)).astype(np.float32)
    return Faces(items, values[::-1] / noise, vectors[:, ::-1])


def shrinkage(made: Faces, rank: int = RANK) -> Float[np.ndarray, " p"]:
    """lambda / (lambda + sigma^2) at their most likely values."""
    return 1 - 1 / made.values[:rank]


def model(weight: Any, tangent: bool = True) -> FunctionModel:
    """y ~ N(0, I + W diag(lambda) W'): what of its density depends on W, flat on the manifold.

    With `tangent` by W (3 I - W'W) / 2, which is W on the manifold, and of which the gradient of
    each item is tangent. A control variate needs that: of the term at the centre what is normal
    there, and as noisy as the squares themselves, is tangent in part at any other W.
    """
    weight = jnp.asarray(weight, jnp.float32)

    def each(w: Array, items: Array) -> Array:
        if tangent:
            w = w @ (3 * jnp.eye(w.shape[-1]) - w.T @ w) / 2
        return (items @ w) ** 2 @ weight / 2

    return FunctionModel(lambda w: jnp.zeros(()), loglik_batch=each)


def predicted(made: Faces, rank: int = RANK) -> Float[np.ndarray, "d p"]:
    """The variance of e_j'w_k about the mode, to first order, for j other than k.

    1 / (N (D_k - D_j) (l_k - l_j)), D_j being zero beyond the rank; for two components in the
    model l_k l_j / (N (l_k - l_j)^2), as Anderson (1963) has it.
    """
    weight = np.zeros(len(made.values))
    weight[:rank] = shrinkage(made, rank)
    gap = made.values[:, None] - made.values[:rank]
    curvature = len(made.items) * gap * (weight[:, None] - weight[:rank])
    return np.divide(1, curvature, out=np.zeros_like(curvature), where=curvature > 0)


def kernels(made: Faces) -> dict[str, tuple[Kernel, int]]:
    """By name, with the steps between draws; step sizes are in units of the stiffest direction's.

    All data are in as many items as pixels: squares of w'y sum to those of w'e_j, N l_j times each.
    """
    weight = shrinkage(made)
    target, unit = model(weight), 1 / np.sqrt(len(made.items) * made.values[0] * weight[0])
    noisy, space = Minibatch(target, Uniform(BATCH)), Stiefel()
    anchored = ControlVariate(noisy, mode(made))
    normal = ControlVariate(Minibatch(model(weight, tangent=False), Uniform(BATCH)), mode(made))
    slow = 0.05 * unit
    return {
        "gmc, all data": (gmc(Minibatch(target, Full()), space, 0.15 * unit, 100), 1),
        "sggmc, plain batches": (sggmc(noisy, space, slow, FRICTION), 100),
        "sggmc, control variate, not tangent": (sggmc(normal, space, slow, FRICTION), 100),
        "sggmc, control variate": (sggmc(anchored, space, slow, FRICTION), 100),
        "the same, twice the step": (sggmc(anchored, space, 2 * slow, FRICTION), 50),
        "gsgnht, control variate": (gsgnht(anchored, space, slow, FRICTION), 100),
    }


def condensed(made: Faces) -> Float[np.ndarray, "d d"]:
    """As many items as pixels, of the same sums of squares."""
    return (np.sqrt(len(made.items) * made.values.clip(0)) * made.vectors).T.astype(np.float32)


def pooled(images: Any) -> np.ndarray:
    """Means of two by two pixels; odd rows and columns at the ends are left out."""
    high, wide = (size // 2 for size in np.shape(images)[1:])
    return (
        np.asarray(images, np.float64)[:, : 2 * high, : 2 * wide]
        .reshape(-1, high, 2, wide, 2)
        .mean((2, 4))
    )


def mode(made: Faces) -> Array:
    """The first eigenvectors."""
    return jnp.asarray(made.vectors[:, :RANK], jnp.float32)


def row(name: str, made: Faces, done: Chains) -> list[str]:
    """Of the chains: sizes of the angles against the formula's, and what a draw costs."""
    cosines = np.einsum("dk,cndk->cnk", made.vectors[:, :RANK], done.trace)
    turned = np.einsum("dj,cndk->cnjk", made.vectors[:, :RANK], done.trace)
    size = np.degrees(np.sqrt((np.arccos(cosines.clip(-1, 1)) ** 2).mean((0, 1))))
    below = np.tril_indices(RANK, -1)
    worst = float(np.min(np.asarray(ess(turned[:, :, below[0], below[1]]))))
    among = turned[:, :, below[0], below[1]].var((0, 1)) / predicted(made)[below]
    last = np.asarray(done.state.position)
    off = np.abs(np.swapaxes(last, -1, -2) @ last - np.eye(RANK)).max()
    cells = [" ".join(f"{x:.4f}" for x in cosines.mean((0, 1)))]
    cells += [" ".join(f"{x:.2f}" for x in size), " ".join(f"{x:.2f}" for x in among)]
    return [name, *cells, f"{worst / done.seconds:.1f}", f"{off:.0e}"]


def run(options: Options) -> Iterator[str]:
    """A table and components.png, of the draws by all data; at small size of pooled images."""
    images = load(options, "cbcl_faces.npz", *FACES)["x"]
    images = images if options.full else pooled(images)
    made, draws = faces(images), 200
    header = ["sampler", "mean cosines", "sizes of the angles, degrees"]
    header += ["variances of rotations of one into another, to the formula's"]
    header += ["least ESS a second", "off the manifold"]
    rows, found = [], {}
    for name, (kernel, thin) in kernels(made).items():
        data = jnp.asarray(condensed(made) if "all data" in name else made.items)
        args = {"num_steps": draws * thin, "thin": thin, "num_chains": CHAINS}
        found[name] = chains(options.key, kernel, mode(made), data, position_axis=None, **args)
        rows.append(row(name, made, found[name]))
        yield table(header, rows)
    size = np.degrees(np.sqrt(predicted(made).sum(0)))
    cosines = 1 - predicted(made).sum(0) / 2
    cells = [" ".join(f"{x:.4f}" for x in cosines), " ".join(f"{x:.2f}" for x in size)]
    rows.append(["formula", *cells, "", "", ""])
    yield table(header, rows)
    trace = found["gmc, all data"].trace
    picture(options.out / "components.png", trace, images.shape[1:])


def picture(path: Path, trace: Float[np.ndarray, "c n d p"], shape: tuple[int, ...]) -> None:
    """Means and standard deviations of the components, as images."""
    figure, axes = plt.subplots(2, RANK, figsize=(1.6 * RANK, 3.4), layout="constrained")
    for k in range(RANK):
        for ax, image in zip(axes[:, k], (trace.mean((0, 1)), trace.std((0, 1)))):
            ax.imshow(image[:, k].reshape(shape), cmap="gray"), ax.set_axis_off()
    axes[0, 0].set_title("mean", fontsize=8), axes[1, 0].set_title("deviation", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
