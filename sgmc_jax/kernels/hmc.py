"""Hamiltonian Monte Carlo."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..combinators import Metropolis
from ..spaces import Space
from ..trajectory import leapfrog


def hmc(
    grad: Estimator,
    step_size: Any,
    num_integration_steps: int = 10,
    *,
    space: Space | None = None,
    jitter: Any = 0.2,
) -> Metropolis:
    """Hamiltonian Monte Carlo with the exact gradient: leapfrog steps and a Metropolis test.

    A momentum v ~ N(0, I) is drawn anew, moved L times by

        v <- v + h g(x) / 2,   x <- x + h v,   v <- v + h g(x) / 2,

    and the result accepted with probability min(1, exp(H(x, v) - H(x', v'))), H(x, v) = -log p(x) +
    |v|^2 / 2. On a manifold x moves along geodesics (geodesic Monte Carlo). Each trajectory has a
    step size of its own, uniform between (1 - jitter) h and (1 + jitter) h: one whose length is
    near a period of some direction would bring that back to where it was, step after step.

    Targets:
        p(x) exactly, for every h, L and jitter.

    Args:
        grad: an exact estimator, `Minibatch(model, Full())`.
        step_size: h > 0, a number.
        num_integration_steps: L, the number of leapfrog steps.
        space: where positions live, R^n by default.
        jitter: the largest relative change of h, in [0, 1); 0 for trajectories of one length.

    Returns:
        A kernel with `MetropolisState` and `MetropolisInfo` (acceptance probability, energies).

    Raises:
        TypeError: if the step size is a schedule.
        ValueError: if the estimator is not exact or a number is out of its range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sample
        >>> grad = Minibatch(FunctionModel(lambda x: -0.5 * x @ x), Full())
        >>> run = sample(jax.random.key(0), hmc(grad, 0.3), jnp.zeros(2), None, num_steps=20)
        >>> run.trace.shape
        (20, 2)

    Reference:
        Duane et al. (1987), Hybrid Monte Carlo; Neal (2011), MCMC using Hamiltonian dynamics,
        section 4.2, on periods and their remedy; Byrne and Girolami (2013), algorithm 1, on
        manifolds.
    """
    _checks.whole("num_integration_steps", num_integration_steps)
    _checks.estimator("grad", grad)
    if not grad.exact:
        raise ValueError(
            "grad must be exact, such as Minibatch(model, Full()): a Metropolis test on a "
            "minibatch does not leave the posterior invariant"
        )
    return leapfrog(grad, step_size, num_integration_steps, space, jitter=jitter)
