"""One point after the other: the part of a mixture sampler in which clusters are born and die."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..families import Family


class Atoms(NamedTuple):
    """The instantiated atoms A: their slots, their log weights, and that of the rest, the tail."""

    instantiated: Bool[Array, " K"]
    log_weight: Float[Array, " K"]
    log_tail: Float[Array, ""]


class Sweep(NamedTuple):
    """What a sweep carries: labels, and each slot's members in the block by number, sum and law."""

    labels: Int[Array, " n"]
    counts: Int[Array, " K"]
    stats: PyTree
    predictive: PyTree
    atoms: Atoms
    unvisited: Int[Array, " K"]
    overflow: Bool[Array, ""]


def sweep_block(
    family: Family,
    hyper: dict[str, Array],
    atoms: Atoms,
    loglik: Float[Array, "K n"],
    items: PyTree,
    real: Bool[Array, " n"],
    labels: Int[Array, " n"],
    uniforms: Float[Array, "sweeps n"],
    *,
    demote: bool,
) -> tuple[Int[Array, " n"], Bool[Array, ""]]:
    """Gibbs sweeps over a block's points, with the atoms of the tail integrated out.

    With a the concentration, d the discount, J = |A|, and counts without the point itself,

        P(z = k) ~ w_k f(x | theta_k)                                        k in A
                   w_0 (m_k - d) / (a + J d + n_t) f(x | members of k)       k in the tail
                   w_0 (a + (J + K_t) d) / (a + J d + n_t) f(x)              a new cluster

    where n_t points and K_t clusters are in the tail. With `demote`, an atom is moved to the tail,
    with its weight, as its last point that has not been visited is visited.

    Args:
        loglik: the log likelihood of every item under the instantiated atoms.
        real: False for padding, which is left alone.
        uniforms: one number in (0, 1] a visit.

    Returns:
        the labels, and whether a birth found no free slot.
    """
    capacity, num = loglik.shape
    one_hot = (labels == jnp.arange(capacity)[:, None]) & real
    counts = jnp.sum(one_hot, axis=1, dtype=jnp.int32)
    stats = family.statistics(items, one_hot.astype(loglik.dtype))
    empty = family.zero_statistics(1, jax.tree.map(lambda x: x[0], items))
    log_prior = jax.vmap(lambda item: family.log_predictive(empty, item)[0])(items)
    predictive = family.predictive(stats)
    start = Sweep(labels, counts, stats, predictive, atoms, counts, jnp.zeros((), bool))

    def visit(sweep: Sweep, turn: tuple[Array, Array]) -> tuple[Sweep, None]:
        i, uniform = turn
        item = jax.tree.map(lambda x: x[i], items)
        left = _move(family, sweep, sweep.labels[i], item, -real[i].astype(jnp.int32))
        if demote:
            left = _demote(left, sweep.labels[i])
        choice = _pick(_logits(family, hyper, left, loglik[:, i], log_prior[i], item), uniform)
        free = ~left.atoms.instantiated & (left.counts == 0)
        slot = jnp.where(choice == 0, jnp.argmax(free), choice - 1)
        slot = jnp.where(real[i], slot, sweep.labels[i]).astype(labels.dtype)
        joined = _move(family, left, slot, item, real[i].astype(jnp.int32))
        lost = real[i] & (choice == 0) & ~jnp.any(free)
        return joined._replace(
            labels=joined.labels.at[i].set(slot), overflow=joined.overflow | lost
        ), None

    order = jnp.tile(jnp.arange(num), uniforms.shape[0])
    end, _ = jax.lax.scan(visit, start, (order, uniforms.ravel()))
    return end.labels, end.overflow


def _move(family: Family, sweep: Sweep, k: Array, item: PyTree, sign: Array) -> Sweep:
    """The sweep with an item added to slot k (sign 1), taken out (-1), or neither (0)."""
    counts = sweep.counts.at[k].add(sign)

    def row(s: Array, x: Array) -> Array:
        # what rounding leaves of an empty cluster would count as data
        return jnp.where(counts[k] > 0, s[k] + sign * x, 0)[None].astype(s.dtype)

    rows = jax.tree.map(row, sweep.stats, family.item_statistics(item))
    put = lambda all_, one: all_.at[k].set(one[0])
    return sweep._replace(
        counts=counts,
        stats=jax.tree.map(put, sweep.stats, rows),
        predictive=jax.tree.map(put, sweep.predictive, family.predictive(rows)),
    )


def _demote(sweep: Sweep, k: Array) -> Sweep:
    """The sweep with one point of slot k visited; with the last one, its atom joins the tail."""
    unvisited, atoms = sweep.unvisited.at[k].add(-1), sweep.atoms
    last = atoms.instantiated[k] & (unvisited[k] == 0)
    joined = jnp.logaddexp(atoms.log_tail, atoms.log_weight[k])
    return sweep._replace(
        unvisited=unvisited,
        atoms=atoms._replace(
            instantiated=atoms.instantiated.at[k].set(atoms.instantiated[k] & ~last),
            log_tail=jnp.where(last, joined, atoms.log_tail),
        ),
    )


def _logits(
    family: Family,
    hyper: dict[str, Array],
    sweep: Sweep,
    loglik: Array,
    log_prior: Array,
    item: Any,
) -> Float[Array, " K+1"]:
    """The log weights of a new cluster and of every slot."""
    (instantiated, log_weight, log_tail), counts = sweep.atoms, sweep.counts
    a, d = hyper["concentration"], hyper["discount"]
    tail = ~instantiated & (counts > 0)
    num_atoms = jnp.sum(instantiated)
    total = a + num_atoms * d + jnp.sum(jnp.where(tail, counts, 0))
    log_predictive = family.log_predictive_of(sweep.predictive, item)
    of_tail = jnp.log(jnp.where(tail, counts - d, 1)) + log_predictive
    existing = jnp.where(tail, log_tail - jnp.log(total) + of_tail, -jnp.inf)
    slots = jnp.where(instantiated, log_weight + loglik, existing)
    born = jnp.log(a + (num_atoms + jnp.sum(tail)) * d) - jnp.log(total) + log_tail + log_prior
    return jnp.concatenate([born[None].astype(slots.dtype), slots])


def _pick(logits: Array, uniform: Array) -> Array:
    """An index by inversion; the same whatever the number of impossible ones at the end."""
    cumulative = jnp.cumsum(jnp.exp(logits - jnp.max(logits)))
    return jnp.sum(cumulative < uniform * cumulative[-1])
