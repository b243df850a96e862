"""The exact transition of the Cox-Ingersoll-Ross process, in log space."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .. import _checks
from .gamma import gamma_parts
from .poisson import poisson_parts
from .words import normal, word_keys, word_pair


def cir(
    key: jax.Array,
    log_theta: ArrayLike,
    shape: ArrayLike,
    h: ArrayLike,
    *,
    minimum_shape: float = 0.0,
) -> Float[Array, "..."]:
    """Draw log theta(t + h) given log theta(t) for d theta = (a - theta) dt + sqrt(2 theta) dW.

    With b = 1 - exp(-h) and lam = 2 theta exp(-h) / b, theta' = (b/2) chi2(2a, lam), drawn as

        a >= 1/2:  theta' = (b/2) [(xi + sqrt(lam))^2 + 2 Gamma(a - 1/2)],   xi ~ N(0, 1)
        a <  1/2:  theta' = b Gamma(a + P),                                  P ~ Poisson(lam / 2)

    so that E = theta exp(-h) + a b and Var = 2 theta (exp(-h) - exp(-2h)) + a b^2. The
    stationary law is Gamma(a, 1), reached in one step at h = inf.

    Args:
        key: JAX random key of any kind, typed or raw.
        log_theta: log theta(t); any finite value, also where theta underflows.
        shape: a > 0. Elsewhere (and at NaN) the draw is NaN.
        h: time step, at least 0; inf is allowed, 0 leaves theta as it is, less gives NaN.
        minimum_shape: static promise that no shape is less. At 1/2 and more nothing is compiled
            for small shapes, and shapes below 1/2 give NaN.

    Returns:
        log theta(t + h), of the broadcast shape and the joint floating-point type of the three.

    Raises:
        TypeError: an argument is complex, or `minimum_shape` is not a number.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> draw = cir(jax.random.key(0), jnp.zeros((2, 3)), jnp.array([0.1, 0.5, 100.0]), 0.1)
        >>> draw.shape, bool(jnp.isfinite(draw).all())
        ((2, 3), True)

    Reference:
        Baker et al. (2018), "Large-scale stochastic sampling from the probability simplex".
        Departures: log space throughout; no Poisson variate for a >= 1/2; where theta' is within
        rounding of a deterministic flow (lam / 2 > 1e15) small shapes use the first line too.
    """
    if not isinstance(minimum_shape, int | float):
        raise TypeError(f"minimum_shape must be a Python number, got {type(minimum_shape)}")
    _checks.random_key(key)
    named = {"log_theta": log_theta, "shape": shape, "h": h}
    arrays = [_checks.numbers(name, value) for name, value in named.items()]
    _checks.fitting(**dict(zip(named, arrays, strict=True)))
    dtype = jnp.result_type(*arrays)
    return _draw(key, *(x.astype(dtype) for x in arrays), above=minimum_shape >= 0.5)


@partial(jax.jit, static_argnames="above")
def _draw(key, log_theta, a, h, above):
    out_shape = jnp.broadcast_shapes(log_theta.shape, a.shape, h.shape)
    log_b = jnp.log(-jnp.expm1(-jnp.where(h > 0, h, 1)))
    flat = (jnp.broadcast_to(x, out_shape).ravel() for x in (log_theta, a, h, log_b))
    log_theta, a, h, log_b = flat
    usable = (a >= 0.5 if above else a > 0) & (a < jnp.inf) & ~jnp.isnan(log_theta)
    rule = _shifted_normal if above else _any_shape
    draw = rule(word_keys(key, 4), log_theta, jnp.where(usable, a, 1), h, log_b)
    draw = jnp.where(h > 0, draw, jnp.where(h == 0, log_theta, jnp.nan))
    return jnp.where(usable, draw, jnp.nan).reshape(out_shape)


def _shifted_normal(keys, log_theta, a, h, log_b):
    """The rule for a >= 1/2. Gamma(0) = 0 is a shape too small for its draw to count."""
    d, rest = gamma_parts(keys[:2], jnp.maximum(a - 0.5, 1e-30))
    square = _log_half_square(keys[2], log_theta, h, log_b)
    return _log_sum(*square, log_b + jnp.log(d) + rest)


def _any_shape(keys, log_theta, a, h, log_b):
    """Both rules, with one Gamma draw a lane, of the shape that its rule calls for."""
    log_rate = log_theta - h - log_b
    mixed = (a < 0.5) & (log_rate < 34.5)
    base, offset = poisson_parts(keys[3], jnp.where(mixed, jnp.exp(log_rate), 0))
    k = jnp.where(mixed, a + (base + offset), jnp.maximum(a - 0.5, 1e-30))
    d, rest = gamma_parts(keys[:2], k)
    total = log_b + jnp.log(d) + rest
    square = _log_half_square(keys[2], log_theta, h, log_b)
    return jnp.where(mixed, total, _log_sum(*square, total))


def _log_half_square(key, log_theta, h, log_b):
    """log of (b/2) (xi + sqrt(lam))^2, finite, in two parts: one of size one, and an increment."""
    dtype = log_theta.dtype
    xi = normal(word_pair(key, jnp.arange(log_theta.size, dtype=jnp.uint32), 0, dtype)[0], dtype)
    log_half_b = log_b - jnp.log(2.0).astype(dtype)
    root = jnp.exp(0.5 * (log_theta - h - log_half_b))
    # Where the drift dominates, its logarithm is added, not recovered from a rounded square.
    far = root > 1
    factor = jnp.where(far, 1 + xi / root, xi + root)
    factor = jnp.maximum(jnp.abs(factor), jnp.finfo(dtype).eps / 4)
    return jnp.where(far, log_theta, log_half_b), jnp.where(far, -h, 0) + 2 * jnp.log(factor)


def _log_sum(base, increment, other):
    """log(e^(base + increment) + e^other), with all increments added up before they meet `base`.

    A large log theta is rounded in steps longer than the drift of a short time: rounded one by
    one, -h and what the other term adds would become whole numbers of them.
    """
    gap = other - (base + increment)
    added = jnp.log1p(jnp.exp(-jnp.abs(gap)))
    return jnp.where(gap <= 0, base + (increment + added), other + added)
