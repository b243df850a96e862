"""Distributed, partially collapsed sampling of latent features."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from .._types import Data, Kernel, Key, as_keys
from ..collective import Collective, Dist, Shard, as_shard
from ..contract import SlotInfo
from ..families import FeatureFamily, FeatureRows
from ..processes import FeatureProcess
from ..random.words import uniform, word_keys, word_pair
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
from ._feature_tail import Atoms, draw_entries, sweep_block
from ._starts import check_features, start_features


class FeatureSums(NamedTuple):
    """All that shards know of each other: sums over items, added up in one synchronisation.

    Each column's sum in each block, the family's statistics, and the number of shards on which a
    birth found no slot.
    """

    occupancy: Int[Array, "P K"]
    statistics: PyTree
    overflow: Int[Array, ""]

    @property
    def counts(self) -> Int[Array, " K"]:
        """The sums of the columns; 0 for a free slot."""
        return jnp.sum(self.occupancy, axis=0)


class FeatureState(NamedTuple):
    """`position.shared` holds hyper-parameters and parameters, `position.local` the `features`.

    The chain lives on the features and the hyper-parameters. The parameters in the position are
    drawn given these if the family integrates them out; `reference` is what the sums subtract.
    """

    position: Dist
    sums: FeatureSums
    reference: PyTree


class HybridFeatures(Kernel):
    """See `hybrid_features`."""

    process: FeatureProcess
    family: FeatureFamily
    schedule: Schedule = eqx.field(static=True)
    blocks: int = eqx.field(static=True)
    local_sweeps: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()

    def init(self, key: Key, position: Any, data: Data) -> FeatureState:
        shard = as_shard(data)
        shared = self.process.start() | self.family.start()
        params = self.family.parameters(as_keys(key).noise, self.capacity, shard.items)
        if isinstance(position, Dist):
            shared = pinned(shared | position.shared, self.process, self.family)
            fill = lambda given, all_: jnp.concatenate([given, all_[len(given) :]])
            params = jax.tree.map(fill, shared.get("parameters", params), params)
        features = start_features(position, shard, self.process.dtype, self.capacity)
        own = self._sums(params, features, jnp.zeros((), bool), data)
        position = Dist(shared | {"parameters": params}, {"features": features})
        return FeatureState(position, self.comm.sum(own), self._kept(params))

    def step(self, key: Key, state: FeatureState, data: Data) -> tuple[FeatureState, SlotInfo]:
        """A synchronisation's draws, then every block by itself, then the next synchronisation."""
        hyper_key, star_key, weight_key, atom_key, off_key, tail_key, report_key = jax.random.split(
            as_keys(key).noise, 7
        )
        blocks, sums = Blocks.of(data, self.blocks, self.comm), state.sums
        rows, num_items = _rows(blocks, state.position.local["features"]), blocks.shard.total
        params, hyper = self._reference(state), dict(state.position.shared)
        del hyper["parameters"]
        hyper = self.process.redraw(hyper_key, hyper, sums.counts, num_items)
        hyper, params = self.family.redraw(
            atom_key, hyper, params, sums.statistics, sums.counts, rows, num_items, self.comm
        )
        anchors = draw_anchors(star_key, sums.occupancy, anchored=self.schedule == "anchored")
        log_weight = self.process.draw_weights(weight_key, hyper, sums.counts, num_items)
        atoms = Atoms(anchors.instantiated, log_weight)
        params = self.family.marginalise(params, atoms.instantiated)

        if self.blocks > 1:
            moved = self._off_star(off_key, blocks, anchors, hyper, atoms, params, rows)
            rows = rows._replace(features=moved)
        features, (born, overflow) = self._on_star(
            tail_key, blocks, anchors, hyper, atoms, params, sums.counts, rows
        )
        features = blocks.unpad(features).astype(self.process.dtype)
        if self.schedule == "demotion":
            params = self.family.marginalise(params, jnp.zeros_like(atoms.instantiated))
        own = self._sums(params, features, overflow, data)
        sums, born = self.comm.sum((own, born))
        reference = born if self.family.explicit else params
        drawn = self.family.report(report_key, hyper, reference, sums.statistics, sums.counts)
        position = Dist(hyper | {"parameters": drawn}, {"features": features})
        active = jnp.sum(sums.counts > 0, dtype=jnp.int32)
        state = FeatureState(position, sums, self._kept(reference))
        return state, SlotInfo(active, sums.overflow > 0)

    def refresh(self, key: Key, state: FeatureState, data: Data) -> FeatureState:
        features = state.position.local["features"]
        own = self._sums(self._reference(state), features, jnp.zeros((), bool), data)
        return state._replace(sums=self.comm.sum(own))

    def retarget(self, key: Key, state: FeatureState, data: Data) -> FeatureState:
        return self.refresh(key, with_own_hyper(state, self.process, self.family), data)

    def check(self, position: Any, data: Data) -> None:
        if not isinstance(data, Shard):
            self.family.check(data)
            check_features(self.process, self.capacity, position, as_shard(data).capacity)

    def _reference(self, state: FeatureState) -> PyTree:
        """The parameters that the statistics subtract; the chain's own if they are explicit."""
        return state.position.shared["parameters"] if self.family.explicit else state.reference

    def _kept(self, reference: PyTree) -> PyTree:
        return () if self.family.explicit else reference

    def _sums(self, params: PyTree, features: Array, overflow: Array, data: Data) -> FeatureSums:
        """This shard's part of the sums."""
        blocks = Blocks.of(data, self.blocks, self.comm)
        rows = _rows(blocks, features)
        statistics = self.family.statistics(params, rows)
        return FeatureSums(blocks.occupancy(rows.features), statistics, overflow.astype(jnp.int32))

    def _off_star(
        self,
        key: Any,
        blocks: Blocks,
        anchors: Anchors,
        hyper: dict[str, Array],
        atoms: Atoms,
        params: PyTree,
        rows: FeatureRows,
    ) -> Int[Array, "K n"]:
        """New entries of instantiated features, all rows at once, column by column."""
        rank_key, mark_key, entry_key = jax.random.split(key, 3)
        frozen = _frozen(blocks, anchors, rows.features > 0, blocks.rank(rank_key))
        order = _random_order(mark_key, atoms.instantiated)
        index, dtype = blocks.index.astype(jnp.uint32), atoms.log_weight.dtype

        def sweep(loop: tuple, cipher: Array) -> tuple[tuple, None]:
            def column(j: Array, loop: tuple) -> tuple:
                (features, likelihood), k = loop, order[j]
                word, _ = word_pair((cipher[0], cipher[1]), index, k, dtype)
                log_step = partial(self.process.log_step, atoms.log_weight[k])
                new, likelihood = draw_entries(
                    self.process,
                    likelihood,
                    log_step,
                    k,
                    features[k],
                    uniform(word, dtype),
                    frozen[k],
                )
                return features.at[k].set(new), likelihood

            return jax.lax.fori_loop(0, jnp.sum(atoms.instantiated), column, loop), None

        start = rows.features, self.family.together(hyper, params, rows)
        ciphers = jax.random.bits(entry_key, (self.local_sweeps, 2), jnp.uint32)
        (features, _), _ = jax.lax.scan(sweep, start, ciphers)
        return features

    def _on_star(
        self,
        key: Any,
        blocks: Blocks,
        anchors: Anchors,
        hyper: dict[str, Array],
        atoms: Atoms,
        params: PyTree,
        counts: Array,
        rows: FeatureRows,
    ) -> tuple[Array, tuple[PyTree, Array]]:
        """Sweeps over the rows of the designated block: all entries, newborn parameters."""

        def sweep(take: Any) -> tuple[Array, tuple[PyTree, Array]]:
            block = FeatureRows(
                jax.tree.map(take, rows.items), take(rows.features, 1), take(rows.real)
            )
            features, born, overflow = sweep_block(
                key,
                self.process,
                self.family,
                hyper,
                atoms,
                params,
                counts,
                block,
                blocks.shard.total,
                num_sweeps=self.local_sweeps,
                demote=self.schedule == "demotion",
            )
            return features, (born if self.family.explicit else (), overflow)

        return blocks.on_star(anchors.star, sweep, rows.features.T)


