"""Poisson variates, exact in law at every rate, also at large rates in float32."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int32

from .. import _checks
from ..count_densities import phi
from ._rejection import first_accepted
from .words import symmetric, uniform, word_keys, word_pair

_LARGE = 10.0  # the transformed rejection is proved for rates of at least this
_FIRST_STEPS, _ALL_STEPS = 16, 48
_SMALL = 1e-2  # below it the search is from above: what is left of 1 has few digits


def _stirling_gap(k: int) -> float:
    """log k! - k log k + k."""
    return math.lgamma(k + 1) - (k * math.log(k) - k if k else 0.0)


_STIRLING_TABLE = tuple(_stirling_gap(k) for k in range(16))


def poisson(key: jax.Array, rate: ArrayLike) -> Int32[Array, "..."]:
    """Draw from the Poisson distribution.

    P(k) = exp(-rate) rate^k / k!. Rates below 10 invert the distribution function by sequential
    search; larger ones use transformed rejection, with the acceptance ratio from

        log P(k) = -rate phi((k - rate) / rate) - (log k! - k log k + k),
        phi(y) = (1 + y) log(1 + y) - y,

    whose terms are small where k is likely: k log(rate) - rate - log k! cancels in float32.

    Args:
        key: JAX random key of any kind, typed or raw.
        rate: mean, at least 0, any array shape. Where it is negative or NaN the draw is -1.

    Returns:
        int32 draws of the shape of `rate`; counts of 2^31 - 1 and more are given as 2^31 - 1.
        Draw i depends only on the key, the flat index i and rate_i.

    Raises:
        TypeError: `rate` is complex.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> poisson(jax.random.key(0), jnp.array([0.0, -1.0])).tolist()
        [0, -1]

    Reference:
        Hormann (1993), "The transformed rejection method for generating Poisson random
        variables", algorithm PTRS. Departures: its squeezes are left out (they only save time
        where code branches), and the ratio is the saddle-point form of Loader (2000).
    """
    _checks.random_key(key)
    return _draw(key, _checks.numbers("rate", rate))


@jax.jit
def _draw(key, rate):
    most = jnp.iinfo(jnp.int32).max
    usable, huge = rate >= 0, rate >= 2.0**31
    (word_key,) = word_keys(key, 1)
    parts = poisson_parts(word_key, jnp.where(usable & ~huge, rate, 0).ravel())
    base, offset = (part.astype(jnp.int32).reshape(rate.shape) for part in parts)
    count = jnp.where(huge | (offset > most - base), most, base + offset)
    return jnp.where(usable, count, -1)


def poisson_parts(key, rate: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Whole numbers, as floats of shape (n,), whose sum is Poisson: one cipher key, rate >= 0.

    They are kept apart because their sum need not be exact in float32.
    """
    lane = jnp.arange(rate.size, dtype=jnp.uint32)
    first = _search(_search_uniform(key, lane, rate), rate, _FIRST_STEPS)
    first = jnp.where(rate < _LARGE, first, jnp.nan)
    offset = first_accepted(first, partial(_attempt, key), rate)
    return jnp.where(rate < _LARGE, 0, jnp.floor(rate)), offset


def _attempt(key, lane, count, rate):
    """One round for every lane: the offset, or NaN where it is rejected."""
    u = _search_uniform(key, lane, rate)
    by_search = _search(u, jnp.minimum(rate, _LARGE), _ALL_STEPS)
    by_rejection = _transformed_rejection(key, lane, count, jnp.maximum(rate, _LARGE))
    return jnp.where(rate < _LARGE, by_search, by_rejection)


def _search_uniform(key, lane, rate):
    return uniform(word_pair(key, lane, 0, rate.dtype)[0], rate.dtype)


def _search(u, rate, steps):
    """Number of k with u > P(X <= k); NaN where a short search has not ended."""
    term = total = jnp.exp(-rate)
    k = jnp.zeros_like(rate)
    for j in range(1, steps + 1):
        # Past the mode, terms below rounding end the search: the sum itself may stop short of 1.
        go_on = (u > total) & ((term > jnp.finfo(rate.dtype).eps / 8) | (rate > j))
        k = jnp.where(go_on, k + 1, k)
        term = term * (rate / j)
        total = total + term
    k = jnp.where(rate < _SMALL, _rare(u, rate), k)
    return k if steps == _ALL_STEPS else jnp.where(k < steps, k, jnp.nan)


def _rare(u, rate):
    """Number of k with u <= P(X > k), at rates below .01: u is fine near 0, as these are.

    Up to 4, since P(X > 4) is below 1e-12.
    """
    tail, count, terms = jnp.zeros_like(rate), jnp.zeros_like(rate), [jnp.exp(-rate) * rate]
    for j in range(2, 5):
        terms.append(terms[-1] * (rate / j))
    for term in reversed(terms):  # the smallest first
        tail = tail + term
        count = count + (u <= tail)
    return count


def _transformed_rejection(key, lane, count, rate):
    """k - floor(rate) where round `count` of PTRS accepts, else NaN; rate >= 10."""
    words = word_pair(key, lane, count, rate.dtype)
    u, v = symmetric(words[0], rate.dtype) / 2, uniform(words[1], rate.dtype)
    b = 0.931 + 2.53 * jnp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    edge = 0.5 - jnp.abs(u)
    whole = jnp.floor(rate)
    fraction = rate - whole
    offset = jnp.floor((2 * a / edge + b) * u + (fraction + 0.43))
    log_hat = jnp.log(v * inverse_alpha / (a / edge**2 + b))
    accept = (offset >= -whole) & (log_hat <= _log_probability(offset, whole, fraction))
    return jnp.where(accept, offset, jnp.nan)


def _log_probability(offset, whole, fraction):
    """log P(whole + offset) under the rate whole + fraction."""
    rate, k = whole + fraction, jnp.maximum(whole + offset, 0)
    y = jnp.maximum((offset - fraction) / rate, -1)
    return -rate * phi(y) - _log_stirling_gap(k)


def _log_stirling_gap(k):
    """log k! - k log k + k, for whole k >= 0."""
    table = jnp.asarray(_STIRLING_TABLE, k.dtype)
    few = jnp.minimum(k, len(_STIRLING_TABLE) - 1).astype(jnp.int32)
    q = 1 / jnp.maximum(k, len(_STIRLING_TABLE))
    tail = q * (1 / 12 - q**2 * (1 / 360 - q**2 * (1 / 1260 - q**2 / 1680)))
    series = 0.5 * jnp.log(2 * math.pi / q) + tail
    return jnp.where(k < len(_STIRLING_TABLE), table[few], series)
