"""Batches of items with unequal probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt32

from .. import _checks
from .._types import Data, Key, Position, as_keys
from ..collective import as_shard, leading_axis
from ..contract import Cost
from ..model import ItemSum
from .uniform import Batch, Batcher, one_each, rows

_WORDS = 2**32  # the values of a random word
_CHUNK = 4_096  # items whose terms are held at once


class Weighted(Batcher):
    """`batch_size` independent draws of items with probabilities p_i, of weights 1 / (n p_i).

    The estimate is unbiased for every p_i > 0. With g_i the terms, which are their differences to
    a centre inside of `ControlVariate`, and G their sum, its covariance is

        (1/n) (sum_i g_i g_i' / p_i - G G'),

    and its trace is least for p_i proportional to |g_i|: see `optimal_probabilities`. A bound of
    |g_i| does nearly as well, for a control variate of a generalised linear model |x_i|^2.

    A step costs O(n log N). An item may be drawn several times.

    Args:
        batch_size: the number of draws n.
        probabilities: (N,), positive, one for each item of the data; they need not add up to one.
            They are rounded to multiples of 2^-32, one at least, which are then the exact
            probabilities of the draws and those of the weights.

    Raises:
        TypeError: if the probabilities are not known when the batcher is made.
        ValueError: if one is not positive and finite; at `sample`'s door if there are more or fewer
            than items, and of data in shards.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> batcher = Weighted(4, jnp.array([1.0, 1.0, 2.0]))
        >>> batch, _ = batcher.draw(jax.random.key(0), (), jnp.array([10.0, 10.0, 20.0]))
        >>> (batch.weight * batch.items).tolist()
        [10.0, 10.0, 10.0, 10.0]

    Reference:
        Hansen and Hurwitz (1943), On the theory of sampling from finite populations; Csiba and
        Richtarik (2018), Importance sampling for minibatches.
    """

    batch_size: int = eqx.field(static=True)
    probabilities: Float[Array, " N"]
    # the words up to which an item and those before it reach, but for the last one
    edges: UInt32[Array, " M"]
    distinct: ClassVar[bool] = False

    def __init__(self, batch_size: int, probabilities: Any):
        _checks.whole("batch_size", batch_size)
        shares = np.diff(_edges(_normalised(probabilities)), prepend=0)
        self.batch_size = int(batch_size)
        self.probabilities = jnp.asarray(shares / _WORDS, jnp.result_type(float))
        self.edges = jnp.asarray(np.cumsum(shares)[:-1].astype(np.uint32))

    @property
    def cost(self) -> Cost:
        return Cost(self.batch_size)

    def draw(self, key: Key, bstate: PyTree, data: Data) -> tuple[Batch, PyTree]:
        shard = as_shard(data)
        one_each("probabilities", len(self.probabilities), shard.capacity)
        words = jax.random.bits(as_keys(key).batch, (self.batch_size,), jnp.uint32)
        index = jnp.searchsorted(self.edges, words, side="right").astype(jnp.int32)
        weight = 1 / (self.batch_size * self.probabilities[index])
        return Batch(rows(shard.items, index), weight, index), bstate

    def deviations(self, batch: Batch, terms: PyTree) -> tuple[Float[Array, " n"], PyTree]:
        """Of n independent draws: n / (n - 1), and `w_i g_i` less their mean."""
        num = self.batch_size

        def deviation(g: Float[Array, "n *shape"]) -> Float[Array, "n *shape"]:
            weighted = jax.vmap(jnp.multiply)(batch.weight.astype(g.dtype), g)
            return weighted - weighted.mean(0)

        scale = jnp.full((num,), num / max(num - 1, 1), batch.weight.dtype)
        return scale, jax.tree.map(deviation, terms)

    def check(self, data: Data) -> None:
        one_each("probabilities", len(self.probabilities), as_shard(data).capacity)


def optimal_probabilities(
    model: ItemSum, position: Position, data: Data, share: Any = 0.1
) -> Float[Array, " N"]:
    """Probabilities for `Weighted` that are the best at one position, p_i proportional to |g_i|.

    With `share` of uniform ones mixed in, `p_i = (1 - share) |g_i| / sum_j |g_j| + share / N`, no
    weight is above N / (n share), however much an item's term has grown elsewhere.

    Args:
        model: a `Model` or a `Summand`, whose terms are g_i.
        position: where they are evaluated, e.g. the mode.
        data: all of the data.
        share: in [0, 1]; with 0, items without a gradient have no probability and are refused.

    Returns:
        (N,), adding up to one.

    Raises:
        ValueError: if `share` is out of its range, or a term is not finite.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> y = jnp.array([1.0, -3.0])
        >>> optimal_probabilities(model, jnp.zeros(()), y, share=0.0).tolist()
        [0.25, 0.75]

    Reference:
        Zhao and Zhang (2015), Stochastic optimization with importance sampling for regularized
        loss minimization, equation 7.
    """
    share = _checks.one_number("share", share)
    _checks.positive("share", share, zero=True)
    if _checks.certainly(lambda share: share > 1, share):
        raise ValueError(f"share must be at most 1, got {share}")
    check_terms(model, position, data)
    norms = term_norms(model, position, data)
    _checks.finite("the terms of data at position", norms)
    total = jnp.sum(norms)
    optimal = jnp.where(total > 0, norms / jnp.where(total > 0, total, 1), 1 / len(norms))
    return (1 - share) * optimal + share / len(norms)


def check_terms(model: Any, position: Position, data: Data) -> None:
    """Raise unless a model has a term for each item of the data at a position."""
    _checks.instance("model", ItemSum, model)
    _checks.real_position(position)
    _checks.arrays("data", data)
    _checks.some_items(leading_axis(data))
    model.check(position, data)


def term_norms(model: ItemSum, position: Position, data: Data) -> Float[Array, " N"]:
    """The Euclidean norm of each item's term, (N,)."""
    squares = lambda term: sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(term))
    return of_terms(lambda term: jnp.sqrt(squares(term)), model, position, data)


def of_terms(
    function: Callable, model: ItemSum, position: Position, data: Data
) -> Float[Array, "N ..."]:
    """What a function is of each item's term."""

    def of_item(item: PyTree) -> Float[Array, "..."]:
        return function(model.per_item(position, jax.tree.map(lambda x: x[None], item)))

    return jax.lax.map(of_item, jax.tree.map(jnp.asarray, data), batch_size=_CHUNK)


def _normalised(probabilities: Any) -> np.ndarray:
    """The probabilities in float64, adding up to one."""
    if not _checks.is_concrete(probabilities):
        raise TypeError(
            "probabilities must be numbers known when Weighted is made, got an array that is "
            "traced: make the batcher outside of jit and vmap"
        )
    _checks.number("probabilities", probabilities)
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 1 or not p.size:
        raise ValueError(f"probabilities must be of shape (N,), one an item, got shape {p.shape}")
    bad = np.flatnonzero(~((p > 0) & np.isfinite(p)))
    if bad.size:
        raise ValueError(
            f"probabilities must be finite and positive, got {p[bad[0]]} for item {bad[0]}"
        )
    p = p / p.max()  # whose sum may be too large for a number
    return p / p.sum()


def _edges(p: np.ndarray) -> np.ndarray:
    """Of the 2^32 words each item has one, and of the others its share: their cumulative number."""
    reach = np.cumsum(p) / p.sum() * (_WORDS - len(p))
    reach[-1] = _WORDS - len(p)
    return np.rint(reach).astype(np.int64) + np.arange(1, len(p) + 1)
