"""Which features items share, and the draw that says so best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from ._draws import checked_rows, feature_draws

_ROWS = 512  # at once
_COLUMNS = 256  # of several draws, or their products would be slower
_TIE = 1e-9  # of the largest square: what is less is rounding


class RepresentativeDraw(NamedTuple):
    """A draw of features.

    Attributes:
        index: which draw it is, (draw,) or (chain, draw): `trace.shared["parameters"][index]` are
            its parameters.
        features: its entries, (n, K).
        distance: how far what it says of two items is from the mean over draws, root mean square.

    Example: two draws, alike but for the names.
        >>> from sgmc_jax.bnp import representative_draw
        >>> found = representative_draw([[[1, 0], [1, 0]], [[0, 1], [0, 1]]])
        >>> found.index, round(found.distance, 3)
        ((0,), 0.0)
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
    n, all_rows = draws.shape[1], rows is None
    rows = np.arange(n) if all_rows else checked_rows(rows, n)
    total = np.zeros((len(rows), n), np.float32)
    blocks = [slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS)]
    for some in _together(map(_in_use, draws)):
        entries = np.concatenate(some, axis=1)
        for block in blocks:
            first = block.start if all_rows else 0  # what is left of the diagonal is known
            total[block, first:] += entries[rows[block]] @ entries[first:].T
    for block in blocks if all_rows else ():
        total[block.start :, block] = total[block, block.start :].T
    total /= len(draws)
    return total


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
    inner = np.concatenate([_inner_products(some, every) for some in _together(every)])
    # the last term is the same for all draws: it makes of the order a distance
    squares = np.diag(inner) - 2 * inner.mean(axis=1) + inner.mean()
    best = int(np.argmax(squares <= squares.min() + _TIE * inner.max()))
    index = tuple(int(i) for i in np.unravel_index(best, lead))
    distance = float(np.sqrt(max(squares[best], 0)) / draws.shape[1])
    return RepresentativeDraw(index, draws[best], distance)


def _in_use(draw: Shaped[np.ndarray, "n K"]) -> Float[np.ndarray, "n k"]:
    """The features that an item has."""
    return draw[:, draw.any(axis=0)].astype(np.float32)


def _together(every: Iterable[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Draws in groups of some hundred features, or of many draws with few."""
    some: list[np.ndarray] = []
    for entries in every:
        some.append(entries)
        if len(some) == _COLUMNS or sum(x.shape[1] for x in some) >= _COLUMNS:
            yield some
            some = []
    if some:
        yield some


def _inner_products(
    some: list[np.ndarray], every: list[np.ndarray]
) -> Float[np.ndarray, "some draws"]:
    """<Z_d Z_d', Z_e Z_e'> = |Z_d' Z_e|^2 of some draws d and all draws e."""
    # products are whole numbers, exact in float32 up to 2^24; their squares need more
    own = np.concatenate(some, axis=1).T
    columns = [
        _summed(np.square((own @ np.concatenate(others, axis=1)).astype(float)), others, 1)
        for others in _together(every)
    ]
    return _summed(np.concatenate(columns, axis=1), some, 0)


def _summed(x: np.ndarray, draws: list[np.ndarray], axis: int) -> np.ndarray:
    """Sums over the features of each draw, along an axis of all of theirs."""
    ends = np.cumsum([0, *(entries.shape[1] for entries in draws)])
    sums = np.insert(np.cumsum(x, axis), 0, 0, axis)
    return np.diff(np.take(sums, ends, axis), axis=axis)
