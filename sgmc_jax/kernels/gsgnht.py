"""The geodesic stochastic gradient Nose-Hoover thermostat."""

from __future__ import annotations

from typing import Any

from .._estimators import Estimator
from ..spaces import Space
from ..spaces.space import as_space
from ..splitting import Splitting
from .sgnht import sgnht


def gsgnht(
    grad: Estimator,
    space: Space,
    step_size: Any,
    friction: Any = 1.0,
    *,
    noise_covariance: Any = None,
    word: str = "ATFBNFTA",
) -> Splitting:
    """The geodesic stochastic gradient Nose-Hoover thermostat: `sgnht` on a manifold.

    With m the dimension of the manifold (n - 1 of a sphere in R^n), the default word is, twice
    around the middle,

        (x, v) <- the geodesic flow of time h / 2,   xi <- xi + (h / 2) (|v|^2 / m - 1),
        v <- exp(-xi h / 2) v,

    and in the middle v <- v + h s(x) + L N(0, 2 A h - h^2 V), with s an estimate of the Riemannian
    gradient of log p, L the projection on the tangent space, and V what is known of the noise of
    the estimate, by default nothing. The thermostat xi starts at A.

    Targets:
        p(x) exp(-|v|^2 / 2 - m (xi - A)^2 / 2) with respect to the Riemannian volume, with a bias
        of order h^2. Noise of the estimate that is alike in all tangent directions, of variance s
        in each, only moves the mean of xi, from A to A + h s / 2: its size need not be known.
        Noise that is not alike is made up for on average, but for what is subtracted of it.

    Args:
        grad: the estimator of the gradient of the log density in the ambient coordinates.
        space: where positions live.
        step_size: h > 0, or a function of the step index.
        friction: A > 0, the strength of the injected noise and the mean of the thermostat.
        noise_covariance: V, the covariance of the estimate in the ambient coordinates, to be
            subtracted, as in `sgnht`; where it is not known, let `grad` be an `EmpiricalFisher`.
        word: `"ATFBNFTA"`, or `"EAT"` for the Euler form, with a bias of order h.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if `step_size` or `friction` is not positive; at `sample`'s door, if the
            position is off the space; if the noise covariance exceeds the sampler's noise or
            cannot be subtracted.

    Example: a von Mises-Fisher law.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, sample
        >>> grad = Minibatch(FunctionModel(lambda x: 5.0 * x[0]), Full())
        >>> start = jnp.array([1.0, 0.0, 0.0])
        >>> run = sample(jax.random.key(0), gsgnht(grad, Sphere(), 0.1), start, None, num_steps=20)
        >>> run.trace.shape
        (20, 3)

    Reference:
        Liu, Zhu and Song (2016), Stochastic gradient geodesic MCMC methods, sections 3.2
        and 3.3.
    """
    own = {"noise_covariance": noise_covariance, "space": as_space(space), "word": word}
    return sgnht(grad, step_size, friction, **own)
