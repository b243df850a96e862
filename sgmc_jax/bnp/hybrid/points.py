"""One point after the other: the part of a mixture sampler in which clusters are born and die."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from ...families import Family
from .anchors import visited


class Atoms(NamedTuple):
    """The instantiated atoms A: their slots, their log weights, and that of the rest, the tail."""

    instantiated: Bool[Array, " K"]
    log_weight: Float[Array, " K"]
    log_tail: Float[Array, ""]


class Members(NamedTuple):
    """Each slot's members by number and sum."""

    counts: Int[Array, " K"]
    statistics: PyTree


class Sweep(NamedTuple):
    """What a sweep carries: labels, and each slot's members in the block by number, sum and law.

    The laws, predictive ones, are up to date for the tail. `atoms` are those of the model, and
    `unvisited` counts the items of each atom that are still to come, for demotion.
    """

    labels: Int[Array, "..."]
    counts: Int[Array, " K"]
    stats: PyTree
    predictive: PyTree
    atoms: Any
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
    demote: bool = False,
    known: Members | None = None,
    cradles: Bool[Array, " K"] | None = None,
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
        known: each slot's members, of which the block's are some; by default these are all.
        cradles: the slots in which clusters may be born, if they are free; by default all.

    Returns:
        the labels, and whether a birth found no free slot.
    """
    capacity = loglik.shape[0]
    if known is None:
        # the block's own: a cluster of the tail has no others, and those of an atom do not matter
        counts = jnp.zeros(capacity, jnp.int32).at[labels].add(real.astype(jnp.int32))
        stats = family.label_statistics(items, jnp.where(real, labels, -1), capacity)
        known = Members(counts, stats)
    if cradles is None:
        cradles = jnp.ones(capacity, bool)
    counts, stats = known
    # of every slot; an atom's is out of date until it is demoted
    law, none = family.predictive(stats), jnp.zeros((), bool)
    start = Sweep(labels, counts, stats, law, atoms, counts, none)
    return _visit_all(family, hyper, start, loglik, items, real, uniforms, cradles, demote)


def _visit_all(
    family: Family,
    hyper: dict[str, Array],
    start: Sweep,
    loglik: Float[Array, "K n"],
    items: PyTree,
    real: Bool[Array, " n"],
    uniforms: Float[Array, "sweeps n"],
    cradles: Bool[Array, " K"],
    demote: bool,
) -> tuple[Int[Array, " n"], Bool[Array, ""]]:
    """The points of a block one after the other, in every sweep."""
    # f(x), alike at every visit
    empty = family.zero_statistics(1, jax.tree.map(lambda x: x[0], items))
    log_prior = jax.vmap(lambda item: family.log_predictive(empty, item)[0])(items)

    def visit(sweep: Sweep, turn: tuple[Int[Array, ""], Float[Array, ""]]) -> tuple[Sweep, None]:
        i, uniform = turn
        item = jax.tree.map(lambda x: x[i], items)
        # padding has the sign 0: it leaves its slot and comes back without a trace
        old, sign = sweep.labels[i], real[i].astype(jnp.int32)
        # before it is known where the point goes: A may depend on points still to come alone
        sweep = _demote(sweep, old, real[i]) if demote else sweep
        tail = ~sweep.atoms.instantiated
        left = _changed(family, _row(sweep, old), item, -sign, tail[old])
        others = sweep._replace(counts=sweep.counts.at[old].set(left.count))
        logits = _logits(family, hyper, others, loglik[:, i], log_prior[i], item, old, left.law)
        # 0 is a new cluster, k + 1 is slot k
        choice = pick(logits, uniform)
        # without the point: the slot of a cluster that it had to itself may be the new one's
        free = tail & cradles & (others.counts == 0)
        # if none is free this is slot 0, a wrong one: the step is flagged, and made again
        slot = jnp.where(choice == 0, jnp.argmax(free), choice - 1)  # below 0 if there is no law
        slot = jnp.where(real[i] & (old >= 0), slot, old).astype(start.labels.dtype)
        back = partial(jnp.where, slot == old)  # to the row without it: the sweep's still has it
        row = jax.tree.map(back, left, _row(others, slot))
        joined = _changed(family, row, item, sign, tail[slot])
        put = partial(_put, old, slot)
        lost = real[i] & (choice == 0) & ~jnp.any(free)
        return sweep._replace(
            labels=sweep.labels.at[i].set(slot),
            counts=others.counts.at[slot].set(joined.count),
            stats=jax.tree.map(put, sweep.stats, left.stats, joined.stats),
            predictive=jax.tree.map(put, sweep.predictive, left.law, joined.law),
            overflow=sweep.overflow | lost,
        ), None

    # the items in their order, which labels have no part in
    order = jnp.tile(jnp.arange(uniforms.shape[1]), uniforms.shape[0])
    end, _ = jax.lax.scan(visit, start, (order, uniforms.ravel()))
    return end.labels, end.overflow


class Row(NamedTuple):
    """One slot's part of a sweep, the arrays with a leading axis of length 1."""

    count: Int[Array, ""]
    stats: PyTree
    law: PyTree


def _row(sweep: Any, k: Int[Array, ""]) -> Row:
    one = lambda x: x[k][None]
    return Row(sweep.counts[k], jax.tree.map(one, sweep.stats), jax.tree.map(one, sweep.predictive))


