"""What the chains of the samplers of items begin with: labels, features, hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, Shaped

from .. import _checks
from .._compiler import quick_jit
from .._returned import describe
from ..collective import Dist, Shard, as_shard, leading_axis
from ..families import Family
from ..processes import PitmanYor, Process
from .groups import Groups, check_groups
from .seeding import kmeans_plus_plus

Starter = Callable[[Any], Dist]

_MANY = 200  # items that no longer leave their cluster one by one
_MOST = 20  # clusters to begin with
_BOUNDED = frozenset({"discount"})  # the hyper-parameters in [0, 1)
_kmeans = quick_jit(kmeans_plus_plus)


def start_position(process: Process, position: Any, num_items: int) -> Dist:
    """The position a mixture's chain begins with: given whole, as labels, or one cluster."""
    hyper, labels = process.start(), position
    if position is None:
        labels = jnp.zeros(num_items, jnp.int32)
    elif isinstance(position, Dist):
        hyper, labels = hyper | position.shared, local_part(position, "assignment")
        # a position's numbers count only where they are random
        hyper = pinned(hyper, process)
    labels = jnp.asarray(labels, jnp.int32)
    if labels.shape != (num_items,):
        raise ValueError(
            f"position must have a label for each of {num_items} items, as Dist({{}}, "
            f'{{"assignment": labels}}) where they are on shards: got the shape {labels.shape}'
        )
    return Dist(hyper, {"assignment": labels})


def check_start(
    family: Family, capacity: int, position: Any, data: PyTree, *, marginals: bool = False
) -> None:
    """Raise unless the items suit the family, or its marginals, and given labels the slots."""
    # the whole has been checked before it was split
    if isinstance(data, Shard):
        return
    family.check(data)
    if marginals:
        family.check_marginals(data)
    check_labels(position, as_shard(data).capacity, capacity)


def start_of_points(data: PyTree, capacity: int) -> Starter | None:
    """Of many points the clusters of `kmeans_plus_plus`, rather too many than too few."""
    if leading_axis(data) < _MANY:
        return None
    return lambda key: Dist({}, {"assignment": _kmeans(key, data, _clusters(capacity))})


def start_of_groups(data: Groups, capacity: int) -> Starter | None:
    """Of many grouped items each in one of several clusters, at random."""
    shape = jax.tree.leaves(data.items)[0].shape[:2]
    # the sizes may be on several processes
    if float(jnp.sum(jnp.asarray(data.size), dtype=float)) < _MANY:
        return None
    return lambda key: random_labels(key, shape, _clusters(capacity))


def random_labels(key: Any, shape: tuple[int, ...], number: int) -> Dist:
    """Each item in one of some clusters at random."""
    return Dist({}, {"assignment": jax.random.randint(key, shape, 0, number, jnp.int32)})


def pinned(hyper: dict[str, Any], *parts: Any) -> dict[str, Any]:
    """Hyper-parameters, of which those without a prior are the parts' own.

    A position may come from elsewhere, and inside `gibbs` the parts are new ones in every step.
    """
    for part in parts:
        own = part.start()
        for name, prior in part.priors.items():
            # in the dtype of a number that is given, unless that is whole, which would cut it off,
            # or of half precision, in which what is computed with it would be
            dtype = jnp.promote_types(jnp.result_type(hyper[name], float), jnp.float32)
            value = own[name] if prior is None else hyper[name]
            hyper = hyper | {name: jnp.asarray(value, dtype)}
    return hyper


def with_own_hyper(state: Any, *parts: Any) -> Any:
    """The state with `pinned` hyper-parameters in its position."""
    hyper, local = state.position
    return state._replace(position=Dist(pinned(hyper, *parts), local))


def check_hyper(position: Any, *parts: Any) -> None:
    """Raise if what has a prior begins where that has no density, for there it would stay."""
    given = position.shared if isinstance(position, Dist) else {}
    shared = given if isinstance(given, Mapping) else {}
    for part in parts:
        for name, prior in part.priors.items():
            if prior is not None and name in shared:
                where, value = f"position.shared[{name!r}]", shared[name]
                bounded = name in _BOUNDED
                # a chain leaves a discount of 0, and does not return
                _checks.positive(where, value, zero=bounded)
                if bounded and _checks.certainly(lambda d: d >= 1, value):
                    raise ValueError(f"{where} must be below 1, got {_checks.shown(value)}")


def check_parts(process: Any, family: Any, kinds: tuple[type, type] = (PitmanYor, Family)) -> None:
    """Raise unless a sampler's process and family are of these types."""
    for name, value, kind in [("process", process, kinds[0]), ("family", family, kinds[1])]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")


def local_part(position: Any, name: str) -> Any:
    """What a position says of the items: that leaf of a `Dist`, or an array as it is."""
    if not isinstance(position, Dist):
        return position
    if not isinstance(position.local, dict) or name not in position.local:
        raise ValueError(
            f'position must be Dist({{}}, {{"{name}": array}}), or that array, got '
            f"Dist with local {describe(position.local)}"
        )
    return position.local[name]


