"""The gradient of a posterior and of an energy of more coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .. import _returned, _tree
from .._estimators import Estimate, Estimator, Pull
from .._functions import as_function
from .._types import Data, Key, Position
from .wrapper import Wrapper


class Extended(Wrapper):
    """`(g(x), 0, ...) - grad E(z)` at z = (x, ...), g the inner estimate, with the covariance of g.

    Args:
        inner: the estimator of the gradient of the log posterior of x.
        energy: E, `z -> ()`.
    """

    energy: Callable = eqx.field(converter=as_function)

    def init(self, key: Key, position: Position, data: Data) -> PyTree:
        return self.inner.init(key, position[0], data)

    def estimate(
        self, key: Key, estate: PyTree, position: Position, data: Data
    ) -> tuple[Estimate, PyTree]:
        estimate, estate = self.inner.estimate(key, estate, position[0], data)
        name = f"the estimate of {type(self.inner).__name__}"
        _returned.like(name, estimate.value, position[0], "position[0]")
        value = jax.tree.map(jnp.negative, jax.grad(self._energy)(position))
        value = (_tree.axpy(1.0, estimate.value, value[0]), *value[1:])
        value = jax.tree.unflatten(jax.tree.structure(position), jax.tree.leaves(value))
        return estimate._replace(value=value, logdensity=None), estate

    def told_in(self, pull: Pull | None) -> Estimator:
        # the position of the inner one is another
        return super().told_in(None) if pull is None else Estimator.told_in(self, pull)

    def refresh(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        return self.inner.refresh(key, estate, position[0], data)

    def retarget(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        return self.inner.retarget(key, estate, position[0], data)

    def prior(self, position: Position) -> Estimate:
        return Estimator.prior(self, position)  # the inner one's is of x alone

    def check(self, position: Position, data: Data) -> None:
        self.inner.check(position[0], data)

    def _energy(self, position: Position) -> Any:
        return _returned.scalar("energy", self.energy(position))
