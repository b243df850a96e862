"""Von Mises-Fisher variates on the sphere, for concentrations from 0 to 1e6 and beyond."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .. import _checks
from ..bessel import log_bessel_series
from ..directional import check_directions
from ._rejection import first_accepted
from .normal import check_shape
from .words import normal, symmetric, uniform, word_keys, word_pair

_NODES = 48  # of the quadrature behind a derivative


def von_mises_fisher(
    key: jax.Array,
    mean_direction: ArrayLike,
    concentration: ArrayLike,
    shape: tuple[int, ...] = (),
) -> Float[Array, "*shape d"]:
    """Draw from the von Mises-Fisher distribution on the unit sphere of R^d.

    Density c_d(kappa) exp(kappa mu'x) with respect to the surface measure, kappa^(d/2 - 1) over
    (2 pi)^(d/2) I_{d/2-1}(kappa) being c_d. First the angle to mu is drawn: with

        b = (d-1) / (2 kappa + sqrt(4 kappa^2 + (d-1)^2)),    x0 = (1-b) / (1+b),

    and z ~ Beta((d-1)/2, (d-1)/2), the square of the tangent of half the angle is b z / (1-z),
    taken if

        log U <= (d-1) (v / (1+v) - log(1+v)),    v = x0 (1 - 2z).

    In three dimensions the distribution function of its cosine is inverted instead. The direction
    around mu is uniform.

    A draw has derivatives in mu and kappa, those of a draw of the same quantiles: with l = 1 - cos
    of the angle, of the distribution function F and the density f,

        dl / d kappa = -(dF / d kappa) / f(l) = -int_0^l (E[l'] - l') f(l') dl' / f(l),

    by quadrature, to 1e-3 of itself and mostly to 1e-5.

    Args:
        key: JAX random key of any kind, typed or raw.
        mean_direction: mu, of shape (..., d) with d >= 2: unit vectors along the last axis, which
            are normalised again.
        concentration: kappa >= 0, of a shape that broadcasts against the axes of `mean_direction`
            but the last. At 0 the law is uniform. Under a transformation, a draw is NaN where kappa
            is negative, infinite or NaN.
        shape: that of independent draws, put in front of all other axes.

    Returns:
        Unit vectors of shape `shape + batch + (d,)`, of the joint floating-point type; batch is the
        common shape of the parameters. Draw i depends only on the key, the flat index i in
        `shape + batch`, mu_i and kappa_i.

    Raises:
        TypeError: a parameter is complex, or `shape` no tuple.
        ValueError: d < 2, kappa is negative or not finite, or mu off unit length by more than 1e-3.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> x = von_mises_fisher(jax.random.key(0), jnp.array([0.0, 1.0, 0.0]), 1e6, (5,))
        >>> x.shape, bool(jnp.all(x[:, 1] > 0.999))
        ((5, 3), True)

    Reference:
        Wood (1994), "Simulation of the von Mises Fisher distribution". Departures: his test is
        written in v, which does not cancel at large kappa; z is drawn by the formula of Ulrich
        (1984), "Computer generation of distributions on the m-sphere". The derivative is that of
        Figurnov, Mohamed and Mnih (2018), "Implicit reparameterization gradients".
    """
    _checks.random_key(key)
    mean = _checks.numbers("mean_direction", mean_direction)
    kappa = _checks.numbers("concentration", concentration)
    _check(mean_direction, mean.shape, concentration)
    check_shape(shape)
    _checks.fitting(mean_direction=mean, concentration=kappa[..., None])
    dtype = jnp.result_type(mean, kappa)
    return _draw(key, mean.astype(dtype), kappa.astype(dtype), shape)


def _check(mean_direction: ArrayLike, shape: tuple[int, ...], concentration: ArrayLike) -> None:
    if not shape or shape[-1] < 2:
        raise ValueError(f"mean_direction must have a last axis of at least 2, got shape {shape}")
    _checks.positive("concentration", concentration, zero=True)
    check_directions("mean_direction", mean_direction)


@partial(jax.jit, static_argnames="shape")
def _draw(key, mean, kappa, shape):
    d = mean.shape[-1]
    shape = shape + jnp.broadcast_shapes(mean.shape[:-1], kappa.shape)
    valid = (kappa >= 0) & (kappa < jnp.inf)
    flat = jnp.broadcast_to(jnp.where(valid, kappa, 0), shape).ravel()
    keys = word_keys(key, 3)
    less, more = _angles(keys[:2], flat, d)
    less, more = less.reshape(*shape, 1), more.reshape(*shape, 1)
    around = _uniform_directions(keys[2], math.prod(shape), d - 1, mean.dtype)
    around = jnp.sqrt(less * more) * around.reshape(*shape, d - 1)
    mean = mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)
    draws = _turn(jnp.concatenate([1 - less, around], axis=-1), mean)
    return jnp.where(valid[..., None], draws, jnp.nan)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _angles(keys, kappa, d):
    """1 - cos and 1 + cos of the angles to mu, each of shape (n,)."""
    return _by_inversion(keys[0], kappa) if d == 3 else _by_rejection(keys, kappa, d)


@_angles.defjvp
def _of_the_same_quantiles(d, primals, tangents):
    _, kappa = primals
    less, more = _angles(*primals, d)
    change = _slope(d, kappa, less, more) * tangents[1]
    return (less, more), (change, -change)


def _by_rejection(keys, kappa, d):
    """The same of any dimension."""
    lane = jnp.arange(kappa.size, dtype=jnp.uint32)
    b = _envelope(kappa, d)
    attempt = partial(_attempt, keys, d)
    odds = b * first_accepted(attempt(lane, 0, b), attempt, b)
    return 2 * odds / (1 + odds), 2 / (1 + odds)


def _slope(d, kappa, less, more):
    """dl / d kappa at l = 1 - cos and 2 - l, by Gauss's rule from l to where nothing is left.

    In s = log(l / (2 - l)) the density is e^(-kappa l) (l (2 - l))^((d-1)/2); the integrals on the
    two sides of l are the same, and on that towards E[l] from l its ratio to f(l) might overflow.
    """
    mean = -jax.grad(lambda k: jnp.sum(log_bessel_series(d / 2 - 1, k, scaled=True)))(kappa)
    side = jnp.where(less < mean, -1, 1).astype(kappa.dtype)
    reach = 36 / (d - 1) + 12 / math.sqrt(d - 1)

    def node(total, pair):
        u, weight = pair
        shift = side * reach * u**2  # of s: nodes are closer where the density is large
        growth = jnp.log1p(less / 2 * jnp.expm1(shift))
        change = less * jnp.expm1(shift - growth)  # of l
        log_ratio = (d - 1) / 2 * (shift - 2 * growth) - kappa * change
        gap = side * (less - mean + change)
        return total + weight * reach * u * gap * jnp.exp(log_ratio), None

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)  # on (-1, 1)
    pairs = jnp.asarray((1 + nodes) / 2, kappa.dtype), jnp.asarray(weights, kappa.dtype)
    total = jax.lax.scan(node, jnp.zeros_like(kappa), pairs)[0]
    return -less * more / 2 * total


def _envelope(kappa, d):
    """Wood's b, between 0 and 1."""
    return (d - 1) / (2 * kappa + jnp.hypot(2 * kappa, d - 1))


def _attempt(keys, d, lane, count, b):
    """z / (1 - z) where round `count` accepts, else NaN.

    1 - 2z has the law of one coordinate of a uniform point on the sphere of R^d. Two of them are
    r (cos, sin) of a uniform angle, with 1 - r^2 = U^(2 / (d - 2)).
    """
    first, second = word_pair(keys[0], lane, count, b.dtype)
    third, _ = word_pair(keys[1], lane, count, b.dtype)
    log_u = jnp.log(uniform(first, b.dtype))
    log_rest = log_u * 2 / (d - 2) if d > 2 else jnp.full_like(b, -jnp.inf)
    r = jnp.sqrt(-jnp.expm1(log_rest))
    edge = jnp.exp(log_rest) / (2 * (1 + r))
    half_angle = jnp.pi / 2 * symmetric(second, b.dtype)
    sine, cosine = jnp.sin(half_angle), jnp.cos(half_angle)
    z, rest = edge + r * sine**2, edge + r * cosine**2
    v = (1 - b) / (1 + b) * r * (cosine - sine) * (cosine + sine)
    log_ratio = (d - 1) * (v / (1 + v) - jnp.log1p(v))
    accept = jnp.log(uniform(third, b.dtype)) <= log_ratio
    return jnp.where(accept, z / rest, jnp.nan)


def _by_inversion(key, kappa):
    """The same in three dimensions, where cos has the density exp(kappa cos)."""
    word, _ = word_pair(key, jnp.arange(kappa.size, dtype=jnp.uint32), 0, kappa.dtype)
    u = uniform(word, kappa.dtype)
    low, high = jnp.clip(kappa, 1e-18, 1), jnp.maximum(kappa, 1)
    near_uniform = -jnp.log1p((1 - u) * jnp.expm1(-2 * low)) / low
    less = jnp.where(kappa < 1, near_uniform, -jnp.log(u + (1 - u) * jnp.exp(-2 * high)) / high)
    less = jnp.clip(less, 0, 2)
    return less, 2 - less


def _uniform_directions(key, n, size, dtype):
    """Unit vectors of shape (n, size); a row depends on its place alone."""
    lane = jnp.arange(n, dtype=jnp.uint32)[:, None]
    count = jnp.arange((size + 1) // 2, dtype=jnp.uint32)
    words = word_pair(key, jnp.broadcast_to(lane, (n, count.size)), count, dtype)
    x = normal(jnp.concatenate(words, axis=1)[:, :size], dtype)
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def _turn(y, mean):
    """The reflection, or minus it, that takes the first axis to `mean`; neither cancels."""
    sign = jnp.where(mean[..., :1] < 0, -1, 1).astype(mean.dtype)
    normal_vector = mean.at[..., :1].add(sign)
    along = jnp.einsum("...i,...i->...", normal_vector, y, precision="highest")[..., None]
    along = along / (1 + jnp.abs(mean[..., :1]))
    turned = sign * (along * normal_vector - y)
    return turned / jnp.linalg.norm(turned, axis=-1, keepdims=True)  # of 10^4 products sums round
