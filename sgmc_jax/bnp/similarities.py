"""How often items share a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, UInt

from ._draws import checked_rows, label_draws

_ROWS = 64  # at once, so that their counts stay in the cache
_MOST = 255  # draws whose agreements a byte can count


def similarity(labels: Any, rows: Any = None, *, size: Any = None) -> Float[np.ndarray, "m n"]:
    """The posterior probability that two items share a cluster.

        S_ij = E 1{z_i = z_j}

    the mean being over all draws. It does not depend on how clusters are labelled, and its entries
    may be averaged over chains. Costs a comparison of bytes for each pair and draw, and no memory
    besides that of the result: for many items ask for some `rows`.

    Args:
        labels: draws of labels, (draw, n) or (chain, draw, n), whole numbers, such as
            `run.trace.local["assignment"]`; or draws of a position that has them, `run.trace`. Of
            items in groups, as of `hybrid_hdp`, (draw, S, L) or (chain, draw, S, L).
        rows: the items i whose rows are wanted, (m,); by default all n.
        size: of labels of items in groups, the size of each group, (S,), or the `Groups`. The items
            are then those of all groups, one group after the other, without what lies past a
            group's size.

    Returns:
        S, (m, n) in float32.

    Raises:
        TypeError: unless labels and rows are whole numbers.
        ValueError: if the labels have no leading axis of draws, a row is no item's, or the size
            does not fit.

    Example:
        >>> from sgmc_jax.bnp import similarity
        >>> similarity([[0, 0, 1], [4, 4, 4]]).tolist()
        [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
        >>> similarity([[0, 0, 1], [4, 4, 4]], rows=[2]).tolist()
        [[0.5, 0.5, 1.0]]
        >>> similarity([[[0, 0], [4, 0]]], size=[2, 1]).tolist()
        [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Reference:
        Binder (1978), Bayesian cluster analysis.
    """
    draws = label_draws(labels, size)
    draws = draws.astype(np.min_scalar_type(draws.max()))
    num_draws, n = draws.shape
    if rows is not None:
        rows = checked_rows(rows, n)
    size = n if rows is None else len(rows)
    counts = np.empty((size, n), np.float32)
    for start in range(0, size, _ROWS):
        block = slice(start, start + _ROWS)
        if rows is None:  # what is left of the diagonal is known
            counts[block, start:] = _agreements(draws[:, block], draws[:, start:])
            counts[start:, block] = counts[block, start:].T
        else:
            counts[block] = _agreements(draws[:, rows[block]], draws)
    counts /= num_draws
    return counts


def _agreements(
    some: UInt[np.ndarray, "draws m"], others: UInt[np.ndarray, "draws n"]
) -> Float[np.ndarray, "m n"]:
    """The number of draws in which the labels of two items are the same."""
    shape = some.shape[1], others.shape[1]
    total, same = np.zeros(shape, np.float32), np.empty(shape, bool)
    for start in range(0, len(some), _MOST):
        part = np.zeros(shape, np.uint8)
        for x, y in zip(some[start : start + _MOST], others[start : start + _MOST]):
            np.equal(x[:, None], y, out=same)
            part += same.view(np.uint8)
        total += part
    return total
