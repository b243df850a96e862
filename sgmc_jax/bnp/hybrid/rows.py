"""One row after the other: the part of a feature sampler in which features are born and die."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt

from ...families import EntryLikelihood, FeatureFamily, FeatureRows, RowLikelihood
from ...processes import CountLikelihood, FeatureProcess
from ...random import poisson
from ...random.accept import passes
from ...random.words import uniform, word_keys, word_pair
from .anchors import visited


class Atoms(NamedTuple):
    """The instantiated atoms A: their slots, and the log weights that the process gave them."""

    instantiated: Bool[Array, " K"]
    log_weight: Float[Array, " K"]


class Turn(NamedTuple):
    """Random numbers of a visit: marks that order the columns, and those of entries and births."""

    mark: UInt[Array, " K"]
    uniform: Float[Array, " K"]
    births: Int[Array, ""]
    size: Int[Array, " K"]
    accept: Float[Array, ""]
    key: Any


class Sweep(NamedTuple):
    """What a sweep carries.

    Each column's sum over all items, the atoms, the parameters (those that are instantiated or
    explicit), what the family carries of the block's rows, the number of rows not yet visited that
    have each feature, and whether a birth found no free slot.
    """

    counts: Int[Array, " K"]
    atoms: Atoms
    params: PyTree
    carried: PyTree
    unvisited: Int[Array, " K"]
    overflow: Bool[Array, ""]


def sweep_block(
    key: Any,
    process: FeatureProcess,
    family: FeatureFamily,
    hyper: dict[str, Array],
    atoms: Atoms,
    params: PyTree,
    counts: Int[Array, " K"],
    rows: FeatureRows,
    num_items: Any,
    *,
    num_sweeps: int,
    demote: bool,
    cradles: Bool[Array, " K"] | None = None,
) -> tuple[Int[Array, "n K"], PyTree, Bool[Array, ""]]:
    """Gibbs sweeps over a block's rows, with the atoms of the tail integrated out.

    The columns that other rows have are visited in the order of iid marks, drawn for every visit:
    by the order of slots a newborn column, zero elsewhere, would tell by its place about the entry
    that is updated. An entry has the log odds of `process` plus those of the likelihood. All
    columns that the row has to itself are then proposed anew from their prior, and taken with
    probability min(1, likelihood ratio). With `demote`, an atom joins the tail, without its weight,
    as the last of its rows that has not been visited is visited.

    Args:
        counts: the sums of the columns over all items.
        rows: the block's.
        num_items: n, of all blocks.
        cradles: the slots in which features may be born, if they are free; by default all.

    Returns:
        the entries, the parameters, and whether a birth found no free slot.
    """

    def visit(sweep: Sweep, row: tuple) -> tuple[Sweep, Int[Array, " K"]]:
        item, old, real, turn = row
        if demote:
            # before it is known what the row keeps: A may depend on rows still to come alone
            sweep = _demote(family, sweep, old)
        left = _move(family, sweep, item, old, -real.astype(jnp.int32))
        left = left._replace(carried=family.restored(left.carried, left.params))
        instantiated = left.atoms.instantiated
        # a column of the tail is zero off the block, so that its other rows are all here
        shared = ~instantiated & (left.counts > 0)
        own = ~instantiated & ~shared  # and free slots; as others have it, whatever this row has
        # what the row has to itself was born here, among the block's cradles, or is instantiated
        own = own if cradles is None else own & cradles
        likelihood = family.alone(hyper, left.params, left.carried, shared, own, item, old)
        entries, likelihood = _entries(process, hyper, left, likelihood, turn, old, num_items)
        # given the entries just drawn: the columns of its own are all that is left of the row
        entries, params, lost = _singletons(family, left.params, likelihood, own, turn, entries)
        # padding is visited like a row, and leaves no trace
        entries, params = optax.tree.where(real, (entries, params), (old, left.params))
        joined = left._replace(params=params, overflow=left.overflow | (lost & real))
        return _move(family, joined, item, entries, real.astype(jnp.int32)), entries

    def once(loop: tuple[Sweep, Array], turns: Turn) -> tuple[tuple[Sweep, Array], None]:
        sweep, features = loop
        return jax.lax.scan(visit, sweep, (rows.items, features, rows.real, turns)), None

    capacity, num_rows = rows.features.shape
    turns = _turns(key, process, hyper, num_sweeps, (capacity, num_rows), num_items)
    # rows, however often each has the feature
    unvisited = jnp.sum(rows.features > 0, axis=1, dtype=jnp.int32)
    stats, none = family.statistics(params, rows), jnp.zeros((), bool)
    carried = family.carried(hyper, stats, atoms.instantiated)
    start = Sweep(counts, atoms, params, carried, unvisited, none)
    (end, features), _ = jax.lax.scan(once, (start, rows.features.T), turns)
    return features, end.params, end.overflow


def _turns(
    key: Any,
    process: FeatureProcess,
    hyper: dict[str, Array],
    num_sweeps: int,
    shape: tuple[int, int],
    num_items: Any,
) -> Turn:
    """All visits (sweeps, n, ...); a slot's numbers do not depend on how many slots there are."""
    capacity, size = shape
    word_key, number_key, birth_key = jax.random.split(key, 3)
    dtype = hyper["mass"].dtype
    # counters of visit and slot: more slots leave those of the first as they are
    visits = jnp.arange(num_sweeps * size, dtype=jnp.uint32).reshape(num_sweeps, size)
    lanes = jnp.broadcast_to(visits[..., None], (num_sweeps, size, capacity))
    slots = jnp.arange(capacity, dtype=jnp.uint32)
    entry_cipher, birth_cipher, accept_cipher = word_keys(word_key, 3)
    mark, entry = word_pair(entry_cipher, lanes, slots, dtype)
    u, v = (uniform(word, dtype) for word in word_pair(birth_cipher, lanes, slots, dtype))
    return Turn(
        mark=mark,
        uniform=uniform(entry, dtype),
        # of all the infinitely many columns that the row may have to itself
        births=poisson(number_key, jnp.full(visits.shape, process.birth_rate(hyper, num_items))),
        size=process.birth_size(hyper, num_items, u, v),
        accept=uniform(word_pair(accept_cipher, visits, 0, dtype)[0], dtype),
        key=jax.random.split(birth_key, visits.shape),
    )


