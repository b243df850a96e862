"""Gaussian rows with unknown means and precisions, a coordinate each: densities and draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from ..arrays import as_indices
from ..random import log_gamma


class RowPrior(NamedTuple):
    """The prior of rows, N(mean, diag(exp(-log_precision))).

    Example:
        >>> import jax.numpy as jnp
        >>> prior = RowPrior(mean=jnp.zeros(2), log_precision=jnp.log(jnp.array([1.0, 4.0])))
        >>> jnp.exp(-prior.log_precision).round(4).tolist()  # the variances
        [1.0, 0.25]
    """

    mean: Float[Array, " k"]
    log_precision: Float[Array, " k"]


class RowHyperprior(eqx.Module):
    """lambda_l ~ Gamma(shape, rate) and mu_l ~ N(mean, 1 / lambda_l), the prior of a `RowPrior`."""

    mean: Float[Array, ""]
    shape: Float[Array, ""]
    rate: Float[Array, ""]

    def log_density(self, prior: RowPrior) -> Float[Array, ""]:
        """In the coordinates of a `RowPrior`, up to a constant: with the Jacobian of log lambda."""
        squares = (prior.mean - self.mean) ** 2
        linear = (self.shape + 0.5) * prior.log_precision
        return jnp.sum(linear - jnp.exp(prior.log_precision) * (self.rate + squares / 2))

    def draw(self, key: Any, rows: Float[Array, "n k"]) -> RowPrior:
        """Given rows N(mu, diag(lambda)^-1), lambda of its law with mu integrated out, then mu."""
        number = rows.shape[0]
        average = jnp.mean(rows, axis=0)
        within = jnp.sum((rows - average) ** 2, axis=0)
        between = number / (number + 1) * (average - self.mean) ** 2
        precision_key, mean_key = jax.random.split(key)
        shape = jnp.full_like(average, self.shape + number / 2)
        log_precision = log_gamma(precision_key, shape)
        log_precision -= jnp.log(self.rate + (within + between) / 2)
        scale = jnp.exp(-log_precision / 2) / jnp.sqrt(number + 1)
        middle = (self.mean + number * average) / (number + 1)
        noise = jax.random.normal(mean_key, middle.shape, middle.dtype)
        return RowPrior(middle + scale * noise, log_precision)


def row_log_density(prior: RowPrior, rows: Float[Array, "n k"]) -> Float[Array, ""]:
    """The log density of the rows given their prior, up to a constant."""
    squares = jnp.sum((rows - prior.mean) ** 2, axis=0)
    log_precision = prior.log_precision
    return 0.5 * jnp.sum(rows.shape[0] * log_precision - jnp.exp(log_precision) * squares)


def rows_of(
    factor: Float[Array, "rows k"], index: Integer[Array | np.ndarray, "*n"]
) -> Float[Array, "*n k"]:
    """Those of the indices."""
    return factor[as_indices(index, len(factor))]


def summed_rows(
    factor: Float[Array, "rows k"],
    index: Integer[Array | np.ndarray, " n"],
    terms: Float[Array, "n k"],
) -> Float[Array, "rows k"]:
    """The sum of the terms of each of a factor's rows."""
    index = as_indices(index, len(factor))
    return jnp.zeros_like(factor).at[index].add(terms.astype(factor.dtype), mode="clip")
