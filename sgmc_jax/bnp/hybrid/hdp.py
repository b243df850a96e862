"""Distributed, partially collapsed sampling of hierarchical Dirichlet process mixtures."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..._types import Data
from ...collective import Dist
from ...families import Family
from ...processes import HierarchicalDirichletProcess
from .._centre import about_data, centre_of
from .._starts import (
    Starter,
    check_group_start,
    check_hyper,
    check_parts,
    check_slots_fit,
    pinned,
    start_of_groups,
)
from ..groups import Groups
from .anchors import Anchors
from .blocks import Blocks, Rows
from .grouped import (
    Atoms,
    count_clusters,
    draw_tables,
    masked_labels,
    openings,
    ratios,
    sweep_block,
    sweep_groups,
)
from .kernel import Hybrid, HybridModel, HybridState, HybridSums, Round, StepKeys
from .schedules import Anchored, Schedule


class TableSums(NamedTuple):
    """What shards know of each other besides the items of each cluster.

    The tables of each cluster; what the group concentration's conditional needs; and the weights in
    G_0, from the shard that has changed them.
    """

    tables: Int[Array, " K"]
    log_ratio: Float[Array, ""]
    ones: Int[Array, ""]
    weights: Float[Array, " K"]
    rest: Float[Array, ""]


class GroupedMixture(HybridModel):
    """Clusters that groups of items share: each item has one, the label of its slot.

    `position.shared` also holds the weights of the clusters in G_0, `rest` being that of all
    others.
    """

    local: ClassVar[str] = "assignment"
    keys: ClassVar[tuple[str, ...]] = tuple("hyper weight star rank atom off tail end".split())

    process: HierarchicalDirichletProcess
    family: Family

    def __check_init__(self):
        check_parts(self.process, self.family, (HierarchicalDirichletProcess, Family))

    def init(self, key: Any, position: Any, blocks: Blocks, capacity: int) -> HybridState:
        hyper, labels = self.process.start(), position
        if position is None:
            shape = jax.tree.leaves(blocks.shard.items.items)[0].shape
            labels = jnp.zeros((blocks.num_rows, shape[1]), jnp.int32)
        elif isinstance(position, Dist):
            hyper = pinned(hyper | position.shared, self.process)
            labels = position.local["assignment"]
        # only the first draw of tables sees these weights, which need not be normalised
        even = jnp.full(capacity, 0.5, hyper["concentration"].dtype)
        hyper = {"weights": even, "rest": even[0]} | hyper
        weights = hyper["weights"]  # of a position with fewer slots
        hyper["weights"] = jnp.pad(weights, (0, capacity - len(weights)))
        return self._at(key, hyper, jnp.asarray(labels, jnp.int32), blocks)

    def starter(self, data: Groups, capacity: int) -> Starter | None:
        return start_of_groups(data, capacity)

    def refresh(self, key: Any, state: HybridState, blocks: Blocks, capacity: int) -> HybridState:
        return self._at(key, state.position.shared, state.position.local["assignment"], blocks)

    def _at(
        self, key: Any, hyper: dict[str, Array], labels: Int[Array, "rows L"], blocks: Blocks
    ) -> HybridState:
        """The state at a position, whose weights all shards know."""
        own = self.about(centre_of(about_data(self.family, blocks.shard, blocks.comm)))
        # what all shards know would be summed as often as there are shards
        first = blocks.comm.index() == 0
        changed = jax.tree.map(lambda x: jnp.where(first, x, 0), (hyper["weights"], hyper["rest"]))
        known, labels = (changed, jnp.zeros((), bool)), blocks.pad(labels)
        return own._state(key, hyper, hyper["weights"], labels, blocks, known)

    def about(self, centre: Any) -> GroupedMixture:
        return GroupedMixture(self.process, self.family.about(centre))

    def draw(
        self,
        keys: StepKeys,
        state: HybridState,
        anchors: Anchors,
        z: Int[Array, "n L"],
        blocks: Blocks,
    ) -> tuple[dict[str, Array], Atoms, PyTree]:
        """(w_1, ..., w_K, w_0) ~ Dirichlet(m_1, ..., m_K, a), theta_k ~ p(theta | items)."""
        sums, more = state.sums, state.sums.more
        hyper = state.position.shared
        # with w integrated out, which is drawn next given the same tables
        hyper = self.process.redraw(keys.hyper, hyper, more.tables, more.log_ratio, more.ones)
        a = hyper["concentration"]
        # the numbers of tables are all that items tell of w
        logs = self.process.draw_weights(keys.weight, a, more.tables)
        # all clusters have weights, and those of A theta besides
        atoms = Atoms(anchors.instantiated, *logs)
        return hyper, atoms, self.family.draw(keys.atom, sums.statistics)

    def off_star(self, now: Round, anchors: Anchors, z: Int[Array, "n L"]) -> Int[Array, "n L"]:
        """New clusters among the instantiated ones, in all groups at once."""
        blocks, groups, width = now.blocks, _groups(now.blocks), z.shape[1]
        if blocks.size * width >= 2**31:
            raise ValueError(
                f"blocks must have less than {2**31} places each, got {blocks.size} groups of "
                f"{width}: take more blocks"
            )
        # ranks of items: groups in their order, the items of a group one after the other
        rank = blocks.rank(now.keys.rank) * width
        since = openings(anchors, blocks.block, rank, z, groups.size)
        uniforms = blocks.uniforms(now.keys.off, now.num_sweeps, now.atoms.weights.dtype, (width,))
        drawn = self.family, now.hyper, now.atoms, now.theta
        return sweep_groups(*drawn, since, rank, *groups, z, uniforms)

    def sweep(
        self, now: Round, z: Int[Array, "n L"], rows: Rows
    ) -> tuple[Int[Array, "rows L"], tuple[PyTree, Bool[Array, ""]]]:
        """Items of one block, and the weights that they leave."""
        groups, lanes = jax.tree.map(rows, _groups(now.blocks)), (*z.shape[1:], 2)
        dtype = now.atoms.weights.dtype
        # two a visit: one to choose, and one for a newborn cluster's share of w_0
        uniforms = rows(now.blocks.uniforms(now.keys.tail, now.num_sweeps, dtype, lanes), 1)
        drawn = self.family, now.hyper, now.atoms, now.theta
        labels, atoms, lost = sweep_block(
            *drawn, groups.items, groups.size, rows(z), uniforms, demote=now.demotes
        )
        return labels, ((atoms.weights, atoms.rest), lost)

    def synchronise(
        self, now: Round, z: Int[Array, "n L"], known: tuple[PyTree, Bool[Array, ""]]
    ) -> HybridState:
        (swept, rest), atoms = known[0], now.atoms
        # newborn clusters have weights, broken off w_0, on the shard that has swept alone
        mine = (swept.sum() + rest) > 0
        weights = jnp.where(mine, swept, atoms.weights)
        return self._state(now.keys.end, now.hyper, weights, z, now.blocks, known)

    def _state(
        self,
        key: Any,
        hyper: dict[str, Array],
        weights: Float[Array, " K"],
        z: Int[Array, "n L"],
        blocks: Blocks,
        known: tuple[tuple[Float[Array, " K"], Float[Array, ""]], Bool[Array, ""]],
    ) -> HybridState:
        """The state of these labels, the tables drawn given the weights that the shard has."""
        groups, dtype, capacity = _groups(blocks), weights.dtype, len(weights)
        seat_key, ratio_key = jax.random.split(key)
        members = masked_labels(z, groups.size).ravel()
        uniforms = blocks.uniforms(seat_key, 1, dtype, z.shape[1:])[0]
        # auxiliary variables of g, drawn by the g that seats the tables
        log_ratio, ones = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
        if self.process.group_prior is not None:
            g = hyper["group_concentration"]
            log_ratio, ones = ratios(ratio_key, g, blocks.index, groups.size)
        # tables given labels and weights, which the next draws of weights integrate out
        tables = draw_tables(hyper, weights, groups.size, z, uniforms)
        changed, lost = known
        own = HybridSums(
            blocks.occupancy(count_clusters(z, groups.size, capacity).T),
            self.family.label_statistics(groups.flat, members, capacity),
            lost.astype(jnp.int32),
            TableSums(tables, log_ratio, ones, *changed),
        )
        sums = blocks.comm.sum(own)
        # from the shard that has swept: the others have added zeros
        hyper = hyper | {"weights": sums.more.weights, "rest": sums.more.rest}
        position = Dist(hyper, {"assignment": blocks.unpad(z)})
        return HybridState(position, sums, centre_of(self.family))

    def check(self, position: Any, data: Data, capacity: int) -> None:
        check_hyper(position, self.process)
        check_group_start(self.family, capacity, position, data)
        check_slots_fit(position, "weights", 0, capacity)


def _groups(blocks: Blocks) -> Groups:
    """The groups of this shard; those of the padding are empty."""
    groups = blocks.shard.items
    size = jnp.where(blocks.real, groups.size, 0).astype(jnp.int32)  # loops end at no byte
    return groups._replace(size=size).present_alone()


def hybrid_hdp(
    process: HierarchicalDirichletProcess,
    family: Family,
    *,
    schedule: Schedule = Anchored(),
    blocks: int = 1,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> Hybrid:
    """Partially collapsed Gibbs sampling of a hierarchical Dirichlet process mixture.

    Groups of items (documents) share their clusters (topics); n_sk items of group s are in cluster
    k. Blocks are made of whole groups. In every step the number of tables m_k of each cluster, in
    the words of the Chinese restaurant franchise, is drawn given the items' clusters and the
    weights w, then

        (w_1, ..., w_K, w_0) ~ Dirichlet(m_1, ..., m_K, a),
        theta_k ~ p(theta | items of k)                 for the clusters A used in other blocks,

    and the items of all other blocks choose among A, in all groups at once,

        P(z = k) ~ (n_sk + g w_k) f(x | theta_k).

    In one block, drawn at random, items are swept one by one with the parameters of its own
    clusters (the tail) integrated out, so that clusters are born (from w_0 with a share
    b ~ Beta(1, a)) and die there.

    The schedules are those of `hybrid_mixture`: `Anchored()` (a cluster's first item off the
    designated block, in a random order, keeps it, and earlier items may not choose it) and
    `Demotion()` (serial) are exact, `Published()` is not.

    Targets:
        the posterior of clusters, w and concentrations with priors, exactly for the first two.

    Args:
        process: `HierarchicalDirichletProcess(concentration, group_concentration)`.
        family: the conjugate family of a cluster's items, e.g. `DirichletCategorical(0.5, size=V)`
            for words.
        schedule: see above.
        blocks: P, the blocks of groups; a multiple of the engine's shards. 1 for `Demotion()`.
        local_sweeps: L, the sweeps over every block in a step.
        capacity: the number of slots for clusters to begin with; the runner doubles it when it is
            used up, and the chain does not depend on it, its start given.

    State:
        `position = Dist(shared, local)`: the concentrations, `weights` (K,) and `rest` in `shared`;
        `local["assignment"]`, (S, L) int32, each item's cluster. The initial position is `None`
        (one cluster; in `sample`, of 200 items or more, each in one of several at random) or such
        an array. The data are `Groups(items, size)`.

    Info:
        `active`, the number of clusters; `overflow`, whether a birth found no slot.

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
        nonparametrics, algorithms 7 and 8; Teh, Jordan, Beal and Blei (2006), Hierarchical
        Dirichlet processes, section 5.3. The paper keeps every item's table; here tables are drawn
        anew in each step, and summed out of the items' updates given w. The exact schedules are not
        in the paper, and its equation 13 lacks a factor.
    """
    model = GroupedMixture(process, family)
    return Hybrid(
        model, blocks=blocks, capacity=capacity, schedule=schedule, local_sweeps=local_sweeps
    )


def collapsed_hdp(
    process: HierarchicalDirichletProcess, family: Family, *, capacity: int = 16
) -> Hybrid:
    """Gibbs sampling of a hierarchical Dirichlet process mixture, item by item.

    P(z = k) ~ (n_sk + g w_k) f(x | items of k) for a cluster, ~ g w_0 f(x) for a new one, and the
    weights w redrawn with the tables once a step. It is `hybrid_hdp` with one block, and its
    reference.

    Targets:
        the posterior of the items' clusters and of w, exactly.

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
