"""What regressions of labels on linear predictors have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from .. import _checks
from .._frames import without_frames
from .._types import Data, Position
from ..arrays import product
from ..linear_model import LinearModel
from ._predictive import as_draws, log_loss, mean_response


class NormalPrior(eqx.Module):
    """The log density of N(0, variance I), up to a constant."""

    variance: Float[Array, ""]

    def __call__(self, position: Float[Array, "..."]) -> Float[Array, ""]:
        return -0.5 * jnp.sum(position**2) / self.variance


class LabelRegression(LinearModel):
    """A `LinearModel` of labels 0, ..., K - 1 under the prior N(0, prior_variance I)."""

    def __init__(self, prior_variance: Any, loglik: Callable, slope: Callable):
        variance = _checks.one_number("prior_variance", prior_variance)
        _checks.positive("prior_variance", variance)
        super().__init__(NormalPrior(variance), loglik, slope)

    @property
    def prior_variance(self) -> Float[Array, ""]:
        """The prior variance of a weight."""
        assert isinstance(self.logprior_function, NormalPrior)
        return self.logprior_function.variance

    @abstractmethod
    def response(self, position: Position, x: Shaped[Array, "n d"]) -> Float[Array, "n ..."]:
        """The probabilities of each item's label at one position."""

    @abstractmethod
    def _shape(self, x: Any) -> tuple[int, ...]:
        """The shape of a position for rows such as those of x."""

    @property
    @abstractmethod
    def _num_labels(self) -> int:
        """K."""

    def check(self, position: Position, data: Data) -> None:
        x, y = _as_pair(data, type(self).__name__)
        _check_labels(y, len(x), self._num_labels)
        if isinstance(position, tuple | list | dict):
            raise TypeError(f"position must be one array, got {_checks.shown(position)}")
        if jnp.shape(position) != self._shape(x):
            raise ValueError(
                f"position must be of shape {self._shape(x)} for rows x of {x.shape[1]} numbers, "
                f"got shape {jnp.shape(position)}"
            )

    def start(self, data: tuple[Shaped[Array | np.ndarray, "n d"], Any]) -> Float[Array, "d ..."]:
        """A position to begin from: all weights zero.

        It is `start(data)` that is a position of `sample`, not `start`: it takes no key.

        Raises:
            TypeError: if `data` is no pair (x, y).
        """
        if not isinstance(data, tuple | list):
            name = type(self).__name__
            raise TypeError(
                f"data must be a pair (x, y) for {name}.start, got {type(data).__name__}: it takes "
                "the data and no key, so that the position of sample is model.start(data)"
            )
        x, _ = _as_pair(data, type(self).__name__)
        return jnp.zeros(self._shape(x), jnp.result_type(x, float, jnp.float32))

    def predict(
        self, draws: Float[Array | np.ndarray, "..."], x: Shaped[Array | np.ndarray, "n d"]
    ) -> Float[Array, "n ..."]:
        """The posterior mean of each item's probabilities.

        It is scikit-learn's `predict_proba`, but of two labels the second column alone.

        Args:
            draws: positions of a sampler, on any leading axes; one position gives its own.
            x: (n, d).

        Returns:
            of each item the probability of label 1, (n,), or those of all K labels, (n, K).
        """
        x = _as_rows(x)
        return mean_response(self, as_draws(draws, self._like(x)), x)

    def log_loss(
        self,
        draws: Float[Array | np.ndarray, "..."],
        data: tuple[Shaped[Array | np.ndarray, "n d"], Any],
    ) -> Float[Array, ""]:
        """`-mean_i log p(y_i)`, where p is the posterior mean of the probability of its label."""
        x, y = _as_pair(data, type(self).__name__)
        _check_labels(y, len(x), self._num_labels)
        return log_loss(self, as_draws(draws, self._like(x)), (x, y))

    def curvature_bounds(
        self, data: tuple[Shaped[Array | np.ndarray, "n d"], Any]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """m and M such that all eigenvalues of the Hessian of -log posterior lie in [m, M].

        `m = 1 / prior_variance`, and `M = s lambda_max(X'X) + 1 / prior_variance` where s, the
        most that the curvature of an item's log likelihood in its predictor can be, is 1/4 for two
        labels and one predictor, and 1/2 for a predictor a label. With all of the data, Langevin
        steps are stable for h < 2 / M, and steps of ABOBA and its kin for h < 2 / sqrt(M).
        """
        x, _ = _as_pair(data, type(self).__name__)
        x = x.astype(jnp.result_type(x, float, jnp.float32))
        steepest = 0.25 if len(self._shape(x)) == 1 else 0.5
        low = 1 / self.prior_variance
        return low, steepest * jnp.linalg.eigvalsh(product(x.T, x))[-1] + low

    def _like(self, x: Shaped[Array, "n d"]) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self._shape(x), jnp.result_type(float))


def simulate_rows(key: Any, num_items: int, dim: int, correlation: Any) -> Float[Array, "n d"]:
    """Rows N(0, S) with S_ii = 1 and S_ij = u_ij^|i - j|, u_ij uniform on +-correlation."""
    _checks.random_key(key)
    _checks.whole("num_items", num_items)
    _checks.whole("dim", dim)
    _checks.positive("correlation", correlation, zero=True)
    shape_key, row_key = jax.random.split(key)
    u = jax.random.uniform(shape_key, (dim, dim), minval=-correlation, maxval=correlation)
    index = jnp.arange(dim)
    lower = jnp.tril(u ** jnp.abs(index[:, None] - index), -1)
    covariance = lower + lower.T + jnp.eye(dim)
    if _checks.certainly(lambda s: s <= 0, jnp.linalg.eigvalsh(covariance)[:1]):
        raise ValueError(
            f"correlation must be smaller: with {correlation} this key has drawn a covariance of x "
            "that is not positive definite"
        )
    rows = jax.random.normal(row_key, (num_items, dim))
    return product(rows, jnp.linalg.cholesky(covariance).T)


def _as_rows(x: Any) -> Shaped[Array, "n d"]:
    x = without_frames("x", x)
    _checks.arrays("x", x)
    if jnp.ndim(x) != 2:
        raise ValueError(f"x must be of shape (n, d), got shape {jnp.shape(x)}")
    return jnp.asarray(x)


def _as_pair(data: PyTree, name: str) -> tuple[Shaped[Array, "n d"], Any]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError(f"data must be a pair (x, y) for {name}, got {type(data).__name__}")
    y = without_frames("y", data[1])
    return _as_rows(data[0]), _checks.on_host("y", y) if isinstance(y, list | tuple) else y


def _check_labels(y: Any, num_items: int, num_labels: int) -> None:
    if jnp.shape(y) != (num_items,):
        raise ValueError(
            f"y must have one label an item, of shape ({num_items},), got shape {jnp.shape(y)}"
        )
    if num_labels > 2 and not jnp.issubdtype(jnp.result_type(y), jnp.integer):
        raise TypeError(f"y must be whole numbers, got {jnp.result_type(y)}")
    if _checks.certainly(lambda y: ~np.isin(y, np.arange(num_labels)), y):
        raise ValueError(f"y must be labels 0 to {num_labels - 1}, got {_stray(y, num_labels)}")


def _stray(y: Any, num_labels: int) -> Any:
    y = np.asarray(y)
    return y[~np.isin(y, np.arange(num_labels))][0]
