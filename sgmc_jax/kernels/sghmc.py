"""Stochastic gradient Hamiltonian Monte Carlo."""

from __future__ import annotations

from typing import Any

from .._estimators import Estimator
from ..spaces import Euclidean, Space
from ..splitting import Splitting
from .sggmc import sggmc


def sghmc(
    grad: Estimator,
    step_size: Any,
    friction: Any = 1.0,
    *,
    temperature: Any = 1.0,
    noise_covariance: Any = None,
    word: str = "ABOBA",
    space: Space | None = None,
) -> Splitting:
    """Stochastic gradient Hamiltonian Monte Carlo: underdamped Langevin dynamics.

    With c = exp(-C h), g an estimate of the gradient of the log posterior and V its covariance, the
    default word is one gradient between two half steps of the position:

        x <- x + h v / 2
        v <- v + h g(x) / 2
        v <- c v + N(0, T (1 - c^2) - ((1 + c) h)^2 V / 4)
        v <- v + h g(x) / 2                                  (the same g)
        x <- x + h v / 2

    Targets:
        p(x)^(1/T) exp(-|v|^2 / 2T), with a bias of order h^2 for an exact gradient (EA: of order
        h); the noise of an estimate adds one of order h unless it is subtracted. Stable iff
        h^2 lambda_max < 4 (EA: iff also h C < 2, h^2 lambda_max < 4 - 2 h C). On a Gaussian of
        precision l ABOBA and BAOAB have no bias in x; the variance of OBABO is
        4 T / (l (4 - h^2 l)), that of AFBNFA (T / l) (C h / 2) / sinh(C h / 2).

    Args:
        grad: the estimator of the gradient of the log posterior.
        step_size: h > 0, or a function of the step index.
        friction: C, a rate: a positive number, or a symmetric positive definite matrix over the
            raveled position, of which `sggmc` has the equations. 1 is for coordinates in which the
            posterior has about covariance I (`space=fit.space` of `laplace`); without such begin
            with the root of its largest curvature, of the order of sqrt(N).
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, to be subtracted: a number, a pytree like the position (a diagonal),
            or a matrix over the raveled position; where it is not known, let `grad` be an
            `EmpiricalFisher`. In the words ABOBA, up to h^2 V / 4 = T tanh(C h / 2), AFBNFA and EA,
            up to h V = 2 C T.
        word: over A (x <- x + t v), B (v <- v + t g), O (exact Ornstein-Uhlenbeck), F (friction), N
            (noise) and E (v <- (1 - h C) v + h g + noise), a letter that occurs c times running for
            t = h / c: `"ABOBA"` (the default, also called AKOKA), `"BAOAB"`, `"OBABO"`, `"EA"`
            (Chen et al.) or `"AFBNFA"` (the ABOBA of Chen, Ding and Carin and of Liu, Zhu and
            Song). R draws v anew: `"R" + 5 * "ABOBA"` is five steps of size h / 5 from a fresh
            momentum. With EA in place of ABOBA, the SG-HMC of Nemeth and Fearnhead (2019), the
            variance of a Gaussian is off by a factor that tends to 5/6 (AE: 5/4), and not to 1, as
            the step size vanishes.
        space: `Euclidean(scale)` for a mass matrix, `sggmc` for any other space.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if a number is out of its range, the friction is a matrix that is not positive
            definite or, at `sample`'s door, not over the position, or the noise covariance exceeds
            the sampler's noise or cannot be subtracted.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sample
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> kernel = sghmc(Minibatch(model, Uniform(10)), step_size=1e-2, friction=5.0)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), jnp.arange(100.0), num_steps=20)
        >>> run.trace.shape
        (20,)

    Reference:
        Chen, Fox and Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, equation 15, in
        velocities: their v is h times ours, their learning rate h^2, their alpha h C. The default
        word is not theirs: its bias is of higher order at the same cost.
    """
    return sggmc(
        grad,
        Euclidean() if space is None else space,
        step_size,
        friction,
        temperature=temperature,
        noise_covariance=noise_covariance,
        word=word,
    )
