"""What draws tell that does not depend on how clusters and features are numbered."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Shaped

from ..collective import Dist
from ._draws import leading_axes, present

Traces = dict[str, np.ndarray]


def traces(positions: Dist, *, size: Any = None) -> Traces:
    """Scalars of each draw that chains have in common, whatever they call their clusters.

    A slot has another cluster, feature or topic in each chain, and after a while in each draw, so
    that its mean, its R-hat and its effective sample size mean nothing. These scalars have no such
    names: of labels, with shares p_k of the items,

        active = #{k : p_k > 0},   largest = max_k p_k,   entropy = -sum_k p_k log p_k,

    of features

        active = #{k : sum_i z_ik > 0},   entries = sum_ik z_ik,

    and the scalars of the position, such as `concentration`, `discount`, `mass` and `noise_scale`.

    Args:
        positions: draws, `run.trace`, with the leading axes (draw,) or (chain, draw).
        size: of labels of items in groups, as of `hybrid_hdp`, the size of each group, (S,), or the
            `Groups`.

    Returns:
        arrays with the leading axes, by name: for `rhat`, `ess` and, as
        `run.to_arviz(label_free=traces(run.trace))`, for ArviZ.

    Raises:
        TypeError: unless these are draws of labels or features.
        ValueError: if labels of items in groups lack a size, or it does not fit.

    Example:
        >>> import numpy as np
        >>> from sgmc_jax.bnp import traces
        >>> from sgmc_jax.collective import Dist
        >>> draws = Dist({"concentration": np.ones(2)}, {"assignment": np.array([[5, 5], [0, 1]])})
        >>> made = traces(draws)
        >>> list(made), made["active"].tolist(), made["entropy"].tolist()
        (['active', 'largest', 'entropy', 'concentration'], [1, 2], [0.0, 0.69315])
    """
    if not isinstance(positions, Dist):
        raise TypeError(
            f"positions must be Dist(shared, local), such as run.trace, got {type(positions)}"
        )
    local = positions.local if isinstance(positions.local, dict) else {}
    if "features" in local:
        num_axes = np.ndim(local["features"]) - 2
    elif "assignment" in local:
        num_axes = _axes_of_draws(positions, np.ndim(local["assignment"]), size is not None)
    else:
        raise TypeError(f"positions must have labels or features of items, got {list(local)}")
    made = label_free(local, num_axes, size)
    if not made:
        raise TypeError("positions must have labels or features of an item, whole numbers")
    return made | _scalars(positions.shared, num_axes)


def label_free(local: Any, num_axes: int, size: Any = None) -> Traces:
    """What labels or features of items tell, the first axes being those of draws.

    Nothing of anything else, nor of labels of items in groups without their size.
    """
    local = local if isinstance(local, dict) else {}
    entries, labels = (np.asarray(local.get(name, 0.0)) for name in ("features", "assignment"))
    # what else is called so has other axes, or real numbers
    if entries.dtype.kind in "biu" and entries.ndim == num_axes + 2:
        active = entries.any(-2).sum(-1)
        return {"active": active, "entries": entries.sum((-2, -1), dtype=np.int64)}
    if size is not None:
        labels = labels[..., present("labels", labels.shape[-2:], size)]
    if labels.dtype.kind not in "iu" or labels.ndim != num_axes + 1 or not labels.shape[-1]:
        return {}
    each = np.array([_of_labels(own) for own in labels.reshape(-1, labels.shape[-1])])
    active, largest, entropy = each.reshape(-1, 3).T.reshape(3, *labels.shape[:-1])
    return {"active": active.astype(np.int64), "largest": largest, "entropy": entropy}


def _axes_of_draws(positions: Dist, num_axes: int, grouped: bool) -> int:
    """How many axes draws of labels have before those of the items."""
    found, lead = num_axes - (2 if grouped else 1), leading_axes(positions)
    if lead is not None and lead != found:
        wanted = "left out of labels without groups" if grouped else "given with labels in groups"
        raise ValueError(
            f"size must be {wanted}: those of a draw have {num_axes - lead} axes and not "
            f"{num_axes - found}"
        )
    return found


def _of_labels(labels: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, "3"]:
    counts = np.unique(labels, return_counts=True)[1]
    share = counts / counts.sum()
    # the sum of one cluster is -0
    return np.array([len(share), share.max(), max(-np.sum(share * np.log(share)), 0.0)])


def _scalars(shared: Any, num_axes: int) -> Traces:
    """The leaves that are scalars of a draw, by their path."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(shared):
        # what has an axis more is of slots, whose names draws do not share
        if np.ndim(leaf) == num_axes:
            found[jax.tree_util.keystr(path, simple=True, separator=".")] = np.asarray(leaf)
    return found
