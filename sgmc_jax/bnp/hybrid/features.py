"""Distributed, partially collapsed sampling of latent features."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Int, PyTree, Shaped, UInt

from ..._types import Data
from ...arrays import over_rows
from ...collective import Dist, Shard, as_shard, leading_axis
from ...families import FeatureFamily, FeatureRows
from ...processes import FeatureProcess
from ...random.words import slot_item_uniforms, word_keys, word_pair
from .._starts import (
    Starter,
    check_features,
    check_hyper,
    check_parts,
    check_slots_fit,
    pinned,
    start_features,
)
from .anchors import Anchors
from .blocks import Blocks, Rows
from .kernel import Hybrid, HybridModel, HybridState, HybridSums, Round, StepKeys
from .rows import Atoms, draw_entries, sweep_block
from .schedules import Anchored, Demotion, Published, Schedule, Warm
from .seeds import most_used, seeds

FEW_ROWS = 20  # chains of more hardly ever find all features from one, in some dimensions
_SLOTS = 32  # of the chains that find a start, so that it is the same for fewer slots and more


class LatentFeatures(HybridModel):
    """Features: each item has any number of them, an entry for every slot.

    The chain lives on the features and the hyper-parameters. The parameters in the position are
    drawn given these if the family integrates them out; the centre is then what the sums subtract.
    """

    local: ClassVar[str] = "features"
    keys: ClassVar[tuple[str, ...]] = tuple("hyper star weight atom off tail end".split())
    schedules: ClassVar[Any] = (Anchored, Demotion, Published, Warm)

    process: FeatureProcess
    family: FeatureFamily

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.process, self.family

    def init(self, key: Any, position: Any, blocks: Blocks, capacity: int) -> HybridState:
        shared = self.process.start() | self.family.start()
        params = self.family.parameters(key, capacity, blocks.shard.items)
        if isinstance(position, Dist):
            shared = pinned(shared | position.shared, *self.parts)
            # of a family that integrates them out they are only what the sums subtract
            fill = lambda given, all_: jnp.concatenate([given, all_[len(given) :]])
            params = jax.tree.map(fill, shared.get("parameters", params), params)
        features = start_features(position, blocks.num_rows, self.process.dtype, capacity)
        position = Dist(shared | {"parameters": params}, {"features": features})
        return self._at(position, params, blocks)

    def starter(self, data: PyTree, capacity: int) -> Starter | None:
        if leading_axis(data) < FEW_ROWS:
            return None
        return from_seeds(self.process, self.family, data, capacity)

    def refresh(self, key: Any, state: HybridState, blocks: Blocks, capacity: int) -> HybridState:
        return self._at(state.position, self.reference(state), blocks)

    def _at(self, position: Dist, params: PyTree, blocks: Blocks) -> HybridState:
        """The state at a position, its sums about these parameters."""
        z = self.entries(position.local["features"], blocks)
        own = self._sums(params, z, blocks, jnp.zeros((), bool))
        return HybridState(position, blocks.comm.sum(own), self.kept(params))

    def entries(self, local: Shaped[Array, "rows K"], blocks: Blocks) -> Int[Array, "n K"]:
        """Whole numbers, zero in padding."""
        return jnp.where(blocks.real[:, None], blocks.pad(local).astype(jnp.int32), 0)

    def draw(
        self,
        keys: StepKeys,
        state: HybridState,
        anchors: Anchors,
        z: Int[Array, "n K"],
        blocks: Blocks,
    ) -> tuple[dict[str, Array], Atoms, PyTree]:
        """mu_A and theta_A; the parameters of the tail are integrated out."""
        sums, num_items = state.sums, blocks.shard.total
        params, hyper = self.reference(state), dict(state.position.shared)
        del hyper["parameters"]
        # with weights and parameters integrated out, then parameters, then weights: each is drawn
        # given what is drawn before it, and what is integrated out is fresh afterwards
        hyper = self.process.redraw(keys.hyper, hyper, sums.counts, num_items)
        args = sums.statistics, sums.counts, _rows(z, blocks), num_items, blocks.comm
        hyper, params = self.family.redraw(keys.atom, hyper, params, *args)
        # of every slot, as parameters are: which of them are A must not move the draws
        log_weight = self.process.draw_weights(keys.weight, hyper, sums.counts, num_items)
        atoms = Atoms(anchors.instantiated, log_weight)
        return hyper, atoms, self.family.marginalise(params, atoms.instantiated)

    def off_star(self, now: Round, anchors: Anchors, z: Int[Array, "n K"]) -> Int[Array, "n K"]:
        """New entries of instantiated features, all rows at once, column by column."""
        atoms, blocks, rows = now.atoms, now.blocks, _rows(z, now.blocks)
        rank_key, mark_key, entry_key = jax.random.split(now.keys.off, 3)
        rank = blocks.rank(rank_key)
        # columns that an item may not change: it is their anchor, or comes before it
        first = anchors.by_entry(blocks.block, rank, rows.features > 0)
        frozen = anchors.since(blocks.block, first) >= rank
        # any order that knows no entry is right; that of the slots would depend on their names
        order = _random_order(mark_key, atoms.instantiated)
        index, dtype = blocks.index, atoms.log_weight.dtype

        def sweep(loop: tuple, cipher: UInt[Array, "2"]) -> tuple[tuple, None]:
            old, _ = loop  # a loop that reads what it writes copies all of it at every column
            uniforms = slot_item_uniforms((cipher[0], cipher[1]), len(order), index, dtype)

            def column(j: Int[Array, ""], loop: tuple) -> tuple:
                (features, likelihood), k = loop, order[j]
                log_step = partial(self.process.log_step, atoms.log_weight[k])
                new, likelihood = draw_entries(
                    self.process,
                    likelihood,
                    log_step,
                    k,
                    old[k],
                    uniforms[k],
                    frozen[k],
                )
                return features.at[k].set(new), likelihood

            # A alone: off the designated block other columns are zero, and stay so
            return jax.lax.fori_loop(0, jnp.sum(atoms.instantiated), column, loop), None

        # rows of the designated block come along: the caller puts them back
        start = rows.features, self.family.together(now.hyper, now.theta, rows)
        # sweeps are repeated: given mu_A and theta_A rows are independent, a row's entries are not
        ciphers = jax.random.bits(entry_key, (now.num_sweeps, 2), jnp.uint32)
        (features, _), _ = jax.lax.scan(sweep, start, ciphers)
        return features.T

    def sweep(
        self,
        now: Round,
        z: Int[Array, "n K"],
        rows: Rows,
        *,
        cradles: Bool[Array, " K"] | None = None,
    ) -> tuple[Int[Array, "rows K"], tuple[PyTree, Bool[Array, ""]]]:
        """All entries of a block's rows, and the parameters of the newborn.

        `Warm` says in which slots these may be, of each of the blocks in which they are.
        """
        items, key = jax.tree.map(rows, now.blocks.shard.items), now.keys.tail
        if cradles is not None:  # with the key of the step all blocks would have the same births
            key = jax.random.fold_in(key, rows(now.blocks.block)[0])
        features, params, lost = sweep_block(
            key,
            self.process,
            self.family,
            now.hyper,
            now.atoms,
            now.theta,
            now.counts,
            FeatureRows(items, rows(z).T, rows(now.blocks.real)),
            now.blocks.shard.total,
            num_sweeps=now.num_sweeps,
            demote=now.demotes,
            cradles=cradles,
        )
        # else no sweep changes them, and all shards have the same
        changed = self.family.explicit or now.demotes
        if cradles is not None:  # those of other slots are known to their own blocks, or to all
            params = _of_slots(cradles & ~now.atoms.instantiated, params)
        return features, (params if changed else (), lost)

    def synchronise(
        self, now: Round, z: Int[Array, "n K"], known: tuple[PyTree, Bool[Array, ""]]
    ) -> HybridState:
        blocks, (changed, lost) = now.blocks, known
        features = blocks.unpad(z).astype(self.process.dtype)
        # what the new sums subtract; a demoted atom's are zero by now, or explicit
        params = changed if now.demotes else now.theta
        own = self._sums(params, z, blocks, lost)
        sums, changed = blocks.comm.sum((own, changed))  # zeros but on the shard that has swept
        if self.family.explicit and now.several:  # from each block its newborn alone
            changed = optax.tree.add(changed, _of_slots(now.atoms.instantiated, params))
        params = changed if self.family.explicit else params
        args = now.hyper, params, sums.statistics, sums.counts
        # no part of the chain, unless they are explicit
        drawn = self.family.report(now.keys.end, *args)
        position = Dist(now.hyper | {"parameters": drawn}, {"features": features})
        return HybridState(position, sums, self.kept(params))

    def check(self, position: Any, data: Data, capacity: int) -> None:
        check_hyper(position, *self.parts)
        if not isinstance(data, Shard):
            self.family.check(data)
            check_features(self.process, capacity, position, as_shard(data).capacity)
            for name in ("parameters", "series"):
                check_slots_fit(position, name, 0, capacity)

    def reference(self, state: HybridState) -> PyTree:
        """The parameters that the statistics subtract; the chain's own if they are explicit."""
        return state.position.shared["parameters"] if self.family.explicit else state.centre

    def kept(self, params: PyTree) -> PyTree:
        return () if self.family.explicit else params

    def _sums(
        self, params: PyTree, z: Int[Array, "n K"], blocks: Blocks, lost: Bool[Array, ""]
    ) -> HybridSums:
        """This shard's part of the sums."""
        rows = _rows(z, blocks)
        statistics = self.family.statistics(params, rows)
        return HybridSums(blocks.occupancy(rows.features), statistics, lost.astype(jnp.int32))


