"""The protocol of a likelihood of items that have several features each."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..collective import Collective

Hyper = dict[str, Any]


class FeatureRows(NamedTuple):
    """Items and their entries: item i has feature k `features[k, i]` times.

    Rows that are not `real` are padding: their entries are 0, and they count for nothing.

    Example:
        >>> import jax.numpy as jnp
        >>> items, entries = jnp.array([[1.0], [3.0]]), jnp.array([[1, 1], [0, 2]])
        >>> rows = FeatureRows(items, entries, jnp.array([True, True]))
        >>> rows.features.sum(axis=1).tolist()  # how often each feature is there
        [2, 2]
    """

    items: PyTree
    features: Int[Array, "K n"]
    real: Bool[Array, " n"]


class EntryLikelihood(eqx.Module):
    """The likelihood of rows as a function of their entries, column by column.

    One object serves one row (an entry is a number) or many (n numbers).

    Example: what a feature 2 adds to the log likelihood of a row 2.
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.families import FeatureRows, LinearGaussian
        >>> family, none = LinearGaussian(dim=1, noise_scale=1.0), jnp.zeros((1, 1), int)
        >>> rows = FeatureRows(jnp.array([[2.0]]), none, jnp.ones(1, bool))
        >>> likelihood = family.together(family.start(), jnp.array([[2.0]]), rows)
        >>> likelihood.gain(0, none[0], none[0]).tolist()  # -(2 - 2)^2 / 2 + (2 - 0)^2 / 2
        [2.0]
    """

    @abstractmethod
    def gain(
        self, k: Int[Array, ""] | int, entry: Int[Array, "*n"], lower: Int[Array, "*n"]
    ) -> Float[Array, "*n"]:
        """log f(x | Z_k = lower + 1) - log f(x | Z_k = lower), given that Z_k is now `entry`."""

    @abstractmethod
    def change(self, k: Int[Array, ""] | int, step: Int[Array, "*n"]) -> EntryLikelihood:
        """The likelihood after the entries of column k have changed by `step`."""


class RowLikelihood(EntryLikelihood):
    """The likelihood of one row given the others, which may have columns of its own.

    Example: a row 0 that gets a feature of its own, N(0, 1).
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.families import FeatureRows, LinearGaussian
        >>> family, none = LinearGaussian(dim=1, noise_scale=1.0), jnp.zeros(1, int)
        >>> rows = FeatureRows(jnp.zeros((1, 1)), none[:, None], jnp.ones(1, bool))
        >>> theta, own, shared = jnp.zeros((1, 1)), jnp.array([True]), jnp.array([False])
        >>> stats = family.carried(family.start(), family.statistics(theta, rows), shared)
        >>> stats = family.restored(stats, theta)
        >>> args = family.start(), theta, stats, shared, own, jnp.zeros(1), none
        >>> round(float(family.alone(*args).ratio(jnp.array([1]), None)), 4)  # -log(1 + 1) / 2
        -0.3466
    """

    @abstractmethod
    def ratio(self, entries: Int[Array, " K"], params: PyTree) -> Float[Array, ""]:
        """The log likelihood of other entries in the row's own columns, less the present one."""


