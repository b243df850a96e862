"""Starting partitions from the data alone: k-means++ seeds, and Lloyd's rounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import _checks
from .._frames import without_frames
from ..arrays import Tiles, columns_by_chunks, product, real_array, squared_distances
from ..collective import Collective, leading_axis


def kmeans_plus_plus(
    key: Any, data: PyTree, num_clusters: int, *, rounds: int = 5, candidates: int = 4
) -> Int[Array, " n"]:
    """Labels by k-means++ seeding and a few rounds of Lloyd's, a start for mixture samplers.

    The first centre is an item drawn uniformly. Each further one is the best of a few items drawn
    with probabilities proportional to the squared distance to the nearest centre so far, that is
    the one that lowers their sum most. Then `rounds` times every item joins its nearest centre and
    every centre moves to the mean of its items (a centre without items stays).

    A start need not be a draw from anything: it only saves burn-in, above all in many dimensions,
    where a sampler that begins with one cluster may not leave it. Choose `num_clusters` rather too
    large: sweeps of single items merge clusters more easily than they split them (`split_merge`
    the other way round: begin with one). It is jit-able, and costs about
    `num_clusters (candidates + rounds) n D` multiplications.

    Args:
        key: a random key.
        data: (n, D) items, or any array with a leading item axis; compared by Euclidean distance.
        num_clusters: K, the number of centres, static.
        rounds: of Lloyd's, static; 0 for the seeding alone.
        candidates: for each centre, static.

    Returns:
        (n,) int32 labels below K. Not every label need be in use.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> X = jnp.concatenate([jnp.full((10, 2), -5.0), jnp.full((10, 2), 5.0)])
        >>> labels = kmeans_plus_plus(jax.random.key(0), X, 2)
        >>> sorted(jnp.bincount(labels).tolist())
        [10, 10]

    Reference:
        Arthur and Vassilvitskii (2007), k-means++: the advantages of careful seeding, with several
        candidates a centre as in their section 5 (there called greedy).
    """
    _checks.whole("num_clusters", num_clusters)
    _checks.whole("rounds", rounds, 0)
    _checks.whole("candidates", candidates)
    _checks.random_key(key)
    data = without_frames("data", data)
    _checks.arrays("data", data)
    _checks.some_items(leading_axis(data))
    _checks.finite("data", data)
    x = as_points(data)
    x = x - jnp.mean(x, axis=0)  # distances by matrix products cancel far from the origin
    centres = _seeds(key, x, num_clusters, candidates)

    def lloyd(_: Any, centres: Array) -> Array:
        tiles = Tiles.of(nearest(x, centres).label, num_clusters)
        own = jnp.where(tiles.real[:, :, None], tiles.take(x), 0)
        count = tiles.sum(tiles.real.sum(axis=1).astype(x.dtype))[:, None]
        return jnp.where(count > 0, tiles.sum(own.sum(axis=1)) / jnp.maximum(count, 1), centres)

    return nearest(x, jax.lax.fori_loop(0, rounds, lloyd, centres)).label


def as_points(items: PyTree) -> Float[Array, "n D"]:
    """Items as rows of real numbers, for distances."""
    leaves = [real_array(x) for x in jax.tree.leaves(items)]
    return jnp.concatenate([x.reshape(x.shape[0], -1) for x in leaves], axis=1)


class Nearest(NamedTuple):
    """The nearest of several centres to each point, and the squared distance."""

    label: Int[Array, " n"]
    distance: Float[Array, " n"]


def nearest(points: Float[Array, "n D"], centres: Float[Array, "k D"]) -> Nearest:
    """The nearest centre of every point, a matrix product a chunk of points."""
    num = centres.shape[0]

    def chunk(x: Array) -> Array:
        squares = squared_distances(centres, x)
        label = jnp.argmin(squares, axis=0).astype(x.dtype)
        return jnp.stack([label, jnp.min(squares, axis=0)])

    label, distance = columns_by_chunks(chunk, points, 2, num)
    return Nearest(label.astype(jnp.int32), distance)


def _seeds(key: Any, x: Float[Array, "n D"], num: int, candidates: int) -> Float[Array, "k D"]:
    """The centres of k-means++, several candidates each."""
    first_key, key = jax.random.split(key)
    n = x.shape[0]
    first = x[jax.random.randint(first_key, (), 0, n)]

    def add(k: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        centres, distance = carry
        cumulative = jnp.cumsum(distance)
        goal = jax.random.uniform(jax.random.fold_in(key, k), (candidates,), x.dtype)
        # by inversion: an item at a centre has distance 0 and is passed over
        tried = jnp.searchsorted(cumulative, goal * cumulative[-1], side="right")
        # where all distances are 0 no index is found, and any will do
        tried = x[jnp.minimum(tried, n - 1)]
        lowered = jnp.minimum(
            columns_by_chunks(lambda x: squared_distances(tried, x), x, candidates, candidates),
            distance,
        )
        best = jnp.argmin(jnp.sum(lowered, axis=1))
        return centres.at[k].set(tried[best]), lowered[best]

    centres = jnp.zeros((num, x.shape[1]), x.dtype).at[0].set(first)
    distance = squared_distances(first[None], x)[0]
    return jax.lax.fori_loop(1, num, add, (centres, distance))[0]


def two_means(
    tiles: Tiles,
    points: Float[Array, "tiles size D"],
    centres: Float[Array, "groups 2 D"],
    rounds: int,
    comm: Collective,
) -> Bool[Array, "tiles size"]:
    """Each group's points in two by Lloyd's rounds from given centres: True for the second.

    A function of the groups and centres alone. The groups are the labels of the tiles, and the
    same on all shards.

    Args:
        tiles: the points sorted by group.
        points: the points by tile.
        centres: two of each group.
        rounds: how many.
        comm: the shards.
    """
    # padding is at 0, on no side, and in no sum
    points = jnp.where(tiles.real[:, :, None], points, 0)

    def side(centres: Array) -> Array:
        first, second = tiles.own(centres[:, 0]), tiles.own(centres[:, 1])
        # nearer to the second centre b than to a: x . (b - a) > (|b|^2 - |a|^2) / 2
        margin = jnp.sum((second - first) * (second + first), axis=1)[:, None] / 2
        return (product(points, (second - first)[:, :, None])[..., 0] > margin) & tiles.real

    def sums(chosen: Array) -> tuple[Array, Array]:
        weights = chosen.astype(points.dtype)
        parts = (product(weights[:, None, :], points)[:, 0], weights.sum(axis=1))
        total, count = comm.sum(tiles.sum(parts))
        return total, count[:, None]

    # the first side's sums are what the second's leave of these
    all_total, all_count = sums(tiles.real)

    def lloyd(_: Any, centres: Array) -> Array:
        total, count = sums(side(centres))
        totals = jnp.stack([all_total - total, total], axis=1)
        counts = jnp.stack([all_count - count, count], axis=1)
        return jnp.where(counts > 0, totals / jnp.maximum(counts, 1), centres)

    return side(jax.lax.fori_loop(0, rounds, lloyd, centres))
