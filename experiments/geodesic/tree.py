"""A binary tree by noisy distances of its nodes: on the hyperbolic plane and on the flat one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.patches import Circle
from scipy.sparse.csgraph import shortest_path

from sgmc_jax import (
    Euclidean,
    Full,
    FunctionModel,
    Hyperboloid,
    Kernel,
    Minibatch,
    Positive,
    Product,
    Space,
    Uniform,
    gmc,
    sggmc,
)

from ..common import COLOURS, Options, table
from .chains import chains

NOISE, HELD_OUT, CHAINS, SPREAD = 0.25, 0.2, 4, 4.0


class Tree(NamedTuple):
    """Distances of pairs of nodes in the tree, and with noise; the first pairs are learned from."""

    pairs: Int[np.ndarray, "m 2"]
    edges: Float[np.ndarray, " m"]
    seen: Float[np.ndarray, " m"]
    train: int

    @property
    def size(self) -> int:
        return int(self.pairs.max()) + 1

    @property
    def items(self) -> tuple[Array, Array]:
        return jnp.asarray(self.pairs[: self.train]), jnp.asarray(self.seen[: self.train])


def plant(depth: int, seed: int = 0) -> Tree:
    """The complete binary tree, whose nodes i > 0 hang on (i - 1) // 2; pairs at random."""
    rng, num = np.random.default_rng(seed), 2 ** (depth + 1) - 1
    ends = [{0: 0}]
    for i in range(1, num):
        ends.append({j: far + 1 for j, far in ends[(i - 1) // 2].items()} | {i: 0})
    apart = lambda i, j: min(far + ends[j][k] for k, far in ends[i].items() if k in ends[j])
    pairs = rng.permutation(np.stack(np.triu_indices(num, 1), -1))
    edges = np.array([apart(i, j) for i, j in pairs], np.float32)
    seen = (edges + NOISE * rng.normal(size=len(edges))).astype(np.float32)
    return Tree(pairs, edges, seen, round((1 - HELD_OUT) * len(pairs)))


def hyperbolic(x: Float[Array, "*b 3"], y: Float[Array, "*b 3"]) -> Array:
    """By |x - y|^2 = 4 sinh^2(distance / 2), which does not cancel near zero as cosh does."""
    gap = x - y
    square = jnp.sum(gap[..., 1:] ** 2, -1) - gap[..., 0] ** 2
    return 2 * jnp.arcsinh(jnp.sqrt(jnp.maximum(square, 1e-6)) / 2)


def flat(x: Float[Array, "*b 2"], y: Float[Array, "*b 2"]) -> Array:
    """The straight line's."""
    return jnp.sqrt(jnp.sum((x - y) ** 2, -1) + 1e-6)


class Plane(NamedTuple):
    """A space of points, their distance, and the log prior of a point.

    The distance from the middle has one law on both planes, r exp(-r^2 / 32) dr: on the hyperbolic
    one, whose circles have the length 2 pi sinh r, the density is less by r / sinh r.
    """

    space: Space
    distance: Any
    log_prior: Any


def _hyperbolic_prior(x: Float[Array, "n 3"]) -> Array:
    r = jnp.arccosh(jnp.maximum(x[:, 0], 1 + 1e-6))
    log_sinh = r + jnp.log(-jnp.expm1(-2 * r) / 2)
    return jnp.log(r) - log_sinh - r**2 / (2 * SPREAD**2)


def _flat_prior(x: Float[Array, "n 2"]) -> Array:
    return -jnp.sum(x**2, -1) / (2 * SPREAD**2)


PLANES = {
    "hyperbolic": Plane(Hyperboloid(), hyperbolic, _hyperbolic_prior),
    "flat": Plane(Euclidean(), flat, _flat_prior),
}


def model(plane: Plane) -> FunctionModel:
    """An item is a pair and y ~ N(scale * distance, noise^2); points are within some 4 units."""

    def logprior(position: Any) -> Array:
        logs = jnp.log(position["scale"]) ** 2 / 2 + jnp.log(position["noise"]) ** 2 / 2
        return jnp.sum(plane.log_prior(position["points"])) - logs

    return FunctionModel(logprior, loglik_batch=lambda x, items: log_likelihood(plane, x, items))


def log_likelihood(plane: Plane, position: Any, items: Any) -> Float[Array, " m"]:
    """log N(y; scale * distance, noise^2) of each pair."""
    pairs, seen = items
    x, y = position["points"][pairs[:, 0]], position["points"][pairs[:, 1]]
    error = (seen - position["scale"] * plane.distance(x, y)) / position["noise"]
    return -(error**2) / 2 - jnp.log(position["noise"]) - jnp.log(2 * jnp.pi) / 2


def layout(tree: Tree, plane: Plane, scale: float) -> Any:
    """A start: classical scaling of the distances, for both planes the same.

    Of pairs that are held out it is the shortest way over others, as they are seen.
    """
    num = tree.size
    far = np.zeros((num, num))  # no edge where it is 0
    i, j = tree.pairs[: tree.train].T
    far[i, j] = tree.seen[: tree.train]
    far = shortest_path(far, directed=False) ** 2
    middle = np.eye(num) - 1 / num
    values, vectors = np.linalg.eigh(-middle @ far @ middle / 2)
    points = jnp.asarray(vectors[:, -2:] * np.sqrt(values[-2:]) / scale, jnp.float32)
    if isinstance(plane.space, Hyperboloid):
        apex = jnp.tile(jnp.array([1.0, 0.0, 0.0]), (num, 1))
        velocity = jnp.concatenate([jnp.zeros((num, 1)), points], -1)
        points, _ = plane.space.flow(apex, velocity, 1.0)
    return {"points": points, "scale": jnp.asarray(scale), "noise": jnp.asarray(1.0)}


def kernels(plane: Plane) -> dict[str, tuple[Kernel, int]]:
    """By name, with the steps between draws."""
    target = model(plane)
    space = Product({"points": plane.space, "scale": Positive(), "noise": Positive()})
    noisy = Minibatch(target, Uniform(100))
    return {
        "gmc": (gmc(Minibatch(target, Full()), space, 0.005, 40), 5),
        "sggmc": (sggmc(noisy, space, 0.002, 20.0), 200),
    }


def row(name: str, tree: Tree, plane: Plane, done: Any) -> list[str]:
    """Mean distortion over pairs and draws, the score of pairs held out, what was accepted."""
    flatten = lambda x: jnp.asarray(x).reshape(-1, *x.shape[2:])
    draws = jax.tree.map(flatten, done.trace)
    pairs, seen = jnp.asarray(tree.pairs), jnp.asarray(tree.seen)

    def judge(position: Any) -> tuple[Array, Array]:
        x, y = position["points"][pairs[:, 0]], position["points"][pairs[:, 1]]
        distortion = jnp.abs(position["scale"] * plane.distance(x, y) / tree.edges - 1)
        held = (pairs[tree.train :], seen[tree.train :])
        return jnp.mean(distortion), log_likelihood(plane, position, held)

    distortion, scores = jax.lax.map(judge, draws)
    score = jnp.mean(jax.scipy.special.logsumexp(scores, axis=0) - np.log(len(scores)))
    each = jnp.asarray(distortion).reshape(CHAINS, -1).mean(1)
    accepted = getattr(done.info.kernel, "acceptance", None)
    cells = [f"{each.mean():.3f} ± {each.std(ddof=1) / np.sqrt(CHAINS):.3f}", f"{score:.3f}"]
    noise, scale = (float(jnp.mean(draws[part])) for part in ("noise", "scale"))
    chance = "" if accepted is None else f"{np.mean(accepted):.2f}"
    return [name, *cells, f"{noise:.3f}", f"{scale:.2f}", chance, f"{done.seconds:.0f}"]


def run(options: Options) -> Iterator[str]:
    """A table and tree.png, of the draws by all data on the hyperbolic plane."""
    tree, rows = plant(5 if options.full else 4), []
    header = ["plane", "sampler", "mean distortion", "held-out log density", "noise", "scale"]
    header += ["accepted", "seconds"]
    draws = 2_000 if options.full else 400
    for where, plane in PLANES.items():
        for name, (kernel, thin) in kernels(plane).items():
            start = layout(tree, plane, 1.0)
            args = {"num_steps": draws * thin, "thin": thin, "num_chains": CHAINS}
            done = chains(options.key, kernel, start, tree.items, position_axis=None, **args)
            rows.append([where, *row(name, tree, plane, done)])
            yield table(header, rows)
            if (where, name) == ("hyperbolic", "gmc"):
                picture(options.out / "tree.png", np.asarray(done.trace["points"]))


def picture(path: Path, points: Float[np.ndarray, "c n k 3"]) -> None:
    """The disc: edges of the last draw of a chain, and all draws of it, turned to lie upon it."""
    draws = points[0, :, :, 1:] / (1 + points[0, :, :, :1])
    last = draws[-1]
    figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
    ax.add_patch(Circle((0, 0), 1, fill=False, color="0.7"))
    depth = np.log2(np.arange(len(last)) + 1).astype(int)
    colours = np.array(COLOURS)[depth % len(COLOURS)]
    for draw in draws[:: max(1, len(draws) // 60)]:
        u, _, v = np.linalg.svd(draw.T @ last)
        ax.scatter(*(draw @ u @ v).T, s=2, c=colours, alpha=0.4, linewidths=0)
    for i in range(1, len(last)):
        ax.plot(*last[[i, (i - 1) // 2]].T, color="0.5", linewidth=0.6, zorder=1)
    ax.scatter(*last.T, s=12, c=colours, zorder=3, edgecolors="white", linewidths=0.4)
    ax.set_aspect("equal"), ax.set_axis_off()
    figure.savefig(path, dpi=120)
    plt.close(figure)
