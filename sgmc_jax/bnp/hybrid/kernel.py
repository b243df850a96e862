"""The step that all hybrid samplers share, and the protocol of what they sample."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree, Shaped

from ... import _checks, _tree
from ..._types import Data, Kernel, Key, as_keys
from ...arrays import over_rows
from ...collective import Collective, Dist, Shard, leading_axis
from ...contract import SlotInfo
from .._starts import Starter, with_own_hyper
from ..groups import Groups
from .anchors import Anchors
from .blocks import Blocks, Rows
from .schedules import Anchored, Demotion, Published, Schedule

_ONE_BY_ONE = 50_000  # items of a block, of which a sweep takes seconds


def _num_visited(data: Data) -> int | None:
    """How many items are visited in a sweep of all blocks, as far as that is known."""
    if not isinstance(data, Groups):
        return leading_axis(data)
    if not _checks.is_concrete(data.size):
        return None
    return int(jnp.sum(jnp.asarray(data.size), dtype=float))  # they may be on several processes


class HybridSums(NamedTuple):
    """All that shards know of each other: sums over items, added up in one synchronisation.

    The number of items of each block with each atom (of features that an item has several times,
    how often), the family's statistics, the number of shards on which a birth found no slot, and
    what a model needs besides.

    Example: two blocks, two atoms.
        >>> import jax.numpy as jnp
        >>> sums = HybridSums(jnp.array([[2, 0], [1, 3]]), statistics=None, overflow=jnp.array(0))
        >>> sums.counts.tolist()
        [3, 3]
    """

    occupancy: Int[Array, "P K"]
    statistics: PyTree
    overflow: Int[Array, ""]
    more: PyTree = None

    @property
    def counts(self) -> Int[Array, " K"]:
        """The number of items with each atom; 0 for a free slot."""
        return jnp.sum(self.occupancy, axis=0)


class HybridState(NamedTuple):
    """Where a chain is.

    `position.shared` holds what is not of the items, hyper-parameters above all, `position.local`
    the items' labels or entries. `sums.statistics` are taken about `centre`: a point amid the data,
    or, of features, the parameters of which they subtract the fit.

    Example:
        >>> import jax.numpy as jnp
        >>> sums = HybridSums(jnp.array([[2, 0, 1]]), statistics=None, overflow=jnp.array(0))
        >>> state = HybridState(Dist({}, {"assignment": jnp.array([0, 2, 0])}), sums)
        >>> int(state.slots.active), bool(state.slots.overflow)
        (2, False)
    """

    position: Dist
    sums: HybridSums
    centre: PyTree = None

    @property
    def slots(self) -> SlotInfo:
        """The info of the step that ended in this state."""
        active = jnp.sum(self.sums.counts > 0, dtype=jnp.int32)
        return SlotInfo(active, self.sums.overflow > 0)


class StepKeys(NamedTuple):
    """The keys of a step's draws, by what is drawn."""

    hyper: Any = None
    star: Any = None
    rank: Any = None
    weight: Any = None
    atom: Any = None
    off: Any = None
    tail: Any = None
    end: Any = None


class Round(NamedTuple):
    """What a shard knows between two synchronisations.

    The keys of the step, the shard's blocks, hyper-parameters, the `atoms` (which have a field
    `instantiated`), theta (what their parameters are to the sweeps), the items with each atom at
    the last synchronisation, and how often, how and in how many blocks to sweep.
    """

    keys: StepKeys
    blocks: Blocks
    hyper: dict[str, Array]
    atoms: Any
    theta: PyTree
    counts: Int[Array, " K"]
    num_sweeps: int
    demotes: bool
    several: bool