class FeatureFamily(eqx.Module):
    """A likelihood f(x_i | sum_k Z_ik delta(theta_k)) of items that have several features each.

    The parameters theta are a pytree of K rows, one for each slot. A family that is not `explicit`
    can integrate them out, and then has zeros in their rows. It serves a sampler thrice:

    - at a synchronisation all parameters are drawn anew (`redraw`), from `statistics`, which add
      up over items;
    - rows whose features are all instantiated are independent, and drawn together (`together`);
    - in the tail rows are visited one by one: each is taken out of what a sweep carries (`carried`,
      the statistics of the block unless something is cheaper kept up than made anew), drawn given
      the others (`alone`), and put in again (`move`).

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.families import FeatureRows, LinearGaussian
        >>> family = LinearGaussian(dim=1)
        >>> rows = FeatureRows(jnp.array([[3.0], [4.0]]), jnp.array([[1, 1]]), jnp.ones(2, bool))
        >>> sums = family.statistics(jnp.zeros((1, 1)), rows)
        >>> isinstance(family, FeatureFamily), sums.cross.tolist()
        (True, [[7.0]])
    """

    explicit: ClassVar[bool]

    @abstractmethod
    def start(self) -> Hyper:
        """The hyper-parameters that a chain begins with."""

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of each hyper-parameter, or `None` where it is fixed."""
        return {}

    @abstractmethod
    def parameters(self, key: Any, capacity: int, items: PyTree) -> PyTree:
        """The parameters of `capacity` slots that a chain begins with."""

    @abstractmethod
    def births(self, key: Any, params: PyTree, born: Bool[Array, " K"]) -> PyTree:
        """The parameters with those of the newborn drawn from the prior, by slot."""

    @abstractmethod
    def marginalise(self, params: PyTree, instantiated: Bool[Array, " K"]) -> PyTree:
        """The parameters with those that are not instantiated integrated out."""

    @abstractmethod
    def statistics(self, params: PyTree, rows: FeatureRows) -> PyTree:
        """Sums over the rows; `params` may serve as a reference to subtract."""

    @abstractmethod
    def redraw(
        self,
        key: Any,
        hyper: Hyper,
        params: PyTree,
        stats: PyTree,
        counts: Int[Array, " K"],
        rows: FeatureRows,
        num_items: Any,
        comm: Collective,
    ) -> tuple[Hyper, PyTree]:
        """Parameters of all slots, then hyper-parameters, from their conditional laws.

        Args:
            params: the reference of `stats`.
            stats: the sums over all shards.
            counts: the sums of the columns; 0 for a free slot.
            rows: this shard's.
        """

    def report(
        self, key: Any, hyper: Hyper, params: PyTree, stats: PyTree, counts: Int[Array, " K"]
    ) -> PyTree:
        """Parameters of all features given all else, zero rows for free slots.

        Those of an explicit family are part of the chain, and returned as they are.

        Args:
            params, stats, counts: as for `redraw`.
        """
        return params

    @abstractmethod
    def together(self, hyper: Hyper, params: PyTree, rows: FeatureRows) -> EntryLikelihood:
        """The likelihood of all rows given all parameters."""

    def carried(self, hyper: Hyper, stats: PyTree, instantiated: Bool[Array, " K"]) -> PyTree:
        """What a sweep carries from row to row: the statistics, and what is cheaper kept up.

        By default the statistics alone.
        """
        return stats

    @abstractmethod
    def move(
        self,
        carried: PyTree,
        params: PyTree,
        item: PyTree,
        entries: Int[Array, " K"],
        sign: Int[Array, ""],
    ) -> PyTree:
        """What is carried, with a row put in (sign 1), taken out (-1), or neither (0)."""

    @abstractmethod
    def demote(
        self, carried: PyTree, params: PyTree, instantiated: Bool[Array, " K"]
    ) -> tuple[PyTree, PyTree]:
        """What is carried and the parameters after `marginalise`."""

    def restored(self, carried: PyTree, params: PyTree) -> PyTree:
        """What is carried, exact again where rounding has added up; asked before `alone`."""
        return carried

    @abstractmethod
    def alone(
        self,
        hyper: Hyper,
        params: PyTree,
        carried: PyTree,
        shared: Bool[Array, " K"],
        own: Bool[Array, " K"],
        item: PyTree,
        entries: Int[Array, " K"],
    ) -> RowLikelihood:
        """The likelihood of one row given the others.

        Args:
            carried: of the other rows of the block.
            shared: features that are integrated out and that other rows have.
            own: slots of no other row.
        """

    @abstractmethod
    def logdensity(self, hyper: Hyper, params: PyTree, rows: FeatureRows) -> Float[Array, ""]:
        """log p(items | entries), parameters integrated out; if `explicit`, by Schwarz."""

    @abstractmethod
    def check(self, data: PyTree) -> None:
        """Raise if concrete data is unfit, naming it `data`."""
