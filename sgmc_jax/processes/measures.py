"""Rate measures of completely random measures: where the weights of their atoms lie."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, gammaln
from jaxtyping import Array, Float

from .. import _checks
from .._checks import scalar
from ..special import exponential_integral, incomplete_gamma_tail, log1mexp, softplus_tail

_FLAT = 39.0  # e^-39 is nothing beside 1
_PANELS = 64


class RateMeasure(eqx.Module):
    """The rate measure nu(d theta) of a completely random measure sum_k theta_k delta(psi_k).

    The weights theta_k are the points of a Poisson process of intensity nu: infinitely many, of a
    finite sum. All functions take log theta, since most weights are too small for anything else.

    Args:
        mass: a > 0. The mean of the sum of all weights, but for a `BetaPrimeProcess`.
        concentration: c > 0, the larger the smaller weights are.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> from sgmc_jax.processes import GammaProcess
        >>> measure = GammaProcess(mass=2.0, concentration=3.0)
        >>> float(measure.small), float(measure.of_mass(1.0).small), measure.bounded
        (6.0, 3.0, False)
    """

    mass: Float[Array, ""] = eqx.field(converter=scalar("mass"))
    concentration: Float[Array, ""] = eqx.field(converter=scalar("concentration"), default=1.0)

    bounded: ClassVar[bool] = False
    """Whether weights are below 1."""

    def __check_init__(self):
        _checks.positive("mass", self.mass)
        _checks.positive("concentration", self.concentration)

    @abstractmethod
    def log_rate(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """log of the density of nu, with respect to theta."""

    @abstractmethod
    def tail(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """N(theta) = nu((theta, infinity)), the expected number of larger weights."""

    def log_weight(self, s: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """log theta at s, which is log theta itself, or its log odds where weights are below 1."""
        return jax.nn.log_sigmoid(s) if self.bounded else s

    def coordinate(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """s of a weight, the inverse of `log_weight`."""
        return log_theta - log1mexp(log_theta) if self.bounded else log_theta

    def log_density(self, s: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """log of the density of nu with respect to s."""
        log_theta = self.log_weight(s)
        slope = jax.nn.log_sigmoid(-s) if self.bounded else 0.0  # log of d log theta / ds
        return self.log_rate(log_theta) + log_theta + slope

    def between(self, low: Float[Array, "*b"], high: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """nu of the weights between two s that are 1 apart or little more, by Gauss-Legendre."""
        nodes, weights = _rule(low.dtype)
        half = (high - low) / 2
        s = low[..., None] + half[..., None] * (1 + nodes)
        return half * jnp.sum(weights * jnp.exp(self.log_density(s)), axis=-1)

    @property
    def small(self) -> Float[Array, ""]:
        """a c, the limit of theta nu(theta) at 0 where it is finite."""
        return self.mass * self.concentration

    @property
    def discount(self) -> Float[Array, ""]:
        """d, the exponent of a power law of small weights, theta nu(theta) ~ theta^-d."""
        return jnp.zeros_like(self.concentration)

    def of_mass(self, mass: Any) -> RateMeasure:
        """The same measure but for its mass, which nu is proportional to."""
        return replace(self, mass=mass)


class BetaProcess(RateMeasure):
    """The beta process, nu(d theta) = a c theta^-1 (1 - theta)^(c-1) d theta on (0, 1).

    Example:
        >>> import jax.numpy as jnp
        >>> measure = BetaProcess(2.0, 1.0)
        >>> bool(jnp.isclose(measure.tail(jnp.log(0.5)), 2 * jnp.log(2)))
        True

    Reference:
        Hjort (1990), Nonparametric Bayes estimators based on beta processes in models for life
        history data; Thibaux and Jordan (2007).
    """

    bounded = True

    def log_rate(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.log(self.small) - log_theta + power(self.concentration - 1, log1mexp(log_theta))

    def log_density(self, s: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.log(self.small) - self.concentration * jax.nn.softplus(s)

    def tail(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """a c times the integral of (1 + e^s)^-c over s > log theta - log(1 - theta)."""
        return self.small * softplus_tail(self.coordinate(log_theta), self.concentration)


class GammaProcess(RateMeasure):
    """The gamma process, nu(d theta) = a c theta^-1 exp(-c theta) d theta.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(GammaProcess(1.0, 2.0).tail(jnp.log(0.5))), 5)  # 2 E_1(1)
        0.43877

    Reference:
        Kingman (1975), Random discrete distributions.
    """

    def log_rate(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.log(self.small) - log_theta - self.concentration * jnp.exp(log_theta)

    def tail(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        log_y = jnp.log(self.concentration) + log_theta
        return self.small * exponential_integral(log_y)


class DiscountedMeasure(RateMeasure):
    """A measure whose weights have a power law, theta nu(theta) ~ theta^-d at 0.

    Args:
        discount: d in (0, 1), the exponent of the power law.
    """

    discount: Float[Array, ""] = eqx.field(converter=scalar("discount"), default=0.5)

    def __check_init__(self):
        _checks.positive("discount", self.discount)
        if _checks.certainly(lambda d: d >= 1, self.discount):
            raise ValueError(f"discount must be below 1, got {self.discount}")

    @property
    @abstractmethod
    def log_front(self) -> Float[Array, ""]:
        """The log of the constant before theta^(-1-d)."""


class GeneralizedGammaProcess(DiscountedMeasure):
    """nu(d theta) = a c^(1-d) / Gamma(1 - d) theta^(-1-d) exp(-c theta) d theta.

    Args:
        mass: a > 0, the mean of the sum of all weights.
        concentration: c > 0.
        discount: d in (0, 1); towards 0 this is the gamma process.

    Example:
        >>> import jax.numpy as jnp
        >>> measure = GeneralizedGammaProcess(1.0, 1.0, 0.5)
        >>> round(float(measure.tail(jnp.log(1.0))), 5)  # Gamma(-1/2, 1) / Gamma(1/2)
        0.10051

    Reference:
        Brix (1999), Generalized gamma measures and shot-noise Cox processes.
    """

    @property
    def log_front(self) -> Float[Array, ""]:
        d = self.discount
        return jnp.log(self.mass) + (1 - d) * jnp.log(self.concentration) - gammaln(1 - d)

    def log_rate(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        weight = self.concentration * jnp.exp(log_theta)
        return self.log_front - (1 + self.discount) * log_theta - weight

    def tail(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """a c Gamma(-d, c theta) / Gamma(1 - d)."""
        d, c = self.discount, self.concentration
        front = self.mass * c * jnp.exp(-gammaln(1 - d))
        return front * incomplete_gamma_tail(jnp.log(c) + log_theta, d)


class StableBetaProcess(DiscountedMeasure):
    """The three-parameter beta process, of density on (0, 1)

        nu(theta) = a Gamma(1 + c) / (Gamma(1 - d) Gamma(c + d)) theta^(-1-d) (1 - theta)^(c+d-1).

    Args:
        mass: a > 0, the mean of the sum of all weights.
        concentration: c > 0.
        discount: d in (0, 1); towards 0 this is the beta process.

    Example:
        >>> import jax.numpy as jnp
        >>> measure = StableBetaProcess(1.0, 0.5, 0.5)  # theta^-3/2 / 2
        >>> round(float(measure.tail(jnp.log(0.25))), 5)
        1.0

    Reference:
        Teh and Gorur (2009), Indian buffet processes with power-law behavior.
    """

    bounded = True

    @property
    def log_front(self) -> Float[Array, ""]:
        c, d = self.concentration, self.discount
        return jnp.log(self.mass) - betaln(1 - d, c + d)

    def log_rate(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        c, d = self.concentration, self.discount
        return self.log_front - (1 + d) * log_theta + power(c + d - 1, log1mexp(log_theta))

    def log_density(self, s: Float[Array, "*b"]) -> Float[Array, "*b"]:
        power = -(self.concentration + self.discount) * jax.nn.softplus(s)
        return self.log_front + self.discount * jax.nn.softplus(-s) + power

    def tail(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """By panels in the log odds s. Where e^s is small the density falls as e^(-d s), and where
        it is large as e^(-(c+d) s), whose integrals are known."""
        c, d, front = self.concentration, self.discount, self.log_front
        s = self.coordinate(log_theta)
        low, high = -_FLAT - jnp.log(jnp.maximum(c, 1)), jnp.asarray(_FLAT, s.dtype)
        edges = jnp.linspace(jnp.clip(s, low, high), high, _PANELS + 1, axis=-1)
        middle = jnp.sum(self.between(edges[..., :-1], edges[..., 1:]), axis=-1)
        before = jnp.exp(front - d * low) * jnp.expm1(d * (low - jnp.minimum(s, low))) / d
        after = jnp.exp(front - (c + d) * jnp.maximum(s, high)) / (c + d)
        return before + middle + after


class BetaPrimeProcess(RateMeasure):
    """The beta prime process, nu(d theta) = a c theta^-1 (1 + theta)^-c d theta: odds as weights.

    Args:
        mass: a > 0; the mean of the sum of all weights is a c / (c - 1) where c > 1.
        concentration: c > 0.

    Example:
        >>> import jax.numpy as jnp
        >>> bool(jnp.isclose(BetaPrimeProcess(1.0, 1.0).tail(jnp.log(1.0)), jnp.log(2)))
        True

    Reference:
        Broderick, Mackey, Paisley and Jordan (2015), Combinatorial clustering and the beta negative
        binomial process.
    """

    def log_rate(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.log(self.small) - log_theta - self.concentration * jax.nn.softplus(log_theta)

    def tail(self, log_theta: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return self.small * softplus_tail(log_theta, self.concentration)


def power(exponent: Float[Array, ""], log_x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """The logarithm of a power, 0 of the power 0, also of 0."""
    return jnp.where(exponent == 0, 0.0, exponent * jnp.where(exponent == 0, 0.0, log_x))


def _rule(dtype: Any) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Gauss and Legendre's nodes and weights on (-1, 1), enough for the digits of a dtype."""
    nodes, weights = np.polynomial.legendre.leggauss(jnp.finfo(dtype).nmant // 4 + 3)
    return jnp.asarray(nodes, dtype), jnp.asarray(weights, dtype)


ALL_MEASURES = (
    BetaProcess,
    GammaProcess,
    GeneralizedGammaProcess,
    StableBetaProcess,
    BetaPrimeProcess,
)


def check_measure(name: str, value: Any, *kinds: type[RateMeasure]) -> None:
    """Raise unless `value` is a measure of one of these kinds."""
    if not isinstance(value, kinds or RateMeasure):
        known = ", ".join(kind.__name__ for kind in kinds) or "a RateMeasure"
        raise TypeError(f"{name} is known for {known}, got {type(value).__name__}")
