"""What tuning saw."""

from __future__ import annotations

from typing import Any

from ..tune import Tuned
from . import _axes


def plot_ksd(tuned: Tuned, name: str | None = None, *, ax: Any = None) -> Any:
    """The kernel Stein discrepancies of `grid_search` or `successive_halving`, by step size.

    The picture is that of `Tuned.plot`: a line for each combination of the other settings, a star
    at the one chosen, a cross at the upper edge where draws did not stay finite.

    Args:
        tuned: what they returned.
        name: another number of the settings; by default the first of several values.
        ax: axes to draw in; by default new ones.

    Returns:
        the axes.

    Raises:
        ImportError: without matplotlib.
        TypeError, ValueError: if `tuned` is of something else, or has no such number.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sgld
        >>> from sgmc_jax.pictures import plot_ksd
        >>> from sgmc_jax.tune import grid_search
        >>> model = FunctionModel(lambda x: -0.5 * x**2)
        >>> make = lambda step_size: sgld(Minibatch(model, Full()), step_size)
        >>> args = {"position": jnp.zeros(()), "data": None, "budget": 200}
        >>> found = grid_search(jax.random.key(0), model, make, {"step_size": [0.1, 1.0]}, **args)
        >>> plot_ksd(found).get_xlabel()
        'step_size'
    """
    if not isinstance(tuned, Tuned):
        kind = type(tuned).__name__
        raise TypeError(f"tuned must be what grid_search or successive_halving returns, got {kind}")
    return tuned.plot(name, _axes.one(ax))
