"""Customers of a restaurant franchise choose dishes: one block after the other, or all at once."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ...families import Family
from ...random import log_beta
from .anchors import Anchors, visited
from .points import pick

_GROUPS = 8  # of restaurants of like sizes, which are swept together


class Menu(NamedTuple):
    """The dishes: which are instantiated, and the weights in G_0 of each and of all others."""

    instantiated: Bool[Array, " K"]
    weights: Float[Array, " K"]
    rest: Float[Array, ""]


class Sweep(NamedTuple):
    """What a sweep of a block carries: labels, and each dish's customers by number, sum and law."""

    labels: Int[Array, "S L"]
    counts: Int[Array, " K"]
    stats: PyTree
    predictive: PyTree
    menu: Menu
    unvisited: Int[Array, " K"]
    overflow: Bool[Array, ""]


def sweep_block(
    family: Family,
    hyper: dict[str, Array],
    menu: Menu,
    params: PyTree,
    items: PyTree,
    size: Int[Array, " S"],
    labels: Int[Array, "S L"],
    uniforms: Float[Array, "sweeps S L 2"],
    *,
    demote: bool,
) -> tuple[Int[Array, "S L"], Menu, Bool[Array, ""]]:
    """Gibbs sweeps over a block's customers, with the dishes that are the block's own collapsed.

    With g the group concentration, a the concentration and counts without the customer itself,

        P(z = k) ~ (n_sk + g w_k) f(x | theta_k)                 k instantiated
                   (n_sk + g w_k) f(x | customers of k)          k another dish
                   g w_0 f(x)                                    a new dish

    A new dish takes the share b ~ Beta(1, a) of w_0, and one that has lost its last customer
    returns its weight. With `demote`, the parameters of a dish are integrated out as its last
    customer that has not been visited is visited.

    Returns:
        the labels, the menu, and whether a birth found no free slot.
    """
    capacity = menu.weights.shape[0]
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), items)
    stats = family.label_statistics(flat, masked_labels(labels, size).ravel(), capacity)
    counts = jnp.sum(count_dishes(labels, size, capacity), axis=0)
    empty = family.zero_statistics(1, jax.tree.map(lambda x: x[0], flat))
    prior = family.predictive(empty)
    start = Sweep(
        labels, counts, stats, family.predictive(stats), menu, counts, jnp.zeros((), bool)
    )

    def restaurant(i: Array, sweep: Sweep) -> Sweep:
        s = i % labels.shape[0]
        guests = jax.tree.map(lambda x: x[s], items)
        loglik = family.loglik(params, guests)
        seated = count_dishes(sweep.labels[s][None], size[s][None], capacity)[0]

        def visit(p: Array, loop: tuple[Sweep, Array]) -> tuple[Sweep, Array]:
            sweep, seated = loop
            item, dish = jax.tree.map(lambda x: x[p], guests), sweep.labels[s, p]
            left = _return_weight(_move(family, sweep, dish, item, -1), dish)
            if demote:
                left = _demote(left, dish)
            seated = seated.at[dish].add(-1)
            law = family.log_predictive_of(left.predictive, item)
            born = family.log_predictive_of(prior, item)[0]
            logits = _logits(hyper, left, seated, jnp.concatenate([born[None], law]), loglik[:, p])
            choice_uniform, weight_uniform = uniforms[i // labels.shape[0], s, p]
            choice = pick(logits, choice_uniform)
            free = ~left.menu.instantiated & (left.counts == 0)
            slot = jnp.where(choice == 0, jnp.argmax(free), choice - 1).astype(labels.dtype)
            menu = _give_weight(hyper, left.menu, slot, weight_uniform)
            menu = jax.tree.map(lambda new, old: jnp.where(choice == 0, new, old), menu, left.menu)
            joined = _move(family, left._replace(menu=menu), slot, item, 1)
            lost = (choice == 0) & ~jnp.any(free)
            joined = joined._replace(
                labels=joined.labels.at[s, p].set(slot), overflow=joined.overflow | lost
            )
            return joined, seated.at[slot].add(1)

        return jax.lax.fori_loop(0, size[s], visit, (sweep, seated))[0]

    num = uniforms.shape[0] * labels.shape[0]
    end = jax.lax.fori_loop(0, num, restaurant, start)
    return end.labels, end.menu, end.overflow


def _move(family: Family, sweep: Sweep, k: Array, item: PyTree, sign: int) -> Sweep:
    """The sweep as a customer joins dish k (sign 1) or leaves it (-1)."""
    count = sweep.counts[k] + sign
    stats, predictive = family.move(sweep.stats, sweep.predictive, k, count, item, sign)
    counts = sweep.counts.at[k].set(count)
    return sweep._replace(counts=counts, stats=stats, predictive=predictive)


def _logits(
    hyper: dict[str, Array], sweep: Sweep, seated: Array, predictive: Array, loglik: Array
) -> Float[Array, " K+1"]:
    """The log weights of a new dish and of every slot; `predictive` begins with a new dish's."""
    (instantiated, weights, rest), g = sweep.menu, hyper["group_concentration"]
    law = jnp.where(instantiated, loglik, predictive[1:])
    offered = instantiated | (sweep.counts > 0)
    slots = jnp.where(offered, jnp.log(seated + g * weights) + law, -jnp.inf)
    return jnp.concatenate([(jnp.log(g * rest) + predictive[0])[None], slots])


def _return_weight(sweep: Sweep, k: Array) -> Sweep:
    """The sweep with the weight of slot k given back, if that is an empty dish of the tail."""
    (instantiated, weights, rest), counts = sweep.menu, sweep.counts
    back = jnp.where(~instantiated[k] & (counts[k] == 0), weights[k], 0)
    return sweep._replace(menu=Menu(instantiated, weights.at[k].add(-back), rest + back))


def _give_weight(hyper: dict[str, Array], menu: Menu, k: Array, uniform: Array) -> Menu:
    """The menu with a new dish in slot k: w_k = b w_0, b ~ Beta(1, a)."""
    share = -jnp.expm1(jnp.log(uniform) / hyper["concentration"])
    weight = share * menu.rest
    return menu._replace(weights=menu.weights.at[k].set(weight), rest=menu.rest - weight)


def _demote(sweep: Sweep, k: Array) -> Sweep:
    """The sweep with a customer of dish k visited; with the last one, the dish joins the tail."""
    has = jnp.arange(sweep.counts.shape[0]) == k
    unvisited, instantiated = visited(sweep.unvisited, sweep.menu.instantiated, has)
    menu = sweep.menu._replace(instantiated=instantiated)
    return _return_weight(sweep._replace(unvisited=unvisited, menu=menu), k)


def sweep_restaurants(
    family: Family,
    hyper: dict[str, Array],
    menu: Menu,
    params: PyTree,
    since: Int[Array, "S K"],
    rank: Int[Array, " S"],
    items: PyTree,
    size: Int[Array, " S"],
    labels: Int[Array, "S L"],
    uniforms: Float[Array, "sweeps S L"],
) -> Int[Array, "S L"]:
    """Gibbs sweeps over restaurants among the instantiated dishes, one customer of each at once.

        P(z = k) ~ (n_sk + g w_k) f(x | theta_k)        k open to the customer

    Anchors keep their dish. Restaurants are independent, so that those of like sizes go together.

    Args:
        since, rank: the customers past which dishes are open, and each restaurant's first one; see
            `openings`.
    """
    order = jnp.argsort(size)
    missing = -len(size) % _GROUPS
    rows = jnp.concatenate([jnp.zeros(missing, order.dtype), order]).reshape(_GROUPS, -1)
    sizes = jnp.where(jnp.arange(rows.size).reshape(rows.shape) < missing, 0, size[rows])
    prior = jnp.where(menu.instantiated, hyper["group_concentration"] * menu.weights, 0)
    prior = prior.astype(uniforms.dtype)

    def group(args: tuple[Array, Array]) -> Array:
        row, size = args
        guests = jax.tree.map(lambda x: x[row], items)
        begins, first = since[row], rank[row]
        lane = jnp.arange(len(row))

        def visit(p: Array, loop: tuple[Array, Array], uniform: Array) -> tuple[Array, Array]:
            labels, seated = loop
            old = labels[:, p]
            was = (old[:, None] == jnp.arange(len(prior))) & (p < size)[:, None]
            here = first + p
            anchor = begins[lane, old] >= here
            loglik = family.scores(params, jax.tree.map(lambda x: x[:, p], guests)).T
            open_ = menu.instantiated & (begins < here[:, None])
            loglik = jnp.where(open_, loglik, -jnp.inf)
            likelihood = jnp.exp(loglik - jnp.max(loglik, axis=1, keepdims=True))
            weights = jnp.where(open_, (seated - was + prior) * likelihood, 0)
            cumulative = _running_sums(weights)
            below = cumulative < uniform[:, None] * cumulative[:, -1:]
            new = jnp.where(anchor | (p >= size), old, jnp.sum(below, axis=1, dtype=old.dtype))
            now = (new[:, None] == jnp.arange(len(prior))) & (p < size)[:, None]
            return labels.at[:, p].set(new), seated - was + now

        def sweep(loop: tuple[Array, Array], uniform: Array) -> tuple[tuple[Array, Array], None]:
            body = lambda p, loop: visit(p, loop, uniform[row, p])
            return jax.lax.fori_loop(0, jnp.max(size), body, loop), None

        seated = count_dishes(labels[row], size, len(prior)).astype(prior.dtype)
        return jax.lax.scan(sweep, (labels[row], seated), uniforms)[0][0]

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


def seat(
    hyper: dict[str, Array],
    weights: Float[Array, " K"],
    size: Int[Array, " S"],
    labels: Int[Array, "S L"],
    uniforms: Float[Array, "S L"],
) -> Int[Array, " K"]:
    """The number of tables of each dish, drawn given every customer's dish and the weights.

    A customer of dish k after i others of his restaurant sits at a new table with probability
    g w_k / (g w_k + i).
    """
    mass, capacity = hyper["group_concentration"] * weights, weights.shape[0]
    guests = jnp.arange(len(size))

    def visit(p: Array, loop: tuple[Array, Array]) -> tuple[Array, Array]:
        seated, tables = loop
        dish, present = labels[:, p], p < size
        before = seated[guests, dish]
        new = (before == 0) | (uniforms[:, p] * (mass[dish] + before) < mass[dish])
        seated = seated.at[guests, dish].add(present.astype(seated.dtype))
        return seated, tables.at[dish].add((new & present).astype(tables.dtype))

    start = jnp.zeros((len(size), capacity), jnp.int32), jnp.zeros(capacity, jnp.int32)
    return jax.lax.fori_loop(0, jnp.max(size, initial=0), visit, start)[1]


def masked_labels(labels: Int[Array, "S L"], size: Int[Array, " S"]) -> Int[Array, "S L"]:
    """The labels, -1 where there is no customer."""
    return jnp.where(jnp.arange(labels.shape[1]) < size[:, None], labels, -1)


def count_dishes(
    labels: Int[Array, "S L"], size: Int[Array, " S"], capacity: int
) -> Int[Array, "S K"]:
    """The number of customers of each dish in each restaurant."""
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
    """The customer past whom each dish is open: they are ordered by block, restaurant and seat.

    Args:
        rank: that of each restaurant's first customer.
    """
    seats = jnp.arange(labels.shape[1])
    customer, present = rank[:, None] + seats, seats < size[:, None]
    first = anchors.by_label(block[:, None], customer, labels, present)
    return anchors.since(block, first).T


def ratios(key: Any, g: Array, index: Int[Array, " S"], size: Int[Array, " S"]) -> tuple:
    """The sums of log w_s, w_s ~ Beta(g + 1, n_s), and of e_s ~ Bernoulli(n_s / (n_s + g))."""

    def restaurant(index: Array, size: Array) -> tuple[Array, Array]:
        gamma_key, pick_key = jax.random.split(jax.random.fold_in(key, index))
        log_w, _ = log_beta(gamma_key, g + 1, jnp.maximum(size, 1).astype(g.dtype))
        picked = jax.random.uniform(pick_key, dtype=g.dtype) * (size + g) < size
        return jnp.where(size > 0, log_w, 0), picked

    logs, picked = jax.vmap(restaurant)(index, size)
    return jnp.sum(logs), jnp.sum(picked, dtype=jnp.int32)
