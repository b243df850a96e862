"""The kernel behind `slice_mixture`: one step of exact slice sampling, whatever points it moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import _tree
from .._types import Data, Kernel, Key, Keys, as_keys
from ..collective import Collective, Dist, Shard, as_shard
from ..contract import SlotInfo
from ..families import Family
from ..processes import Series
from ..random.words import item_uniforms
from ._centre import centre_of, centred, recentred
from ._scans import Batch, Move, Scan, SliceSums
from ._starts import (
    Starter,
    check_hyper,
    check_start,
    start_of_points,
    start_position,
    with_own_hyper,
)
from .hybrid.points import pick_columns

_REACH = 5.0  # open are the atoms that arrive by the time _REACH times the number of points


class SliceState(NamedTuple):
    """Where a chain is.

    `position.shared` holds the hyper-parameters, `position.local` each point's `assignment`.
    `log_weights`, `log_rest` and `parameters` are the mixture that points were last drawn from:
    each slot's weight, that of all others, and theta. The statistics in `sums` are those of
    `family.about(centre)`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import DirichletMultinomial, DirichletProcess, slice_mixture
        >>> parts = DirichletProcess(1.0), DirichletMultinomial(0.5, size=3)
        >>> kernel = slice_mixture(*parts, capacity=8)
        >>> init = lambda key: kernel.init(key, None, jnp.ones((6, 3), int))
        >>> state = jax.eval_shape(init, jax.random.key(0))
        >>> state.log_weights.shape, state.position.local["assignment"].shape
        ((8,), (6,))
    """

    position: Dist
    log_weights: Float[Array, " K"]
    log_rest: Float[Array, ""]
    parameters: PyTree
    sums: SliceSums
    centre: PyTree = None


class Choice(NamedTuple):
    """The log prior probabilities of each point's clusters, and whether slots are lacking."""

    log_prior: Float[Array, "K n"]
    short: Bool[Array, ""]


