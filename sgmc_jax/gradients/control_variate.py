"""Control variates around a fixed point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from .. import _checks, _returned
from .._estimators import BatchEstimator, Estimate
from .._types import Data, Key, Position, as_keys
from .wrapper import Anchoring


class AnchoredState(NamedTuple):
    """The inner estimator's state and the exact item sum at the centre.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import ControlVariate, Minibatch, Summand, Uniform
        >>> inner = Minibatch(Summand(0.0, lambda x, y: y - x), Uniform(2))
        >>> grad = ControlVariate(inner, centre=jnp.array(1.0))
        >>> float(grad.init(jax.random.key(0), jnp.array(5.0), jnp.arange(4.0)).full.value)  # 6 - 4
        2.0
    """

    inner: PyTree
    full: Estimate


class AnchoredBatch(NamedTuple):
    """The inner estimator's batch, with the centre and the exact item sum there."""

    inner: Any
    centre: Position
    full: Estimate


def refuse_streams(name: str, estimator: Any, hint: str = "") -> None:
    """Raise unless there are batches, and a full pass to anchor on."""
    _checks.batch_estimator("inner", estimator, name)
    if estimator.streams:
        raise TypeError(f"{name} needs all of the data, but its batcher is Given{hint}")


def _radius(radius: Any) -> Float[Array, ""] | None:
    return None if radius is None else _checks.one_number("radius", radius)


