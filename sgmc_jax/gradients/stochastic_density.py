"""The gradient of a log posterior that somebody else estimates from a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from .. import _checks, _returned
from .._estimators import Estimate
from .._functions import as_function
from .._types import Data, Key, Position, as_keys
from ..batching import Batcher
from ..batching.uniform import require_batcher
from ..collective import Shard, leading_axis
from .minibatch import OfBatches, drawn

_REMEDY = "let it take (position, items, weight), with weighted=True"


class StochasticDensity(OfBatches):
    """The gradient of one stochastic log density, a function of a position and a batch.

    `value = grad f(x, batch)`, where `f(x, batch)` is unbiased for the log posterior over batches,
    prior and scale included, such as `log p(x) + (N / n) sum_{i in S} log p(y_i | x)`. The prior is
    not told from the items, so that `ControlVariate`, `SVRG` and `AllReduce` cannot wrap it: they
    want a `FunctionModel` of the two.

    By default f sees the items alone, an axis of n of them, and the batcher's batches must be full
    and of equal weights: `Full`, `Uniform`, `Window`, `Given` with batches of one length, or
    `Epoch` whose batches divide the data. With `weighted` it sees the weights too, (n,), and every
    batcher will do: `log p(x) + sum_i weight_i log p(y_i | x)` is unbiased, and padding weighs 0.

    Args:
        logdensity: `(position, items) -> ()`, or `(position, items, weight) -> ()`.
        batcher: which items a step sees; `Given(total)` where the data are batches already, whose
            scale is up to f.
        weighted: whether f takes the weights.

    Raises:
        TypeError: if an argument is of another kind; if f returns no number; if it takes no weights
            and the batcher's are unequal, at `sample`'s door, or where a batch of a stream is
            shorter than others.

    Example: the variance of `sgld`, of a function written for blackjax.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Uniform, sample, sgld
        >>> def logdensity(position, batch):
        ...     return -0.5 * position**2 - 0.5 * 10 * jnp.sum((batch - position) ** 2)
        >>> grad = StochasticDensity(logdensity, Uniform(10))
        >>> data = jnp.arange(100.0)
        >>> run = sample(jax.random.key(0), sgld(grad, 1e-3), jnp.array(50.0), data, num_steps=100)
        >>> run.trace.shape
        (100,)
    """

    logdensity: Callable
    batcher: Batcher
    weighted: bool = eqx.field(static=True)

    def __init__(self, logdensity: Callable, batcher: Batcher, *, weighted: bool = False):
        _checks.truth("weighted", weighted)
        arguments = ("position", "items", "weight") if weighted else ("position", "items")
        self.logdensity = as_function(logdensity, "logdensity", arguments)
        require_batcher(batcher)
        self.batcher, self.weighted = batcher, weighted

    def estimate(
        self, key: Key, estate: PyTree, position: Position, data: Data
    ) -> tuple[Estimate, PyTree]:
        self._check_even(data)
        batch, estate = drawn(self.batcher, as_keys(key), estate, data)
        args = (batch.items, batch.weight) if self.weighted else (batch.items,)
        logdensity, gradient = jax.value_and_grad(self._logdensity)(position, *args)
        return Estimate(gradient, logdensity), estate

    def check(self, position: Position, data: Data) -> None:
        if not isinstance(data, Shard):
            num_items = leading_axis(data)
            _checks.some_items(num_items if jax.tree.leaves(data) else None)
            _checks.finite("data", data)
        self.batcher.check(data)
        self._check_even(data)

    def _logdensity(self, position: Position, *batch: Any) -> Float[Array, ""]:
        """`logdensity`, a scalar."""
        return _returned.scalar("logdensity", self.logdensity(position, *batch))

    def _check_even(self, data: Data) -> None:
        """Raise where weights would matter that the function does not take."""
        if self.weighted:
            return
        if isinstance(data, Shard):
            raise TypeError(
                "data must be in batches of one length for a logdensity of (position, items), got "
                f"shorter ones, which are padded: {_REMEDY}"
            )
        if not self.batcher.even(leading_axis(data)):
            raise TypeError(
                "batcher must draw full batches of items of equal weights for a logdensity of "
                f"(position, items), got {type(self.batcher).__name__}, which does not say so of "
                f"{leading_axis(data)} items: {_REMEDY}"
            )
