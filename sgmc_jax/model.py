"""Sums over the items of a data set: log posteriors and any other per-item quantity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ._types import Estimate, Position, as_function


class ItemSum(eqx.Module):
    """A quantity `prior(x) + sum_i term_i(x)` to be estimated from minibatches."""

    @abstractmethod
    def prior(self, position: Position) -> Estimate:
        """The prior term."""

    @abstractmethod
    def weighted_sum(self, position: Position, items: PyTree, weight: Array) -> Estimate:
        """The sum of the items' terms, each times its weight."""

    @abstractmethod
    def per_item(self, position: Position, items: PyTree) -> PyTree:
        """The items' terms, with a leading item axis."""

    def difference(
        self, position: Position, centre: Position, items: PyTree, weight: Array
    ) -> Estimate:
        """The weighted sum at `position` minus that at `centre`: both points under one `vmap`."""
        points = jax.tree.map(lambda x, c: jnp.stack([x, c.astype(x.dtype)]), position, centre)
        both = jax.vmap(lambda point: self.weighted_sum(point, items, weight))(points)
        return jax.tree.map(lambda both: both[0] - both[1], both)


class Model(ItemSum):
    """A log posterior `logprior(x) + sum_i loglik(x, item_i)`; its gradient is what is summed."""

    @abstractmethod
    def logprior(self, position: Position) -> Array:
        """The log prior density, up to a constant."""

    @abstractmethod
    def loglik(self, position: Position, item: PyTree) -> Array:
        """The log likelihood of one item."""

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        """The log likelihood of each of a batch of items."""
        return jax.vmap(self.loglik, (None, 0))(position, items)

    def logdensity(self, position: Position, data: PyTree) -> Array:
        """The log posterior density with all of the data, up to a constant."""
        if not jax.tree.leaves(data):
            return self.logprior(position)
        return self.logprior(position) + jnp.sum(self.loglik_batch(position, data))

    def score(self, position: Position, data: PyTree) -> PyTree:
        """The gradient of `logdensity`: what `ksd` wants."""
        return jax.grad(self.logdensity)(position, data)

    def prior(self, position: Position) -> Estimate:
        logdensity, gradient = jax.value_and_grad(self.logprior)(position)
        return Estimate(gradient, logdensity)

    def weighted_sum(self, position: Position, items: PyTree, weight: Array) -> Estimate:
        def total(position: Position) -> Array:
            logliks = self.loglik_batch(position, items)
            return jnp.sum(weight.astype(logliks.dtype) * logliks)

        logdensity, gradient = jax.value_and_grad(total)(position)
        return Estimate(gradient, logdensity)

    def per_item(self, position: Position, items: PyTree) -> PyTree:
        return jax.vmap(jax.grad(self.loglik), (None, 0))(position, items)


