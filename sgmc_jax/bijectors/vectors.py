"""Bijectors onto numbers, proportions and increasing vectors."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import log_sigmoid
from jaxtyping import Array, Float

from .. import _checks
from .bijector import Bijector, length


def _positive(log_x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """exp(log_x), but not 0, where a density may be infinite."""
    x = jnp.exp(log_x)
    return jnp.maximum(x, jnp.finfo(x.dtype).tiny)


class Exp(Bijector):
    """Positive numbers: x = exp(z), and no smaller than the smallest one that has all its digits.

    Example:
        >>> float(Exp().forward(jnp.zeros(()))), float(Exp().inverse(jnp.ones(())))
        (1.0, 0.0)
    """

    def forward(self, z: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return _positive(z)

    def inverse(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.log(x)

    def log_det(self, z: Float[Array, "*n"]) -> Float[Array, ""]:
        return jnp.sum(z)


class _HalfLine(Bijector):
    """Numbers on one side of a bound: x = bound + sign exp(z)."""

    bound: Float[Array, "..."] = eqx.field(converter=_checks.real("bound"))
    sign: ClassVar[int]

    def __check_init__(self):
        _checks.finite("bound", self.bound)

    def forward(self, z: Float[Array, "*n"]) -> Float[Array, "*n"]:
        bound = _fitted("bound", self.bound, z)
        x = bound + self.sign * _positive(z)
        beside = jnp.nextafter(jax.lax.stop_gradient(bound), self.sign * jnp.inf)
        return jnp.maximum(x, beside) if self.sign > 0 else jnp.minimum(x, beside)

    def inverse(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.log(self.sign * (x - _fitted("bound", self.bound, x)))

    def log_det(self, z: Float[Array, "*n"]) -> Float[Array, ""]:
        return jnp.sum(z)


class GreaterThan(_HalfLine):
    """Numbers above a bound: x = bound + exp(z).

    Args:
        bound: a number or an array that broadcasts against the leaf.

    Raises:
        ValueError: if a bound is not finite.

    Example:
        >>> float(GreaterThan(2.0).forward(jnp.zeros(())))
        3.0
    """

    sign = 1


class LessThan(_HalfLine):
    """Numbers below a bound: x = bound - exp(z).

    Args:
        bound: a number or an array that broadcasts against the leaf.

    Raises:
        ValueError: if a bound is not finite.

    Example:
        >>> float(LessThan(2.0).forward(jnp.zeros(())))
        1.0
    """

    sign = -1


class Interval(Bijector):
    """Numbers between two bounds: x = lower + (upper - lower) sigmoid(z).

    Args:
        lower: the lower bounds, a number or an array that broadcasts against the leaf.
        upper: the upper bounds, above the lower ones.

    Raises:
        ValueError: if a bound is not finite, or no number lies between two bounds.

    Example:
        >>> float(Interval(-1.0, 3.0).forward(jnp.zeros(())))
        1.0
    """

    lower: Float[Array, "..."] = eqx.field(converter=_checks.real("lower"))
    upper: Float[Array, "..."] = eqx.field(converter=_checks.real("upper"))

    def __check_init__(self):
        _checks.finite("lower", self.lower)
        _checks.finite("upper", self.upper)
        _checks.fitting(lower=self.lower, upper=self.upper)
        between = lambda lower, upper: jnp.nextafter(lower, upper) < upper
        if _checks.certainly(lambda x, y: ~between(x, y), self.lower, self.upper):
            got = f"{_checks.shown(self.lower)} and {_checks.shown(self.upper)}"
            raise ValueError(f"lower must be below upper, and not next to it, got {got}")

    def forward(self, z: Float[Array, "*n"]) -> Float[Array, "*n"]:
        lower, upper = _fitted("lower", self.lower, z), _fitted("upper", self.upper, z)
        # rounding reaches the bounds, where a density may be infinite
        form = jnp.finfo(z.dtype)
        share = jnp.clip(jax.nn.sigmoid(z), form.tiny, 1 - form.epsneg)
        x = lower + (upper - lower) * share
        ends = jax.lax.stop_gradient((lower, upper))
        return jnp.clip(x, jnp.nextafter(*ends), jnp.nextafter(*ends[::-1]))

    def inverse(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        lower, upper = _fitted("lower", self.lower, x), _fitted("upper", self.upper, x)
        return jnp.log(x - lower) - jnp.log(upper - x)

    def log_det(self, z: Float[Array, "*n"]) -> Float[Array, ""]:
        width = jnp.log(self.upper - self.lower).astype(z.dtype)
        return jnp.sum(width + log_sigmoid(z) + log_sigmoid(-z))


class StickBreaking(Bijector):
    """The simplex of K proportions along the last axis, from K - 1 numbers.

        x_k = s_k prod_{j<k} (1 - s_j),   s_k = sigmoid(z_k - log(K - k)),   k = 1, ..., K - 1,

    and x_K is what is left, so that z = 0 is the uniform point. The x of the Jacobian are the first
    K - 1.

    Example:
        >>> StickBreaking().forward(jnp.zeros(3)).round(4).tolist()
        [0.25, 0.25, 0.25, 0.25]

    Reference:
        Stan Development Team, Stan reference manual, chapter on transforms of constrained
        variables.
    """

    def forward(self, z: Float[Array, "*b n"]) -> Float[Array, "*b n+1"]:
        taken, left = self._log_shares(z)
        none = jnp.zeros((*z.shape[:-1], 1), z.dtype)
        before = jnp.concatenate([none, left], axis=-1)
        return _positive(before + jnp.concatenate([taken, none], axis=-1))

    def inverse(self, x: Float[Array, "*b K"]) -> Float[Array, "*b K-1"]:
        length(x)
        # the sum of what follows has no rounding of a difference from one
        after = jnp.flip(jnp.cumsum(jnp.flip(x[..., 1:], -1), axis=-1), -1)
        return jnp.log(x[..., :-1]) - jnp.log(after) + _log_counts(x[..., 1:])

    def log_det(self, z: Float[Array, "*b n"]) -> Float[Array, ""]:
        taken, left = self._log_shares(z)
        return jnp.sum(taken + left)

    def _log_shares(
        self, z: Float[Array, "*b n"]
    ) -> tuple[Float[Array, "*b n"], Float[Array, "*b n"]]:
        """log s_k and log prod_{j<=k} (1 - s_j)."""
        z = z - _log_counts(z)
        return log_sigmoid(z), jnp.cumsum(log_sigmoid(-z), axis=-1)


def _log_counts(z: Float[Array, "*b n"]) -> Float[Array, " n"]:
    """The logarithms of n, n - 1, ..., 1."""
    return jnp.log(jnp.arange(length(z), 0, -1, dtype=z.dtype))


def _fitted(name: str, bound: Float[Array, "*k"], z: Float[Array, "..."]) -> Float[Array, "*k"]:
    """A bound in the dtype of a leaf, which it must broadcast to."""
    _checks.within(name, bound, z)
    return bound.astype(z.dtype)


class Ordered(Bijector):
    """Increasing numbers along the last axis: x_1 = z_1, x_k = x_{k-1} + exp(z_k).

    Example:
        >>> Ordered().forward(jnp.array([5.0, 0.0, 0.0])).tolist()
        [5.0, 6.0, 7.0]

    Reference:
        Stan Development Team, Stan reference manual, chapter on transforms of constrained
        variables.
    """

    def forward(self, z: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        length(z)
        return jnp.cumsum(jnp.concatenate([z[..., :1], jnp.exp(z[..., 1:])], axis=-1), axis=-1)

    def inverse(self, x: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        length(x)
        return jnp.concatenate([x[..., :1], jnp.log(jnp.diff(x, axis=-1))], axis=-1)

    def log_det(self, z: Float[Array, "*b n"]) -> Float[Array, ""]:
        return jnp.sum(z[..., 1:])