class HybridModel(eqx.Module):
    """What a hybrid sampler samples: a process, a family, and how items move among their atoms.

    A step calls `draw` and `in_sweeps`, then `off_star` for the items off the designated block and
    `sweep` for the others, then `synchronise`. Their z are the labels or entries of all rows of a
    shard.

    Attributes:
        local: the name of z in `position.local`.
        keys: the names of a step's keys, in the order in which they are split.
        schedules: the schedules that it knows.
    """

    local: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    schedules: ClassVar[tuple[type[Schedule], ...]] = (Anchored, Demotion, Published)

    process: eqx.AbstractVar[Any]
    family: eqx.AbstractVar[Any]

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts that have hyper-parameters."""
        return (self.process,)

    @abstractmethod
    def init(self, key: Any, position: Any, blocks: Blocks, capacity: int) -> HybridState:
        """The state at a position as users give it."""

    def starter(self, data: PyTree, capacity: int) -> Starter | None:
        """Where chains of such items begin if nothing is said; see `Kernel.starter`."""
        return None

    @abstractmethod
    def refresh(self, key: Any, state: HybridState, blocks: Blocks, capacity: int) -> HybridState:
        """The state after something else has moved the position."""

    def about(self, centre: PyTree) -> HybridModel:
        """The model with its statistics about the centre of a state."""
        return self

    def entries(self, local: Shaped[Array, "rows *k"], blocks: Blocks) -> Int[Array, "n *k"]:
        """z, from what the position says of the items."""
        return blocks.pad(local)

    @abstractmethod
    def draw(
        self,
        keys: StepKeys,
        state: HybridState,
        anchors: Anchors,
        z: Int[Array, "n *k"],
        blocks: Blocks,
    ) -> tuple[dict[str, Array], Any, PyTree]:
        """Hyper-parameters, atoms and their parameters, alike on all shards."""

    def in_sweeps(self, params: PyTree, blocks: Blocks) -> PyTree:
        """theta: what the parameters are to the sweeps of a shard's items."""
        return params

    @abstractmethod
    def off_star(self, now: Round, anchors: Anchors, z: Int[Array, "n *k"]) -> Int[Array, "n *k"]:
        """New z among the instantiated atoms, all rows at once; anchors keep theirs."""

    @abstractmethod
    def sweep(
        self, now: Round, z: Int[Array, "n *k"], rows: Rows
    ) -> tuple[Int[Array, "rows *k"], tuple[PyTree, Bool[Array, ""]]]:
        """Sweeps over one block, its rows taken by `rows`, with all other atoms integrated out.

        Returns:
            their z, what else the synchronisation must know, and whether a birth found no slot.
        """

    @abstractmethod
    def synchronise(
        self, now: Round, z: Int[Array, "n *k"], known: tuple[PyTree, Bool[Array, ""]]
    ) -> HybridState:
        """The state that a step ends in: the one place where shards meet.

        Args:
            known: what `sweep` returned, zeros on the shards that have swept no block.
        """

    @abstractmethod
    def check(self, position: Any, data: Data, capacity: int) -> None:
        """Raise if a concrete start or data is unfit."""


class ModelKernel(Kernel):
    """A kernel on the states of a model."""

    keeps_weights = False

    model: HybridModel
    capacity: int = eqx.field(static=True, kw_only=True)
    comm: Collective = eqx.field(default=Collective(), kw_only=True)

    def __check_init__(self):
        _checks.whole("capacity", self.capacity)

    @abstractmethod
    def _blocks(self, data: Data) -> Blocks:
        """The items of this shard, in blocks."""

    def init(self, key: Key, position: Any, data: Data) -> HybridState:
        return self.model.init(as_keys(key).noise, position, self._blocks(data), self.capacity)

    def starter(self, data: Data) -> Starter | None:
        self.check(None, data)
        return self.model.starter(data, self.capacity)

    def refresh(self, key: Key, state: HybridState, data: Data) -> HybridState:
        return self.model.refresh(as_keys(key).noise, state, self._blocks(data), self.capacity)

    def retarget(self, key: Key, state: HybridState, data: Data) -> HybridState:
        # what has no prior is this target's own, whatever the state brings along
        return self.refresh(key, with_own_hyper(state, *self.model.parts), data)

    def finite(self, state: HybridState) -> Bool[Array, ""]:
        return super().finite(state) & _tree.all_finite(state.sums.statistics)

    def _told(self, state: HybridState, params: PyTree, z: Shaped[Array, "n *k"]) -> HybridState:
        """A state that does not look whole if its z come of NaN parameters, or, where one is
        negative, of no law at all: they are numbers like others."""
        broken = self.comm.any(_tree.has_nan(params) | jnp.any(z < 0))
        shared = _tree.nan_where(state.position.shared, broken)
        return state._replace(position=state.position._replace(shared=shared))

    def check(self, position: Any, data: Data) -> None:
        self.model.check(position, data, self.capacity)
        if not isinstance(data, Shard):
            _checks.some_items(leading_axis(data))


