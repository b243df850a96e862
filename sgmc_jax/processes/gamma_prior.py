"""Gamma priors of masses and concentrations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import _checks
from ..random import gamma, log_beta


def gamma_prior(name: str) -> Callable[[Any], tuple[Float[Array, ""], Float[Array, ""]] | None]:
    """The converter of a field of that name, a gamma prior's shape and rate."""
    return partial(_checks.positive_pair, name, parts="(shape, rate)")


def redraw_concentration(
    key: Any, old: Float[Array, ""], prior: Any, active: Int[Array, ""], size: Int[Array, ""]
) -> Float[Array, ""]:
    """The concentration given that `size` points form `active` clusters, from a gamma prior.

    With eta ~ Beta(a + 1, n), a mixture of Gamma(s + K, r - log eta) and Gamma(s + K - 1, .); of no
    points, the prior.
    """
    shape, rate = prior
    size, active = size.astype(old.dtype), active.astype(old.dtype)
    beta_key, pick_key, gamma_key = jax.random.split(key, 3)
    none, size = size == 0, jnp.maximum(size, 1)
    log_eta = jnp.where(none, 0, log_beta(beta_key, old + 1, size)[0])
    odds = (shape + active - 1) / (size * (rate - log_eta))
    one_more = none | (jax.random.uniform(pick_key, dtype=old.dtype) * (1 + odds) < odds)
    drawn = gamma(gamma_key, shape + (active - 1 + one_more)) / (rate - log_eta)
    return at_least_tiny(drawn, old.dtype)


def at_least_tiny(drawn: Float[Array, ""], dtype: Any) -> Float[Array, ""]:
    """A gamma draw, at least the smallest number: of a small shape it underflows to 0 else."""
    return jnp.maximum(drawn.astype(dtype), jnp.finfo(dtype).tiny)
