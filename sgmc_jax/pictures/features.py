"""Features as images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .. import _checks
from ..evaluation.order import most_used
from . import _axes


def plot_features(
    parameters: Float[Any, "K D"],
    shape: tuple[int, int],
    *,
    counts: Int[Any, " K"] | Sequence[int] | None = None,
    num: int | None = None,
    columns: int = 8,
    axes: Any = None,
) -> Any:
    """Features as grey images, with `counts` those in use alone, the most used first.

    All images have one scale, from the least to the largest number that is shown.

    Args:
        parameters: (K, D), one draw's `shared["parameters"]`, or topics of words that are pixels.
        shape: the height and width of an image, whose product is D.
        counts: (K,), how many items have each, `state.sums.counts`, shown above it; 0 for free
            slots. By default all features in their order.
        num: how many at most; all by default.
        columns: how many in a row of new axes.
        axes: one for each image, to draw in; by default new ones.

    Returns:
        the axes, an array of one for each image.

    Raises:
        ImportError: without matplotlib.
        ValueError, TypeError: if a shape does not fit, or no feature is in use.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.pictures import plot_features
        >>> axes = plot_features(jnp.eye(4), (2, 2), counts=jnp.array([3, 0, 5, 1]))
        >>> [ax.get_title() for ax in axes]
        ['5', '3', '1']
    """
    values = _axes.real("parameters", parameters, "K", "D")
    for name, value in {"num": 1 if num is None else num, "columns": columns}.items():
        _checks.whole(name, value)
    height, width = _sides(shape, values.shape[1])
    used = np.arange(len(values)) if counts is None else most_used("counts", counts, len(values))
    if not len(used):
        raise ValueError("counts must be positive for some feature, got none in use")
    shown = values[used[:num]]
    places = _axes.several(axes, len(shown), columns, (1.0, 1.0 if counts is None else 1.2))
    for ax, row, slot in zip(places, shown, used[:num], strict=True):
        image = row.reshape(height, width)
        ax.imshow(image, cmap="gray", vmin=shown.min(), vmax=shown.max())
        ax.set_axis_off()
        if counts is not None:
            ax.set_title(_axes.shown(np.asarray(counts)[slot]), fontsize="small")
    return places


def _sides(shape: Any, dim: int) -> tuple[int, int]:
    """Height and width."""
    sides = tuple(shape) if isinstance(shape, tuple | list) else ()
    whole = all(isinstance(n, int | np.integer) and n > 0 for n in sides)
    if len(sides) != 2 or not whole or sides[0] * sides[1] != dim:
        raise ValueError(
            f"shape must be two numbers whose product is {dim}, got {_checks.shown(shape)}"
        )
    return sides
