"""Preconditioned stochastic gradient Langevin dynamics."""

from __future__ import annotations

from typing import Any

from .. import _checks
from .._estimators import Estimator
from ..gradients.curvature import Curvature
from ..splitting import Splitting
from ..transitions import PreconditionedLangevin
from ..transitions.noise import NoiseCovariance


def psgld(
    grad: Estimator,
    step_size: Any,
    *,
    decay: Any = 0.99,
    epsilon: Any = 1e-5,
    freeze_after: int | None = None,
    gamma: bool = False,
    temperature: Any = 1.0,
    noise_covariance: Any = None,
) -> Splitting:
    """Stochastic gradient Langevin dynamics, preconditioned by a running mean of squared gradients.

    With g an estimate of the gradient of the log posterior, a sum over all items, and elementwise,

        P = 1 / (epsilon + sqrt(v))
        x <- x + h P g + N(0, 2 h T P - h^2 P V P)
        v <- a v + (1 - a) g^2            (in the first `freeze_after` steps)

    P divides g by its own size: h is about how far the drift of one step goes in each coordinate,
    whatever the number of items. v begins as the mean over all coordinates of the first g^2. Do not
    begin at a mode if g has no noise: nothing but epsilon bounds P there.

    With `gamma`, v is updated first, and the drift is P g + T Gamma, Gamma_i = d P_i / d x_i.

    Targets:
        p(x)^(1/T), with a bias of order h, once v is fixed. With precisions lambda and the variance
        V of the estimate, of which nothing is subtracted, the variance on a Gaussian is then

            (2 T + h P V) / (lambda (2 - h P lambda)),     stable iff h P lambda < 2,

        that of `sgld` with the step size h P in each coordinate. While v moves there is another
        bias, which does not vanish with h: where the noise of the estimate is small, v becomes
        g(x)^2 as h -> 0, and the law of one coordinate p(x) (epsilon + |g(x)|) instead of p(x). For
        N(0, 1) it has the variance 2; at h = .1 it is 1.36, 1.10 and 1.06 for a = .9, .99 and .999,
        and 1.05 for P fixed at 1. It is small where v hardly moves while the chain crosses the
        posterior, 1 - a much below h P lambda, or consists of the noise of minibatches.

        With `gamma` and a = 0, exact gradients and h much below epsilon^2 it is p(x). But Gamma
        makes up for a share of 1 - a: the limit is p(x) (epsilon + |g(x)|)^a, hardly better at
        a = .99. With minibatches P and g then share their noise, which biases the drift.

    Args:
        grad: the estimator of the gradient of the log posterior.
        step_size: h > 0, or a function of the step index.
        decay: a, in [0, 1).
        epsilon: > 0, in the units of g; P is at most 1 / epsilon.
        freeze_after: the number of steps after which v is fixed, to be no more than the burn-in;
            `None` for never.
        gamma: whether P is made of the current gradient too, and the drift has its derivative.
            That takes one derivative of g along random signs, which is unbiased for the diagonal of
            dg/dx, and costs about one more gradient whatever the dimension.
        temperature: T >= 0, or a function of the step index.
        noise_covariance: V, the covariance of the estimate, to be subtracted, as of `sgld`; not
            with `gamma`. Where it is not known, `grad = EmpiricalFisher(...)` estimates it. Where
            h P V exceeds 2 T the noise is zero, and counted in `info.clipped`.

    Returns:
        A kernel with `SplittingState`, whose `auxiliary` has v as `"mean_square"`, and
        `SplittingInfo`.

    Raises:
        ValueError: if a number is out of its range, V is given twice, or beside `gamma`.
        TypeError: if `gamma` is asked for of a gradient with hidden states or latent variables.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import FunctionModel, Minibatch, Uniform, sample
        >>> scale = jnp.array([1.0, 100.0])
        >>> model = FunctionModel(
        ...     lambda x: -0.5 * x @ x, lambda x, y: -0.5 * jnp.sum((scale * (y - x)) ** 2)
        ... )
        >>> kernel = psgld(Minibatch(model, Uniform(10)), 0.01, freeze_after=500)
        >>> data = jax.random.normal(jax.random.key(0), (100, 2))
        >>> args = {"num_steps": 1_000, "burn_in": 500}
        >>> run = sample(jax.random.key(1), kernel, jnp.zeros(2), data, **args)
        >>> run.trace.shape
        (500, 2)

    Reference:
        Li, Chen, Carlson and Carin (2016), Preconditioned stochastic gradient Langevin dynamics for
        deep neural networks, algorithm 1. Their step is 2 h / N and their lambda epsilon / N, for N
        items, since they square the mean over items. They precondition by the current gradient too,
        which shares its noise with the drift, and so does `gamma=True`; the default takes earlier
        ones and leaves Gamma out. Their Gamma is that of the current gradient, as here; it is not
        enough, because P depends on x through all of the steps that v remembers. `freeze_after`
        takes its place. They subtract no noise.
    """
    _checks.estimator("grad", grad)
    _checks.truth("gamma", gamma)
    decay = _checks.one_number("decay", decay)
    for name, value in (("decay", decay), ("temperature", temperature)):
        _checks.positive(name, value, zero=True)
    if _checks.certainly(lambda decay: decay >= 1, decay):
        raise ValueError(f"decay must be below 1, got {decay}")
    _checks.positive("epsilon", epsilon)
    noise = NoiseCovariance(noise_covariance)
    piece = PreconditionedLangevin(decay, epsilon, temperature, freeze_after, gamma, noise)
    field = Curvature(grad) if gamma else grad
    return Splitting("L", {"L": piece}, field, step_size, temperature=temperature)
