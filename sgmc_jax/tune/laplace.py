"""The normal approximation of a posterior at its mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .. import _checks, _tree
from .._estimators import Estimate, Estimator
from .._frames import without_frames
from .._types import Data, Position
from ..batching import Full, Given, Uniform
from ..gradients import Minibatch
from ..model import Model
from ..spaces import Euclidean
from .curvature import (
    DENSE,
    ENOUGH,
    cholesky_of_inverse,
    curved,
    diagonal,
    diagonal_scale,
    hessian,
    num_items,
    on_batch,
)
from .mode import checked, exact_estimate, find_mode
from .passes import exact_of_passes, passes_to_tune, sample_of_pass

_TOLERANCE = 1e-4  # of the gradient of an item, in the search
_FAR = 3.0
_CLOSE = 0.1  # posterior standard deviations between the mode and where the search ends
_NEWTON_STEPS = 20
_HALVINGS = 12


class Laplace(NamedTuple):
    """A mode, and R^n with the metric in which the posterior has about covariance I there.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Euclidean
        >>> fit = Laplace(jnp.array([1.0, 2.0]), Euclidean(jnp.array([0.1, 3.0])))
        >>> fit.draw(jax.random.key(0), spread=0.0).tolist()  # the mode itself
        [1.0, 2.0]
    """

    mode: Position
    space: Euclidean

    def draw(self, key: Any, spread: Any = 1.0) -> Position:
        """A draw of N(mode, spread^2 Sigma), Sigma the covariance of the approximation.

        `sample` takes the method itself as a position: each chain then has a start of its own,
        which is what R-hat needs to see chains that do not meet. `partial(fit.draw, spread=2.0)`
        spreads them further than the posterior.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from sgmc_jax import Full, FunctionModel, Minibatch, hmc, sample
            >>> model = FunctionModel(lambda x: -0.5 * x @ x)
            >>> fit = laplace(jax.random.key(0), model, jnp.ones(2), None)
            >>> kernel = hmc(Minibatch(model, Full()), 0.3, 5, space=fit.space)
            >>> run = sample(jax.random.key(1), kernel, fit.draw, None, num_steps=5, num_chains=4)
            >>> run.trace.shape
            (4, 5, 2)
        """
        return _tree.axpy(spread, self.space.normal(key, self.mode), self.mode)


def laplace(key: Any, model: Model, position: Position, data: Data) -> Laplace:
    """The mode of a posterior and the scale of the posterior around it.

    In up to 256 dimensions the mode is found from at most 16,384 items first and then, with H minus
    the Hessian of the log posterior from such a batch, by Newton steps with exact gradients,

        x <- x + t H^-1 grad log p(x),      t = 1, 1/2, 1/4, ... as far as p(x) has to increase,

    until the step is below a tenth of a posterior standard deviation; the scale is the Cholesky
    factor of H^-1. That takes few passes over all of the data, however many items it has. In more
    dimensions the mode is that of `find_mode` with minibatches, if there are many items, and the
    scale is diagonal: one over the root of the norm of each row of H. A warning tells if the
    gradient there, in units of the posterior, is above 3 in the root mean square.

    Args:
        key: a random key, for the batches.
        model: the model.
        position: where to begin.
        data: all of the data, a pytree of arrays with one leading item axis, or `None`; or what
            gives an iterator of batches for each pass, a function without arguments or a loader.
            Of a pass 16,384 items are held, drawn at random, and an exact gradient is a pass.

    Returns:
        `Laplace(mode, space)`: a start for chains and a centre for `ControlVariate`, and a space
        for kernels. `fit.draw(key)` is a draw of the approximation, and `fit.draw` itself a start
        for chains that are dispersed.

    Raises:
        ValueError: if the log posterior is not curved downwards at the mode; in more than 256
            dimensions, where a Hessian is not computed whole, a saddle is not seen.
        FloatingPointError: if the search for it diverges.

    Example: coefficients whose scales differ by a thousand.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import LinearModel
        >>> model = LinearModel(lambda w: -0.5e-9 * w @ w, lambda eta, y: -0.5 * (y - eta) ** 2)
        >>> x = jax.random.normal(jax.random.key(0), (100, 2)) * jnp.array([1.0, 1e3])
        >>> fit = laplace(jax.random.key(1), model, jnp.zeros(2), (x, x @ jnp.array([3.0, 0.02])))
        >>> (fit.mode * jnp.array([1.0, 1e3])).round(2).tolist()
        [3.0, 20.0]
        >>> covariance = fit.space.cholesky @ fit.space.cholesky.T
        >>> bool(jnp.allclose(covariance, jnp.linalg.inv(x.T @ x), rtol=1e-3))
        True

    Reference:
        Tierney and Kadane (1986), Accurate approximations for posterior moments; Baker, Fearnhead,
        Fox and Nemeth (2019) for starting stochastic gradient samplers at a mode.
    """
    _checks.random_key(key)
    _checks.arrays("position", position)
    position, data = _tree.strong(position), without_frames("data", data)
    passes = passes_to_tune(model, data)
    mode_key, subset_key, key = jax.random.split(key, 3)
    if passes is not None:
        some, size, _ = sample_of_pass(subset_key, passes)
        grad, batch = Minibatch(model, Full()), Minibatch(model, Given(size))
        exact = partial(exact_of_passes, grad, passes)
        if _tree.size(position) > DENSE:
            mode = find_mode(mode_key, model, position, data)
            space = Euclidean(diagonal_scale(key, batch, mode, some))
            _warn_if_far(space, mode, exact(mode))
            return Laplace(mode, space)
        return _newton(key, exact, batch, find_mode(mode_key, model, position, some), some)
    rows = num_items(data)
    model, data = curved(model, data)
    data = checked(Minibatch(model, Full()), position, data)
    size, batch = num_items(data), on_batch(model, data)
    # of a series, which is one item, the gradient is not divided by the number of its rows
    close = _TOLERANCE * max(1, rows // max(1, size))
    if _tree.size(position) > DENSE:
        batcher = Uniform(max(1, size // 100)) if size > ENOUGH else None
        mode = find_mode(mode_key, model, position, data, batcher=batcher, tolerance=close)
        space = Euclidean(diagonal_scale(key, batch, mode, data))
        _warn_if_far(space, mode, _exact(Minibatch(model, Full()), mode, data))
        return Laplace(mode, space)
    some = data
    if size > ENOUGH:
        index = jax.random.choice(subset_key, size, (ENOUGH,), replace=False)
        some = jax.tree.map(lambda x: jnp.asarray(x)[index], data)
    exact = partial(_exact, Minibatch(model, Full()), data=data)
    return _newton(
        key, exact, batch, find_mode(mode_key, model, position, some, tolerance=close), data
    )


def _newton(key: Any, exact: Callable, batch: Estimator, position: Position, data: Data) -> Laplace:
    """Newton steps by exact gradients, with Hessians that `batch` takes of the data."""
    here = exact(position)
    for step in range(_NEWTON_STEPS):
        minus_hessian = hessian(jax.random.fold_in(key, step), batch, position, data)
        root = cholesky_of_inverse(minus_hessian)
        white = root.T @ np.asarray(ravel_pytree(here.value)[0], np.float64)
        if np.linalg.norm(white) < _CLOSE:
            dtype = jnp.result_type(*jax.tree.leaves(position))
            return Laplace(position, Euclidean(cholesky=jnp.asarray(root, dtype)))
        position, here = _uphill(exact, position, root @ white, here)
    raise ValueError(
        f"no mode was found: after {_NEWTON_STEPS} Newton steps it is still about "
        f"{np.linalg.norm(white):.2g} standard deviations away; give a better position"
    )


_exact = eqx.filter_jit(exact_estimate)


def _warn_if_far(space: Euclidean, mode: Position, here: Estimate) -> None:
    """Tell of a search, without Newton steps, that ended far from a mode."""
    white = diagonal(space, mode) * ravel_pytree(here.value)[0]
    distance = float(jnp.sqrt(jnp.mean(white**2)))
    if not distance < _FAR:
        warnings.warn(
            f"the search for a mode ended where the gradient is {distance:.2g} times that of a "
            "posterior draw: control variates there have much noise; give a better position",
            stacklevel=3,
        )


def _uphill(
    exact: Callable, position: Position, direction: np.ndarray, here: Estimate
) -> tuple[Position, Estimate]:
    """The longest of the steps 1, 1/2, 1/4, ... that does not go down, and the gradient there."""
    flat, unravel = ravel_pytree(position)
    # sums of many logarithms are rounded
    least = here.logdensity - 1e-5 * jnp.abs(here.logdensity)
    for halvings in range(_HALVINGS):
        ahead = unravel(flat + jnp.asarray(direction / 2**halvings, flat.dtype))
        there = exact(ahead)
        if there.logdensity >= least:
            return ahead, there
    raise ValueError("no mode was found: no Newton step goes uphill; give a better position")