def _move(
    family: FeatureFamily, sweep: Sweep, item: Any, entries: Int[Array, " K"], sign: Int[Array, ""]
) -> Sweep:
    """The sweep with a row put in (sign 1), taken out (-1), or neither (0)."""
    carried = family.move(sweep.carried, sweep.params, item, entries, sign)
    return sweep._replace(counts=sweep.counts + sign * entries, carried=carried)


def _demote(family: FeatureFamily, sweep: Sweep, entries: Int[Array, " K"]) -> Sweep:
    """The sweep as a row is about to be visited: atoms that no later row has join the tail."""
    unvisited, instantiated = visited(sweep.unvisited, sweep.atoms.instantiated, entries > 0)
    carried, params = family.demote(sweep.carried, sweep.params, instantiated)
    # a weight is not handed on: in the tail a column's sum tells all that is known of it
    return sweep._replace(
        atoms=sweep.atoms._replace(instantiated=instantiated),
        params=params,
        carried=carried,
        unvisited=unvisited,
    )


def _entries(
    process: FeatureProcess,
    hyper: dict[str, Array],
    left: Sweep,
    likelihood: RowLikelihood,
    turn: Turn,
    entries: Int[Array, " K"],
    num_items: Any,
) -> tuple[Int[Array, " K"], RowLikelihood]:
    """The row's entries in columns that are instantiated or that other rows have."""
    instantiated, log_weight = left.atoms
    visited = instantiated | (left.counts > 0)
    # slots that are not visited have the last mark, and the loop ends before them
    order = jnp.argsort(jnp.where(visited, turn.mark, ~jnp.zeros_like(turn.mark)))
    # what depends on no other column, of all at once: on a CPU a turn of a loop costs by the number
    # of its operations, however small they are
    lower, unused = process.lower(entries, turn.uniform)
    # given the sum of the others, as the row itself has been taken out
    in_tail = jax.vmap(partial(process.log_tail_step, hyper), (0, None, 0))
    of_tail = in_tail(left.counts, num_items, lower)
    log_step = jnp.where(instantiated, jax.vmap(process.log_step)(log_weight, lower), of_tail)
    # unused <= sigmoid(odds) is level <= odds; uniforms are 1 at times, of infinite level, never 0
    level = jnp.log(unused) - jnp.log1p(-unused)

    def column(j: Int[Array, ""], loop: tuple) -> tuple:
        (drawn, likelihood), k = loop, order[j]
        odds = log_step[k] + likelihood.gain(k, entries[k], lower[k])
        new = _new_entry(entries[k], lower[k], odds, level[k] <= odds)
        return drawn.at[k].set(new), likelihood.change(k, new - entries[k])

    return jax.lax.fori_loop(0, jnp.sum(visited), column, (entries, likelihood))


def draw_entries(
    process: FeatureProcess | CountLikelihood,
    likelihood: EntryLikelihood,
    log_step: Callable[[Int[Array, "*n"]], Float[Array, "..."]],
    k: Int[Array, ""],
    entry: Int[Array, "*n"],
    uniform: Float[Array, "*n"],
    frozen: Any,
) -> tuple[Int[Array, "*n"], Any]:
    """New entries of column k, of one row or of many, each within a pair of neighbours.

    An entry is -1 if its odds are NaN.
    """
    lower, unused = process.lower(entry, uniform)
    odds = log_step(lower) + likelihood.gain(k, entry, lower)
    # uniforms are 1 at times, and never 0
    new = _new_entry(entry, lower, odds, unused <= jax.nn.sigmoid(odds))
    new = jnp.where(frozen, entry, new)  # an anchor stays
    return new, likelihood.change(k, new - entry)


def _new_entry(
    entry: Int[Array, "*n"],
    lower: Int[Array, "*n"],
    odds: Float[Array, "*n"],
    higher: Bool[Array, "*n"],
) -> Int[Array, "*n"]:
    """A Gibbs draw of two neighbours: from either of them their pair is chosen as likely."""
    drawn = jnp.where(jnp.isnan(odds), -1, lower + higher)
    # an entry whose pair would reach out of the range stays
    return jnp.where((lower < 0) | (entry < 0), entry, drawn)


def _singletons(
    family: FeatureFamily,
    params: PyTree,
    likelihood: RowLikelihood,
    own: Bool[Array, " K"],
    turn: Turn,
    entries: Int[Array, " K"],
) -> tuple[Int[Array, " K"], PyTree, Bool[Array, ""]]:
    """New columns for the row alone, in the lowest free slots, instead of those it has."""
    # columns are in no order: which of its slots they take does not matter
    born = own & (jnp.cumsum(own) <= turn.births)
    proposal = jnp.where(born, turn.size, jnp.where(own, 0, entries))
    newborn = family.births(turn.key, params, born)
    # proposed by their prior given all else, which leaves of the ratio the likelihood's alone
    taken = passes(turn.accept, likelihood.ratio(proposal, newborn))
    # even if it is refused: a proposal that was cut short is not from the prior
    lost = turn.births > jnp.sum(own)
    return *optax.tree.where(taken, (proposal, newborn), (entries, params)), lost
