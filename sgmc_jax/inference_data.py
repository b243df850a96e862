"""Draws in the form and under the names of ArviZ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ._frames import without_frames
from ._types import Data, Position
from .engines import whole
from .model import Model
from .named import named

_DIVERGED = 1_000.0  # an error of the energy, in nats, as in Stan
_NAMES = {"acceptance": "acceptance_rate"}
_WITHOUT_DRAWS = ("observed_data", "constant_data", "predictions_constant_data")

Names = tuple[Mapping[str, Any] | None, Mapping[str, Sequence[str]] | None]


def to_arviz(
    trace: PyTree,
    infos: Sequence[PyTree],
    axes: tuple[str, ...],
    model: Model | None,
    data: Data,
    names: Names,
    groups: Mapping[str, Any],
) -> Any:
    """A `DataTree` of these draws and infos: see `Run.to_arviz`."""
    from_groups = _from_groups()
    if model is None and data is not None:
        raise ValueError("model must be given with data, of which it tells the log likelihood")
    posterior = named(axes, trace if model is None else model.constrain(trace))
    stats = _statistics(named(axes, *infos), 2 + ("kernel" in axes))  # after chain and draw
    made = {"posterior": posterior, "sample_stats": stats}
    for group, tree in groups.items():
        if not isinstance(tree, Mapping):
            raise TypeError(f"{group} must be a dict of arrays by name, got {type(tree).__name__}")
        leaves = {name: np.asarray(x) for name, x in tree.items()}
        made[group] = leaves if group in _WITHOUT_DRAWS else named(axes, leaves)
    if model is not None and data is not None:
        lp, items = _densities(model, trace, without_frames("data", data), len(axes))
        stats |= named(axes, {"lp": lp})
        if items is not None:
            made["log_likelihood"] = named(axes, {"items": items})
    coords, dims = names
    dims = {name: list(given) for name, given in (dims or {}).items()}
    if "kernel" not in axes:
        return from_groups(made, coords=dict(coords or {}), dims=dims)
    # a name has its dimensions in all groups, and of data it has no kernels
    apart = {group: made.pop(group) for group in _WITHOUT_DRAWS if group in made}
    kernels = {name: ["kernel", *dims.get(name, [])] for group in made.values() for name in group}
    tree = from_groups(made, coords=dict(coords or {}), dims=dims | kernels)
    if not apart:
        return tree
    return _joined(tree, from_groups(apart, coords=dict(coords or {}), dims=dims), apart)


def _joined(tree: Any, others: Any, groups: Mapping[str, Any]) -> Any:
    """A tree, or an `InferenceData`, with these groups of another."""
    if hasattr(tree, "extend"):
        tree.extend(others)
        return tree
    for group in groups:
        tree[group] = others[group]
    return tree


def _from_groups() -> Callable:
    """What makes ArviZ's form of groups: a `DataTree`, or before 1.0 its `InferenceData`."""
    try:
        from arviz_base import from_dict

        return from_dict
    except ImportError:
        pass
    try:
        arviz = import_module("arviz")
    except ImportError as error:
        raise ImportError('to_arviz needs ArviZ: pip install "sgmc_jax[arviz]"') from error
    return lambda groups, **names: arviz.from_dict(**groups, **names)


def _statistics(stats: dict[str, np.ndarray], num_axes: int) -> dict[str, np.ndarray]:
    """By ArviZ's names, with what they tell besides."""
    errors = [x for name, x in stats.items() if name.split(".")[-1] == "energy_error"]
    stats = {_renamed(name): x for name, x in stats.items()}
    if errors:
        each = [x.max(axis=tuple(range(num_axes, x.ndim))) for x in errors]
        stats["diverging"] = np.any([x > _DIVERGED for x in each], axis=0)
    return stats


def _renamed(name: str) -> str:
    *path, last = name.split(".")
    return ".".join([*path, _NAMES.get(last, last)])


def _densities(
    model: Model, trace: PyTree, data: Data, num_axes: int
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "... n"] | None]:
    """The log posterior density of each draw, and the log likelihood of each item, if it has any:
    the rows of a series are none."""
    lead = jax.tree.leaves(trace)[0].shape[:num_axes]
    flat = jax.tree.map(
        lambda x: jnp.asarray(x).reshape(math.prod(lead), *x.shape[num_axes:]), trace
    )
    lp, items = whole(_mapped(model, flat, data))
    return lp.reshape(lead), None if items is None else items.reshape(*lead, *items.shape[1:])


@eqx.filter_jit
def _mapped(
    model: Model, positions: PyTree, data: Data
) -> tuple[Float[Array, " draw"], Float[Array, "draw n"] | None]:
    def one(position: Position) -> tuple[Float[Array, ""], Float[Array, " n"] | None]:
        items = None if model.of_series else model.loglik_batch(position, data)
        return model.logdensity(position, data), items

    return jax.lax.map(one, positions)
