"""The derivatives of an estimate, beside it."""

from __future__ import annotations

from typing import Any

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from .._types import Data, Estimate, Estimator, Key, Position, as_keys
from ..contract import Cost


class Curvature(Estimator):
    """The inner estimate g with `curvature`, an unbiased estimate of every d g_i / d x_i.

    With random signs s it is `s (dg/dx) s`, from one derivative of the estimate of one batch; exact
    where dg/dx is diagonal.

    Args:
        inner: the estimator; its estimate is differentiated with its batch and its state fixed.
    """

    inner: Estimator

    @property
    def exact(self) -> bool:
        return self.inner.exact

    @property
    def streams(self) -> bool:
        return self.inner.streams

    @property
    def tells_covariance(self) -> bool:
        return self.inner.tells_covariance

    @property
    def cost(self) -> Cost | None:
        once = self.inner.cost
        return None if once is None else once.times(2)

    def init(self, key: Key, position: Position, data: Data) -> PyTree:
        return self.inner.init(key, position, data)

    def estimate(
        self, key: Key, estate: PyTree, position: Position, data: Data
    ) -> tuple[Estimate, PyTree]:
        flat, unravel = ravel_pytree(position)
        sign_key = jax.random.fold_in(as_keys(key).noise, 1)
        signs = unravel(jax.random.rademacher(sign_key, flat.shape, flat.dtype))

        def value(x: Position) -> tuple[PyTree, Any]:
            estimate, after = self.inner.estimate(key, estate, x, data)
            return estimate.value, (estimate, after)

        _, slopes, (estimate, after) = jax.jvp(value, (position,), (signs,), has_aux=True)
        curvature = jax.tree.map(lambda s, slope: s * slope, signs, slopes)
        return estimate._replace(curvature=curvature), after

    def refresh(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        return self.inner.refresh(key, estate, position, data)

    def retarget(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        return self.inner.retarget(key, estate, position, data)

    def check(self, position: Position, data: Data) -> None:
        self.inner.check(position, data)
