"""Features of a few of the items, where chains of many begin."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..._compiler import quick_jit
from ...collective import Dist, leading_axis
from ...families import FeatureRows
from ...random.feistel import random_subset
from .kernel import Hybrid, HybridState


def seeds(
    key: Any,
    kernel: Hybrid,
    data: PyTree,
    num_items: int = 100,
    num_chains: int = 16,
    num_steps: int = 150,
) -> Dist:
    """Features of a random subset by the best of several chains, and none of other items."""
    total, capacity = leading_axis(data), kernel.capacity
    subset_key, run_key = jax.random.split(key)
    subset = random_subset(subset_key, min(num_items, total), total)
    items = jax.tree.map(lambda x: jnp.asarray(x)[subset], data)
    shared, local = _best(run_key, kernel, items, num_chains, num_steps).position
    # it is left to the chain to find those of the items that were not drawn
    features = jnp.zeros((total, capacity), local["features"].dtype)
    return Dist(shared, {"features": features.at[subset].set(local["features"])})


def most_used(start: Dist, capacity: int) -> Dist:
    """The features of a start, those that most items have first, in so many slots."""
    features, parameters = start.local["features"], start.shared["parameters"]
    order = jnp.argsort(-jnp.sum(features > 0, axis=0), stable=True)[:capacity]
    shared = start.shared | {"parameters": jax.tree.map(lambda x: x[order], parameters)}
    return Dist(shared, {"features": features[:, order]})


@quick_jit
def _best(key: Any, kernel: Hybrid, items: PyTree, num_chains: int, num_steps: int) -> HybridState:
    """The most probable of the chains' last states."""

    def chain(key: Any) -> tuple[HybridState, Float[Array, ""]]:
        init_key, step_key = jax.random.split(key)
        step = lambda i, state: kernel.step(jax.random.fold_in(step_key, i), state, items)[0]
        state = jax.lax.fori_loop(0, num_steps, step, kernel.init(init_key, None, items))
        return state, _logdensity(kernel, state, items)

    states, logdensity = jax.vmap(chain)(jax.random.split(key, num_chains))
    # what is no number is the least probable
    best = jnp.argmax(jnp.where(jnp.isfinite(logdensity), logdensity, -jnp.inf))
    return jax.tree.map(lambda x: x[best], states)


def _logdensity(kernel: Hybrid, state: HybridState, items: PyTree) -> Float[Array, ""]:
    shared, local = state.position
    entries = local["features"].astype(jnp.int32).T
    rows = FeatureRows(items, entries, jnp.ones(entries.shape[1], bool))
    # but for factorials, of columns that agree and of entries: a start need not be the very best
    prior = kernel.model.process.logdensity(shared, state.sums.counts, entries.shape[1])
    return prior + kernel.model.family.logdensity(shared, shared["parameters"], rows)
