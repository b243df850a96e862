"""Stochastic variance-reduced gradients: a control variate whose centre follows the chain."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .. import _checks
from .._estimators import Estimate
from .._types import Data, Key, Position, as_keys
from ..contract import Cost
from .control_variate import AnchoredState, ControlVariate, refuse_streams
from .wrapper import Anchoring


class SVRGState(NamedTuple):
    """The inner state, the centre, the exact item sum there, and the number of estimates made.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import SVRG, Minibatch, Summand, Uniform
        >>> grad = SVRG(Minibatch(Summand(0.0, lambda x, y: y - x), Uniform(2)), every=5)
        >>> state = grad.init(jax.random.key(0), jnp.array(1.0), jnp.arange(4.0))
        >>> float(state.centre), float(state.full.value), int(state.count)  # 6 - 4 at the centre
        (1.0, 2.0, 0)
    """

    inner: PyTree
    centre: Position
    full: Estimate
    count: Int[Array, ""]


class SVRG(Anchoring):
    """A control variate recentred at the chain's position every `every` steps.

    `value = prior(x) + full(c) + sum_{i in S} weight_i (term_i(x) - term_i(c))` with c the
    position of the last estimate whose index is a multiple of `every`, where all of the data is
    passed over. A step of most words makes one estimate, one of `"R" + 5 * "ABOBA"` five.

    Args:
        inner: the estimator whose noise is to be reduced.
        every: the number of estimates between two passes over the data.

    Raises:
        TypeError: if the data is streamed (`Given`), or the estimator is no `BatchEstimator`.

    Example: at its centre the estimate is exact, whatever the batch.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import SVRG, Minibatch, Summand, Uniform
        >>> gradient = Summand(lambda x: -x, lambda x, y: y - x)
        >>> grad = SVRG(Minibatch(gradient, Uniform(2)), every=5)
        >>> data, centre = jnp.arange(9.0), jnp.array(1.0)
        >>> estate = grad.init(jax.random.key(0), centre, data)
        >>> float(grad.estimate(jax.random.key(1), estate, centre, data)[0].value)  # 36 - 9 - 1
        26.0

    Reference:
        Dubey et al. (2016), Variance reduction in stochastic gradient Langevin dynamics, algorithm
        2. The prior is exact here and takes no part in the difference.
    """

    every: int = eqx.field(static=True)
    evaluations: ClassVar[int] = 2

    def __check_init__(self):
        _checks.whole("every", self.every)
        refuse_streams("SVRG", self.inner)

    @property
    def cost(self) -> Cost | None:
        batches = super().cost
        return None if batches is None else batches.plus(Cost(passes=1 / self.every))

    def init(self, key: Key, position: Position, data: Data) -> SVRGState:
        inner = self.inner.init(key, position, data)
        full = self.inner.full(position, data)
        return SVRGState(inner, position, full, jnp.zeros((), jnp.int32))

    def retarget(self, key: Key, estate: SVRGState, position: Position, data: Data) -> SVRGState:
        inner = self.inner.retarget(key, estate.inner, position, data)
        return estate._replace(inner=inner, full=self.inner.full(estate.centre, data))

    def estimate(
        self, key: Key, estate: SVRGState, position: Position, data: Data
    ) -> tuple[Estimate, SVRGState]:
        keys = as_keys(key)
        count = estate.count if keys.count is None else keys.count
        centre, full = jax.lax.cond(
            (count % self.every == 0) & (count > 0),
            lambda: (position, self.inner.full(position, data)),
            lambda: (estate.centre, estate.full),
        )
        anchored = ControlVariate(self.inner, centre)
        state = AnchoredState(estate.inner, full)
        estimate, state = anchored.estimate(keys, state, position, data)
        return estimate, SVRGState(state.inner, centre, full, estate.count + 1)
