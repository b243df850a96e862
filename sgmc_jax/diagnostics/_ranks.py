"""What ESS and R-hat share: checked draws, split chains, rank normalisation."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, Int, Shaped

from .._checks import is_concrete, unwrapped

_ELEMENTS_PER_STEP = 2**20
_SCORES_PER_STEP = 2**16


def map_draws(fn: Callable[[Float[Array, "chain draw ..."]], Float[Array, "..."]], x: Any) -> Any:
    """Apply `fn` to every leaf of `x`, each checked to be (chain, draw, ...)."""
    odd = [np.shape(leaf) for leaf in jax.tree.leaves(x) if np.ndim(leaf) > 1]
    odd = [shape for shape in odd if shape[0] > shape[1]]
    if odd:
        warnings.warn(
            f"x has more chains than draws, shape {odd[0]}: its leading axes must be (chain, "
            "draw); of a single chain's draws take x[None]",
            stacklevel=3,
        )

    def leaf(path, value):
        return fn(_check_draws(value, "x" + jax.tree_util.keystr(path)))

    return jax.tree_util.tree_map_with_path(leaf, x)


def _check_draws(x: Any, name: str) -> Float[Array, "chain draw ..."]:
    try:
        x = jnp.asarray(near_zero(unwrapped(x), 2))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be an array of draws, got {type(x).__name__}") from error
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"{name} must be real, got dtype {x.dtype}")
    if x.ndim < 2:
        raise ValueError(f"{name} must have leading axes (chain, draw), got shape {x.shape}")
    if x.shape[0] < 1 or x.shape[1] < 4:
        raise ValueError(f"{name} needs at least 1 chain and 4 draws, got shape {x.shape}")
    return x.astype(float_dtype(x))


def near_zero(x: Any, num_axes: int) -> Any:
    """Double precision, where JAX would round it, and whole numbers, less their first draw: digits
    that all draws have in common are lost, and not those in which they differ."""
    if not isinstance(x, np.ndarray | jax.Array) or x.ndim < num_axes or not x.size:
        return x
    whole = jnp.issubdtype(x.dtype, jnp.integer)
    rounded = x.dtype == np.float64 and jax.dtypes.canonicalize_dtype(x.dtype) != x.dtype
    if not whole and not rounded:
        return x
    first = (slice(0, 1),) * num_axes
    if not is_concrete(x):
        return x.astype(float)  # a difference of whole numbers might wrap around
    x = np.asarray(x, np.float64)
    return x - np.where(np.isfinite(x[first]), x[first], 0.0)


def float_dtype(*arrays: Shaped[Array, "..."]) -> Any:
    """The dtype to compute in: that of the inputs, at least float32."""
    return jnp.result_type(jnp.float32, *arrays)


def per_parameter(
    fn: Callable[[Float[Array, "chain draw"]], Float[Array, ""]],
    x: Float[Array, "chain draw *shape"],
) -> Float[Array, "*shape"]:
    """Map `fn`: (chain, draw) -> scalar over the trailing axes; NaN where a draw is not finite."""
    chains, draws, *shape = x.shape
    parameters = jnp.moveaxis(x.reshape(chains, draws, math.prod(shape)), -1, 0)

    def guarded(p):
        return jnp.where(jnp.all(jnp.isfinite(p)), fn(p), jnp.nan)

    # Several parameters a step while they are small, one at a time when they are large:
    # bounded memory, and the working set stays in cache.
    size = min(len(parameters), _ELEMENTS_PER_STEP // (chains * draws))
    return lax.map(guarded, parameters, batch_size=size if size > 1 else None).reshape(shape)


def split_chains(x: Float[Array, "chain draw"]) -> Float[Array, "split half"]:
    """First and last halves of every chain as chains; the middle of an odd number is dropped."""
    half = x.shape[1] // 2
    return jnp.concatenate([x[:, :half], x[:, -half:]])


def rank_normalise(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Normal scores of the average ranks over all of `x`."""
    keys = _sort_keys(x.ravel())
    return _normal_scores(_below(lax.sort(keys), keys) + 1, x.dtype).reshape(x.shape)


