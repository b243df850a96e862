"""SAGA: a control variate at a point of its own for each item, where it was seen last."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from .. import _checks
from .._estimators import Estimate
from .._types import Data, Key, Position, as_keys
from ..collective import as_shard
from ..model import ItemSum
from .allocation import Latent
from .kept import KeptLatents, KeptState
from .minibatch import Minibatch
from .wrapper import Anchoring


class SAGAState(NamedTuple):
    """The table of the items' terms with the batcher's state, their sum, and the number of
    estimates made.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import SAGA, Minibatch, Summand, Uniform
        >>> grad = SAGA(Minibatch(Summand(0.0, lambda x, y: y - x), Uniform(2)))
        >>> state = grad.init(jax.random.key(0), jnp.array(1.0), jnp.arange(4.0))
        >>> state.kept.table.value.tolist(), float(state.total)
        ([-1.0, 0.0, 1.0, 2.0], 2.0)
    """

    kept: KeptState
    total: PyTree
    count: Int[Array, ""]


class _Terms(Latent):
    """The terms of items, in the place of latent variables: nothing of them is random."""

    model: ItemSum

    def draw(self, key: Any, position: Position, items: PyTree, previous: PyTree | None) -> PyTree:
        return self.model.kept(position, items)


class SAGA(Anchoring):
    """The estimate of the change of the items' terms since each was seen last, plus their sum then.

    With t_i the term of item i when it was last in a batch, kept in a table, and T their sum,

        value = prior(x) + T + sum_{i in S} weight_i (term_i(x) - t_i),
        then  T <- T + sum_{i in S} (term_i(x) - t_i),  t_i <- term_i(x)  for i in S.

    It is unbiased given the table, and its covariance is that of the minibatch with term_i - t_i in
    place of term_i: a control variate without a mode to be found, and without the passes of `SVRG`.

    Costs O(n) a step and O(N) memory a chain for the table, filled at the first position: one
    number an item for a `LinearModel` of one predictor, k for k of them, else its whole term. So
    that rounding errors do not pile up in T, it is summed anew from the table now and then.

    The table stays when another kernel has moved the position, and is filled anew if `gibbs` has
    changed the target. The estimate has no `logdensity`.

    Args:
        inner: the estimator whose noise is to be reduced, a `Minibatch` whose batches hold each
            item at most once.
        refresh_every: the number of estimates between two sums of the table; `None` for N/n,
            rounded up, so that they double the cost of a step's sum at most.

    Raises:
        TypeError: if the estimator is no `Minibatch`, the data is streamed (`Given`), a batch may
            hold an item twice, or depends on earlier ones (`Epoch`): items that it has passed by
            have the oldest terms, which would be taken for those of all.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import LinearModel, Uniform, sample, sgld
        >>> model = LinearModel(lambda w: -0.5 * w @ w, lambda eta, y: -0.5 * (y - eta) ** 2)
        >>> data = jnp.ones((100, 2)), jnp.arange(100.0)
        >>> kernel = sgld(SAGA(Minibatch(model, Uniform(10))), step_size=1e-3)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(2), data, num_steps=20)
        >>> run.state.estimator.kept.table.value.shape
        (100,)

    Reference:
        Dubey et al. (2016), Variance reduction in stochastic gradient Langevin dynamics, algorithm
        1. The prior is exact here and takes no part in the difference.
    """

    inner: Minibatch
    refresh_every: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        _checks.estimator("inner", self.inner)
        if not isinstance(self.inner, Minibatch):
            raise TypeError(
                f"inner must be a Minibatch, whose model has terms to keep, got "
                f"{type(self.inner).__name__}"
            )
        if self.refresh_every is not None:
            _checks.whole("refresh_every", self.refresh_every)
        self._kept.check()

    def init(self, key: Key, position: Position, data: Data) -> SAGAState:
        kept = self._kept.init(key, position, data)
        return SAGAState(kept, self._sum(kept.table.value, data), jnp.zeros((), jnp.int32))

    def refresh(self, key: Key, estate: SAGAState, position: Position, data: Data) -> SAGAState:
        return estate

    def retarget(self, key: Key, estate: SAGAState, position: Position, data: Data) -> SAGAState:
        kept = self._kept.refresh(key, estate.kept, position, data)
        return estate._replace(kept=kept, total=self._sum(kept.table.value, data))

    def estimate(
        self, key: Key, estate: SAGAState, position: Position, data: Data
    ) -> tuple[Estimate, SAGAState]:
        keys = as_keys(key)
        (batch, old, new), kept = self._kept.redraw(keys, estate.kept, position, data)
        count = estate.count if keys.count is None else keys.count
        # the table that comes back has all rows but those of this batch, as the total has
        total = jax.lax.cond(
            (count % self._every(batch.weight.shape[0], data) == 0) & (count > 0),
            lambda: self._sum(kept.table.value, data),
            lambda: estate.total,
        )
        change = optax.tree.sub(new, old)
        summed = lambda weight: self.inner.model.kept_sum(batch.items, change, weight)
        value = optax.tree.add(
            self.prior(position).value, optax.tree.add(total, summed(batch.weight))
        )
        total = optax.tree.add(total, summed((batch.weight > 0).astype(batch.weight.dtype)))
        return Estimate(value), SAGAState(kept, total, estate.count + 1)

    def _sum(self, table: PyTree, data: Data) -> PyTree:
        """The sum of the terms in the table."""
        shard = self.inner.batcher.population(as_shard(data))
        return self.inner.model.kept_sum(shard.items, table, shard.mask.astype(jnp.float32))

    def _every(self, batch_size: int, data: Data) -> int:
        if self.refresh_every is not None:
            return self.refresh_every
        return -(-self.inner.batcher.population(as_shard(data)).capacity // batch_size)

    @property
    def _kept(self) -> KeptLatents:
        terms, name = _Terms(self.inner.model), type(self).__name__
        return KeptLatents(terms, self.inner.batcher, name, any_batch=True)
