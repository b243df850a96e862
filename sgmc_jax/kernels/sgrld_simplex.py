"""Stochastic gradient Riemannian Langevin dynamics on the simplex."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..splitting import Splitting
from ..transitions import ExpandedMeanLangevin


def sgrld_simplex(counts: Estimator, step_size: Any) -> Splitting:
    """Stochastic gradient Riemannian Langevin dynamics on simplices, by their expanded means.

    With alpha + n an unbiased estimate of the gamma shapes, alpha the prior and n the counts, and
    w = theta / sum(theta) the point of the simplex,

        theta <- |theta + h (alpha - theta + n - w sum(n)) + N(0, 2 h theta)|,

    elementwise; the sums run over a simplex, the last axis of each leaf. Positions are log theta.

    Targets:
        theta with prior Gamma(alpha, 1) and the likelihood at w, so that w given the counts is
        Dirichlet(alpha + n). The bias is of order h, and relative to a component it is of order 1
        wherever alpha + n < 1, at the boundary of the simplex: `scir` has none there.

    Args:
        counts: the estimator of the shapes, as for `scir`.
        step_size: h > 0, or a function of the step index.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if `step_size` is not positive.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Minibatch, Summand, Uniform, sample
        >>> z = jnp.eye(3)[jnp.arange(300) % 3]
        >>> counts = Minibatch(Summand(jnp.full(3, 0.5), lambda position, z: z), Uniform(30))
        >>> kernel = sgrld_simplex(counts, 1e-3)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(3), z, num_steps=5)
        >>> jax.nn.softmax(run.trace).shape
        (5, 3)

    Reference:
        Patterson and Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the
        probability simplex, equation 8 with the expanded mean; their step is 2 h. The absolute
        value keeps theta positive; one that rounds to 0 becomes the least positive number.
    """
    _checks.estimator("counts", counts)
    return Splitting("R", {"R": ExpandedMeanLangevin(counts.prior)}, counts, step_size)
