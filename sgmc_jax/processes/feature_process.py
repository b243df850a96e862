"""The protocol of processes that give every item a few of infinitely many features."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import _checks
from .._checks import scalar
from ..random import accept, gamma
from .gamma_prior import at_least_tiny, gamma_prior
from .measures import RateMeasure
from .process import Hyper, Process
from .representation import MeasureSeries

_STEP = 0.7  # of the Metropolis walk in log c


class FeatureProcess(Process):
    """Weights mu_k of infinitely many features, and entries Z_ik drawn from them item by item.

    With mass a, concentration c and m_k the sum of column k over n items, the columns that are not
    zero, in no order, have log probability

        K log(a c) - a e(c, n) + sum_k l(c, m_k, n) + b(m_k, n),

    less log K_h! for each K_h columns that agree; a e(c, n) is the expected number of columns
    (`exposure`), and what a column contributes is split in l (`log_column`), which is 0 at c = 1
    or c = 0 and small, and b (`log_base`), which is large but knows nothing of c. An entry is drawn
    anew within a pair of neighbouring values, `lower` and `lower` + 1, whose log odds are
    `log_step` if the weight is instantiated and `log_tail_step` if it is integrated out; both leave
    out the likelihood.

    Args:
        mass: a > 0, the mean of sum_k Z_ik; its first value if it has a prior.
        concentration: c > 0; likewise.
        prior: `None` for a fixed mass, or the shape and rate of its gamma prior.
        concentration_prior: the same for the concentration.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> from sgmc_jax.processes import BetaBernoulli
        >>> process = BetaBernoulli(2.0)
        >>> columns = process.exposure(process.concentration, 3)  # 1 + 1/2 + 1/3
        >>> isinstance(process, FeatureProcess), round(float(columns), 4)
        (True, 1.8333)
    """

    mass: Float[Array, ""] = eqx.field(converter=scalar("mass"))
    concentration: Float[Array, ""] = eqx.field(converter=scalar("concentration"), default=1.0)
    prior: Any = eqx.field(converter=gamma_prior("prior"), default=None)
    concentration_prior: Any = eqx.field(converter=gamma_prior("concentration_prior"), default=None)

    dtype: ClassVar[Any]

    def __check_init__(self):
        _checks.positive("mass", self.mass)
        _checks.positive("concentration", self.concentration)

    @property
    def largest(self) -> float:
        """The largest entry, which may be infinite."""
        return 1 if self.dtype == jnp.bool_ else math.inf

    @abstractmethod
    def exposure(self, concentration: Float[Array, ""], num_items: Any) -> Float[Array, ""]:
        """e(c, n): the expected number of columns for a mass of 1."""

    @abstractmethod
    def log_column(
        self, concentration: Float[Array, ""], counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, " k"]:
        """l(c, m, n) for columns of these sums, all positive."""

    @abstractmethod
    def log_base(self, counts: Int[Array, " k"], num_items: Any) -> Float[Array, " k"]:
        """b(m, n) likewise, but for what depends on how m is made up of entries."""

    @abstractmethod
    def draw_weights(
        self, key: Any, hyper: Hyper, counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, " k"]:
        """Log weights given whole columns; row k does not depend on how many follow."""

    @abstractmethod
    def lower(
        self, entry: Int[Array, "*n"], uniform: Float[Array, "*n"]
    ) -> tuple[Int[Array, "*n"], Float[Array, "*n"]]:
        """The lower value of an entry's pair (-1 to leave it alone), and a uniform still unused."""

    @abstractmethod
    def log_step(
        self, log_weight: Float[Array, ""], lower: Int[Array, "*n"]
    ) -> Float[Array, ""] | Float[Array, "*n"]:
        """log P(lower + 1) - log P(lower) of an entry whose feature has this weight."""

    @abstractmethod
    def log_tail_step(
        self, hyper: Hyper, others: Int[Array, ""], num_items: Any, lower: Int[Array, ""] | int
    ) -> Float[Array, ""]:
        """The same with the weight integrated out, given the sum of the column's other entries."""

    @abstractmethod
    def measure(self, hyper: Hyper) -> RateMeasure:
        """The rate measure of the sizes mu of all weights."""

    @abstractmethod
    def series(self) -> MeasureSeries:
        """The representation of `measure` that a slice sampler uses unless it is told another."""

    @abstractmethod
    def log_size(self, log_weight: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """log mu, of what `draw_weights` draws."""

    @abstractmethod
    def log_weight(self, log_size: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """The inverse of `log_size`."""

    @abstractmethod
    def log_absent(self, log_weight: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """log P(Z_ik = 0) of an entry whose feature has this weight."""

    @abstractmethod
    def birth_rate(self, hyper: Hyper, num_items: Any) -> Float[Array, ""]:
        """The expected number of columns that an item has to itself: a (e(c, n) - e(c, n - 1))."""

    @abstractmethod
    def birth_size(
        self, hyper: Hyper, num_items: Any, u: Float[Array, "*n"], v: Float[Array, "*n"]
    ) -> Int[Array, "*n"]:
        """Entries in columns that no other item has, from two uniforms each."""

    def start(self) -> Hyper:
        """The hyper-parameters that a chain begins with."""
        return {"mass": self.mass, "concentration": self.concentration}

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of each hyper-parameter, or `None`."""
        return {"mass": self.prior, "concentration": self.concentration_prior}

    def logdensity(
        self, hyper: Hyper, counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, ""]:
        """The log probability of columns of these sums; zeros are no columns."""
        base = self.log_base(jnp.maximum(counts, 1), num_items)
        return self._log_hyper(hyper, counts, num_items) + jnp.sum(jnp.where(counts > 0, base, 0))

    def _log_hyper(
        self, hyper: Hyper, counts: Int[Array, " k"], num_items: Any
    ) -> Float[Array, ""]:
        """The part of `logdensity` that knows of the hyper-parameters."""
        a, c = hyper["mass"], hyper["concentration"]
        columns = jnp.log(a * c) + self.log_column(c, jnp.maximum(counts, 1), num_items)
        return jnp.sum(jnp.where(counts > 0, columns, 0)) - a * self.exposure(c, num_items)

    def redraw(self, key: Any, hyper: Hyper, counts: Int[Array, " k"], num_items: Any) -> Hyper:
        """The mass from Gamma(s + K, r + e(c, n)), then a Metropolis step on log c."""
        mass_key, step_key, test_key = jax.random.split(key, 3)
        old = hyper["concentration"]
        if self.prior is not None:
            shape, rate = self.prior
            drawn = gamma(mass_key, shape + jnp.sum(counts > 0))
            drawn = drawn / (rate + self.exposure(old, num_items))
            hyper = hyper | {"mass": at_least_tiny(drawn, hyper["mass"].dtype)}
        if self.concentration_prior is None:
            return hyper
        shape, rate = self.concentration_prior

        def target(c: Float[Array, ""]) -> Float[Array, ""]:
            now = hyper | {"concentration": c}
            return self._log_hyper(now, counts, num_items) + shape * jnp.log(c) - rate * c

        new = old * jnp.exp(_STEP * jax.random.normal(step_key, dtype=old.dtype))
        gain = target(new) - target(old)
        taken = accept(test_key, gain)
        return hyper | {"concentration": jnp.where(taken, new, old)}
