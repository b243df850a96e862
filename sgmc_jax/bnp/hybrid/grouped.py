"""Items of groups that share their clusters: those of one block in turn, or of all at once."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ...families import Family
from ...random import log_beta
from ...special import log1mexp
from .anchors import Anchors, visited
from .points import Sweep, pick

_BUNDLES = 8  # of groups of like sizes, which are swept together


class Atoms(NamedTuple):
    """The clusters: which are instantiated, and the weights in G_0 of each and of all others, in
    logarithms."""

    instantiated: Bool[Array, " K"]
    log_weights: Float[Array, " K"]
    log_rest: Float[Array, ""]

    @property
    def weights(self) -> Float[Array, " K"]:
        return jnp.exp(self.log_weights)

    @property
    def rest(self) -> Float[Array, ""]:
        return jnp.exp(self.log_rest)


def sweep_block(
    family: Family,
    hyper: dict[str, Array],
    atoms: Atoms,
    params: PyTree,
    items: PyTree,
    size: Int[Array, " S"],
    labels: Int[Array, "S L"],
    uniforms: Float[Array, "sweeps S L 2"],
    *,
    demote: bool,
) -> tuple[Int[Array, "S L"], Atoms, Bool[Array, ""]]:
    """Gibbs sweeps over a block's items, with the clusters that are the block's own collapsed.

    With g the group concentration, a the concentration and counts without the item itself,

        P(z = k) ~ (n_sk + g w_k) f(x | theta_k)                 k instantiated
                   (n_sk + g w_k) f(x | items of k)              k another cluster
                   g w_0 f(x)                                    a new cluster

    A new cluster takes the share b ~ Beta(1, a) of w_0, and one that has lost its last item
    returns its weight. With `demote`, the parameters of a cluster are integrated out as its last
    item that has not been visited is visited.

    Returns:
        the labels, the atoms, and whether a birth found no free slot.
    """
    capacity = len(atoms.log_weights)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), items)
    stats = family.label_statistics(flat, masked_labels(labels, size).ravel(), capacity)
    # in this block: a cluster of the tail has no other items, of the rest theta tells all
    counts = jnp.sum(count_clusters(labels, size, capacity), axis=0)
    empty = family.zero_statistics(1, jax.tree.map(lambda x: x[0], flat))
    prior = family.predictive(empty)
    start = Sweep(
        labels, counts, stats, family.predictive(stats), atoms, counts, jnp.zeros((), bool)
    )

    def group(i: Int[Array, ""], sweep: Sweep) -> Sweep:
        s = i % labels.shape[0]
        own = jax.tree.map(lambda x: x[s], items)
        loglik = family.loglik(params, own)
        # n_sk, as earlier groups have no part in it
        sizes = count_clusters(sweep.labels[s][None], size[s][None], capacity)[0]

        def turn(p: Array, loop: tuple[Sweep, Array]) -> tuple[Sweep, Array]:
            sweep, sizes = loop
            item, old = jax.tree.map(lambda x: x[p], own), sweep.labels[s, p]
            # before it chooses: a tail's cluster of its own is then no choice, and its weight is
            # among that of new ones
            left, sizes = _leave(family, sweep, old, item, demote), sizes.at[old].add(-1)
            choice_uniform, weight_uniform = uniforms[i // labels.shape[0], s, p]
            choice = pick(
                _logits(family, hyper, left, prior, sizes, item, loglik[:, p]), choice_uniform
            )
            joined, slot = _join(family, hyper, left, choice, item, weight_uniform)
            slot = jnp.where(old < 0, old, slot)  # once without a law, so for the rest of the step
            joined = joined._replace(labels=joined.labels.at[s, p].set(slot))
            return joined, sizes.at[slot].add(1)

        return jax.lax.fori_loop(0, size[s], turn, (sweep, sizes))[0]

    num = uniforms.shape[0] * labels.shape[0]
    end = jax.lax.fori_loop(0, num, group, start)
    return end.labels, end.atoms, end.overflow


def _leave(family: Family, sweep: Sweep, k: Int[Array, ""], item: PyTree, demote: bool) -> Sweep:
    """The sweep as an item of cluster k is visited, and taken out of it."""
    left = _return_weight(_move(family, sweep, k, item, -1), k)
    return _demote(left, k) if demote else left


def _join(
    family: Family,
    hyper: dict[str, Array],
    left: Sweep,
    choice: Int[Array, ""],
    item: PyTree,
    uniform: Float[Array, ""],
) -> tuple[Sweep, Int[Array, ""]]:
    """The sweep as the item joins the cluster of its choice, 0 for a new one; and the slot."""
    # an empty cluster of the tail has given its weight back by now
    free = ~left.atoms.instantiated & (left.counts == 0)
    slot = jnp.where(choice == 0, jnp.argmax(free), choice - 1).astype(left.labels.dtype)
    # chosen with the share integrated out, which must be there for the next item
    given = _give_weight(hyper, left.atoms, slot, uniform)
    atoms = jax.tree.map(lambda new, old: jnp.where(choice == 0, new, old), given, left.atoms)
    joined = _move(family, left._replace(atoms=atoms), slot, item, 1)
    lost = (choice == 0) & ~jnp.any(free)
    return joined._replace(overflow=joined.overflow | lost), slot


def _move(family: Family, sweep: Sweep, k: Int[Array, ""], item: PyTree, sign: int) -> Sweep:
    """The sweep as an item joins cluster k (sign 1) or leaves it (-1)."""
    count = sweep.counts[k] + sign
    stats, predictive = family.move(sweep.stats, sweep.predictive, k, count, item, sign)
    counts = sweep.counts.at[k].set(count)
    return sweep._replace(counts=counts, stats=stats, predictive=predictive)


def _logits(
    family: Family,
    hyper: dict[str, Array],
    sweep: Sweep,
    prior: PyTree,
    sizes: Int[Array, " K"],
    item: PyTree,
    loglik: Float[Array, " K"],
) -> Float[Array, " choices"]:
    """The log weights of a new cluster and of every slot, given the sizes n_sk in the group."""
    instantiated, log_weights, log_rest = sweep.atoms
    log_g = jnp.log(hyper["group_concentration"])
    law = jnp.where(instantiated, loglik, family.log_predictive_of(sweep.predictive, item))
    # an instantiated cluster may have no item in this block
    offered = instantiated | (sweep.counts > 0)
    # old tables of a cluster and new ones together: at which of them an item sits is summed out
    seats = jnp.logaddexp(jnp.log(sizes.astype(log_weights.dtype)), log_g + log_weights)
    slots = jnp.where(offered, seats + law, -jnp.inf)
    born = log_g + log_rest + family.log_predictive_of(prior, item)[0]
    return jnp.concatenate([born[None], slots])


def _return_weight(sweep: Sweep, k: Int[Array, ""]) -> Sweep:
    """The sweep with the weight of slot k given back, if that is an empty cluster of the tail."""
    (instantiated, log_weights, log_rest), counts = sweep.atoms, sweep.counts
    # w_0 is the weight of all atoms without items, this one now among them
    back = ~instantiated[k] & (counts[k] == 0)
    whole = jnp.where(back, jnp.logaddexp(log_rest, log_weights[k]), log_rest)
    left = jnp.where(back, -jnp.inf, log_weights[k])
    return sweep._replace(atoms=Atoms(instantiated, log_weights.at[k].set(left), whole))


def _give_weight(hyper: dict[str, Array], atoms: Atoms, k: Array, uniform: Array) -> Atoms:
    """The atoms with a new cluster in slot k: w_k = b w_0, b ~ Beta(1, a)."""
    # 1 - b = U^(1/a), U uniform
    log_left = jnp.log(uniform) / hyper["concentration"]
    log_weight = atoms.log_rest + log1mexp(log_left)
    log_weights = atoms.log_weights.at[k].set(log_weight)
    return atoms._replace(log_weights=log_weights, log_rest=atoms.log_rest + log_left)


def _demote(sweep: Sweep, k: Int[Array, ""]) -> Sweep:
    """The sweep with an item of cluster k visited; with the last one, it joins the tail."""
    has = jnp.arange(sweep.counts.shape[0]) == k
    unvisited, instantiated = visited(sweep.unvisited, sweep.atoms.instantiated, has)
    # it keeps its weight, unlike a mixture's, unless it is empty: only theta is integrated out
    atoms = sweep.atoms._replace(instantiated=instantiated)
    return _return_weight(sweep._replace(unvisited=unvisited, atoms=atoms), k)


def sweep_groups(
    family: Family,
    hyper: dict[str, Array],
    atoms: Atoms,
    params: PyTree,
    since: Int[Array, "S K"],
    rank: Int[Array, " S"],
    items: PyTree,
    size: Int[Array, " S"],
    labels: Int[Array, "S L"],
    uniforms: Float[Array, "sweeps S L"],
) -> Int[Array, "S L"]:
    """Gibbs sweeps over groups among the instantiated clusters, one item of each group at once.

        P(z = k) ~ (n_sk + g w_k) f(x | theta_k)        k open to the item

    Anchors keep their cluster. Groups are independent, so that those of like sizes go together.

    Args:
        since, rank: the items past which clusters are open, and each group's first one; see
            `openings`.
    """
    # a bundle takes as long as its longest group
    order = jnp.argsort(size)
    missing = -len(size) % _BUNDLES
    # what fills up the bundles is the first group over again, but with no item
    rows = jnp.concatenate([jnp.zeros(missing, order.dtype), order]).reshape(_BUNDLES, -1)
    sizes = jnp.where(jnp.arange(rows.size).reshape(rows.shape) < missing, 0, size[rows])
    prior = jnp.where(atoms.instantiated, hyper["group_concentration"] * atoms.weights, 0)
    prior = prior.astype(uniforms.dtype)

    def group(args: tuple[Int[Array, " lanes"], Int[Array, " lanes"]]) -> Int[Array, "lanes L"]:
        row, size = args
        own = jax.tree.map(lambda x: x[row], items)
        begins, first = since[row], rank[row]
        lane = jnp.arange(len(row))

        def visit(p: Array, loop: tuple[Array, Array], uniform: Array) -> tuple[Array, Array]:
            labels, counts = loop
            old = labels[:, p]
            was = (old[:, None] == jnp.arange(len(prior))) & (p < size)[:, None]
            here = first + p
            anchor = begins[lane, old] >= here  # the first item of its cluster
            loglik = family.scores(params, jax.tree.map(lambda x: x[:, p], own)).T
            open_ = atoms.instantiated & (begins < here[:, None])
            loglik = jnp.where(open_, loglik, -jnp.inf)
            # where nothing is open this is NaN, but the weights are 0, and the item stays
            likelihood = jnp.exp(loglik - jnp.max(loglik, axis=1, keepdims=True))
            weights = jnp.where(open_, (counts - was + prior) * likelihood, 0)
            cumulative = _running_sums(weights)
            below = cumulative < uniform[:, None] * cumulative[:, -1:]
            new = jnp.sum(below, axis=1, dtype=old.dtype)
            new = jnp.where(cumulative[:, -1] > 0, new, -1)  # as `pick` tells that it has no law
            new = jnp.where(anchor | (p >= size) | (old < 0), old, new)
            now = (new[:, None] == jnp.arange(len(prior))) & (p < size)[:, None]
            return labels.at[:, p].set(new), counts - was + now

        def sweep(loop: tuple[Array, Array], uniform: Array) -> tuple[tuple[Array, Array], None]:
            body = lambda p, loop: visit(p, loop, uniform[row, p])
            return jax.lax.fori_loop(0, jnp.max(size), body, loop), None

        counts = count_clusters(labels[row], size, len(prior)).astype(prior.dtype)
        return jax.lax.scan(sweep, (labels[row], counts), uniforms)[0][0]

    swept = jax.lax.map(group, (rows, sizes)).reshape(-1, labels.shape[1])
    return labels.at[order].set(swept[missing:])


def _running_sums(x: Float[Array, "n K"]) -> Float[Array, "n K"]:
    """The sums of each row up to every element, whatever follows it; faster than `cumsum`."""
    num, wide = x.shape[1], 16
    parts = jnp.pad(x, ((0, 0), (0, -num % wide))).reshape(len(x), -1, wide)
    within = list(accumulate(parts[:, :, j] for j in range(wide)))
    totals = (within[-1][:, j] for j in range(parts.shape[1] - 1))
    before = list(accumulate(totals, initial=jnp.zeros_like(x[:, 0])))
    sums = jnp.stack(within, axis=2) + jnp.stack(before, axis=1)[:, :, None]
    return sums.reshape(len(x), -1)[:, :num]


def draw_tables(
    hyper: dict[str, Array],
    weights: Float[Array, " K"],
    size: Int[Array, " S"],
    labels: Int[Array, "S L"],
    uniforms: Float[Array, "S L"],
) -> Int[Array, " K"]:
    """The number of tables of each cluster, drawn given every item's cluster and the weights.

    The item of cluster k that comes after i others of it in its group sits at a new table with
    probability g w_k / (g w_k + i).
    """
    mass, capacity = hyper["group_concentration"] * weights, weights.shape[0]
    group = jnp.arange(len(size))

    def visit(p: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
        counts, tables = loop
        cluster, present = labels[:, p], p < size
        before = counts[group, cluster]
        # given the weights that the labels were drawn by; the next weights are then given these
        new = (before == 0) | (uniforms[:, p] * (mass[cluster] + before) < mass[cluster])
        counts = counts.at[group, cluster].add(present.astype(counts.dtype))
        return counts, tables.at[cluster].add((new & present).astype(tables.dtype))

    # in the order of places: the number of tables has the same law in any
    start = jnp.zeros((len(size), capacity), jnp.int32), jnp.zeros(capacity, jnp.int32)
    return jax.lax.fori_loop(0, jnp.max(size, initial=0), visit, start)[1]


def masked_labels(labels: Int[Array, "S L"], size: Int[Array, " S"]) -> Int[Array, "S L"]:
    """The labels, -1 where there is no item."""
    return jnp.where(jnp.arange(labels.shape[1]) < size[:, None], labels, -1)


def count_clusters(
    labels: Int[Array, "S L"], size: Int[Array, " S"], capacity: int
) -> Int[Array, "S K"]:
    """The number of items of each cluster in each group."""
    present = (jnp.arange(labels.shape[1]) < size[:, None]).astype(jnp.int32)
    zeros = jnp.zeros((len(size), capacity), jnp.int32)
    return zeros.at[jnp.arange(len(size))[:, None], labels].add(present)


def openings(
    anchors: Anchors,
    block: Int[Array, " S"],
    rank: Int[Array, " S"],
    labels: Int[Array, "S L"],
    size: Int[Array, " S"],
) -> Int[Array, "S K"]:
    """The item past which each cluster is open: they are ordered by block, group and place.

    Args:
        rank: that of each group's first item.
    """
    place = jnp.arange(labels.shape[1])
    item, present = rank[:, None] + place, place < size[:, None]
    # an anchor is an item, not a group: others of its group may come before it
    first = anchors.by_label(block[:, None], item, labels, present)
    return anchors.since(block, first).T


def ratios(
    key: Any, g: Float[Array, ""], index: Int[Array, " S"], size: Int[Array, " S"]
) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """The sums of log w_s, w_s ~ Beta(g + 1, n_s), and of e_s ~ Bernoulli(n_s / (n_s + g))."""

    def group(index: Array, size: Array) -> tuple[Array, Array]:
        gamma_key, pick_key = jax.random.split(jax.random.fold_in(key, index))
        log_w, _ = log_beta(gamma_key, g + 1, jnp.maximum(size, 1).astype(g.dtype))
        picked = jax.random.uniform(pick_key, dtype=g.dtype) * (size + g) < size
        # an empty group says nothing of g
        return jnp.where(size > 0, log_w, 0), picked

    logs, picked = jax.vmap(group)(index, size)
    return jnp.sum(logs), jnp.sum(picked, dtype=jnp.int32)