def rank_normalise_folded(
    x: Float[Array, "*shape"],
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Normal scores of `x` and of |x - median(x)|, for `x` of even size, from a single sort.

    |sort(x) - median| falls over its lower half and rises over its upper half, so that a folded
    rank is a rank among two sorted arrays.
    """
    keys = _sort_keys(x.ravel())
    table = lax.sort(keys)
    values, half = _from_keys(table, x.dtype), x.size // 2
    distance = _sort_keys(jnp.abs(values - (0.5 * values[half - 1] + 0.5 * values[half])))
    low, high = distance[:half][::-1], distance[half:]
    below_low = _below_itself(low) + _below(high, low)
    below_high = _below_itself(high) + _below(low, high)
    bulk = _below_itself(table) + 1
    tail = jnp.concatenate([below_low[::-1], below_high]) + 1
    where = jnp.searchsorted(table, keys)
    bulk, tail = (_normal_scores(twice, x.dtype)[where] for twice in (bulk, tail))
    return bulk.reshape(x.shape), tail.reshape(x.shape)


def _sort_keys(x: Float[Array, " n"]) -> Int[Array, " n"]:
    """Integers ordered as the finite floats `x`: single-key integer sorts are the fast ones."""
    bits = lax.bitcast_convert_type(x, _int_like(x.dtype))
    # -0.0 must tie with 0.0
    return _flip_negative(jnp.where(bits == jnp.iinfo(bits.dtype).min, 0, bits))


def _from_keys(keys: Int[Array, " n"], dtype: Any) -> Float[Array, " n"]:
    return lax.bitcast_convert_type(_flip_negative(keys), dtype)


def _flip_negative(bits: Int[Array, " n"]) -> Int[Array, " n"]:
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


def _int_like(dtype: Any) -> Any:
    return jnp.int64 if dtype == jnp.float64 else jnp.int32


# Twice the average rank of t in a table that holds it is n(t) + 1, where
# n(t) = #{table < t} + #{table <= t}; over several tables the n(t) add up.


def _below(table: Int[Array, " n"], t: Int[Array, " m"]) -> Int[Array, " m"]:
    """n(t) for a sorted table."""
    left = jnp.searchsorted(table, t)
    at = jnp.minimum(left, table.size - 1)
    # A gather of run ends is several times cheaper than a second search.
    return left + jnp.where(table[at] == t, _run_ends(table)[at], left)


def _below_itself(table: Int[Array, " n"]) -> Int[Array, " n"]:
    """n(table) for a sorted table."""
    first = jnp.concatenate([jnp.ones(1, bool), table[1:] != table[:-1]])
    starts = jnp.where(first, jnp.arange(table.size, dtype=jnp.int32), 0)
    return lax.cummax(starts) + _run_ends(table)


def _run_ends(table: Int[Array, " n"]) -> Int[Array, " n"]:
    """For each entry the index after the last one equal to it, in a sorted table."""
    n = table.size
    after = jnp.arange(1, n + 1, dtype=jnp.int32)
    last = jnp.concatenate([table[1:] != table[:-1], jnp.ones(1, bool)])
    return lax.cummin(jnp.where(last, after, n), reverse=True)


def _normal_scores(twice: Int[Array, " n"], dtype: Any) -> Float[Array, " n"]:
    """Phi^-1((rank - 3/8) / (n + 1/4)) from twice the rank (Blom 1958)."""
    n = twice.size

    def score(t):
        # The upper half by symmetry: 1 - p would lose the tail in float32.
        lower = jnp.minimum(t, 2 * (n + 1) - t).astype(dtype)
        z = ndtri((0.5 * lower - 0.375) / (n + 0.25))
        return jnp.where(t > n + 1, -z, z)

    # A loop, for XLA would fuse ndtri with a gather before or after it: ten times slower on a CPU.
    return lax.map(score, twice, batch_size=_SCORES_PER_STEP)
