"""Distributed, partially collapsed sampling of hierarchical Dirichlet process mixtures."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .. import _checks
from .._types import Data, Kernel, Key, as_keys
from ..collective import Collective, Dist, Shard, as_shard
from ..contract import SlotInfo
from ..families import Family
from ..processes import HierarchicalDirichletProcess
from ._blocks import (
    Anchors,
    Blocks,
    Schedule,
    check_hybrid,
    check_parts,
    draw_anchors,
    pinned,
    with_own_hyper,
)
from ._centre import centre_of, centred, recentred
from ._franchise import (
    Menu,
    Openings,
    count_dishes,
    groups_of,
    masked_labels,
    openings,
    ratios,
    seat,
    sweep_block,
    sweep_restaurants,
)
from ._starts import check_group_labels
from .groups import check_groups


class HDPSums(NamedTuple):
    """All that shards know of each other: sums over groups, added up in one synchronisation.

    The items of each block in each dish and their statistics; the tables of each dish; what the
    group concentration's conditional needs; the weights in G_0, from the shard that has changed
    them; and the number of shards on which a birth found no slot.
    """

    occupancy: Int[Array, "P K"]
    statistics: PyTree
    tables: Int[Array, " K"]
    log_ratio: Float[Array, ""]
    ones: Int[Array, ""]
    weights: Float[Array, " K"]
    rest: Float[Array, ""]
    overflow: Int[Array, ""]


class HDPState(NamedTuple):
    """`position.shared` holds the hyper-parameters and the weights of the dishes in G_0, `rest`
    being that of all others; `position.local` each item's `assignment` (S, L). The statistics in
    `sums` are those of `family.about(centre)`.
    """

    position: Dist
    sums: HDPSums
    centre: Any = None


class HybridHDP(Kernel):
    """See `hybrid_hdp`."""

    process: HierarchicalDirichletProcess
    family: Family
    schedule: Schedule = eqx.field(static=True)
    blocks: int = eqx.field(static=True)
    local_sweeps: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()

    def init(self, key: Key, position: Any, data: Data) -> HDPState:
        groups = as_shard(data).items
        shape = jax.tree.leaves(groups.items)[0].shape[:2]
        hyper, labels = self.process.start(), position
        if position is None:
            labels = jnp.zeros(shape, jnp.int32)
        elif isinstance(position, Dist):
            hyper = pinned(hyper | position.shared, self.process)
            labels = position.local["assignment"]
        # only the first draw of tables sees these weights, which need not be normalised
        even = jnp.full(self.capacity, 0.5, hyper["concentration"].dtype)
        hyper = {"weights": even, "rest": even[0]} | hyper
        weights = hyper["weights"]  # of a position with fewer slots
        hyper["weights"] = jnp.pad(weights, (0, self.capacity - len(weights)))
        position = Dist(hyper, {"assignment": jnp.asarray(labels, jnp.int32)})
        return self._begin(as_keys(key).noise, position, data)

    def refresh(self, key: Key, state: HDPState, data: Data) -> HDPState:
        return self._begin(as_keys(key).noise, state.position, data)

    def _begin(self, key: Any, position: Dist, data: Data) -> HDPState:
        """The state at a position, whose weights all shards know."""
        self = centred(self, data)
        hyper, local = position
        menu = Menu(jnp.zeros(self.capacity, bool), hyper["weights"], hyper["rest"])
        first = self.comm.index() == 0
        known = jax.tree.map(lambda x: jnp.where(first, x, 0), menu), jnp.zeros((), bool)
        return self._state(key, hyper, menu, local["assignment"], known, data)

    def step(self, key: Key, state: HDPState, data: Data) -> tuple[HDPState, SlotInfo]:
        """A synchronisation's draws, then every block by itself, then the next synchronisation."""
        self = recentred(self, state)
        keys = jax.random.split(as_keys(key).noise, 8)
        hyper_key, weight_key, star_key, rank_key, atom_key, label_key, tail_key, seat_key = keys
        blocks, sums = Blocks.of(data, self.blocks, self.comm), state.sums
        labels = blocks.pad(state.position.local["assignment"])
        hyper = state.position.shared
        hyper = self.process.redraw(hyper_key, hyper, sums.tables, sums.log_ratio, sums.ones)
        weights, rest = self.process.draw_weights(weight_key, hyper["concentration"], sums.tables)
        anchors = draw_anchors(star_key, sums.occupancy, anchored=self.schedule == "anchored")
        menu = Menu(anchors.instantiated, weights, rest)
        params = self.family.draw(atom_key, sums.statistics)

        moved = labels
        if self.blocks > 1:
            rank, size = blocks.rank(rank_key), groups_of(blocks).size
            opened = openings(blocks.block, rank, blocks.size, anchors, labels, size)
            moved = self._off_star(label_key, blocks, opened, hyper, menu, params, labels)
        off = (blocks.real & (blocks.block != anchors.star))[:, None]
        labels = jnp.where(off, moved, labels)
        labels, known = self._on_star(tail_key, blocks, anchors, hyper, menu, params, labels)
        swept = known[0]
        mine = (swept.weights.sum() + swept.rest) > 0
        own = jax.tree.map(lambda new, old: jnp.where(mine, new, old), swept, menu)
        state = self._state(seat_key, hyper, own, blocks.unpad(labels), known, data)
        active = jnp.sum(jnp.any(state.sums.occupancy > 0, axis=0), dtype=jnp.int32)
        return state, SlotInfo(active, state.sums.overflow > 0)

    def retarget(self, key: Key, state: HDPState, data: Data) -> HDPState:
        return self.refresh(key, with_own_hyper(state, self.process), data)

    def check(self, position: Any, data: Data) -> None:
        if isinstance(data, Shard):
            return
        check_groups(data)
        if _checks.is_concrete(data.size):
            width = jax.tree.leaves(data.items)[0].shape[1]
            present = np.arange(width) < np.asarray(data.size)[:, None]
            self.family.check(jax.tree.map(lambda x: np.asarray(x)[present], data.items))
            check_group_labels(position, present, self.capacity)

    def _state(
        self,
        key: Any,
        hyper: dict[str, Array],
        menu: Menu,
        labels: Array,
        known: tuple[Menu, Array],
        data: Data,
    ) -> HDPState:
        """The state of these labels: the one place where shards meet."""
        blocks = Blocks.of(data, self.blocks, self.comm)
        groups, padded = groups_of(blocks), blocks.pad(labels)
        seat_key, ratio_key = jax.random.split(key)
        dtype, width = menu.weights.dtype, labels.shape[1]
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), groups.items)
        members = masked_labels(padded, groups.size).ravel()
        uniforms = blocks.uniforms(seat_key, 1, dtype, (width,))[0]
        log_ratio, ones = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
        if self.process.group_prior is not None:
            log_ratio, ones = ratios(
                ratio_key, hyper["group_concentration"], blocks.index, groups.size
            )
        seated = count_dishes(padded, groups.size, self.capacity)
        changed, overflow = known
        own = HDPSums(
            blocks.occupancy(seated.T),
            self.family.label_statistics(flat, members, self.capacity),
            seat(hyper, menu.weights, groups.size, padded, uniforms),
            log_ratio,
            ones,
            changed.weights,
            changed.rest,
            overflow.astype(jnp.int32),
        )
        sums = self.comm.sum(own)
        hyper = hyper | {"weights": sums.weights, "rest": sums.rest}
        return HDPState(Dist(hyper, {"assignment": labels}), sums, centre_of(self.family))

    def _off_star(
        self,
        key: Any,
        blocks: Blocks,
        opened: Openings,
        hyper: dict[str, Array],
        menu: Menu,
        params: PyTree,
        labels: Array,
    ) -> Array:
        """New dishes among the instantiated ones, in all restaurants at once."""
        groups, dtype = groups_of(blocks), menu.weights.dtype
        uniforms = blocks.uniforms(key, self.local_sweeps, dtype, labels.shape[1:])
        return sweep_restaurants(
            self.family, hyper, menu, params, opened, *groups, labels, uniforms
        )

    def _on_star(
        self,
        key: Any,
        blocks: Blocks,
        anchors: Anchors,
        hyper: dict[str, Array],
        menu: Menu,
        params: PyTree,
        labels: Array,
    ) -> tuple[Array, tuple[Menu, Array]]:
        """Collapsed sweeps over the designated block, and the menu they leave."""
        groups, lanes = groups_of(blocks), (*labels.shape[1:], 2)

        def sweep(rows: Any) -> tuple[Array, tuple[Menu, Array]]:
            guests, dishes = jax.tree.map(rows, groups), rows(labels)
            uniforms = rows(blocks.uniforms(key, self.local_sweeps, menu.weights.dtype, lanes), 1)
            swept, left, overflow = sweep_block(
                self.family,
                hyper,
                menu,
                params,
                guests.items,
                guests.size,
                dishes,
                uniforms,
                demote=self.schedule == "demotion",
            )
            return swept, (left, overflow)

        return blocks.on_star(anchors.star, sweep, labels)


