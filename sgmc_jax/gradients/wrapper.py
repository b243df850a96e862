"""Estimators around others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from jaxtyping import PyTree

from .._estimators import BatchEstimator, Estimate, Estimator, Pull
from .._types import Data, Key, Position
from ..contract import Cost, times


class Wrapper(Estimator):
    """An estimator that is what the inner one is, but for what it says otherwise.

    Its gradients cost those of the inner one `evaluations` times.
    """

    inner: Estimator
    evaluations: ClassVar[int] = 1

    @property
    def exact(self) -> bool:
        return self.inner.exact

    @property
    def streams(self) -> bool:
        return self.inner.streams

    @property
    def stands_for(self) -> int | None:
        return self.inner.stands_for

    @property
    def independent(self) -> bool:
        return self.inner.independent

    @property
    def tells_covariance(self) -> bool:
        return self.inner.tells_covariance

    @property
    def anchored(self) -> bool:
        return self.inner.anchored

    @property
    def differentiable(self) -> bool:
        return self.inner.differentiable

    @property
    def renewal(self) -> Cost:
        return self.inner.renewal

    @property
    def cost(self) -> Cost | None:
        return times(self.evaluations, self.inner.cost)

    def init(self, key: Key, position: Position, data: Data) -> PyTree:
        return self.inner.init(key, position, data)

    def refresh(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        return self.inner.refresh(key, estate, position, data)

    def retarget(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        return self.inner.retarget(key, estate, position, data)

    def told_in(self, pull: Pull | None) -> Estimator:
        return replace(self, inner=self.inner.told_in(pull)) if self.tells_covariance else self

    def prior(self, position: Position) -> Estimate:
        return self.inner.prior(position)

    def check(self, position: Position, data: Data) -> None:
        self.inner.check(position, data)


class Anchoring(Wrapper):
    """The estimate of a change, plus the sum over all items that was made where it began."""

    inner: BatchEstimator
    exact: ClassVar[bool] = False
    tells_covariance: ClassVar[bool] = False

    @property
    def renewal(self) -> Cost:
        return self.inner.renewal.plus(Cost(passes=1))

    def refresh(self, key: Key, estate: Any, position: Position, data: Data) -> Any:
        """The sum stays where it was made; the state has the inner one as its `inner`."""
        return estate._replace(inner=self.inner.refresh(key, estate.inner, position, data))
