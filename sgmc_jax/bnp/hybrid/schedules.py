"""Schedules of a hybrid step: what is instantiated, what may move, and where atoms are born."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ... import _checks
from ..._checks import scalar
from .anchors import Anchors, draw_anchors
from .blocks import Blocks


class Schedule(eqx.Module):
    """What a step of a hybrid sampler instantiates, what may move, and where atoms are born.

    Attributes:
        demotes: whether atoms are integrated out again as their last item is visited.
        instantiates: whether there are atoms for the items off the designated block.
        several: whether atoms are born in several blocks.
    """

    demotes: ClassVar[bool] = False
    instantiates: ClassVar[bool] = True
    several: ClassVar[bool] = False

    @abstractmethod
    def anchors(self, key: Any, occupancy: Int[Array, "P K"]) -> Anchors:
        """The designated block, and which atoms are instantiated, where they begin.

        Args:
            occupancy: the number of items of each block with each atom.
        """

    def births(
        self,
        sweep: Callable,
        anchors: Anchors,
        blocks: Blocks,
        sums: Any,
        count: Any,
        z: Int[Array, "n *k"],
    ) -> tuple[Int[Array, "n *k"], PyTree]:
        """The sweeps in which atoms are born: here, in the designated block.

        Args:
            sweep: given a function that takes a block's rows out of an array along an axis, returns
                the block's new rows, and what else is to be known of it; `Warm` and `Asynchronous`
                say more of a block.
            sums: those of the last synchronisation.
            count: the index of the step, or `None`.
            z: the labels or entries of all rows.
        """
        return blocks.on_star(anchors.star, sweep, z)

    def check(self, blocks: int, local_sweeps: int) -> None:
        """Raise on numbers of blocks and sweeps that do not go with the schedule."""


class Anchored(Schedule):
    """Exact, in any number of blocks. A is what other blocks use.

    In a random order of their items each atom's first item (its anchor) keeps it, and earlier items
    may not take it: what A is then depends on no entry that moves.

    Example: an atom of both blocks is one of A, whichever is designated.
        >>> import jax, jax.numpy as jnp
        >>> items = jnp.array([[2, 0], [1, 0]])  # of each block with each atom
        >>> Anchored().anchors(jax.random.key(0), items).instantiated.tolist()
        [True, False]
    """

    def anchors(self, key: Any, occupancy: Int[Array, "P K"]) -> Anchors:
        return draw_anchors(key, occupancy, anchored=True)


class Demotion(Schedule):
    """Exact and serial, in one block. A is every atom in use.

    An atom is integrated out again, with its weight, as its last item that has not been visited is
    visited.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> items = jnp.array([[2, 1, 0]])  # of each block with each atom
        >>> Demotion().anchors(jax.random.key(0), items).instantiated.tolist()
        [True, True, False]
    """

    demotes: ClassVar[bool] = True

    def anchors(self, key: Any, occupancy: Int[Array, "P K"]) -> Anchors:
        return draw_anchors(key, occupancy, anchored=False)

    def check(self, blocks: int, local_sweeps: int) -> None:
        if blocks > 1 or local_sweeps > 1:
            raise ValueError(
                "blocks and local_sweeps must be 1 for the schedule Demotion(), which is serial: "
                f"got {blocks} and {local_sweeps}"
            )


class Published(Schedule):
    """The schedule of Dubey et al. (2020): A is every atom in use, and every item is free.

    It is *not* exact: A depends on entries that move. With several blocks atoms die on all and are
    born on one.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> items = jnp.array([[2, 0, 0], [1, 1, 0]])  # of each block with each atom
        >>> Published().anchors(jax.random.key(0), items).instantiated.tolist()
        [True, True, False]
    """

    def anchors(self, key: Any, occupancy: Int[Array, "P K"]) -> Anchors:
        return draw_anchors(key, occupancy, anchored=False)


class Warm(Published):
    """`Published`, with births in all blocks at first, and in ever fewer.

    After t steps there are births in max(1, ceil(P 2^(-t / cooling))) blocks, drawn in every step;
    block p puts new clusters, or features, into the slots k = p mod P. See `warm_mixture` and
    `warm_features`.

    Args:
        cooling: the number of steps in which the number of these blocks halves.

    Example:
        >>> from sgmc_jax.bnp import DirichletProcess, NormalKnownCovariance, Warm, hybrid_mixture
        >>> parts = DirichletProcess(1.0), NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> kernel = hybrid_mixture(*parts, schedule=Warm(cooling=10.0), blocks=4)
        >>> kernel.blocks, float(kernel.schedule.cooling)
        (4, 10.0)
    """

    several: ClassVar[bool] = True

    cooling: Float[Array, ""] = eqx.field(converter=scalar("cooling"), default=3.0)

    def __check_init__(self):
        _checks.positive("cooling", self.cooling)

    def births(
        self,
        sweep: Callable,
        anchors: Anchors,
        blocks: Blocks,
        sums: Any,
        count: Any,
        z: Int[Array, "n *k"],
    ) -> tuple[Int[Array, "n *k"], PyTree]:
        num, slot = blocks.num_blocks, jnp.arange(sums.counts.shape[0])
        # the power underflows in the end, but one block is always left
        count = jnp.asarray(0 if count is None else count)
        eligible = jnp.maximum(1, jnp.ceil(num * 0.5 ** (count / self.cooling)))
        # clusters of two blocks in one slot would be summed as one
        cradled = lambda p, rows: sweep(rows, cradles=slot % num == p)
        return blocks.on_several(anchors.block_rank < eligible, cradled, z)


class Asynchronous(Schedule):
    """All blocks at once, everything integrated out, from sums out of date.

    See `asynchronous_mixture`. It is *not* exact.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> items = jnp.array([[2, 0], [1, 1]])  # of each block with each atom
        >>> Asynchronous().anchors(jax.random.key(0), items).instantiated.tolist()
        [False, False]
    """

    instantiates: ClassVar[bool] = False
    several: ClassVar[bool] = True

    def anchors(self, key: Any, occupancy: Int[Array, "P K"]) -> Anchors:
        """Nothing is instantiated."""
        # A is empty, and w_0 all of the weight
        return draw_anchors(key, jnp.zeros_like(occupancy), anchored=False)

    def births(
        self,
        sweep: Callable,
        anchors: Anchors,
        blocks: Blocks,
        sums: Any,
        count: Any,
        z: Int[Array, "n *k"],
    ) -> tuple[Int[Array, "n *k"], PyTree]:
        num, slot = blocks.num_blocks, jnp.arange(sums.counts.shape[0])
        # not a slot that the block has emptied since: to others it is still a cluster
        own = lambda p: (sums.counts == 0) & (slot % num == p)
        cradled = lambda p, rows: sweep(rows, cradles=own(p), known=sums)
        return blocks.on_several(jnp.ones(num, bool), cradled, z)
