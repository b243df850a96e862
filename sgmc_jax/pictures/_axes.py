"""Axes to draw in: those given, or new ones; and the numbers that are drawn."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import _checks
from .._frames import without_frames

_LISTED = 10  # names in a legend: as many as matplotlib has colours in turn


def one(ax: Any, projection: str = "rectilinear", size: tuple[float, float] = (6.0, 4.0)) -> Any:
    """The axes given, if they are of that projection, or new ones."""
    if ax is None:
        return _figure(size).add_subplot(projection=projection)
    _require_axes("ax", ax, projection)
    return ax


def several(axes: Any, num: int, columns: int, size: tuple[float, float]) -> np.ndarray:
    """So many axes, (num,): the first of those given, or new ones in rows, each of that size."""
    if axes is None:
        rows, columns = -(-num // columns), min(columns, num)
        figure = _figure((columns * size[0], rows * size[1]))
        made = [figure.add_subplot(rows, columns, i + 1) for i in range(num)]
        return np.array(made, object)
    flat = axes.flat if isinstance(axes, np.ndarray) else axes
    given = [*flat] if isinstance(axes, np.ndarray | list | tuple) else [axes]
    for ax in given:
        _require_axes("axes", ax, "rectilinear")
    if len(given) < num:
        raise ValueError(f"axes must be at least {num}, one for each picture, got {len(given)}")
    for ax in given[num:]:
        ax.set_axis_off()
    return np.array(given[:num], object)


def legend(ax: Any, num: int, **options: Any) -> None:
    """The names of what is drawn, if there are several, and not too many."""
    if 1 < num <= _LISTED:
        ax.legend(frameon=False, fontsize="small", **options)


def real(name: str, value: Any, *shape: str | int) -> np.ndarray:
    """The argument as finite numbers of these lengths, a name being any length but 0."""
    array = _checks.on_host(name, without_frames(name, value))
    if not any(jnp.issubdtype(array.dtype, kind) for kind in (np.floating, np.integer, np.bool_)):
        raise TypeError(f"{name} must be real numbers, got {array.dtype}")
    _checks.shaped(name, array, *shape)
    if not array.size:
        raise ValueError(f"{name} must have something to draw, got shape {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    return Figure(figsize=size, layout="constrained")


def _require_axes(name: str, ax: Any, projection: str) -> None:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"{name} must be matplotlib's axes, got {_checks.shown(ax)}")
    if ax.name != projection:
        raise ValueError(f'{name} must have projection="{projection}", got "{ax.name}"')


def shown(count: Any) -> str:
    """A count in a title: a whole number with all its digits."""
    value = float(count)
    return f"{value:.0f}" if value.is_integer() else f"{value:g}"
