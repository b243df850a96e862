"""The Metropolis-adjusted Langevin algorithm."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .. import _checks
from .._estimators import Estimator
from ..combinators import Metropolis
from ..spaces import Space
from .hmc import hmc


def mala(grad: Estimator, step_size: Any, *, space: Space | None = None) -> Metropolis:
    """The Metropolis-adjusted Langevin algorithm with the exact gradient.

    Proposes x' = x + h g(x) + N(0, 2 h) and accepts with probability min(1, a),

        log a = log p(x') - log p(x)
                - (|x - x' - h g(x')|^2 - |x' - x - h g(x)|^2) / (4 h).

    Targets:
        p(x) exactly, for every h. An acceptance of .574 is about the most efficient.

    Args:
        grad: an exact estimator, `Minibatch(model, Full())`.
        step_size: h > 0, as in `sgld`.
        space: where positions live, R^n by default; `Euclidean(scale)` for a preconditioner.

    Returns:
        A kernel with `MetropolisState` and `MetropolisInfo` (acceptance probability, energies).

    Raises:
        TypeError: if the step size is a schedule.
        ValueError: if the estimator is not exact or `step_size` is not positive.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sample
        >>> grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
        >>> run = sample(jax.random.key(0), mala(grad, 0.3), jnp.zeros(2), None, num_steps=20)
        >>> run.trace.shape
        (20, 2)

    Reference:
        Roberts and Tweedie (1996), Exponential convergence of Langevin distributions and their
        discrete approximations. It is `hmc` with one leapfrog step of size sqrt(2 h), and is run
        so.
    """
    _checks.positive("step_size", step_size)
    if callable(step_size):
        raise TypeError("step_size must be a number for mala: a schedule breaks detailed balance")
    leap = jnp.sqrt(2 * _checks.as_real(step_size, "step_size"))
    return hmc(grad, leap, num_integration_steps=1, space=space, jitter=0.0)
