"""The plain minibatch estimator."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from .. import _checks
from .._estimators import BatchEstimator, Estimate, Estimator
from .._functions import with_keys
from .._types import Data, Key, Keys, Position, as_keys
from ..arrays import product, weighted_sum
from ..batching import Batch, Batcher
from ..batching.uniform import require_batcher
from ..collective import Shard, as_shard, leading_axis
from ..contract import Cost
from ..model import ItemSum

_FULL_CHUNK = 16_384  # items per piece of a pass over all data


def drawn(batcher: Batcher, keys: Keys, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
    """What a batcher draws, which is a batch and its next state."""
    result = with_keys(batcher.draw, keys, bstate, data)
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Batch):
        return result
    raise TypeError(
        f"draw of {type(batcher).__name__} must return a Batch and the next state, got "
        f"{type(result).__name__}"
    )


def drawn_with_latents(
    batcher: Batcher, key: Key, bstate: PyTree, data: Data
) -> tuple[Batch, Any, PyTree]:
    """A batch, the key of its items' latent variables, and the batcher's next state."""
    keys = as_keys(key)
    which, latent_key = jax.random.split(keys.batch)
    batch, bstate = drawn(batcher, keys._replace(batch=which), bstate, data)
    return batch, latent_key, bstate


class OfBatches(Estimator):
    """An estimator with a field `batcher`, which tells what is to be known of its batches."""

    @property
    def independent(self: Any) -> bool:
        return self.batcher.independent

    @property
    def exact(self: Any) -> bool:
        return self.batcher.exact

    @property
    def streams(self: Any) -> bool:
        return self.batcher.streams

    @property
    def stands_for(self: Any) -> int | None:
        return self.batcher.stands_for

    @property
    def cost(self: Any) -> Cost | None:
        return self.batcher.cost

    def init(self: Any, key: Key, position: Position, data: Data) -> PyTree:
        return self.batcher.init(key, data)


class OfLatents(OfBatches):
    """One that draws latent variables of a batch, whose noise and cost come on top."""

    exact: ClassVar[bool] = False

    @property
    def cost(self) -> Cost | None:
        return None


class Minibatch(OfBatches, BatchEstimator):
    """The weighted sum over a batch, plus the prior.

    `value = prior(x) + sum_{i in S} weight_i term_i(x)`; for a model the terms are gradients of the
    log likelihood. With `Uniform(n)` the covariance is (N^2/n)(1 - n/N) S, S the sample covariance
    of the terms.

    Args:
        model: a `Model` (gradients of its log posterior) or a `Summand` (any sum).
        batcher: which items a step sees.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Full
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> grad = Minibatch(model, Full())
        >>> data = jnp.arange(4.0)
        >>> estate = grad.init(jax.random.key(0), jnp.zeros(()), data)
        >>> estimate, _ = grad.estimate(jax.random.key(1), estate, jnp.zeros(()), data)
        >>> float(estimate.value)
        6.0

    Reference:
        Robbins and Monro (1951), A stochastic approximation method; Welling and Teh (2011),
        Bayesian learning via stochastic gradient Langevin dynamics.
    """

    model: ItemSum
    batcher: Batcher
    measures_noise: ClassVar[bool] = True

    @property
    def differentiable(self) -> bool:
        return self.model.differentiable

    def __check_init__(self):
        if not isinstance(self.model, ItemSum):
            raise TypeError(
                f"model must be a Model or a Summand, such as FunctionModel(logprior, loglik), "
                f"got {type(self.model).__name__}"
            )
        require_batcher(self.batcher)

    def draw(self, key: Key, estate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        return drawn(self.batcher, as_keys(key), estate, data)

    def prior(self, position: Position) -> Estimate:
        return self.model.prior(position)

    def items(self, batch: Batch, position: Position) -> Estimate:
        return self.model.weighted_sum(position, batch.items, batch.weight)

    def difference(self, batch: Batch, position: Position, centre: Position) -> Estimate:
        return self.model.difference(position, centre, batch.items, batch.weight)

    def per_item(self, batch: Batch, position: Position) -> PyTree:
        return self.model.per_item(position, batch.items)

    def covariance(self, batch: Batch, terms: PyTree, full: bool = False) -> PyTree:
        """`sum_i a_i d_i d_i'`, with the a_i and d_i of the batcher's `deviations`."""
        scale, deviations = self.batcher.deviations(batch, terms)
        if not full:
            square = lambda d: weighted_sum(scale.astype(d.dtype), d * d)
            return jax.tree.map(square, deviations)
        rows = jax.vmap(lambda d: ravel_pytree(d)[0])(deviations)
        return product(rows.T * scale.astype(rows.dtype), rows)

    def full(self, position: Position, data: Data) -> Estimate:
        shard = self.batcher.population(as_shard(data))
        if shard.capacity <= _FULL_CHUNK:
            return self.model.weighted_sum(position, shard.items, shard.mask.astype(jnp.float32))

        def piece(total: Estimate, begin: Any) -> tuple[Estimate, None]:
            # the last piece is moved back to fit; what an earlier one has seen weighs nothing
            start = jnp.minimum(begin, shard.capacity - _FULL_CHUNK)
            rows = start + jnp.arange(_FULL_CHUNK)
            items = jax.tree.map(
                lambda x: jax.lax.dynamic_slice_in_dim(x, start, _FULL_CHUNK), shard.items
            )
            weight = ((rows >= begin) & (rows < shard.size)).astype(jnp.float32)
            part = self.model.weighted_sum(position, items, weight)
            return optax.tree.add(total, part), None

        first, _ = piece(optax.tree.zeros_like(self.prior(position)), 0)
        begins = jnp.arange(_FULL_CHUNK, shard.capacity, _FULL_CHUNK)
        return jax.lax.scan(piece, first, begins)[0]

    def check(self, position: Position, data: Data) -> None:
        if not isinstance(data, Shard):
            num_items = leading_axis(data)
            _checks.some_items(num_items if jax.tree.leaves(data) else None)
            _checks.finite("data", data)
            self.model.check(position, data)
        self.batcher.check(data)
