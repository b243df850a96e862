"""Answers, yes or no, whose log odds add up from several features of an item."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import _checks
from .._checks import real, scalar
from ..arrays import product
from . import _inputs
from .explicit_features import ExplicitFeatures


class LinearLogistic(ExplicitFeatures):
    """Answers, yes or no, whose log odds add up from the features of an item.

        x_nd ~ Bernoulli(1 / (1 + exp(-a_nd))),   a_nd = b_d + sum_k Z_nk theta_kd,
        theta_kd ~ N(0, s^2).

    Nothing is conjugate: theta is part of the chain and moves as of `FeatureLikelihood`.

    Args:
        dim: D, the number of answers of an item.
        feature_scale: s > 0.
        intercept: b, a number or of shape (D,): the log odds of an item without features.
        step_size: of the leapfrog steps, in units of theta.
        num_steps: how many of them.

    Raises:
        ValueError: if a number is out of its range; at the start of a run, if items are no rows of
            D answers.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax.bnp import BetaBernoulli, LinearLogistic, hybrid_features
        >>> family = LinearLogistic(dim=3, feature_scale=2.0, intercept=-1.0)
        >>> answers = jnp.array([[1, 1, 0], [0, 0, 1], [1, 1, 0]])
        >>> kernel = hybrid_features(BetaBernoulli(1.0), family, capacity=4)
        >>> state = kernel.init(jax.random.key(0), None, answers)
        >>> state.position.shared["parameters"].shape
        (4, 3)

    Reference:
        Nand, Bouchard-Cote and Campbell (2020), whose sampler needs no conjugacy. With the logistic
        link, Miller, Griffiths and Jordan (2009), Nonparametric latent feature models for link
        prediction, in which pairs of features add up.
    """

    dim: int = eqx.field(static=True)
    feature_scale: Float[Array, ""] = eqx.field(converter=scalar("feature_scale"), default=1.0)
    intercept: Float[Array, ""] | Float[Array, " D"] = eqx.field(
        converter=real("intercept"), default=0.0
    )

    def __check_init__(self):
        _checks.whole("dim", self.dim)
        _checks.positive("feature_scale", self.feature_scale)
        _inputs.vector("intercept", self.intercept, self.dim)

    def log_item(
        self, params: Float[Array, "K D"], entries: Int[Array, " K"], item: Any
    ) -> Float[Array, ""]:
        log_odds = self.intercept + product(entries.astype(params.dtype), params)
        yes = _inputs.row(item, self.dim).astype(params.dtype)
        # with the sign of the answer: a difference of large terms would cancel
        return jnp.sum(jax.nn.log_sigmoid((2 * yes - 1) * log_odds))

    def log_theta(self, theta: Float[Array, " D"]) -> Float[Array, ""]:
        return -jnp.sum((theta / self.feature_scale) ** 2) / 2

    def draw_theta(self, key: Any) -> Float[Array, " D"]:
        return self.feature_scale * jax.random.normal(key, (self.dim,), self.feature_scale.dtype)

    def check(self, data: Any) -> None:
        _inputs.check_rows(data, self.dim, answers=True)
        if _checks.is_concrete(data):
            rows = np.asarray(data)
            other = rows[(rows != 0) & (rows != 1)]
            if other.size:
                raise ValueError(f"data must be answers, 0 or 1, got {other[0]}")
