"""Models whose items are windows of a series."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ... import _checks
from ..._types import Position
from ...batching import SeriesWindow
from ...collective import leading_axis
from ...model import Model


class SeriesModel(Model):
    """A log posterior of a series y_1, ..., y_T with hidden states x_t.

    With Fisher's identity

        grad log p(y_1:T) = sum_t E[ grad log p(x_t, y_t | x_{t-1}) | y_1:T ],

    a window S, with a buffer S*, has the terms of t in S, given y_{S*} alone; `loglik` is a number
    whose gradient they are. As a value it is the sum over t in S of log p(y_t | the rows of S*
    before t). Beyond the left edge of S* states have their stationary law, or their initial law if
    the series begins there.

    A subclass has `logprior`, `log_likelihood` and `window_loglik`.

    Example: rows that know nothing of each other.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Minibatch, Window
        >>> class Independent(SeriesModel):
        ...     def logprior(self, x):
        ...         return -0.5 * x**2
        ...
        ...     def log_likelihood(self, x, series):
        ...         return -0.5 * jnp.sum((series - x) ** 2)
        ...
        ...     def window_loglik(self, x, window):
        ...         return -0.5 * window.share @ (window.rows - x) ** 2
        >>> grad, series = Minibatch(Independent(), Window(None)), jnp.array([1.0, 2.0])
        >>> float(grad.estimate(jax.random.key(0), (), jnp.zeros(()), series)[0].value)
        3.0
    """

    of_series: ClassVar[bool] = True
    differentiable: ClassVar[bool] = False  # in gradients the states' laws stand still

    @abstractmethod
    def log_likelihood(self, position: Position, series: PyTree) -> Float[Array, ""]:
        """log p(y_1:T), exact and of any derivative."""

    @abstractmethod
    def window_loglik(self, position: Position, window: SeriesWindow) -> Float[Array, ""]:
        """`loglik` of a window; see `with_gradient_of`."""

    def loglik(self, position: Position, item: SeriesWindow) -> Float[Array, ""]:
        if not isinstance(item, SeriesWindow):
            raise TypeError(
                f"the items of {type(self).__name__} must be windows of a series, got "
                f"{type(item).__name__}: let the batcher be Window(length, buffer), or Window(None)"
                " for all of the series"
            )
        return self.window_loglik(position, item)

    def logdensity(self, position: Position, data: PyTree) -> Float[Array, ""]:
        """The log posterior density given the whole series, exact and of any derivative."""
        if not jax.tree.leaves(data):
            return self.logprior(position)
        return self.logprior(position) + self.log_likelihood(position, data)


def with_gradient_of(value: Float[Array, ""], complete: Float[Array, ""]) -> Float[Array, ""]:
    """`value`, with the gradient of `complete`."""
    return jax.lax.stop_gradient(value - complete) + complete


def initial_row(window: SeriesWindow) -> Bool[Array, " w"]:
    """True for the row of a window that is the first of the series."""
    return window.first & (jnp.arange(len(window.real)) == 0)


def whole_series(series: PyTree) -> SeriesWindow:
    """The series as one window."""
    num = leading_axis(series, "series")
    if not num:
        raise ValueError("series must have at least one row")
    _checks.finite("series", series)
    yes = jnp.ones((num,), bool)
    share = yes.astype(jnp.result_type(float))
    return SeriesWindow(jax.tree.map(jnp.asarray, series), share, yes, yes[0], yes[0])


def check_shapes(name: str, position: Any, wanted: PyTree) -> None:
    """Raise unless the position has the structure and the shapes of `wanted`."""
    got = jax.tree.map(jnp.shape, position)
    is_shape = lambda x: isinstance(x, tuple)
    same = jax.tree.structure(got, is_leaf=is_shape) == jax.tree.structure(wanted, is_leaf=is_shape)
    if not same or got != wanted:
        raise ValueError(f"position of {name} must have the shapes {wanted}, got {got}")
