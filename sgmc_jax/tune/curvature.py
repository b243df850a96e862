"""The curvature of a log posterior at one point, and the scale of a posterior that it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .. import _tree
from .._estimators import Estimator
from .._types import Data, Keys, Position
from ..arrays import product as full_product
from ..batching import Full, Uniform, Window
from ..collective import leading_axis
from ..gradients import Minibatch
from ..model import Model
from ..models.series import SeriesModel
from ..spaces import Euclidean
from ..transformed import Transformed

DENSE = 256  # the largest dimension in which a Hessian is computed entry by entry
ENOUGH = 16_384  # items that it is computed from
_PROBES = 32
_ITERATIONS = 30  # of the power method


def num_items(data: Data) -> int:
    """The number of items of the data, 0 if there is none."""
    return leading_axis(data) if jax.tree.leaves(data) else 0


def exactly(model: Model) -> Minibatch:
    """The estimator of the gradient from all of the data."""
    return Minibatch(model, Window(None) if model.of_series else Full())


class WholeSeries(Model):
    """A series as one item: in the gradients of its windows the states' laws stand still."""

    model: SeriesModel

    def logprior(self, position: Position) -> Float[Array, ""]:
        return self.model.logprior(position)

    def loglik(self, position: Position, item: Any) -> Float[Array, ""]:
        return self.model.log_likelihood(position, item)

    def check(self, position: Position, data: Data) -> None:
        self.model.check(position, jax.tree.map(lambda x: x[0], data))


def curved(model: Model, data: Data) -> tuple[Model, Data]:
    """The model, and its data, whose gradients have the derivatives of the log density."""
    if isinstance(model, Transformed) and model.of_series:
        inner, data = curved(model.model, data)
        return eqx.tree_at(lambda own: own.model, model, inner), data
    if isinstance(model, SeriesModel):
        return WholeSeries(model), jax.tree.map(lambda x: jnp.asarray(x)[None], data)
    return model, data


def on_batch(model: Model, data: Data) -> Minibatch:
    """An estimator of the gradient from all of the data, or from many of its items."""
    return Minibatch(model, Full() if num_items(data) <= ENOUGH else Uniform(ENOUGH))


@eqx.filter_jit
def hessian(key: Any, grad: Estimator, position: Position, data: Data) -> Float[Array, "d d"]:
    """Minus the Hessian of the log density, from one batch."""
    product = _product(key, grad, position, data)
    columns = jax.lax.map(product, jnp.eye(_tree.size(position)))
    return (columns + columns.T) / 2


@eqx.filter_jit
def row_norms(key: Any, grad: Estimator, position: Position, data: Data) -> Float[Array, " d"]:
    """The norm of each row of minus the Hessian, by random signs: no less than its diagonal.

    All are NaN where the signs tell for certain that it is not positive definite: the trace of the
    matrix with each row in units of its norm is then below 0, by five standard errors or more.
    """
    batch_key, probe_key = jax.random.split(key)
    product = _product(batch_key, grad, position, data)
    signs = jax.random.rademacher(probe_key, (_PROBES, _tree.size(position)), float)
    products = jax.lax.map(product, signs)
    norms = jnp.sqrt(jnp.mean(products**2, axis=0))
    traces = jnp.sum(signs * products / jnp.where(norms > 0, norms, 1), axis=1)
    error = jnp.std(traces, ddof=1) / _PROBES**0.5
    return jnp.where(jnp.mean(traces) < -5 * error, jnp.nan, norms)


@eqx.filter_jit
def along(
    key: Any, grad: Estimator, position: Position, data: Data, v: Position
) -> Float[Array, ""]:
    """`-v' H v`, from one batch."""
    flat, _ = ravel_pytree(v)
    return full_product(flat, _product(key, grad, position, data)(flat))


@eqx.filter_jit
def largest(
    key: Any, grad: Estimator, position: Position, data: Data, scale: Float[Array, " d"]
) -> Float[Array, ""]:
    """The largest eigenvalue, in size, of `-S H S` with the diagonal matrix S, from one batch."""
    batch_key, start_key = jax.random.split(key)
    product = _product(batch_key, grad, position, data)
    own = lambda v: scale * product(scale * v)
    return power_method(start_key, own, len(scale), scale.dtype)[1]


