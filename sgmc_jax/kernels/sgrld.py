"""Stochastic gradient Riemannian Langevin dynamics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..splitting import Splitting
from ..transitions import Divergence, NoiseCovariance, PositionMatrix, RecipeEuler


def sgrld(
    grad: Estimator,
    metric: Any,
    step_size: Any,
    *,
    factor: bool = False,
    gamma: str | Callable = "exact",
    temperature: Any = 1.0,
    noise_covariance: Any = None,
) -> Splitting:
    """Stochastic gradient Langevin dynamics, preconditioned by the inverse of a metric G(x).

    With g an estimate of the gradient of the log posterior,

        x <- x + h (G^-1 g + T Gamma) + N(0, 2 h T G^-1 - h^2 G^-1 V G^-1),
        Gamma_i = sum_j d (G^-1)_ij / d x_j.

    Targets:
        p(x)^(1/T), a density in the coordinates x, with a bias of order h; for V = 0 the noise of
        the estimate adds one of the same order. With a constant metric it is `sgld` in the
        coordinates G^(1/2) x: stable iff h < 2 / lambda_max of G^-1/2 L G^-1/2 on a Gaussian of
        precision L.

    Args:
        grad: the estimator of the gradient of the log posterior.
        metric: the inverse G(x)^-1, not G: about the covariance of the target, the inverse mass
            matrix of other libraries. A function of the position that returns a diagonal, as a
            pytree like the position, or a positive definite matrix (d, d) over the raveled
            position; or one of these, if it is constant. A matrix costs one `eigh` a step.
        step_size: h > 0, or a function of the step index.
        factor: whether `metric` is a factor R of it instead, G^-1 = R R', of which no root needs
            to be taken.
        gamma: how Gamma is found: see `recipe`.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted, as in `sgld`.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`; `info.clipped` counts the eigenvalues
        of the noise that were negative and set to zero.

    Raises:
        ValueError: if `step_size` is not positive, or `gamma` is unknown; at `sample`'s door, if
            G^-1 is not symmetric and positive semi-definite where the chain begins, or V is too
            large there.
        TypeError: if `metric` has another shape.

    Example: Gamma(3, 1) with the metric 1 / x; a step below 0, where it is none, stops the chain.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, sample
        >>> grad = Minibatch(FunctionModel(lambda x: 2 * jnp.log(x) - x), Full())
        >>> kernel = sgrld(grad, lambda x: jnp.where(x > 0, x, jnp.nan), 0.01)
        >>> run = sample(jax.random.key(0), kernel, jnp.array(3.0), None, num_steps=50)
        >>> run.trace.shape
        (50,)

    Reference:
        Patterson and Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the
        probability simplex, equation 6, whose step is 2 h. Girolami and Calderhead (2011) print
        Gamma as two terms, which are the divergence of G^-1 and half the gradient of log |G|; the
        latter is for densities with respect to the volume of G.
    """
    _checks.estimator("grad", grad)
    piece = RecipeEuler(
        PositionMatrix("metric", metric),
        None,
        Divergence(gamma),
        NoiseCovariance(noise_covariance),
        temperature,
        factor=factor,
    )
    return Splitting("Z", {"Z": piece}, grad, step_size, temperature=temperature)
