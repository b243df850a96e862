"""The likelihood of beta-negative-binomial counts of clusters in groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int

from ..collective import Collective
from ..processes import BetaProcess
from ..processes.exposure import exposure
from ..special import digamma_step, log_rising_factorial, trigamma_step

_SMALL = 0.01  # below it the series of `log_absent` is off by 1e-4 of itself at most


class Sums(NamedTuple):
    """How many groups there are, and sums over them, f(c + r_d) - f(c), f digamma and its slope."""

    number: Float[Array, ""]
    slope: Float[Array, ""]
    curvature: Float[Array, ""]


class Failures(eqx.Module):
    """The likelihood of clusters' counts in all groups, theta and pi integrated out.

        BNB(x; r, A, B) ~ Beta(A + x, B + r) / Beta(A, B),   A = c s,   B = c (1 - s)

    with s = a theta, of the weight theta of a beta process with mass a and concentration c.
    """

    process: BetaProcess
    failures: Float[Array, " G"]  # 0 for padding
    comm: Collective
    sums: Sums

    @classmethod
    def of(cls, process: BetaProcess, failures: Float[Array, " G"], comm: Collective) -> Failures:
        """With the sums over all groups, which need one reduction however often it is asked."""
        c, r, real = process.concentration, failures, failures > 0
        # as a function of A, `log_absent` has at 0 the derivatives -slope and curvature
        slope, curvature = digamma_step(c, r), trigamma_step(c, r)
        total = lambda x: jnp.sum(jnp.where(real, x, 0), dtype=c.dtype)
        sums = comm.sum(Sums(total(real), total(slope), total(curvature)))
        return cls(process, failures, comm, sums)

    def log_column(
        self, stats: Int[Array, "K G"], num_items: Any, log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        """log prod_d BNB(x_d; r_d, A, B), up to what does not depend on theta.

        Gamma(A + x) / Gamma(A) is (x - 1)! times Gamma(x + A) / Gamma(x) / Gamma(A): factorials,
        which are large, are left out.
        """
        # A + B = c: the third factor, Gamma(c + r) / Gamma(c + r + x), knows nothing of theta
        first, some = shapes(self.process, log_theta)[0][:, None], stats > 0
        x = jnp.where(some, stats, 1)
        each = jnp.where(some, log_rising_factorial(x, first) - gammaln(first), 0)
        return self.comm.sum(jnp.sum(each, axis=1)) + self.log_absent(log_theta)

    def log_absent(self, log_theta: Float[Array, " K"]) -> Float[Array, " K"]:
        """log prod_d BNB(0; r_d, A, B), of sums whose terms are no larger than they are.

        With P(x, n) = Gamma(x + n) / Gamma(x) a factor is P(B, A) / P(B + r_d, A). Where A is small
        its logarithm is a series in A, of derivatives at c.
        """
        first, second = shapes(self.process, log_theta)
        rest = log_rising_factorial(second[:, None] + self.failures, first[:, None])
        rest = self.comm.sum(jnp.sum(jnp.where(self.failures > 0, rest, 0), axis=1))
        large = self.sums.number * log_rising_factorial(second, first) - rest
        small = -first * self.sums.slope + 0.5 * first**2 * self.sums.curvature
        return jnp.where(first < _SMALL * jnp.minimum(self.process.concentration, 1), small, large)

    def log_all(
        self, stats: Int[Array, "K G"], log_theta: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        """`log_column` with all that depends on the mass, of which the failures may know."""
        c, r = self.process.concentration, self.failures
        real = jnp.where(r > 0, r, 1)
        # Gamma(r + x) / Gamma(r) and Gamma(c + r) / Gamma(c + r + x), where r may know the mass
        each = log_rising_factorial(real, c) - log_rising_factorial(real + stats, c)
        total = jnp.sum(jnp.where(r > 0, each, 0), axis=1)
        return self.log_column(stats, None, log_theta) + self.comm.sum(total)

    def exposure(self) -> Float[Array, ""]:
        """The expected number of clusters of all groups, at a mass of 1 of the measure of theta.

        Where theta is small, all groups are as empty as so many items that have it with probability
        theta.
        """
        # log P(all groups without it) is -num theta in the limit of small theta
        num = self.process.mass * self.process.concentration * self.sums.slope
        return exposure(self.process.of_mass(1.0), _Alike(self, num), num)


class _Alike(NamedTuple):
    """All groups as `num` items alike."""

    groups: Failures
    num: Float[Array, ""]

    def log_absent(self, log_theta: Float[Array, " K"]) -> Float[Array, " K"]:
        return self.groups.log_absent(log_theta) / self.num


def shapes(
    process: BetaProcess, log_theta: Float[Array, " K"]
) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """A = c s and B = c (1 - s), kept positive where theta is too near 0 or 1 to tell."""
    c, tiny = process.concentration, jnp.finfo(log_theta.dtype).tiny
    s = process.mass * jnp.exp(log_theta)
    return jnp.maximum(c * s, tiny), jnp.maximum(c * (1 - s), tiny)
