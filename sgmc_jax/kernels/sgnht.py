"""The stochastic gradient Nose-Hoover thermostat."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
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
    Thermostat,
)
from ..transitions.geodesic import moves_straight
from ..transitions.word import check_correctable, check_dynamics


def sgnht(
    grad: Estimator,
    step_size: Any,
    friction: Any = 1.0,
    *,
    noise_covariance: Any = None,
    space: Space | None = None,
    word: str = "ATFBNFTA",
) -> Splitting:
    """The stochastic gradient Nose-Hoover thermostat: its friction adapts to the gradient's noise.

    With d the dimension of the whole position, the default word is, twice around the middle,

        x <- x + h v / 2,   xi <- xi + (h / 2) (|v|^2 / d - 1),   v <- exp(-xi h / 2) v,

    and in the middle v <- v + h g(x) + N(0, 2 A h - h^2 V), V what is known of the noise of g, by
    default nothing. A state has a position, a momentum and the thermostat xi, which starts at A:
    `state.auxiliary["thermostat"]`.

    Targets:
        p(x) exp(-|v|^2 / 2 - d (xi - A)^2 / 2), with a bias of order h^2. Isotropic noise of the
        estimate, of variance s a coordinate, only moves the mean of xi from A to A + h s / 2;
        anisotropic noise is made up for on average over the coordinates. Of what is subtracted the
        thermostat takes up nothing, of what is not, the rest: xi stays at A if V is all of it.

    Args:
        grad: the estimator of the gradient of the log posterior.
        step_size: h > 0, or a function of the step index.
        friction: A > 0, the strength of the injected noise and the mean of the thermostat.
        noise_covariance: V, the covariance of the estimate, to be subtracted, up to h V = 2 A: a
            number, a pytree like the position (a diagonal), or a matrix over the raveled position.
            Where it is not known and not alike in all coordinates, let `grad` be an
            `EmpiricalFisher`.
        space: where positions live, R^n by default; m = its dimension then takes the place of d
            (gSGNHT).
        word: `"ATFBNFTA"`, or `"EAT"` for the Euler form, with a bias of order h.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if `step_size` or `friction` is not positive; if the noise covariance exceeds
            the sampler's noise, or cannot be subtracted: in a word of your own, or on a space whose
            metric is not that of its embedding.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sample
        >>> model = FunctionModel(lambda x: -0.5 * x**2, lambda x, y: -0.5 * (y - x) ** 2)
        >>> kernel = sgnht(Minibatch(model, Uniform(10)), step_size=1e-2)
        >>> run = sample(jax.random.key(0), kernel, jnp.zeros(()), jnp.arange(100.0), num_steps=20)
        >>> run.trace.shape
        (20,)

    Reference:
        Ding et al. (2014), Bayesian sampling using stochastic gradient thermostats, for the Euler
        form; Leimkuhler and Shang (2016) and Liu, Zhu and Song (2016) for the splitting. That a
        known part of the noise is subtracted is ours.
    """
    _checks.positive("friction", friction)
    friction = _checks.one_number("friction", friction)
    _checks.estimator("grad", grad)
    if noise_covariance is not None or grad.tells_covariance:
        check_correctable(word, "ATFBNFTA", "EAT")
    covariance = NoiseCovariance(noise_covariance)
    straight = moves_straight(None if space is None else as_space(space))
    pieces = {
        "A": GeodesicFlow(keeps_rest=straight),
        "T": Thermostat(friction),
        "F": Friction(),
        "B": GradientKick(),
        "N": Noise(friction, noise_covariance=covariance),
        "E": EulerMomentum(friction, noise_covariance=covariance),
    }
    kernel = Splitting(word, pieces, grad, step_size, space)
    check_dynamics(word, "A", "T", "E B+F+N")
    return kernel
