"""A start for feature samplers: the best of several chains on a few of the items."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .. import _checks
from .._frames import without_frames
from ..collective import Dist, leading_axis
from ..families import FeatureFamily, FeatureRows
from ..processes import FeatureProcess
from ..random.feistel import random_subset
from .collapsed_features import collapsed_features
from .hybrid.kernel import HybridState


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
    of any number of blocks proposes about `mass` / P births, and the first features to spread are
    often sums or parts of others, which a large N then holds in place. On n << N items neither is
    so. Some chains of `collapsed_features` are run on a random subset, and of their last states

        the one with the largest log p(Z) + log p(X | Z)

    is the start: its features for the subset, and none for all other items. From there the first
    few steps of `hybrid_features` give the features to all items.

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
    numbers = {"num_items": num_items, "num_chains": num_chains, "num_steps": num_steps}
    for name, value in (numbers | {"capacity": capacity}).items():
        _checks.whole(name, value)
    data = without_frames("data", data)
    total = leading_axis(data)
    subset_key, run_key = jax.random.split(key)
    subset = random_subset(subset_key, min(num_items, total), total)
    items = jax.tree.map(lambda x: x[subset], data)
    kernel = collapsed_features(process, family, capacity=capacity)
    shared, local = _best(run_key, kernel, items, num_chains, num_steps).position
    features = jnp.zeros((total, capacity), local["features"].dtype)
    return Dist(shared, {"features": features.at[subset].set(local["features"])})


@eqx.filter_jit
def _best(key: Any, kernel: Any, items: PyTree, num_chains: int, num_steps: int) -> HybridState:
    """The most probable of the chains' last states."""

    def chain(key: Any) -> tuple[HybridState, Array]:
        init_key, step_key = jax.random.split(key)
        step = lambda i, state: kernel.step(jax.random.fold_in(step_key, i), state, items)[0]
        state = jax.lax.fori_loop(0, num_steps, step, kernel.init(init_key, None, items))
        return state, _logdensity(kernel, state, items)

    states, logdensity = jax.vmap(chain)(jax.random.split(key, num_chains))
    best = jnp.argmax(jnp.where(jnp.isfinite(logdensity), logdensity, -jnp.inf))
    return jax.tree.map(lambda x: x[best], states)


def _logdensity(kernel: Any, state: HybridState, items: PyTree) -> Array:
    shared, local = state.position
    entries = local["features"].astype(jnp.int32).T
    rows = FeatureRows(items, entries, jnp.ones(entries.shape[1], bool))
    prior = kernel.model.process.logdensity(shared, state.sums.counts, entries.shape[1])
    return prior + kernel.model.family.logdensity(shared, shared["parameters"], rows)
