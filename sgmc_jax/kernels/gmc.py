"""Geodesic Monte Carlo."""

from __future__ import annotations

from typing import Any

from .._estimators import Estimator
from ..combinators import Metropolis
from ..spaces import Space
from ..spaces.space import as_space
from .hmc import hmc


def gmc(
    grad: Estimator,
    space: Space,
    step_size: Any,
    num_integration_steps: int = 10,
    *,
    jitter: Any = 0.2,
) -> Metropolis:
    """Geodesic Monte Carlo: `hmc` on a manifold, with all data and a Metropolis test.

    A tangent velocity v ~ N(0, G(x)^-1) is drawn anew, moved L times by

        v <- v + h s(x) / 2,   (x, v) <- the geodesic flow of time h,   v <- v + h s(x) / 2,

    with s = grad log p the Riemannian gradient, and the result accepted with probability
    min(1, exp(H(x, v) - H(x', v'))), H(x, v) = -log p(x) + |v|^2 / 2.

    Targets:
        p(x) with respect to the Riemannian volume, exactly, for every h, L and jitter.

    Args:
        grad: an exact estimator, `Minibatch(model, Full())`, whose model's log density is that with
            respect to the volume.
        space: where positions live.
        step_size: h > 0, a number.
        num_integration_steps: L, the number of leapfrog steps.
        jitter: the largest relative change of h from one trajectory to the next, as in `hmc`.

    Returns:
        A kernel with `MetropolisState` and `MetropolisInfo` (acceptance probability, energies).

    Raises:
        TypeError: if the step size is a schedule.
        ValueError: if the estimator is not exact or a number is out of its range; at `sample`'s
            door, if the position is off the space.

    Example: a von Mises-Fisher law.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, sample
        >>> grad = Minibatch(FunctionModel(lambda x: 5.0 * x[0]), Full())
        >>> start = jnp.array([1.0, 0.0, 0.0])
        >>> run = sample(jax.random.key(0), gmc(grad, Sphere(), 0.3), start, None, num_steps=20)
        >>> run.trace.shape
        (20, 3)

    Reference:
        Byrne and Girolami (2013), Geodesic Monte Carlo on embedded manifolds, algorithm 1.
    """
    return hmc(grad, step_size, num_integration_steps, space=as_space(space), jitter=jitter)
