"""Directions in three dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from .. import _checks
from . import _axes

_OFF = 1e-2  # a norm further from 1 is not rounding
_LENGTH = 1.3  # of an arrow, which begins at the centre


def plot_sphere(
    samples: Float[Any, "... 3"],
    directions: Float[Any, "... 3"] | None = None,
    *,
    ax: Any = None,
) -> Any:
    """Points on the unit sphere in three dimensions, on a sphere of wire, and arrows.

    Args:
        samples: (draw, 3), or (chain, draw, 3), each chain with a colour of its own; of length 1.
        directions: (3,) or (K, 3), arrows from the centre, such as `samples.mean((0, 1))`. They are
            drawn with one length, as a mean tells its direction by any.
        ax: axes with `projection="3d"` to draw in; by default new ones.

    Returns:
        the axes.

    Raises:
        ImportError: without matplotlib.
        ValueError, TypeError: if a shape does not fit, points are not on the sphere, a direction is
            none, or axes are flat.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.pictures import plot_sphere
        >>> from sgmc_jax.random import von_mises_fisher
        >>> mean = jnp.array([0.0, 0.0, 1.0])
        >>> keys = jax.random.split(jax.random.key(0), 100)
        >>> samples = jax.vmap(lambda key: von_mises_fisher(key, mean, 20.0))(keys)
        >>> ax = plot_sphere(samples, samples.mean(0))
        >>> ax.name, ax.get_zlabel()
        ('3d', 'x[2]')
    """
    many = np.ndim(_checks.on_host("samples", samples)) == 3
    points = _axes.real("samples", samples, *("chain",) * many, "draw", 3)
    off = np.abs(np.linalg.norm(points, axis=-1) - 1).max()
    if off > _OFF:
        raise ValueError(f"samples must be of length 1, got lengths off by up to {off:.2g}")
    arrows = np.zeros((0, 3)) if directions is None else _unit(directions)
    ax = _axes.one(ax, "3d", (5.0, 5.0))
    ax.plot_wireframe(*_wires(), color="0.8", linewidth=0.4)
    chains = points if many else points[None]
    for i, chain in enumerate(chains):
        ax.scatter(*chain.T, s=4, color=f"C{i}", label=f"chain {i}")
    for arrow in arrows:
        ax.quiver(0, 0, 0, *_LENGTH * arrow, color="k", arrow_length_ratio=0.1)
    limits = {f"{name}lim": (-1, 1) for name in "xyz"}
    names = {f"{name}label": f"x[{i}]" for i, name in enumerate("xyz")}
    ticks = {f"{name}ticks": (-1, 0, 1) for name in "xyz"}
    ax.set(**limits, **names, **ticks)
    ax.set_box_aspect((1, 1, 1), zoom=0.85)  # the labels are inside the figure
    _axes.legend(ax, len(chains))
    return ax


def _unit(directions: Any) -> Float[np.ndarray, "K 3"]:
    """Directions as rows of length 1."""
    one = np.ndim(_checks.on_host("directions", directions)) == 1
    rows = np.atleast_2d(_axes.real("directions", directions, *("K",) * (not one), 3))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not norms.min() > 0:
        raise ValueError("directions must not be zero, got one of length 0")
    return rows / norms


def _wires() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The coordinates of circles of latitude and longitude, 15 degrees apart."""
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 13))
    return np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
