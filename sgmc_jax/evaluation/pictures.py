"""Features as images."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int

from .. import _checks
from ._arrays import fitting, most_used


def feature_images(
    parameters: Float[Array, "K D"],
    counts: Int[Array, " K"],
    shape: tuple[int, int],
    *,
    num: int | None = None,
    columns: int = 8,
) -> Any:
    """The features in use as grey images, the most used first.

    All images have one scale, from the least to the largest number that is shown.

    Args:
        parameters: (K, D), one draw's `shared["parameters"]`, or a mean of a topic's words.
        counts: (K,), how often each is in use, `state.sums.counts`; 0 for free slots.
        shape: the height and width of an image, whose product is D.
        num: how many at most; all by default.
        columns: how many in a row.

    Returns:
        a `matplotlib.figure.Figure`, of no window: a notebook shows it, `savefig` writes it.

    Raises:
        ImportError: without matplotlib.
        ValueError, TypeError: if a shape does not fit, or no feature is in use.

    Example:
        >>> import jax.numpy as jnp
        >>> figure = feature_images(jnp.eye(4), jnp.array([3, 0, 5, 1]), (2, 2))
        >>> len(figure.axes)
        3
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("feature_images needs matplotlib: pip install matplotlib") from error
    fitting("parameters", parameters, "K", "D")
    used = most_used("counts", counts, len(parameters))
    values = np.asarray(parameters, float)
    if len(shape) != 2 or np.prod(shape) != values.shape[1]:
        dim = values.shape[1]
        raise ValueError(f"shape must be two numbers whose product is {dim}, got {shape}")
    for name, value in {"num": 1 if num is None else num, "columns": columns}.items():
        _checks.whole(name, value)
    shown = values[used[:num]]
    if not len(shown):
        raise ValueError("counts must be positive for some feature, got none in use")
    rows, columns = -(-len(shown) // columns), min(columns, len(shown))
    figure = Figure(figsize=(columns, rows), layout="constrained")
    for i, image in enumerate(shown):
        ax = figure.add_subplot(rows, columns, i + 1)
        ax.imshow(image.reshape(shape), cmap="gray", vmin=shown.min(), vmax=shown.max())
        ax.axis("off")
    return figure
