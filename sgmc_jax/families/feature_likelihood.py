"""A likelihood of your own for items that have several features each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from .. import _checks, _returned
from .._checks import real
from .._types import as_function
from ..random import accept
from ..random.slots import slot_normal
from .feature_family import EntryLikelihood, FeatureFamily, FeatureRows, Hyper, RowLikelihood


class FeatureLikelihood(FeatureFamily):
    """A likelihood of your own for items that have several features each.

    Nothing is integrated out: the parameters of all features are part of the chain. Those of a
    newborn are drawn from the prior, and at every synchronisation all are moved together by one
    step of Hamiltonian Monte Carlo, whose momentum has the variance 1 + m_k where feature k occurs
    m_k times.

    Args:
        log_likelihood: `(params, entries, item) -> number`, the log density of one item, where
            `params` has K rows, one for each slot, and `entries`, (K,) whole numbers, says how
            often the item has each feature. The rows of entries that are 0 must not matter.
        log_prior: `theta -> number`, the log density of one feature's parameters.
        draw_prior: `key -> theta`, a draw from that density.
        step_size: of the leapfrog steps, in units of the parameters.
        num_steps: how many of them.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> family = FeatureLikelihood(
        ...     lambda theta, z, x: jnp.sum(x * jnp.log(1 + z @ jnp.exp(theta))),
        ...     lambda theta: -0.5 * jnp.sum(theta**2),
        ...     lambda key: jax.random.normal(key, (5,)),
        ... )
        >>> family.parameters(jax.random.key(0), 16, jnp.zeros((10, 5))).shape
        (16, 5)

    Reference:
        Neal (2000), Markov chain sampling methods for Dirichlet process mixture models, algorithms
        5 and 8, for parameters that are kept where nothing is conjugate.
    """

    log_likelihood: Callable = eqx.field(converter=partial(as_function, name="log_likelihood"))
    log_prior: Callable = eqx.field(converter=partial(as_function, name="log_prior"))
    draw_prior: Callable = eqx.field(converter=partial(as_function, name="draw_prior"))
    step_size: Array = eqx.field(converter=real("step_size"), default=0.1)
    num_steps: int = eqx.field(static=True, default=5)

    explicit = True

    def __check_init__(self):
        _checks.positive("step_size", self.step_size)
        _checks.whole("num_steps", self.num_steps)

    def start(self) -> Hyper:
        return {}

    def parameters(self, key: Any, capacity: int, items: PyTree) -> PyTree:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(capacity))
        return jax.vmap(self.draw_prior)(keys)

    def births(self, key: Any, params: PyTree, born: Array) -> PyTree:
        fresh = self.parameters(key, born.shape[0], None)
        return jax.tree.map(lambda new, old: jnp.where(_like(born, old), new, old), fresh, params)

    def marginalise(self, params: PyTree, instantiated: Array) -> PyTree:
        return params

    def check(self, data: PyTree) -> None:
        _checks.finite("data", data)

    # ------------------------------------------------------------------ at a synchronisation

    def statistics(self, params: PyTree, rows: FeatureRows) -> tuple:
        return ()

    def redraw(
        self,
        key: Any,
        hyper: Hyper,
        params: PyTree,
        stats: tuple,
        counts: Array,
        rows: FeatureRows,
        num_items: Any,
        comm: Any,
    ) -> tuple[Hyper, PyTree]:
        momentum_key, test_key = jax.random.split(key)
        active = counts > 0
        mass = 1 + counts

        def items_part(params: PyTree) -> Array:
            terms = self.loglik(params, rows.features, rows.items)
            return jnp.sum(jnp.where(rows.real, terms, 0))

        def prior_part(params: PyTree) -> Array:
            return jnp.sum(jnp.where(active, jax.vmap(self._log_prior)(params), 0))

        def target(params: PyTree) -> tuple[Array, PyTree]:
            items = comm.sum(jax.value_and_grad(items_part)(params))
            return optax.tree.add(items, jax.value_and_grad(prior_part)(params))

        def leap(_: Any, phase: tuple) -> tuple:
            params, momentum, _, grad = phase
            momentum = _add(momentum, self.step_size / 2 * active, grad)
            params = _add(params, self.step_size / mass, momentum)
            value, grad = target(params)
            return params, _add(momentum, self.step_size / 2 * active, grad), value, grad

        momentum = _normal_like(momentum_key, params, jnp.sqrt(mass) * active)
        start = (params, momentum, *target(params))
        end = jax.lax.fori_loop(0, self.num_steps, leap, start)
        gain = end[2] - start[2] + _kinetic(momentum, mass) - _kinetic(end[1], mass)
        taken = accept(test_key, gain)
        return hyper, optax.tree.where(taken, end[0], params)

    def logdensity(self, hyper: Hyper, params: PyTree, rows: FeatureRows) -> Array:
        terms = self.loglik(params, rows.features, rows.items)
        active = jnp.any(rows.features > 0, axis=1)
        prior = jnp.where(active, jax.vmap(self._log_prior)(params), 0)
        return jnp.sum(jnp.where(rows.real, terms, 0)) + jnp.sum(prior)

    # ----------------------------------------------------------------- rows, together or alone

    def together(self, hyper: Hyper, params: PyTree, rows: FeatureRows) -> ExplicitRows:
        return ExplicitRows(self, params, rows.items, rows.features)

    def move(self, stats: Any, params: PyTree, item: PyTree, entries: Array, sign: Array) -> Any:
        return stats

    def demote(self, stats: tuple, params: PyTree, instantiated: Array) -> tuple[tuple, PyTree]:
        return stats, params

    def alone(
        self,
        hyper: Hyper,
        params: PyTree,
        stats: tuple,
        shared: Array,
        own: Array,
        item: PyTree,
        entries: Array,
    ) -> ExplicitRow:
        return ExplicitRow(self, params, item, entries)

    def log_item(self, params: PyTree, entries: Array, item: PyTree) -> Array:
        """`log_likelihood`, a scalar."""
        return _returned.scalar("log_likelihood", self.log_likelihood(params, entries, item))

    def _log_prior(self, theta: PyTree) -> Array:
        """`log_prior`, a scalar."""
        return _returned.scalar("log_prior", self.log_prior(theta))

    def loglik(self, params: PyTree, features: Array, items: PyTree) -> Array:
        """The log likelihood of every item."""
        return jax.vmap(self.log_item, (None, 1, 0))(params, features, items)


class ExplicitRows(EntryLikelihood):
    """Rows, and the parameters of all their features."""

    family: FeatureLikelihood
    params: PyTree
    items: PyTree
    features: Int[Array, "K *n"]

    def gain(self, k: Array, entry: Array, lower: Array) -> Array:
        low, high = (self._loglik(self.features.at[k].set(lower + i)) for i in (0, 1))
        return high - low

    def change(self, k: Array, step: Array) -> ExplicitRows:
        return eqx.tree_at(lambda own: own.features, self, self.features.at[k].add(step))

    def _loglik(self, features: Array) -> Array:
        return self.family.loglik(self.params, features, self.items)


class ExplicitRow(ExplicitRows, RowLikelihood):
    """One row, and the parameters of all its features."""

    def _loglik(self, features: Array) -> Array:
        return self.family.log_item(self.params, features, self.items)

    def ratio(self, entries: Array, params: PyTree) -> Array:
        return self.family.log_item(params, entries, self.items) - self._loglik(self.features)


def _like(v: Array, x: Array) -> Array:
    """A number a slot, of the dimensions of `x`."""
    return v.reshape(-1, *(1,) * (x.ndim - 1))


def _add(x: PyTree, factor: Array, y: PyTree) -> PyTree:
    """x + factor y, with a factor a slot."""
    return jax.tree.map(lambda x, y: x + _like(factor, y).astype(x.dtype) * y, x, y)


def _normal_like(key: Any, x: PyTree, scale: Array) -> PyTree:
    """Normals of one scale a slot; row k does not depend on how many follow."""
    leaves, structure = jax.tree.flatten(x)
    drawn = [
        _like(scale, leaf).astype(leaf.dtype) * slot_normal(k, leaf.shape, leaf.dtype)
        for k, leaf in zip(jax.random.split(key, len(leaves)), leaves)
    ]
    return jax.tree.unflatten(structure, drawn)


def _kinetic(momentum: PyTree, mass: Array) -> Array:
    terms = [jnp.sum(p**2 / _like(mass, p)) for p in jax.tree.leaves(momentum)]
    return 0.5 * sum(terms, start=jnp.zeros(()))
