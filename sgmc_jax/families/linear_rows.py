"""What the entries of rows say, of items that are sums of features plus normal noise."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ..arrays import product
from .feature_family import EntryLikelihood, RowLikelihood


class LinearRows(EntryLikelihood):
    """theta R' and theta theta', over the noise variance, and how entries have moved since R."""

    inner: Float[Array, "K n"]
    gram: Float[Array, "K K"]
    moved: Float[Array, "K n"]

    def gain(
        self, k: Int[Array, ""] | int, entry: Int[Array, " n"], lower: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        """(r . theta_k - |theta_k|^2 (lower + 1/2)) / s^2, r without feature k."""
        inner = self.inner[k] - product(self.gram[k], self.moved)
        return inner + self.gram[k, k] * (entry - lower - 0.5)

    def change(self, k: Int[Array, ""] | int, step: Int[Array, " n"]) -> LinearRows:
        return eqx.tree_at(lambda own: own.moved, self, self.moved.at[k].add(step))


class LinearRow(RowLikelihood):
    """A row of residual e: `means` phi, instantiated or expected, explain it up to a variance.

    `inner` is phi e', `square` e e', `gram` phi phi'; `spread` is M z' and `predictive` 1 + z M z',
    to which the row's own features add `alone`, the sum of `own` z^2.
    """

    inner: Float[Array, " K"]
    square: Float[Array, ""]
    gram: Float[Array, "K K"]
    spread: Float[Array, " K"]
    predictive: Float[Array, ""]
    variance: Float[Array, "K K"]
    own: Float[Array, " K"]
    alone: Float[Array, ""]
    noise_variance: Float[Array, ""]
    dim: int = eqx.field(static=True)

    def gain(
        self, k: Int[Array, ""] | int, entry: Int[Array, ""], lower: Int[Array, ""]
    ) -> Float[Array, ""]:
        steps = lower - entry + jnp.arange(2)
        values = self._log_normal(*self._moved(k, steps), self.alone)
        return values[1] - values[0]

    def change(self, k: Int[Array, ""] | int, step: Int[Array, ""]) -> LinearRow:
        square, predictive = self._moved(k, step)
        inner = self.inner - step * self.gram[k]
        spread = self.spread + step * self.variance[k]
        where = lambda own: (own.inner, own.square, own.spread, own.predictive)
        return eqx.tree_at(where, self, (inner, square, spread, predictive))

    def ratio(self, entries: Int[Array, " K"], params: PyTree) -> Float[Array, ""]:
        alone = jnp.stack([self.alone, jnp.sum(self.own * entries**2)])
        values = self._log_normal(self.square, self.predictive, alone)
        return values[1] - values[0]

    def _moved(
        self, k: Int[Array, ""] | int, step: Int[Array, "*steps"]
    ) -> tuple[Float[Array, "*steps"], Float[Array, "*steps"]]:
        """e e' and 1 + z M z' with column k changed by `step`."""
        square = self.square + step * (step * self.gram[k, k] - 2 * self.inner[k])
        return square, self.predictive + step * (step * self.variance[k, k] + 2 * self.spread[k])

    def _log_normal(
        self,
        square: Float[Array, "..."],
        predictive: Float[Array, "..."],
        alone: Float[Array, "..."],
    ) -> Float[Array, "2"]:
        total = predictive + alone
        return -0.5 * (self.dim * jnp.log(total) + square / (self.noise_variance * total))
