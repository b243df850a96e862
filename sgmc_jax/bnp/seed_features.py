"""A start for feature samplers: the best of several chains on a few of the items."""

from __future__ import annotations

from typing import Any

from jaxtyping import PyTree

from .. import _checks
from .._frames import without_frames
from ..collective import Dist
from ..families import FeatureFamily
from ..processes import FeatureProcess
from .collapsed_features import collapsed_features
from .hybrid.seeds import seeds


def seed_features(
    key: Any,
    process: FeatureProcess,
    family: FeatureFamily,
    data: PyTree,
    *,
    num_items: int = 100,
    num_chains: int = 16,
    num_steps: int = 150,
    capacity: int = 16,
) -> Dist:
    """Features of a few items, a start for `hybrid_features` on all of them.

    A feature is born in one item and has then to spread, which with N items takes forever: a step
    of P blocks proposes about `mass * concentration` / P births, and the first features to spread
    are often sums or parts of others, which a large N then holds in place. On n << N items neither
    is so. Some chains of `collapsed_features` are run on a random subset, and of their last states

        the one with the largest log p(Z) + log p(X | Z), factorials of entries apart,

    is the start: its features for the subset, and none for all other items. (Of a family whose
    parameters are part of the chain log p(X | Z, theta) takes the place, less log(n) / 2 for each
    number of theta, in the manner of Schwarz.) From there the first few steps of `hybrid_features`
    give the features to all items.

    It is a start only and no draw of anything. What it costs does not depend on N.

    Args:
        key: a random key.
        process, family: as for `hybrid_features`.
        data: all items.
        num_items: n, of the subset.
        num_chains, num_steps: of the chains on it.
        capacity: the most features that a chain may have.

    Returns:
        a position for `hybrid_features`, with at least as many slots.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian
        >>> X = jnp.tile(jnp.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]), (50, 1))
        >>> process, family = BetaBernoulli(1.0), LinearGaussian(2, 0.3, 3.0)
        >>> start = seed_features(
        ...     jax.random.key(0), process, family, X, num_items=20, num_steps=20, capacity=4
        ... )
        >>> start.local["features"].shape
        (150, 4)
    """
    _checks.random_key(key)
    numbers = {"num_items": num_items, "num_chains": num_chains, "num_steps": num_steps}
    for name, value in (numbers | {"capacity": capacity}).items():
        _checks.whole(name, value)
    data = without_frames("data", data)
    # in one block features are born in any item, and nothing is instantiated to hold them back
    kernel = collapsed_features(process, family, capacity=capacity)
    kernel.check(None, data)
    return seeds(key, kernel, data, **numbers)
