"""Slice sampling with sticks and parameters that move by the counts of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Real

from .. import _checks
from .._checks import schedule
from .._estimators import Estimate
from .._types import Data, Kernel, Key, Keys, as_keys
from ..collective import Dist, Shard, as_shard
from ..families.dirichlet_multinomial import Multinomials
from ..processes import PitmanYor
from ..processes.pitman_yor import Sticks
from ..random import log_gamma
from ..random.words import item_uniforms
from ..transitions import CIR, ExpandedMeanLangevin, GammaTotal, Phase
from ._order import in_use, swap_neighbours
from ._scans import Batch, SliceSums, scaled_up
from ._slice import Choice, SliceMixture
from ._starts import start_position


class StochasticSliceState(NamedTuple):
    """Where a chain with moving weights is: as of `SliceState`, and two more.

    `order` lists the slots by their sticks. `gammas` are the log gammas behind the sticks (K, 2),
    in their order, and behind the parameters (K, V), by slot.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import DirichletMultinomial, DirichletProcess, slice_mixture
        >>> parts = DirichletProcess(1.0), DirichletMultinomial(0.5, size=3)
        >>> kernel = slice_mixture(*parts, 2, "scir", step_size=0.1, capacity=8)
        >>> init = lambda key: kernel.init(key, None, jnp.ones((6, 3), int))
        >>> state = jax.eval_shape(init, jax.random.key(0))
        >>> state.order.shape, state.log_weights.shape
        ((8,), (8,))
    """

    position: Dist
    order: Int[Array, " K"]
    log_weights: Float[Array, " K"]
    log_rest: Float[Array, ""]
    parameters: PyTree
    sums: SliceSums
    gammas: tuple[Float[Array, "K 2"], Float[Array, "K V"]]
    centre: PyTree = None


class StochasticSlice(SliceMixture):
    """`slice_mixture` with `weights="scir"` or `"sgrld"`.

    Of the points that are in no batch only the sizes of the clusters are kept, which tell the
    sticks in use and accept the exchanges.
    """

    process: PitmanYor
    weights: Literal["scir", "sgrld"] = eqx.field(static=True, kw_only=True)
    step_size: Float[Array, ""] | Callable = eqx.field(
        converter=schedule("step_size"), kw_only=True
    )
    stick_step_size: Float[Array, ""] | Callable = eqx.field(
        converter=schedule("stick_step_size"), kw_only=True
    )

    def init(self, key: Key, position: Any, data: Data) -> StochasticSliceState:
        shard = as_shard(data)
        position = start_position(self.process, position, shard.capacity)
        labels, hyper = position.local["assignment"], position.shared
        sums = self.comm.sum(self.sums(shard.items, labels, shard.mask))
        # the order is part of the chain, which may begin with any
        order = jnp.arange(self.capacity)
        sticks, params = self._gammas(as_keys(key).noise, shard, labels, hyper, order)
        return StochasticSliceState(
            position,
            order,
            jnp.zeros_like(sticks[:, 0]),
            jnp.zeros_like(sticks[0, 0]),
            Multinomials(jax.nn.log_softmax(params)),
            sums,
            (sticks, params),
        )

    def refresh(self, key: Key, state: StochasticSliceState, data: Data) -> StochasticSliceState:
        order_key, gamma_key = jax.random.split(as_keys(key).noise)
        state = super().refresh(order_key, state, data)
        hyper, local = state.position
        # the order belongs to labels that may have moved
        order = self.process.draw_order(order_key, hyper, state.sums.counts)
        gammas = self._gammas(gamma_key, as_shard(data), local["assignment"], hyper, order)
        return state._replace(order=order, gammas=gammas)

    def grow(self, state: StochasticSliceState, capacity: int) -> tuple[Kernel, Any]:
        # new slots have the sticks past all others, which every step draws from the prior
        order = jnp.append(state.order, jnp.arange(self.capacity, capacity))
        return self.resize(capacity), state._replace(order=order)

    def _gammas(
        self,
        key: Any,
        shard: Shard,
        labels: Int[Array, " n"],
        hyper: dict[str, Array],
        order: Int[Array, " K"],
    ) -> tuple[Float[Array, "K 2"], Float[Array, "K V"]]:
        """The log gammas of sticks and parameters, drawn given all labels."""
        stick_key, param_key = jax.random.split(key)
        points = Batch(jnp.arange(shard.capacity), shard.items, shard.mask)
        stats, none = self._estimate(shard, points, labels), jnp.zeros(self.capacity)
        shapes, prior = (self._stick_shapes(hyper, n) for n in (stats.count[order], none))
        return _start(stick_key, shapes, prior), _start(param_key, *self._shapes(stats))

    def draw(
        self, keys: Keys, state: StochasticSliceState, shard: Shard, batch: Batch
    ) -> tuple[StochasticSliceState, Choice]:
        """Sticks, their order, hyper-parameters and parameters, given the batch's clusters; slices.

        A point may move to the atoms that weigh more than u_i, uniform below the weight of its own.
        """
        mixture_key, slice_key = jax.random.split(keys.noise)
        last = state.order[-1]
        state = self._draw_mixture(keys._replace(noise=mixture_key), state, shard, batch)
        log_weights, index = state.log_weights, shard.start + batch.rows
        own = log_weights[state.position.local["assignment"][batch.rows]]
        # given the weights just drawn, which must not change before labels are drawn by it
        level = own + jnp.log(item_uniforms(slice_key, index, log_weights.dtype))
        # a cluster on the last stick might have been exchanged with the next
        ends = state.sums.counts[jnp.stack([last, state.order[-1]])]
        short = jnp.any(ends > 0) | jnp.any(batch.real & (state.log_rest >= level))
        # a level may be rounded to the weight of the point's own atom
        log_prior = jnp.where(log_weights[:, None] >= level, 0.0, -jnp.inf)
        return state, Choice(log_prior, short)

    def _draw_mixture(
        self, keys: Keys, state: StochasticSliceState, shard: Shard, batch: Batch
    ) -> StochasticSliceState:
        """Sticks, their order, hyper-parameters and parameters, given the batch's clusters."""
        stick_key, swap_key, hyper_key, tail_key, param_key = jax.random.split(keys.noise, 5)
        step_size, stick_step_size = (
            self._at(keys.count, name) for name in ("step_size", "stick_step_size")
        )
        process, (hyper, local), counts = self.process, state.position, state.sums.counts
        order, (sticks, params) = state.order, state.gammas
        none = jnp.zeros_like(counts)
        # u_i are integrated out of all that follows: nothing here knows a level
        stats = self._estimate(shard, batch, local["assignment"][batch.rows])

        shapes = self._stick_shapes(hyper, stats.count[order])
        prior, used = self._stick_shapes(hyper, none), in_use(counts[order])
        sticks = self._moved(stick_key, sticks, shapes, prior, used, stick_step_size)
        # sticks are held: clusters change places with all that is theirs, and weights alone count
        series = Sticks(*jax.nn.log_softmax(sticks).T)
        order = swap_neighbours(swap_key, order, counts, process.log_weights(series)[0])
        used = in_use(counts[order])
        if process.prior is not None:
            # sticks past the last cluster are integrated out, and fresh ones drawn at once
            hyper = process.redraw_from_series(hyper_key, hyper, series, used)
            tail = log_gamma(tail_key, self._stick_shapes(hyper, none))
            sticks = jnp.where(used[:, None], sticks, tail)
        by_order, log_rest = process.log_weights(Sticks(*jax.nn.log_softmax(sticks).T))

        # a cluster in use that the batch has no point of moves as if it had none at all
        shapes, prior = self._shapes(stats)
        params = self._moved(param_key, params, shapes, prior, counts > 0, step_size)
        return state._replace(
            position=Dist(hyper, local),
            order=order,
            log_weights=jnp.zeros_like(by_order).at[order].set(by_order),
            log_rest=log_rest,
            parameters=Multinomials(jax.nn.log_softmax(params)),
            gammas=(sticks, params),
        )

    def _at(self, count: Any, name: str) -> Float[Array, ""]:
        """A step size at the index of the step."""
        step_size = getattr(self, name)
        if callable(step_size) and count is None:
            raise ValueError("a schedule of step sizes needs the step's index: run it by `sample`")
        return _checks.scheduled(name, step_size, count)

    def _moved(
        self,
        key: Any,
        log_gammas: Float[Array, "K d"],
        shapes: Float[Array, "K d"],
        prior: Float[Array, "K d"],
        used: Bool[Array, " K"],
        h: Float[Array, ""],
    ) -> Float[Array, "K d"]:
        """Log gammas a time h later; those not in use are drawn from the prior."""
        move_key, total_key, prior_key = jax.random.split(key, 3)
        phase = Phase(log_gammas)
        if self.weights == "scir":
            # the old total is of other labels: in equilibrium it has the law of the present shapes
            phase = GammaTotal()(total_key, phase, h, shapes)
            phase = CIR()(move_key, phase, h, shapes)
        else:
            phase = ExpandedMeanLangevin(lambda _: Estimate(prior))(move_key, phase, h, shapes)
        # where no point is, nothing is carried over of what was in the slot
        fresh = log_gamma(prior_key, prior.astype(log_gammas.dtype))
        return jnp.where(used[:, None], phase.position, fresh)

    def _estimate(self, shard: Shard, batch: Batch, labels: Int[Array, " n"]) -> PyTree:
        """The statistics of all clusters, estimated from a batch and its labels."""
        stats = self.family.label_statistics(
            batch.items, jnp.where(batch.real, labels, -1), self.capacity
        )
        return scaled_up(self.comm, shard, batch, stats)

    def _shapes(self, stats: PyTree) -> tuple[Float[Array, "K V"], Float[Array, "K V"]]:
        """The shapes of the parameters' gammas, and those of the prior."""
        nothing = optax.tree.zeros_like(stats)
        return tuple(self.family.predictive(x).concentration for x in (stats, nothing))

    def _stick_shapes(
        self, hyper: dict[str, Array], counts: Real[Array, " K"]
    ) -> Float[Array, "K 2"]:
        dtype = hyper["concentration"].dtype
        return jnp.stack(self.process.stick_shapes(hyper, counts.astype(dtype)), axis=1)

    def sums(self, items: PyTree, labels: Int[Array, " n"], real: Bool[Array, " n"]) -> SliceSums:
        """The sizes alone."""
        return self._sizes(jnp.where(real, labels, -1))

    def gains(self, batch: Batch, old: Int[Array, " n"], new: Int[Array, " n"]) -> SliceSums:
        gain, loss = (self.sums(batch.items, labels, batch.real) for labels in (new, old))
        return optax.tree.sub(gain, loss)


def _start(
    key: Any, shapes: Float[Array, "K d"], prior: Float[Array, "K d"]
) -> Float[Array, "K d"]:
    """Simplices drawn from their conditional, with totals drawn from their prior."""
    point_key, total_key = jax.random.split(key)
    # `scir` draws it anew; of `sgrld` this is the stationary law, whatever the counts are
    log_total = log_gamma(total_key, prior.sum(axis=1))
    return jax.nn.log_softmax(log_gamma(point_key, shapes)) + log_total[:, None]
