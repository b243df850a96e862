"""Metropolis moves that split a cluster of a mixture in two, or merge two."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import _checks
from .._types import Data, Kernel, Key, as_keys
from ..arrays import Tiles, over_rows, squared_distances
from ..collective import Collective, Dist, as_shard
from ..contract import SlotInfo, from_init
from ..families import Family
from ..processes import PitmanYor
from ..special import log_rising_factorial
from ._centre import centre_of, centred, recentred
from ._starts import check_hyper, check_parts, check_start, start_position
from .hybrid.blocks import Blocks
from .seeding import as_points, two_means

_POOL = 256  # items among which a seed's partner is looked for
_ROUNDS = 8  # of Lloyd's, with which a launch begins
_BLIND = 0.1  # the share of the blind law in proposals


class SplitMergeState(NamedTuple):
    """The position of `hybrid_mixture`, and the centre of the family's sums."""

    position: Dist
    centre: Any = None


class SplitMergeInfo(NamedTuple):
    """The clusters' slots, and how many moves were accepted."""

    slots: SlotInfo
    splits: Int[Array, ""]
    merges: Int[Array, ""]

    @property
    def active(self) -> Int[Array, "..."]:
        return self.slots.active

    @property
    def overflow(self) -> Bool[Array, "..."]:
        return self.slots.overflow


class Pairs(NamedTuple):
    """Pairs of seeds: their indices, their slots, and whether a pair is free to move."""

    index: Int[Array, "P 2"]
    slot: Int[Array, "P 2"]
    live: Bool[Array, " P"]

    @property
    def together(self) -> Bool[Array, " P"]:
        """Whether both seeds are in one cluster, which is then to be split."""
        return self.slot[:, 0] == self.slot[:, 1]


class Unions(NamedTuple):
    """The items of each live pair's clusters, by tile; 0 or 1 marks seeds, -1 other items."""

    tiles: Tiles
    items: PyTree
    seed: Int[Array, "tiles size"]


