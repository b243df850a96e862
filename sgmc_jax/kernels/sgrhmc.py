"""Stochastic gradient Riemannian Hamiltonian Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..splitting import Splitting
from ..transitions import (
    Divergence,
    InverseMetric,
    NoiseCovariance,
    PositionMatrix,
    RiemannianFlow,
    RiemannianMomentum,
)


def sgrhmc(
    grad: Estimator,
    metric: Any,
    step_size: Any,
    friction: Any = 1.0,
    *,
    factor: bool = False,
    gamma: str | Callable = "exact",
    temperature: Any = 1.0,
    noise_covariance: Any = None,
) -> Splitting:
    """Stochastic gradient Hamiltonian Monte Carlo with a metric G(x), G^-1 = R R'.

    With g an estimate of the gradient of the log posterior, and R as it is at the old x throughout,

        v <- v + h (R' g - C R R' v + T div R') + N(0, 2 h C T R R' - h^2 R' V R)
        x <- x + h R v,                        (div R')_i = sum_j d R_ji / d x_j.

    Targets:
        p(x)^(1/T) exp(-|v|^2 / 2T), with a bias of order h; for V = 0 the noise of the estimate
        adds one of the same order. For G = 1 it is the word EA of `sghmc`.

    Args:
        grad: the estimator of the gradient of the log posterior.
        metric: the inverse G(x)^-1, not G: about the covariance of the target, the inverse mass
            matrix of other libraries. A function of the position that returns a diagonal, as a
            pytree like the position, or a positive definite matrix (d, d) over the raveled
            position; or one of these, if it is constant. R is then its root, or Cholesky factor.
        step_size: h > 0, or a function of the step index.
        friction: C > 0, a rate.
        factor: whether `metric` is R instead, any factor of G^-1.
        gamma: how div R' is found: see `recipe`; or div R' itself, a function of the position.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted, as in `sgld`.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if `step_size` or `friction` is not positive, or `gamma` is unknown; at
            `sample`'s door, if G^-1 is not symmetric and positive definite where the chain begins,
            or V is too large there.
        TypeError: if `metric` has another shape.

    Example: a step that is short where the target is narrow.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sample
        >>> grad = Minibatch(FunctionModel(lambda x: -0.25 * jnp.sum(x**4)), Full())
        >>> kernel = sgrhmc(grad, lambda x: 1 / (1 + x**2), 0.05, gamma="diagonal")
        >>> run = sample(jax.random.key(0), kernel, jnp.ones(2), None, num_steps=50)
        >>> run.trace.shape
        (50, 2)

    Reference:
        Ma, Chen and Fox (2015), A complete recipe for stochastic gradient MCMC, equation 16, with
        any factor R in place of the symmetric root, for which the invariant law is the same, and
        with friction C G^-1; theirs is C = 1.
    """
    _checks.estimator("grad", grad)
    _checks.positive("friction", friction)
    inverse = InverseMetric(PositionMatrix("metric", metric), factor)
    kick = RiemannianMomentum(
        inverse, friction, Divergence(gamma), NoiseCovariance(noise_covariance), temperature
    )
    pieces = {"P": kick, "X": RiemannianFlow(inverse)}
    return Splitting("PX", pieces, grad, step_size, temperature=temperature)
