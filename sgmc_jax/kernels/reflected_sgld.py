"""Stochastic gradient Langevin dynamics, reflected in a convex set."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..convex_sets import ConvexSet, as_convex_set
from ..splitting import Splitting
from ..transitions import EulerLangevin, NoiseCovariance, Reflection


def reflected_sgld(
    grad: Estimator,
    step_size: Any,
    convex_set: ConvexSet | Any,
    *,
    temperature: Any = 1.0,
    noise_covariance: Any = None,
) -> Splitting:
    """Stochastic gradient Langevin dynamics, each step of which is reflected where it leaves a set.

    With g an estimate of the gradient of the log posterior and K the set,

        x <- reflect_K(x + h g(x) + N(0, 2 h T - h^2 V)),

    where reflect_K is the identity in K and 2 project_K(x) - x outside, projected if that is
    outside too; in a box a path is reflected at both walls as often as it takes.

    Targets:
        p(x)^(1/T) on K, with respect to Lebesgue measure, with a bias of order h; for V = 0 the
        noise of the estimate adds one of the same order. In a box there is none for the uniform
        law, and a normal centred at a wall has the variance that it has with `sgld`,
        (2 T + h V) / (lambda (2 - h lambda)). The mean of Exp(1) is larger by about h / 2.

    Args:
        grad: the estimator of the gradient of the log posterior, defined on K.
        step_size: h > 0, or a function of the step index.
        convex_set: K, such as `Box(0.0)` for a half line or an orthant, `Box(0.0, 1.0)` or
            `Ball(1.0)`; any `ConvexSet`, or a function that projects a position.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted, as for `sgld`.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if `step_size` is not positive, h V exceeds 2 T or, at `sample`'s door, the
            position is off the set.

    Example: a normal on a half plane, by a projection of its own.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sample
        >>> grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
        >>> def below(x):
        ...     return x - jnp.maximum(jnp.sum(x) - 1.0, 0.0) / 2
        >>> kernel = reflected_sgld(grad, 0.01, below)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(2), None, num_steps=50)
        >>> bool(jnp.all(jnp.sum(run.trace, -1) <= 1 + 1e-5))
        True

    Reference:
        Bossy, Gobet and Talay (2004), A symmetrized Euler scheme for an efficient approximation of
        reflected diffusions.
    """
    _checks.estimator("grad", grad)
    euler = EulerLangevin(temperature, NoiseCovariance(noise_covariance))
    pieces = {"L": euler, "R": Reflection(as_convex_set(convex_set))}
    return Splitting("LR", pieces, grad, step_size, temperature=temperature)