class BlockKernel(ModelKernel):
    """A kernel that works in `blocks` blocks of items, each of which a shard holds whole."""

    blocks: int = eqx.field(static=True, kw_only=True)

    def __check_init__(self):
        _checks.whole("blocks", self.blocks)

    def _blocks(self, data: Data) -> Blocks:
        return Blocks.of(data, self.blocks, self.comm)


class Hybrid(BlockKernel):
    """The kernel behind `hybrid_mixture`, `hybrid_features` and `hybrid_hdp`."""

    schedule: Schedule = eqx.field(kw_only=True)
    local_sweeps: int = eqx.field(static=True, kw_only=True)

    def __check_init__(self):
        _checks.whole("local_sweeps", self.local_sweeps)
        if not isinstance(self.schedule, self.model.schedules):
            known = ", ".join(f"{kind.__name__}()" for kind in self.model.schedules)
            raise TypeError(f"schedule must be one of {known}, got {self.schedule!r}")
        self.schedule.check(self.blocks, self.local_sweeps)

    def check(self, position: Any, data: Data) -> None:
        super().check(position, data)
        num = None if isinstance(data, Shard) else _num_visited(data)
        if num is not None and num > _ONE_BY_ONE * self.blocks:
            warnings.warn(
                f"{num:,} items in {self.blocks} block{'s' * (self.blocks > 1)}: those of a block "
                f"are visited one after the other. More blocks, such as blocks={num // 1_000}, are "
                "swept at the same time and as exact; bnp.default_sampler chooses their number",
                stacklevel=2,
            )

    def step(self, key: Key, state: HybridState, data: Data) -> tuple[HybridState, SlotInfo]:
        """A synchronisation's draws, then every block by itself, then the next synchronisation."""
        given, names = as_keys(key), self.model.keys
        keys = StepKeys(**dict(zip(names, jax.random.split(given.noise, len(names)))))
        # the state's sums are about its centre, and so must be all laws that read them
        model, blocks, sums = self.model.about(state.centre), self._blocks(data), state.sums
        z = model.entries(state.position.local[model.local], blocks)
        real = z >= 0  # groups may have negative labels where they have no item
        # the designated block and A, by entries that will not move while they are in force
        anchors = self.schedule.anchors(keys.star, sums.occupancy)
        hyper, atoms, params = model.draw(keys, state, anchors, z, blocks)
        theta = model.in_sweeps(params, blocks)
        how = self.local_sweeps, self.schedule.demotes, self.schedule.several
        # the last that shards have in common: up to the next sums each works by itself
        now = Round(keys, blocks, hyper, atoms, theta, sums.counts, *how)

        # a single block is the designated one
        if self.blocks > 1 and self.schedule.instantiates:
            moved = model.off_star(now, anchors, z)
            off = blocks.real & (blocks.block != anchors.star)
            # given A, weights and parameters they are independent, of each other and of the sweep
            z = jnp.where(over_rows(off, z), moved, z)
        sweep = partial(model.sweep, now, z)
        # where a schedule is exact, of rows that the move above has left as they were
        z, known = self.schedule.births(sweep, anchors, blocks, sums, given.count, z)
        state = self._told(model.synchronise(now, z, known), params, jnp.where(real, z, 0))
        return state, state.slots
