"""Stochastic geometric Ornstein-Uhlenbeck sampling of lognormals."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..splitting import Splitting
from ..transitions import GeometricOrnsteinUhlenbeck, NoiseCovariance


def geometric_ornstein_uhlenbeck(
    location: Estimator, scale: Any, step_size: Any, *, noise_covariance: Any = None
) -> Splitting:
    """Stochastic geometric Ornstein-Uhlenbeck: exact transitions with an estimated location.

    With m an unbiased estimate of the mean of y = log x and c = exp(-h),

        y <- m + c (y - m) + N(0, s^2 (1 - c^2) - (1 - c)^2 V),

    elementwise. Positions are y, so that x = exp(y) is positive.

    Targets:
        For an exact location, x ~ Lognormal(m, s^2), without bias for any h. With minibatches the
        mean of y is exact for every h and its variance s^2 + tanh(h/2) (Var m - V): s^2 itself
        where V is the variance of the estimate, which needs V <= s^2 / tanh(h/2).

    Args:
        location: the estimator of the mean of y, e.g. a `Minibatch` of a `Summand`; its value is
            shaped like the position.
        scale: s > 0, the standard deviation of y; a number, or an array like a position that is
            one array.
        step_size: h > 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted: a number, a pytree
            like the position (a diagonal), or a matrix over the raveled position (with one scale).

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if a number is not positive, or V exceeds s^2 / tanh(h/2).

    Example: y_i ~ N(log x, 1) with the prior log x ~ N(0, 10^2).
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Minibatch, Summand, Uniform, sample
        >>> y = jnp.linspace(-1.0, 3.0, 100)
        >>> variance = 1 / (1 / 10**2 + len(y))
        >>> location = Minibatch(Summand(0.0, lambda position, y: variance * y), Uniform(10))
        >>> kernel = geometric_ornstein_uhlenbeck(location, variance**0.5, step_size=0.1)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), y, num_steps=20)
        >>> jnp.exp(run.trace).shape
        (20,)

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the
        probability simplex, section 3.3, who propose geometric Brownian motion: it has no
        stationary law, and this process takes its place. The noise correction is not theirs.
    """
    _checks.estimator("location", location)
    _checks.positive("scale", scale)
    piece = GeometricOrnsteinUhlenbeck(scale, NoiseCovariance(noise_covariance))
    return Splitting("G", {"G": piece}, location, step_size)
