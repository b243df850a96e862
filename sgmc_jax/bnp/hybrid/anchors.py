"""Which atoms are instantiated, and which entries may move: the two rules that are exact.

A sweep given the weights and parameters of some atoms A, all others integrated out, leaves the
posterior invariant if A does not depend on the entries that move while A is in force. The atoms in
use are no such A: an item that leaves a cluster that it has to itself changes A, and could not come
back. Two rules keep A in place.

**Anchors**, for all blocks at once. The designated block, and an order of all items of the other
blocks, are drawn without regard to the entries. A is what those items use, and an atom's anchor is
the first of them that uses it. Then

    an anchor keeps its atom, and an item may take an atom only if the anchor comes before it.

No entry that is free can be an atom outside A, nor make its item an earlier user of one inside: A
and the anchors are functions of the entries that are kept, and the same for every value of the free
ones, whose conditionals are therefore those that a constant A would give them. Given A the items
off the designated block are independent, and move at once. In the designated block all is free:
whether its items use an atom does not tell whether it is in A.

**Demotion**, one item after the other. A is at first all atoms in use. As an item is visited that
is the last unvisited one with an atom of A, that atom leaves A and is integrated out again. What A
is at a visit then depends on the entries of later items alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

_NEVER = jnp.iinfo(jnp.int32).max


class Anchors(NamedTuple):
    """The designated block, the order of the others, and where in it each atom begins.

    An atom that begins nowhere has the number of blocks as its rank: it is no instantiated atom.
    """

    star: Int[Array, ""]
    block_rank: Int[Array, " P"]
    atom_rank: Int[Array, " K"]

    @property
    def instantiated(self) -> Bool[Array, " K"]:
        """The atoms A: those used off the designated block."""
        return self.atom_rank < self.block_rank.shape[0]

    def by_label(
        self,
        block: Int[Array, "..."],
        rank: Int[Array, "*n"],
        labels: Int[Array, "*n"],
        real: Bool[Array, "*n"],
    ) -> Int[Array, " K"]:
        """The rank, in its block, of each atom's anchor, for items with a label each."""
        # off the block where an atom begins no item is its anchor, however early it comes there
        begins = real & (self.block_rank[block] == self.atom_rank[labels])
        # padding has a label too, but anchors nothing
        never = jnp.full(len(self.atom_rank), _NEVER)
        return never.at[labels.ravel()].min(jnp.where(begins, rank, _NEVER).ravel())

    def by_entry(
        self, block: Int[Array, " n"], rank: Int[Array, " n"], has: Bool[Array, "K n"]
    ) -> Int[Array, " K"]:
        """The same for items with any number of atoms each."""
        # no mask is needed here: padding has no entries
        begins = has & (self.block_rank[block] == self.atom_rank[:, None])
        return jnp.min(jnp.where(begins, rank, _NEVER), axis=1, initial=_NEVER)

    def since(self, block: Int[Array, " n"], first: Int[Array, " K"]) -> Int[Array, "K n"]:
        """The rank past which each atom is open to the items of a block.

        Every item has a rank in its block, and may take the atoms with `since < rank`. What it has
        of the others it keeps: those that began with itself. The designated block is swept apart:
        what is said of it here is not used.

        Args:
            block: the block of each item.
            first: the rank of each atom's anchor, of `by_label` or `by_entry`.
        """
        begins, here = self.atom_rank[:, None], self.block_rank[block]
        # an atom that begins in a later block, or nowhere, is closed to all of this one
        begun = jnp.where(begins == here, first[:, None], _NEVER)
        # ranks begin at 0: past -1 are all items of the block
        return jnp.where(begins < here, -1, begun)


def draw_anchors(key: Any, occupancy: Int[Array, "P K"], *, anchored: bool) -> Anchors:
    """The designated block and, by a random order of the others, each atom's first block.

    Where nothing is anchored, all atoms in use are instantiated, and begin before every block.
    """
    star_key, order_key = jax.random.split(key)
    num_blocks = occupancy.shape[0]
    # uniform over all blocks, empty ones too: what is in them must not weigh
    star = jax.random.randint(star_key, (), 0, num_blocks)
    block_rank = jax.random.permutation(order_key, num_blocks)
    if anchored:
        # all entries of the designated block may move, so that none may tell what A is
        used = (occupancy > 0) & (jnp.arange(num_blocks) != star)[:, None]
        atom_rank = jnp.min(jnp.where(used, block_rank[:, None], num_blocks), axis=0)
    else:
        # before every block: no item is an anchor, and none comes too early
        atom_rank = jnp.where(jnp.any(occupancy > 0, axis=0), -1, num_blocks)
    return Anchors(star, block_rank, atom_rank)


def visited(
    unvisited: Int[Array, " K"], instantiated: Bool[Array, " K"], has: Bool[Array, " K"]
) -> tuple[Int[Array, " K"], Bool[Array, " K"]]:
    """Demotion: the items left to visit of each atom, and what remains of A, as an item is visited.

    Args:
        unvisited: the items of each atom that have not been visited, this one included.
        instantiated: A.
        has: the atoms that the item uses.
    """
    # an item that has joined since its visit is not counted, and keeps no atom in A
    unvisited = unvisited - has
    return unvisited, instantiated & ~(has & (unvisited == 0))
