"""Shapes and values of hyper-parameters and items."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import real_array

_MOST_LOST = 0.05  # of a log probability, to rounding


def vector(name: str, value: Any, dim: int | None) -> Float[Array, " d"]:
    """A vector of size `dim`; a number stands for a constant one, of size 1 if `dim` is None."""
    value = _checks.as_real(value, name, wide=True)
    _checks.finite(name, value)
    if value.ndim == 0:
        return jnp.broadcast_to(value, (1 if dim is None else dim,))
    if value.ndim != 1 or (dim is not None and value.shape[0] != dim):
        wanted = "(d,)" if dim is None else f"({dim},)"
        raise ValueError(f"{name} must be a number or of shape {wanted}, got shape {value.shape}")
    return value


def positive_vector(name: str, value: Any, dim: int | None) -> Float[Array, " d"]:
    """A `vector` of positive numbers."""
    _checks.positive(name, value)
    return vector(name, value, dim)


def positive_number(name: str, value: Any) -> Float[Array, ""]:
    """A positive number as an array leaf."""
    value = _checks.as_real(value, name, wide=True)
    if value.ndim:
        raise ValueError(f"{name} must be a number, got shape {value.shape}")
    _checks.positive(name, value)
    return value


def covariance_matrix(name: str, value: Any, dim: int) -> Float[Array, "d d"]:
    """A positive definite matrix; a number stands for that multiple of the identity."""
    value = _checks.as_real(value, name, wide=True)
    if value.ndim == 0:
        _checks.positive(name, value)
        return value * jnp.eye(dim, dtype=value.dtype)
    if value.shape != (dim, dim):
        raise ValueError(f"{name} must be a number or of shape {(dim, dim)}, got {value.shape}")
    _checks.finite(name, value)
    if _checks.is_concrete(value):
        matrix = np.asarray(value, np.float64)
        rounding = 1e-6 * np.max(np.abs(matrix))
        symmetric = np.allclose(matrix, matrix.T, rtol=1e-5, atol=rounding)
        if not symmetric or np.linalg.eigvalsh(matrix)[0] <= 0:
            raise ValueError(f"{name} must be symmetric and positive definite, got {value}")
    return value


def rows(items: Any, dim: int) -> Float[Array, "n d"]:
    """Items as floating rows of size `dim`; for dim = 1 a flat array will do."""
    items = real_array(items)
    if items.ndim == 1 and dim == 1:
        items = items[:, None]
    if items.ndim != 2 or items.shape[1] != dim:
        raise ValueError(f"items must be of shape (n, {dim}), got shape {items.shape}")
    return items


def row(item: Any, dim: int) -> Float[Array, " d"]:
    """One item as a floating row of size `dim`."""
    return rows(jnp.asarray(item)[None], dim)[0]


def check_rows(data: Any, dim: int, *, answers: bool = False) -> None:
    """Raise unless the data are finite rows of size `dim`, or, with `answers`, true or false."""
    data = data if hasattr(data, "shape") else _checks.on_host("data", data)
    shape = jnp.shape(data)
    if shape[1:] != (dim,) and not (dim == 1 and len(shape) == 1):
        raise ValueError(f"data must be of shape (n, {dim}), got shape {shape}")
    if answers and jnp.issubdtype(jnp.result_type(data), jnp.bool_):
        return
    if not jnp.issubdtype(jnp.result_type(data), jnp.number):
        raise TypeError(f"data must be numbers, got {jnp.result_type(data)}")
    if jnp.issubdtype(jnp.result_type(data), jnp.complexfloating):
        raise TypeError(f"data must be real, got {jnp.result_type(data)}")
    _checks.finite("data", data)


def lost_from(limit: float, dtype: Any) -> float:
    """From where on sums are too large for their digits, given for float32."""
    return limit * float(jnp.finfo(jnp.float32).eps / jnp.finfo(dtype).eps)


def check_precision(data: Any) -> None:
    """Warn if the data are so far from zero that their numbers do not tell items well apart."""
    if not _checks.is_concrete(data) or len(data) == 0:
        return
    some = np.asarray(data[:: -(-len(data) // 1000)], np.float64)  # sums of all would round too
    epsilon = float(jnp.finfo(real_array(np.asarray(data[:1])).dtype).eps)
    spacing, deviation = epsilon * np.max(np.abs(some), axis=0), np.std(some, axis=0)
    coarse = np.atleast_1d((deviation > 0) & (spacing > deviation / 32))
    if coarse.any():
        i = int(np.argmax(coarse))
        spacing, deviation = np.atleast_1d(spacing)[i], np.atleast_1d(deviation)[i]
        warnings.warn(
            f"data are too far from zero for their dtype: coordinate {i} has the standard "
            f"deviation {deviation:.3g}, and its numbers are {spacing:.3g} apart. Subtract a "
            "constant from the data in float64, and from the prior mean",
            stacklevel=2,
        )


def check_counts(data: Any, dim: int) -> None:
    """Raise unless the data are rows of `dim` counts."""
    check_rows(data, dim)
    if not _checks.is_concrete(data):
        return
    data = np.asarray(data)
    if data.size and data.min() < 0:
        raise ValueError(f"data must be counts, got a negative number, {data.min()}")
    if not np.issubdtype(data.dtype, np.integer) and np.any(data != np.floor(data)):
        raise ValueError(f"data must be counts, got a fraction, {data[data != np.floor(data)][0]}")


def check_sums_of_counts(data: Any) -> None:
    """Warn if counts are so large that differences of log marginals are lost to rounding."""
    if not _checks.is_concrete(data) or not np.size(data):
        return
    data = np.asarray(data)
    dtype, totals = real_array(data[:1]).dtype, data.reshape(len(data), -1).sum(1, dtype=np.float64)
    lost = float(jnp.finfo(dtype).eps) * totals.max() * np.log(max(data.max(), 1))
    if lost > _MOST_LOST:
        warnings.warn(
            f"data are counts so large that log marginals have errors of some {lost:.2g} a row in "
            f"{dtype}: run in double precision (jax_enable_x64)",
            stacklevel=2,
        )
