"""The likelihood of beta-negative-binomial counts of clusters in groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import digamma
from jaxtyping import Array, Float, Int

from ..collective import Collective
from ..processes import BetaProcess
from ..processes.exposure import exposure
from ..special import log_rising_factorial


class Failures(eqx.Module):
    """The likelihood of clusters' counts in all groups, theta and pi integrated out.

        BNB(x; r, A, B) ~ Beta(A + x, B + r) / Beta(A, B),   A = c s,   B = c (1 - s)

    with s = a theta, of the weight theta of a beta process with mass a and concentration c.
    """

    process: BetaProcess
    failures: Float[Array, " G"]
    comm: Collective

    def log_column(
        self, stats: Int[Array, "K G"], num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        """log prod_d BNB(x_d; r_d, A, B), up to what does not depend on theta."""
        first, _ = shapes(self.process, log_theta)
        some = stats > 0
        each = jnp.where(some, log_rising_factorial(first[:, None], jnp.where(some, stats, 1)), 0)
        return self.comm.sum(jnp.sum(each, axis=1)) + self._rest(log_theta)

    def log_absent(self, log_theta: Float[Array, " K"]) -> Float[Array, " K"]:
        """log prod_d BNB(0; r_d, A, B)."""
        c, r = self.process.concentration, self.failures
        total = self.comm.sum(jnp.sum(jnp.where(r > 0, log_rising_factorial(c, r), 0)))
        return self._rest(log_theta) - total

    def log_all(self, stats: Int[Array, "K G"], log_theta: Float[Array, " K"]) -> Array:
        """log prod_d x_d! BNB(x_d; r_d, A, B), with what does not depend on theta."""
        c, r, some = self.process.concentration, self.failures, stats > 0
        x = jnp.where(some, stats, 1)
        front = jnp.where(some, log_rising_factorial(jnp.where(some, r, 1), x), 0)
        whole = jnp.where(r > 0, log_rising_factorial(c, stats + r), 0)
        return self.log_column(stats, None, log_theta) + self.comm.sum(jnp.sum(front - whole, 1))

    def exposure(self) -> Float[Array, ""]:
        """The expected number of clusters of all groups, at a mass of 1 of the measure of theta.

        log_absent is -s times `slope` where s is small: it is that of so many items, all alike.
        """
        a, c, r = self.process.mass, self.process.concentration, self.failures
        slope = self.comm.sum(jnp.sum(jnp.where(r > 0, c * (digamma(c + r) - digamma(c)), 0)))
        return exposure(self.process.of_mass(1.0), _Alike(self, a * slope), a * slope)

    def _rest(self, log_theta: Array) -> Array:
        """sum_d log Gamma(B + r_d) - log Gamma(B)."""
        _, second = shapes(self.process, log_theta)
        r = self.failures
        each = jnp.where(r > 0, log_rising_factorial(second[:, None], jnp.where(r > 0, r, 1)), 0)
        return self.comm.sum(jnp.sum(each, axis=1))


class _Alike(NamedTuple):
    """All groups as `num` items alike."""

    groups: Failures
    num: Array

    def log_absent(self, log_theta: Float[Array, " K"]) -> Float[Array, " K"]:
        return self.groups.log_absent(log_theta) / self.num


def shapes(process: BetaProcess, log_theta: Float[Array, " K"]) -> tuple[Array, Array]:
    """A = c s and B = c (1 - s), kept positive where theta is too near 0 or 1 to tell."""
    c, tiny = process.concentration, jnp.finfo(log_theta.dtype).tiny
    s = process.mass * jnp.exp(log_theta)
    return jnp.maximum(c * s, tiny), jnp.maximum(c * (1 - s), tiny)
