"""Likelihoods of items with several features each whose parameters are all part of the chain."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Real

from .. import _checks
from .._checks import scalar
from .._estimators import Estimate, Estimator
from .._types import split
from ..arrays import over_rows
from ..collective import Collective
from ..random.slots import slot_normal
from ..spaces import Euclidean
from ..trajectory import leapfrog
from .feature_family import EntryLikelihood, FeatureFamily, FeatureRows, Hyper, RowLikelihood


class ExplicitFeatures(FeatureFamily):
    """A likelihood of items with several features each, of which nothing is integrated out.

    The parameters of a newborn feature are drawn from the prior, and at every synchronisation all
    are moved together by one step of Hamiltonian Monte Carlo, whose momentum has the variance
    1 + m_k where feature k occurs m_k times. A family says what its density, its prior and a draw
    from that are; its parameters are free of constraints.
    """

    step_size: Float[Array, ""] = eqx.field(
        converter=scalar("step_size"), default=0.1, kw_only=True
    )
    num_steps: int = eqx.field(static=True, default=5, kw_only=True)

    explicit = True

    def __check_init__(self):
        _checks.positive("step_size", self.step_size)
        _checks.whole("num_steps", self.num_steps)

    @abstractmethod
    def log_item(self, params: PyTree, entries: Int[Array, " K"], item: PyTree) -> Float[Array, ""]:
        """The log density of one item, for the parameters of all slots."""

    @abstractmethod
    def log_theta(self, theta: PyTree) -> Float[Array, ""]:
        """The log prior density of one feature's parameters."""

    @abstractmethod
    def draw_theta(self, key: Any) -> PyTree:
        """A draw from that prior."""

    def start(self) -> Hyper:
        return {}

    def parameters(self, key: Any, capacity: int, items: PyTree) -> PyTree:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(capacity))
        return jax.vmap(self.draw_theta)(keys)

    def births(self, key: Any, params: PyTree, born: Bool[Array, " K"]) -> PyTree:
        fresh = self.parameters(key, born.shape[0], None)
        put = lambda new, old: jnp.where(over_rows(born, old), new, old)
        return jax.tree.map(put, fresh, params)

    def marginalise(self, params: PyTree, instantiated: Bool[Array, " K"]) -> PyTree:
        return params

    # ------------------------------------------------------------------ at a synchronisation

    def statistics(self, params: PyTree, rows: FeatureRows) -> tuple:
        return ()

    def redraw(
        self,
        key: Any,
        hyper: Hyper,
        params: PyTree,
        stats: tuple,
        counts: Int[Array, " K"],
        rows: FeatureRows,
        num_items: Any,
        comm: Any,
    ) -> tuple[Hyper, PyTree]:
        start_key, move_key = jax.random.split(key)
        rows = _without_padding(rows)
        posterior, space = _Posterior(self, counts > 0, comm), _Slots(counts)
        # of many items a sum has few digits left for the differences that are tested
        start = self.loglik(posterior.in_use(params), rows.features, rows.items)
        posterior = replace(posterior, reference=jnp.where(jnp.isfinite(start), start, 0))
        kernel = leapfrog(posterior, self.step_size, self.num_steps, space)
        state = kernel.init(start_key, params, rows)
        state, _ = kernel.step(move_key, state, rows)
        return hyper, state.position

    def logdensity(self, hyper: Hyper, params: PyTree, rows: FeatureRows) -> Float[Array, ""]:
        """By Schwarz: a density of parameters would depend on their units, and on its constant."""
        terms = self.loglik(params, rows.features, rows.items)
        active = jnp.sum(jnp.any(rows.features > 0, axis=1))
        size = sum(leaf[0].size for leaf in jax.tree.leaves(params))
        lost = active * size * jnp.log(jnp.maximum(jnp.sum(rows.real), 1)) / 2
        return jnp.sum(jnp.where(rows.real, terms, 0)) - lost

    # ----------------------------------------------------------------- rows, together or alone

    def together(self, hyper: Hyper, params: PyTree, rows: FeatureRows) -> ExplicitRows:
        return ExplicitRows(self, params, rows.items, rows.features)

    def move(
        self,
        carried: Any,
        params: PyTree,
        item: PyTree,
        entries: Int[Array, " K"],
        sign: Int[Array, ""],
    ) -> Any:
        return carried

    def demote(
        self, carried: tuple, params: PyTree, instantiated: Bool[Array, " K"]
    ) -> tuple[tuple, PyTree]:
        return carried, params

    def alone(
        self,
        hyper: Hyper,
        params: PyTree,
        carried: tuple,
        shared: Bool[Array, " K"],
        own: Bool[Array, " K"],
        item: PyTree,
        entries: Int[Array, " K"],
    ) -> ExplicitRow:
        return ExplicitRow(self, params, item, entries)

    def log_priors(self, params: PyTree) -> Float[Array, " K"]:
        """The log prior density of the parameters of every slot."""
        return jax.vmap(self.log_theta)(params)

    def loglik(
        self, params: PyTree, features: Int[Array, "K n"], items: PyTree
    ) -> Float[Array, " n"]:
        """The log likelihood of every item."""
        return jax.vmap(self.log_item, (None, 1, 0))(params, features, items)


