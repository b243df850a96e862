"""A likelihood of your own for items that have several features each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int, PyTree

from .. import _checks, _returned
from .._functions import function_of
from .explicit_features import ExplicitFeatures


class FeatureLikelihood(ExplicitFeatures):
    """A likelihood of your own for items that have several features each.

    Nothing is integrated out: the parameters of all features are part of the chain. Those of a
    newborn are drawn from the prior, and at every synchronisation all are moved together by one
    step of Hamiltonian Monte Carlo, whose momentum has the variance 1 + m_k where feature k occurs
    m_k times. So parameters must be free of constraints: of positive ones give the logarithms, and
    a prior with their Jacobian.

    Counts with the means b + sum_k z_k theta_kd, theta ~ Gamma(a, r), have with u = log theta

        log f(x | z) = sum_d x_d log(b + sum_k z_k e^u_kd) - (b + sum_k z_k e^u_kd),
        log p(u) = sum_d a u_d - r e^u_d,

    where the rate must not be left out, as it knows the entries, and log x! may be.

    Args:
        log_likelihood: `(params, entries, item) -> number`, the log density of one item, where
            `params` has K rows, one for each slot, and `entries`, (K,) whole numbers, says how
            often the item has each feature. The rows of entries that are 0 must not matter. It may
            be -infinity where a chain does not begin.
        log_prior: `theta -> number`, the log density of one feature's parameters.
        draw_prior: `key -> theta`, a draw from that density.
        step_size: of the leapfrog steps, in units of the parameters.
        num_steps: how many of them.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def log_likelihood(u, z, x):  # b = 0.1
        ...     rate = 0.1 + z @ jnp.exp(u)
        ...     return jnp.sum(x * jnp.log(rate) - rate)
        >>> family = FeatureLikelihood(
        ...     log_likelihood,
        ...     lambda u: jnp.sum(u - jnp.exp(u)),  # a = r = 1
        ...     lambda key: jnp.log(jax.random.exponential(key, (5,))),
        ... )
        >>> family.parameters(jax.random.key(0), 16, jnp.zeros((10, 5))).shape
        (16, 5)

    Reference:
        Neal (2000), Markov chain sampling methods for Dirichlet process mixture models, algorithms
        5 and 8, for parameters that are kept where nothing is conjugate.
    """

    log_likelihood: Callable = eqx.field(
        converter=function_of("log_likelihood", "params", "entries", "item")
    )
    log_prior: Callable = eqx.field(converter=function_of("log_prior", "theta"))
    draw_prior: Callable = eqx.field(converter=function_of("draw_prior", "key"))

    def check(self, data: PyTree) -> None:
        _checks.finite("data", data)

    def log_item(self, params: PyTree, entries: Int[Array, " K"], item: PyTree) -> Float[Array, ""]:
        return _returned.scalar("log_likelihood", self.log_likelihood(params, entries, item))

    def log_theta(self, theta: PyTree) -> Float[Array, ""]:
        return _returned.scalar("log_prior", self.log_prior(theta))

    def draw_theta(self, key: Any) -> PyTree:
        return self.draw_prior(key)
