"""The protocol of a conjugate family: a likelihood of items with a conjugate prior."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Num, PyTree

from .. import _checks
from ..arrays import real_array
from ._from_data import Spread, spread
from ._inputs import check_precision, check_rows, rows

_Located = TypeVar("_Located", bound="LocatedFamily")


class Family(eqx.Module):
    """A likelihood f(x | theta) of items with a conjugate prior on theta.

    A cluster is known by its sufficient statistics, which add up over its items; K clusters are
    the rows of one pytree of statistics, whose first leaf is the count of items. With h(x) the
    factor of the density that no clustering can change (`log_base`; 1 for most families)::

        loglik(params, x)         log f(x | theta_k)
        scores(params, x)         the same less a number of the item's own
        log_predictive(stats, x)  log of the integral of f(x | theta) over the posterior of k
        log_marginal(stats)       log of the integral of prod_i f(x_i | theta) / h(x_i) over the
                                  prior, hence the sum of the log predictives in any order, less
                                  the sum of log h

    A sum of `log_marginal` over the clusters of a partition is thus comparable across partitions;
    add `sum(log_base(items))` for the probability of the data. A cluster with count 0 has the
    prior as posterior, and 0 as log marginal.

    The items are an array with a leading axis n; whole numbers are made floating. Results have
    the floating dtype of the items or statistics, to which hyper-parameters are cast. In float32,
    counts are exact up to 2^24.

    Example: the counts of two symbols in two clusters.
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.families import DirichletCategorical
        >>> family = DirichletCategorical(0.5, size=2)
        >>> labels = jnp.array([0, 0, 1])
        >>> stats = family.label_statistics(jnp.array([0, 1, 1]), labels, capacity=2)
        >>> isinstance(family, Family), stats.total.tolist()
        (True, [[1.0, 1.0], [0.0, 1.0]])
    """

    def about(self, centre: Float[Array, " d"] | None) -> Family:
        """The family with its sums over items taken about a point amid them, for the precision.

        Statistics, and `log_base`, are then those of this centre; parameters and items are not
        shifted. A family that takes no differences from a point is returned as it is.
        """
        return self

    def statistics(self, items: PyTree, weights: Float[Array, "k n"]) -> Any:
        """The statistics of K clusters; by default the weighted sums of the items' own.

        Args:
            items: n items.
            weights: (K, n), usually a one-hot assignment; 0 for padding.
        """
        each = jax.vmap(self._own_statistics)(items)
        sums = lambda x: jnp.tensordot(weights.astype(x.dtype), x, 1, precision="highest")
        return jax.tree.map(sums, each)

    @abstractmethod
    def item_statistics(self, item: PyTree) -> Any:
        """The statistics of one item, without a leading axis: to add, or to subtract."""

    def _own_statistics(self, item: PyTree) -> Any:
        """`item_statistics` in dtypes that hold sums and signs: those of truths, bytes or
        half precision, as items may be, would be truths, wrap around or stand still."""
        return jax.tree.map(wide, self.item_statistics(item))

    @abstractmethod
    def draw(self, key: Any, stats: Any) -> Any:
        """Parameters of each cluster from its posterior; row k depends on K in rounding only."""

    @abstractmethod
    def scores(self, params: Any, items: PyTree) -> Float[Array, "k n"]:
        """`loglik` less what no parameter can change, which is all that an update of labels needs.

        That is `log_base`, unless a family has a `loglik` of its own.
        """

    def log_base(self, items: PyTree) -> Float[Array, " n"]:
        """log h of each item, which `log_marginal` leaves out; by default nothing."""
        first = jax.tree.leaves(items)[0]
        return jnp.zeros(len(first), jnp.result_type(first, float))

    def predictive(self, stats: Any) -> Any:
        """The parameters of each cluster's posterior predictive; by default the statistics."""
        return stats

    def log_predictive_of(self, predictive: Any, item: PyTree) -> Float[Array, " k"]:
        """The log density of one item under each predictive law of `predictive(stats)`.

        By default what the item adds to the log marginals, of which large ones cancel in float32.
        """
        joined = optax.tree.add(predictive, self._own_statistics(item))
        gain = self.log_marginal(joined) - self.log_marginal(predictive)
        return gain + self.log_base(jax.tree.map(lambda x: jnp.asarray(x)[None], item))

    @abstractmethod
    def log_marginal(self, stats: Any) -> Float[Array, " k"]:
        """The log marginal likelihood of each cluster's items, less their `log_base`."""

    def check(self, data: PyTree) -> None:
        """Raise if concrete data is unfit, naming it `data`; by default if it is not finite."""
        _checks.finite("data", data)

    def check_marginals(self, data: PyTree) -> None:
        """Warn if differences of log marginals of such data are lost to rounding; by default no."""

    def label_statistics(self, items: PyTree, labels: Int[Array, " n"], capacity: int) -> Any:
        """The statistics of `capacity` clusters, of which `labels` names each item's.

        An item whose label is negative or not below the capacity is in none.
        """
        one_hot = labels == jnp.arange(capacity)[:, None]
        return self.statistics(items, one_hot.astype(jnp.result_type(float)))

    def joined(self, stats: Any, count: Int[Array, ""], item: PyTree, sign: Any) -> Any:
        """The statistics of one cluster (a row) that an item joins (sign 1) or leaves (-1).

        `count` is its size then: what rounding leaves of an empty cluster would count as data.
        """

        def leaf(s: Num[Array, "1 *d"], x: Num[Array, "*d"]) -> Num[Array, "1 *d"]:
            return jnp.where(count > 0, s + sign * x, 0).astype(s.dtype)

        return jax.tree.map(leaf, stats, self._own_statistics(item))

    def move(
        self,
        stats: Any,
        predictive: Any,
        k: Int[Array, ""],
        count: Int[Array, ""],
        item: PyTree,
        sign: Any,
    ) -> tuple[Any, Any]:
        """All statistics and predictive laws as an item joins cluster k, or leaves it; as above."""
        row = self.joined(jax.tree.map(lambda x: x[k][None], stats), count, item, sign)
        put = lambda all_, one: all_.at[k].set(one[0])
        return jax.tree.map(put, stats, row), jax.tree.map(put, predictive, self.predictive(row))

    def moved_statistics(
        self, items: PyTree, old: Int[Array, " n"], new: Int[Array, " n"], capacity: int
    ) -> Any:
        """What the statistics of `capacity` clusters gain when items move from `old` to `new`."""
        slots = jnp.arange(capacity)[:, None]
        weights = (new == slots).astype(jnp.result_type(float)) - (old == slots)
        return self.statistics(items, weights)

    def zero_statistics(self, capacity: int, item: PyTree) -> Any:
        """The statistics of `capacity` empty clusters of items such as `item`."""
        one = jax.eval_shape(self._own_statistics, item)
        return jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), one)

    def loglik(self, params: Any, items: PyTree) -> Float[Array, "k n"]:
        """The log density of every item under every cluster's parameters."""
        return self.scores(params, items) + self.log_base(items)

    def log_predictive(self, stats: Any, item: PyTree) -> Float[Array, " k"]:
        """The log posterior predictive density of one item that `stats` does not include.

        In a loop over items of which each changes one cluster, keep `predictive(stats)`, renew
        the changed row, and call `log_predictive_of`.
        """
        return self.log_predictive_of(self.predictive(stats), item)