class ControlVariate(Anchoring, BatchEstimator):
    """The estimate of the difference to a fixed centre, plus the exact sum there.

    `value = prior(x) + full(c) + sum_{i in S} weight_i (term_i(x) - term_i(c))`: its covariance is
    O(N^2 |x - c|^2 / n), small near the mode. The sum at the centre is computed once, by `init`;
    the centre need not be an exact mode.

    Far from the centre the difference has more noise than the terms alone. With a `radius` r,

        value = prior(x) + sum_{i in S} weight_i term_i(x)    where |x - c| > r,

    the simple estimate. Both are unbiased and the position alone decides, so is then the value. Of
    chains under `vmap` both are computed, else only the one that is used.

    Args:
        inner: the estimator whose noise is to be reduced, e.g. `Minibatch(model, Uniform(100))`.
        centre: a position near the mode; see `find_mode`.
        radius: the Euclidean distance beyond which the simple estimate is used; `None` for never.
        anchor: the exact sum at the centre, where `init` is not to compute it, as `full_pass` gives
            it of streamed data (`Given`).

    Raises:
        ValueError: if the radius is not positive.
        TypeError: if the data is streamed without an anchor, the anchor is not of the form of the
            sum, or the estimator is no `BatchEstimator`.

    Example: at the centre the estimate is exact, whatever the batch.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import ControlVariate, FunctionModel, Minibatch, Uniform
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> grad = ControlVariate(Minibatch(model, Uniform(2)), centre=jnp.array(4.0))
        >>> data, position = jnp.arange(9.0), jnp.array(4.0)
        >>> estate = grad.init(jax.random.key(0), position, data)
        >>> float(grad.estimate(jax.random.key(1), estate, position, data)[0].value)  # 36 - 36 - 4
        -4.0

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC,
        equation 8. The prior is exact here and takes no part in the difference.
    """

    centre: Position = eqx.field(converter=_checks.real_tree("centre"))
    radius: Float[Array, ""] | None = eqx.field(converter=_radius, default=None)
    anchor: Estimate | None = None
    evaluations: ClassVar[int] = 2

    def __check_init__(self):
        _checks.batch_estimator("inner", self.inner, "ControlVariate")
        if self.anchor is None:
            refuse_streams(
                "ControlVariate", self.inner, ": give anchor=full_pass(inner, centre, data)"
            )
        elif not isinstance(self.anchor, Estimate):
            raise TypeError(
                "anchor must be an Estimate such as full_pass(inner, centre, data), got "
                f"{type(self.anchor).__name__}"
            )
        if self.radius is not None:
            _checks.positive("radius", self.radius)

    @property
    def anchored(self) -> bool:
        return self.anchor is not None or self.inner.anchored

    def init(self, key: Key, position: Position, data: Data) -> AnchoredState:
        full = self._full(position, data) if self.anchor is None else self.anchor
        return AnchoredState(self.inner.init(key, position, data), full)

    def _full(self, position: Position, data: Data) -> Estimate:
        """At the centre as differences know it, in the precision of the position."""
        near = lambda c, x: c.astype(jnp.result_type(x)).astype(c.dtype)
        return self.inner.full(jax.tree.map(near, self.centre, position), data)

    def retarget(
        self, key: Key, estate: AnchoredState, position: Position, data: Data
    ) -> AnchoredState:
        if self.anchor is not None:
            raise TypeError(
                "ControlVariate with a given anchor cannot be a block of gibbs: the target of one "
                "changes, and the sum at the centre with it"
            )
        inner = self.inner.retarget(key, estate.inner, position, data)
        return AnchoredState(inner, self._full(position, data))

    def draw(self, key: Key, estate: AnchoredState, data: Data) -> tuple[Any, AnchoredState]:
        batch, inner = self.inner.draw(as_keys(key), estate.inner, data)
        return AnchoredBatch(batch, self.centre, estate.full), estate._replace(inner=inner)

    def items(self, batch: AnchoredBatch, position: Position) -> Estimate:
        def near() -> Estimate:
            gap = self.inner.difference(batch.inner, position, batch.centre)
            return optax.tree.add(gap, batch.full)

        return self._switch(batch, position, near, lambda: self.inner.items(batch.inner, position))

    def difference(self, batch: AnchoredBatch, position: Position, centre: Position) -> Estimate:
        if self.radius is None:
            return self.inner.difference(batch.inner, position, centre)
        return optax.tree.sub(self.items(batch, position), self.items(batch, centre))

    def per_item(self, batch: AnchoredBatch, position: Position) -> PyTree:
        here = self.inner.per_item(batch.inner, position)

        def near() -> PyTree:
            return optax.tree.sub(here, self.inner.per_item(batch.inner, batch.centre))

        return self._switch(batch, position, near, lambda: here)

    def _switch(
        self, batch: AnchoredBatch, position: Position, near: Callable, far: Callable
    ) -> Any:
        """What one of the two returns, by the distance of the position to the centre."""
        if self.radius is None:
            return near()
        form = jax.eval_shape(far)  # a centre may be in a wider dtype than the position

        def alike() -> Any:
            return jax.tree.map(lambda x, like: x.astype(like.dtype), near(), form)

        gap = optax.tree.sub(position, batch.centre)
        return jax.lax.cond(optax.tree.norm(gap) > self.radius, far, alike)

    @property
    def measures_noise(self) -> bool:
        return self.inner.measures_noise

    def covariance(self, batch: AnchoredBatch, terms: PyTree, full: bool = False) -> PyTree:
        return self.inner.covariance(batch.inner, terms, full)

    def full(self, position: Position, data: Data) -> Estimate:
        return self.inner.full(position, data)

    def check(self, position: Position, data: Data) -> None:
        if jax.tree.structure(self.centre) != jax.tree.structure(position):
            raise ValueError(
                f"centre must have the structure of the position, {_returned.describe(position)}, "
                f"got {_returned.describe(self.centre)}"
            )
        got, wanted = jax.tree.map(jnp.shape, (self.centre, position))
        if got != wanted:
            raise ValueError(f"centre must have the shape of the position, {wanted}, got {got}")
        self.inner.check(position, data)
        if self.anchor is not None:
            form = jax.eval_shape(self.inner.prior, self.centre)  # has the form of the sum
            if form.logdensity is None and jnp.shape(form.value) == ():
                form = self.anchor  # a number, of a `Summand`, is that of a whole array
            _returned.like("anchor", self.anchor, form, "the sum over the items")
