"""Counts whose means add up from several features of an item."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import _checks
from .._checks import real
from ..arrays import product
from ..count_densities import deviance
from ..random import log_gamma
from . import _inputs
from .explicit_features import ExplicitFeatures


class LinearPoisson(ExplicitFeatures):
    """Counts whose means add up from the features of an item: Poisson factorisation.

        x_nd ~ Poisson(b_d + sum_k Z_nk theta_kd),   theta_kd ~ Gamma(a_d, r_d) with the rate r_d.

    Under `GammaPoisson` an item has a feature several times. Nothing is conjugate: the parameters
    are part of the chain and move as of `FeatureLikelihood`. They are u = log theta, of density
    exp(a u - r e^u) r^a / Gamma(a), and that is what `shared["parameters"]` holds.

    Args:
        dim: D, the number of counts of an item.
        shape: a > 0, a number or of shape (D,).
        rate: r > 0, likewise.
        background: b > 0, likewise: the means of an item without features, of which a count could
            else be nothing but 0.
        step_size: of the leapfrog steps, in units of u.
        num_steps: how many of them.

    Raises:
        ValueError: if a number is out of its range; at the start of a run, if items are no rows of
            D counts.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import GammaPoisson, LinearPoisson, slice_features
        >>> family = LinearPoisson(dim=2, shape=2.0, rate=0.5, background=0.3)
        >>> counts = jnp.array([[4, 0], [1, 2], [0, 3]])
        >>> kernel = slice_features(GammaPoisson(0.5, 8.0), family, capacity=8)
        >>> state = kernel.init(jax.random.key(0), None, counts)
        >>> theta = jnp.exp(state.position.shared["parameters"])
        >>> theta.shape
        (8, 2)

    Reference:
        Titsias (2008), The infinite gamma-Poisson feature model, for entries that are counts;
        Zhou, Hannah, Dunson and Carin (2012), Beta-negative binomial process and Poisson factor
        analysis, for counts that add up. The background is ours.
    """

    dim: int = eqx.field(static=True)
    shape: Float[Array, ""] | Float[Array, " D"] = eqx.field(converter=real("shape"), default=1.0)
    rate: Float[Array, ""] | Float[Array, " D"] = eqx.field(converter=real("rate"), default=1.0)
    background: Float[Array, ""] | Float[Array, " D"] = eqx.field(
        converter=real("background"), default=0.1
    )

    def __check_init__(self):
        _checks.whole("dim", self.dim)
        for name in ("shape", "rate", "background"):
            _inputs.positive_vector(name, getattr(self, name), self.dim)

    def log_item(
        self, params: Float[Array, "K D"], entries: Int[Array, " K"], item: Any
    ) -> Float[Array, ""]:
        mean = self.background + product(entries.astype(params.dtype), jnp.exp(params))
        counts = _inputs.row(item, self.dim).astype(params.dtype)
        # less what it is at a mean of x, so that large terms do not cancel between columns
        return -jnp.sum(deviance(counts, mean))

    def log_theta(self, theta: Float[Array, " D"]) -> Float[Array, ""]:
        return jnp.sum(self.shape * theta - self.rate * jnp.exp(theta))

    def draw_theta(self, key: Any) -> Float[Array, " D"]:
        return log_gamma(key, jnp.broadcast_to(self.shape, (self.dim,))) - jnp.log(self.rate)

    def check(self, data: Any) -> None:
        _inputs.check_counts(data, self.dim)
