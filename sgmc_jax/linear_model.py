"""Models whose likelihood sees the position only through a linear predictor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree, Shaped

from . import _returned
from ._estimators import Estimate
from ._functions import as_function, as_optional
from ._types import Position
from .arrays import product, real_array
from .model import Model, check_weight


class LinearModel(Model):
    """A model whose likelihood sees the position only through a linear predictor.

    The items are pairs `(x, y)` with x of shape (d,) and y any pytree; the position is an array of
    shape (d,) or (d, k), and the predictor is `x @ position`, a scalar or a (k,) vector. The
    gradient of item i is `x_i a_i`, so a batch costs two matrix products and an item's gradient is
    stored in one number (or k).

    Args:
        logprior: `position -> ()`.
        loglik: `(predictor, y) -> ()`, the log likelihood of one item given its linear predictor.
        slope: optional, `(predictor, y) -> ` the derivative of `loglik` in the predictor, with the
            predictor's shape, where that is cheaper in closed form than by differentiation.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> model = LinearModel(
        ...     lambda w: -0.5 * w @ w,
        ...     lambda eta, y: y * eta - jnp.logaddexp(0.0, eta),
        ...     lambda eta, y: y - jax.nn.sigmoid(eta),
        ... )
        >>> model.loglik_batch(jnp.zeros(2), (jnp.ones((3, 2)), jnp.ones(3))).shape
        (3,)
    """

    logprior_function: Callable = eqx.field(converter=as_function)
    predictor_loglik: Callable = eqx.field(converter=as_function)
    predictor_slope: Callable | None

    def __init__(self, logprior: Callable, loglik: Callable, slope: Callable | None = None):
        self.logprior_function = as_function(logprior, "logprior", ("position",))
        self.predictor_loglik = as_function(loglik, "loglik", ("predictor", "y"))
        self.predictor_slope = as_optional(slope, "slope", ("predictor", "y"))

    def logprior(self, position: Position) -> Float[Array, ""] | float:
        return self.logprior_function(position)

    def loglik(self, position: Position, item: PyTree) -> Float[Array, ""]:
        return self._of_predictor(*self._predictor(position, item, 1))

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        return jax.vmap(self._of_predictor)(*self._predictor(position, items, 2))

    def slopes(
        self, position: Position, items: PyTree
    ) -> tuple[Float[Array, " n"], Float[Array, "n *k"]]:
        """Each item's log likelihood, (n,), and its derivative in the predictor: (n,) or (n, k)."""
        predictor, y = self._predictor(position, items, 2)
        if self.predictor_slope is None:
            return jax.vmap(jax.value_and_grad(self._of_predictor))(predictor, y)
        loglik = jax.vmap(self._of_predictor)(predictor, y)
        return loglik, jax.vmap(self._slope)(predictor, y)

    def weighted_sum(
        self, position: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        return _linear_sum(items[0], weight, *self.slopes(position, items))

    def per_item(self, position: Position, items: PyTree) -> PyTree:
        return jax.vmap(jnp.multiply.outer)(items[0], self.slopes(position, items)[1])

    def kept(self, position: Position, items: PyTree) -> PyTree:
        return self.slopes(position, items)[1]

    def kept_sum(self, items: PyTree, kept: PyTree, weight: Float[Array, " n"]) -> PyTree:
        return _linear_gradient(items[0], weight, kept)

    def difference(
        self, position: Position, centre: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        # the slopes are subtracted before the product with x, which is then made once
        here = self.slopes(position, items)
        there = self.slopes(centre.astype(position.dtype), items)
        return _linear_sum(items[0], weight, *optax.tree.sub(here, there))

    def _predictor(
        self, position: Position, items: PyTree, ndim: int
    ) -> tuple[Float[Array, "..."], Any]:
        """The linear predictors of items, or of one, and their y."""
        if not isinstance(items, tuple | list) or len(items) != 2:
            raise TypeError(
                f"data must be a pair (x, y) for {type(self).__name__}, got "
                f"{_returned.describe(items)}"
            )
        x, y = items
        if jnp.ndim(x) != ndim or jnp.shape(position)[:1] != jnp.shape(x)[-1:]:
            raise ValueError(
                f"position must be of shape (d,) or (d, k) and x of shape (n, d) for "
                f"{type(self).__name__}, got {jnp.shape(position)} and rows x of shape "
                f"{jnp.shape(x)[ndim - 1 :]}"
            )
        return product(x, position), y

    def _of_predictor(self, predictor: Float[Array, "*k"], y: Any) -> Float[Array, ""]:
        """`predictor_loglik`, a scalar."""
        return _returned.scalar(self._name("loglik"), self.predictor_loglik(predictor, y))

    def _slope(self, predictor: Float[Array, "*k"], y: Any) -> Float[Array, "*k"]:
        """`predictor_slope`, shaped like the predictor."""
        assert self.predictor_slope is not None
        value, shape = self.predictor_slope(predictor, y), jnp.shape(predictor)
        wanted = f"floating numbers of the predictor's shape, {shape}"
        return _returned.floats(self._name("slope"), value, shape, wanted)


def _linear_sum(
    x: Shaped[Array | np.ndarray, "n d"],
    weight: Float[Array, " n"],
    loglik: Float[Array, " n"],
    slope: Float[Array, "n *k"],
) -> Estimate:
    check_weight(weight, loglik)
    loglik = real_array(loglik)
    total = jnp.sum(weight.astype(loglik.dtype) * loglik)
    return Estimate(_linear_gradient(x, weight, slope), total)


def _linear_gradient(
    x: Shaped[Array | np.ndarray, "n d"], weight: Float[Array, " n"], slope: Float[Array, "n *k"]
) -> Float[Array, "d *k"]:
    weighted = jax.vmap(jnp.multiply)(weight.astype(slope.dtype), slope)
    return jnp.einsum("n...,nd->d...", weighted, x, precision=jax.lax.Precision.HIGHEST)
