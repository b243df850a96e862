"""The gamma-Poisson process: an item has a feature any number of times."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int

from ..random.gamma import log_gamma
from ..special import log1mexp
from .bondesson import bondesson
from .counts import neighbours
from .feature_process import FeatureProcess, Hyper
from .measures import GammaProcess
from .representation import MeasureSeries

_MOST = 2.0**30


class GammaPoisson(FeatureProcess):
    """The gamma-Poisson process: an item has a feature any number of times.

        mu ~ GammaProcess(a, c),   Z_ik ~ Poisson(mu_k)

    A gamma process has atoms of intensity a c mu^-1 exp(-c mu) d mu. With m_k the sum of column k
    over n items, mu_k given all of them is Gamma(m_k, c + n). With mu_k integrated out an entry is
    negative binomial, P(z) ~ Gamma(m + z) / (z! (c + n)^z), m being the sum of the others. An item
    has Poisson(-a c log(1 - p)) features to itself, p = 1 / (c + n), with entries of the
    logarithmic law P(z) ~ p^z / z. The expected number of columns is a c log(1 + n / c).

    Entries are redrawn by Barker's rule: a neighbour z - 1 or z + 1 is taken by a fair coin, and
    one of the two is drawn in proportion to its probability.

    Args:
        mass: a > 0, the mean of sum_k Z_ik; its first value if it has a prior.
        concentration: c > 0; its first value likewise.
        prior: `None` for a fixed mass, or the shape and rate of its gamma prior.
        concentration_prior: the same for the concentration, which is then drawn by Metropolis.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> process = GammaPoisson(2.0)
        >>> float(process.birth_rate(process.start(), 1))  # 2 log 2
        1.38629

    Reference:
        Titsias (2008), The infinite gamma-Poisson feature model; Kemp (1981), Efficient generation
        of logarithmically distributed pseudo-random variables.
    """

    dtype = jnp.int32

    def exposure(self, concentration: Float[Array, ""], num_items: Any) -> Float[Array, ""]:
        return concentration * jnp.log1p(num_items / concentration)

    def log_column(
        self, concentration: Float[Array, ""], counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, " k"]:
        """-m log(1 + c / n)."""
        return -counts * jnp.log1p(concentration / num_items)

    def log_base(self, counts: Int[Array, " k"], num_items: Any) -> Float[Array, " k"]:
        """log Gamma(m) - m log n."""
        return gammaln(counts.astype(float)) - counts * jnp.log(num_items)

    def draw_weights(
        self, key: Any, hyper: Hyper, counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, " k"]:
        """log mu_k."""
        c = hyper["concentration"]
        return log_gamma(key, jnp.maximum(counts, 1).astype(c.dtype)) - jnp.log(c + num_items)

    def lower(
        self, entry: Int[Array, "*n"], uniform: Float[Array, "*n"]
    ) -> tuple[Int[Array, "*n"], Float[Array, "*n"]]:
        return neighbours(entry, uniform)

    def log_step(self, log_weight: Float[Array, ""], lower: Int[Array, "*n"]) -> Float[Array, "*n"]:
        return log_weight - jnp.log(lower + 1)

    def log_tail_step(
        self, hyper: Hyper, others: Int[Array, ""], num_items: Any, lower: Int[Array, ""] | int
    ) -> Float[Array, ""]:
        return jnp.log((others + lower) / (lower + 1)) - jnp.log(hyper["concentration"] + num_items)

    def measure(self, hyper: Hyper) -> GammaProcess:
        return GammaProcess(hyper["mass"], hyper["concentration"])

    def series(self) -> MeasureSeries:
        return bondesson(self.measure(self.start()))

    def log_size(self, log_weight: Float[Array, "*k"]) -> Float[Array, "*k"]:
        return log_weight

    def log_weight(self, log_size: Float[Array, "*k"]) -> Float[Array, "*k"]:
        return log_size

    def log_absent(self, log_weight: Float[Array, "*k"]) -> Float[Array, "*k"]:
        return -jnp.exp(log_weight)

    def birth_rate(self, hyper: Hyper, num_items: Any) -> Float[Array, ""]:
        c = hyper["concentration"]
        return hyper["mass"] * c * jnp.log1p(1 / (c + (num_items - 1)))

    def birth_size(
        self, hyper: Hyper, num_items: Any, u: Float[Array, "*n"], v: Float[Array, "*n"]
    ) -> Int[Array, "*n"]:
        return logarithmic(-jnp.log1p(1 / (hyper["concentration"] + (num_items - 1))), u, v)


def logarithmic(
    log_rest: Float[Array, ""], u: Float[Array, "*n"], v: Float[Array, "*n"]
) -> Int[Array, "*n"]:
    """A variate of P(z) ~ p^z / z from two uniforms, by Kemp's mixture, given log(1 - p).

    Given u it is geometric, of success probability (1 - p)^u. What is above 2^30 is 2^30.
    """
    more = jnp.floor(jnp.log(v) / log1mexp(u * log_rest))
    return 1 + jnp.minimum(more, _MOST).astype(jnp.int32)
