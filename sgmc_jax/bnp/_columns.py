"""The first atoms of a series in their order: those in use, and empty ones in the free slots."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Weighed(NamedTuple):
    """Atoms by their weights, as `log_step` wants them, and where they are in the series.

    `v` and `place` are V and g; `known` is false for an index that has no atom, and `blank` true
    where such an index counts in the order all the same.
    """

    log_weight: Float[Array, " K"]
    v: Float[Array, " K"]
    place: Float[Array, " K"]
    known: Bool[Array, " K"]
    blank: Bool[Array, " K"] | None = None


class Ordered(NamedTuple):
    """The first atoms of the series, those in use and empty ones, each in a slot.

    `order` lists the slots by their places, and `blanks` how many indices without an atom come
    before each. Of the series the first `number` are known, atoms and blanks; `lost` is whether an
    atom in use is not among these.
    """

    log_weight: Float[Array, " K"]
    v: Float[Array, " K"]
    place: Float[Array, " K"]
    order: Int[Array, " K"]
    number: Int[Array, ""]
    lost: Bool[Array, ""]
    blanks: Int[Array, " K"] | int = 0

    @property
    def rank(self) -> Int[Array, " K"]:
        """The rank of each of `order`, from 1 on."""
        return 1 + jnp.arange(self.order.shape[0], dtype=jnp.int32) + self.blanks


def in_order(used: Weighed, empty: Weighed) -> Ordered:
    """The atoms in use in their slots, and the first empty ones in the lowest free slots.

    Of the series is known what comes before the first empty atom that has no slot, and before the
    last point that was drawn.
    """
    capacity, number = used.place.shape[0], empty.place.shape[0]
    # one more than there are slots: the first atom without one bounds what is known
    first = jnp.argsort(~empty.known, stable=True)[: capacity + 1]
    found = jnp.arange(capacity + 1) < jnp.sum(empty.known)
    places = jnp.where(found, empty.place[first], jnp.inf)
    free = ~used.known
    # from here on the series has atoms without a slot, or not drawn at all
    end = jnp.minimum(places[jnp.sum(free)], empty.place[number - 1])
    # the number of the empty atom that a free slot is given
    turn = jnp.cumsum(free) - 1

    def by_slot(own: Float[Array, " K"], others: Float[Array, " K+1"]) -> Float[Array, " K"]:
        return jnp.where(free, others[turn], own)

    place = by_slot(used.place, places)
    # an atom in use past the end has no rank yet: it is `lost`
    within = place < end
    order = jnp.argsort(jnp.where(within, place, jnp.inf))
    atoms = Ordered(
        by_slot(used.log_weight, empty.log_weight[first]),
        by_slot(used.v, empty.v[first]),
        place,
        order,
        jnp.sum(within),
        jnp.any(used.known & ~within),
    )
    if empty.blank is None:
        return atoms
    # indices without an atom take no slot, but ranks count them
    till = jnp.cumsum(empty.blank & (empty.place < end), dtype=jnp.int32)
    before = jnp.searchsorted(empty.place, place[order])  # points before each of the order
    blanks = jnp.where(before > 0, till[before - 1], 0)
    return atoms._replace(blanks=blanks, number=atoms.number + till[-1])


def last_before(
    features: Int[Array, "K n"], order: Int[Array, " K"], rank: Int[Array, " K"]
) -> tuple[Int[Array, " n"], Int[Array, "K n"]]:
    """The rank of each row's last column in the series, and of its last before each of them."""

    def column(last: Array, one: tuple[Array, Array]) -> tuple[Array, Array]:
        slot, rank = one
        return jnp.where(features[slot] > 0, rank, last), last

    none = jnp.zeros(features.shape[1], jnp.int32)
    return jax.lax.scan(column, none, (order, rank))