def _rows(blocks: Blocks, features: Array) -> FeatureRows:
    """The items with their entries, which are kept (n, K) outside and (K, n) inside."""
    entries = blocks.pad(features).astype(jnp.int32).T
    return FeatureRows(blocks.shard.items, jnp.where(blocks.real, entries, 0), blocks.real)


def _random_order(key: Any, mask: Bool[Array, " K"]) -> Int[Array, " K"]:
    """The slots of the mask in a random order that no others change, before the others."""
    (cipher,) = word_keys(key, 1)
    mark, _ = word_pair(cipher, jnp.arange(mask.shape[0], dtype=jnp.uint32), 0, jnp.float32)
    return jnp.argsort(jnp.where(mask, mark, ~jnp.zeros_like(mark)))


def _frozen(
    blocks: Blocks, anchors: Anchors, has: Bool[Array, "K n"], rank: Int[Array, " n"]
) -> Bool[Array, "K n"]:
    """Entries that no draw off the designated block may move: up to each atom's first row."""
    size, block_rank = blocks.size, anchors.block_rank[blocks.block]
    at_first = has & (block_rank == anchors.atom_rank[:, None])
    first = jnp.min(jnp.where(at_first, rank, size - 1), axis=1)
    until = anchors.atom_rank * size + first
    fixed = (blocks.block == anchors.star) | ~blocks.real
    return fixed | (block_rank * size + rank <= until[:, None])