class LocatedFamily(Family):
    """A family whose statistics are sums of x - c: the centre c is the prior mean, until `about`.

    With items far from c, second moments about it cancel. Samplers therefore put c amid the data.
    """

    mean: eqx.AbstractVar[Float[Array, " d"]]
    centre: eqx.AbstractVar[Float[Array, " d"]]

    @classmethod
    def from_data(cls: type[_Located], data: Any, clusters: Any = 10) -> _Located:
        """A weak prior from all items: clusters have a K-th of their volume, and lie among them.

        With the mean m and the covariance S of the items, w = K^(-2/D), and s^2 the diagonal of S:

            NormalInverseWishart   m, mean_strength w, nu = D + 2, Psi = w S
            NormalGamma            m, mean_strength w, shape 2, rate w s^2
            NormalKnownCovariance  m, covariance w S, prior_covariance S

        So a cluster's covariance has the prior mean w S (diag(w s^2) in the second line), and the
        means of clusters spread as the items do. For small N / D the correlations of S are shrunk
        towards 0. The prior looks at the data, but is worth less than D + 3 items, and other units
        lead to the same posterior. In the third line covariances are taken for known: prefer a
        family that learns them, unless they are known to be about so.

        Args:
            data: all items (N, D), an array or a frame.
            clusters: K, about how many clusters there may be.

        Raises:
            ValueError: if a column is constant, or the data are no finite rows.

        Example:
            >>> import numpy as np
            >>> from sgmc_jax.bnp import NormalInverseWishart
            >>> X = np.random.default_rng(0).normal(5.0, 100.0, size=(300, 2))
            >>> NormalInverseWishart.from_data(X, clusters=4).mean_strength.item()
            0.25

        Reference:
            Fraley and Raftery (2007), Bayesian regularization for normal mixture estimation and
            model-based clustering, for nu and Psi; their mean_strength is .01.
        """
        return cls._from_spread(spread(data, clusters))

    @classmethod
    @abstractmethod
    def _from_spread(cls: type[_Located], place: Spread) -> _Located:
        """The prior that `from_data` tells."""

    @property
    def dim(self) -> int:
        return self.mean.shape[-1]

    def log_base(self, items: Any) -> Float[Array, " n"]:
        x = rows(items, self.dim)
        return jnp.zeros(len(x), x.dtype)

    def check(self, data: Any) -> None:
        check_rows(data, self.dim)
        check_precision(data)

    def about(self, centre: Float[Array, " d"] | None) -> Family:
        if centre is None:
            return self
        return eqx.tree_at(lambda own: own.centre, self, centre.reshape(self.mean.shape))

    def _centred(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """Rows or items less the centre."""
        return x - self.centre.astype(x.dtype)


def wide(x: Any) -> Num[Array, "..."]:
    """Truths, and numbers that are short or have no sign, as ones of 32 bits or more with a sign;
    others as they are."""
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return x.astype(jnp.int64 if x.dtype.itemsize > 4 else jnp.int32)


def gained_less_lost(
    family: Family, items: PyTree, old: Int[Array, " n"], new: Int[Array, " n"], capacity: int
) -> Any:
    """`moved_statistics` by the labels, where that costs less than products with weights."""
    gain, loss = (family.label_statistics(items, z, capacity) for z in (new, old))
    return optax.tree.sub(gain, loss)


def cast(family: Any, like: Any) -> Any:
    """The family with hyper-parameters in the floating dtype of `like`."""
    dtype = real_array(like).dtype
    return jax.tree.map(lambda leaf: leaf.astype(dtype), family)
