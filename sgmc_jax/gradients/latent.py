"""Gradients of a marginal likelihood, from draws of the items' latent variables."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import optax
from jaxtyping import PyTree

from .._estimators import BatchEstimator, Estimate
from .._types import Data, Key, Position
from ..batching import Batch, Batcher
from ..batching.uniform import require_batcher
from ..model import Model
from .allocation import Latent
from .kept import KeptLatents, KeptState
from .minibatch import Minibatch, OfLatents, drawn_with_latents


class LatentBatch(NamedTuple):
    """A batch of items, and the key of their latent variables."""

    batch: Batch
    key: Any


class LatentMinibatch(OfLatents, BatchEstimator):
    """Gradients of a marginal likelihood; the latent variables of a batch are drawn from scratch.

    Where items y_i have latent variables z_i, Fisher's identity is

        grad log p(y_i | x) = E[ grad log p(y_i, z_i | x) | y_i, x ],

    and the estimate `grad log p(x) + sum_{i in S} weight_i grad log p(y_i, z_i | x)`, of z_i drawn
    given y_i and x, is unbiased for `grad log p(x | y)`, if the draws are exact. Chains of z_i that
    begin anew each time, and have not forgotten where, bias; those of `LatentTable` go on.

    Args:
        model: a `Model` whose items are pairs `(y_i, z_i)`: log p(y_i, z_i | x), or the mean over
            draws if z_i holds several. What does not depend on x may be left out.
        latent: how z is drawn, a `Latent`.
        batcher: which items a step sees; the data are the y_i.

    Raises:
        TypeError: if an argument is of another kind.

    Example: the mean of a mixture's components, from labels drawn given them.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Latent, LatentMinibatch, Uniform, sample, sgld
        >>> class Labels(Latent):
        ...     def draw(self, key, position, items, previous):
        ...         logits = -0.5 * (items[:, None] - position) ** 2
        ...         return jax.random.categorical(key, logits)
        >>> loglik = lambda x, pair: -0.5 * (pair[0] - x[pair[1]]) ** 2
        >>> model = FunctionModel(lambda x: -0.5 * x @ x, loglik)
        >>> grad = LatentMinibatch(model, Labels(), Uniform(10))
        >>> data = jnp.concatenate([jnp.full(50, -2.0), jnp.full(50, 2.0)])
        >>> start = jnp.array([-1.0, 1.0])
        >>> run = sample(jax.random.key(0), sgld(grad, 1e-3), start, data, num_steps=20)
        >>> run.trace.shape
        (20, 2)

    Reference:
        Fisher (1925), Theory of statistical estimation; Du, Fu, Chen and Pan (2016), and Liu, Zhu
        and Song (2016), section 4, for stochastic gradients by it.
    """

    model: Model
    latent: Latent
    batcher: Batcher
    differentiable: ClassVar[bool] = False  # latent variables stay where they are

    def __check_init__(self):
        _check_parts(self.model, self.latent, self.batcher)

    def draw(self, key: Key, estate: PyTree, data: Data) -> tuple[LatentBatch, PyTree]:
        batch, latent_key, estate = drawn_with_latents(self.batcher, key, estate, data)
        return LatentBatch(batch, latent_key), estate

    def prior(self, position: Position) -> Estimate:
        return self.model.prior(position)

    def items(self, batch: LatentBatch, position: Position) -> Estimate:
        return self.model.weighted_sum(position, self._pairs(batch, position), batch.batch.weight)

    def difference(self, batch: LatentBatch, position: Position, centre: Position) -> Estimate:
        raise TypeError(
            "LatentMinibatch has no difference of two points from one batch: its latent variables "
            "are drawn given the point"
        )

    def per_item(self, batch: LatentBatch, position: Position) -> PyTree:
        return self.model.per_item(position, self._pairs(batch, position))

    def full(self, position: Position, data: Data) -> Estimate:
        raise TypeError("the gradients at random latent variables have no exact sum over the items")

    def check(self, position: Position, data: Data) -> None:
        Minibatch(self.model, self.batcher).check(position, data)
        self.latent.check(position, data)

    def _pairs(self, batch: LatentBatch, position: Position) -> tuple[PyTree, PyTree]:
        items = batch.batch.items
        return items, self.latent.draw(batch.key, position, items, None)


class LatentTable(OfLatents):
    """`LatentMinibatch` whose latent variables are kept, and moved when their item is in a batch.

    Each item has a chain of its own, z_i, which goes on from where it was when the item was last
    seen. The estimate is unbiased if the chains are at equilibrium given the position; it has moved
    since, and the bias of this lag falls with the step size.

    Costs O(n) a step and O(N) memory for the table, which is drawn at the first position.

    Args:
        model: as for `LatentMinibatch`.
        latent: as there; its `draw` is handed what an item has.
        batcher: which items a step sees, each at most once.

    Raises:
        TypeError: if the data is streamed (`Given`) or a batch may hold an item twice; in `cycle`
            and `gibbs`, if the latent variables have no exact draw given the position.

    Example: a mixture's labels, a row of the table each.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Latent, LatentTable, Uniform
        >>> class Labels(Latent):
        ...     def draw(self, key, position, items, previous):
        ...         return jax.random.categorical(key, -0.5 * (items[:, None] - position) ** 2)
        >>> loglik = lambda x, pair: -0.5 * (pair[0] - x[pair[1]]) ** 2
        >>> grad = LatentTable(FunctionModel(lambda x: -0.5 * x @ x, loglik), Labels(), Uniform(2))
        >>> data, means = jnp.array([20.0, -20.0, 20.0]), jnp.array([-20.0, 20.0])
        >>> grad.init(jax.random.key(0), means, data).table.value.tolist()
        [1, 0, 1]
    """

    model: Model
    latent: Latent
    batcher: Batcher
    differentiable: ClassVar[bool] = False  # latent variables stay where they are

    def __check_init__(self):
        _check_parts(self.model, self.latent, self.batcher)

    def init(self, key: Key, position: Position, data: Data) -> KeptState:
        return self._kept.init(key, position, data)

    def refresh(self, key: Key, estate: KeptState, position: Position, data: Data) -> KeptState:
        return self._kept.refresh(key, estate, position, data)

    def estimate(
        self, key: Key, estate: KeptState, position: Position, data: Data
    ) -> tuple[Estimate, KeptState]:
        (batch, _, new), estate = self._kept.redraw(key, estate, position, data)
        whole = self.model.weighted_sum(position, (batch.items, new), batch.weight)
        return optax.tree.add(self.model.prior(position), whole), estate

    def prior(self, position: Position) -> Estimate:
        return self.model.prior(position)

    def check(self, position: Position, data: Data) -> None:
        self._kept.check()
        Minibatch(self.model, self.batcher).check(position, data)
        self.latent.check(position, data)

    @property
    def _kept(self) -> KeptLatents:
        return KeptLatents(self.latent, self.batcher, type(self).__name__)


def _check_parts(model: Any, latent: Any, batcher: Any) -> None:
    for name, part, kind in (("model", model, Model), ("latent", latent, Latent)):
        if not isinstance(part, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(part).__name__}")
    require_batcher(batcher)
