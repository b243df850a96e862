"""A picture of draws on the sphere, by gradients with noise, for the front page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from matplotlib.patches import Circle

from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, sggmc
from sgmc_jax.directional import bingham_log_prob, von_mises_fisher_log_prob

from ..common import Options, table
from .chains import Corrupted, chains

NOISE, FRICTION, STEP = 100.0, 5.0, 0.05
MEANS = jnp.array([[0.7, -0.5, 0.5], [0.7, 0.65, -0.3]])
MEANS = MEANS / jnp.linalg.norm(MEANS, axis=-1, keepdims=True)
AXIS = jnp.array([0.5, 0.5, 1.4])
GIRDLE = -30 * jnp.outer(AXIS, AXIS) / (AXIS @ AXIS)  # a Bingham law around a great circle


def log_density(x: Float[Array, "*n 3"]) -> Array:
    """Two von Mises-Fisher laws and a girdle."""
    spots = von_mises_fisher_log_prob(x[..., None, :], MEANS, 25.0)
    girdle = bingham_log_prob(x, GIRDLE)
    return logsumexp(jnp.concatenate([spots, girdle[..., None]], -1), axis=-1)


def fibonacci(num: int) -> Float[np.ndarray, "n 3"]:
    """Points of equal areas."""
    z, turn = 1 - (2 * np.arange(num) + 1) / num, np.pi * (3 - np.sqrt(5)) * np.arange(num)
    side = np.sqrt(1 - z**2)
    return np.stack([side * np.cos(turn), side * np.sin(turn), z], axis=-1)


def run(options: Options) -> Iterator[str]:
    """Second moments by quadrature and of the draws, and sphere.png."""
    exact = Minibatch(FunctionModel(log_density), Full())
    args = {"noise_covariance": NOISE, "word": "AFBNFA"}
    kernel = sggmc(Corrupted(exact, NOISE), Sphere(), STEP, FRICTION, **args)
    start = lambda key: Sphere().random_point(key, jnp.zeros(3))
    draws = 400 if options.full else 100
    args = {"num_steps": 40 * draws, "thin": 40, "num_chains": 100}
    points = np.asarray(chains(options.key, kernel, start, None, **args).trace)
    grid = fibonacci(100_000)
    weight = np.exp(np.asarray(log_density(jnp.asarray(grid, jnp.float32)), float))
    picture(options.out / "sphere.png", points.reshape(-1, 3))
    rows = []
    for name, axis in zip("xyz", range(3)):
        moment = weight @ grid[:, axis] ** 2 / weight.sum()
        each = (points[..., axis] ** 2).mean(1)
        error = each.std() / np.sqrt(len(each))
        rows.append([name, f"{moment:.4f}", f"{each.mean():.4f} ± {error:.4f}"])
    yield table(["square of", "exact", "sggmc"], rows)


def picture(path: Path, points: Float[np.ndarray, "n 3"], most: int = 2_500) -> None:
    """The side that is seen, coloured by the density."""
    azimuth, height = np.radians(0), np.radians(15)
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0])
    to_eye = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), 0])
    to_eye[2] = np.sin(height)
    frame = np.stack([right, np.cross(to_eye, right), to_eye])
    at = np.linspace(-1, 1, 500)
    x, y = np.meshgrid(at, at)
    inside = x**2 + y**2 <= 1
    z = np.sqrt(np.where(inside, 1 - x**2 - y**2, 0))
    seen = np.stack([x, y, z], -1) @ frame
    seen /= np.linalg.norm(seen, axis=-1, keepdims=True)  # what is outside is not shown
    density = np.exp(np.asarray(log_density(jnp.asarray(seen, jnp.float32)), float))
    figure, ax = plt.subplots(figsize=(4, 4), layout="constrained")
    image = np.where(inside, np.sqrt(density), np.nan)
    box = (-1, 1, -1, 1)
    ax.imshow(image, origin="lower", extent=box, cmap="Blues", vmin=-0.15, vmax=2.6)
    for k in range(3):
        shade = np.where(inside, np.abs(seen[..., k]), np.nan)
        ax.contour(x, y, shade, levels=[0.0, 0.5, 0.87], colors="0.75", linewidths=0.3)
    turned = points[:: max(1, len(points) // most)] @ frame.T
    front = turned[turned[:, 2] > 0]
    ax.scatter(front[:, 0], front[:, 1], s=2.5, c="#d55e00", alpha=0.7, linewidths=0)
    ax.add_patch(Circle((0, 0), 1, fill=False, color="0.5", linewidth=0.8))
    ax.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02)), ax.set_aspect("equal"), ax.set_axis_off()
    figure.savefig(path, dpi=95)
    plt.close(figure)
