"""How well features explain items that they have not seen."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import product
from ._arrays import floating

_SHARE = 0.3  # of the entries of a random start that are not zero


def held_out_error(
    key: Any,
    parameters: Float[Array | np.ndarray, "K D"],
    items: Float[Array | np.ndarray, "n D"],
    *,
    most: int = 1,
    starts: int = 8,
    sweeps: int = 20,
) -> Float[Array, " n"]:
    """The distance of each item from the nearest sum of features.

        min_z |y - z A|,   z_k = 0, 1, ..., most

    Entries are set to their best values one after the other, given the others, from zeros and from
    random entries; the best of all ends counts. So errors are never below the minimum, and may be
    above it where K is large: more `starts` lower them. An error is no log density: every feature
    more lowers it, also one that no item needs. See `NewItems` for what does not.

    Args:
        key: a random key, for the starts.
        parameters: A, (K, D), as `shared["parameters"]` of a feature sampler's position; rows of
            zeros, as of free slots, change nothing.
        items: y, (n, D).
        most: the largest entry: 1 for features that an item has or not, more for counts.
        starts: from how many entries the descent begins, the first being zeros.
        sweeps: how often all entries are set.

    Returns:
        n distances.

    Raises:
        ValueError, TypeError: if a number is out of its range, or a shape does not fit.

    Example: of all draws of a chain.
        >>> import jax, jax.numpy as jnp
        >>> from functools import partial
        >>> A = jnp.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
        >>> held_out_error(jax.random.key(0), A, jnp.array([[3.0, 4.5], [0.0, 0.0]])).tolist()
        [0.5, 0.0]
        >>> error = partial(held_out_error, jax.random.key(0), items=jnp.ones((5, 2)))
        >>> jax.lax.map(error, jnp.stack([A, 2 * A])).shape
        (2, 5)

    Reference:
        Nand, Bouchard-Cote and Campbell (2020), Slice sampling for general completely random
        measures, section 5, whose error this is.
    """
    _checks.random_key(key)
    parameters = floating("parameters", parameters, "K", "D")
    if not len(parameters):
        raise ValueError(f"parameters must have a feature, got shape {parameters.shape}")
    items = floating("items", items, "n", parameters.shape[1])
    for name, value in {"most": most, "starts": starts, "sweeps": sweeps}.items():
        _checks.whole(name, value)
    return _error(key, parameters, items, most, starts, sweeps)


@partial(jax.jit, static_argnames=("most", "starts", "sweeps"))
def _error(key: Any, values: Array, items: Array, most: int, starts: int, sweeps: int) -> Array:
    square = jnp.sum(values**2, axis=1)
    scale = jnp.where(square > 0, square, 1)

    def sweep(_: Any, z: Float[Array, "n K"]) -> Float[Array, "n K"]:
        def column(k: Any, z: Float[Array, "n K"]) -> Float[Array, "n K"]:
            rest = items - product(z.at[:, k].set(0), values)
            best = jnp.ceil(product(rest, values[k]) / scale[k] - 0.5)
            return z.at[:, k].set(jnp.clip(best, 0, most))

        return jax.lax.fori_loop(0, len(values), column, z)

    def one(z: Float[Array, "n K"]) -> Float[Array, " n"]:
        z = jax.lax.fori_loop(0, sweeps, sweep, z)
        return jnp.linalg.norm(items - product(z, values), axis=1)

    u = jax.random.uniform(key, (starts, len(items), len(values)), values.dtype)
    some = jnp.minimum(1 + jnp.floor(most * u / _SHARE), most)
    first = jnp.where(u < _SHARE, some, 0).at[0].set(0)
    return jnp.min(jax.lax.map(one, first), axis=0)
