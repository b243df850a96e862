"""Stochastic volatility."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PyTree

from ... import _checks, _returned
from ..._types import Position
from .particles import NonlinearStateSpace
from .series_model import check_shapes


class StochasticVolatility(NonlinearStateSpace):
    """Returns y_t whose log variance x_t is a hidden autoregression.

        x_t ~ N(mu + phi (x_{t-1} - mu), sigma^2),   y_t ~ N(0, exp(x_t))

    The position is a dict of three numbers,

        mean: mu,   persistence: artanh phi,   log_scale: log sigma,

    with the priors mu ~ N(m, s^2), (phi + 1) / 2 ~ Beta(a, b) and 1 / sigma^2 ~ Gamma(c, rate d),
    and the Jacobian. The states have no exact law given the rows: `gradients(batcher,
    num_particles)` is the estimator, with a bias of order 1 / num_particles. `ControlVariate` and
    `SVRG` refuse it, whose batches have states drawn at one position.

    Args:
        mean_prior: m, s > 0.
        persistence_prior: a, b > 0.
        precision_prior: c, d > 0.

    Raises:
        TypeError, ValueError: if a number is out of its range, or a shape wrong; if the items are
            not windows.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from sgmc_jax import Window, sample, sgld
        >>> model = StochasticVolatility()
        >>> start = model.position(mean=-1.0, persistence=0.95, scale=0.2)
        >>> _, series = model.simulate_returns(jax.random.key(0), start, 100)
        >>> grad = model.gradients(Window(20, buffer=10), num_particles=50)
        >>> run = sample(jax.random.key(1), sgld(grad, 1e-4), start, series, num_steps=5)
        >>> run.trace["mean"].shape
        (5,)

    Reference:
        Kim, Shephard and Chib (1998), Stochastic volatility: likelihood inference and comparison
        with ARCH models, for model and priors, that of 1 / sigma^2 being Gamma(2.5, .025),
        but for the prior of the mean; Aicher et al. (2019) for windows with particles.
    """

    unconstrained: ClassVar[bool] = True

    mean_prior: tuple[Float[Array, ""], Float[Array, ""]]
    persistence_prior: tuple[Float[Array, ""], Float[Array, ""]]
    precision_prior: tuple[Float[Array, ""], Float[Array, ""]]

    def __init__(
        self,
        mean_prior: Any = (0.0, 10.0),
        persistence_prior: Any = (20.0, 1.5),
        precision_prior: Any = (2.5, 0.025),
    ):
        try:
            mean, scale = mean_prior
        except (TypeError, ValueError):
            raise TypeError(
                f"mean_prior must be a pair (mean, scale), got {_checks.shown(mean_prior)}"
            ) from None
        _checks.positive("mean_prior", scale)
        self.mean_prior = (_checks.as_real(mean, "mean_prior"), _checks.as_real(scale))
        pair = partial(_checks.positive_pair, none=False)
        self.persistence_prior = pair("persistence_prior", persistence_prior, "(a, b)")
        self.precision_prior = pair("precision_prior", precision_prior, "(shape, rate)")

    def position(self, *, mean: Any, persistence: Any, scale: Any) -> dict[str, Float[Array, ""]]:
        """The position of mu, phi in (-1, 1) and sigma > 0."""
        given = {"mean": mean, "persistence": persistence, "scale": scale}
        return self.unconstrain({name: _checks.one_number(name, x) for name, x in given.items()})

    def constrain(self, position: Position) -> dict[str, Float[Array, "..."]]:
        """mu, phi and sigma.

        Args:
            position: with any leading axes, such as chains and draws: `run.trace`.
        """
        return {
            "mean": jnp.asarray(position["mean"]),
            "persistence": jnp.tanh(position["persistence"]),
            "scale": jnp.exp(position["log_scale"]),
        }

    def unconstrain(self, position: dict[str, Any]) -> dict[str, Float[Array, "..."]]:
        """The position, with any leading axes, of mu, phi and sigma as `constrain` tells them."""
        if not isinstance(position, dict) or set(position) != {"mean", "persistence", "scale"}:
            raise ValueError(
                'position must be a dict of "mean", "persistence" and "scale", got '
                f"{jax.tree.map(jnp.shape, position)}"
            )
        mean, phi, scale = (_checks.as_real(position[x], x) for x in _NATURAL)
        _checks.positive("scale", scale)
        if _checks.certainly(lambda phi: abs(phi) >= 1, phi):
            raise ValueError(f"persistence must be between -1 and 1, got {_checks.shown(phi)}")
        return {"mean": mean, "persistence": jnp.arctanh(phi), "log_scale": jnp.log(scale)}

    def natural(self, position: Position) -> dict[str, Float[Array, "..."]]:
        """The same as `constrain`: mu, phi and sigma, of one position or of a trace."""
        return self.constrain(position)

    def logprior(self, position: Position) -> Float[Array, ""]:
        check_shapes("StochasticVolatility", position, dict.fromkeys(_NAMES, ()))
        (m, s), (a, b), (c, d) = self.mean_prior, self.persistence_prior, self.precision_prior
        twice, log_scale = 2 * position["persistence"], position["log_scale"]
        beta = a * jax.nn.log_sigmoid(twice) + b * jax.nn.log_sigmoid(-twice)
        gamma = -2 * c * log_scale - d * jnp.exp(-2 * log_scale)
        return -0.5 * ((position["mean"] - m) / s) ** 2 + beta + gamma

    def draw_first(self, key: Any, position: Position, num: int) -> Float[Array, " n"]:
        mean, _, _, spread = _law(position)
        return mean + spread * jax.random.normal(key, (num,), mean.dtype)

    def draw_next(
        self, key: Any, position: Position, states: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        mean, phi, scale, _ = _law(position)
        noise = jax.random.normal(key, states.shape, states.dtype)
        return mean + phi * (states - mean) + scale * noise

    def log_first(self, position: Position, state: Float[Array, ""] | float) -> Float[Array, ""]:
        mean, _, _, spread = _law(position)
        return norm.logpdf(state, mean, spread)

    def log_next(
        self, position: Position, before: Float[Array, ""] | float, after: Float[Array, ""] | float
    ) -> Float[Array, ""]:
        mean, phi, scale, _ = _law(position)
        return norm.logpdf(after, mean + phi * (before - mean), scale)

    def log_row(
        self, position: Position, state: Float[Array, ""] | float, row: PyTree
    ) -> Float[Array, ""]:
        if _returned.dtype_of(row) is None:
            raise TypeError(f"the series must be one array, got rows {_returned.describe(row)}")
        if jnp.ndim(row):
            raise ValueError(f"the series must be of shape (T,), got rows of shape {row.shape}")
        return norm.logpdf(row, 0.0, jnp.exp(0.5 * state))

    def simulate_returns(
        self, key: Any, position: Position, length: int
    ) -> tuple[Float[Array, " t"], Float[Array, " t"]]:
        """Log variances and a series of `length` returns: the pair `states, series`.

        `simulate` draws the states alone.
        """
        _checks.random_key(key)
        key, row_key = jax.random.split(key)
        states = self.simulate(key, position, length)
        return states, jnp.exp(0.5 * states) * jax.random.normal(row_key, states.shape)


_NAMES = ("mean", "persistence", "log_scale")
_NATURAL = ("mean", "persistence", "scale")


def _law(
    position: Position,
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """mu, phi, sigma, and the deviation of the stationary law."""
    twice, scale = 2 * position["persistence"], jnp.exp(position["log_scale"])
    phi = jnp.tanh(position["persistence"])
    # 1 - phi^2 = 4 s (1 - s), s the logistic function of 2 artanh phi, does not cancel near 1
    square = 4 * jax.nn.sigmoid(twice) * jax.nn.sigmoid(-twice)
    return position["mean"], phi, scale, scale / jnp.sqrt(square)
