"""Likelihoods of an item's counts of an atom, given the atom's weight."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, Int, PyTree, Real

from .. import _checks, _returned
from .._checks import real
from .._functions import as_function
from ..count_densities import deviance
from ..special import log1mexp, log_rising_factorial

_MANY = 30


class CountLikelihood(eqx.Module):
    """h(x | theta): how often an item has an atom of weight theta, independently of all others.

    h(0 | 0) = 1. An entry is drawn anew within a pair of neighbouring values, `lower` and
    `lower` + 1; columns are known by sums over items.

    Example:
        >>> import jax.numpy as jnp
        >>> from sgmc_jax.processes import Poisson
        >>> step = Poisson().log_step(jnp.log(3.0), jnp.array(0))  # log of h(1) / h(0)
        >>> isinstance(Poisson(), CountLikelihood), round(float(jnp.exp(step)), 4)
        (True, 3.0)
    """

    dtype: ClassVar[Any] = jnp.int32
    below_one: ClassVar[bool] = False
    """Whether it is one for weights below 1 alone."""

    @property
    def largest(self) -> float:
        """The largest count, which may be infinite."""
        return math.inf

    @abstractmethod
    def log_prob(
        self, x: Real[Array, "..."] | int, log_theta: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """log h(x | theta)."""

    @abstractmethod
    def statistics(self, entries: Bool[Array, "K n"] | Int[Array, "K n"], real: Any) -> PyTree:
        """Sums over the items that are `real`, with K rows."""

    @abstractmethod
    def log_column(
        self, stats: PyTree, num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        """sum_n log h(x_nk | theta_k), up to what does not depend on theta."""

    def lower(
        self, entry: Int[Array, "*n"], uniform: Float[Array, "*n"]
    ) -> tuple[Int[Array, "*n"], Float[Array, "*n"]]:
        """The lower value of an entry's pair (-1 to leave it alone), and a uniform still unused."""
        return neighbours(entry, uniform)

    def log_step(
        self, log_theta: Float[Array, "..."], lower: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        """log h(lower + 1 | theta) - log h(lower | theta)."""
        return self.log_prob(lower + 1, log_theta) - self.log_prob(lower, log_theta)

    def log_absent(self, log_theta: Float[Array, "..."]) -> Float[Array, "..."]:
        """log h(0 | theta)."""
        return self.log_prob(jnp.zeros((), jnp.int32), log_theta)

    @staticmethod
    def from_function(log_prob: Callable, maximum: int) -> BoundedCounts:
        """A likelihood of your own, of counts up to a maximum.

        Args:
            log_prob: `(x, log_theta) -> number`, log h(x | theta) for x = 0, ..., maximum.
            maximum: the largest count.

        Example:
            >>> import jax.numpy as jnp
            >>> twice = CountLikelihood.from_function(  # Binomial(2, theta)
            ...     lambda x, t: x * t + (2 - x) * jnp.log1p(-jnp.exp(t)) + jnp.log(2.0) * (x == 1),
            ...     maximum=2,
            ... )
            >>> round(float(jnp.exp(twice.log_prob(1, jnp.log(0.5)))), 5)
            0.5
        """
        return BoundedCounts(as_function(log_prob, "log_prob", ("x", "log_theta")), maximum)


class BoundedCounts(CountLikelihood):
    """See `CountLikelihood.from_function`."""

    function: Callable
    maximum: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.whole("maximum", self.maximum)

    @property
    def largest(self) -> float:
        return self.maximum

    def log_prob(
        self, x: Real[Array, "..."] | int, log_theta: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        gone = jnp.isneginf(log_theta)  # h(0 | 0) = 1, where x log theta is no number
        one = lambda *args: _returned.scalar("log_prob", self.function(*args))
        each = jnp.vectorize(one)(x, jnp.where(gone, -1.0, log_theta))
        return jnp.where(gone, jnp.where(x == 0, 0.0, -jnp.inf), each)

    def statistics(
        self, entries: Bool[Array, "K n"] | Int[Array, "K n"], real: Bool[Array, " n"]
    ) -> Int[Array, "K values"]:
        """How often each value occurs."""
        values = jnp.arange(self.maximum + 1)[:, None, None]
        return jnp.sum((entries == values) & real, axis=2, dtype=jnp.int32).T

    def log_column(
        self, stats: Int[Array, "K values"], num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        each = self.log_prob(jnp.arange(self.maximum + 1), log_theta[:, None])
        return jnp.sum(jnp.where(stats > 0, stats * each, 0), axis=1)

    def lower(
        self, entry: Int[Array, "*n"], uniform: Float[Array, "*n"]
    ) -> tuple[Int[Array, "*n"], Float[Array, "*n"]]:
        if self.maximum == 1:
            return jnp.zeros_like(entry), uniform
        lower, unused = super().lower(entry, uniform)
        return jnp.where(lower >= self.maximum, -1, lower), unused


class _CountedBySum(CountLikelihood):
    """A likelihood of which a column's sum tells all that matters."""

    def statistics(
        self, entries: Bool[Array, "K n"] | Int[Array, "K n"], real: Bool[Array, " n"]
    ) -> Int[Array, " K"]:
        return jnp.sum(jnp.where(real, entries, 0), axis=1, dtype=jnp.int32)


class _YesOrNo(_CountedBySum):
    """A likelihood of entries that are 0 or 1."""

    dtype = jnp.bool_

    @property
    def largest(self) -> float:
        return 1

    def lower(
        self, entry: Int[Array, "*n"], uniform: Float[Array, "*n"]
    ) -> tuple[Int[Array, "*n"], Float[Array, "*n"]]:
        return jnp.zeros_like(entry), uniform


class Bernoulli(_YesOrNo):
    """x ~ Bernoulli(theta), for weights below 1.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(Bernoulli().log_absent(jnp.log(0.5))), 5)
        -0.69315
    """

    below_one = True

    def log_prob(
        self, x: Real[Array, "..."] | int, log_theta: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return _one_of_two(x, log_theta, log1mexp(log_theta))

    def log_column(
        self, stats: Int[Array, " K"], num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        # a weight may be rounded to 1
        rest = num_items - stats
        plain = xlogy_log(stats, log_theta) + xlogy_log(rest, log1mexp(log_theta))
        return _about_the_greatest(plain, stats, rest, log_theta, log1mexp(log_theta))


class OddsBernoulli(_YesOrNo):
    """x ~ Bernoulli(theta / (1 + theta)): theta are odds, as those of a `BetaPrimeProcess`.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(OddsBernoulli().log_absent(jnp.log(1.0))), 5)
        -0.69315
    """

    def log_prob(
        self, x: Real[Array, "..."] | int, log_theta: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return _one_of_two(x, jax.nn.log_sigmoid(log_theta), jax.nn.log_sigmoid(-log_theta))

    def log_column(
        self, stats: Int[Array, " K"], num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        # m log theta - n log(1 + theta), of odds that may overflow too
        small, large = jnp.minimum(log_theta, 0), jnp.maximum(log_theta, 0)
        rest = num_items - stats
        have = xlogy_log(stats, small) - xlogy_log(rest, large)
        plain = have - num_items * jnp.log1p(jnp.exp(-jnp.abs(log_theta)))
        shares = jax.nn.log_sigmoid(log_theta), jax.nn.log_sigmoid(-log_theta)
        return _about_the_greatest(plain, stats, rest, *shares)


class Poisson(_CountedBySum):
    """x ~ Poisson(theta).

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(Poisson().log_prob(2, jnp.log(2.0))), 5)  # log(2 e^-2)
        -1.30685
    """

    def log_prob(
        self, x: Real[Array, "..."] | int, log_theta: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return xlogy_log(x, log_theta) - jnp.exp(log_theta) - gammaln(x + 1.0)

    def log_step(
        self, log_theta: Float[Array, "..."], lower: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        """log theta - log(x + 1), of which the default's difference has no digits at large x."""
        return log_theta - _log_next(lower)

    def log_absent(self, log_theta: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """-theta: of gammaln(1) an error remains in float32, which many items make large."""
        return -jnp.exp(log_theta)

    def log_column(
        self, stats: Int[Array, " K"], num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        plain = xlogy_log(stats, log_theta) - num_items * jnp.exp(log_theta)
        return jnp.where(stats > _MANY, -_deviance(stats, num_items, log_theta), plain)


class NegativeBinomial(_CountedBySum):
    """h(x | theta) = Gamma(x + r) / (Gamma(r) x!) (1 - theta)^r theta^x, for weights below 1.

    Args:
        size: r > 0, the number of failures.

    Raises:
        ValueError: if it is not positive.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(NegativeBinomial(1.0).log_prob(1, jnp.log(0.5))), 5)  # log(1 / 4)
        -1.38629
    """

    size: Float[Array, "..."] = eqx.field(converter=real("size", wide=True))
    below_one = True

    def __check_init__(self):
        _checks.positive("size", self.size)

    def log_prob(
        self, x: Real[Array, "..."] | int, log_theta: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        r = self.size
        front = log_rising_factorial(r, x) - gammaln(x + 1.0)  # exact also where r is large
        return front + r * log1mexp(log_theta) + xlogy_log(x, log_theta)

    def log_step(
        self, log_theta: Float[Array, "..."], lower: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        """log theta + log((x + r) / (x + 1)), of which the default's difference has no digits."""
        x = jnp.maximum(lower, 0)
        change = (self.size - 1) / (x + 1.0)
        # a small size is lost beside the one
        small = jnp.log(x + self.size) - jnp.log(x + 1.0)
        ratio = jnp.where(change < -0.5, small, jnp.log1p(jnp.maximum(change, -0.5)))
        return log_theta + ratio

    def log_absent(self, log_theta: Float[Array, "..."]) -> Float[Array, "..."]:
        """r log(1 - theta), without what rounding leaves of the rest."""
        return self.size * log1mexp(log_theta)

    def log_column(
        self, stats: Int[Array, " K"], num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        rest = num_items * self.size
        plain = xlogy_log(stats, log_theta) + rest * log1mexp(log_theta)
        return _about_the_greatest(plain, stats, rest, log_theta, log1mexp(log_theta))


def _about_the_greatest(
    plain: Float[Array, " K"],
    x: Int[Array, " K"],
    y: Real[Array, "..."],
    log_p: Float[Array, " K"],
    log_q: Float[Array, " K"],
) -> Float[Array, " K"]:
    """`plain`, x log p + y log q with q = 1 - p, less its greatest value where x and y are large.

    Only differences of it are of use, and of 1e7 items their rounding is a nat.
    """
    less = -_deviance(x, x + y, log_p) - _deviance(y, x + y, log_q)
    return jnp.where((x > _MANY) & (y > _MANY), less, plain)


def _deviance(
    x: Real[Array, "..."], num: Real[Array, "..."] | int, log_share: Float[Array, " K"]
) -> Float[Array, " K"]:
    """Of x from its mean, a share of `num`, where x is large."""
    x = jnp.maximum(x, _MANY).astype(log_share.dtype)
    num = jnp.asarray(num, log_share.dtype)
    return deviance(x, num * jnp.exp(log_share), jnp.log(num) + log_share)


def _log_next(lower: Int[Array, "*n"]) -> Float[Array, "*n"]:
    """log(x + 1); of -1, no value, 0."""
    return jnp.log(jnp.maximum(lower, 0) + 1.0)


def neighbours(
    entry: Int[Array, "*n"], uniform: Float[Array, "*n"]
) -> tuple[Int[Array, "*n"], Float[Array, "*n"]]:
    """The lower value of one of an entry's two pairs, and a uniform still unused."""
    # uniforms are fine near 0 alone, as a step up may have small odds
    down = uniform > 0.5
    return entry - down, jnp.where(down, 2 * uniform - 1, 2 * uniform)


def _one_of_two(
    x: Real[Array, "..."] | int, log_one: Float[Array, "..."], log_zero: Float[Array, "..."]
) -> Float[Array, "..."]:
    return jnp.where(x == 1, log_one, jnp.where(x == 0, log_zero, -jnp.inf))


def xlogy_log(x: Real[Array, "..."] | int, log_y: Float[Array, "..."]) -> Float[Array, "..."]:
    """x log y, 0 where x is."""
    return jnp.where(x > 0, x * jnp.where(x > 0, log_y, 0), 0.0)
