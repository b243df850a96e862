"""What the parts share: planted mixtures, and what is recorded of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sgmc_jax.bnp import DirichletProcess
from sgmc_jax.combinators.cycle import CycleState
from sgmc_jax.families import Family


def planted_mixture(n: int, clusters: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and items of normal laws of covariance I, whose means are N(0, 9 I)."""
    rng = np.random.default_rng(0)
    means = 3.0 * rng.standard_normal((clusters, dim))
    labels = rng.integers(0, clusters, n).astype(np.int32)
    return labels, (means[labels] + rng.standard_normal((n, dim))).astype(np.float32)


def held_out(process: DirichletProcess, family: Family, items: Any) -> Callable:
    """`(state, info) -> (clusters, log predictive density of a held-out item)`.

    sum_k m_k f(x | members of k) / (n + a) + a f(x) / (n + a), averaged over the items; in a cycle
    the last kernel's, whose sums are of the position at the end of the step.
    """
    items = jnp.asarray(items)

    def record(state: Any, info: Any) -> tuple[Array, Array]:
        if isinstance(state, CycleState):
            state, info = state.states[-1], info.kernels[-1]
        counts, stats = state.sums.counts, state.sums.statistics
        a = state.position.shared["concentration"]
        own = family.about(state.centre)
        law = own.predictive(stats)
        empty = own.predictive(own.zero_statistics(1, items[0]))
        log_mass = jnp.log(jnp.append(jnp.where(counts > 0, counts, 0), a) / (counts.sum() + a))

        def one(item: Array) -> Array:
            parts = (own.log_predictive_of(law, item), own.log_predictive_of(empty, item))
            return jax.nn.logsumexp(log_mass + jnp.concatenate(parts))

        return info.active, jnp.mean(jax.lax.map(one, items, batch_size=64))

    return record
