"""What priors are made of where none are known: the place and the spread of all items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Real
from scipy.optimize import root_scalar
from scipy.special import digamma, xlogy

from .. import _checks
from .._frames import without_frames
from ._inputs import check_rows

_SMALLEST, _LARGEST = 1e-6, 1e6  # concentrations that are thought of


class Spread(NamedTuple):
    """The mean of all items, their covariance matrix, and a cluster's share of that."""

    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]
    share: float


def spread(data: Any, clusters: Any) -> Spread:
    """The mean and covariance of the items, and the share K^(-2 / D) of K clusters.

    Ellipsoids of the covariance S K^(-2 / D) have a K-th of the volume of that of S. Of N items S
    is (N C + D diag(C)) / (N + D), C the sample covariance, which is never singular.

    Raises:
        ValueError: if a column is constant, or the data are no finite rows.
    """
    _checks.positive("clusters", clusters)
    rows = items_of(data)
    num, dim = rows.shape
    centred = rows - rows.mean(0)
    sample = centred.T @ centred / num
    # a mean is rounded: the variance of a constant need not be 0
    alike = (np.ptp(rows, axis=0) == 0) | ~(np.diag(sample) > 0)
    if num < 2 or np.any(alike):
        still = [] if num < 2 else np.flatnonzero(alike).tolist()
        raise ValueError(
            "data must vary in every column, to make a prior from, got "
            + (f"constant columns {still}" if still else f"{num} items")
        )
    shrunk = (num * sample + dim * np.diag(np.diag(sample))) / (num + dim)
    return Spread(rows.mean(0), shrunk, float(clusters) ** (-2 / dim))


def items_of(data: Any) -> Float[np.ndarray, "n d"]:
    """Rows in double precision, of arrays or a frame."""
    rows = _checks.doubles("data", without_frames("data", data))
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"data must be of shape (n, d), got shape {np.shape(data)}")
    check_rows(rows, rows.shape[1])
    return rows


def shared_concentration(counts: Real[np.ndarray, " v"], number: float) -> float:
    """The symmetric concentration under which a cluster is as varied as a K-th of all words.

    `counts` are those of the categories; the root of
    digamma(V eta + 1) - digamma(eta + 1) = max(H - log K, H / 2), H the entropy of all.
    """
    share = counts / max(counts.sum(), 1)
    entropy = -np.sum(xlogy(share, share))
    if not entropy > 0:
        raise ValueError("data must have items of several categories, to make a prior from")
    wanted = max(entropy - np.log(number), entropy / 2)
    log_gap = lambda t: _mean_entropy(np.exp(t), len(counts)) - wanted
    low, high = np.log([_SMALLEST, _LARGEST])
    # there is no root if words are all alike and not shared, or few of a vast vocabulary
    if log_gap(low) >= 0 or log_gap(high) <= 0:
        return float(np.exp(low if log_gap(low) >= 0 else high))
    return float(np.exp(root_scalar(log_gap, bracket=(low, high)).root))


def _mean_entropy(concentration: float, size: int) -> float:
    """The mean of -sum_v p_v log p_v under a symmetric Dirichlet law."""
    return digamma(size * concentration + 1) - digamma(concentration + 1)
