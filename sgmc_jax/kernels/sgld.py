"""Stochastic gradient Langevin dynamics."""

from __future__ import annotations

from typing import Any

from .._estimators import Estimator
from ..spaces import Space
from ..splitting import Splitting
from ..transitions import EulerLangevin, GeodesicLangevin, NoiseCovariance


def sgld(
    grad: Estimator,
    step_size: Any,
    *,
    temperature: Any = 1.0,
    noise_covariance: Any = None,
    space: Space | None = None,
) -> Splitting:
    """Stochastic gradient Langevin dynamics; with exact gradients, the unadjusted one (ULA).

    With g an estimate of the gradient of the log posterior,

        x <- x + h g(x) + N(0, 2 h T - h^2 V),

    and on a manifold x moves along the geodesic of that tangent vector, for a time of 1 (geodesic
    Langevin dynamics); g is then the Riemannian gradient.

    Targets:
        p(x)^(1/T), with a bias of order h; for V = 0 the noise of the estimate adds one of the same
        order. Stable iff h < 2 / lambda_max on a Gaussian.

    Args:
        grad: the estimator of the gradient of the log posterior.
        step_size: h > 0, or a function of the step index.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted: a number, a pytree
            like the position (a diagonal), or a matrix over the raveled position. Where it is not
            known, `grad = EmpiricalFisher(...)` estimates it.
        space: where positions live, R^n by default.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if `step_size` is not positive or h V exceeds 2 T, or V is given twice.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sample
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> kernel = sgld(Minibatch(model, Uniform(10)), step_size=1e-3)
        >>> data = jnp.arange(100.0)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), data, num_steps=20)
        >>> run.trace.shape
        (20,)

    Reference:
        Welling and Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics,
        equation 4; their step is 2 h.
    """
    letter = EulerLangevin if space is None else GeodesicLangevin
    piece = letter(temperature, NoiseCovariance(noise_covariance))
    return Splitting("L", {"L": piece}, grad, step_size, space, temperature=temperature)
