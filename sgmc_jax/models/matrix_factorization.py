"""Bayesian probabilistic matrix factorisation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PyTree

from .. import _checks, _returned
from .._estimators import Estimate
from .._frames import without_frames
from .._types import Data, Kernel, Position
from ..combinators import draw
from ..model import Model
from ._labels import if_known
from ._predictive import as_draws, mean_response
from ._row_prior import RowHyperprior, RowPrior, row_log_density, rows_of, summed_rows

SIDES = ("users", "items")

Sides = dict[str, Float[Array, "_ k"]]  # the factors of both
Pairs = tuple[Integer[Array | np.ndarray, "*n"], Integer[Array | np.ndarray, "*n"]]


class Ratings(Model):
    """A model of ratings, whose gradients come from the rows of a batch alone."""

    @property
    @abstractmethod
    def whole(self) -> MatrixFactorization:
        """The model of factors and hyper-parameters."""

    @abstractmethod
    def factors(self, position: Position) -> Sides:
        """The factors of users and of items."""

    @abstractmethod
    def as_gradient(self, position: Position, factors: Sides) -> Position:
        """The gradient whose part in the factors is given, and elsewhere zero."""

    def response(self, position: Position, pairs: Pairs) -> Float[Array, "*n"]:
        """The mean rating of each pair (user, item) at one position."""
        users, items = self._rows(position, pairs)
        return self.whole.centre + jnp.sum(users * items, axis=-1)

    def loglik(self, position: Position, item: PyTree) -> Float[Array, ""]:
        return self._loglik_of(self._errors(position, item))

    def loglik_batch(self, position: Position, items: PyTree) -> Float[Array, " n"]:
        return self._loglik_of(self._errors(position, items))

    def weighted_sum(
        self, position: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        loglik, terms = self._terms(position, items)
        return self._estimate(position, items, weight, loglik, terms)

    def difference(
        self, position: Position, centre: Position, items: PyTree, weight: Float[Array, " n"]
    ) -> Estimate:
        # subtracted before the rows are added up, which is then done once
        gap = jax.tree.map(jnp.subtract, self._terms(position, items), self._terms(centre, items))
        return self._estimate(position, items, weight, *gap)

    def _estimate(
        self,
        position: Position,
        items: PyTree,
        weight: Float[Array, " n"],
        loglik: Float[Array, " n"],
        terms: dict[str, Float[Array, "n k"]],
    ) -> Estimate:
        factors, weight = self.factors(position), weight.astype(loglik.dtype)
        gradient = {
            side: summed_rows(factors[side], rows, weight[:, None] * terms[side])
            for side, rows in zip(SIDES, items[0], strict=True)
        }
        return Estimate(self.as_gradient(position, gradient), jnp.sum(weight * loglik))

    def _terms(
        self, position: Position, items: PyTree
    ) -> tuple[Float[Array, " n"], dict[str, Float[Array, "n k"]]]:
        """Each rating's log likelihood, and its gradient in the row of its user and its item."""
        users, rows = self._rows(position, items[0])
        error = self._errors(position, items)
        pull = (self.whole.noise_precision * error)[:, None]
        return self._loglik_of(error), {"users": pull * rows, "items": pull * users}

    def _rows(
        self, position: Position, pairs: Pairs
    ) -> tuple[Float[Array, "*n k"], Float[Array, "*n k"]]:
        factors = self.factors(position)
        return rows_of(factors["users"], pairs[0]), rows_of(factors["items"], pairs[1])

    def _errors(self, position: Position, items: PyTree) -> Float[Array, "*n"]:
        factors = self.factors(position)
        inside = [if_known(i, len(factors[side])) for side, i in zip(SIDES, items[0], strict=True)]
        return (items[1] - self.response(position, items[0])) * inside[0] * inside[1]

    def _loglik_of(self, error: Float[Array, "*n"]) -> Float[Array, "*n"]:
        precision = self.whole.noise_precision
        return 0.5 * (jnp.log(precision / (2 * jnp.pi)) - precision * error**2)


