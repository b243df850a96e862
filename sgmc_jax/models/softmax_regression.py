"""Softmax regression."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from .. import _checks
from ..arrays import product
from ._labels import if_known, log_probability
from ._regression import LabelRegression, simulate_rows


def _slope(predictor: Float[Array, " k"], y: Shaped[Array, ""]) -> Float[Array, " k"]:
    y = jnp.asarray(y, int)  # of two labels they may be truths
    own = jnp.arange(len(predictor)) == y
    slope = own.astype(predictor.dtype) - jax.nn.softmax(predictor)
    return (if_known(y, len(predictor)) * slope).astype(predictor.dtype)


class SoftmaxRegression(LabelRegression):
    """Softmax, or multinomial logistic, regression: labels 0, ..., K - 1.

        theta_jk ~ N(0, prior_variance),   p(y_i = k | x_i) = softmax_k(x_i' theta).

    The data are pairs `(x, y)`, x of shape (n, d) and y of n whole numbers; the position is theta,
    (d, K), a column a label. A number added to all columns changes the prior alone. As a
    `LinearModel` it costs two matrix products a batch, and `SAGA` keeps K numbers an item.

    Args:
        num_classes: K, at least 2.
        prior_variance: positive.

    Raises:
        ValueError: if a number is out of its range; at `sample`'s door, if labels are, or shapes do
            not fit.

    Example:
        >>> import jax
        >>> from sgmc_jax import Minibatch, Uniform, sample, sgld
        >>> model = SoftmaxRegression(3)
        >>> theta, data = model.simulate(jax.random.key(0), 1000, 2)
        >>> kernel = sgld(Minibatch(model, Uniform(50)), step_size=1e-3)
        >>> run = sample(jax.random.key(1), kernel, model.start(data), data, num_steps=20)
        >>> model.predict(run.trace, data[0]).shape
        (1000, 3)

    Reference:
        Nemeth and Fearnhead (2021), Stochastic gradient Markov chain Monte Carlo, equation 15.
    """

    num_classes: int = eqx.field(static=True)

    def __init__(self, num_classes: int, prior_variance: Any = 10.0):
        _checks.whole("num_classes", num_classes, 2)
        super().__init__(prior_variance, log_probability, _slope)
        self.num_classes = num_classes

    def response(
        self, position: Float[Array, "d k"], x: Shaped[Array, "n d"]
    ) -> Float[Array, "n k"]:
        """The probabilities of all labels of each item."""
        return jax.nn.softmax(product(x, position))

    def simulate(
        self,
        key: Any,
        num_items: int,
        dim: int,
        *,
        correlation: Any = 0.4,
        position: Float[Array, "d k"] | None = None,
    ) -> tuple[Float[Array, "d k"], tuple[Float[Array, "n d"], Int[Array, " n"]]]:
        """A position and data drawn from the model; see `LogisticRegression.simulate`."""
        _checks.random_key(key)
        keys = jax.random.split(key, 3)
        x = simulate_rows(keys[0], num_items, dim, correlation)
        if position is None:
            shape = (dim, self.num_classes)
            position = jnp.sqrt(self.prior_variance) * jax.random.normal(keys[1], shape)
        return position, (x, jax.random.categorical(keys[2], product(x, position)))

    def _shape(self, x: Any) -> tuple[int, ...]:
        return (x.shape[1], self.num_classes)

    @property
    def _num_labels(self) -> int:
        return self.num_classes
