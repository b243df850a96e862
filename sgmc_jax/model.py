"""Sums over the items of a data set: log posteriors and any other per-item quantity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from . import _checks, _returned
from ._estimators import Estimate
from ._functions import as_function, as_optional
from ._types import Position
from .arrays import real_array, weighted_sum
from .collective import leading_axis


class ItemSum(eqx.Module):
    """A quantity `prior(x) + sum_i term_i(x)` to be estimated from minibatches."""

    differentiable: ClassVar[bool] = True
    """Whether the derivatives of the terms in the position are those of what they stand for."""

    @abstractmethod
    def prior(self, position: Position) -> Estimate:
        """The prior term."""

    @abstractmethod
    def weighted_sum(
        self, position: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        """The sum of the items' terms, each times its weight."""

    @abstractmethod
    def per_item(self, position: Position, items: PyTree) -> PyTree:
        """The items' terms, with a leading item axis."""

    def check(self, position: Position, data: PyTree) -> None:
        """Raise if a concrete position or data is unfit; called once at the door of `sample`."""

    def kept(self, position: Position, items: PyTree) -> PyTree:
        """What a table keeps of each of the items' terms: the terms themselves, or less."""
        return self.per_item(position, items)

    def kept_sum(self, items: PyTree, kept: PyTree, weight: Float[Array, " n"]) -> PyTree:
        """The sum of the items' terms, each times its weight, from what is kept of them."""
        return jax.tree.map(lambda g: weighted_sum(weight.astype(g.dtype), g), kept)

    def difference(
        self, position: Position, centre: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        """The weighted sum at `position` minus that at `centre`: both points under one `vmap`."""
        points = jax.tree.map(lambda x, c: jnp.stack([x, c.astype(x.dtype)]), position, centre)
        both = jax.vmap(lambda point: self.weighted_sum(point, items, weight))(points)
        return jax.tree.map(lambda both: both[0] - both[1], both)


class Model(ItemSum):
    """A log posterior `logprior(x) + sum_i loglik(x, item_i)`; its gradient is what is summed.

    Example:
        >>> FunctionModel(lambda x: -(x @ x)).score(jnp.array([1.0, 2.0]), None).tolist()
        [-2.0, -4.0]
    """

    of_series: ClassVar[bool] = False
    """Whether the items are windows of a series, so that the data are its rows in their order."""
    unconstrained: ClassVar[bool] = False
    """Whether positions are free numbers, of which `constrain` makes the parameters."""

    @abstractmethod
    def logprior(self, position: Position) -> Float[Array, ""]:
        """The log prior density, up to a constant."""

    @abstractmethod
    def loglik(self, position: Position, item: PyTree) -> Float[Array, ""]:
        """The log likelihood of one item."""

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        """The log likelihood of each of a batch of items."""
        return jax.vmap(self._loglik, (None, 0))(position, items)

    def logdensity(self, position: Position, data: PyTree) -> Float[Array, ""]:
        """The log posterior density with all of the data, up to a constant."""
        prior, some = self._logprior(position), jax.tree.leaves(data)
        return prior + jnp.sum(real_array(self._logliks(position, data))) if some else prior

    def constrain(self, position: Position) -> Position:
        """Draws, with any leading axes, in the coordinates that users think in."""
        return position

    def score(self, position: Position, data: PyTree) -> PyTree:
        """The gradient of `logdensity`: what `ksd` wants."""
        return jax.grad(self.logdensity)(position, data)

    def prior(self, position: Position) -> Estimate:
        logdensity, gradient = jax.value_and_grad(self._logprior)(position)
        return Estimate(gradient, logdensity)

    def weighted_sum(
        self, position: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        def total(position: Position) -> Float[Array, ""]:
            # of half precision, steps of such a sum would be several nats
            logliks = real_array(self._logliks(position, items))
            check_weight(weight, logliks)
            return jnp.sum(weight.astype(logliks.dtype) * logliks)

        logdensity, gradient = jax.value_and_grad(total)(position)
        return Estimate(gradient, logdensity)

    def per_item(self, position: Position, items: PyTree) -> PyTree:
        return jax.vmap(jax.grad(self._loglik), (None, 0))(position, items)

    def _logprior(self, position: Position) -> Float[Array, ""]:
        """`logprior`, a scalar."""
        return _returned.scalar(self._name("logprior"), self.logprior(position))

    def _loglik(self, position: Position, item: PyTree) -> Float[Array, ""]:
        """`loglik`, a scalar."""
        return _returned.scalar(self._name("loglik"), self.loglik(position, item))

    def _logliks(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        """`loglik_batch`, one number an item: of another shape it would be summed all the same."""
        num = leading_axis(items, "items")
        if not jax.tree.leaves(items):
            raise ValueError(f"data must have items for {self._name('loglik')}, got None")
        name, wanted = self._name("loglik_batch"), f"one floating number an item, of shape ({num},)"
        return _returned.floats(name, self.loglik_batch(position, items), (num,), wanted)

    def _name(self, function: str) -> str:
        return f"{function} of {type(self).__name__}"


class FunctionModel(Model):
    """The model of two functions.

    Args:
        logprior: `position -> ()`, the log prior density up to a constant.
        loglik: `(position, item) -> ()`, the log likelihood of one item, i.e. of one row of the
            data. `None` for a target without data.
        loglik_batch: optional, `(position, items) -> (n,)`, where that is faster than by `vmap`.

    Example:
        >>> import jax.numpy as jnp
        >>> model = FunctionModel(lambda w: -w @ w / 2, lambda w, z: -((z[1] - z[0] @ w) ** 2) / 2)
        >>> model.weighted_sum(jnp.zeros(2), (jnp.eye(2), jnp.ones(2)), jnp.ones(2)).value.tolist()
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
        self.logprior_function = as_function(logprior, "logprior", ("position",))
        self.loglik_function = as_optional(loglik, "loglik", ("position", "item"))
        batch = ("position", "items")
        self.loglik_batch_function = as_optional(loglik_batch, "loglik_batch", batch)

    def logprior(self, position: Position) -> Float[Array, ""] | float:
        return self.logprior_function(position)

    def loglik(self, position: Position, item: PyTree) -> Float[Array, ""] | float:
        if self.loglik_function is None:
            if self.loglik_batch_function is None:
                return jnp.zeros(())
            return self._logliks(position, jax.tree.map(lambda x: x[None], item))[0]
        return self.loglik_function(position, item)

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        if self.loglik_batch_function is not None:
            return self.loglik_batch_function(position, items)
        return super().loglik_batch(position, items)

    def weighted_sum(
        self, position: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        if self.loglik_function is None and self.loglik_batch_function is None:
            return optax.tree.zeros_like(self.prior(position))
        return super().weighted_sum(position, items, weight)


class Summand(ItemSum):
    """Any sum over the items plus a prior: expected counts, sufficient statistics, moments.

    Args:
        prior: `position -> value`, or the value itself; a number is that of a whole array.
        term: `(position, item) -> value`, the term of one item, shaped like the prior's.

    Raises:
        TypeError: where a value is not of the form of the other.

    Example: the posterior Dirichlet parameter, as `scir` wants it.
        >>> import jax.numpy as jnp
        >>> counts = Summand(jnp.full(3, 0.5), lambda position, item: item)
        >>> z = jnp.eye(3)[jnp.array([0, 0, 1, 2])]
        >>> counts.weighted_sum(jnp.zeros(3), z, jnp.ones(4)).value.tolist()
        [2.0, 1.0, 1.0]
    """

    prior_term: Any
    term: Callable = eqx.field(converter=as_function)

    names: ClassVar[tuple[str, str]] = ("term", "the prior")

    def __init__(self, prior: Any, term: Callable):
        self.prior_term = as_function(prior, "prior", ("position",)) if callable(prior) else prior
        if not callable(prior):
            _checks.arrays("prior", _returned.numbers("prior", prior))
        self.term = as_function(term, "term", ("position", "item"))

    def prior(self, position: Position) -> Estimate:
        value = self.prior_term(position) if callable(self.prior_term) else self.prior_term
        return Estimate(jax.tree.map(jnp.asarray, _returned.numbers("prior", value)))

    def weighted_sum(
        self, position: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        if not jax.tree.leaves(items):
            raise ValueError(f"data must have items for {self.names[0]}, got None")
        terms = self.per_item(position, items)
        return Estimate(jax.tree.map(lambda t: weighted_sum(weight.astype(t.dtype), t), terms))

    def per_item(self, position: Position, items: PyTree) -> PyTree:
        prior = self.prior(position).value
        any_form = isinstance(prior, jax.Array) and prior.ndim == 0

        def term(item: PyTree) -> PyTree:
            value, (name, model) = self.term(position, item), self.names
            wanted = _returned.one_array(name, value, model) if any_form else prior
            _returned.like(name, value, wanted, model)
            # in whole numbers the weights would lose their fractions
            return _returned.as_floats(name, value)

        return jax.vmap(term)(items)


def check_weight(weight: Float[Array, "..."], logliks: Float[Array, " n"]) -> None:
    """Raise unless there is a weight for each item."""
    if jnp.shape(weight) != logliks.shape:
        raise TypeError(
            f"weight must have one number an item, of shape {logliks.shape}, got shape "
            f"{jnp.shape(weight)}"
        )
