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
    """A row x = z phi + e: features phi, instantiated or expected, explain it up to a variance.

    `levels` are e e' and 1 + z M z', to which the row's own features add `alone`, the sum of `own`
    z^2. With A either phi phi' or M, `curves` A and `slopes` l = -phi e' or M z', a step h of
    column k changes both alike: l <- l + h A_k after level <- level + h (h A_kk + 2 l_k).
    """

    levels: Float[Array, "2"]
    slopes: Float[Array, "2 K"]
    curves: Float[Array, "K 2 K"]
    own: Float[Array, " K"]
    alone: Float[Array, ""]
    noise_variance: Float[Array, ""]
    dim: int = eqx.field(static=True)

    def gain(
        self, k: Int[Array, ""] | int, entry: Int[Array, ""], lower: Int[Array, ""]
    ) -> Float[Array, ""]:
        steps = lower - entry + jnp.arange(2)
        values = self._log_normal(self._moved(k, steps[:, None]).T, self.alone)
        return values[1] - values[0]

    def change(self, k: Int[Array, ""] | int, step: Int[Array, ""]) -> LinearRow:
        slopes = self.slopes + step * self.curves[k]
        where = lambda own: (own.levels, own.slopes)
        return eqx.tree_at(where, self, (self._moved(k, step), slopes))

    def ratio(self, entries: Int[Array, " K"], params: PyTree) -> Float[Array, ""]:
        squares = jnp.square(entries.astype(self.own.dtype))
        alone = jnp.stack([self.alone, jnp.sum(self.own * squares)])
        values = self._log_normal(self.levels, alone)
        return values[1] - values[0]

    def _moved(self, k: Int[Array, ""] | int, step: Int[Array, "..."]) -> Float[Array, "... 2"]:
        """The levels with column k changed by `step`."""
        return self.levels + step * (step * self.curves[k, :, k] + 2 * self.slopes[:, k])

    def _log_normal(
        self, levels: Float[Array, "2 *n"], alone: Float[Array, "..."]
    ) -> Float[Array, "2"]:
        square, total = levels[0], levels[1] + alone
        return -0.5 * (self.dim * jnp.log(total) + square / (self.noise_variance * total))
