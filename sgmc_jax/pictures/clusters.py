"""Items in the plane, and their clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .. import _checks
from ..bnp import cluster_table
from . import _axes

_SHOWN = 10  # names in the legend, of the largest clusters


def plot_clusters(
    points: Float[Any, "n D"],
    partition: Int[Any, " n"] | Sequence[int],
    *,
    columns: Sequence[str] | None = None,
    sds: Sequence[float] = (1.0, 2.0),
    ax: Any = None,
) -> Any:
    """Items as points, coloured by their cluster, the largest cluster first.

    Items of more than two numbers are shown by their first two principal components: those of
    centred, not of scaled, columns. The ellipses of a cluster have its items' mean and covariance;
    of a normal law in the plane that of one sd holds 39 %, that of two 86 %.

    Args:
        points: the items, (n, D), an array or a frame of pandas, whose names of columns are shown.
        partition: labels of the items, (n,), such as `point_estimate` returns.
        columns: names of the D columns, in place of the frame's.
        sds: the ellipses of each cluster of three items or more, in standard deviations; `()` draws
            none, as where clusters are not normal.
        ax: axes to draw in; by default new ones.

    Returns:
        the axes. A cluster's points are one of their `collections`, in the order of `cluster_table`
        and with its label.

    Raises:
        ImportError: without matplotlib.
        ValueError, TypeError: if a shape does not fit, or labels are no whole numbers.

    Example:
        >>> import numpy as np
        >>> from sgmc_jax.pictures import plot_clusters
        >>> points = np.random.default_rng(0).normal(size=(5, 2))
        >>> ax = plot_clusters(points, [0, 0, 1, 1, 1], columns=["width", "height"])
        >>> [cluster.get_label() for cluster in ax.collections], len(ax.patches)
        (['1: 3 items', '0: 2 items'], 2)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('width', 'height')
    """
    values = _axes.real("points", points, "n", "D")
    table = cluster_table(partition, points, columns=columns)
    if values.shape[1] < 2:
        raise ValueError(f"points must have two columns or more, got shape {values.shape}")
    _checks.number("sds", sds)
    _checks.positive("sds", sds)
    names = [name.removesuffix(" mean") for name in table.columns if name.endswith(" mean")]
    plane, axis_names = _principal(values) if len(names) > 2 else (values, names)
    ax, labels, size = _axes.one(ax), np.asarray(partition), table.columns["size"]
    for i, (name, colour) in enumerate(zip(table.names, _colours(len(size)), strict=True)):
        own = plane[labels == int(name)]
        said = f"{name}: {len(own)} item{'s' * (len(own) > 1)}"
        ax.scatter(*own.T, s=8, color=[colour], label=said if i < _SHOWN else f"_{said}")
        for sd in np.ravel(sds) if len(own) > 2 else ():
            ax.add_patch(_ellipse(own, sd, colour))
    ax.set(xlabel=axis_names[0], ylabel=axis_names[1])
    ax.autoscale_view()
    title = f"the {_SHOWN} largest of {len(size)}" if len(size) > _SHOWN else None
    ax.legend(frameon=False, fontsize="small", title=title)
    return ax


def _principal(values: Float[np.ndarray, "n D"]) -> tuple[Float[np.ndarray, "n 2"], list[str]]:
    """The first two principal components, and their names; the largest loading is positive."""
    centred = values - values.mean(0)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    some = np.zeros((2, values.shape[1]))
    some[: len(directions)] = directions[:2]
    most = np.argmax(np.abs(some), axis=1)
    some *= np.where(some[[0, 1], most] < 0, -1, 1)[:, None]
    share = np.append(singular**2, 0)[:2] / max(np.sum(singular**2), np.finfo(float).tiny)
    names = [f"component {i + 1} ({p:.0%} of the variance)" for i, p in enumerate(share)]
    return centred @ some.T, names


def _ellipse(own: Float[np.ndarray, "m 2"], sd: float, colour: Any) -> Any:
    """The points at `sd` standard deviations from the mean."""
    from matplotlib.patches import Ellipse

    variances, directions = np.linalg.eigh(np.cov(own.T, bias=True))
    width, height = 2 * sd * np.sqrt(np.maximum(variances, 0))
    angle = np.degrees(np.arctan2(directions[1, 0], directions[0, 0]))
    shape = {"width": width, "height": height, "angle": angle}
    return Ellipse(tuple(own.mean(0)), **shape, fill=False, edgecolor=colour, linewidth=1)


def _colours(num: int) -> np.ndarray:
    """So many colours, all different."""
    from matplotlib import colormaps

    if num <= 20:
        return colormaps["tab10" if num <= 10 else "tab20"](np.arange(num))
    return colormaps["turbo"](np.linspace(0, 1, num))
