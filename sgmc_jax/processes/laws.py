"""The laws that series representations draw their V from."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, gammaln, xlog1py, xlogy
from jaxtyping import Array, Float

from ..random import log_beta, log_gamma
from ..random.slots import slot_uniform
from ..special import log1mexp


class Law(eqx.Module):
    """A law on the positive numbers."""

    @abstractmethod
    def sample(self, key: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draws; draw i depends only on the key and the flat index i."""

    @abstractmethod
    def logpdf(self, v: Float[Array, "*b"] | np.floating | float) -> Float[Array, "*b"]:
        """The log density."""


class LawByInversion(Law):
    """A law with a survival function that has an inverse."""

    def sample(self, key: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        u = slot_uniform(key, shape, jnp.result_type(*jax.tree.leaves(self)))
        return jnp.exp(self.log_above(u, jnp.full_like(u, -jnp.inf)))

    @abstractmethod
    def log_above(self, u: Float[Array, "*b"], log_x: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """log V for V given V >= x, from a uniform u."""


class GammaLaw(Law):
    """Gamma(a, c), c being the rate."""

    shape: Float[Array, ""]
    rate: Float[Array, ""]

    def sample(self, key: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        return jnp.exp(log_gamma(key, jnp.broadcast_to(self.shape, shape))) / self.rate

    def logpdf(self, v: Float[Array, "*b"] | np.floating | float) -> Float[Array, "*b"]:
        a, c = self.shape, self.rate
        return xlogy(a, c) + xlogy(a - 1, v) - c * v - gammaln(a)


class BetaLaw(Law):
    """Beta(a, b)."""

    a: Float[Array, ""]
    b: Float[Array, ""]

    def sample(self, key: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        a, b = (jnp.broadcast_to(x, shape) for x in (self.a, self.b))
        return jnp.exp(log_beta(key, a, b)[0])

    def logpdf(self, v: Float[Array, "*b"] | np.floating | float) -> Float[Array, "*b"]:
        return xlogy(self.a - 1, v) + xlog1py(self.b - 1, -v) - betaln(self.a, self.b)


class BetaOneLaw(LawByInversion):
    """Beta(1, b), P(V > v) = (1 - v)^b; V = 1 at b = 0, and no number below."""

    b: Float[Array, ""]

    def logpdf(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        b = jnp.where(self.b > 0, self.b, 1)
        return self._of(jnp.log(b) + xlog1py(b - 1, -v))

    def log_above(self, u: Float[Array, "*b"], log_x: Float[Array, "*b"]) -> Float[Array, "*b"]:
        b = jnp.where(self.b > 0, self.b, 1)
        return self._of(log1mexp(jnp.minimum(log1mexp(log_x) + jnp.log(u) / b, 0)))

    def _of(self, x: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """x, 0 where b is, and NaN below, of a concentration that was traced."""
        return jnp.where(self.b > 0, x, jnp.where(self.b == 0, 0.0, jnp.nan))


class ExponentialLaw(LawByInversion):
    """Exponential(c), P(V > v) = e^(-c v)."""

    rate: Float[Array, ""]

    def logpdf(self, v: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.log(self.rate) - self.rate * v

    def log_above(self, u: Float[Array, "*b"], log_x: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.logaddexp(log_x, jnp.log(-jnp.log(u)) - jnp.log(self.rate))


class BetaPrimeLaw(LawByInversion):
    """B / (1 - B) with B ~ Beta(1, c), P(V > v) = (1 + v)^-c."""

    power: Float[Array, ""]

    def logpdf(self, v: Float[Array, "*b"] | np.floating | float) -> Float[Array, "*b"]:
        return jnp.log(self.power) - (self.power + 1) * jnp.log1p(v)

    def log_above(self, u: Float[Array, "*b"], log_x: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """1 + V = (1 + x) u^(-1/c)."""
        more = jax.nn.softplus(log_x) - jnp.log(u) / self.power
        return more + log1mexp(-more)
