"""A kernel that is ready to run, for any model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax

from .. import _checks, _tree
from .._frames import without_frames
from .._types import Data, Kernel, Position
from ..batching import Given
from ..gradients import ControlVariate, Minibatch
from ..kernels import hmc, sghmc
from ..model import Model
from .curvature import curved, diagonal, exactly, largest, num_items, on_batch
from .laplace import Laplace, laplace
from .noise import choose_batcher, noise_of_batches
from .passes import full_pass, passes_to_tune, sample_of_pass

_STEP_SIZE, _FRICTION = 0.5, 1.0  # in units in which the posterior has covariance I
_TURN = 1.2  # h times the root of a curvature, of which less than 2 is stable
_EXCESS = 0.05  # of the variances, by the noise of minibatches
_FEW_ITEMS = 2_000


def default_kernel(
    key: Any, model: Model, position: Position, data: Data, *, fit: Laplace | None = None
) -> Kernel:
    """A kernel for a model, with all of its settings: what to try first.

    It moves in the coordinates in which the posterior has about covariance I, as `laplace` finds
    them, with control variates at the mode. There h = .5 and C = 1 are good for any posterior that
    is nearly normal, and the noise of minibatches, of covariance V, makes variances too large by
    about h V / (2 C). It is measured at draws of the Laplace approximation, and the size n of the
    batches is the least for which this is 5 %; if batches half as large or less are enough with
    unequal probabilities, `Weighted` takes the place of `Uniform`. The kernel is

        sghmc(ControlVariate(Minibatch(model, Uniform(n)), mode), h, C, space=space)

    and where n would be more than a quarter of N, or N is below 2,000, so that a pass costs little,
    the exact one: `hmc(Minibatch(model, Full()), h, L, space=space)`, h L being about 1.5.

    In more than 256 dimensions the scale is diagonal, and leaves directions that are more curved,
    up to l times: there h = 1.2 / sqrt(l), if that is below .5.

    Streamed data come in batches of their own size n, to which the noise is brought down by

        C = max(1, h V / .1)   as long as h C <= 1, else   h = sqrt(.1 / V), C = 1 / h,

    around an anchor that is the sum of a pass. They are never run exactly.

    A model of series (`models.HiddenMarkov`) gets the exact kernel too: whether windows are worth
    their bias depends on how long the series is, and how soon it forgets.

    Let chains begin at the mode, or at draws of the approximation around it: `fit.mode` and
    `fit.draw` of `fit = laplace(...)`. Far from it, the noise of control variates is large. Of a
    posterior with several modes it knows the one it found.

    Args:
        key: a random key: the same key gives the same kernel.
        model: the model.
        position: where the search for the mode begins.
        data: all of the data, a pytree of arrays with one leading item axis, or `None`; or what
            gives an iterator of batches for each pass, a function without arguments or a loader.
            Each batch should be a random sample of all items.
        fit: what `laplace` has found, if that is known.

    Returns:
        A kernel, of `sghmc` or of `hmc`.

    Raises:
        TypeError: if `fit` is not what `laplace` returns.
        ValueError: if no mode is found, or the log posterior is not curved downwards there, as of
            factors and of a network's weights; in more than 256 dimensions a saddle is not seen.

    Example: logistic regression from a hundred thousand items.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import LinearModel, sample
        >>> model = LinearModel(
        ...     lambda w: -0.05 * w @ w, lambda eta, y: y * eta - jnp.logaddexp(0.0, eta)
        ... )
        >>> x = jax.random.normal(jax.random.key(0), (100_000, 3))
        >>> y = jax.random.bernoulli(jax.random.key(1), jax.nn.sigmoid(x @ jnp.arange(3.0)))
        >>> data = (x, y.astype(float))
        >>> fit = laplace(jax.random.key(2), model, jnp.zeros(3), data)
        >>> kernel = default_kernel(jax.random.key(2), model, fit.mode, data, fit=fit)
        >>> run = sample(jax.random.key(3), kernel, fit.draw, data, num_steps=2_000, num_chains=2)
        >>> bool(jnp.all(jnp.abs(run.trace.mean((0, 1)) - jnp.arange(3.0)) < 0.1))
        True

    Reference:
        Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC, for
        the centre; the rest follows from the variances of linear-Gaussian chains.
    """
    _checks.random_key(key)
    fit_key, noise_key = jax.random.split(key)
    data = without_frames("data", data)
    _checks.instance("fit", Laplace, fit, none=True)
    fit = laplace(fit_key, model, position, data) if fit is None else fit
    passes = passes_to_tune(model, data)
    if passes is not None:
        return _of_batches(noise_key, model, fit, passes)
    size = num_items(data)
    if size >= _FEW_ITEMS and not model.of_series:
        step_size = _stable(noise_key, on_batch(model, data), fit, data)
        batcher = choose_batcher(noise_key, model, fit, data, 2 * _FRICTION * _EXCESS / step_size)
        if 4 * batcher.cost.items < size:
            grad = ControlVariate(Minibatch(model, batcher), fit.mode)
            return sghmc(grad, step_size, _FRICTION, space=fit.space)
    # the error of a leapfrog trajectory grows with the dimension
    step_size = min(_STEP_SIZE, _TURN * _tree.size(fit.mode) ** -0.25)
    own, rows = curved(model, data)
    step_size = min(step_size, _stable(noise_key, on_batch(own, rows), fit, rows))
    return hmc(exactly(model), step_size, round(1.5 / step_size), space=fit.space)


def _stable(key: Any, grad: Minibatch, fit: Laplace, data: Data) -> float:
    """The step size, smaller where a diagonal scale leaves directions that are much curved."""
    if fit.space.cholesky is not None:
        return _STEP_SIZE
    key = jax.random.fold_in(key, 3)  # others are made of it by splitting
    steepest = float(largest(key, grad, fit.mode, data, diagonal(fit.space, fit.mode)))
    return min(_STEP_SIZE, _TURN / math.sqrt(steepest)) if steepest > 0 else _STEP_SIZE


def _of_batches(key: Any, model: Model, fit: Laplace, passes: Callable[[], Iterator]) -> Kernel:
    """Of batches of a given size, the friction takes up the noise, and then the step size does."""
    sample_key, noise_key = jax.random.split(key)
    sample = sample_of_pass(sample_key, passes)
    noise = noise_of_batches(noise_key, model, fit, sample)
    step_size = _stable(noise_key, Minibatch(model, Given(sample.size)), fit, sample.items)
    friction = max(_FRICTION, step_size * noise / (2 * _EXCESS))
    if friction * step_size > 1:
        step_size = math.sqrt(2 * _EXCESS / noise)
        friction = 1 / step_size
    grad = Minibatch(model, Given(sample.size))
    anchor = full_pass(grad, fit.mode, passes)
    grad = ControlVariate(grad, fit.mode, anchor=anchor)
    return sghmc(grad, step_size, friction, space=fit.space)