class SplitMerge(Kernel):
    """See `split_merge`."""

    keeps_weights = False
    process: PitmanYor
    family: Family
    proposals: int = eqx.field(static=True)
    scans: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()

    def init(self, key: Key, position: Any, data: Data) -> SplitMergeState:
        start = start_position(self.process, position, as_shard(data).capacity)
        return SplitMergeState(start, centre_of(centred(self, data).family))

    def step(
        self, key: Key, state: SplitMergeState, data: Data
    ) -> tuple[SplitMergeState, SplitMergeInfo]:
        self = recentred(self, state)
        pair_key, launch_key, side_key, test_key = jax.random.split(as_keys(key).noise, 4)
        blocks = Blocks.of(data, self.comm.size, self.comm)
        hyper, labels = state.position.shared, state.position.local["assignment"]
        counts = jnp.zeros(self.capacity, jnp.int32).at[labels].add(blocks.real.astype(jnp.int32))
        occupied = self.comm.psum(counts) > 0

        pairs, centres = self._pairs(pair_key, blocks, labels)
        unions = self._unions(pairs, blocks, labels)
        logits = self._launch(launch_key, blocks, unions, centres)
        side, log_law = self._sides(side_key, blocks, pairs, unions, logits, labels)
        gain = self._gain(hyper, unions, side) - log_law  # of the split, also for a merge
        target, info = self._decide(test_key, hyper, pairs, gain, occupied)
        slots = unions.tiles.own(jnp.stack([pairs.slot[:, 0], target], axis=1))
        moved = jnp.where(side, slots[:, 1:], slots[:, :1])
        labels = unions.tiles.untile(moved, labels)
        return SplitMergeState(Dist(hyper, {"assignment": labels}), state.centre), info

    def retarget(self, key: Key, state: SplitMergeState, data: Data) -> SplitMergeState:
        return self.init(key, state.position, data)  # of other data the centre is another one

    def starter(self, data: Data) -> Any:
        return from_init  # with one cluster: halves that k-means made of one it hardly ever merges

    def check(self, position: Any, data: Data) -> None:
        check_hyper(position, self.process)
        check_start(self.family, self.capacity, position, data, marginals=True)

    def _pairs(self, key: Any, blocks: Blocks, labels: Array) -> tuple[Pairs, Array]:
        """Seeds, drawn without a look at the labels, and their points (P, 2, D)."""
        num, total = self.proposals, jnp.asarray(blocks.shard.total, jnp.uint32)
        words = jax.random.bits(key, (2 * num + _POOL,), jnp.uint32)
        items = (words[num:] % total).astype(jnp.int32)
        first, pool = items[:num], items[num:]
        # the nearest to the first seed of 1, 2, 4, ... items
        reach = 1 << (words[:num, None] % _POOL.bit_length()).astype(jnp.int32)
        points = self._rows(blocks, self._points(blocks), items)
        squares = squared_distances(points[:num], points[num:])
        squares = jnp.where(pool == first[:, None], jnp.inf, squares)  # never with itself
        near = jnp.argmin(jnp.where(jnp.arange(_POOL) < reach, squares, jnp.inf), axis=1)
        index = jnp.stack([first, pool[near]], axis=1)
        slot = self._rows(blocks, labels, index.ravel()).reshape(index.shape)

        def disjoint(used: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            index, slot = pair
            live = (index[0] != index[1]) & ~jnp.any(used[slot])
            return used.at[slot].set(used[slot] | live), live

        _, live = jax.lax.scan(disjoint, jnp.zeros(self.capacity, bool), (index, slot))
        centres = jnp.stack([points[:num], points[num:][near]], axis=1)
        return Pairs(index, slot, live), centres

    def _points(self, blocks: Blocks) -> Float[Array, "n D"]:
        """All items, for distances by products, which cancel far from zero."""
        points, centre = as_points(blocks.shard.items), centre_of(self.family)
        return points if centre is None else points - centre.astype(points.dtype)

    def _rows(self, blocks: Blocks, x: Array, index: Int[Array, " m"]) -> Array:
        """The rows of items by their global index, whichever shard has them."""
        local = index - blocks.shard.start
        mine = (local >= 0) & (local < blocks.shard.capacity)
        rows = x[jnp.where(mine, local, 0)]
        return self.comm.psum(jnp.where(over_rows(mine, rows), rows, 0))

    def _unions(self, pairs: Pairs, blocks: Blocks, labels: Int[Array, " n"]) -> Unions:
        """The unions of the seeds' clusters, which no move of any pair changes."""
        num = self.proposals
        pair = jnp.where(pairs.live, jnp.arange(num), num).astype(jnp.int32)
        of_slot = jnp.full(self.capacity, num, jnp.int32).at[pairs.slot].min(pair[:, None])
        tiles = Tiles.of(jnp.where(blocks.real, of_slot[labels], num), num)
        index = jnp.where(tiles.real, tiles.take(blocks.index), -1)
        first, second = (tiles.own(pairs.index[:, i])[:, None] for i in (0, 1))
        seed = jnp.where(index == first, 0, jnp.where(index == second, 1, -1))
        return Unions(tiles, tiles.take(blocks.shard.items), seed)

    def _launch(self, key: Any, blocks: Blocks, unions: Unions, centres: Array) -> Array:
        """The log odds of every item for the second seed's side, blind to the current labels."""
        points = unions.tiles.take(self._points(blocks))
        side = two_means(unions.tiles, points, centres, _ROUNDS, self.comm)  # U and seeds alone
        side = _with_seeds(side, unions)
        last, *keys = jax.random.split(key, 2 * self.scans - 1)
        for draw_key, side_key in zip(keys[::2], keys[1::2], strict=True):
            logits = self._logits(draw_key, unions, side)
            side = _with_seeds(logits > _logistic(side_key, blocks, unions, logits.dtype), unions)
        return self._logits(last, unions, side)  # by parameters drawn anew, for the proposal

    def _logits(self, key: Any, unions: Unions, side: Array) -> Array:
        """log [n_2 f(x | theta_2) / n_1 f(x | theta_1)], both theta drawn given the sides."""
        stats = self._statistics(unions, side)
        params = self.family.draw(key, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stats))
        params = jax.tree.map(lambda x: x.reshape(-1, 2, *x.shape[1:]), params)
        scores = jax.vmap(self.family.scores)(unions.tiles.own(params), unions.items)
        size = jnp.log(jnp.maximum(jax.tree.leaves(stats)[0], 1))
        return scores[:, 1] - scores[:, 0] + unions.tiles.own(size[:, 1] - size[:, 0])[:, None]

    def _statistics(self, unions: Unions, side: Bool[Array, "tiles size"]) -> PyTree:
        """The statistics of the two sides of every union: (P, 2, ...)."""
        ours = (side[:, None, :] == jnp.array([False, True])[:, None]) & unions.tiles.real[:, None]
        each = jax.vmap(self.family.statistics)(unions.items, ours.astype(jnp.result_type(float)))
        return self.comm.sum(unions.tiles.sum(each))

    def _sides(
        self, key: Any, blocks: Blocks, pairs: Pairs, unions: Unions, logits: Array, labels: Array
    ) -> tuple[Array, Array]:
        """The sides of the divided state of every union, and the log probability to propose them.

        The divided state is the proposal where the seeds are together, else the current one.
        """
        pair_key, item_key = jax.random.split(key)
        dtype, tiles = logits.dtype, unions.tiles
        blind, share = jax.random.uniform(pair_key, (2, self.proposals), dtype)
        blind, share = tiles.own((blind < _BLIND, share))
        proposed = jnp.where(blind[:, None], jax.scipy.special.logit(share)[:, None], logits)
        drawn = proposed > _logistic(item_key, blocks, unions, dtype)
        current = tiles.take(labels) == tiles.own(pairs.slot[:, 1])[:, None]  # of two clusters
        side = _with_seeds(jnp.where(tiles.own(pairs.together)[:, None], drawn, current), unions)

        chosen = tiles.real & (unions.seed < 0)  # seeds have no choice: q is of the others
        # of both laws, whichever was drawn from; of a merge, for the split that would undo it
        log_odds = jax.nn.log_sigmoid(jnp.where(side, logits, -logits))
        by_tile = (jnp.where(chosen, log_odds, 0).sum(1), (chosen & side).sum(1), chosen.sum(1))
        informed, second, size = self.comm.sum(tiles.sum([x.astype(dtype) for x in by_tile]))
        small, large = jnp.sort(jnp.stack([second, size - second]), axis=0)
        uniform = gammaln(small + 1) - log_rising_factorial(large + 1, small + 1)
        return side, jnp.logaddexp(jnp.log1p(-_BLIND) + informed, jnp.log(_BLIND) + uniform)

    def _gain(self, hyper: dict[str, Array], unions: Unions, side: Array) -> Array:
        """The log posterior of two clusters less that of one, but for the process's births."""
        stats = self._statistics(unions, side)
        stats = jax.tree.map(lambda x: jnp.concatenate([x[:, 0], x[:, 1], x.sum(axis=1)]), stats)
        first, second, both = jnp.split(self.family.log_marginal(stats), 3)
        # of numbers as large as what the smaller cluster has: those of both would cancel
        sizes = jnp.maximum(jnp.stack(jnp.split(jax.tree.leaves(stats)[0], 3)[:2]), 1)
        (small, large), less = jnp.sort(sizes, axis=0), 1 - hyper["discount"]
        joins = log_rising_factorial(less, small - 1)
        return first + second - both + joins - log_rising_factorial(large - 1 + less, small)

    def _decide(
        self, key: Any, hyper: dict[str, Array], pairs: Pairs, gain: Array, occupied: Array
    ) -> tuple[Array, SplitMergeInfo]:
        """The slot of the second side of each pair, one pair after the other.

        A split has the log acceptance ratio `gain + log(a + K d)`, and its inverse the opposite.
        """
        a, d = hyper["concentration"], hyper["discount"]
        log_uniform = -jax.random.exponential(key, gain.shape, gain.dtype)

        def one(occupied: Bool[Array, " K"], pair: tuple) -> tuple[Bool[Array, " K"], tuple]:
            slot, live, together, gain, log_uniform = pair
            num = jnp.sum(occupied)  # as earlier pairs have left them
            ratio = jnp.where(
                together, gain + jnp.log(a + num * d), -gain - jnp.log(a + (num - 1) * d)
            )
            taken = live & (log_uniform < ratio)  # never where the ratio is NaN
            split, merge = taken & together, taken & ~together
            full = jnp.all(occupied)  # after earlier merges, whose slots are free again
            free = jnp.argmin(occupied).astype(slot.dtype)
            target = jnp.where(split, free, jnp.where(merge, slot[0], slot[1]))
            occupied = occupied.at[slot[1]].set(occupied[slot[1]] & ~merge)
            occupied = occupied.at[target].set(occupied[target] | split)
            return occupied, (target, split, merge, split & full)

        inputs = (pairs.slot, pairs.live, pairs.together, gain, log_uniform)
        occupied, (target, split, merge, lost) = jax.lax.scan(one, occupied, inputs)
        count = lambda x: jnp.sum(x, dtype=jnp.int32)
        slots = SlotInfo(count(occupied), jnp.any(lost))
        return target, SplitMergeInfo(slots, count(split), count(merge))


