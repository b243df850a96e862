"""Stochastic gradient Langevin dynamics, projected on a convex set."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..convex_sets import ConvexSet, as_convex_set
from ..splitting import Splitting
from ..transitions import EulerLangevin, NoiseCovariance, Projection


def projected_sgld(
    grad: Estimator,
    step_size: Any,
    convex_set: ConvexSet | Any,
    *,
    temperature: Any = 1.0,
    noise_covariance: Any = None,
) -> Splitting:
    """Stochastic gradient Langevin dynamics, each step of which ends at the nearest point of a set.

    With g an estimate of the gradient of the log posterior and K the set,

        x <- project_K(x + h g(x) + N(0, 2 h T - h^2 V)).

    Targets:
        p(x)^(1/T) on K, with respect to Lebesgue measure, with a bias of order h^(1/2): steps end
        on the boundary with a probability of that order, about sqrt(h) for Exp(1) on the half
        line, where the density needs none. `reflected_sgld` has a bias of order h at the same cost,
        so that this one is for boundaries where points are wanted.

    Args:
        grad: the estimator of the gradient of the log posterior, defined on K, its boundary too: a
            chain that meets an infinite one there is stopped. `Transformed` moves such a wall away.
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

    Example: a normal on the positive half line.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Box, Full, FunctionModel, Minibatch, sample
        >>> grad = Minibatch(FunctionModel(lambda x: -0.5 * (x - 1.0) ** 2), Full())
        >>> kernel = projected_sgld(grad, 0.01, Box(0.0))
        >>> run = sample(jax.random.key(0), kernel, jnp.ones(()), None, num_steps=50)
        >>> bool(jnp.all(run.trace >= 0))
        True

    Reference:
        Bubeck, Eldan and Lehec (2018), Sampling from a log-concave distribution with projected
        Langevin Monte Carlo; their step is 2 h.
    """
    _checks.estimator("grad", grad)
    euler = EulerLangevin(temperature, NoiseCovariance(noise_covariance))
    pieces = {"L": euler, "P": Projection(as_convex_set(convex_set))}
    return Splitting("LP", pieces, grad, step_size, temperature=temperature)