def hybrid_features(
    process: FeatureProcess,
    family: FeatureFamily,
    *,
    schedule: Schedule = "anchored",
    blocks: int = 1,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> HybridFeatures:
    """Partially collapsed Gibbs sampling of latent features.

    Every item has a few of infinitely many features. In each step one block of items, drawn at
    random, is swept row by row with the features that only it uses integrated out (the tail), so
    that features are born and die there. For all others (the atoms A) weights and parameters are
    drawn, with `BetaBernoulli(a, c)` and m_k of n items in column k

        mu_k ~ Beta(m_k, n - m_k + c),   theta_A ~ p(theta_A | Z, X),

    and the rows of all other blocks move at once, column by column in a random order,

        P(Z_ik = 1) : P(Z_ik = 0) = mu_k f(x_i | Z_ik = 1) : (1 - mu_k) f(x_i | Z_ik = 0).

    In the designated block mu_k / (1 - mu_k) is m / (n - 1 + c - m) for a feature of the tail that
    m other items have, and f integrates over its parameters. The columns that a row has to itself
    are proposed anew, Poisson(a c / (c + n - 1)) of them, and taken by their likelihood ratio.

    The schedules are those of `hybrid_mixture`: `"anchored"` (an atom's first row off the
    designated block, in a random order, keeps it, and earlier rows may not have it) and
    `"demotion"` (serial) are exact. `"published"` is not: without data, n = 1, an active feature
    survives too often and the expected number of features is a (1 + c) / c instead of a.

    Targets:
        the posterior of the features, in no order, their parameters, and the hyper-parameters that
        have a prior, exactly for the first two schedules and any number of blocks and sweeps.

    Args:
        process: `BetaBernoulli(mass, concentration)`, or `GammaPoisson` for features that an item
            has several times.
        family: `LinearGaussian(dim)`, or `FeatureLikelihood` for a likelihood of your own.
        schedule: see above.
        blocks: P, the number of blocks; a multiple of the engine's shards. 1 for `"demotion"`.
        local_sweeps: L, the sweeps over every block in a step.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain does not depend on it.

    State:
        `position = Dist(shared, local)`: in `shared` the hyper-parameters and `parameters`, K rows,
        zero for free slots; in `local` the `features`, (N, capacity), bool for `BetaBernoulli` and
        int32 for `GammaPoisson`. Where the family integrates parameters out, those of all features
        are drawn for the report, theta ~ p(theta | Z, X), at the end of a step, and the next step
        does not depend on them. The initial position is `None` (one feature that all items have),
        or an array of features with at most `capacity` columns, as `Dist({}, {"features":
        features})` where they are on shards; `parameters` in its shared part may have as few rows.

    Info:
        `active`, the number of features; `overflow`, whether a birth found no slot.

    Raises:
        ValueError, TypeError: if a number is out of its range or the data unfit for the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import sample
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearGaussian, hybrid_features
        >>> X = jnp.tile(jnp.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]), (4, 1))
        >>> kernel = hybrid_features(BetaBernoulli(1.0), LinearGaussian(2, 0.3, 3.0), blocks=2)
        >>> run = sample(jax.random.key(0), kernel, None, X, num_steps=30)
        >>> run.trace.local["features"].shape
        (30, 12, 16)

    Reference:
        Dubey, Zhang, Xing and Williamson (2020), Distributed, partially collapsed MCMC for Bayesian
        nonparametrics, algorithms 1 to 3. The exact schedules are not theirs, nor is the random
        order of columns: visited by slot, they bias even collapsed Gibbs sampling. Their equation 5
        holds for c = 1 with m_k and n that leave out the row itself.
    """
    check_parts(process, family, (FeatureProcess, FeatureFamily))
    check_hybrid(schedule, blocks, local_sweeps, capacity)
    return HybridFeatures(process, family, schedule, blocks, local_sweeps, capacity)