def _changed(family: Family, row: Row, item: PyTree, sign: Any, renewed: Any) -> Row:
    """The row with an item added (sign 1), taken out (-1), or neither (0).

    Its predictive law is renewed where that holds: no atom needs its own, and most points are
    among atoms.
    """
    count = row.count + sign
    # a count of 0 tells the family to drop what rounding has left
    stats = family.joined(row.stats, count, item, sign)
    law = jax.lax.cond(renewed, lambda: family.predictive(stats), lambda: row.law)
    return Row(count, stats, law)


def _put(
    old: Int[Array, ""],
    new: Int[Array, ""],
    x: Shaped[Array, "K *d"],
    of_old: Shaped[Array, "1 *d"],
    of_new: Shaped[Array, "1 *d"],
) -> Shaped[Array, "K *d"]:
    """An array with two rows replaced; in a loop, for there XLA writes in place.

    Elsewhere it copies all slots' matrices at each visit, five times the work.
    """

    def write(j: Int[Array, ""], x: Shaped[Array, "K *d"]) -> Shaped[Array, "K *d"]:
        row, k = jnp.where(j == 0, of_old, of_new), jnp.where(j == 0, old, new)
        return jax.lax.dynamic_update_slice_in_dim(x, row, k, axis=0)

    return jax.lax.fori_loop(0, 2, write, x)


def _demote(sweep: Sweep, k: Int[Array, ""], real: Bool[Array, ""]) -> Sweep:
    """The sweep as a point of slot k is visited; an atom of which it is the last joins the tail."""
    atoms, has = sweep.atoms, real & (jnp.arange(sweep.unvisited.shape[0]) == k)
    unvisited, instantiated = visited(sweep.unvisited, atoms.instantiated, has)
    demoted = atoms.instantiated[k] & ~instantiated[k]
    # w_0 is the weight of all that is integrated out, this atom now among it
    joined = jnp.logaddexp(atoms.log_tail, atoms.log_weight[k])
    log_tail = jnp.where(demoted, joined, atoms.log_tail)
    return sweep._replace(
        unvisited=unvisited, atoms=atoms._replace(instantiated=instantiated, log_tail=log_tail)
    )


def _logits(
    family: Family,
    hyper: dict[str, Array],
    sweep: Sweep,
    loglik: Float[Array, " K"],
    log_prior: Float[Array, ""],
    item: Any,
    old: Int[Array, ""],
    law: PyTree,
) -> Float[Array, " choices"]:
    """The log weights of a new cluster and of every slot, of which `old` has another `law`."""
    (instantiated, log_weight, log_tail), counts = sweep.atoms, sweep.counts
    a, d = hyper["concentration"], hyper["discount"]
    tail = ~instantiated & (counts > 0)
    # given J atoms the rest is a process of concentration a + J d, and the tail its sample
    num_atoms = jnp.sum(instantiated)
    # weights are as they were drawn, but w_0 is shared by an urn of the points that are now in it
    total = a + num_atoms * d + jnp.sum(jnp.where(tail, counts, 0))
    log_predictive = jax.lax.cond(
        jnp.any(tail),
        lambda: family.log_predictive_of(sweep.predictive, item).astype(loglik.dtype),
        lambda: jnp.zeros_like(loglik),
    )
    # the sweep's own law of this cluster still has the point
    log_predictive = log_predictive.at[old].set(family.log_predictive_of(law, item)[0])
    of_tail = jnp.log(jnp.where(tail, counts - d, 1)) + log_predictive
    existing = jnp.where(tail, log_tail - jnp.log(total) + of_tail, -jnp.inf)
    slots = jnp.where(instantiated, log_weight + loglik, existing)
    # a + (J + K_t) d, where the tail's clusters have given up d each; of a single point a new
    # cluster is all there is, and a, which is then both, may be negative
    others = num_atoms + jnp.sum(tail)
    share = jnp.where(others > 0, jnp.log(a + others * d) - jnp.log(total), 0)
    born = share + log_tail + log_prior
    return jnp.concatenate([born[None].astype(slots.dtype), slots])


def pick(logits: Float[Array, " K"], uniform: Float[Array, ""]) -> Int[Array, ""]:
    """An index by inversion; the same whatever the number of impossible ones at the end.

    It is -1 if there is no law to draw from: one is NaN or infinite, or all are impossible.
    """
    # a uniform is above 0, so that first choices of no weight are passed by
    cumulative = jnp.cumsum(jnp.exp(logits - jnp.max(logits)))
    return jnp.where(cumulative[-1] > 0, jnp.sum(cumulative < uniform * cumulative[-1]), -1)


def pick_columns(logits: Float[Array, "K n"], uniforms: Float[Array, " n"]) -> Int[Array, " n"]:
    """`pick` of each column; a loop over rows is 8 times faster than `cumsum`."""
    weights = jnp.exp(logits - jnp.max(logits, axis=0))
    zero = jnp.zeros(uniforms.shape, jnp.promote_types(weights.dtype, uniforms.dtype))
    weights, uniforms = weights.astype(zero.dtype), uniforms.astype(zero.dtype)
    total, _ = jax.lax.scan(lambda total, row: (total + row, None), zero, weights)

    def pass_by(carry: tuple[Array, Array], row: Array) -> tuple[tuple[Array, Array], None]:
        below, index = carry
        below = below + row  # the very sums of the first loop: the last one is the total
        return (below, index + (below < uniforms * total)), None

    (_, index), _ = jax.lax.scan(pass_by, (zero, zero.astype(jnp.int32)), weights)
    return jnp.where(total > 0, index, -1)