def whole_rows(name: str, value: Any, num_items: int, ndim: int) -> np.ndarray | None:
    """A start's whole numbers, one row an item, if concrete; raise if they are none."""
    if isinstance(value, tuple | list | dict):
        raise TypeError(f"position must have {name} as one array, got {_checks.shown(value)}")
    shape = jnp.shape(value)
    if len(shape) != ndim or shape[0] != num_items:
        wanted = f"({num_items},)" if ndim == 1 else f"({num_items}, ...), of {ndim} axes"
        raise ValueError(
            f"position must have {name} for each of {num_items} items, of shape {wanted}, got "
            f"shape {shape}"
        )
    if not _checks.is_concrete(value):
        return None
    value = np.asarray(value)
    if value.dtype.kind not in "buif" or not np.array_equal(value, np.floor(value)):
        raise ValueError(f"position must have {name} in whole numbers, got {value.dtype}")
    return value


def start_features(
    position: Any, num_items: int, dtype: Any, capacity: int
) -> Shaped[Array, "n K"]:
    """The features that a chain begins with, one that all items have if none are given."""
    features = jnp.ones((num_items, 1))
    if position is not None:
        features = jnp.asarray(local_part(position, "features"))
    if features.shape[0] != num_items:
        raise ValueError(
            f"position must have a row for each of {num_items} items, as Dist({{}}, "
            f'{{"features": features}}) where they are on shards: got the shape {features.shape}'
        )
    # a column of zeros is a free slot
    return jnp.pad(features.astype(dtype), ((0, 0), (0, capacity - features.shape[1])))


def check_features(process: Any, capacity: int, position: Any, num_items: int) -> None:
    """Raise unless given features are entries of the process, and fit the slots."""
    if position is None:
        return
    features = local_part(position, "features")
    entries = whole_rows("features", features, num_items, 2)
    if jnp.shape(features)[1] > capacity:
        raise ValueError(
            f"position must have features of at most {capacity} columns, the capacity, got shape "
            f"{jnp.shape(features)}"
        )
    most = process.largest
    if entries is not None and np.any((entries < 0) | (entries > most)):
        raise ValueError(
            f"position must have features from 0 to {most}, the entries of the process, got "
            f"{entries.min()} to {entries.max()}"
        )


def check_labels(position: Any, num_items: int, capacity: int) -> None:
    """Raise unless given labels are whole numbers below the capacity, one an item."""
    labels = None if position is None else local_part(position, "assignment")
    if labels is None:
        return
    labels = np.asarray(labels) if isinstance(labels, list) else labels
    labels = whole_rows("a label", labels, num_items, 1)
    if labels is not None:
        _check_slots(labels, capacity)


def check_group_labels(position: Any, present: np.ndarray, capacity: int) -> None:
    """The same for grouped items, of which some are `present`, the others padding."""
    labels = None if position is None else local_part(position, "assignment")
    if labels is None or not _checks.is_concrete(labels):
        return
    _checks.number("position", labels)
    if jnp.shape(labels) != present.shape:
        raise ValueError(
            f"position must have a label for each item, of shape {present.shape}, got shape "
            f"{jnp.shape(labels)}"
        )
    # past a group's size anything may stand
    labels = np.asarray(labels)[present]
    if labels.dtype.kind not in "buif" or not np.array_equal(labels, np.floor(labels)):
        raise ValueError(f"position must have a label in whole numbers, got {labels.dtype}")
    _check_slots(labels, capacity)


def check_slots_fit(position: Any, name: str, axis: int, capacity: int) -> None:
    """Raise if a part of what a position shares has more slots than the kernel."""
    part = position.shared.get(name) if isinstance(position, Dist) else None
    for leaf in jax.tree.leaves(part):
        if jnp.ndim(leaf) > axis and jnp.shape(leaf)[axis] > capacity:
            raise ValueError(
                f"position must have at most {capacity} slots, the capacity, got "
                f"{jnp.shape(leaf)[axis]} in {name!r}: give the kernel a capacity as large"
            )


def check_group_start(family: Family, capacity: int, position: Any, data: PyTree) -> None:
    """Raise unless grouped items suit the family, and given labels the slots."""
    if isinstance(data, Shard):
        return
    check_groups(data)
    if _checks.is_concrete(data.size):
        width = jax.tree.leaves(data.items)[0].shape[1]
        present = np.arange(width) < np.asarray(data.size)[:, None]
        family.check(jax.tree.map(lambda x: np.asarray(x)[present], data.items))
        check_group_labels(position, present, capacity)


def _clusters(capacity: int) -> int:
    """How many to begin with: an eighth of the slots is left for births, and 20 are enough."""
    return min(capacity - capacity // 8, _MOST)


def _check_slots(labels: np.ndarray, capacity: int) -> None:
    if np.any((labels < 0) | (labels >= capacity)):
        raise ValueError(
            f"position must have labels from 0 to {capacity - 1}, those of the capacity's slots, "
            f"got {labels.min()} to {labels.max()}"
        )
