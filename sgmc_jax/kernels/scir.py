"""Stochastic Cox-Ingersoll-Ross sampling of gammas and the simplex."""

from __future__ import annotations

from typing import Any

from .._types import Estimator
from ..transitions import CIR
from .splitting import Splitting


def scir(counts: Estimator, step_size: Any) -> Splitting:
    """Stochastic Cox-Ingersoll-Ross: exact transitions of a gamma process with estimated shapes.

    With a an unbiased estimate of the gamma shapes, prior plus counts, b = 1 - exp(-h),

        P ~ Poisson(theta exp(-h) / b),   theta <- b Gamma(a + P, 1),

    elementwise and exactly for every h. Positions are log theta; the softmax of a row is a point of
    the simplex.

    Targets:
        For exact shapes, theta ~ Gamma(a, 1), so that the simplex point is Dirichlet(a), without
        bias. With minibatches the mean is exact for every h, and the variance too large by the
        factor 1 + tanh(h/2) (N - n)/n, about, on the simplex; it vanishes with h.

    Args:
        counts: the estimator of the shapes, e.g.
            `Minibatch(Summand(alpha, lambda position, z: z), Uniform(100))` for one-hot items.
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
        >>> run = sample(jax.random.key(0), scir(counts, 0.5), jnp.zeros(3), z, num_steps=5)
        >>> jax.nn.softmax(run.trace).shape
        (5, 3)

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the
        probability simplex, section 3. Positions are logarithms, because small gammas underflow;
        the stationary law is over-dispersed, which the paper leaves unsaid.
    """
    return Splitting("C", {"C": CIR()}, counts, step_size)