def _with_seeds(side: Bool[Array, "tiles size"], unions: Unions) -> Bool[Array, "tiles size"]:
    """The sides with each seed on its own."""
    return jnp.where(unions.seed < 0, side, unions.seed == 1) & unions.tiles.real


def _logistic(key: Any, blocks: Blocks, unions: Unions, dtype: Any) -> Float[Array, "tiles size"]:
    """Logistic noise for every item, by its global index."""
    uniform = unions.tiles.take(blocks.uniforms(key, 1, dtype)[0])
    return jnp.log(uniform) - jnp.log1p(-uniform)


def split_merge(
    process: PitmanYor,
    family: Family,
    *,
    proposals: int = 16,
    scans: int = 1,
    capacity: int = 16,
) -> SplitMerge:
    """Metropolis moves that split a cluster of a mixture in two, or merge two, many at once.

    In every step pairs of items, the seeds, are drawn without a look at the labels: the first
    uniformly, the second as the nearest to it of 1, 2, 4, ... or 256 others. Let U be the union of
    the two clusters that hold them: if that is one cluster, it may be split, with a seed on each
    side, else the two may be merged. Pairs whose U meets that of an earlier pair stand back.

    The items of U are divided by parameters drawn given a *launch*, a division of U into two that
    two-means makes from the seeds, so that the sides of all items are proposed at once,

        q(sides) = .9 prod_i sigmoid(+-log [n_2 f(x_i | theta_2) / (n_1 f(x_i | theta_1))])
                   + .1 s! (n - s)! / (n + 1)!,

    where n items other than the seeds have s on the second side; the second term is a division
    blind to the data, by which clusters that overlap entirely can be merged. With K clusters, a
    split of m items into m_1 and m_2 is accepted with probability min(1, r),

        r = (a + K d) (1 - d)_{m_1 - 1} (1 - d)_{m_2 - 1} / (1 - d)_{m - 1}
            p(items of 1) p(items of 2) / p(items of U) / q(sides),

    (x)_m the rising factorial, and the merge that undoes it with min(1, 1 / r), where the sides
    are the present clusters.

    This is exact: the seeds, the launch and theta_1, theta_2 are functions of random numbers, the
    items and the set U, which the move does not change; given them it is Metropolis-Hastings
    between the one-cluster state of U and its 2^n divided ones. Nor does a move change which pairs
    stand back: the moves of all are at once what they are in turn, K alone being passed on. They
    are no ergodic sampler of their own (nor do they draw the concentration): use
    `cycle(hybrid_mixture(...), split_merge(...))`, which begins with one cluster.

    Targets:
        the posterior of the partition given the hyper-parameters, exactly. In float32 log r is off
        by what the family's log marginals are, some 1e-7 of their size, and by R^2 m / 1e7 of
        clusters that are R of their deviations off the data's median: else `jax_enable_x64`.

    Args:
        process: `DirichletProcess(concentration)` or `PitmanYor(concentration, discount)`.
        family: the conjugate family of a cluster's items.
        proposals: the pairs of a step, which costs a few sweeps however many they are.
        scans: 1 for the launch above; each more is a Gibbs sweep of it over the sides.
        capacity: the number of slots to begin with, that of the other kernels of a cycle.

    State:
        `position`, as that of `hybrid_mixture`.

    Info:
        `active`, the clusters after the step; `overflow`; `splits` and `merges`, those accepted.

    Raises:
        ValueError: if a number is out of its range or the data unfit for the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import bnp, cycle, sample
        >>> X = jnp.concatenate([jnp.full((10, 1), -5.0), jnp.full((10, 1), 5.0)])
        >>> parts = bnp.DirichletProcess(1.0), bnp.NormalKnownCovariance(0.0, 1.0, 25.0)
        >>> kernel = cycle(bnp.hybrid_mixture(*parts, blocks=4), bnp.split_merge(*parts))
        >>> z = sample(jax.random.key(0), kernel, None, X, num_steps=50).trace.local["assignment"]
        >>> bool((z[25:, 0] != z[25:, -1]).all())
        True

    Reference:
        Jain and Neal (2004, 2007), split-merge Markov chain Monte Carlo, with the parameters of
        their non-conjugate sampler; Chang and Fisher (2013) for blind divisions. Theirs is one
        pair a step, uniform, and a final scan item by item; ours needs no order.
    """
    check_parts(process, family)
    for name, value in [("proposals", proposals), ("scans", scans), ("capacity", capacity)]:
        _checks.whole(name, value)
    return SplitMerge(process, family, proposals, scans, capacity)
