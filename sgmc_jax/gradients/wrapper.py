"""Estimators around others."""

from __future__ import annotations

from typing import ClassVar

from .._estimators import Estimator
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
