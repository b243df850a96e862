"""The sticks of a slice sampler: their order, and what they weigh."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..processes import PitmanYor
from ..random.gamma import log_gamma
from .hybrid.mixture import draw_weights


def draw_order(
    key: Any, process: PitmanYor, hyper: dict[str, Array], counts: Int[Array, " K"]
) -> Int[Array, " K"]:
    """The slots in the order of their sticks, drawn given the sizes of the clusters.

    Sticks are in size-biased order. Given K clusters the weights are

        (w_1, ..., w_K, w_0) ~ Dirichlet(m_1 - d, ..., m_K - d, a + K d),

    w_0 being that of all empty sticks, which are those of a process with the concentration a + K d.
    Picks without replacement are arrivals: with all E ~ Exp(1), cluster k arrives at E_k / w_k, and
    the empty sticks at t_1 < t_2 < ...,

        t_e = t_{e-1} + E_e / r_e,    r_1 = w_0,    r_{e+1} = r_e (1 - V_e),
        V_e ~ Beta(1 - d, a + (K + e) d)

    from t_0 = 0. The lowest free slot has the first of them. If the slots do not suffice, a cluster
    has the last.

    Reference:
        Perman, Pitman and Yor (1992), Size-biased sampling of Poisson point processes and
        excursions; Pitman (1996), Some developments of the Blackwell-MacQueen urn scheme, for the
        weights given the points.
    """
    weight_key, cluster_key, empty_key, stick_key = jax.random.split(key, 4)
    used = counts > 0
    _, log_weight, log_rest = draw_weights(weight_key, hyper, counts, used)
    one = jnp.ones_like(log_weight)
    arrival = log_gamma(cluster_key, one) - log_weight

    more = hyper | {"concentration": hyper["concentration"] + jnp.sum(used) * hyper["discount"]}
    _, log_left = process.draw_sticks(stick_key, more, jnp.zeros_like(counts))
    log_rate = log_rest + left_before(log_left)[0]
    empty = jax.lax.cumlogsumexp(log_gamma(empty_key, one) - log_rate)
    return jnp.argsort(jnp.where(used, arrival, empty[jnp.cumsum(~used) - 1]))


def swap_neighbours(
    key: Any, order: Array, counts: Array, log_stick: Array, log_left: Array
) -> Int[Array, " K"]:
    """Exchange the clusters of neighbouring sticks, first of even pairs, then of odd ones.

    Accepted with probability min(1, (w_j / w_{j+1})^(m_{j+1} - m_j)); without it large clusters
    hardly ever come first.
    """
    log_weights, _ = stick_weights(log_stick, log_left)
    log_ratio = log_weights[:-1] - log_weights[1:]
    uniforms = jax.random.uniform(key, log_ratio.shape, log_ratio.dtype)
    index = jnp.arange(len(order))
    for parity in (0, 1):
        sizes = counts[order]
        gain = (sizes[1:] - sizes[:-1]) * log_ratio
        # empty clusters stay, or slots from past the capacity would come down in time
        some = sizes[1:] + sizes[:-1] != 0
        swap = some & (index[:-1] % 2 == parity) & (jnp.log(uniforms) < gain)
        step = jnp.zeros_like(index).at[:-1].add(swap).at[1:].add(-swap.astype(index.dtype))
        order = order[index + step]
    return order


def in_use(counts: Int[Array, " K"]) -> Bool[Array, " K"]:
    """Which sticks are not past the last that has points."""
    return jnp.flip(jax.lax.cummax(jnp.flip(counts > 0).astype(jnp.int32))) > 0


def stick_weights(log_stick: Array, log_left: Array) -> tuple[Array, Array]:
    """log w_j = log v_j + sum_{l<j} log(1 - v_l), and the log of what all of them leave."""
    before, log_rest = left_before(log_left)
    return log_stick + before, log_rest


def left_before(log_left: Array) -> tuple[Array, Array]:
    """sum_{l<j} log(1 - v_l) for every stick, and the sum over all."""
    total = jnp.cumsum(log_left)
    return jnp.append(jnp.zeros((1,), total.dtype), total[:-1]), total[-1]
