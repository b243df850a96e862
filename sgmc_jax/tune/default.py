"""A kernel that is ready to run, for any model."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .. import _tree
from .._types import Data, Kernel, Position
from ..batching import Full, Uniform
from ..gradients import ControlVariate, Minibatch
from ..kernels import hmc, sghmc
from ..model import Model
from .curvature import DENSE, num_items
from .laplace import Laplace, laplace

_STEP_SIZE, _FRICTION = 0.5, 1.0  # in units in which the posterior has covariance I
_EXCESS = 0.05  # of the variances, by the noise of minibatches
_PILOT = 2_048  # items that the noise is measured on
_DRAWS = 4
_SMALLEST_BATCH = 32
_FEW_ITEMS = 2_000


def default_kernel(
    key: Any, model: Model, position: Position, data: Data, *, fit: Laplace | None = None
) -> Kernel:
    """A kernel for a model, with all of its settings: what to try first.

    It moves in the coordinates in which the posterior has about covariance I, as `laplace` finds
    them, with control variates at the mode. In those coordinates h = .5 and C = 1 are good for any
    posterior that is nearly normal, and the noise of batches of n items of all N makes variances
    too large by about

        h V / (2 C),     V = N^2 (1/n - 1/N) lambda,

    with lambda the largest eigenvalue of the covariance of an item's term, which is measured at
    draws of the Laplace approximation. n is the least for which this is 5 %: the kernel is

        sghmc(ControlVariate(Minibatch(model, Uniform(n)), mode), h, C, space=space)

    and where n would be more than a quarter of N, or N is below 2,000, so that a pass costs little,
    the exact one: `hmc(Minibatch(model, Full()), h, L, space=space)`, h L being about 1.5.

    Let chains begin at the mode, of which `fit` or `kernel.grad.centre` tells, or at draws of the
    approximation around it: far from it, the noise of control variates is large. Of a posterior
    with several modes it knows the one it found.

    Args:
        key: a random key: the same key gives the same kernel.
        model: the model.
        position: where the search for the mode begins.
        data: all of the data, a pytree of arrays with one leading item axis, or `None`.
        fit: what `laplace` has found, if that is known.

    Returns:
        A kernel, of `sghmc` or of `hmc`.

    Raises:
        ValueError: if no mode is found, or the log posterior is not curved downwards there.

    Example: logistic regression from a hundred thousand items.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import LinearModel, sample
        >>> model = LinearModel(
        ...     lambda w: -0.05 * w @ w, lambda eta, y: y * eta - jnp.logaddexp(0.0, eta)
        ... )
        >>> x = jax.random.normal(jax.random.key(0), (100_000, 3))
        >>> y = jax.random.bernoulli(jax.random.key(1), jax.nn.sigmoid(x @ jnp.arange(3.0)))
        >>> data = (x, y.astype(float))
        >>> kernel = default_kernel(jax.random.key(2), model, jnp.zeros(3), data)
        >>> mode = kernel.grad.centre
        >>> run = sample(jax.random.key(3), kernel, mode, data, num_steps=2_000, num_chains=2)
        >>> bool(jnp.all(jnp.abs(run.trace.mean((0, 1)) - jnp.arange(3.0)) < 0.1))
        True

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC, for
        the centre; the rest follows from the variances of linear-Gaussian chains.
    """
    fit_key, noise_key = jax.random.split(key)
    fit = laplace(fit_key, model, position, data) if fit is None else fit
    size = num_items(data)
    batch = _batch_size(_noise(noise_key, model, fit, data), size) if size else 0
    if 4 * batch < size and size >= _FEW_ITEMS:
        grad = ControlVariate(Minibatch(model, Uniform(batch)), fit.mode)
        return sghmc(grad, _STEP_SIZE, _FRICTION, space=fit.space)
    # the error of a leapfrog trajectory grows with the dimension
    step_size = min(_STEP_SIZE, 1.2 * _tree.size(fit.mode) ** -0.25)
    return hmc(Minibatch(model, Full()), step_size, round(1.5 / step_size), space=fit.space)


def _batch_size(noise: float, size: int) -> int:
    """The least n with `N^2 (1/n - 1/N) noise <= V`."""
    allowed = 2 * _FRICTION * _EXCESS / _STEP_SIZE
    least = size**2 * noise / (allowed + size * noise)
    return min(size, max(_SMALLEST_BATCH, math.ceil(least)))


def _noise(key: Any, model: Model, fit: Laplace, data: Data) -> float:
    """lambda: of the whitened terms of items, less those at the mode."""
    size = num_items(data)
    index_key, *keys = jax.random.split(key, 1 + _DRAWS)
    # of a network's terms, few fit into memory
    pilot = min(size, _PILOT if _tree.size(fit.mode) <= DENSE else _SMALLEST_BATCH)
    index = jax.random.choice(index_key, size, (pilot,), replace=False)
    items = jax.tree.map(lambda x: jnp.asarray(x)[index], data)
    second_moments = [_second_moment(key, model, fit, items) for key in keys]
    mean = np.mean(np.asarray(second_moments, np.float64), axis=0)
    return float(np.linalg.eigvalsh(mean)[-1]) if mean.ndim == 2 else float(mean)


@eqx.filter_jit
def _second_moment(key: Any, model: Model, fit: Laplace, items: Any) -> Array:
    """The covariance of the terms at a draw, or, of a large one, the mean of its diagonal."""
    mode, space = fit
    there = _tree.axpy(1.0, space.normal(key, mode), mode)
    gap = jax.tree.map(jnp.subtract, model.per_item(there, items), model.per_item(mode, items))
    rows = jax.vmap(lambda g: ravel_pytree(g)[0])(gap)
    if space.cholesky is None:
        rows = rows * ravel_pytree(space.scale)[0]
        return jnp.sum(jnp.var(rows, axis=0)) / rows.shape[1]
    rows = rows @ space.cholesky
    rows = rows - rows.mean(0)
    return rows.T @ rows / len(rows)
