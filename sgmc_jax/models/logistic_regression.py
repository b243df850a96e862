"""Logistic regression."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from .. import _checks
from ..arrays import product
from ._labels import if_truth
from ._regression import LabelRegression, simulate_rows


def _loglik(predictor: Float[Array, ""], y: Shaped[Array, ""]) -> Float[Array, ""]:
    return if_truth(y) * (y * predictor - jnp.logaddexp(0.0, predictor))


def _slope(predictor: Float[Array, ""], y: Shaped[Array, ""]) -> Float[Array, ""]:
    return if_truth(y) * (y - jax.nn.sigmoid(predictor))


class LogisticRegression(LabelRegression):
    """Logistic regression: labels 0 and 1 with log odds linear in x.

        theta ~ N(0, prior_variance I),   p(y_i = 1 | x_i) = 1 / (1 + exp(-x_i' theta)).

    The data are pairs `(x, y)`, x of shape (n, d) and y of n labels; the position is theta, (d,).
    A constant column of x makes an intercept. As a `LinearModel` it costs two matrix products a
    batch, and `SAGA` keeps one number an item.

    Args:
        prior_variance: positive; sklearn's penalty C is the same number.

    Raises:
        ValueError: if the prior variance is not positive; at `sample`'s door, if labels are not 0
            or 1, or shapes do not fit.

    Example:
        >>> import jax
        >>> from sgmc_jax import Minibatch, Uniform, sample, sgld
        >>> model = LogisticRegression()
        >>> theta, data = model.simulate(jax.random.key(0), 1000, 3)
        >>> kernel = sgld(Minibatch(model, Uniform(50)), step_size=1e-3)
        >>> run = sample(jax.random.key(1), kernel, model.start(data), data, num_steps=200)
        >>> model.predict(run.trace[100:], data[0]).shape
        (1000,)
        >>> bool(model.log_loss(run.trace[100:], data) < 0.5)
        True

    Reference:
        Nemeth and Fearnhead (2021), Stochastic gradient Markov chain Monte Carlo, section 6.1. The
        bound M of `curvature_bounds` has the largest eigenvalue of X'X where they have its trace,
        and the log loss has its minus sign before the whole sum.
    """

    def __init__(self, prior_variance: Any = 10.0):
        super().__init__(prior_variance, _loglik, _slope)

    def response(self, position: Float[Array, " d"], x: Shaped[Array, "n d"]) -> Float[Array, " n"]:
        """The probability of label 1 of each item."""
        return jax.nn.sigmoid(product(x, position))

    def simulate(
        self,
        key: Any,
        num_items: int,
        dim: int,
        *,
        correlation: Any = 0.4,
        position: Float[Array, " d"] | None = None,
    ) -> tuple[Float[Array, " d"], tuple[Float[Array, "n d"], Float[Array, " n"]]]:
        """A position and data drawn from the model, x from a Gaussian.

        Args:
            key: a random key.
            num_items: n.
            dim: d.
            correlation: rho in `x_i ~ N(0, S)`, `S_ii = 1`, `S_ij = u_ij^|i - j|` with u_ij uniform
                on [-rho, rho].
            position: theta; by default drawn from the prior.

        Returns:
            `theta, (x, y)`.

        Raises:
            ValueError: if S is not positive definite, as happens for rho far above .4.
        """
        _checks.random_key(key)
        keys = jax.random.split(key, 3)
        x = simulate_rows(keys[0], num_items, dim, correlation)
        if position is None:
            position = jnp.sqrt(self.prior_variance) * jax.random.normal(keys[1], (dim,))
        y = jax.random.bernoulli(keys[2], self.response(position, x))
        return position, (x, y.astype(x.dtype))

    def _shape(self, x: Any) -> tuple[int, ...]:
        return (x.shape[1],)

    @property
    def _num_labels(self) -> int:
        return 2
