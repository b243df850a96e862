"""Sums over all entries that an item may have of a few features."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from .. import _checks
from ..arrays import product

_BEYOND = 1e-3  # the probability of larger entries that is told
_NUMBERS = 2**22  # differences of items and sums of features at once


@runtime_checkable
class Law(Protocol):
    """What of `NewItems` its sums need."""

    @property
    def parameters(self) -> Any: ...
    @property
    def noise_scale(self) -> Any: ...
    @property
    def feature_scale(self) -> Any: ...
    @property
    def log_entries(self) -> Any: ...
    @property
    def log_born(self) -> Any: ...


def log_noise(law: Law) -> Callable[[Float[Array, "*n"]], Float[Array, "*n"]]:
    """log f of an item at a squared distance from its sum of features."""
    log_born, dim = law.log_born, law.parameters.shape[1]
    variance = law.noise_scale**2 + jnp.arange(len(log_born)) * law.feature_scale**2
    front = log_born - 0.5 * dim * jnp.log(2 * jnp.pi * variance)
    return lambda square: logsumexp(front - 0.5 * square[..., None] / variance, axis=-1)


@jax.jit
def log_density(law: Law, items: Float[Array, "n D"]) -> Float[Array, " n"]:
    """log p(y), all entries summed out."""
    return _by_item(law, items, lambda scores, choices: logsumexp(scores))


@jax.jit
def mean_entries(law: Law, items: Float[Array, "n D"]) -> Float[Array, "n K"]:
    """E[z | y] over all entries."""
    return _by_item(law, items, lambda scores, choices: product(jax.nn.softmax(scores), choices))


def _by_item(law: Law, items: Float[Array, "n D"], reduce: Callable) -> Array:
    """What `reduce` makes of log P(z) f(y | z) and z, for all entries z."""
    num, dim = law.parameters.shape
    log_entries, index = law.log_entries, jnp.arange(num)
    base = len(log_entries)
    choices = (jnp.arange(base**num)[:, None] // base**index) % base
    log_prior = jnp.sum(log_entries[choices, index], axis=1)
    means = product(choices.astype(items.dtype), law.parameters.astype(items.dtype))
    log_f = log_noise(law)

    def one(item: Array) -> Array:
        scores = log_prior + log_f(jnp.sum((item - means) ** 2, axis=1))
        return reduce(scores, choices.astype(scores.dtype))

    return jax.lax.map(one, items, batch_size=max(1, _NUMBERS // (base**num * dim)))


def law_of_squares(births: Array, ratio: Array, most: int) -> Float[Array, " S"]:
    """P(S = s), S = sum_j x_j^2 of Poisson(births) terms, by Panjer's recursion.

    P(s) = (births / s) sum_x x^2 P(x) P(s - x^2),   P(x) = p^x / (-x log(1 - p)).
    """
    x = jnp.arange(1, most + 1)
    each = births * x * ratio**x / -jnp.log1p(-ratio)

    def add(s: Array, law: Array) -> Array:
        before = s - x**2
        return law.at[s].set(jnp.sum(jnp.where(before < 0, 0, each * law[before])) / s)

    first = jnp.zeros(most**2 + 1, each.dtype).at[0].set(jnp.exp(-births))
    return jax.lax.fori_loop(1, len(first), add, first)


def tell_of_more(births: Any, log_born: Array) -> None:
    """Warn if new features beyond those that are summed up to are not rare, by concrete births."""
    if births is None or not _checks.is_concrete(log_born):
        return
    beyond = 1 - float(np.sum(np.exp(np.asarray(log_born, float))))
    if beyond > _BEYOND:
        warnings.warn(
            f"births must be fewer: new features beyond those that are summed, which are left out, "
            f"have a probability of {beyond:.2g}",
            stacklevel=4,
        )


def tell_of_larger(counts: Any, weights: Array, most: int) -> None:
    """Warn if entries above the largest that is thought of are not rare by concrete weights."""
    each = counts.log_prob(jnp.arange(most + 1)[:, None], jnp.log(weights))
    if counts.dtype == jnp.bool_ or not _checks.is_concrete(each):
        return
    beyond = np.max(1 - np.exp(np.logaddexp.reduce(np.asarray(each))), initial=0.0)
    if beyond > _BEYOND:
        warnings.warn(
            f"entries above most={most}, which are left out, have a probability of up to "
            f"{beyond:.2g} by their weights: give a larger most",
            stacklevel=4,
        )
