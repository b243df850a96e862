"""The exponential of small matrices, by products alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from .products import product

_MOST_SQUARINGS = 40


def expm(a: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """exp(A): Taylor's polynomial of degree 8 of B / 2^s, four products, then s squarings.

    B is A less the mean m of its diagonal, and F = exp(B / 2^i) - I is what is squared,
    F <- 2 F + F^2: beside I its roundings would be those of I. exp(A) = e^m (I + F), to some
    roundings of its largest entry. s is one for all matrices of an array, such that the remainder
    of the largest is rounding; a flow's are small, and s is 0, 1 or 2. `jax.scipy.linalg.expm`
    solves linear systems, and has five branches of which a GPU runs all.

    Args:
        a: matrices, float32 or float64.

    Example:
        >>> import jax.numpy as jnp
        >>> expm(jnp.array([[0.0, -jnp.pi / 2], [jnp.pi / 2, 0.0]])).round(4).tolist()
        [[0.0, -1.0], [1.0, 0.0]]

    Reference:
        Higham (2008), Functions of matrices, sections 10.3 and 10.7.3; Paterson and Stockmeyer
        (1973).
    """
    unit = jnp.eye(a.shape[-1], dtype=a.dtype)
    mean = jnp.mean(jnp.diagonal(a, axis1=-2, axis2=-1), axis=-1)[..., None, None]
    return jnp.exp(mean) * (unit + _less_unit(a - mean * unit))


@jax.custom_jvp
def _less_unit(a: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """exp(A) - I."""
    f, squarings = _taylor(a)
    return lax.fori_loop(0, squarings, lambda i, f: _square(f), f)


@_less_unit.defjvp
def _derivative(
    primals: tuple, tangents: tuple
) -> tuple[Float[Array, "*b n n"], Float[Array, "*b n n"]]:
    """A loop of unknown length has no reverse derivative: this one has the most, and skips."""

    def skipping(a):
        f, squarings = _taylor(a)
        step = lambda f, i: (lax.cond(i < squarings, _square, lambda f: f, f), None)
        return lax.scan(step, f, jnp.arange(_MOST_SQUARINGS))[0]

    return jax.jvp(skipping, primals, tangents)


def _taylor(a: Float[Array, "*b n n"]) -> tuple[Float[Array, "*b n n"], Int[Array, ""]]:
    """exp(A / 2^s) - I, and s."""
    small = (jnp.finfo(a.dtype).eps * 362_880 / 8) ** (1 / 9)  # |R| < |A|^9 / 9! (1 + ...)
    norm = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(a), axis=-2), initial=0.0))
    wanted = jnp.ceil(jnp.log2(jnp.maximum(norm, small) / small))
    squarings = jnp.clip(jnp.where(norm < jnp.inf, wanted, 0), 0, _MOST_SQUARINGS)
    a = a * jnp.exp2(-squarings).astype(a.dtype)
    unit = jnp.eye(a.shape[-1], dtype=a.dtype)
    a2 = product(a, a)
    a3, a4 = product(a, a2), product(a2, a2)
    high = unit / 24 + a / 120 + a2 / 720 + a3 / 5_040 + a4 / 40_320
    return a + (a2 / 2 + (a3 / 6 + product(a4, high))), squarings.astype(jnp.int32)


def _square(f: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    return 2 * f + product(f, f)
