"""The beta-Bernoulli process, with one parameter more than the Indian buffet process."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, gammaln
from jaxtyping import Array, Float, Int

from .._checks import certainly
from ..random import log_beta
from ..special import digamma_step, log1mexp, log_rising_factorial
from .bondesson import bondesson, delayed_bondesson
from .feature_process import FeatureProcess, Hyper
from .measures import BetaProcess
from .representation import MeasureSeries


class BetaBernoulli(FeatureProcess):
    """The beta-Bernoulli process: an item has a feature or not; c = 1 is the Indian buffet process.

        mu ~ BetaProcess(a, c),   Z_ik ~ Bernoulli(mu_k)

    A beta process has atoms of intensity a c mu^-1 (1 - mu)^(c-1) d mu. With m_k of n items in
    column k, mu_k given all of them is Beta(m_k, n - m_k + c); an item has a feature that m of the
    n - 1 others have with odds m / (n - 1 + c - m), and Poisson(a c / (c + n - 1)) features to
    itself. The expected number of columns is a sum_{0<i<=n} c / (c + i - 1).

    Args:
        mass: a > 0, the mean number of features of an item; its first value if it has a prior.
        concentration: c > 0, the larger the less items share; its first value likewise.
        prior: `None` for a fixed mass, or the shape and rate of its gamma prior.
        concentration_prior: the same for the concentration, which is then drawn by Metropolis.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> import jax.numpy as jnp
        >>> process = BetaBernoulli(2.0)
        >>> float(process.logdensity(process.start(), jnp.array([2, 1, 0]), 2))  # 2^2 e^-3 / 4
        -3.0

    Reference:
        Thibaux and Jordan (2007), Hierarchical beta processes and the Indian buffet process;
        Ghahramani, Griffiths and Sollich (2007), Bayesian nonparametric latent feature models.
    """

    dtype = jnp.bool_

    def exposure(self, concentration: Float[Array, ""], num_items: Any) -> Float[Array, ""]:
        return concentration * digamma_step(concentration, num_items)

    def log_column(
        self, concentration: Float[Array, ""], counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, " k"]:
        """log B(m, n - m + c) - log B(m, n - m + 1), by products of m factors or of c - 1.

        Of a column that all items have log n B(n, c), where 1 + (c - 1) would have lost a small c.
        """
        c, rest = concentration, num_items - counts
        of_all = jnp.log(num_items) + gammaln(c) - log_rising_factorial(num_items, c)
        by_c = log_rising_factorial(rest + 1, c - 1) - log_rising_factorial(num_items + 1, c - 1)
        by_m = log_rising_factorial(rest + 1, counts) - log_rising_factorial(rest + c, counts)
        return jnp.where((rest == 0) & (c < 1), of_all, jnp.where(counts < c - 1, by_m, by_c))

    def log_base(self, counts: Int[Array, " k"], num_items: Any) -> Float[Array, " k"]:
        """log B(m, n - m + 1)."""
        return betaln(counts.astype(float), num_items - counts + 1.0)

    def draw_weights(
        self, key: Any, hyper: Hyper, counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, " k"]:
        """The log odds of mu_k."""
        shapes = [jnp.maximum(counts, 1), num_items - counts + hyper["concentration"]]
        log_mu, log_rest = log_beta(key, *shapes)
        return log_mu - log_rest

    def lower(
        self, entry: Int[Array, "*n"], uniform: Float[Array, "*n"]
    ) -> tuple[Int[Array, "*n"], Float[Array, "*n"]]:
        return jnp.zeros_like(entry), uniform

    def log_step(self, log_weight: Float[Array, ""], lower: Int[Array, "*n"]) -> Float[Array, ""]:
        return log_weight

    def log_tail_step(
        self, hyper: Hyper, others: Int[Array, ""], num_items: Any, lower: Int[Array, ""] | int
    ) -> Float[Array, ""]:
        # whole numbers first: beside a million of them a concentration of .01 would be lost
        without = (num_items - 1 - others) + hyper["concentration"]
        return jnp.log(others / without)

    def measure(self, hyper: Hyper) -> BetaProcess:
        return BetaProcess(hyper["mass"], hyper["concentration"])

    def series(self) -> MeasureSeries:
        """Bondesson's, delayed if the concentration is below 1 or has a prior."""
        measure = self.measure(self.start())
        fixed = self.concentration_prior is None and certainly(lambda c: c >= 1, self.concentration)
        return bondesson(measure) if fixed else delayed_bondesson(measure)

    def log_size(self, log_weight: Float[Array, "*k"]) -> Float[Array, "*k"]:
        return jax.nn.log_sigmoid(log_weight)

    def log_weight(self, log_size: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """The log odds."""
        return log_size - log1mexp(log_size)

    def log_absent(self, log_weight: Float[Array, "*k"]) -> Float[Array, "*k"]:
        return jax.nn.log_sigmoid(-log_weight)

    def birth_rate(self, hyper: Hyper, num_items: Any) -> Float[Array, ""]:
        c = hyper["concentration"]
        return hyper["mass"] * c / (c + (num_items - 1))  # of one item the mass, however small c

    def birth_size(
        self, hyper: Hyper, num_items: Any, u: Float[Array, "*n"], v: Float[Array, "*n"]
    ) -> Int[Array, "*n"]:
        return jnp.ones(u.shape, jnp.int32)