class ExplicitRows(EntryLikelihood):
    """Rows, and the parameters of all their features."""

    family: ExplicitFeatures
    params: PyTree
    items: PyTree
    features: Int[Array, "K *n"]

    def gain(
        self, k: Int[Array, ""] | int, entry: Int[Array, "*n"], lower: Int[Array, "*n"]
    ) -> Float[Array, "*n"]:
        low, high = (self._loglik(self.features.at[k].set(lower + i)) for i in (0, 1))
        return high - low

    def change(self, k: Int[Array, ""] | int, step: Int[Array, "*n"]) -> ExplicitRows:
        return eqx.tree_at(lambda own: own.features, self, self.features.at[k].add(step))

    def _loglik(self, features: Int[Array, "K *n"]) -> Float[Array, "*n"]:
        return self.family.loglik(self.params, features, self.items)


class ExplicitRow(ExplicitRows, RowLikelihood):
    """One row, and the parameters of all its features."""

    def _loglik(self, features: Int[Array, " K"]) -> Float[Array, ""]:
        return self.family.log_item(self.params, features, self.items)

    def ratio(self, entries: Int[Array, " K"], params: PyTree) -> Float[Array, ""]:
        return self.family.log_item(params, entries, self.items) - self._loglik(self.features)


class _Posterior(Estimator):
    """The log density of the parameters of active slots given all rows, and its gradient.

    `reference` holds constants that are subtracted from the rows' log likelihoods.
    """

    family: ExplicitFeatures
    active: Bool[Array, " K"]
    comm: Collective
    reference: Float[Array, " n"] | float = 0.0

    exact: ClassVar[bool] = True

    def estimate(
        self, key: Any, estate: PyTree, position: PyTree, data: FeatureRows
    ) -> tuple[Estimate, PyTree]:
        def items(params: PyTree) -> Float[Array, ""]:
            terms = self.family.loglik(self.in_use(params), data.features, data.items)
            return jnp.sum(jnp.where(data.real, terms - self.reference, 0))

        def prior(params: PyTree) -> Float[Array, ""]:
            terms = self.family.log_priors(self.in_use(params))
            return jnp.sum(jnp.where(self.active, terms, 0))

        # every shard has its own rows, and all have the one prior
        some = jnp.any(data.real)
        own = jax.tree.map(lambda x: jnp.where(some, x, 0), jax.value_and_grad(items)(position))
        shared = self.comm.sum(own)
        value, gradient = optax.tree.add(shared, jax.value_and_grad(prior)(position))
        return Estimate(gradient, value), estate

    def in_use(self, params: PyTree) -> PyTree:
        """With one that is in use in place of the others, which may have no finite gradient: slots
        that a chain has grown by are 0."""
        one = jnp.argmax(self.active)
        rows = lambda x: jnp.where(over_rows(self.active, x), x, x[one])
        return jax.tree.map(rows, params)


def _without_padding(rows: FeatureRows) -> FeatureRows:
    """With a real row in place of padding, whose items and entries are 0: a likelihood may have no
    finite gradient there."""
    one = jnp.argmax(rows.real)
    real = lambda x: jnp.where(over_rows(rows.real, x), x, jnp.asarray(x)[one])
    return FeatureRows(jax.tree.map(real, rows.items), real(rows.features.T).T, rows.real)


class _Slots(Euclidean):
    """Rows of slots, that of slot k with the mass 1 + m_k: |v|^2 = sum_k (1 + m_k) |v_k|^2.

    A free slot, m_k = 0, is given no velocity and stays where it is.
    """

    counts: Int[Array, " K"]

    def __init__(self, counts: Int[Array, " K"]):
        super().__init__()
        self.counts = counts

    @property
    def embedded(self) -> bool:
        return False

    def gradient(self, x: PyTree, g: PyTree) -> PyTree:
        scaled = _times(1 / (1 + self.counts), g)
        some = self.counts > 0
        return jax.tree.map(lambda x: jnp.where(over_rows(some, x), x, 0), scaled)

    def normal(self, key: Any, x: PyTree) -> PyTree:
        # row k does not depend on how many follow: a chain may grow
        leaves, structure = jax.tree.flatten(x)
        keys = split(key, len(leaves))
        noise = [slot_normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves)]
        scale = jnp.sqrt((self.counts > 0) / (1 + self.counts))
        return _times(scale, jax.tree.unflatten(structure, noise))

    def squared_norm(self, x: PyTree, v: PyTree) -> Float[Array, ""]:
        return jnp.asarray(optax.tree.vdot(v, _times(1 + self.counts, v)))


def _times(factor: Real[Array, " K"], x: PyTree) -> PyTree:
    """`x` with a factor a slot."""
    return jax.tree.map(lambda x: over_rows(factor, x).astype(x.dtype) * x, x)
