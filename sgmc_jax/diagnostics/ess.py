"""Effective sample size: rank-normalised, plain and by batch means."""

import math
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float
from scipy.fft import next_fast_len

from .. import _checks
from ._ranks import map_draws, per_parameter, rank_normalise, split_chains


def ess(x: Any, *, kind: Literal["bulk", "mean", "batch_means"] = "bulk") -> Any:
    r"""Effective sample size of every parameter.

    ESS = S / tau for S draws in all, with tau at least 1 / log10(S).

    - "mean": chains are halved; rho_t = 1 - (W - mean acov_t) / var_plus from the autocovariances
      of the half chains, their within variance W and the pooled var_plus. Pair sums
      P_k = rho_2k + rho_2k+1 are cut at their first non-positive term J and made non-increasing:
      tau = -1 + 2 sum_{k<J} P_k + max(rho_2J, 0).
    - "bulk": the same of the normal scores of the pooled average ranks; finite for any tails.
    - "batch_means": batches of length b = floor(sqrt(draws)) within the whole chains;
      tau = b var(batch means) / var(x), both about the pooled mean. O(draws), and rougher.

    Args:
        x: Draws, shape (chain, draw, ...), or a pytree of such arrays; at least 4 draws.
        kind: "bulk", "mean" or "batch_means".

    Returns:
        Effective sample size, shape (...), or a pytree of such. The number of draws for a
        constant parameter (range below 1e-15), less a chain's middle one where these are odd and
        halved; 0 by batch means for one that is constant in all batches and not before; NaN for one
        with a non-finite draw.

    Raises:
        TypeError: if a leaf is not a real array.
        ValueError: if a leaf lacks the two leading axes or has fewer than 4 draws, or `kind` is
            unknown.

    Example:
        >>> import jax
        >>> from sgmc_jax.diagnostics import ess
        >>> x = jax.random.normal(jax.random.key(0), (4, 1000))
        >>> bool(3000 < ess(x) < 5000), bool(ess(x.repeat(10, axis=1)) < 5000)
        (True, True)

    Reference:
        Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), as ArviZ's method="bulk" and
        "mean"; Geyer (1992) for the truncation; Argon & Andradottir (2006) for batch means of
        several chains. ArviZ lets infinite draws through and returns NaN below 4 draws; here they
        give NaN and an error. Batch means drop the oldest draws that fill no batch.
    """
    _checks.choice("kind", kind, sorted(_ESTIMATES))
    return map_draws(partial(_ess, kind=kind), x)


@partial(jax.jit, static_argnames="kind")
def _ess(x: Float[Array, "chain draw *shape"], kind: str) -> Float[Array, "*shape"]:
    return per_parameter(_ESTIMATES[kind], x)


def _bulk(x: Float[Array, "chain draw"]) -> Float[Array, ""]:
    return _autocovariance_ess(rank_normalise(split_chains(x)))


def _mean(x: Float[Array, "chain draw"]) -> Float[Array, ""]:
    return _autocovariance_ess(split_chains(x))


def _batch_means(x: Float[Array, "chain draw"]) -> Float[Array, ""]:
    chains, draws = x.shape
    length = math.isqrt(draws)
    used = x[:, draws % length :]
    y, still = _standardise(used)
    means = y.reshape(chains, -1, length).mean(axis=-1)
    tau = length * jnp.var(means, ddof=1) / jnp.var(y, ddof=1)
    # one that has moved, and stands still since, tells next to nothing
    return _from_tau(jnp.where(still, jnp.inf, tau), _standardise(x)[1], x.size)


def _autocovariance_ess(x: Float[Array, "chain draw"]) -> Float[Array, ""]:
    y, constant = _standardise(x)
    return _from_tau(_geyer(_autocorrelation(y)), constant, x.size)


def _standardise(
    x: Float[Array, "chain draw"],
) -> tuple[Float[Array, "chain draw"], Bool[Array, ""]]:
    """Shift and scale to a range of one (float32 needs it), and whether `x` is constant."""
    low, high = jnp.min(x), jnp.max(x)
    width = high - low
    centred = x - (0.5 * low + 0.5 * high)
    return centred / jnp.where(width > 0, width, 1), width < 1e-15


def _from_tau(tau: Float[Array, ""], constant: Bool[Array, ""], size: int) -> Float[Array, ""]:
    value = size / jnp.maximum(tau, 1 / math.log10(size))
    return jnp.where(constant, size, value)


def _autocorrelation(x: Float[Array, "chain draw"]) -> Float[Array, " draw"]:
    """Combined autocorrelation at every lag: chains that disagree count as correlated."""
    chains, draws = x.shape
    means = jnp.mean(x, axis=1)
    acov = _mean_autocovariance(x - means[:, None])
    within = acov[0] * draws / (draws - 1)
    var_plus = acov[0] + (jnp.var(means, ddof=1) if chains > 1 else 0)
    return (1 - (within - acov) / var_plus).at[0].set(1)


def _mean_autocovariance(x: Float[Array, "chain draw"]) -> Float[Array, " draw"]:
    """Autocovariance averaged over chains: the mean of the power spectra, transformed back once."""
    draws = x.shape[1]
    length = next_fast_len(2 * draws, real=True)
    transformed = jnp.fft.rfft(x, n=length)
    power = jnp.mean(transformed.real**2 + transformed.imag**2, axis=0)
    return jnp.fft.irfft(power, n=length)[:draws] / draws


def _geyer(rho: Float[Array, " draw"]) -> Float[Array, ""]:
    """Autocorrelation time by Geyer's initial monotone sequence, cut where ArviZ cuts it."""
    draws = rho.shape[0]
    even, odd = rho[0 : draws - draws % 2 : 2], rho[1::2]
    pairs = even + odd
    index = jnp.arange(pairs.size)
    # The first pair that is not positive, or that reaches the last usable lag.
    stop = ~(pairs > 0) | (2 * index + 1 >= draws - 3)
    cut = jnp.argmax(stop)
    monotone = jnp.where(index < cut, lax.cummin(pairs), 0)
    kept = (even[cut] > 0) | (pairs[cut] >= 0) | (cut == 0)
    tau = -1 + 2 * jnp.sum(monotone) + jnp.where(kept, even[cut], 0)
    return jnp.where(jnp.isnan(rho[1]), jnp.nan, tau)


_ESTIMATES = {"bulk": _bulk, "mean": _mean, "batch_means": _batch_means}
