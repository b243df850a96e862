"""What draws of a position say of items: averages over them, one after another."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from .._types import Position
from ..model import Model


def as_draws(draws: PyTree, like: PyTree) -> PyTree:
    """`draws`, whose leaves are those of `like` behind the same leading axes, with one such axis.

    Raises:
        ValueError: if they are not of that form.
    """
    if jax.tree.structure(draws) != jax.tree.structure(like):
        raise ValueError(
            f"draws must have the structure of the position, {jax.tree.structure(like)}, got "
            f"{jax.tree.structure(draws)}"
        )
    leads = set()
    for draw, one in zip(jax.tree.leaves(draws), jax.tree.leaves(like), strict=True):
        lead = jnp.ndim(draw) - len(one.shape)
        if lead < 0 or jnp.shape(draw)[lead:] != one.shape:
            raise ValueError(
                f"draws must be positions of shape {one.shape}, with or without leading axes, got "
                f"shape {jnp.shape(draw)}"
            )
        leads.add(jnp.shape(draw)[:lead])
    if len(leads) > 1:
        raise ValueError(f"draws must have the same leading axes in every leaf, got {leads}")
    if any(0 in lead for lead in leads):
        raise ValueError(f"draws must be one at least, got leading axes of {leads.pop()}")
    return jax.tree.map(lambda draw, one: jnp.reshape(draw, (-1, *one.shape)), draws, like)


def _wide(x: Shaped[Array, "*b"]) -> Float[Array, "*b"]:
    """In single precision at least: sums of half precision would stop growing."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


@eqx.filter_jit
def mean_response(model: Any, draws: PyTree, x: PyTree) -> Float[Array, "n ..."]:
    """The mean over the draws of `model.response(position, x)`."""

    def add(total: Array, position: Position) -> tuple[Array, None]:
        return total + _wide(model.response(position, x)), None

    first, rest = jax.tree.map(lambda d: d[0], draws), jax.tree.map(lambda d: d[1:], draws)
    total, _ = jax.lax.scan(add, _wide(model.response(first, x)), rest)
    return total / len(jax.tree.leaves(draws)[0])


@eqx.filter_jit
def log_loss(model: Model, draws: PyTree, data: PyTree) -> Float[Array, ""]:
    """`-mean_i log mean_s p(y_i | draw_s)`."""

    def add(total: Array, position: Position) -> tuple[Array, None]:
        return jnp.logaddexp(total, _wide(model.loglik_batch(position, data))), None

    first, rest = jax.tree.map(lambda d: d[0], draws), jax.tree.map(lambda d: d[1:], draws)
    total, _ = jax.lax.scan(add, _wide(model.loglik_batch(first, data)), rest)
    return -jnp.mean(total - jnp.log(float(len(jax.tree.leaves(draws)[0]))))
