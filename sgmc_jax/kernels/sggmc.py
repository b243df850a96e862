"""Stochastic gradient geodesic Monte Carlo."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..spaces import Space
from ..spaces.space import as_space
from ..splitting import Splitting
from ..transitions import GeodesicFlow, GradientKick, MomentumRefreshment, friction_letters
from ..transitions.geodesic import moves_straight
from ..transitions.word import check_correctable, check_dynamics


def sggmc(
    grad: Estimator,
    space: Space,
    step_size: Any,
    friction: Any = 1.0,
    *,
    temperature: Any = 1.0,
    noise_covariance: Any = None,
    word: str = "ABOBA",
) -> Splitting:
    """Stochastic gradient geodesic Monte Carlo: underdamped Langevin dynamics on a manifold.

    Its letters are A the geodesic flow, B the kick v <- v + t grad log p(x), O the exact
    Ornstein-Uhlenbeck step v <- c v + N(0, T (1 - c^2)) with c = exp(-C t), F the friction alone,
    v <- exp(-C t) v, and N the noise alone, v <- v + N(0, 2 C T t). A letter that occurs twice runs
    twice for t = h / 2. R draws v anew, from N(0, T) on the tangent space.

    Friction may be a matrix C over the raveled ambient coordinates. With L the projection on the
    tangent space and A = L C L,

        F:  v <- expm(-A t) v
        N:  v <- v + L N(0, 2 C T t - t^2 V)
        O:  v <- e v + N(0, T (L - e^2) - S V S),  e = L expm(-A t),  S = (e + L) t / 2
        E:  v <- v - t A v + t grad log p(x) + L N(0, 2 C T t - t^2 V)

    where V is the noise covariance that is subtracted. A step has no eigendecomposition of N and E,
    unless V is estimated, nor of F and O on R^n, if O has no V; else each has one of its own.

    Targets:
        p(x)^(1/T) with respect to the Riemannian volume, with a bias of order h^2 for an exact
        gradient (of order h in the word EA); the noise of an estimate adds one of order h, unless
        it is subtracted.

    Args:
        grad: the estimator of the gradient of the log density in the ambient coordinates.
        space: where positions live.
        step_size: h > 0, or a function of the step index.
        friction: C, a rate: a positive number, or a symmetric positive definite matrix (d, d) over
            the raveled position.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted from O, N or E: a
            number, a pytree like the position (a diagonal), or a matrix over the raveled position;
            where it is not known, let `grad` be an `EmpiricalFisher`. All of it must be less than
            the sampler's noise, on a curved space what is normal to it too.
        word: `"ABOBA"`, with one gradient a step; `"AFBNFA"`, the paper's; or any other over these
            letters and E (see `sghmc`) with A, B or E, and one of O, E, R or F and N.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if a number is out of its range; if the word lacks one of these, or has both B
            and E, or one of F and N alone, and another law would be sampled; if the friction is a
            matrix that is not square, symmetric and positive definite, not over the position (at
            `sample`'s door), or on a space whose metric is not that of its embedding; if the noise
            covariance exceeds the sampler's noise or cannot be subtracted.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, sample
        >>> vmf = Minibatch(FunctionModel(lambda x: 5.0 * x[0]), Full())
        >>> kernel = sggmc(vmf, Sphere(), step_size=0.1)
        >>> run = sample(jax.random.key(0), kernel, jnp.array([1.0, 0.0, 0.0]), None, num_steps=5)
        >>> run.trace.shape
        (5, 3)

        Friction that is large across the direction of the noise only:

        >>> friction = jnp.diag(jnp.array([1.0, 5.0, 5.0]))
        >>> kernel = sggmc(vmf, Sphere(), 0.1, friction, word="AFBNFA")
        >>> run = sample(jax.random.key(0), kernel, jnp.array([1.0, 0.0, 0.0]), None, num_steps=5)

    Reference:
        Liu, Zhu and Song (2016), Stochastic gradient geodesic MCMC methods, equations 7 and 8.
        Their ABOBA is the word AFBNFA here; the default, with the exact Ornstein-Uhlenbeck step in
        the middle and the same estimate on both sides, has no bias in x on flat Gaussians.
    """
    _checks.estimator("grad", grad)
    if noise_covariance is not None or grad.tells_covariance:
        check_correctable(word, "ABOBA", "AFBNFA", "EA")
    letters = friction_letters(friction, temperature, noise_covariance)
    letters["R"] = MomentumRefreshment(temperature)
    space = as_space(space)
    flow = GeodesicFlow(keeps_rest=moves_straight(space))
    pieces = {"A": flow, "B": GradientKick(), **letters}
    kernel = Splitting(word, pieces, grad, step_size, space, temperature=temperature)
    cold = _checks.certainly(lambda T: T == 0, temperature)  # without noise it searches a mode
    if cold:
        check_dynamics(word, "A", "B E")
    else:
        check_dynamics(word, "A", "B E", "O E R F+N", together="FN")
    return kernel