class MatrixFactorization(Ratings):
    """Bayesian probabilistic matrix factorisation: ratings as products of rows of two factors.

        R_ij ~ N(centre + U_i'V_j, 1 / alpha),   U_i ~ N(mu_U, diag(lambda_U)^-1),
        mu_Ul ~ N(mu_0, 1 / lambda_Ul),          lambda_Ul ~ Gamma(a, rate b),

    and the same for V. The data are `((user, item), rating)`, three arrays of one number a rating.
    The position is a dict: `"factors"`, a dict of `"users"`, (num_users, rank), and `"items"`, and
    `"hyper"`, a dict of two `RowPrior`, the means and the logarithms of the lambda. A minibatch is
    of ratings; the prior of all rows is exact. All of it moves by gradients, or the
    hyper-parameters are drawn exactly given the factors::

        sghmc(Minibatch(model, batcher), h)                         gradients, of the density of
                                                                    log lambda, Jacobian included

        gibbs(                                                      Gibbs
            factors=lambda rest: sghmc(Minibatch(model.given(rest["hyper"]), batcher), h),
            hyper=model.hyperparameters,
        )

    Args:
        num_users, num_items: the number of rows.
        rank: their length.
        noise_precision: alpha, positive.
        centre: what is added to all products: 0, or the mean of the ratings.
        mean: mu_0, what rows have for a mean before there is data.
        precision_prior: the pair (a, b), positive.

    Raises:
        ValueError: if a number is out of its range; at `sample`'s door, if users or items are.

    Example:
        >>> import jax, numpy as np
        >>> from sgmc_jax import Minibatch, Uniform, sample, sghmc
        >>> rng = np.random.default_rng(0)
        >>> pairs = rng.integers(0, 20, 200), rng.integers(0, 30, 200)
        >>> data = pairs, rng.integers(1, 6, 200).astype(float)
        >>> model = MatrixFactorization(20, 30, rank=3, centre=data[1].mean())
        >>> kernel = sghmc(Minibatch(model, Uniform(20)), step_size=0.01, friction=5.0)
        >>> run = sample(jax.random.key(0), kernel, model.start, data, num_steps=100)
        >>> bool(model.rmse(run.trace, data, clip=(1, 5)) < 2.0)
        True

    Reference:
        Nemeth and Fearnhead (2021), Stochastic gradient Markov chain Monte Carlo, section 6.3, and
        Salakhutdinov and Mnih (2008), Bayesian probabilistic matrix factorization. mu has the
        covariance diag(lambda)^-1, which is printed as its inverse, and the prior of a row counts
        once, whatever the batch: the published code counts that of a batch's rows N / n times.
    """

    num_users: int = eqx.field(static=True)
    num_items: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    noise_precision: Float[Array, ""]
    centre: Float[Array, ""]
    hyperprior: RowHyperprior

    def __init__(
        self,
        num_users: int,
        num_items: int,
        rank: int = 20,
        *,
        noise_precision: Any = 3.0,
        centre: Any = 0.0,
        mean: Any = 0.0,
        precision_prior: Any = (1.0, 5.0),
    ):
        sizes = {"num_users": num_users, "num_items": num_items, "rank": rank}
        for name, number in sizes.items():
            _checks.whole(name, number)
        self.num_users, self.num_items, self.rank = sizes.values()
        self.noise_precision = _checks.one_number("noise_precision", noise_precision)
        _checks.positive("noise_precision", self.noise_precision)
        self.centre = _checks.one_number("centre", centre)
        prior = _checks.positive_pair(
            "precision_prior", precision_prior, "(shape, rate)", none=False
        )
        self.hyperprior = RowHyperprior(_checks.one_number("mean", mean), *prior)

    @property
    def whole(self) -> MatrixFactorization:
        return self

    def start(self, key: Any) -> dict[str, Any]:
        """A position to begin from: small factors, means zero, precisions one."""
        _checks.random_key(key)
        shapes = self._like()["factors"]
        keys = dict(zip(SIDES, jax.random.split(key), strict=True))
        factors = {side: 0.1 * jax.random.normal(keys[side], shapes[side].shape) for side in SIDES}
        flat = RowPrior(jnp.zeros(self.rank), jnp.zeros(self.rank))
        return {"factors": factors, "hyper": {side: flat for side in SIDES}}

    def logprior(self, position: dict[str, Any]) -> Float[Array, ""]:
        hyper = position["hyper"]
        own = sum(self.hyperprior.log_density(hyper[side]) for side in SIDES)
        return own + factor_log_density(hyper, position["factors"])

    def factors(self, position: dict[str, Any]) -> Sides:
        return position["factors"]

    def as_gradient(self, position: dict[str, Any], factors: Sides) -> dict[str, Any]:
        return {"factors": factors, "hyper": jax.tree.map(jnp.zeros_like, position["hyper"])}

    def given(self, hyper: dict[str, RowPrior]) -> Factors:
        """The model of the factors alone, its position, given the hyper-parameters."""
        return Factors(self, hyper)

    def hyperparameters(self, rest: dict[str, Any]) -> Kernel:
        """The kernel of the block `hyper` of `gibbs`, an exact draw given the factors.

        Targets:
            for the rows U_1, ..., U_N of each factor and each coordinate, with m their mean,

                lambda | U     ~ Gamma(a + N / 2, b + sum_i (U_i - m)^2 / 2
                                                    + N / (N + 1) (m - mu_0)^2 / 2),
                mu | lambda, U ~ N((mu_0 + N m) / (N + 1), 1 / (lambda (N + 1))).
        """
        factors, prior = rest["factors"], self.hyperprior

        def both(key: Any, data: Data) -> dict[str, RowPrior]:
            keys = jax.random.split(key)
            return {side: prior.draw(k, factors[side]) for side, k in zip(SIDES, keys, strict=True)}

        return draw(both, streams=True)

    def predict(
        self,
        draws: PyTree,
        pairs: tuple[Integer[Array | np.ndarray, " n"], Integer[Array | np.ndarray, " n"]],
        *,
        clip: tuple[float, float] | None = None,
    ) -> Float[Array, " n"]:
        """The posterior mean of the ratings of pairs (user, item).

        Args:
            draws: positions of a sampler, on any leading axes.
            pairs: a number of a user and one of an item for each rating.
            clip: the least and the most that a rating can be, to which means are clipped.
        """
        pairs = without_frames("pairs", pairs)
        self._check_pairs(pairs)
        if not isinstance(draws, dict) or "factors" not in draws:
            raise ValueError("draws must be positions, dicts with factors")
        factors = as_draws(draws["factors"], self._like()["factors"])
        pairs = (jnp.asarray(pairs[0]), jnp.asarray(pairs[1]))
        mean = mean_response(self, {"factors": factors}, pairs)
        return mean if clip is None else jnp.clip(mean, *clip)

    def rmse(
        self, draws: PyTree, data: PyTree, *, clip: tuple[float, float] | None = None
    ) -> Float[Array, ""]:
        """The root of the mean squared error of `predict` on ratings."""
        data = without_frames("data", data)
        self._check_data(data)
        error = jnp.asarray(data[1]) - self.predict(draws, data[0], clip=clip)
        return jnp.sqrt(jnp.mean(error**2))

    def check(self, position: Position, data: Data) -> None:
        got = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.float32), position)
        if not _returned.same_form(got, self._like()):
            raise ValueError(
                f"position must be {_returned.describe(self._like())}, got "
                f"{_returned.describe(position)}: see `start`"
            )
        self._check_data(data)

    def _like(self) -> dict[str, Any]:
        shape: Any = lambda *sizes: jax.ShapeDtypeStruct(sizes, jnp.float32)
        factors = {"users": shape(self.num_users, self.rank)}
        factors["items"] = shape(self.num_items, self.rank)
        prior = RowPrior(shape(self.rank), shape(self.rank))
        return {"factors": factors, "hyper": {side: prior for side in SIDES}}

    def _check_data(self, data: Data) -> None:
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise TypeError(f"data must be ((user, item), rating), got {_returned.describe(data)}")
        self._check_pairs(data[0])
        if jnp.shape(data[1]) != jnp.shape(data[0][0]):
            raise ValueError(
                f"rating must have one number a pair, of shape {jnp.shape(data[0][0])}, got shape "
                f"{jnp.shape(data[1])}"
            )

    def _check_pairs(self, pairs: Any) -> None:
        if not isinstance(pairs, tuple | list) or len(pairs) != 2:
            raise TypeError(f"pairs must be (user, item), got {_returned.describe(pairs)}")
        if not all(hasattr(number, "dtype") for number in pairs):
            kinds = " and ".join(type(number).__name__ for number in pairs)
            raise TypeError(f"user and item must be arrays, got {kinds}")
        if jnp.ndim(pairs[0]) != 1 or jnp.shape(pairs[0]) != jnp.shape(pairs[1]):
            shapes = jnp.shape(pairs[0]), jnp.shape(pairs[1])
            raise ValueError(f"user and item must be of one shape (n,), got {shapes}")
        sizes = (self.num_users, self.num_items)
        for name, number, size in zip(("user", "item"), pairs, sizes, strict=True):
            if not jnp.issubdtype(number.dtype, jnp.integer):
                raise TypeError(f"{name} must be whole numbers, got {number.dtype}")
            if _checks.certainly(lambda i, size=size: (i < 0) | (i >= size), number):
                raise ValueError(
                    f"{name} must be from 0 to {size - 1}, got {np.min(number)} to {np.max(number)}"
                )


class Factors(Ratings):
    """The factors of a `MatrixFactorization` given its hyper-parameters; see its `given`."""

    model: MatrixFactorization
    hyper: dict[str, RowPrior]

    @property
    def whole(self) -> MatrixFactorization:
        return self.model

    def logprior(self, position: Sides) -> Float[Array, ""]:
        return factor_log_density(self.hyper, position)

    def factors(self, position: Sides) -> Sides:
        return position

    def as_gradient(self, position: Any, factors: Sides) -> Sides:
        return factors

    def check(self, position: Position, data: Data) -> None:
        self.model.check({"factors": position, "hyper": self.hyper}, data)


def factor_log_density(hyper: dict[str, RowPrior], factors: Sides) -> Float[Array, ""]:
    """The log density of all rows of both factors given their priors, up to a constant."""
    users, items = (row_log_density(hyper[side], factors[side]) for side in SIDES)
    return users + items
