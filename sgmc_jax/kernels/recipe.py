"""The complete recipe for stochastic gradient samplers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..gradients.extended import Extended
from ..splitting import Splitting
from ..transitions import Divergence, NoiseCovariance, PositionMatrix, RecipeEuler


def recipe(
    grad: Estimator,
    diffusion: Any,
    curl: Any,
    step_size: Any,
    *,
    energy: Callable | None = None,
    gamma: str | Callable = "exact",
    temperature: Any = 1.0,
    noise_covariance: Any = None,
) -> Splitting:
    """The sampler of a diffusion matrix D(z) and a curl matrix Q(z): any continuous one has both.

    With H = -log p(x) + E(z) the energy of z, and g an estimate of -grad H,

        z <- z + h ((D + Q) g + T Gamma) + N(0, 2 h T D - h^2 (D + Q) V (D + Q)'),
        Gamma_i = sum_j d (D + Q)_ij / d z_j.

    Some of them, with the part E of the energy that is not the posterior of x::

        sampler  z           E                              D             Q
        SGLD     x                                          I             0
        SG-RLD   x                                          G(x)^-1       0
        SG-HMC   (x, v)      v'v / 2                        diag(0, C)    [[0, -I], [I, 0]]
        SG-NHT   (x, v, xi)  v'v / 2 + (d / 2) (xi - A)^2   diag(0, A I, 0)
                             and Q_xv = -I, Q_vx = I, Q_v,xi = v / d, Q_xi,v = -v' / d

    Targets:
        exp(-H(z) / T), with a bias of order h; for V = 0 the noise of the estimate adds one of the
        same order. On a Gaussian whose D and Q are constant it is the linear recursion above.

    Args:
        grad: the estimator of the gradient of log p(x), the log posterior. z is x itself or, with
            an `energy`, a tuple whose first entry is x.
        diffusion: D, symmetric and positive semi-definite: a matrix (d, d) over the raveled z; a
            diagonal, as (d,) or a pytree like z; a number, for that number times the identity; or a
            function of z that returns one of these.
        curl: Q, antisymmetric: such a matrix or a function, or `None` for 0.
        step_size: h > 0, or a function of the step index.
        energy: E, a function of z: the kinetic energy of momenta, that of a thermostat.
        gamma: how Gamma is found, unless D and Q are both constant: `"exact"`, by d derivatives
            along the coordinates; `"diagonal"`, by one, where D is diagonal with D_ii a function of
            z_i alone and Q constant; `"jvp"`, without bias by one along random signs; or Gamma
            itself, a function of z that returns a pytree like z.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted: a number, a pytree
            like x (a diagonal), or a matrix over the raveled x. Where it is not known, let `grad`
            be an `EmpiricalFisher`.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`; `info.clipped` counts the eigenvalues
        of the noise that were negative and set to zero, also those of D.

    Raises:
        ValueError: if `step_size` is not positive, or `gamma` is unknown; at `sample`'s door, of
            the position where the chain begins: if D is not symmetric and positive semi-definite or
            Q not antisymmetric, if the noise is less than V asks for (D = 0 never is enough), or if
            `"diagonal"` is not what D and Q are.
        TypeError: if D or Q has another shape, or z is no tuple beside an `energy`.

    Example: stochastic gradient Hamiltonian Monte Carlo, with friction 2.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sample
        >>> model = FunctionModel(lambda x: -0.5 * x @ x, lambda x, y: -0.5 * jnp.sum((y - x) ** 2))
        >>> one, zero = jnp.eye(2), jnp.zeros((2, 2))
        >>> kernel = recipe(
        ...     Minibatch(model, Uniform(10)),
        ...     jnp.array([0.0, 0.0, 2.0, 2.0]),
        ...     jnp.block([[zero, -one], [one, zero]]),
        ...     step_size=0.01,
        ...     energy=lambda z: 0.5 * z[1] @ z[1],
        ... )
        >>> data = jax.random.normal(jax.random.key(0), (100, 2))
        >>> start = (jnp.zeros(2), jnp.zeros(2))
        >>> x, v = sample(jax.random.key(1), kernel, start, data, num_steps=20).trace
        >>> x.shape
        (20, 2)

    Reference:
        Ma, Chen and Fox (2015), A complete recipe for stochastic gradient MCMC, equations 3 and 9.
        Gamma is added; some print it with a minus sign, with which N(0, 1) has the variance .62
        for D = 1 + x^2 / (1 + x^2). The noise is less by all of h^2 (D + Q) V (D + Q)'.
    """
    _checks.estimator("grad", grad)
    piece = RecipeEuler(
        PositionMatrix("diffusion", diffusion),
        None if curl is None else PositionMatrix("curl", curl),
        Divergence(gamma),
        NoiseCovariance(noise_covariance),
        temperature,
        extended=energy is not None,
    )
    field = grad if energy is None else Extended(grad, energy)
    return Splitting("Z", {"Z": piece}, field, step_size, temperature=temperature)
