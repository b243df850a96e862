"""The derivatives of an estimate, beside it."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from .._estimators import Estimate, Estimator
from .._types import Data, Key, Position, as_keys
from .wrapper import Wrapper


class Curvature(Wrapper):
    """The inner estimate g with `curvature`, an unbiased estimate of every d g_i / d x_i.

    With random signs s it is `s (dg/dx) s`, from one derivative of the estimate of one batch; exact
    where dg/dx is diagonal.

    Args:
        inner: the estimator; its estimate is differentiated with its batch and its state fixed.

    Raises:
        TypeError: if what hides in the gradient, states or latent variables, stays as it is then.
    """

    evaluations: ClassVar[int] = 2

    def __check_init__(self):
        require_derivatives(self.inner)

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


def require_derivatives(estimator: Estimator) -> None:
    """Raise unless the estimate's derivatives are those of its expectation."""
    if not estimator.differentiable:
        raise TypeError(
            f"the gradient of {_hiding(estimator)} has no derivatives: the laws of its hidden "
            "variables stay as they are when the position moves"
        )


def _hiding(part: Any) -> str:
    """The name of the innermost part that says so."""
    for inner in (getattr(part, "inner", None), getattr(part, "model", None)):
        if not getattr(inner, "differentiable", True):
            return _hiding(inner)
    return type(part).__name__
