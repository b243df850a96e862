"""What the functions of users return, checked as they are traced: free of cost at run time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact, PyTree

_LONGEST = 120  # characters of a description


def floats(what: str, value: Any, shape: tuple[int, ...], wanted: str) -> Float[Array, "..."]:
    """`value` as an array; raise unless it is floating and of that shape."""
    dtype = dtype_of(value)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating) or np.shape(value) != shape:
        raise TypeError(f"{what} must return {wanted}, got {describe(value)}")
    return jnp.asarray(value)


def scalar(what: str, value: Any) -> Float[Array, ""]:
    """`value` as an array; raise unless it is one floating number."""
    return floats(what, value, (), "one floating number, of shape ()")


def like(what: str, value: PyTree, model: PyTree, name: str) -> None:
    """Raise unless `value` is numbers with the structure and the shapes of `model`."""
    if not same_form(value, model) or not _all_numbers(value):
        raise TypeError(
            f"{what} must have the structure and the shapes of {name}, {describe(model)}, got "
            f"{describe(value)}"
        )


def same_form(x: PyTree, y: PyTree) -> bool:
    """Whether two trees have the same structure and shapes."""
    if jax.tree.structure(x) != jax.tree.structure(y):
        return False
    pairs = zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True)
    return all(np.shape(x) == np.shape(y) for x, y in pairs)


def numbers(what: str, value: PyTree) -> PyTree:
    """`value`; raise unless every leaf is an array of numbers, or a number; keys are none."""
    keys = any(_is_extended(getattr(leaf, "dtype", None)) for leaf in jax.tree.leaves(value))
    if keys or not _all_numbers(value):
        raise TypeError(f"{what} must return arrays or numbers, got {describe(value)}")
    return value


def as_floats(what: str, value: PyTree) -> PyTree:
    """`value` with floating leaves: the mean of whole numbers is none."""

    def leaf(x: Any) -> Inexact[Array, "..."]:
        x = jnp.asarray(x)
        return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.result_type(float))

    return jax.tree.map(leaf, numbers(what, value))


def one_array(name: str, value: Any, other: str) -> Any:
    """A value beside a number, which stands for all of an array; raise if it is several."""
    if not jax.tree_util.all_leaves([value]):
        raise TypeError(
            f"{other} must be of the form of {name}, {describe(value)}, got one number: it stands "
            "for all entries of an array alone"
        )
    return value


def describe(tree: PyTree) -> str:
    """A tree with the dtypes and shapes of its leaves in their place."""

    def leaf(x: Any) -> str:
        dtype = dtype_of(x)
        return type(x).__name__ if dtype is None else f"{dtype}{np.shape(x)}"

    if tree is None:
        return "None"
    return shortened(str(jax.tree.map(leaf, tree)).replace("'", ""))


def shortened(text: str) -> str:
    """A text on one line, and not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _all_numbers(tree: PyTree) -> bool:
    # `None in dtypes` would not do: NumPy takes None for float64
    return all(dtype_of(leaf) is not None for leaf in jax.tree.leaves(tree))


def dtype_of(x: Any) -> Any:
    """The dtype of an array or a number, else `None`."""
    if isinstance(x, bool | int | float | complex):
        return jnp.result_type(x)
    dtype = getattr(x, "dtype", None)
    return None if getattr(dtype, "kind", "O") in "OSUMm" and not _is_extended(dtype) else dtype


def _is_extended(dtype: Any) -> bool:
    """Whether it is one of JAX's own, of keys."""
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.extended)