class SliceMixture(Kernel):
    """See `slice_mixture`."""

    keeps_weights = False

    process: Series
    family: Family
    scan: Scan
    capacity: int = eqx.field(static=True)
    comm: Collective = Collective()

    def init(self, key: Key, position: Any, data: Data) -> SliceState:
        self = centred(self, data)
        shard = as_shard(data)
        position = start_position(self.process, position, shard.capacity)
        own = self.sums(shard.items, position.local["assignment"], shard.mask)
        sums = self.comm.sum(own)
        dtype = jnp.result_type(float, *jax.tree.leaves(position.shared))
        # a mixture in form alone: the first step draws one given the labels, and reads none of this
        weights = jnp.zeros(self.capacity, dtype)
        params = self.family.draw(as_keys(key).noise, sums.statistics)
        return SliceState(position, weights, weights[0], params, sums, centre_of(self.family))

    def starter(self, data: Data) -> Starter | None:
        self.check(None, data)
        return start_of_points(data, self.capacity)

    def refresh(self, key: Key, state: Any, data: Data) -> Any:
        self, shard = centred(self, data), as_shard(data)
        labels = state.position.local["assignment"]
        sums = self.comm.sum(self.sums(shard.items, labels, shard.mask))
        return state._replace(sums=sums, centre=centre_of(self.family))

    def step(self, key: Key, state: Any, data: Data) -> tuple[Any, SlotInfo]:
        """The mixture given all labels; then the labels of a batch, all at once."""
        self, keys = recentred(self, state), as_keys(key)
        mixture_key, label_key, round_key = jax.random.split(keys.noise, 3)
        shard, labels = as_shard(data), state.position.local["assignment"]
        batch = self.scan.batch(keys.batch, shard, self.comm)
        old = labels[batch.rows]
        state, choice = self.draw(keys._replace(noise=mixture_key), state, shard, batch)

        # given the mixture, and which atoms are open, labels are independent of each other
        scores = self.family.scores(state.parameters, batch.items)
        uniforms = item_uniforms(label_key, shard.start + batch.rows, scores.dtype)
        # what may not be chosen is no choice, whatever its score is
        logits = jnp.where(jnp.isneginf(choice.log_prior), -jnp.inf, choice.log_prior + scores)
        new = pick_columns(logits, uniforms)
        # of padding in a batch nothing is written
        place = jnp.where(batch.real, batch.rows, len(labels))
        moved = labels.at[place].set(new, mode="drop")
        # an open atom without a slot is a choice that points were not given
        lost = (choice.short & self.scan.exact(keys.count)).astype(jnp.int32)

        # the weight of a slot without an atom may be NaN
        weights = jnp.where(jnp.isnan(state.log_weights), -jnp.inf, state.log_weights)
        move = Move(old, new, moved, lost, weights[:, None] + scores, round_key)
        sums = self.scan.follow(self, keys.count, state.sums, shard, batch, move)
        # a label below 0 is drawn of no law, as numbers that are NaN have none
        broken = self.comm.any(jnp.any(batch.real & (new < 0)))
        shared = _tree.nan_where(state.position.shared, broken)
        position = Dist(shared, {"assignment": moved})
        active = jnp.sum(sums.counts > 0, dtype=jnp.int32)
        return state._replace(position=position, sums=sums), SlotInfo(active, sums.overflow > 0)

    def finite(self, state: Any) -> Bool[Array, ""]:
        return super().finite(state) & _tree.all_finite((state.parameters, state.sums.statistics))

    def retarget(self, key: Key, state: Any, data: Data) -> Any:
        return self.refresh(key, with_own_hyper(state, self.process), data)

    def check(self, position: Any, data: Data) -> None:
        check_hyper(position, self.process)
        check_start(self.family, self.capacity, position, data)
        if not isinstance(data, Shard):
            self.scan.check(as_shard(data).capacity)

    def draw(self, keys: Keys, state: Any, shard: Shard, batch: Batch) -> tuple[Any, Choice]:
        """Hyper-parameters, atoms and parameters given the points' clusters; and who may move.

        An atom is open if it has arrived by the time T = 5 N, with probability 1 - e^(-T w). Given
        the measure that has nothing to do with labels. So a point may be drawn anew among the open
        atoms, if its own is one, with all others held: that is a Gibbs step of a part of its range.
        In a closed one it stays where it is.
        """
        hyper_key, atom_key, param_key = jax.random.split(keys.noise, 3)
        (hyper, local), counts = state.position, state.sums.counts
        # of all points, also those that are not drawn anew: weights and times of arrival are
        # integrated out here, and fresh draws below
        hyper = self.process.redraw(hyper_key, hyper, counts)
        # a constant: given the weights, whether an atom is open knows no label and no batch
        end = _REACH * shard.total
        atoms = self.process.draw_atoms(atom_key, hyper, counts, end)
        # who may move is told by times, drawn after the labels, and not by the labels
        among = open_to(local["assignment"][batch.rows], atoms.arrived)
        state = state._replace(
            position=Dist(hyper, local),
            log_weights=atoms.log_weight,
            log_rest=atoms.log_rest,
            parameters=self.family.draw(param_key, state.sums.statistics),
        )
        # not divided by the open atoms' sum, which is the same for all that a point may choose
        log_prior = jnp.where(among, atoms.log_weight[:, None], -jnp.inf)
        return state, Choice(log_prior, atoms.more)

    def sums(self, items: PyTree, labels: Int[Array, " n"], real: Bool[Array, " n"]) -> SliceSums:
        """This shard's sums over some points."""
        labels = jnp.where(real, labels, -1)
        statistics = self.family.label_statistics(items, labels, self.capacity)
        return self._sizes(labels)._replace(statistics=statistics)

    def gains(self, batch: Batch, old: Int[Array, " n"], new: Int[Array, " n"]) -> SliceSums:
        """What this shard's sums gain when a batch moves."""
        # padding is in no cluster, before or after
        old, new = (jnp.where(batch.real, labels, -1) for labels in (old, new))
        statistics = self.family.moved_statistics(batch.items, old, new, self.capacity)
        gain = optax.tree.sub(self._sizes(new), self._sizes(old))
        return gain._replace(statistics=statistics)

    def _sizes(self, labels: Int[Array, " n"]) -> SliceSums:
        """Sums that leave out the statistics."""
        counts = jnp.sum(labels == jnp.arange(self.capacity)[:, None], axis=1, dtype=jnp.int32)
        return SliceSums(counts, None, jnp.zeros((), jnp.int32))


def open_to(labels: Int[Array, " n"], arrived: Bool[Array, " K"]) -> Bool[Array, "K n"]:
    """To a point in an open atom all open ones, to another its own."""
    own = labels == jnp.arange(len(arrived))[:, None]
    return jnp.where(arrived[labels], arrived[:, None], own)