class FunctionModel(Model):
    """The model of two functions.

    Args:
        logprior: `position -> ()`, the log prior density up to a constant.
        loglik: `(position, item) -> ()`, the log likelihood of one item, i.e. of one row of the
            data. `None` for a target without data.
        loglik_batch: optional, `(position, items) -> (n,)`, the same for a batch of items, where
            that can be computed faster than by `vmap`.

    Example:
        >>> import jax.numpy as jnp
        >>> model = FunctionModel(
        ...     lambda w: -0.5 * w @ w, lambda w, z: -0.5 * (z[1] - z[0] @ w) ** 2
        ... )
        >>> items = (jnp.eye(2), jnp.ones(2))
        >>> model.weighted_sum(jnp.zeros(2), items, jnp.ones(2)).value.tolist()
        [1.0, 1.0]
    """

    logprior_function: Callable = eqx.field(converter=as_function)
    loglik_function: Callable | None
    loglik_batch_function: Callable | None

    def __init__(
        self,
        logprior: Callable,
        loglik: Callable | None = None,
        loglik_batch: Callable | None = None,
    ):
        self.logprior_function = as_function(logprior)
        self.loglik_function = None if loglik is None else as_function(loglik)
        self.loglik_batch_function = None if loglik_batch is None else as_function(loglik_batch)

    def logprior(self, position: Position) -> Array:
        return self.logprior_function(position)

    def loglik(self, position: Position, item: PyTree) -> Array:
        if self.loglik_function is None:
            if self.loglik_batch_function is None:
                return jnp.zeros(())
            return self.loglik_batch(position, jax.tree.map(lambda x: x[None], item))[0]
        return self.loglik_function(position, item)

    def loglik_batch(self, position: Position, items: PyTree) -> Array:
        if self.loglik_batch_function is not None:
            return self.loglik_batch_function(position, items)
        return super().loglik_batch(position, items)

    def weighted_sum(self, position: Position, items: PyTree, weight: Array) -> Estimate:
        if self.loglik_function is None and self.loglik_batch_function is None:
            return jax.tree.map(jnp.zeros_like, self.prior(position))
        return super().weighted_sum(position, items, weight)


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
        self.logprior_function = as_function(logprior)
        self.predictor_loglik = as_function(loglik)
        self.predictor_slope = None if slope is None else as_function(slope)

    def logprior(self, position: Position) -> Array:
        return self.logprior_function(position)

    def loglik(self, position: Position, item: PyTree) -> Array:
        x, y = item
        return self.predictor_loglik(x @ position, y)

    def loglik_batch(self, position: Position, items: PyTree) -> Array:
        x, y = items
        return jax.vmap(self.predictor_loglik)(x @ position, y)

    def slopes(self, position: Position, items: PyTree) -> tuple[Array, Array]:
        """Each item's log likelihood, (n,), and its derivative in the predictor: (n,) or (n, k)."""
        x, y = items
        predictor = x @ position
        if self.predictor_slope is None:
            return jax.vmap(jax.value_and_grad(self.predictor_loglik))(predictor, y)
        loglik = jax.vmap(self.predictor_loglik)(predictor, y)
        return loglik, jax.vmap(self.predictor_slope)(predictor, y)

    def weighted_sum(self, position: Position, items: PyTree, weight: Array) -> Estimate:
        return _linear_sum(items[0], weight, *self.slopes(position, items))

    def per_item(self, position: Position, items: PyTree) -> PyTree:
        return jax.vmap(jnp.multiply.outer)(items[0], self.slopes(position, items)[1])

    def difference(
        self, position: Position, centre: Position, items: PyTree, weight: Array
    ) -> Estimate:
        # the slopes are subtracted before the product with x, which is then made once
        here = self.slopes(position, items)
        there = self.slopes(centre.astype(position.dtype), items)
        return _linear_sum(items[0], weight, *jax.tree.map(jnp.subtract, here, there))


def _linear_sum(x: Array, weight: Array, loglik: Array, slope: Array) -> Estimate:
    weight = weight.astype(slope.dtype)
    gradient = jnp.einsum("n...,nd->d...", jnp.einsum("n,n...->n...", weight, slope), x)
    return Estimate(gradient, jnp.sum(weight * loglik))


class Summand(ItemSum):
    """Any sum over the items plus a prior: expected counts, sufficient statistics, moments.

    Args:
        prior: `position -> value`, or the value itself.
        term: `(position, item) -> value`, the term of one item.

    Example: the posterior Dirichlet parameter, as `scir` wants it.
        >>> import jax.numpy as jnp
        >>> counts = Summand(jnp.full(3, 0.5), lambda position, item: item)
        >>> z = jnp.eye(3)[jnp.array([0, 0, 1, 2])]
        >>> counts.weighted_sum(jnp.zeros(3), z, jnp.ones(4)).value.tolist()
        [2.0, 1.0, 1.0]
    """

    prior_term: Any
    term: Callable = eqx.field(converter=as_function)

    def __init__(self, prior: Any, term: Callable):
        self.prior_term = as_function(prior) if callable(prior) else prior
        self.term = as_function(term)

    def prior(self, position: Position) -> Estimate:
        value = self.prior_term(position) if callable(self.prior_term) else self.prior_term
        return Estimate(jax.tree.map(jnp.asarray, value))

    def weighted_sum(self, position: Position, items: PyTree, weight: Array) -> Estimate:
        terms = self.per_item(position, items)
        return Estimate(
            jax.tree.map(lambda t: jnp.tensordot(weight.astype(t.dtype), t, axes=1), terms)
        )

    def per_item(self, position: Position, items: PyTree) -> PyTree:
        return jax.vmap(self.term, (None, 0))(position, items)
