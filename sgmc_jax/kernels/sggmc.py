"""Stochastic gradient geodesic Monte Carlo."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._types import Estimator
from ..spaces import Space
from ..spaces.space import as_space
from ..splitting import Splitting
from ..transitions import (
    EulerMomentum,
    Friction,
    GeodesicFlow,
    GradientKick,
    Noise,
    NoiseCovariance,
    OrnsteinUhlenbeck,
)

_CORRECTABLE = (
    "ABOBA",
    "AFBNFA",
    "EA",
)  # the words whose noise makes up for the estimate's exactly


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
    twice for t = h / 2.

    Targets:
        p(x)^(1/T) with respect to the Riemannian volume, with a bias of order h^2 for an exact
        gradient; the noise of an estimate adds one of order h, unless it is subtracted.

    Args:
        grad: the estimator of the gradient of the log density in the ambient coordinates.
        space: where positions live.
        step_size: h > 0, or a function of the step index.
        friction: C > 0, a rate.
        temperature: T >= 0.
        noise_covariance: the covariance of the estimate, to be subtracted from O or N.
        word: `"ABOBA"`, with one gradient a step; `"AFBNFA"`, the paper's; or any other over these
            letters and E (see `sghmc`).

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if a number is out of its range, or the noise covariance cannot be subtracted.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Full, FunctionModel, Minibatch, Sphere, sample
        >>> vmf = Minibatch(FunctionModel(lambda x: 5.0 * x[0]), Full())
        >>> kernel = sggmc(vmf, Sphere(), step_size=0.1)
        >>> run = sample(jax.random.key(0), kernel, jnp.array([1.0, 0.0, 0.0]), None, num_steps=5)
        >>> run.trace.shape
        (5, 3)

    Reference:
        Liu, Zhu and Song (2016), Stochastic gradient geodesic MCMC methods, equations 7 and 8.
        Their ABOBA is the word AFBNFA here; the default, with the exact Ornstein-Uhlenbeck step in
        the middle and the same estimate on both sides, has no bias in x on flat Gaussians.
    """
    _checks.positive("friction", friction)
    if noise_covariance is not None and word not in _CORRECTABLE:
        raise ValueError(f"noise_covariance can be subtracted in {_CORRECTABLE}, got word={word!r}")
    covariance = NoiseCovariance(noise_covariance)
    pieces = {
        "A": GeodesicFlow(),
        "B": GradientKick(),
        "O": OrnsteinUhlenbeck(friction, temperature, covariance),
        "F": Friction(_checks.as_real(friction, "friction")),
        "N": Noise(friction, temperature, covariance),
        "E": EulerMomentum(friction, temperature, covariance),
    }
    return Splitting(word, pieces, grad, step_size, as_space(space), temperature=temperature)
