"""Stochastic Cox-Ingersoll-Ross sampling of gammas and the simplex."""

from __future__ import annotations

from typing import Any, Literal

from .. import _checks
from .._estimators import Estimator
from ..splitting import Splitting
from ..transitions import CIR, FixedTotal, GammaTotal


def scir(
    counts: Estimator,
    step_size: Any,
    scale: Literal["refresh", "none", "fixed"] = "refresh",
    total: Any = None,
) -> Splitting:
    """Stochastic Cox-Ingersoll-Ross: exact transitions of gammas with estimated shapes.

    With a an unbiased estimate of the shapes, prior plus counts, and b = 1 - exp(-h),

        s ~ Gamma(sum(a), 1),           theta <- s theta / sum(theta)     (scale="refresh"),
        P ~ Poisson(theta exp(-h) / b), theta <- b Gamma(a + P, 1),

    the second elementwise and exactly for every h. Positions are log theta, a pytree of any
    shapes; the softmax along the last axis of a leaf is a point of a simplex.

    Targets:
        For exact shapes, theta ~ Gamma(a, 1), so that the simplex point is Dirichlet(a), without
        bias for any h. With minibatches the mean is exact for every h, and the variance too large
        by the factor 1 + tanh(h/2) (N - n)/n, about, on the simplex; see `scir_moments` and
        `scir_inflation`.

        Where counts are allocations drawn given the simplices, their totals vary, and they say
        nothing about the old sum(theta): it has to be drawn anew, or the chain is biased even with
        all of the data and h -> 0. `"refresh"`, the default, does so: it is exact for every h with
        all of the data or with `TableCounts`, if the allocations are single draws. Where the
        counts are observed it changes nothing but sum(theta).

    Args:
        counts: the estimator of the shapes: `Minibatch(Summand(alpha, lambda position, z: z),
            Uniform(100))` for observed one-hot items; `TableCounts` and its kin for latent ones.
        step_size: h > 0, or a function of the step index.
        scale: `"refresh"` as above. `"none"` leaves the totals to the process, as published: for
            gammas that make up no simplex, and for the moments of the paper. `"fixed"` sets them to
            `total` before each transition: for averages of several draws of the allocations, which
            are right only as h -> 0, and only with constant totals.
        total: the constant of `"fixed"`, positive; it only sets the unit of time, and the expected
            counts of a simplex make h comparable with the other two.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`; `info.clipped` counts the shapes that
        were raised to a floor, where the estimator has one.

    Raises:
        ValueError: if `step_size` or `total` is not positive, or `scale` is none of the three; at
            `sample`'s door, if a leaf is a scalar and has no simplex to refresh.

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
        probability simplex, algorithm 1, which is `scale="none"`. Positions are logarithms, because
        small gammas underflow. Its corollary 4.2 has what minibatches add to the variance of one
        gamma; what that makes of a point of the simplex, and that latent allocations need new
        totals, it leaves unsaid.
    """
    _checks.estimator("counts", counts)
    _checks.choice("scale", scale, ("refresh", "none", "fixed"))
    _checks.positive("total", 1.0 if total is None else total)
    if (scale == "fixed") != (total is not None):
        raise ValueError(f'total goes with scale="fixed", got total={total} and scale={scale!r}')
    if scale == "none":
        return Splitting("C", {"C": CIR()}, counts, step_size)
    if scale == "refresh":
        return Splitting("SC", {"C": CIR(), "S": GammaTotal()}, counts, step_size)
    return Splitting("SC", {"C": CIR(), "S": FixedTotal(total)}, counts, step_size)