def from_seeds(
    process: FeatureProcess, family: FeatureFamily, data: PyTree, capacity: int
) -> Starter:
    """Each chain begins with the features of some of the items, those that most of these have."""
    # one block, whatever those of the chain: seeds are of few items
    kernel = hybrid_features(process, family, capacity=max(capacity, _SLOTS))
    return lambda key: most_used(seeds(key, kernel, data), capacity)


def _rows(z: Int[Array, "n K"], blocks: Blocks) -> FeatureRows:
    """The items with their entries, which are (n, K) outside and (K, n) inside."""
    return FeatureRows(blocks.shard.items, z.T, blocks.real)


def _of_slots(chosen: Bool[Array, " K"], params: PyTree) -> PyTree:
    """The parameters of some slots, zeros in others."""
    return jax.tree.map(lambda x: jnp.where(over_rows(chosen, x), x, jnp.zeros_like(x)), params)


def _random_order(key: Any, mask: Bool[Array, " K"]) -> Int[Array, " K"]:
    """The slots of the mask in a random order that no others change, before the others."""
    (cipher,) = word_keys(key, 1)
    mark, _ = word_pair(cipher, jnp.arange(mask.shape[0], dtype=jnp.uint32), 0, jnp.float32)
    return jnp.argsort(jnp.where(mask, mark, ~jnp.zeros_like(mark)))