def power_method(
    key: Any, product: Callable, size: int, dtype: Any
) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """v / |v| and |A v| / |v| after some steps v <- A v of a symmetric matrix."""

    def step(
        _: Any, loop: tuple[Float[Array, " d"], Float[Array, ""]]
    ) -> tuple[Float[Array, " d"], Float[Array, ""]]:
        v, _ = loop
        ahead = product(v).astype(dtype)  # the data may be of another
        norm = jnp.sqrt(jnp.sum(ahead**2))
        return ahead / jnp.maximum(norm, jnp.finfo(dtype).tiny), norm

    start = jax.random.normal(key, (size,), dtype)
    start = start / jnp.sqrt(jnp.sum(start**2))
    return jax.lax.fori_loop(0, _ITERATIONS, step, (start, jnp.zeros((), dtype)))


def diagonal(space: Euclidean, x: Position) -> Float[Array, " d"]:
    """The diagonal of S, of a space whose S is a diagonal matrix."""
    scale = 1.0 if space.scale is None else space.scale
    if jax.tree.structure(scale) != jax.tree.structure(x):
        return jnp.full(_tree.size(x), scale, jnp.result_type(*jax.tree.leaves(x)))
    return ravel_pytree(jax.tree.map(lambda s, x: jnp.broadcast_to(s, jnp.shape(x)), scale, x))[0]


def _product(key: Any, grad: Estimator, position: Position, data: Data) -> Callable:
    """`v -> -H v`, always from the same batch."""
    flat, unravel = ravel_pytree(position)
    keys, estate = Keys(key, key, None), grad.init(key, position, data)

    def gradient(flat: Float[Array, " d"]) -> Float[Array, " d"]:
        return ravel_pytree(grad.estimate(keys, estate, unravel(flat), data)[0].value)[0]

    return lambda v: -jax.jvp(gradient, (flat,), (v.astype(flat.dtype),))[1]


def diagonal_scale(key: Any, grad: Estimator, position: Position, data: Data) -> Position:
    """One over the root of the curvature in each coordinate, shaped like the position.

    Raises:
        ValueError: if the curvature of a coordinate is not positive.
    """
    flat, unravel = ravel_pytree(position)
    if flat.size <= DENSE:
        curvature = jnp.diag(hessian(key, grad, position, data))
    else:
        curvature = row_norms(key, grad, position, data)
    least = float(jnp.min(curvature))
    if not (least > 0 and np.isfinite(least)):
        how = f"the least curvature of a coordinate is {least:.3g}"
        if flat.size > DENSE and np.isnan(least):
            how = "its scaled Hessian has a trace above 0, or entries that are not finite"
        raise ValueError(f"the log posterior is not curved downwards at the position: {how}")
    return unravel((1 / jnp.sqrt(curvature)).astype(flat.dtype))


def cholesky_of_inverse(matrix: Any) -> Float[np.ndarray, "d d"]:
    """The lower triangular S of `S S' = H^-1`, in double precision.

    Raises:
        ValueError: if H is not positive definite, as far as its precision can tell.
    """
    digits = 8 * np.finfo(np.result_type(np.asarray(matrix).dtype, np.float32)).eps
    h = np.asarray(matrix, np.float64)
    scale = np.sqrt(np.diag(h)) if np.all(np.diag(h) > 0) else np.full(len(h), np.nan)
    correlated = h / scale / scale[:, None]  # coordinates may differ in scale by any factor
    least = np.linalg.eigvalsh(correlated)[0] if np.all(np.isfinite(correlated)) else np.nan
    if not least > digits * len(h):
        raise ValueError(
            "the log posterior is not curved downwards in every direction at the position, or two "
            f"are nearly one: the least eigenvalue of its scaled Hessian is {least:.2g}. Of "
            "parameters that may be turned, such as factors, or weights of a network, no mode is "
            "alone: sample without a metric, with a step size of tune.successive_halving"
        )
    return np.linalg.cholesky(np.linalg.inv(correlated) / scale / scale[:, None])
