"""The posterior of features that are integrated out, kept up as rows leave and join."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Bool, Float

from ..arrays import largest_of_batch, product

_WORN = 100.0  # roundings of single numbers: 1e-5 of them in float32


class LinearSums(NamedTuple):
    """Z'Z, Z'R and the sum of R^2, where R = X - Z theta for the parameters of reference."""

    gram: Float[Array, "K K"]
    cross: Float[Array, "K D"]
    square: Float[Array, ""]


class LinearTail(NamedTuple):
    """The sums of a block's rows, and what a row is told of features in the `tail`.

        M = (Z'Z + r I)^-1,   r = (s / s_A)^2,   phi = theta + M Z'R

    M is that of the tail, zero elsewhere, and phi the parameter of an instantiated feature, or what
    is expected of one in the tail. As a row z of residual e = x - z phi joins (sign 1) or leaves
    (-1), with u = M z, v = sign u / (1 + sign z u) and g = phi e',

        M <- M - v u',   phi <- phi + v e,   phi phi' <- phi phi' + v g' + g v' + v e e' v'

    at K (K + D), where making them anew costs K^2 (K + D). `wear` is what the rounding of all that
    was added since may have come to, in units of the last place: `restored` makes them anew from
    the sums, of which those of whole numbers are exact.
    """

    sums: LinearSums
    means: Float[Array, "K D"]
    products: Float[Array, "K K"]
    variance: Float[Array, "K K"]
    tail: Bool[Array, " K"]
    ratio: Float[Array, ""]
    wear: Float[Array, ""]

    @classmethod
    def of(cls, sums: LinearSums, tail: Bool[Array, " K"], ratio: Float[Array, ""]) -> LinearTail:
        """The sums alone: the rest is made when it is asked for."""
        square, worn = jnp.zeros_like(sums.gram), jnp.full_like(ratio, jnp.inf)
        return cls(sums, jnp.zeros_like(sums.cross), square, square, tail, ratio, worn)

    def moved(
        self,
        z: Float[Array, " K"],
        residual: Float[Array, " D"],
        item: Float[Array, " D"],
        sign: Any,
    ) -> LinearTail:
        """With a row put in (sign 1), taken out (-1), or neither (0)."""
        gram = self.sums.gram + sign * z[:, None] * z
        cross = self.sums.cross + sign * z[:, None] * residual
        spread = product(self.variance, z)
        growth = 1 + sign * product(z, spread)
        step, error = (sign / growth) * spread, item - product(z, self.means)
        half = product(self.means, error) + product(error, error) / 2 * step
        # what no row has is as at first: nothing is expected of it, and its variance is the prior's
        empty = self.tail & (jnp.diagonal(gram) == 0)
        prior = jnp.diag(jnp.where(empty, 1 / self.ratio, 0))
        some = ~empty[:, None] & ~empty
        products = self.products + step[:, None] * half + half[:, None] * step
        # numbers that cancel leave the rounding of the largest: 1 + z M z without the row, or M
        largest = jnp.max(jnp.where(empty, 0, jnp.diagonal(self.variance)))
        size = jnp.maximum(jnp.where(sign < 0, 1 / growth, growth), largest)
        return self._replace(
            sums=self.sums._replace(gram=gram, cross=cross),
            means=jnp.where(empty[:, None], 0, self.means + step[:, None] * error),
            products=jnp.where(some, products, 0),
            variance=jnp.where(some, self.variance - step[:, None] * spread, prior),
            wear=self.wear + jnp.where(growth > 0, size, jnp.inf),
        )

    def restored(self, params: Float[Array, "K D"]) -> LinearTail:
        """Exact again where it is worn; `params` are those of instantiated features."""
        worn = ~(self.wear <= _WORN)
        kept = self.means, self.products, self.variance, self.wear

        def anew() -> tuple[Array, ...]:
            gram = jnp.where(self.tail[:, None] & self.tail, self.sums.gram, 0)
            root, own = factor(gram, self.ratio), self.tail.astype(gram.dtype)
            variance = cho_solve((root, True), jnp.diag(own))
            means = params + product(variance, own[:, None] * self.sums.cross)
            made = means, product(means, means.T), variance, jnp.zeros_like(self.wear)
            return jax.tree.map(lambda new, old: jnp.where(worn, new, old), made, kept)

        # of a batch of chains none is made anew where none is worn
        means, products, variance, wear = lax.cond(largest_of_batch(worn), anew, lambda: kept)
        return self._replace(means=means, products=products, variance=variance, wear=wear)

    def without(
        self, params: Float[Array, "K D"], fewer: Float[Array, "K D"], tail: Bool[Array, " K"]
    ) -> LinearTail:
        """With a longer tail: `fewer` are the parameters of what stays instantiated."""
        cross = self.sums.cross + product(self.sums.gram, params - fewer)
        wear = jnp.where(jnp.any(tail != self.tail), jnp.inf, self.wear)
        return self._replace(sums=self.sums._replace(cross=cross), tail=tail, wear=wear)


def factor(gram: Float[Array, "K K"], ratio: Float[Array, ""]) -> Float[Array, "K K"]:
    """L with L L' = gram + ratio I."""
    return jnp.linalg.cholesky(gram + ratio * jnp.eye(gram.shape[0], dtype=gram.dtype))
