"""Counts of latent allocations, corrected by those expected at a fixed centre."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from .. import _checks, _returned, _tree
from .._estimators import Estimate
from .._types import Data, Key, Position
from ..batching import Batcher
from ..model import Summand
from .allocation import Allocation
from .counts import AllocationBatch, Counts, MinibatchCounts, floored
from .minibatch import Minibatch


class AnchoredCounts(MinibatchCounts):
    """Shapes corrected by the expected counts at a fixed centre, a control variate.

    `alpha + sum_{i in S} weight_i (z_i - rho t_i) + rho sum_i t_i`, with `t_i = E[z_i | centre]`:
    unbiased for every rho. The variance is that of z_i - rho t_i, least at rho = Cov(z, t)/Var t.
    It may be negative: values below alpha / 2 are raised to it, which biases, and counted in
    `clipped`; with rho = 0 there are none.

    Args:
        allocate: as for `MinibatchCounts`.
        alpha: as for `MinibatchCounts`.
        batcher: which items a step sees.
        centre: a position, near the mode.
        expect: `(position, item) -> counts`, the mean of `allocate`.
        rho: the coefficient of the control variate.

    Raises:
        TypeError: if the data is streamed (`Given`).

    Example: allocations that are known, of which no batch has noise.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import AnchoredCounts, Uniform
        >>> known, mean = lambda key, x, k: jax.nn.one_hot(k, 2), lambda x, k: jax.nn.one_hot(k, 2)
        >>> counts = AnchoredCounts(known, 1.0, Uniform(2), centre=jnp.zeros(2), expect=mean)
        >>> labels, position = jnp.array([0, 0, 1, 1, 1]), jnp.zeros(2)
        >>> estate = counts.init(jax.random.key(0), position, labels)
        >>> counts.estimate(jax.random.key(1), estate, position, labels)[0].value.tolist()
        [3.0, 4.0]

    Reference:
        Baker et al. (2018) propose control variates for SCIR in section 4, without a formula. The
        t_i are computed anew for each batch, not stored, which keeps the state small.
    """

    centre: Position
    expected: Summand
    rho: Float[Array, ""]

    def __init__(
        self,
        allocate: Allocation | Callable,
        alpha: Any,
        batcher: Batcher,
        centre: Position,
        expect: Callable,
        rho: Any = 1.0,
    ):
        Counts.__init__(self, allocate, alpha, batcher)
        if not callable(expect):
            raise TypeError(
                f"expect must be a function of (position, item), got {type(expect).__name__}"
            )
        if batcher.streams:
            raise TypeError("AnchoredCounts needs all of the data, but its batcher is Given")
        self.centre = jax.tree.map(_checks.real("centre"), centre)
        self.expected = ExpectedCounts(_zeros, expect)
        self.rho = _checks.one_number("rho", rho)

    def check(self, position: Position, data: Data) -> None:
        if not _returned.same_form(self.centre, position):
            wanted, got = map(_returned.describe, (position, self.centre))
            raise ValueError(
                "centre must have the structure and the shapes of the position, "
                f"{wanted}, got {got}"
            )
        super().check(position, data)

    def init(self, key: Key, position: Position, data: Data) -> tuple[PyTree, PyTree]:
        return super().init(key, position, data), self._anchor(data)

    def retarget(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        return estate[0], self._anchor(data)

    def _anchor(self, data: Data) -> PyTree:
        return Minibatch(self.expected, self.batcher).full(self.centre, data).value

    def draw(self, key: Key, estate: PyTree, data: Data) -> tuple[AllocationBatch, PyTree]:
        bstate, anchor = estate
        batch, bstate = super().draw(key, bstate, data)
        return batch._replace(anchor=anchor), (bstate, anchor)

    def items(self, batch: AllocationBatch, position: Position) -> Estimate:
        plain = super().items(batch, position).value
        expected = self.expected.weighted_sum(self.centre, batch.batch.items, batch.batch.weight)
        gap = optax.tree.sub(expected.value, batch.anchor)
        return Estimate(_tree.axpy(-self.rho, gap, plain))

    def finish(self, estimate: Estimate, position: Position) -> Estimate:
        return floored(estimate, self.prior(position))


class ExpectedCounts(Summand):
    """What `expect` gives, shaped like the position."""

    names: ClassVar[tuple[str, str]] = ("expect", "the position")


def _zeros(position: Position) -> PyTree:
    return jax.tree.map(lambda x: jnp.zeros(jnp.shape(x)), position)
