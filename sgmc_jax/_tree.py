"""Arithmetic on pytrees that `optax.tree` lacks: it keeps each leaf's dtype."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree, Shaped


def scale(a: Any, x: PyTree) -> PyTree:
    """`a x` for a scalar `a`, in the dtype of `x`."""
    return jax.tree.map(lambda x: jnp.asarray(a).astype(x.dtype) * x, x)


def axpy(a: Any, x: PyTree, y: PyTree) -> PyTree:
    """`y + a x` for a scalar `a`, in the dtype of `y`."""
    return jax.tree.map(lambda x, y: y + jnp.asarray(a).astype(y.dtype) * x.astype(y.dtype), x, y)


def filled(value: PyTree, x: PyTree) -> PyTree:
    """`value`; a single number or array of it for each leaf of `x`."""
    alone = jax.tree.structure(value) == jax.tree.structure(0)
    return jax.tree.map(lambda _: value, x) if alone else value


def is_number(x: Any) -> bool:
    """Whether it is one number, as an array."""
    return isinstance(x, jax.Array) and x.ndim == 0


def size(x: PyTree) -> int:
    """The number of scalars."""
    return sum(leaf.size for leaf in jax.tree.leaves(x))


def all_finite(x: PyTree) -> Bool[Array, ""]:
    """Whether every floating leaf is finite."""
    leaves = [leaf for leaf in jax.tree.leaves(x) if _inexact(leaf)]
    if not leaves:
        return jnp.array(True)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def has_nan(x: PyTree) -> Bool[Array, ""]:
    """Whether a floating leaf has a NaN."""
    leaves = [jnp.any(jnp.isnan(leaf)) for leaf in jax.tree.leaves(x) if _inexact(leaf)]
    return jnp.any(jnp.stack(leaves)) if leaves else jnp.array(False)


def nan_where(x: PyTree, broken: Bool[Array, ""]) -> PyTree:
    """`x`, with NaN in its floating leaves if `broken`: so `Kernel.finite` also sees a fault in a
    value that the state does not keep."""
    spoil = jnp.where(broken, jnp.nan, 0.0)
    return jax.tree.map(lambda x: x + spoil.astype(x.dtype) if _inexact(x) else x, x)


def _inexact(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def strong(x: PyTree) -> PyTree:
    """`x` as arrays without weak types: a weak carry compiles twice."""

    def leaf(x: Any) -> Shaped[Array, "..."]:
        x = jnp.asarray(x)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return x
        # an array that was made under x64 stays wide outside of it
        return jax.lax.convert_element_type(x, jax.dtypes.canonicalize_dtype(x.dtype))

    return jax.tree.map(leaf, x)