def hybrid_hdp(
    process: HierarchicalDirichletProcess,
    family: Family,
    *,
    schedule: Schedule = "anchored",
    blocks: int = 1,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> HybridHDP:
    """Partially collapsed Gibbs sampling of a hierarchical Dirichlet process mixture.

    Groups of items (documents) share their clusters (topics). In the words of the franchise: groups
    are restaurants, items customers, clusters dishes, n_sk the customers of dish k in restaurant s.
    Blocks are made of whole groups. In every step the tables m_k of each dish are drawn given the
    customers' dishes and the weights w, then

        (w_1, ..., w_K, w_0) ~ Dirichlet(m_1, ..., m_K, a),
        theta_k ~ p(theta | customers of k)                 for the dishes A used in other blocks,

    and the customers of all other blocks choose among A, in all restaurants at once,

        P(z = k) ~ (n_sk + g w_k) f(x | theta_k).

    In one block, drawn at random, customers are swept one by one with the parameters of its own
    dishes (the tail) integrated out, so that dishes are born (from w_0 with a share b ~ Beta(1, a))
    and die there.

    The schedules are those of `hybrid_mixture`: `"anchored"` (a dish's first customer off the
    designated block, in a random order, keeps it, and earlier customers may not choose it) and
    `"demotion"` (serial) are exact, `"published"` is not.

    Targets:
        the posterior of dishes, w and concentrations with priors, exactly for the first two.

    Args:
        process: `HierarchicalDirichletProcess(concentration, group_concentration)`.
        family: the conjugate family of a cluster's items, e.g. `DirichletCategorical(0.5, size=V)`
            for words.
        schedule: see above.
        blocks: P, the blocks of groups; a multiple of the engine's shards. 1 for `"demotion"`.
        local_sweeps: L, the sweeps over every block in a step.
        capacity: the number of slots for dishes to begin with; the runner doubles it when it is
            used up, and the chain does not depend on it.

    State:
        `position = Dist(shared, local)`: the concentrations, `weights` (K,) and `rest` in `shared`;
        `local["assignment"]`, (S, L) int32, each item's dish. The initial position is `None` (one
        dish) or such an array. The data are `Groups(items, size)`.

    Info:
        `active`, the number of dishes; `overflow`, whether a birth found no slot.

    Raises:
        ValueError, TypeError: if a number is out of its range, or the data are no groups or unfit
            for the family.

    Example:
        >>> import jax, numpy as np
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import DirichletCategorical, Groups, HierarchicalDirichletProcess
        >>> words = Groups.from_list([np.array([0, 0, 1]), np.array([2, 3]), np.array([2])])
        >>> process = HierarchicalDirichletProcess(1.0, 1.0)
        >>> kernel = hybrid_hdp(process, DirichletCategorical(0.5, size=4), blocks=3)
        >>> run = sample(jax.random.key(0), kernel, None, words, num_steps=20)
        >>> run.trace.local["assignment"].shape
        (20, 3, 3)

    Reference:
        Dubey, Zhang, Xing and Williamson (2020), Distributed, partially collapsed MCMC for Bayesian
        nonparametrics, algorithm 8, and Teh, Jordan, Beal and Blei (2006), Hierarchical Dirichlet
        processes, section 5.3. The paper keeps every customer's table; here tables are drawn anew
        in each step, and summed out of the customers' updates given w. The exact schedules are not
        in the paper, and its equation 13 lacks a factor.
    """
    check_parts(process, family, (HierarchicalDirichletProcess, Family))
    check_hybrid(schedule, blocks, local_sweeps, capacity)
    return HybridHDP(process, family, schedule, blocks, local_sweeps, capacity)


def collapsed_hdp(
    process: HierarchicalDirichletProcess, family: Family, *, capacity: int = 16
) -> HybridHDP:
    """Gibbs sampling of a hierarchical Dirichlet process mixture, customer by customer.

    P(z = k) ~ (n_sk + g w_k) f(x | customers of k) for a dish, ~ g w_0 f(x) for a new one, and the
    weights w redrawn with the tables once a step. It is `hybrid_hdp` with one block, and its
    reference.

    Targets:
        the posterior of the customers' dishes and of w, exactly.

    Args:
        process: `HierarchicalDirichletProcess(concentration, group_concentration)`.
        family: the conjugate family of a cluster's items.
        capacity: the number of slots to begin with.

    Example:
        >>> from sgmc_jax.bnp import DirichletCategorical
        >>> process = HierarchicalDirichletProcess(1.0, 1.0)
        >>> kernel = collapsed_hdp(process, DirichletCategorical(0.5, size=4))

    Reference:
        Teh, Jordan, Beal and Blei (2006), Hierarchical Dirichlet processes, section 5.3 ("posterior
        sampling by direct assignment").
    """
    return hybrid_hdp(process, family, capacity=capacity)