def hybrid_features(
    process: FeatureProcess,
    family: FeatureFamily,
    *,
    schedule: Schedule = Anchored(),
    blocks: int = 1,
    local_sweeps: int = 1,
    capacity: int = 16,
) -> Hybrid:
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

    The schedules are those of `hybrid_mixture`: `Anchored()` (an atom's first row off the
    designated block, in a random order, keeps it, and earlier rows may not have it) and
    `Demotion()` (serial) are exact. `Published()` is not: without data, n = 1, an active feature
    survives too often and the expected number of features is a (1 + c) / c instead of a. `Warm()`
    is not either: see `warm_features`.

    Targets:
        the posterior of the features, in no order, their parameters, and the hyper-parameters that
        have a prior, exactly for the first two schedules and any number of blocks and sweeps.

    Args:
        process: `BetaBernoulli(mass, concentration)`, or `GammaPoisson` for features that an item
            has several times.
        family: `LinearGaussian(dim)`, `LinearLogistic(dim)`, `LinearPoisson(dim)`, or
            `FeatureLikelihood` for a likelihood of your own.
        schedule: see above.
        blocks: P, the number of blocks; a multiple of the engine's shards. 1 for `Demotion()`.
        local_sweeps: L, the sweeps over every block in a step.
        capacity: the number of slots to begin with; the runner doubles it when it is used up, and
            the chain, its start given, does not depend on it.

    State:
        `position = Dist(shared, local)`: in `shared` the hyper-parameters and `parameters`, K rows,
        of no meaning for free slots; in `local` the `features`, (N, capacity), bool for
        `BetaBernoulli` and int32 for `GammaPoisson`. Where the family integrates parameters out,
        those of all features are drawn for the report, theta ~ p(theta | Z, X), at the end of a
        step, and the next step does not depend on them. The initial position is `None` (one feature
        that all items have; in `sample`, of 20 items or more, those of `seed_features`, for each
        chain its own), or an array of features with at most `capacity` columns, as
        `Dist({}, {"features": features})` where they are on shards; `parameters` in its shared part
        may have as few rows.

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
        nonparametrics, algorithms 1 and 3. The exact schedules are not theirs, nor is the random
        order of columns: visited by slot, they bias even collapsed Gibbs sampling. Their equation 5
        holds for c = 1 with an m_k that leaves out the row itself; for any c, n - m_k becomes
        n - 1 + c - m_k.
    """
    check_parts(process, family, (FeatureProcess, FeatureFamily))
    model = LatentFeatures(process, family)
    return Hybrid(
        model, blocks=blocks, capacity=capacity, schedule=schedule, local_sweeps=local_sweeps
    )
