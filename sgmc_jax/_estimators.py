"""The protocol of estimators: sums over the items, or what batches tell of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import optax
from jaxtyping import PyTree

from ._types import Data, Key, Position
from .contract import Cost

Pull = Callable[[Position, PyTree], PyTree]  # (position, gradient) -> gradient in other coordinates


class Estimate(NamedTuple):
    """An estimate of a sum over the items plus its prior term.

    `value` is the estimate itself (for a model, the gradient of the log posterior, a pytree like
    the position); `logdensity` the estimate of the log posterior, or `None` for other sums;
    `clipped` the number of components that were raised to a floor, or `None` if none ever are;
    `covariance` an estimate of the covariance of the value's noise that is independent of it, a
    pytree like the position (a diagonal) or a matrix over the raveled one, or `None`; `curvature`
    an unbiased estimate of the derivative of each component of the value in its own coordinate, a
    pytree like the position, or `None`.

    Example:
        >>> Estimate(value=2.0, logdensity=-1.0).covariance is None
        True
    """

    value: PyTree
    logdensity: Any = None
    clipped: Any = None
    covariance: Any = None
    curvature: Any = None


class Estimator(eqx.Module):
    """An unbiased estimator of a sum over the items plus a prior term: what a sampler needs.

    An estimator of your own needs only `estimate`, and `init` if it has a state. One that is to be
    wrapped, in `ControlVariate`, `SVRG` or `AllReduce`, is a `BatchEstimator`.

    Example: a gradient with noise that no data have made.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import as_keys, sample, sgld
        >>> class Noisy(Estimator):
        ...     def estimate(self, key, estate, position, data):
        ...         noise = jax.random.normal(as_keys(key).noise, position.shape)
        ...         return Estimate(noise - position), estate
        >>> run = sample(jax.random.key(0), sgld(Noisy(), 0.1), jnp.zeros(2), None, num_steps=5)
        >>> run.trace.shape
        (5, 2)
    """

    exact: ClassVar[bool] = False
    """Whether the estimate has no noise."""
    streams: ClassVar[bool] = False
    """Whether the data may be a batch that stands for more."""
    tells_covariance: ClassVar[bool] = False
    """Whether estimates have a `covariance`, for letters to subtract from their noise."""
    independent: ClassVar[bool] = True
    """Whether the noise is new in each step, as noise that is subtracted must be."""
    anchored: ClassVar[bool] = False
    """Whether it was given a sum over all items, of which a shard has some."""
    differentiable: ClassVar[bool] = True
    """Whether the derivatives of an estimate in the position are those of its expectation."""

    @property
    def cost(self) -> Cost | None:
        """What an estimate costs, or `None` if that is not known."""
        return None

    @property
    def stands_for(self) -> int | None:
        """The number of all items, of which the data is a batch, where that is known."""
        return None

    @property
    def renewal(self) -> Cost:
        """What `retarget` costs."""
        return Cost()

    def init(self, key: Key, position: Position, data: Data) -> PyTree:
        """The estimator's own state; most have none."""
        return ()

    @abstractmethod
    def estimate(
        self, key: Key, estate: PyTree, position: Position, data: Data
    ) -> tuple[Estimate, PyTree]:
        """A fresh estimate at `position`, and the next state."""

    def refresh(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        """The state after something else has moved the position."""
        return estate

    def retarget(self, key: Key, estate: PyTree, position: Position, data: Data) -> PyTree:
        """`refresh`, after the summands or the data have changed too."""
        return self.refresh(key, estate, position, data)

    def told_in(self, pull: Pull | None) -> Estimator:
        """This estimator, for a letter that moves the position in coordinates of its own.

        The `covariance` it tells is that of `pull(position, value)`, the estimate in those; of the
        estimate itself where `pull` is `None`.

        Raises:
            ValueError: if it tells its covariance in the coordinates of the position alone.
        """
        if pull is not None and self.tells_covariance:
            raise ValueError(
                f"grad, {type(self).__name__}, tells the covariance of its noise in the "
                "coordinates of the position, and a letter of the word subtracts it in its own, or "
                "in the units of the space: define `told_in`"
            )
        return self

    def prior(self, position: Position) -> Estimate:
        """The prior term, where the estimator tells it from the items."""
        raise TypeError(f"{type(self).__name__} does not tell its prior from its items")

    def check(self, position: Position, data: Data) -> None:
        """Raise if a concrete position or data is unfit."""


class BatchEstimator(Estimator):
    """An estimator that draws a batch and evaluates it: what wrappers need.

    `draw` chooses a batch and `on` evaluates the estimate of one batch at any position, so that one
    batch serves several points. An estimate is that and nothing else. The prior term is evaluated
    exactly; only the item sum is estimated. What a batch is, and whether an item of it is a row of
    the data or a window of a series, only the estimator and its batcher know.

    Example: `Minibatch` is one. Of one batch at two points the noise is the same.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Minibatch, Summand, Uniform
        >>> grad, y = Minibatch(Summand(0.0, lambda x, y: y - x), Uniform(2)), jnp.arange(4.0)
        >>> batch, _ = grad.draw(jax.random.key(0), grad.init(jax.random.key(0), 0.0, y), y)
        >>> at = lambda x: float(grad.on(batch, jnp.array(x)).value)
        >>> at(0.0) - at(1.0)  # four items, each of slope -1
        4.0
    """

    measures_noise: ClassVar[bool] = False
    """Whether it has a `covariance`, which `EmpiricalFisher` needs."""

    @abstractmethod
    def draw(self, key: Key, estate: PyTree, data: Data) -> tuple[Any, PyTree]:
        """A batch and the next state."""

    @abstractmethod
    def prior(self, position: Position) -> Estimate:
        """The prior term."""

    @abstractmethod
    def items(self, batch: Any, position: Position) -> Estimate:
        """The estimate of the item sum."""

    @abstractmethod
    def difference(self, batch: Any, position: Position, centre: Position) -> Estimate:
        """`items` at `position` minus `items` at `centre`, from the one batch."""

    @abstractmethod
    def per_item(self, batch: Any, position: Position) -> PyTree:
        """The unweighted terms of the batch, with a leading item axis."""

    @abstractmethod
    def full(self, position: Position, data: Data) -> Estimate:
        """The exact item sum."""

    def covariance(self, batch: Any, terms: PyTree, full: bool = False) -> PyTree:
        """An unbiased estimate of the covariance of `on(batch, x)`, of its terms `per_item`.

        Args:
            full: whether it is the matrix over the raveled position, else its diagonal, a pytree
                like the position.
        """
        raise TypeError(f"{type(self).__name__} does not tell the covariance of its noise")

    def on(self, batch: Any, position: Position) -> Estimate:
        """The estimate from `batch` at `position`."""
        whole = optax.tree.add(self.prior(position), self.items(batch, position))
        return self.finish(whole, position)

    def finish(self, estimate: Estimate, position: Position) -> Estimate:
        """What becomes of the prior term and the items of all shards: their sum as it is."""
        return estimate

    def estimate(
        self, key: Key, estate: PyTree, position: Position, data: Data
    ) -> tuple[Estimate, PyTree]:
        batch, estate = self.draw(key, estate, data)
        return self.on(batch, position), estate
