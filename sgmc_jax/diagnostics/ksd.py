"""Kernel Stein discrepancy with the inverse multiquadric kernel."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .. import _checks
from ..arrays import product, squared_distances
from ._ranks import float_dtype, near_zero

_DEFAULT_BLOCK = 512
_FEW = 16  # draws that nobody takes a discrepancy of


def ksd(
    positions: Any,
    scores: Any,
    *,
    c: Any = 1.0,
    beta: Any = -0.5,
    kind: Literal["joint", "coordinate"] = "joint",
    statistic: Literal["v", "u"] = "v",
    block_size: int | None = None,
) -> Float[Array, ""]:
    r"""Kernel Stein discrepancy of draws from the density whose scores are given.

    Kernel (c^2 + ||D||^2)^beta = r^beta, with D = x - x' and s the gradient of the log density:

    k0 = s.s' r^beta + 2 beta r^(beta-1) (s'.D - s.D - d) - 4 beta (beta-1) ||D||^2 r^(beta-2).

    - "joint": sqrt(mean k0). "coordinate": sum_j sqrt(mean k0_j), where k0_j has s_j, D_j and 1 in
      place of s, D and d. With "v", joint <= coordinate <= sqrt(d) joint.
    - statistic "v" averages all K^2 pairs. "u" averages the K (K-1) pairs of distinct draws: for
      scores with independent noise (a fresh minibatch for each draw) the square of "joint" is
      unbiased, where "v" is inflated by c^(2 beta) tr(Cov) / K.

    The square of a U-statistic can be negative: its root is then -sqrt(-square), so that the order
    of two samples is kept and value * |value| gives the unbiased square back.

    Args:
        positions: Draws, (K, d), or a pytree whose leaves have a leading draw axis: of
            chains, (chain, draw, d), reshape the first two axes into one, or `vmap` over chains;
            of an array with more than two axes, which may be such, a warning says what it is
            taken for.
            Bring the parameters to about unit scale, or choose `c` to suit.
        scores: Gradients of the log density (not of U) at the draws, shaped as `positions`.
        c: Length scale of the kernel, > 0.
        beta: Exponent of the kernel, in (-1, 0).
        kind: "joint" or "coordinate".
        statistic: "v" or "u".
        block_size: Pairs are handled in tiles of block_size x block_size draws; memory is
            O(block_size^2 + K d). Default: about 512.

    Returns:
        The discrepancy, a scalar; NaN if a draw or a score is not finite. Works under `jax.vmap`.

    Raises:
        TypeError: if the draws or scores are not real arrays.
        ValueError: if their structures or shapes differ, there are too few draws, or an option is
            out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.diagnostics import ksd
        >>> x = jax.scipy.special.ndtri((jnp.arange(200) + 0.5) / 200)[:, None]  # N(0, 1)
        >>> wide = 1.3 * x
        >>> bool(10 * ksd(x, -x) < ksd(wide, -wide))
        True

    Reference:
        Gorham & Mackey (2017), with the 2-norm over coordinates for "joint"; Nemeth & Fearnhead
        (2021), eq. 13, for "coordinate". Their cross terms are printed with a sign that does not
        vanish on the target; the signs above do.
    """
    # of positions differences alone count, of scores every digit
    x = _matrix(positions, "positions", lambda leaf: near_zero(leaf, 1))
    s = _matrix(scores, "scores")
    _check_match(positions, scores)
    _warn_of_chains(positions, len(x))
    _check_options(c, beta, kind, statistic, block_size, len(x))
    dtype = float_dtype(x, s)
    c, beta = jnp.asarray(c, dtype), jnp.asarray(beta, dtype)
    block = _default_block(len(x)) if block_size is None else min(block_size, len(x))
    return _ksd(x.astype(dtype), s.astype(dtype), c, beta, kind, statistic, block)


class _Kernel(NamedTuple):
    c: Float[Array, ""]
    beta: Float[Array, ""]


@partial(jax.jit, static_argnames=("kind", "statistic", "block"))
def _ksd(
    x: Float[Array, "k d"],
    s: Float[Array, "k d"],
    c: Float[Array, ""],
    beta: Float[Array, ""],
    kind: str,
    statistic: str,
    block: int,
) -> Float[Array, ""]:
    count = len(x)
    kernel = _Kernel(c, beta)
    x = x - jnp.mean(x, axis=0)
    total = _off_diagonal(kernel, x, s, kind, block)
    if statistic == "u":
        square = total / count / (count - 1)
    else:
        # Non-negative but for rounding.
        square = jnp.maximum((total + _diagonal(kernel, s, kind)) / count / count, 0)
    return jnp.sum(jnp.sign(square) * jnp.sqrt(jnp.abs(square)))


def _diagonal(kernel: _Kernel, s: Float[Array, "k d"], kind: str) -> Float[Array, " m"]:
    """Sum over draws of k0 at D = 0: (1,) for joint, (d,) for coordinate."""
    c, beta = kernel
    per_coordinate = jnp.sum(s**2, axis=0) * c ** (2 * beta)
    per_coordinate -= len(s) * 2 * beta * c ** (2 * beta - 2)
    return per_coordinate if kind == "coordinate" else jnp.sum(per_coordinate, keepdims=True)


def _off_diagonal(
    kernel: _Kernel, x: Float[Array, "k d"], s: Float[Array, "k d"], kind: str, block: int
) -> Float[Array, " m"]:
    """Sum of k0 over pairs of distinct draws: (1,) for joint, (d,) for coordinate.

    k0 is symmetric: tiles below the diagonal are not computed, those above it count twice.
    """
    count, dim = x.shape
    tiles = math.ceil(count / block)
    pad = [(0, tiles * block - count), (0, 0)]
    x, s = (jnp.pad(a, pad).reshape(tiles, block, dim) for a in (x, s))
    rows = _joint_rows if kind == "joint" else _coordinate_rows

    def add_tile(total, tile):
        i, j = tile
        keep = _distinct(i, j, block, count)
        terms = rows(kernel, keep, (x[i], s[i]), (x[j], s[j]))
        return _compensated_add(total, jnp.where(i == j, 1, 2) * terms), None

    zero = jnp.zeros((1 if kind == "joint" else dim, block), x.dtype)
    pairs = tuple(index.astype(np.int32) for index in np.triu_indices(tiles))
    total, _ = lax.scan(add_tile, (zero, zero), pairs)
    return jnp.sum(total[0], axis=1) + jnp.sum(total[1], axis=1)


def _distinct(i: Int[Array, ""], j: Int[Array, ""], block: int, count: int) -> Bool[Array, "b b"]:
    """The entries of tile (i, j) that are pairs of two different real draws."""
    within = jnp.arange(block)
    row, column = (i * block + within)[:, None], j * block + within
    return (row != column) & (row < count) & (column < count)


def _joint_rows(
    kernel: _Kernel, keep: Bool[Array, "b b"], left: tuple, right: tuple
) -> Float[Array, "1 b"]:
    """Row sums of k0 over one tile, all inner products by matmul."""
    c, beta = kernel
    (x, s), (y, t) = left, right
    distance = squared_distances(x, y)
    r = c**2 + distance
    # t.(x - y) - s.(x - y), with both mixed products in one matmul.
    mixed = product(jnp.concatenate([x, s], axis=1), jnp.concatenate([t, y], axis=1).T)
    cross = mixed - jnp.sum(t * y, axis=1) - jnp.sum(s * x, axis=1)[:, None]
    inner = product(s, t.T) + 2 * beta * (cross - x.shape[1]) / r
    k0 = r**beta * (inner - 4 * beta * (beta - 1) * distance / r**2)
    return jnp.sum(jnp.where(keep, k0, 0), axis=1)[None]


def _coordinate_rows(
    kernel: _Kernel, keep: Bool[Array, "b b"], left: tuple, right: tuple
) -> Float[Array, "d b"]:
    """Row sums of every k0_j over one tile, one coordinate at a time: never (b, b, d)."""
    c, beta = kernel
    r = c**2 + squared_distances(left[0], right[0])
    power = jnp.where(keep, r**beta, 0)
    first = 2 * beta * power / r
    second = 4 * beta * (beta - 1) * power / r**2

    def one(columns):
        x, s, y, t = columns
        delta = x[:, None] - y
        cross = delta * (t - s[:, None])
        k0 = s[:, None] * t * power + (cross - 1) * first - delta**2 * second
        return jnp.sum(k0, axis=1)

    return lax.map(one, tuple(a.T for a in left + right))


def _compensated_add(
    total: tuple[Float[Array, "m b"], Float[Array, "m b"]], term: Float[Array, "m b"]
) -> tuple[Float[Array, "m b"], Float[Array, "m b"]]:
    """Add to an unevaluated sum (value, error) without losing the rounding error (Knuth)."""
    value, error = total
    new = value + term
    taken = new - value
    return new, error + ((value - (new - taken)) + (term - taken))


def _default_block(count: int) -> int:
    """Equal tiles of at most `_DEFAULT_BLOCK` draws, so that little is padded."""
    return math.ceil(count / math.ceil(count / _DEFAULT_BLOCK))


def _matrix(tree: Any, name: str, change: Callable = lambda leaf: leaf) -> Float[Array, "k d"]:
    """Ravel every draw of a pytree with a leading draw axis, each leaf changed before."""
    leaves = jax.tree_util.tree_leaves(tree)
    try:
        leaves = [jnp.asarray(change(_checks.unwrapped(leaf))) for leaf in leaves]
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a pytree of arrays") from error
    shapes = [leaf.shape for leaf in leaves]
    if not leaves or any(not shape or shape[0] != shapes[0][0] for shape in shapes):
        raise ValueError(f"{name} needs one leading draw axis on every leaf, got shapes {shapes}")
    dtype = float_dtype(*leaves)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"{name} must be real, got dtype {dtype}")
    rows = [leaf.reshape(len(leaf), math.prod(leaf.shape[1:])) for leaf in leaves]
    return jnp.concatenate([row.astype(dtype) for row in rows], axis=1)


def _warn_of_chains(positions: Any, count: int) -> None:
    """Warn of an array with axes that may be (chain, draw, ...), and of leaves with few draws."""
    shape = np.shape(positions) if jax.tree_util.all_leaves([positions]) else ()
    second = {np.shape(leaf)[1:2] for leaf in jax.tree_util.tree_leaves(positions)}
    if len(shape) > 2:
        warnings.warn(
            f"positions of shape {shape} are taken for {count} draws of {math.prod(shape[1:])} "
            "numbers: of (chain, draw, ...) reshape the first two axes into one, and where draws "
            "are matrices let positions.reshape(len(positions), -1) say so",
            stacklevel=3,
        )
    elif count <= _FEW and len(second) == 1 and second.pop() > (_FEW,):
        warnings.warn(
            f"positions have {count} draws, as many as there may be chains: of (chain, draw, ...) "
            "reshape the first two axes into one",
            stacklevel=3,
        )


def _check_match(positions: Any, scores: Any) -> None:
    structures = [jax.tree_util.tree_structure(tree) for tree in (positions, scores)]
    if structures[0] != structures[1]:
        raise ValueError(
            f"scores must have the structure of positions, {structures[0]}, got {structures[1]}"
        )
    want, got = (
        [jnp.shape(leaf) for leaf in jax.tree_util.tree_leaves(tree)]
        for tree in (positions, scores)
    )
    if want != got:
        raise ValueError(f"scores must have the shapes of positions, {want}, got {got}")


def _check_options(
    c: Any, beta: Any, kind: str, statistic: str, block_size: int | None, count: int
) -> None:
    _checks.choice("kind", kind, ("joint", "coordinate"))
    _checks.choice("statistic", statistic, ("v", "u"))
    least = 2 if statistic == "u" else 1
    if count < least:
        raise ValueError(f"positions needs at least {least} draws, got {count}")
    if block_size is not None:
        _checks.whole("block_size", block_size)
    _check_scalar("c", c, "positive and finite", lambda v: 0 < v < math.inf)
    _check_scalar("beta", beta, "in (-1, 0)", lambda v: -1 < v < 0)


def _check_scalar(name: str, value: Any, wants: str, holds: Any) -> None:
    _checks.number(name, value)
    if jnp.ndim(value):
        raise ValueError(f"{name} must be a scalar, got shape {jnp.shape(value)}")
    if not _checks.is_concrete(value):
        return  # traced: the caller's jit or vmap chose it
    number = float(value)
    if not holds(number):
        raise ValueError(f"{name} must be {wants}, got {number}")
