"""The metric of a posterior's curvature at a mode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .. import _checks, _tree
from .._frames import without_frames
from .._types import Data, Position
from ..batching import Given
from ..gradients import Minibatch
from ..model import Model
from ..spaces import Euclidean
from .curvature import (
    DENSE,
    cholesky_of_inverse,
    curved,
    diagonal_scale,
    hessian,
    on_batch,
)
from .passes import passes_to_tune, sample_of_pass


def whiten(model: Model, mode: Position, data: Data = None, *, dense: bool = True) -> Euclidean:
    """R^n with the metric in which a posterior has about covariance I at its mode.

    With H minus the Hessian of the log posterior at the mode, and S the scale of the space,

        S S' = H^-1   (dense),      S = diag(H_11^-1/2, ..., H_dd^-1/2)   (diagonal).

    One step size suits all directions on a dense one, whatever the units of the parameters and the
    number of items: 0.5 for `sghmc`, and the smaller of 0.5 and 1.2 d^-1/4 for `hmc`.
    A diagonal one takes away the units, and leaves what is correlated: there h is to be below 2
    over the root of the largest eigenvalue of S H S.

    H is computed from all items, or from 16,384 of many.

    Args:
        model: the model; for parameters with supports a `Transformed` one.
        mode: a position near the mode, such as that of `find_mode`.
        data: all of the data, a pytree of arrays with one leading item axis; `None` where the model
            is a density of its own; or what gives an iterator of batches for each pass, a function
            without arguments or a loader.
        dense: whether S is a matrix, of at most 256 dimensions, or diagonal. A diagonal one costs
            d Hessian products too in up to 256 dimensions; in more it has the norms of the rows of
            H, by random signs, in place of its diagonal.

    Returns:
        the space, for `sghmc(grad, 0.5, space=...)`, `hmc`, `sgld`, `sgnht` and `mala`.

    Raises:
        ValueError: if the log posterior is not curved downwards at the mode (in more than 256
            dimensions a saddle is not seen), or a dense S is asked for in more than these.

    Example: coefficients whose scales differ by a thousand.
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import LinearModel, Minibatch, Uniform, find_mode, sghmc
        >>> model = LinearModel(lambda w: -0.5e-9 * w @ w, lambda eta, y: -0.5 * (y - eta) ** 2)
        >>> x = jax.random.normal(jax.random.key(0), (100, 2)) * jnp.array([1.0, 1e3])
        >>> data = (x, x @ jnp.array([3.0, 0.02]))
        >>> space = whiten(model, jnp.array([3.0, 0.02]), data)
        >>> covariance = space.cholesky @ space.cholesky.T
        >>> bool(jnp.allclose(covariance, jnp.linalg.inv(x.T @ x), rtol=1e-3))
        True
        >>> kernel = sghmc(Minibatch(model, Uniform(10)), 0.5, space=space)

    Reference:
        Neal (2011), MCMC using Hamiltonian dynamics, section 4.1. `tune.laplace` finds the mode and
        this space together.
    """
    _checks.truth("dense", dense)
    _checks.arrays("mode", mode)
    data = without_frames("data", data)
    passes = passes_to_tune(model, data)
    if passes is None:
        _checks.arrays("data", data)
    _checks.real_position(mode)
    _checks.finite("mode", mode)
    mode, key = _tree.strong(mode), jax.random.key(0)
    if passes is not None:
        data, size, _ = sample_of_pass(key, passes)
        grad = Minibatch(model, Given(size))
    else:
        model, data = curved(model, data)
        grad = on_batch(model, data)
    grad.check(mode, data)
    if not dense:
        return Euclidean(diagonal_scale(key, grad, mode, data))
    flat, _ = ravel_pytree(mode)
    if flat.size > DENSE:
        raise ValueError(
            f"dense must be False for a mode of more than {DENSE} numbers, got {flat.size}"
        )
    root = cholesky_of_inverse(hessian(key, grad, mode, data))
    return Euclidean(cholesky=jnp.asarray(root, flat.dtype))
