"""Draws of a run: their marginals, and how they went."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Shaped

from .. import _checks
from ..model import Model
from ..named import scalars
from ..run import Moments, Run
from . import _axes

_FIRST = 10  # scalars that are drawn if none are named
_BINS = 40
_VALUES = 60  # of whole numbers, which have a bin each if they are no more


def plot_trace(
    run: Run,
    names: str | Sequence[str] | None = None,
    *,
    model: Model | None = None,
    axes: Any = None,
) -> Any:
    """Each scalar of the draws in a row: its marginal by chain, and beside it its path by draw.

    ArviZ draws the same, and much else, from `run.to_arviz()`.

    Args:
        run: of `sample`, with its draws.
        names: which scalars, by the names of `run.summary()`, or by that of an array, all of whose
            scalars are meant; by default the first ten.
        model: the run's model, to draw the coordinates of its user, as `run.summary(model)` tells.
        axes: two for each scalar, in rows, to draw in; by default new ones.

    Returns:
        the axes, an array (scalar, 2).

    Raises:
        ImportError: without matplotlib.
        TypeError, ValueError: if the run kept no draws, a name is unknown, or axes are too few.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, mala, sample
        >>> from sgmc_jax.pictures import plot_trace
        >>> kernel = mala(Minibatch(FunctionModel(lambda x: -0.5 * x["mu"] @ x["mu"]), Full()), 1.0)
        >>> start = {"mu": jnp.zeros(2)}
        >>> run = sample(jax.random.key(0), kernel, start, None, num_steps=50, num_chains=4)
        >>> axes = plot_trace(run, ["mu[1]"])
        >>> axes.shape, axes[0, 0].get_xlabel(), len(axes[0, 1].lines)
        ((1, 2), 'mu[1]', 4)
    """
    if not isinstance(run, Run):
        raise TypeError(f"run must be what sample returns, got {type(run).__name__}")
    if isinstance(run.trace, Moments):
        raise ValueError("plot_trace needs draws, but this run kept moments only")
    if run.unconstrained and model is None:
        warnings.warn(
            "plot_trace: draws are unconstrained numbers behind the model's parameters: "
            "plot_trace(run, model=model) draws the parameters",
            stacklevel=2,
        )
    chosen = _chosen(scalars(run.reported(model)), names)
    places = _axes.several(axes, 2 * len(chosen), 2, (4.5, 1.9)).reshape(-1, 2)
    for (left, right), (name, draws) in zip(places, chosen.items(), strict=True):
        draws = draws.astype(int) if draws.dtype == bool else draws
        _marginal(left, draws)
        for i, own in enumerate(draws):
            right.plot(own, color=f"C{i}", linewidth=0.6, alpha=0.8)
        left.set(xlabel=name, ylabel="density", yticks=[])
        right.set(xlabel="draw", ylabel=name)
    _axes.legend(places[0, 0], len(next(iter(chosen.values()))))
    return places


def _chosen(every: dict[str, np.ndarray], names: Any) -> dict[str, np.ndarray]:
    """The scalars of these names, (chain, draw)."""
    if not sum(x.size for x in every.values()):
        raise ValueError("run must have draws to be drawn, got none")
    if names is None:
        return dict(islice(every.items(), _FIRST))
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"names must be those of run.summary(), got {_checks.shown(names)}")
    found = {}
    for name in names:
        some = {key: x for key, x in every.items() if key == name or key.startswith(f"{name}[")}
        if not some:
            known = _checks.shown(list(every))
            raise ValueError(f"names must be some of {known}, got {name!r}")
        found |= some
    if not found:
        raise ValueError("names must be one or more, got none")
    return found


def _marginal(ax: Any, draws: Shaped[np.ndarray, "chain draw"]) -> None:
    """A histogram of each chain's finite draws, all with the same bins."""
    finite = draws[np.isfinite(draws)]
    if not finite.size:
        return
    whole, span = np.issubdtype(finite.dtype, np.integer), float(finite.max()) - finite.min() + 1
    few = whole and span <= _VALUES
    edges = np.arange(span + 1) + finite.min() - 0.5 if few else _edges(finite.astype(float))
    for i, own in enumerate(draws):
        own = own[np.isfinite(own)].astype(float)
        ax.hist(
            own, edges, density=own.size > 0, histtype="step", color=f"C{i}", label=f"chain {i}"
        )


def _edges(x: np.ndarray) -> np.ndarray:
    least, most = x.min(), x.max()
    if most - least > 1e-13 * max(abs(least), abs(most)):
        return np.histogram_bin_edges(x, _BINS)
    # of numbers that are one but for roundings no bins can be told apart
    return np.histogram_bin_edges(x, _BINS, range=(least - 0.5, most + 0.5))
