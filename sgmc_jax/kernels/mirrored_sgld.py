"""Mirrored stochastic gradient Langevin dynamics."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..mirrors import Mirror
from ..splitting import Splitting
from ..transitions import MirroredLangevin, NoiseCovariance


def mirrored_sgld(
    grad: Estimator,
    step_size: Any,
    mirror: Mirror,
    *,
    temperature: Any = 1.0,
    noise_covariance: Any = None,
) -> Splitting:
    """Stochastic gradient Langevin dynamics in the dual coordinates of a mirror map.

    With g an estimate of the gradient of the log posterior at x, y = grad phi(x) its dual
    coordinates and J(y) = dx / dy,

        y <- y + h (J' g(x) + T grad log |J|) + N(0, 2 h T - h^2 V),      x = x(y).

    No step leaves the set. Positions are x.

    Targets:
        p(x)^(1/T) with respect to Lebesgue measure, on a simplex that of its first K - 1
        coordinates, with a bias of order h; for V = 0 the noise of an estimate adds one of the same
        order. Where the drift is linear in x, as for gamma laws and for Dirichlet laws and the
        counts of minibatches, the mean of x has none for any h. Stable on the simplex for a
        Dirichlet(alpha) law if h sum(alpha) < 4.

    Args:
        grad: the estimator of the gradient of the log posterior in x, all of its coordinates.
        step_size: h > 0, or a function of the step index.
        mirror: `PositiveMirror()`, `SimplexMirror()` or a `Mirror` you write.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, that of J' g, the estimate in dual coordinates, to be subtracted: a
            number, a pytree like y (its diagonal) or a matrix over the raveled y. The noise of
            counts, of Dirichlet posteriors, has one that is the same at every x; that of g itself
            is like 1 / x^2. Where it is not known, `grad = EmpiricalFisher(...)` estimates it.

    Returns:
        A kernel with `SplittingState` and `SplittingInfo`.

    Raises:
        ValueError: if `step_size` is not positive, or `noise_covariance` exceeds the noise of the
            sampler; at `sample`'s door, if the position is not inside the set.

    Example: Dirichlet(2, 2, 2) and 300 observed categories.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, SimplexMirror, Uniform, sample
        >>> z = jnp.eye(3)[jnp.arange(300) % 3]
        >>> model = FunctionModel(lambda x: jnp.sum(jnp.log(x)), lambda x, z: z @ jnp.log(x))
        >>> kernel = mirrored_sgld(Minibatch(model, Uniform(30)), 1e-3, SimplexMirror())
        >>> run = sample(jax.random.key(0), kernel, jnp.full(3, 1 / 3), z, num_steps=5)
        >>> run.trace.shape
        (5, 3)

    Reference:
        Hsieh, Kavis, Rolland and Cevher (2018), Mirrored Langevin dynamics; their step is h. A
        coordinate of x that rounds to 0 becomes the least positive number, 1e-38 in float32, of
        which Gamma(a) has the share 1e-38^a below: 1 % at a = .05. Take `scir` there.
    """
    _checks.estimator("grad", grad)
    piece = MirroredLangevin(mirror, temperature, NoiseCovariance(noise_covariance))
    return Splitting("M", {"M": piece}, grad, step_size, temperature=temperature)
