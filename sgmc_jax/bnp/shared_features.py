"""Which features items share, and the draw that says so best."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from ._draws import checked_rows, feature_draws

_ROWS = 512  # at once
_TIE = 1e-9  # of the largest square: what is less is rounding


class RepresentativeDraw(NamedTuple):
    """A draw of features.

    Attributes:
        index: which draw it is, (draw,) or (chain, draw): `trace.shared["parameters"][index]` are
            its parameters.
        features: its entries, (n, K).
        distance: how far what it says of two items is from the mean over draws, root mean square.
    """

    index: tuple[int, ...]
    features: Shaped[np.ndarray, "n K"]
    distance: float


def feature_similarity(features: Any, rows: Any = None) -> Float[np.ndarray, "m n"]:
    """The expected number of features that two items share.

        S_ij = E sum_k z_ik z_jk = E (Z Z')_ij

    the mean being over all draws. It does not depend on how features are numbered, nor on how many
    slots there are. Where an item may have a feature several times, each pair counts. What
    `similarity` is for labels; it has more than one number to tell of a pair, so that the diagonal,
    of an item's own features, is no 1.

    Args:
        features: draws of entries, (draw, n, K) or (chain, draw, n, K), truths or whole numbers,
            such as `run.trace.local["features"]`; or draws of a position that has them.
        rows: the items i whose rows are wanted, (m,); by default all n.

    Returns:
        S, (m, n) in float32.

    Raises:
        TypeError: unless features and rows are whole numbers.
        ValueError: if features have no leading axis of draws, or a negative entry, or a row is no
            item's.

    Example:
        >>> from sgmc_jax.bnp import feature_similarity
        >>> first, second = [[1, 0], [1, 1], [0, 0]], [[0, 1], [0, 0], [0, 0]]
        >>> feature_similarity([first, second]).tolist()
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    draws, _ = feature_draws(features)
    n = draws.shape[1]
    rows = np.arange(n) if rows is None else checked_rows(rows, n)
    total = np.zeros((len(rows), n), np.float32)
    for draw in draws:
        entries = _in_use(draw)
        for start in range(0, len(rows), _ROWS):
            block = slice(start, start + _ROWS)
            total[block] += entries[rows[block]] @ entries.T
    return total / np.float32(len(draws))


def representative_draw(features: Any) -> RepresentativeDraw:
    """The draw of features that is closest to all of them.

        argmin_d |Z_d Z_d' - S|,   S = E Z Z'

    in Frobenius' norm, S being the `feature_similarity`. It does not depend on how features are
    numbered. Neither S nor a matrix of pairs of items is made, as

        |Z_d Z_d' - S|^2 = |Z_d' Z_d|^2 - 2 mean_e |Z_d' Z_e|^2 + mean_ef |Z_e' Z_f|^2.

    Costs O(D^2 n K^2), of D draws and K features in use: a few hundred draws are enough.

    Args:
        features: draws of entries, as of `feature_similarity`.

    Returns:
        its index, its entries, and its distance, |Z_d Z_d' - S| / n. Of several, the first.

    Raises:
        TypeError, ValueError: as of `feature_similarity`.

    Example:
        >>> from sgmc_jax.bnp import representative_draw
        >>> draws = [[[1, 0], [1, 1]], [[0, 1], [1, 1]], [[0, 0], [0, 0]]]
        >>> found = representative_draw(draws)
        >>> found.index, found.features.tolist(), round(found.distance, 3)
        ((0,), [[1, 0], [1, 1]], 0.441)
    """
    draws, lead = feature_draws(features)
    every = [_in_use(draw) for draw in draws]
    joined = np.concatenate(every, axis=1)
    inner = np.array([_inner_products(own, joined, every) for own in every])
    squares = np.diag(inner) - 2 * inner.mean(axis=1) + inner.mean()
    best = int(np.argmax(squares <= squares.min() + _TIE * inner.max()))
    index = tuple(int(i) for i in np.unravel_index(best, lead))
    distance = float(np.sqrt(max(squares[best], 0)) / draws.shape[1])
    return RepresentativeDraw(index, draws[best], distance)


def _in_use(draw: Shaped[np.ndarray, "n K"]) -> Float[np.ndarray, "n k"]:
    """The features that an item has."""
    return draw[:, draw.any(axis=0)].astype(np.float32)


def _inner_products(
    own: Float[np.ndarray, "n k"], joined: Float[np.ndarray, "n all"], every: list[np.ndarray]
) -> Float[np.ndarray, " draws"]:
    """<Z Z', Z_e Z_e'> = |Z' Z_e|^2 of all draws e, whose features are `joined`."""
    squares = np.sum((own.T @ joined).astype(np.float64) ** 2, axis=0)
    ends = np.cumsum([0, *(entries.shape[1] for entries in every)])
    return np.diff(np.concatenate([[0.0], np.cumsum(squares)])[ends])
