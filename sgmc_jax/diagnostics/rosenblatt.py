"""Distance of draws from a Dirichlet, by the Rosenblatt transform."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from .. import _checks


def rosenblatt_ks(draws: Any, alpha: Any, *, log: bool = False) -> Any:
    """The Kolmogorov-Smirnov distance of draws from a Dirichlet, averaged over its conditionals.

    If w ~ Dirichlet(alpha), then `y_k = w_k / sum_{l>=k} w_l` and its distribution function
    `u_k = I_{y_k}(alpha_k, sum_{l>k} alpha_l)`, k = 1, ..., d - 1, are independent, and u_k
    uniform. The distance is that of the draws of u_k from uniform, averaged over k. For M
    independent exact draws its mean is about .8687 / sqrt(M).

    Args:
        draws: points of the simplex, or gammas that are to be divided by their sum, of shape
            (..., M, d); M >= 1 draws.
        alpha: the parameter of the Dirichlet, positive, of shape (d,), d >= 2.
        log: the draws are logarithms, as the positions of `scir` are: in float32 the components of
            a sparse Dirichlet underflow.

    Returns:
        distances, of shape (...); a number for one set of draws. NaN where a draw is.

    Raises:
        ValueError: if shapes do not agree, or `alpha` or a draw is out of its range.

    Example:
        >>> import numpy as np
        >>> alpha = np.array([2.0, 0.1, 0.1])
        >>> exact = np.random.default_rng(0).dirichlet(alpha, 1000)
        >>> bool(rosenblatt_ks(exact, alpha) < 0.05), bool(rosenblatt_ks(exact, alpha + 0.1) > 0.2)
        (True, True)

    Reference:
        Rosenblatt (1952), Remarks on a multivariate transformation; Baker, Fearnhead, Fox and
        Nemeth (2018), appendix E.2, who average over d: the last conditional is degenerate. On the
        host, in double precision.
    """
    _checks.truth("log", log)
    alpha, draws = _checks.doubles("alpha", alpha), _checks.doubles("draws", draws)
    if alpha.ndim != 1 or alpha.size < 2 or not np.all((alpha > 0) & np.isfinite(alpha)):
        shown = _checks.shown(alpha)
        raise ValueError(f"alpha must be a vector of two or more positive numbers, got {shown}")
    if draws.ndim < 2 or draws.shape[-1] != alpha.size or draws.shape[-2] == 0:
        raise ValueError(f"draws must have the shape (..., M, {alpha.size}), got {draws.shape}")
    if not log and np.any(draws < 0):
        raise ValueError(f"draws must not be negative, got {draws.min()}; are they logarithms?")
    if not log and np.any(np.all(draws[..., -2:] == 0, axis=-1)):
        raise ValueError(
            "draws must not have several last components of 0, whose shares are not known: give "
            "logarithms, with log=True"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        log_draws = draws if log else np.log(draws)
        tails = np.logaddexp.accumulate(log_draws[..., ::-1], axis=-1)[..., ::-1]
        log_y, log_rest = (x - tails[..., :-1] for x in (log_draws[..., :-1], tails[..., 1:]))
    after = np.cumsum(alpha[::-1])[::-1][1:]
    # by the smaller of y and 1 - y: one that is near 1 is rounded to it
    low = special.betainc(alpha[:-1], after, np.exp(np.minimum(log_y, 0)))
    high = special.betaincc(after, alpha[:-1], np.exp(np.minimum(log_rest, 0)))
    u = np.sort(np.where(log_y < log_rest, low, high), axis=-2)
    rank = np.arange(1, u.shape[-2] + 1)[:, None] / u.shape[-2]
    distance = np.maximum(rank - u, u - rank + rank[0]).max(axis=-2)
    return distance.mean(axis=-1)[()]
